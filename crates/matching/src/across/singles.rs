//! Procedures without a partner, which nothing within them tells: as long as what one calls is inside of the other, they
//! are not alike. Those that partners call, and those that share rare blocks, are tried with their callees inside.

use super::{Across, Spliced, is_sure, plan};
use crate::blocks::Found;
use crate::fingerprint::Fingerprint;
use crate::largest_first::largest_first;
use crate::levels::index;
use crate::matching::Procedures;
use crate::procedures::How;
use hashbrown::HashMap;
use relive_profile::model::Level;
use std::collections::BTreeSet;

/// So much of the new procedure has to be found.
const LEAST_FOUND: f64 = 0.3;
/// And so many of its instructions in large blocks that are the same.
const LEAST_SURE: u32 = 24;

/// Smaller procedures are found by other means, or not at all.
const LEAST_INSNS: u32 = 12;

/// More procedures without a partner than this are not tried against each other at one place.
const MOST_CALLED: usize = 6;

/// Blocks of at least this size tell procedures apart,
const LEAST_RARE_INSNS: u32 = 6;
/// if no more have them than this,
const MOST_HOLDERS: usize = 4;
/// and if so many instructions are in such blocks.
const LEAST_SHARED: u32 = 18;

/// Finds partners of those that have none.
pub(super) fn find(across: &Across<'_>, procedures: &[Procedures]) -> Vec<Procedures> {
    let mut candidates = called(across, procedures);
    candidates.extend(alike(across));
    let candidates: Vec<(u32, u32)> = candidates.into_iter().collect();
    let tried = largest_first(
        &candidates,
        |&(old, new)| across.size(old, new),
        |&(old, new)| attempt(across, old, new),
    );
    let mut tried: Vec<Attempt> = tried.into_iter().flatten().collect();
    tried.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.key().cmp(&b.key())));
    // What is a partner by itself is not inside of others as well, as far as is known.
    let (mut partners, mut inside) = <(Both, Both)>::default();
    tried.retain(|attempt| {
        let (old, new) = attempt.key();
        let free = !partners.0.contains(&old)
            && !partners.1.contains(&new)
            && !inside.0.contains(&old)
            && !inside.1.contains(&new)
            && partners.0.is_disjoint(&attempt.inside.0)
            && partners.1.is_disjoint(&attempt.inside.1);
        if free {
            partners.0.insert(old);
            partners.1.insert(new);
            inside.0.extend(&attempt.inside.0);
            inside.1.extend(&attempt.inside.1);
        }
        free
    });
    tried.into_iter().map(|attempt| attempt.found).collect()
}

/// Old procedures and new ones.
type Both = (BTreeSet<u32>, BTreeSet<u32>);

/// A pair that may be one.
struct Attempt {
    /// How much of the new procedure it explains.
    share: f64,
    found: Procedures,
    /// Procedures inside of the old and of the new one.
    inside: Both,
}

impl Attempt {
    fn key(&self) -> (u32, u32) {
        (self.found.pair.old, self.found.pair.new)
    }
}

/// Those that partners call.
fn called(across: &Across<'_>, procedures: &[Procedures]) -> BTreeSet<(u32, u32)> {
    let mut candidates = BTreeSet::new();
    for Procedures { pair, .. } in procedures {
        let singles = |build: &super::Build<'_>, of: u32| -> BTreeSet<u32> {
            let sites = build.sites[of as usize].iter().map(|site| site.callee);
            sites.filter(|&callee| build.is_open(callee)).collect()
        };
        let (old, new) = (singles(&across.old, pair.old), singles(&across.new, pair.new));
        if old.len() <= MOST_CALLED && new.len() <= MOST_CALLED {
            candidates.extend(old.iter().flat_map(|&old| new.iter().map(move |&new| (old, new))));
        }
    }
    candidates
}

/// Those that share blocks few others have.
fn alike(across: &Across<'_>) -> BTreeSet<(u32, u32)> {
    let mut holders: HashMap<u64, (Vec<u32>, Vec<u32>, u32)> = HashMap::new();
    let blocks = |print: &Fingerprint<'_>, procedure: u32| -> Vec<(u64, u32)> {
        let large =
            print.procedures[procedure as usize].blocks.iter().filter(|b| b.insns >= LEAST_RARE_INSNS);
        let mut all: Vec<(u64, u32)> = large.map(|b| (b.hashes[index(Level::Three)], b.insns)).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    for old in across.old.open() {
        for (hash, insns) in blocks(across.old.print, old) {
            let held = holders.entry(hash).or_default();
            held.0.push(old);
            held.2 = insns;
        }
    }
    for new in across.new.open() {
        for (hash, _) in blocks(across.new.print, new) {
            if let Some(held) = holders.get_mut(&hash) {
                held.1.push(new);
            }
        }
    }
    let mut shared: HashMap<(u32, u32), u32> = HashMap::new();
    for (olds, news, insns) in holders.values() {
        if olds.len() <= MOST_HOLDERS && news.len() <= MOST_HOLDERS {
            for &old in olds {
                for &new in news {
                    *shared.entry((old, new)).or_default() += insns;
                }
            }
        }
    }
    shared.into_iter().filter(|(_, insns)| *insns >= LEAST_SHARED).map(|(pair, _)| pair).collect()
}

/// Tries a pair.
fn attempt(across: &Across<'_>, old: u32, new: u32) -> Option<Attempt> {
    let procedure = &across.new.print.procedures[new as usize];
    if procedure.insns < LEAST_INSNS {
        return None;
    }
    let alone = across.alone(old, new, How::Across);
    let (mut inside, mut pairs) = (Both::default(), alone.blocks.clone());
    if let Some(joined) = across.look_at(&alone) {
        let copies = |spliced: &Spliced| spliced.copies.iter().skip(1).map(|copy| copy.procedure).collect();
        inside = (copies(&joined.old), copies(&joined.new));
        pairs = joined.blocks;
        pairs.retain_mut(|pair| {
            let (copy, block) = joined.new.blocks[pair.new as usize];
            pair.new = block;
            copy == 0
        });
    }
    let sum = |tells: &dyn Fn(Found, u32) -> bool| -> u32 {
        let found = pairs.iter().map(|pair| (pair.found, procedure.blocks[pair.new as usize].insns));
        found.filter(|&(found, insns)| tells(found, insns)).map(|(_, insns)| insns).sum()
    };
    let found = sum(&|found, _| {
        !matches!(found, Found::ControlFlow | Found::Content(Level::LastThree | Level::Five))
    });
    let sure = sum(&|found, insns| is_sure(found) && insns >= plan::LEAST_INSNS);
    let share = f64::from(found) / f64::from(procedure.insns);
    (share >= LEAST_FOUND && sure >= LEAST_SURE).then_some(Attempt { share, found: alone, inside })
}
