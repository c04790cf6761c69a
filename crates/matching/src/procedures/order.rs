//! Compilers and linkers keep the order of functions: those between two pairs of neighbours that are partners are most
//! often partners in their order.

use super::{How, Search, hashes};
use crate::pairing::by_key;
use relive_profile::model::Level;
use std::ops::Range;

/// Gaps larger than this are not looked at: it takes the square of it.
const MOST: usize = 96;

/// How alike procedures in a gap must be: code and references together, and the code alone. Measured on versions of
/// sqlite, lua, onig, quickjs, flac, cadical and ripgrep, stripped.
#[derive(Clone, Copy)]
pub(super) struct Least {
    both: f64,
    code: f64,
}

pub(super) const SURE: Least = Least { both: 0.6, code: 0.35 };
pub(super) const LIKELY: Least = Least { both: 0.35, code: 0.15 };

impl Least {
    /// Many small ones are alike.
    fn both_of(self, insns: u32) -> f64 {
        if insns < 12 { self.both.max(0.6) } else { self.both }
    }
}

/// Procedures of equal code between the same neighbours, in their order if both builds have equally many. Returns how
/// many.
pub(super) fn equal(search: &mut Search<'_>) -> usize {
    let mut found = Vec::new();
    for (old, new) in gaps(search) {
        let old = old.filter(|&i| search.procedures.of_old(i).is_none());
        let new = new.filter(|&i| search.procedures.of_new(i).is_none());
        by_key(
            old.map(|i| (hashes::whole(&search.old.procedures[i as usize], &search.ids.old, Level::One), i)),
            new.map(|i| (hashes::whole(&search.new.procedures[i as usize], &search.ids.new, Level::One), i)),
            |old, new| {
                if old.len() == new.len() {
                    found.extend(old.iter().zip(new).map(|(old, new)| (old.1, new.1)));
                }
            },
        );
    }
    for &(old, new) in &found {
        search.procedures.pair(old, new, How::Hash(Level::One));
    }
    found.len()
}

/// Similar procedures between the same neighbours.
pub(super) fn run(search: &mut Search<'_>, least: Least) {
    for (old, new) in gaps(search) {
        let old: Vec<u32> = old.filter(|&i| search.procedures.of_old(i).is_none()).take(MOST + 1).collect();
        let new: Vec<u32> = new.filter(|&i| search.procedures.of_new(i).is_none()).take(MOST + 1).collect();
        if !old.is_empty() && !new.is_empty() && old.len() <= MOST && new.len() <= MOST {
            align(search, &old, &new, least);
        }
    }
}

/// What lies between two pairs that are neighbours in the new build, and in the same order in the old one.
fn gaps(search: &Search<'_>) -> Vec<(Range<u32>, Range<u32>)> {
    let pairs: Vec<(u32, u32)> = search.procedures.pairs().map(|(old, new, _)| (old, new)).collect();
    let ends = (search.old.procedures.len() as u32, search.new.procedures.len() as u32);
    let mut before = (None, None);
    let mut gaps = Vec::new();
    for (old, new) in pairs.into_iter().chain([ends]) {
        let first = |before: Option<u32>| before.map_or(0, |b| b + 1);
        let (a, b) = (first(before.0), first(before.1));
        if a < old && b < new {
            gaps.push((a..old, b..new));
        }
        before = (Some(old), Some(new));
    }
    gaps
}

/// Pairs two lists without changing their order, so that the sum of likenesses is the greatest.
fn align(search: &mut Search<'_>, old: &[u32], new: &[u32], least: Least) {
    let width = new.len() + 1;
    let mut best = vec![0.0f64; (old.len() + 1) * width];
    let mut alike = vec![0.0f64; old.len() * new.len()];
    for (i, &a) in old.iter().enumerate().rev() {
        for (j, &b) in new.iter().enumerate().rev() {
            let insns = search.old.procedures[a as usize].insns.min(search.new.procedures[b as usize].insns);
            let likeness = search.likeness(a, b);
            let enough = likeness >= least.both_of(insns) && search.alike(a, b) >= least.code;
            let likeness = if enough { likeness } else { 0.0 };
            alike[i * new.len() + j] = likeness;
            let paired = best[(i + 1) * width + j + 1] + likeness;
            best[i * width + j] = paired.max(best[(i + 1) * width + j]).max(best[i * width + j + 1]);
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() && j < new.len() {
        let likeness = alike[i * new.len() + j];
        if likeness > 0.0 && best[i * width + j] <= best[(i + 1) * width + j + 1] + likeness {
            search.procedures.pair(old[i], new[j], How::Order);
            (i, j) = (i + 1, j + 1);
        } else if best[i * width + j] <= best[(i + 1) * width + j] {
            i += 1;
        } else {
            j += 1;
        }
    }
}
