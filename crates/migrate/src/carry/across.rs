//! Counts of code that is in another function than before.
//!
//! What was inlined has the counts of its function in proportion to the calls that are gone, and its function, if there still
//! is one, has so much less. What was outlined adds up over all places it was in. A clone has the counts of its original in
//! proportion to the calls that are now of the clone.

use super::Old;
use super::evidence::{self, Evidence, SameCallee, Seen};
use relive_matching::across::{Cloned, Joined};
use relive_profile::model::{Confidence, Count, Module};

/// What of each old function was neither inlined elsewhere nor cloned, from 0 to 1.
pub(super) fn left(old: &Old<'_>, clones: &[f64]) -> Vec<f64> {
    let inlined = old.matching.across.iter().flat_map(|joined| joined.old.copies.iter().skip(1));
    let cloned =
        old.matching.clones.iter().zip(clones).map(|(clone, &share)| (clone.procedures.pair.old, share));
    let mut left = vec![1.0f64; old.module.functions.len()];
    for (procedure, share) in inlined.map(|copy| (copy.procedure, copy.share)).chain(cloned) {
        let left = &mut left[procedure as usize];
        *left = (*left - share).max(0.0);
    }
    left
}

/// The share of the calls of its original that each clone has.
pub(super) fn clones(old: &Old<'_>) -> Vec<f64> {
    let share = |clone: &Cloned| {
        let block = |&(f, b): &(u32, u32)| old.module.functions[f as usize].blocks[b as usize].count;
        let calls = Count::sum(clone.calls.iter().map(block))?.value();
        let original = &old.module.functions[clone.procedures.pair.old as usize];
        let entries = original.entries()?.value();
        (entries > 0).then(|| (calls as f64 / entries as f64).min(1.0))
    };
    old.matching.clones.iter().map(|clone| share(clone).unwrap_or(0.0)).collect()
}

/// Adds what a pair with others inside tells about the new functions in it; `left` is what there still is of the old one.
pub(super) fn add(
    new: &Module,
    joined: &Joined,
    left: f64,
    same: &SameCallee<'_>,
    all: &mut [Option<Evidence>],
) {
    let (old, whole) = (&joined.old.function, &joined.new.function);
    let mut found = evidence::of_function(old, whole, &joined.blocks, &joined.partial, same);
    scale(&mut found, left);
    doubt(joined, &mut found);
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
        for (&(of, edge), odds) in joined.new.edges.iter().zip(&found.odds) {
            if of == number {
                own.odds[edge as usize] = *odds;
            }
        }
        plus(&mut all[copy.procedure as usize], own);
    }
}

/// A match of blocks that are in other functions than before is at most this likely right, in per cent: of what debug
/// information can judge, it calls that share the same statement (`relive-benchmarks precision`).
const CROSSED: Confidence = Confidence::new(90);

/// What crossed a border is less sure.
fn doubt(joined: &Joined, found: &mut Evidence) {
    let mut crossed = vec![false; joined.new.blocks.len()];
    for pair in &joined.blocks {
        let (old, new) = (joined.old.blocks[pair.old as usize].0, joined.new.blocks[pair.new as usize].0);
        crossed[pair.new as usize] = (old, new) != (0, 0);
    }
    let edges = joined.new.function.edges.iter().map(|edge| {
        [edge.from, edge.to].iter().any(|node| node.as_block().is_some_and(|block| crossed[block as usize]))
    });
    let edges: Vec<bool> = edges.collect();
    for (seen, crossed) in found.blocks.iter_mut().zip(crossed).chain(found.edges.iter_mut().zip(edges)) {
        if let Some(seen) = seen.as_mut().filter(|_| crossed) {
            seen.confidence = seen.confidence.min(CROSSED);
        }
    }
}

/// Adds evidence of what happened elsewhere.
pub(super) fn plus(sum: &mut Option<Evidence>, more: Evidence) {
    match sum {
        None => *sum = Some(more),
        Some(sum) => {
            evidence::fill(&mut sum.odds, &more.odds);
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
