//! Atomic changes from one build to the next: blocks and data that are not what they were.

use crate::blocks::Blocks;
use crate::builds::{Builds, Place, place};
use crate::same::Functions;
use crate::significance::Weights;
use rayon::prelude::*;
use relive_profile::model::{DataBlock, DataKind, Module, Pointer};

/// What changed, on both sides.
#[derive(Clone, Debug)]
pub struct Changes {
    /// Blocks of the old build that are gone or do something else now.
    pub old: Blocks,
    /// Blocks of the new build that are new or did something else before.
    pub new: Blocks,
    /// Data of the old build that is gone or holds something else now.
    pub old_data: Vec<u32>,
    /// Data of the new build that is new or held something else before.
    pub new_data: Vec<u32>,
    /// How much of the program that is: instructions in blocks that changed of all instructions, of both builds.
    pub significance: f64,
}

impl Changes {
    /// What changed by the code alone.
    #[must_use]
    pub fn of_builds(builds: &Builds<'_>) -> Self {
        let mut changes = Self {
            old: Blocks::all(builds.old),
            new: Blocks::all(builds.new),
            old_data: Vec::new(),
            new_data: Vec::new(),
            significance: 0.0,
        };
        let same: Vec<Vec<(u32, u32)>> = builds
            .matching
            .procedures
            .par_iter()
            .map(|pair| {
                let both = Functions::new(builds, pair.pair.old, pair.pair.new);
                let same = pair.blocks.iter().filter(|blocks| both.same(blocks.old, blocks.new));
                same.map(|blocks| (blocks.old, blocks.new)).collect()
            })
            .collect();
        for (pair, blocks) in builds.matching.procedures.iter().zip(same) {
            for (old, new) in blocks {
                changes.old.remove(pair.pair.old, old);
                changes.new.remove(pair.pair.new, new);
            }
        }
        changes.compare_data(builds);
        changes.weigh(builds, &Weights::default());
        changes
    }

    fn compare_data(&mut self, builds: &Builds<'_>) {
        let mut kept = vec![false; builds.old.data.len()];
        for new in 0..builds.new.data.len() as u32 {
            match builds.old_data(new) {
                Some(old) if same_data(builds, old, new) => kept[old as usize] = true,
                _ => self.new_data.push(new),
            }
        }
        self.old_data = (0..).zip(&kept).filter(|(_, kept)| !**kept).map(|(old, _)| old).collect();
    }

    /// Takes back what is said of functions that did not change, by a witness who knows old and new ones: the compiler may have
    /// written them down in another way, but they do the same.
    pub fn take_back(&mut self, builds: &Builds<'_>, is_same: &dyn Fn(u32, u32) -> bool) {
        for pair in &builds.matching.procedures {
            let (old, new) = (pair.pair.old, pair.pair.new);
            if is_same(old, new) {
                self.old.remove_function(old);
                self.new.remove_function(new);
            }
        }
    }

    /// Works out how much of the program changed.
    pub fn weigh(&mut self, builds: &Builds<'_>, weights: &Weights) {
        self.significance = weights.significance(builds, &self.old, &self.new);
    }

    /// Whether anything of a new function, or of the old one it was, changed; a function without a partner has changed.
    #[must_use]
    pub fn touch(&self, builds: &Builds<'_>, new: u32) -> bool {
        let before = builds.old_function(new).is_none_or(|old| self.old.touches(old));
        before || self.new.touches(new)
    }
}

/// Whether data holds the same: its content, and in place of pointers the same of their partners.
fn same_data(builds: &Builds<'_>, old: u32, new: u32) -> bool {
    let (a, b) = (&builds.old.data[old as usize], &builds.new.data[new as usize]);
    let zeroed = |kind| kind == DataKind::Zeroed;
    // Where a zeroed variable ends is where the next one begins: nothing that anyone could read.
    if zeroed(a.kind) && zeroed(b.kind) {
        return true;
    }
    // How long a text is, its hash tells: what follows belongs to nobody.
    let same_len = a.size == b.size || a.kind.is_text() || a.kind == DataKind::JumpTable;
    // What looks like a text and is nothing but pointers, of the loader above all, has other bytes wherever they lead.
    let only_pointers = |module: &Module, block: &DataBlock| {
        block.size > 0 && pointers(module, block.address, block.size).len() as u64 * 8 == block.size
    };
    let both = only_pointers(builds.old, a) && only_pointers(builds.new, b);
    (a.kind == b.kind || a.kind.is_text() && b.kind.is_text())
        && (a.hash == b.hash || both)
        && same_len
        && same_pointers(builds, (a.address, a.size), (b.address, b.size))
}

/// The pointers in some data.
fn pointers(module: &Module, start: u64, len: u64) -> &[Pointer] {
    let from = module.pointers.partition_point(|p| p.at < start);
    let to = module.pointers.partition_point(|p| p.at < start.saturating_add(len));
    &module.pointers[from..to]
}

fn same_pointers(builds: &Builds<'_>, (old, old_len): (u64, u64), (new, new_len): (u64, u64)) -> bool {
    let a = pointers(builds.old, old, old_len);
    let b = pointers(builds.new, new, new_len);
    a.len() == b.len()
        && a.iter().zip(b).all(|(x, y)| {
            let known = |module: &Module, to| place(module, to).is_some();
            let lost = !known(builds.old, x.to) && !known(builds.new, y.to);
            x.at - old == y.at - new && (lost || builds.same_place(x.to, y.to))
        })
}

/// The function that has the code at an address, if it is its first.
pub(crate) fn function_at(module: &Module, address: u64) -> Option<u32> {
    match place(module, address)? {
        Place::Function(function, 0) => Some(function),
        _ => None,
    }
}
