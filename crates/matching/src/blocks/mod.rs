//! Matches the basic blocks of two procedures that belong together.
//!
//! | step | file |
//! |---|---|
//! | BMAT's passes over ever fuzzier hashes, each with a one-to-one and a propagation phase | `passes` |
//! | beyond: blocks whose contents and neighbours are similar | `similar` |
//! | what is left, by control flow | `control_flow` |

mod control_flow;
mod passes;
mod similar;

use crate::fingerprint::{Procedure, Way};
use crate::identity::Both;
use crate::matching::{BlockPair, Branch};
use crate::pairing::Pairing;
use relive_profile::model::{EdgeKind, Function, Level};

/// How a pair of blocks was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Found {
    /// By content.
    Content(Level),
    /// By the way control reaches and leaves them.
    ControlFlow,
}

impl Found {
    /// A short name: of the level, or `cf`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Content(level) => level.name(),
            Self::ControlFlow => "cf",
        }
    }
}

/// The blocks of two procedures.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    pub(crate) pairs: Pairing<Found>,
    /// How well the pair of each new block fits, from 0 to 1.
    pub(crate) fits: Vec<f64>,
    /// New blocks that share an old one with others, by control flow: new, old.
    pub(crate) partial: Vec<(u32, u32)>,
}

/// Two procedures side by side.
pub(crate) struct Sides<'a> {
    pub(crate) old: &'a Procedure,
    pub(crate) new: &'a Procedure,
    pub(crate) ids: &'a Both,
}

impl Sides<'_> {
    /// The hashes at a level of all blocks without a partner; nobody asks for others.
    fn hashes(&self, level: Level, pairs: &Pairing<Found>) -> (Vec<u64>, Vec<u64>) {
        let mut hashes = (vec![0; self.old.blocks.len()], vec![0; self.new.blocks.len()]);
        for block in pairs.single_old() {
            hashes.0[block as usize] = self.ids.old.hash(self.old, block, level);
        }
        for block in pairs.single_new() {
            hashes.1[block as usize] = self.ids.new.hash(self.new, block, level);
        }
        hashes
    }

    /// Pairs of blocks, with what else there is to know about them.
    pub(crate) fn block_pairs<'a>(
        &self,
        blocks: &'a Blocks,
    ) -> impl Iterator<Item = BlockPair> + use<'a, '_> {
        blocks.pairs.pairs().map(|(old, new, found)| BlockPair {
            old,
            new,
            found,
            branch: self.branch(old, new),
            fit: (100.0 * blocks.fits[new as usize]) as u8,
        })
    }

    /// The way out of a new block that is `way` out of an old one: where a branch was turned round, they change places.
    fn same_way(&self, old: u32, new: u32, way: Way) -> Way {
        let kind = match way.kind {
            EdgeKind::Taken => EdgeKind::FallThrough,
            EdgeKind::FallThrough => EdgeKind::Taken,
            _ => return way,
        };
        if self.branch(old, new) == Branch::Turned { Way { kind, ..way } } else { way }
    }

    fn branch(&self, old: u32, new: u32) -> Branch {
        let of = |procedure: &Procedure, block: u32| procedure.blocks[block as usize].condition;
        match (of(self.old, old), of(self.new, new)) {
            (Some(a), Some(b)) if a == b => Branch::Same,
            (Some(a), Some(b)) if a == b ^ 1 => Branch::Turned,
            _ => Branch::Other,
        }
    }
}

/// Matches by content only: what the procedures around it can be judged by.
pub(crate) fn by_content(sides: &Sides<'_>) -> Pairing<Found> {
    passes::run(sides)
}

/// How similar blocks must be: before the fuzzier hashes, and in the end. Measured on the versions of the development corpus
/// (`relive-benchmarks precision` and `carry`): higher loses pairs that debug information calls right, lower adds more
/// wrong ones than right ones, and counts end up where they do not belong.
const SIMILAR: f64 = 0.55;
const LEAST_SIMILAR: f64 = 0.4;

/// A pair that fits less well in the end was made when too little was known around it: the two are looked at once more,
/// now that the others have partners. Debug information calls about half of them wrong.
const fn least_fit(found: Found) -> f64 {
    if matches!(found, Found::Content(Level::One)) { 0.2 } else { 0.4 }
}

/// How often strays are looked for: without them, others fit less.
const MOST_PARTINGS: usize = 4;

/// Parts pairs that are in different places, and looks for better ones.
fn part_strays(contents: &mut similar::Contents<'_>, pairs: &mut Pairing<Found>) {
    let mut any = false;
    for _ in 0..MOST_PARTINGS {
        let fits = similar::fits(contents, pairs);
        let strays = similar::strays(contents, pairs, &fits);
        if strays.is_empty() {
            break;
        }
        strays.iter().for_each(|&new| pairs.part(new));
        any = true;
    }
    if any {
        similar::run(contents, pairs, LEAST_SIMILAR);
    }
}

/// Matches everything that can be matched.
pub(crate) fn all(sides: &Sides<'_>, old: &Function, new: &Function) -> Blocks {
    further(sides, old, new, passes::none(sides))
}

/// Matches everything else that can be matched.
pub(crate) fn further(sides: &Sides<'_>, old: &Function, new: &Function, pairs: Pairing<Found>) -> Blocks {
    let mut pairs = passes::some(sides, pairs, &[Level::One]);
    let is_done = |pairs: &Pairing<Found>| {
        pairs.len() == sides.new.blocks.len() || pairs.len() == sides.old.blocks.len()
    };
    let mut contents = None;
    // What is left of BMAT's passes comes in between: similarity is surer than all of them but the first.
    for (levels, least) in
        [(&[][..], SIMILAR), (&passes::ORDER[1..3], LEAST_SIMILAR), (&passes::ORDER[3..], LEAST_SIMILAR)]
    {
        if is_done(&pairs) {
            break;
        }
        pairs = passes::some(sides, pairs, levels);
        let contents = contents.get_or_insert_with(|| similar::Contents::new(sides, old, new));
        similar::run(contents, &mut pairs, least);
    }
    // Where everything is as it was, everything fits.
    let unchanged = pairs.len() == sides.new.blocks.len()
        && pairs.len() == sides.old.blocks.len()
        && pairs.pairs().all(|(old, new, found)| old == new && found == Found::Content(Level::One));
    if unchanged {
        return Blocks { fits: vec![1.0; pairs.len()], pairs, partial: Vec::new() };
    }
    let contents = contents.get_or_insert_with(|| similar::Contents::new(sides, old, new));
    let misfits: Vec<u32> = {
        let fits = similar::fits(contents, &pairs);
        let all = pairs.pairs().filter(|&(_, new, found)| fits[new as usize] < least_fit(found));
        all.map(|(_, new, _)| new).collect()
    };
    if !misfits.is_empty() {
        misfits.iter().for_each(|&new| pairs.part(new));
        similar::run(contents, &mut pairs, LEAST_SIMILAR);
    }
    part_strays(contents, &mut pairs);
    let partial = control_flow::run(sides, &mut pairs);
    let fits = similar::fits(contents, &pairs);
    Blocks { pairs, partial, fits }
}
