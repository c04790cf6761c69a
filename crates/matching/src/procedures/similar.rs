//! Procedures whose names or code are similar: for what was renamed or changed a lot.

use super::{How, Search};
use crate::fingerprint::{Fingerprint, Procedure, Reference};
use crate::identity::Identities;
use crate::levels::{index, mix};
use crate::names;
use crate::pairing::by_key;
use relive_profile::model::Level;

/// Names must share this many of their pairs of letters, and code that much.
const LEAST_NAME: f64 = 0.6;
const LEAST_CODE_WITH_NAME: f64 = 0.3;

/// Without names, code must be this similar, and it must be that together with what it refers to and shares with few.
const LEAST_CODE: f64 = 0.25;
const LEAST_SCORE: f64 = 0.6;

/// Something that more procedures have than this says nothing about any of them, and would make the search quadratic.
const MOST_HOLDERS: usize = 12;

/// Similar names: each unmatched procedure is compared with those that share a word of its name.
pub(super) fn names(search: &mut Search<'_>) {
    let words = |fingerprint: &Fingerprint<'_>, i: u32| -> Vec<u64> {
        let procedure = &fingerprint.procedures[i as usize];
        if procedure.names.is_none() {
            return Vec::new();
        }
        let name = name(fingerprint, i);
        name.split(|c: char| !c.is_alphanumeric()).filter(|w| w.len() > 2).map(names::hash).collect()
    };
    let old: Vec<(u32, Vec<u64>)> =
        search.procedures.single_old().map(|i| (i, words(search.old, i))).collect();
    let new: Vec<(u32, Vec<u64>)> =
        search.procedures.single_new().map(|i| (i, words(search.new, i))).collect();
    let mut found: Vec<(f64, u32, u32)> = Vec::new();
    for (a, b, _) in candidates(&old, &new) {
        let alike = names::similarity(&name(search.old, a), &name(search.new, b));
        if alike >= LEAST_NAME {
            let code = search.alike(a, b);
            if code >= LEAST_CODE_WITH_NAME {
                found.push((alike + code, a, b));
            }
        }
    }
    take_best(search, found, How::SimilarName);
}

fn name(fingerprint: &Fingerprint<'_>, i: u32) -> String {
    let module = fingerprint.module();
    names::hierarchical(module.name(&module.functions[i as usize])).into_owned()
}

/// Similar code: BMAT's pairwise trial, with those only that share a block or a reference few others have.
pub(super) fn code(search: &mut Search<'_>) {
    let old: Vec<(u32, Vec<u64>)> = search
        .procedures
        .single_old()
        .map(|i| (i, features(&search.old.procedures[i as usize], &search.ids.old)))
        .collect();
    let new: Vec<(u32, Vec<u64>)> = search
        .procedures
        .single_new()
        .map(|i| (i, features(&search.new.procedures[i as usize], &search.ids.new)))
        .collect();
    let mut found: Vec<(f64, u32, u32)> = Vec::new();
    for (a, b, shared) in candidates(&old, &new) {
        let alike = search.likeness(a, b);
        // Sharing something rare is worth as much as a tenth of the whole, up to a limit.
        let score = alike + 0.1 * f64::from(shared.min(4));
        if score >= LEAST_SCORE && search.alike(a, b) >= LEAST_CODE {
            found.push((score, a, b));
        }
    }
    take_best(search, found, How::Similar);
}

/// What tells a procedure from others: its larger blocks, and what it refers to.
fn features(procedure: &Procedure, ids: &Identities) -> Vec<u64> {
    let mut features: Vec<u64> = procedure
        .blocks
        .iter()
        .filter(|block| block.insns >= 4)
        .map(|block| mix(3, block.hashes[index(Level::Three)]))
        .collect();
    for &reference in &procedure.references {
        let id = ids.of(reference);
        if id != 0 && !matches!(reference, Reference::Unknown) {
            features.push(mix(5, id));
        }
    }
    let insns = procedure.insns;
    // A small procedure has nothing but its whole.
    if insns >= 6 {
        let all =
            (0..procedure.blocks.len() as u32).fold(1, |h, b| mix(h, ids.hash(procedure, b, Level::Three)));
        features.push(all);
    }
    features.sort_unstable();
    features.dedup();
    features
}

/// Pairs that share something few others have, and how many such things.
fn candidates(old: &[(u32, Vec<u64>)], new: &[(u32, Vec<u64>)]) -> Vec<(u32, u32, u32)> {
    let holders = |all: &[(u32, Vec<u64>)]| -> Vec<(u64, u32)> {
        all.iter().flat_map(|(i, features)| features.iter().map(move |&feature| (feature, *i))).collect()
    };
    let mut shared: Vec<(u32, u32)> = Vec::new();
    by_key(holders(old).into_iter(), holders(new).into_iter(), |old, new| {
        if old.len() <= MOST_HOLDERS && new.len() <= MOST_HOLDERS {
            shared.extend(old.iter().flat_map(|&(_, a)| new.iter().map(move |&(_, b)| (a, b))));
        }
    });
    shared.sort_unstable();
    shared.chunk_by(|x, y| x == y).map(|same| (same[0].0, same[0].1, same.len() as u32)).collect()
}

fn take_best(search: &mut Search<'_>, mut found: Vec<(f64, u32, u32)>, how: How) {
    found.sort_by(|x, y| y.0.total_cmp(&x.0).then((x.1, x.2).cmp(&(y.1, y.2))));
    for (_, a, b) in found {
        search.procedures.pair(a, b, how);
    }
}
