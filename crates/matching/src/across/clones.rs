//! One old procedure that became several: the compiler cloned it for some of its callers, or somebody wrote a variant. A
//! new procedure without a partner is a clone of an old one that has another partner if calls of the old one
//! became calls of it, and most of its code is the same.

use super::{Across, Joined, is_sure, plan};
use crate::blocks::Found;
use crate::matching::Procedures;
use crate::procedures::How;
use rayon::prelude::*;
use std::collections::{BTreeSet, HashMap, HashSet};

/// So much of the clone has to be found,
const LEAST_FOUND: f64 = 0.5;
/// and so many of its instructions in large blocks that are the same.
const LEAST_SURE: u32 = 16;

/// Finds clones; nothing that is inside of others in `joined` is one.
pub(super) fn find(across: &Across<'_>, procedures: &[Procedures], joined: &[Joined]) -> Vec<Procedures> {
    let inside: HashSet<u32> =
        joined.iter().flat_map(|j| j.new.copies.iter().skip(1)).map(|copy| copy.procedure).collect();
    let candidates: BTreeSet<(u32, u32)> = procedures
        .iter()
        .flat_map(|found| redirected(across, found))
        .filter(|(_, new)| !inside.contains(new))
        .collect();
    let mut tried: Vec<(u32, Procedures)> =
        candidates.into_par_iter().filter_map(|(old, new)| attempt(across, old, new)).collect();
    tried.sort_by_key(|(insns, found)| (found.pair.new, u32::MAX - insns, found.pair.old));
    tried.dedup_by_key(|(_, found)| found.pair.new);
    tried.into_iter().map(|(_, found)| found).collect()
}

/// What was called and what is called instead, where that has no partner.
fn redirected(across: &Across<'_>, found: &Procedures) -> Vec<(u32, u32)> {
    let to_old: HashMap<u32, u32> = found.blocks.iter().map(|pair| (pair.new, pair.old)).collect();
    let before = &across.old.sites[found.pair.old as usize];
    let now = across.new.sites[found.pair.new as usize].iter().filter(|site| across.new.is_open(site.callee));
    now.filter_map(|site| {
        let block = to_old.get(&site.block)?;
        let old = before.iter().find(|old| old.block == *block)?;
        across.old.partner[old.callee as usize].map(|_| (old.callee, site.callee))
    })
    .collect()
}

/// Tries a pair; returns how many instructions of the new one are known.
fn attempt(across: &Across<'_>, old: u32, new: u32) -> Option<(u32, Procedures)> {
    let found = across.alone(old, new, How::Clone);
    let procedure = &across.new.print.procedures[new as usize];
    let (mut known, mut sure) = (0, 0);
    for pair in found.blocks.iter().filter(|pair| pair.found != Found::ControlFlow) {
        let insns = procedure.blocks[pair.new as usize].insns;
        known += insns;
        sure += if is_sure(pair.found) && insns >= plan::LEAST_INSNS { insns } else { 0 };
    }
    let enough = f64::from(known) >= LEAST_FOUND * f64::from(procedure.insns) && sure >= LEAST_SURE;
    enough.then_some((known, found))
}
