//! BMAT's passes: blocks with equal hashes are candidates; those that are the only candidate of each other are matched
//! first, then those whose neighbours are.

use super::{Found, Sides};
use crate::fingerprint::{Adjacency, Procedure};
use crate::levels::mix;
use crate::pairing::{Pairing, by_key};
use relive_profile::model::Level;
use std::collections::BTreeMap;

/// BMAT's order.
pub(crate) const ORDER: [Level; 7] =
    [Level::One, Level::Three, Level::Two, Level::LastOne, Level::Four, Level::LastThree, Level::Five];

/// Nothing is matched yet.
pub(crate) fn none(sides: &Sides<'_>) -> Pairing<Found> {
    Pairing::new(sides.old.blocks.len(), sides.new.blocks.len())
}

/// Runs all passes.
pub(crate) fn run(sides: &Sides<'_>) -> Pairing<Found> {
    some(sides, none(sides), &ORDER)
}

/// Goes on from `pairs` with passes at `levels`.
pub(crate) fn some(sides: &Sides<'_>, pairs: Pairing<Found>, levels: &[Level]) -> Pairing<Found> {
    let by_old = pairs.pairs().map(|(old, new, _)| (old, new)).collect();
    let mut passes = Passes { sides, pairs, by_old };
    if passes.pairs.len() == 0 {
        passes.in_context();
    }
    for &level in levels {
        if passes.pairs.len() == sides.old.blocks.len().min(sides.new.blocks.len()) {
            break;
        }
        let (old, new) = sides.hashes(level);
        if level != Level::LastThree {
            passes.one_to_one(level, &old, &new);
        }
        passes.propagate(level, &old, &new);
        if matches!(level, Level::One | Level::Three) {
            passes.in_order(level, &old, &new);
            passes.propagate(level, &old, &new);
        }
        if level == Level::One {
            passes.entries(&old, &new);
            passes.propagate(level, &old, &new);
        }
    }
    passes.pairs
}

struct Passes<'a> {
    sides: &'a Sides<'a>,
    pairs: Pairing<Found>,
    /// The pairs by their old block, to see what a new pair would cross.
    by_old: BTreeMap<u32, u32>,
}

impl Passes<'_> {
    fn pair(&mut self, old: u32, new: u32, level: Level) -> bool {
        let paired = self.pairs.pair(old, new, Found::Content(level));
        if paired {
            self.by_old.insert(old, new);
        }
        paired
    }

    /// Whether a pair would cross one that is there: in one build before it, in the other behind.
    fn crosses(&self, old: u32, new: u32) -> bool {
        let before = self.by_old.range(..old).next_back();
        let behind = self.by_old.range(old..).next();
        before.is_some_and(|(_, &other)| other > new) || behind.is_some_and(|(_, &other)| other < new)
    }

    fn singles(&self) -> (Vec<u32>, Vec<u32>) {
        (self.pairs.single_old().collect(), self.pairs.single_new().collect())
    }

    /// Beyond BMAT: a block that is the only one of its content among equal neighbours is surer than one that is the
    /// only one of its content. Where one of several equal blocks was added or deleted, this keeps the others apart.
    fn in_context(&mut self) {
        let (old, new) = self.sides.hashes(Level::One);
        let (old, new) = (context(self.sides.old, &old), context(self.sides.new, &new));
        let singles = self.singles();
        let keyed = |hashes: &[u64], singles: &[u32]| -> Vec<(u64, u32)> {
            singles.iter().map(|&b| (hashes[b as usize], b)).collect()
        };
        by_key(keyed(&old, &singles.0).into_iter(), keyed(&new, &singles.1).into_iter(), |old, new| {
            if let ([(_, old)], [(_, new)]) = (old, new) {
                self.pair(*old, *new, Level::One);
            }
        });
    }

    /// A function is entered at its entry, whatever is there.
    fn entries(&mut self, old: &[u64], new: &[u64]) {
        let (Some(a), Some(b)) = (self.sides.old.entry, self.sides.new.entry) else { return };
        if old[a as usize] == new[b as usize] {
            self.pair(a, b, Level::One);
        }
    }

    fn one_to_one(&mut self, level: Level, old: &[u64], new: &[u64]) {
        let singles = self.singles();
        let mut found = Vec::new();
        by_key(
            singles.0.iter().map(|&b| (old[b as usize], b)),
            singles.1.iter().map(|&b| (new[b as usize], b)),
            |old, new| {
                if let ([(_, old)], [(_, new)]) = (old, new) {
                    found.push((*old, *new));
                }
            },
        );
        // In the order of the code, so that what crosses does not depend on hashes.
        found.sort_unstable();
        for (old, new) in found {
            let len = self.sides.old.blocks[old as usize].insns;
            let allowed = match level {
                Level::LastOne => !self.crosses(old, new),
                Level::Three => len > 3 || !self.crosses(old, new),
                Level::Four | Level::Five => len > 3 || len == 3 && !self.crosses(old, new),
                _ => len > 2 || !self.crosses(old, new),
            };
            if allowed {
                self.pair(old, new, level);
            }
        }
    }

    /// Several blocks with the same hash, equally many in both builds: in their order, if nothing is crossed.
    fn in_order(&mut self, level: Level, old: &[u64], new: &[u64]) {
        let singles = self.singles();
        let mut found = Vec::new();
        by_key(
            singles.0.iter().map(|&b| (old[b as usize], b)),
            singles.1.iter().map(|&b| (new[b as usize], b)),
            |old, new| {
                if old.len() == new.len() {
                    found.extend(old.iter().zip(new).map(|(old, new)| (old.1, new.1)));
                }
            },
        );
        found.sort_unstable();
        for (old, new) in found {
            if !self.crosses(old, new) {
                self.pair(old, new, level);
            }
        }
    }

    /// Blocks with equal hashes whose predecessors or successors are partners.
    fn propagate(&mut self, level: Level, old: &[u64], new: &[u64]) {
        let mut work: Vec<(u32, u32)> = self.pairs.pairs().map(|(old, new, _)| (old, new)).collect();
        while let Some((a, b)) = work.pop() {
            for (olds, news) in
                [(&self.sides.old.out, &self.sides.new.out), (&self.sides.old.into, &self.sides.new.into)]
            {
                self.neighbours(level, (olds, news), (a, b), (old, new), &mut work);
            }
        }
    }

    fn neighbours(
        &mut self,
        level: Level,
        (olds, news): (&Adjacency, &Adjacency),
        (a, b): (u32, u32),
        (old, new): (&[u64], &[u64]),
        work: &mut Vec<(u32, u32)>,
    ) {
        let free: Vec<_> = news.of(b).iter().filter(|(n, _)| self.pairs.of_new(*n).is_none()).collect();
        if free.is_empty() {
            return;
        }
        // First those that are reached the same way, then any.
        for same_kind in [true, false] {
            for &(x, way) in olds.of(a) {
                if self.pairs.of_old(x).is_some() {
                    continue;
                }
                let hash = old[x as usize];
                let mut fitting = free.iter().filter(|(n, w)| {
                    new[*n as usize] == hash && (!same_kind || *w == way) && self.pairs.of_new(*n).is_none()
                });
                if let Some(&&(y, _)) = fitting.next()
                    && self.pair(x, y, level)
                {
                    work.push((x, y));
                }
            }
        }
    }
}

/// The hashes of blocks together with those of their neighbours.
fn context(procedure: &Procedure, hashes: &[u64]) -> Vec<u64> {
    let around = |adjacency: &Adjacency, block: u32| {
        // The order of neighbours does not matter, that of jump tables least of all.
        adjacency.of(block).iter().fold(0u64, |sum, &(n, _)| sum.wrapping_add(mix(7, hashes[n as usize])))
    };
    (0..hashes.len() as u32)
        .map(|b| {
            mix(mix(hashes[b as usize], around(&procedure.out, b)), around(&procedure.into, b).rotate_left(9))
        })
        .collect()
}
