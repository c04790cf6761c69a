//! Blocks that matched refer to functions and data at the same places: what they refer to belongs together. So do
//! pointers at the same place of data that matched.

use super::{How, Search};
use crate::blocks::{self, Found, Sides};
use crate::data;
use crate::fingerprint::Reference;
use rayon::prelude::*;
use relive_profile::model::Level;
use std::collections::HashMap;
use std::hash::Hash;

/// Votes for a pair.
type Votes = HashMap<(u32, u32), u32>;

/// Collects votes from procedures that became partners since last time. Returns how many new pairs follow.
pub(super) fn run(search: &mut Search<'_>) -> usize {
    let pairs: Vec<(u32, u32)> = search
        .procedures
        .pairs()
        .filter(|&(_, new, _)| !search.heard[new as usize])
        .map(|(old, new, _)| (old, new))
        .collect();
    let cast: Vec<Vec<(Reference, Reference, u32)>> =
        pairs.par_iter().map(|&(old, new)| of_procedure(search, old, new)).collect();
    for &(_, new) in &pairs {
        search.heard[new as usize] = true;
    }
    let (mut procedures, mut data) = (Votes::new(), Votes::new());
    for (old, new, weight) in cast.into_iter().flatten().chain(data::pointer_votes(search)) {
        match (old, new) {
            (Reference::Procedure(a, 0), Reference::Procedure(b, 0)) => {
                *procedures.entry((a, b)).or_default() += weight;
            }
            (Reference::Data(a, x), Reference::Data(b, y)) if x == y => {
                *data.entry((a, b)).or_default() += weight;
            }
            _ => {}
        }
    }
    let before = search.procedures.len() + search.data.len();
    for (old, new) in winners(&procedures) {
        // A large function that became an entirely different one is more often two functions.
        let large =
            search.old.procedures[old as usize].insns.min(search.new.procedures[new as usize].insns) > 24;
        if !large || search.alike(old, new) > 0.1 {
            search.procedures.pair(old, new, How::Reference);
        }
    }
    for (old, new) in winners(&data) {
        data::pair(search, old, new, data::How::Reference);
    }
    search.procedures.len() + search.data.len() - before
}

/// What two partners refer to at the same places and what has no partner yet.
fn of_procedure(search: &Search<'_>, old: u32, new: u32) -> Vec<(Reference, Reference, u32)> {
    let sides = Sides {
        old: &search.old.procedures[old as usize],
        new: &search.new.procedures[new as usize],
        ids: &search.ids,
    };
    let mut votes = Vec::new();
    for (a, b, found) in blocks::by_content(&sides).pairs() {
        let weight = match found {
            Found::Content(Level::Exact | Level::One | Level::Two) => 4,
            Found::Content(Level::Three) => 2,
            _ => 1,
        };
        let (a, b) = (sides.old.references_of(a), sides.new.references_of(b));
        if a.len() != b.len() {
            continue;
        }
        for (&a, &b) in a.iter().zip(b) {
            let open = match (a, b) {
                (Reference::Procedure(a, 0), Reference::Procedure(b, 0)) => {
                    search.procedures.of_old(a).is_none() && search.procedures.of_new(b).is_none()
                }
                (Reference::Data(a, _), Reference::Data(b, _)) => {
                    search.data.of_old(a).is_none() && search.data.of_new(b).is_none()
                }
                _ => false,
            };
            if open {
                votes.push((a, b, weight));
            }
        }
    }
    votes
}

/// Pairs that get the most votes from both sides, and clearly so.
fn winners(votes: &Votes) -> Vec<(u32, u32)> {
    let by_old = best(votes, |&(old, new)| (old, new));
    let by_new = best(votes, |&(old, new)| (new, old));
    let mut winners: Vec<(u32, u32)> =
        by_old.into_iter().filter(|(old, new)| by_new.get(new) == Some(old)).collect();
    winners.sort_unstable();
    winners
}

/// For each of one side, the other one with the most votes, if it has twice as many as the next.
fn best<K: Hash + Eq + Copy>(votes: &HashMap<K, u32>, ends: impl Fn(&K) -> (u32, u32)) -> HashMap<u32, u32> {
    // First and second: votes and for whom.
    let mut first: HashMap<u32, (u32, u32, u32)> = HashMap::new();
    for (key, &count) in votes {
        let (own, other) = ends(key);
        let entry = first.entry(own).or_insert((0, u32::MAX, 0));
        if (count, u32::MAX - other) > (entry.0, u32::MAX - entry.1) {
            *entry = (count, other, entry.0);
        } else {
            entry.2 = entry.2.max(count);
        }
    }
    first
        .into_iter()
        .filter(|(_, (most, _, next))| *most >= 2 * *next)
        .map(|(own, (_, other, _))| (own, other))
        .collect()
}
