//! Counts of code that is in another function than before.
//!
//! What was inlined has the counts of its function in proportion to the calls that are gone, and its function, if there still
//! is one, has so much less. What was outlined adds up over all places it was in. A clone has the counts of its original in
//! proportion to the calls that are now of the clone.

use super::Old;
use super::evidence::{self, Evidence, Seen};
use relive_matching::across::Joined;
use relive_matching::matching::Procedures;
use relive_profile::model::{Call, CalledBy, Callee, Count, Function, Module};
use std::collections::HashMap;

/// What of each old function was neither inlined elsewhere nor cloned, from 0 to 1.
pub(super) fn left(old: &Old<'_>, clones: &[f64]) -> Vec<f64> {
    let inlined = old.matching.across.iter().flat_map(|joined| joined.old.copies.iter().skip(1));
    let cloned = old.matching.clones.iter().zip(clones).map(|(clone, &share)| (clone.pair.old, share));
    let mut left = vec![1.0f64; old.module.functions.len()];
    for (procedure, share) in inlined.map(|copy| (copy.procedure, copy.share)).chain(cloned) {
        let left = &mut left[procedure as usize];
        *left = (*left - share).max(0.0);
    }
    left
}

/// The share of the calls of its original that each clone has.
pub(super) fn clones(new: &Module, old: &Old<'_>) -> Vec<f64> {
    let mut calls: HashMap<(u64, u64), u64> = HashMap::new();
    for found in &old.matching.procedures {
        let before = &old.module.functions[found.pair.old as usize];
        let now = callees(&new.functions[found.pair.new as usize]);
        let to_new: HashMap<u32, u32> = found.blocks.iter().map(|pair| (pair.old, pair.new)).collect();
        for (block, callee) in callees(before) {
            let called = to_new.get(&block).and_then(|block| now.iter().find(|(by, _)| by == block));
            if let Some(&(_, instead)) = called {
                let count = before.blocks[block as usize].count.map_or(0, Count::value);
                let sum = calls.entry((callee, instead)).or_default();
                *sum = sum.saturating_add(count);
            }
        }
    }
    let share = |clone: &Procedures| {
        let original = &old.module.functions[clone.pair.old as usize];
        let entries = original.entries().map_or(0, Count::value);
        let calls = calls.get(&(original.address, new.functions[clone.pair.new as usize].address))?;
        (entries > 0).then(|| (*calls as f64 / entries as f64).min(1.0))
    };
    old.matching.clones.iter().map(|clone| share(clone).unwrap_or(0.0)).collect()
}

/// Blocks that call functions of the module, and what they call.
fn callees(function: &Function) -> Vec<(u32, u64)> {
    let call = |call: &Call| match (call.by, call.callee) {
        (CalledBy::Block(block), Callee::Direct { address, .. }) => Some((block, address)),
        (CalledBy::Edge(edge), Callee::Direct { address, .. }) => {
            Some((function.edges.get(edge as usize)?.from.as_block()?, address))
        }
        _ => None,
    };
    function.calls.iter().filter_map(call).collect()
}

/// Adds what a pair with others inside tells about the new functions in it; `left` is what there still is of the old one.
pub(super) fn add(new: &Module, joined: &Joined, left: f64, all: &mut [Option<Evidence>]) {
    let (old, whole) = (&joined.old.function, &joined.new.function);
    let mut found = evidence::of_function(old, whole, &joined.blocks, &joined.partial);
    scale(&mut found, left);
    for (copy, number) in joined.new.copies.iter().zip(0..) {
        let function = &new.functions[copy.procedure as usize];
        let mut own = Evidence::nothing(function);
        for (&(of, block), seen) in joined.new.blocks.iter().zip(&found.blocks) {
            if of == number {
                own.blocks[block as usize] = *seen;
            }
        }
        for (&(of, edge), seen) in joined.new.edges.iter().zip(&found.edges) {
            if of == number {
                own.edges[edge as usize] = *seen;
            }
        }
        plus(&mut all[copy.procedure as usize], own);
    }
}

/// Adds evidence of what happened elsewhere.
pub(super) fn plus(sum: &mut Option<Evidence>, more: Evidence) {
    match sum {
        None => *sum = Some(more),
        Some(sum) => {
            let all = sum.blocks.iter_mut().zip(more.blocks).chain(sum.edges.iter_mut().zip(more.edges));
            for (a, b) in all {
                *a = match (*a, b) {
                    (Some(a), Some(b)) => Some(Seen {
                        count: a.count.saturating_add(b.count),
                        origin: a.origin.max(b.origin),
                        confidence: a.confidence.min(b.confidence),
                    }),
                    (a, b) => a.or(b),
                };
            }
        }
    }
}

/// Takes a part of all counts.
pub(super) fn scale(evidence: &mut Evidence, part: f64) {
    if part < 1.0 {
        for seen in evidence.blocks.iter_mut().chain(&mut evidence.edges).flatten() {
            seen.count = (seen.count as f64 * part).round() as u64;
        }
    }
}
