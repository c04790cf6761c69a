//! What changes can affect: ProfMig's change impact analyses.
//!
//! | | marks |
//! |---|---|
//! | [`Bohner`] (BA) | functions with changes and all they may call, directly or not |
//! | [`Aggressive`] (AG) | functions with changes |
//! | [`Slicing`] (SL) | blocks in the forward slice of what changed, in both builds |
//! | [`Hybrid`] | by how much changed: one analysis above a threshold, another one below |
//!
//! Others are added by implementing [`Analysis`].

use crate::blocks::Blocks;
use crate::builds::Builds;
use crate::calls::Calls;
use crate::changes::Changes;
use crate::constructs::Level;
use crate::idle::Idle;
use crate::slice::{Seeds, Slice};
use relive_profile::model::Module;

/// What may behave in another way.
#[derive(Clone, Debug)]
pub struct Affected {
    /// The smallest constructs that the analysis tells apart.
    pub level: Level,
    /// Blocks of the old build.
    pub old: Blocks,
    /// Blocks of the new build.
    pub new: Blocks,
}

/// A change impact analysis. It knows nothing of profiles.
pub trait Analysis {
    /// A short name.
    fn name(&self) -> &str;

    /// All that the changes can affect.
    fn affected(&self, builds: &Builds<'_>, changes: &Changes) -> Affected;
}

/// AG: only functions with changes.
pub struct Aggressive;

impl Analysis for Aggressive {
    fn name(&self) -> &str {
        "ag"
    }

    fn affected(&self, builds: &Builds<'_>, changes: &Changes) -> Affected {
        let mut affected =
            Affected { level: Level::FUNCTION, old: Blocks::none(builds.old), new: Blocks::none(builds.new) };
        let of = |blocks: &Blocks, module: &Module| -> Vec<u32> {
            (0..module.functions.len() as u32).filter(|&f| blocks.touches(f)).collect()
        };
        for old in of(&changes.old, builds.old) {
            affected.old.insert_function(old);
            builds.new_function(old).into_iter().for_each(|new| affected.new.insert_function(new));
        }
        for new in of(&changes.new, builds.new) {
            affected.new.insert_function(new);
            builds.old_function(new).into_iter().for_each(|old| affected.old.insert_function(old));
        }
        affected
    }
}

/// BA: functions with changes, and everything downstream (Bohner and Arnold).
pub struct Bohner;

impl Analysis for Bohner {
    fn name(&self) -> &str {
        "ba"
    }

    fn affected(&self, builds: &Builds<'_>, changes: &Changes) -> Affected {
        let mut affected = Aggressive.affected(builds, changes);
        for (module, blocks) in [(builds.old, &mut affected.old), (builds.new, &mut affected.new)] {
            let changed: Vec<u32> =
                (0..module.functions.len() as u32).filter(|&function| blocks.touches(function)).collect();
            for function in Calls::of(module).downstream(&changed) {
                blocks.insert_function(function);
            }
        }
        affected
    }
}

/// SL: what depends on changes, soundly.
pub struct Slicing {
    /// Whether blocks that run as often as before but may compute something else are affected too.
    pub values: bool,
    /// Whether it is about the runs that were measured, of which the old build has counts, and not about all there may be: then what did not
    /// run, and need not run now, affects nobody.
    pub measured: bool,
}

impl Analysis for Slicing {
    fn name(&self) -> &str {
        "sl"
    }

    fn affected(&self, builds: &Builds<'_>, changes: &Changes) -> Affected {
        let idle = if self.measured { Idle::of_builds(builds, changes) } else { None };
        let idle = idle.unwrap_or_else(|| Idle {
            old: Blocks::none(builds.old),
            new: Blocks::none(builds.new),
            seeds: changes.new.clone(),
        });
        let of = |module: &Module, blocks: &Blocks, data: &[u32], idle: Blocks| {
            let slice = Slice::forward(module, &Seeds { blocks: blocks.clone(), data: data.to_vec(), idle });
            let mut all = slice.runs;
            all.extend(&slice.ways);
            if self.values {
                all.extend(&slice.values);
                all.extend(blocks);
            }
            all
        };
        Affected {
            level: Level::STATEMENT,
            old: of(builds.old, &changes.old, &changes.old_data, idle.old),
            new: of(builds.new, &idle.seeds, &changes.new_data, idle.new),
        }
    }
}

/// One analysis if much changed, another if little did.
pub struct Hybrid<A, B> {
    /// If more than the threshold changed.
    pub above: A,
    /// If not.
    pub below: B,
    /// A share of the program: the paper's is [`THRESHOLD`].
    pub threshold: f64,
}

/// Above this share of the program, changes are large.
pub const THRESHOLD: f64 = 0.1;

impl<A: Analysis, B: Analysis> Analysis for Hybrid<A, B> {
    fn name(&self) -> &str {
        "hybrid"
    }

    fn affected(&self, builds: &Builds<'_>, changes: &Changes) -> Affected {
        if changes.significance > self.threshold {
            self.above.affected(builds, changes)
        } else {
            self.below.affected(builds, changes)
        }
    }
}
