//! Procedures with the same code, at a level of fuzziness.

use super::{How, Search};
use crate::fingerprint::Procedure;
use crate::identity::Identities;
use crate::levels::mix;
use crate::pairing::by_key;
use rayon::prelude::*;
use relive_profile::model::Level;

/// The fewest instructions that make a procedure one of a kind at a level.
const fn least_insns(level: Level) -> u32 {
    match level {
        Level::Exact | Level::One => 4,
        Level::Three => 12,
        _ => 24,
    }
}

/// Groups of equal procedures up to this size are matched in their order, if both builds have equally many.
const MOST_EQUAL: usize = 8;

/// Fuzzy levels need this much of the code to be alike, block by block.
const LEAST_ALIKE: f64 = 0.5;

/// Matches procedures whose code is equal at `level` and occurs once. Returns how many.
pub(super) fn unique(search: &mut Search<'_>, level: Level) -> usize {
    run(search, level, 1)
}

/// The same for small groups of equals, in their order.
pub(super) fn equal(search: &mut Search<'_>, level: Level) -> usize {
    run(search, level, MOST_EQUAL)
}

fn run(search: &mut Search<'_>, level: Level, most: usize) -> usize {
    let singles: (Vec<u32>, Vec<u32>) =
        (search.procedures.single_old().collect(), search.procedures.single_new().collect());
    let least = least_insns(level).max(search.least_insns);
    let hashed = |procedures: &[Procedure], ids: &Identities, singles: &[u32]| -> Vec<(u64, u32)> {
        let large = singles.par_iter().filter(|&&i| procedures[i as usize].insns >= least);
        large.map(|&i| (whole(&procedures[i as usize], ids, level), i)).collect()
    };
    let old = hashed(&search.old.procedures, &search.ids.old, &singles.0);
    let new = hashed(&search.new.procedures, &search.ids.new, &singles.1);
    let mut found = Vec::new();
    by_key(old.into_iter(), new.into_iter(), |old, new| {
        if old.len() == new.len() && old.len() <= most {
            found.extend(old.iter().zip(new).map(|(old, new)| (old.1, new.1)));
        }
    });
    let before = search.procedures.len();
    for (old, new) in found {
        let sure = matches!(level, Level::Exact | Level::One | Level::Three);
        if sure || search.alike(old, new) >= LEAST_ALIKE {
            search.procedures.pair(old, new, How::Hash(level));
        }
    }
    search.procedures.len() - before
}

/// The hash of a procedure: its blocks in their order, and where they lead.
pub(super) fn whole(procedure: &Procedure, ids: &Identities, level: Level) -> u64 {
    (0..procedure.blocks.len() as u32).fold(procedure.blocks.len() as u64, |hash, block| {
        let shape = procedure.out.of(block).iter().fold(0, |shape, &(to, _)| mix(shape, to.into()));
        mix(mix(hash, ids.hash(procedure, block, level)), shape)
    })
}
