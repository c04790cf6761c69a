//! One old procedure that became several: the compiler cloned it for some of its callers, or somebody wrote a variant. A
//! new procedure without a partner is a clone of an old one that has another partner if calls of the old one
//! became calls of it, and most of its code is the same.

use super::calls::Site;
use super::{Across, Joined, is_sure, plan};
use crate::blocks::Found;
use crate::matching::Procedures;
use crate::procedures::How;
use hashbrown::{HashMap, HashSet};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// So much of the clone has to be found,
const LEAST_FOUND: f64 = 0.5;
/// and so many of its instructions in large blocks that are the same.
const LEAST_SURE: u32 = 16;

/// A new procedure without a partner that is like an old one which has one.
#[derive(Clone, Debug)]
pub struct Cloned {
    /// The old procedure and the clone, with their blocks.
    pub procedures: Procedures,
    /// Where the old one was called and the clone is called now: old procedures and their blocks.
    pub calls: Vec<(u32, u32)>,
}

/// Finds clones; nothing that is inside of others in `joined` is one.
pub(super) fn find(across: &Across<'_>, procedures: &[Procedures], joined: &[Joined]) -> Vec<Cloned> {
    let inside: HashSet<u32> =
        joined.iter().flat_map(|j| j.new.copies.iter().skip(1)).map(|copy| copy.procedure).collect();
    let mut calls: BTreeMap<(u32, u32), Vec<(u32, u32)>> = BTreeMap::new();
    for found in procedures {
        for (old, new, block) in redirected(across, found) {
            if !inside.contains(&new) {
                calls.entry((old, new)).or_default().push((found.pair.old, block));
            }
        }
    }
    let mut tried: Vec<(u32, Cloned)> =
        calls.into_par_iter().filter_map(|((old, new), calls)| attempt(across, old, new, calls)).collect();
    tried.sort_by_key(|(insns, found)| {
        let pair = found.procedures.pair;
        (pair.new, u32::MAX - insns, pair.old)
    });
    tried.dedup_by_key(|(_, found)| found.procedures.pair.new);
    tried.into_iter().map(|(_, found)| found).collect()
}

/// What was called, what without a partner is called instead, and the old block that called. If everything that was
/// called still is as often, calls were added and none became another.
fn redirected(across: &Across<'_>, found: &Procedures) -> Vec<(u32, u32, u32)> {
    let to_old: HashMap<u32, u32> = found.blocks.iter().map(|pair| (pair.new, pair.old)).collect();
    let before = &across.old.sites[found.pair.old as usize];
    let after = &across.new.sites[found.pair.new as usize];
    let is_less = |old: u32, new: u32| {
        let count = |sites: &[Site], callee| sites.iter().filter(|site| site.callee == callee).count();
        count(after, new) < count(before, old)
    };
    let now = after.iter().filter(|site| across.new.is_open(site.callee));
    now.filter_map(|site| {
        let block = to_old.get(&site.block)?;
        let old = before.iter().find(|old| old.block == *block)?.callee;
        let partner = across.old.partner[old as usize]?;
        is_less(old, partner).then_some((old, site.callee, *block))
    })
    .collect()
}

/// Tries a pair; returns how many instructions of the new one are known.
fn attempt(across: &Across<'_>, old: u32, new: u32, calls: Vec<(u32, u32)>) -> Option<(u32, Cloned)> {
    let found = across.alone(old, new, How::Clone);
    let procedure = &across.new.print.procedures[new as usize];
    let (mut known, mut sure) = (0, 0);
    for pair in found.blocks.iter().filter(|pair| pair.found != Found::ControlFlow) {
        let insns = procedure.blocks[pair.new as usize].insns;
        known += insns;
        sure += if is_sure(pair.found) && insns >= plan::LEAST_INSNS { insns } else { 0 };
    }
    let enough = f64::from(known) >= LEAST_FOUND * f64::from(procedure.insns) && sure >= LEAST_SURE;
    enough.then_some((known, Cloned { procedures: found, calls }))
}
