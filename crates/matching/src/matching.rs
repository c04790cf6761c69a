//! The whole map between two builds.

use crate::blocks::{self, Found, Sides};
use crate::fingerprint::Fingerprint;
use crate::largest_first::largest_first;
use crate::procedures::{Search, Stage};
use crate::{across, data, procedures};

/// A pair of procedures or data blocks, by their index in the modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair<H> {
    /// In the old build.
    pub old: u32,
    /// In the new build.
    pub new: u32,
    /// How it was found.
    pub how: H,
}

/// A pair of blocks, by their index in their functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPair {
    /// In the old function.
    pub old: u32,
    /// In the new function.
    pub new: u32,
    /// How it was found.
    pub found: Found,
    /// Whether both end with the same branch.
    pub branch: Branch,
    /// How much of what is around them are partners, in per cent.
    pub fit: u8,
}

/// How the branches at the end of two blocks compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Branch {
    /// They ask the same.
    Same,
    /// They ask the opposite, so that the ways have changed places.
    Turned,
    /// They ask something else, or there is none.
    #[default]
    Other,
}

/// A pair of procedures with their blocks.
#[derive(Clone, Debug)]
pub struct Procedures {
    /// Which procedures.
    pub pair: Pair<procedures::How>,
    /// Blocks that belong together, by the new one.
    pub blocks: Vec<BlockPair>,
    /// New blocks that share an old one by control flow: new, old.
    pub partial: Vec<(u32, u32)>,
}

/// How many blocks of the new build have a partner after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockStage {
    /// What was done.
    pub name: &'static str,
    /// How many new blocks have a partner then.
    pub matched: usize,
}

/// The map between two builds.
#[derive(Clone, Debug)]
pub struct Matching {
    /// Procedures, by the new one.
    pub procedures: Vec<Procedures>,
    /// Procedures that have others inside which their partners call, or the other way around.
    pub across: Vec<across::Joined>,
    /// New procedures without a partner that are like old ones which have one.
    pub clones: Vec<across::Cloned>,
    /// Data, by the new one.
    pub data: Vec<Pair<data::How>>,
    /// Procedures after each step.
    pub stages: Vec<Stage>,
    /// Blocks after each step.
    pub block_stages: Vec<BlockStage>,
}

/// Finds what of the old build is in the new one.
#[must_use]
pub fn match_builds(old: &Fingerprint<'_>, new: &Fingerprint<'_>) -> Matching {
    let mut search = Search::new(old, new);
    search.run();
    let pairs: Vec<Pair<procedures::How>> =
        search.procedures.pairs().map(|(old, new, how)| Pair { old, new, how }).collect();
    let size = |pair: &Pair<procedures::How>| {
        let (a, b) = (&old.procedures[pair.old as usize], &new.procedures[pair.new as usize]);
        a.blocks.len() + b.blocks.len()
    };
    let mut procedures: Vec<Procedures> = largest_first(&pairs, size, |&pair| {
        let (a, b) = (pair.old as usize, pair.new as usize);
        let sides = Sides { old: &old.procedures[a], new: &new.procedures[b], ids: &search.ids };
        let found = blocks::all(&sides, &old.module.functions[a], &new.module.functions[b]);
        let blocks = sides.block_pairs(&found).collect();
        Procedures { pair, blocks, partial: found.partial }
    });
    let (across, clones) = across::run(old, new, &search.ids, &mut procedures);
    let block_stages = block_stages(&procedures);
    Matching {
        procedures,
        across,
        clones,
        data: search.data.pairs().map(|(old, new, how)| Pair { old, new, how }).collect(),
        stages: search.stages,
        block_stages,
    }
}

/// BMAT's table 5, and one step more.
fn block_stages(procedures: &[Procedures]) -> Vec<BlockStage> {
    use relive_profile::model::Level;
    let blocks = || procedures.iter().flat_map(|p| &p.blocks);
    let count = |keep: &dyn Fn(Found) -> bool| blocks().filter(|b| keep(b.found)).count();
    let partial: usize = procedures.iter().map(|p| p.partial.len()).sum();
    let hashed = |found| matches!(found, Found::Content(level) if level != Level::Similar);
    vec![
        BlockStage { name: "first hash", matched: count(&|f| f == Found::Content(Level::One)) },
        BlockStage { name: "all hashes", matched: count(&hashed) },
        BlockStage { name: "similar blocks", matched: count(&|f| f != Found::ControlFlow) },
        BlockStage { name: "control flow, one to one", matched: blocks().count() },
        BlockStage { name: "control flow, partial", matched: blocks().count() + partial },
    ]
}
