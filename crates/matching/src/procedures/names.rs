//! Procedures with the same name. Where several have it (static functions of different files, overloads, and in Rust every
//! copy of a generic function), the same code decides at first, and how alike they are once it is known what they call.

use super::{How, Search, hashes};
use crate::names::Names;
use crate::pairing::by_key;
use relive_profile::model::Level;

/// Larger groups are not compared one by one: it takes the square of it.
const MOST_ALIKE: usize = 48;

/// Namesakes must be this alike: copies of a generic function for different types may have nothing but that in common.
const LEAST_ALIKE: f64 = 0.3;

pub(super) fn identical(search: &mut Search<'_>) {
    for (old, new) in groups(search, |names| names.extended) {
        clear(search, &old, &new, How::Name);
    }
}

pub(super) fn hierarchical(search: &mut Search<'_>) {
    for (old, new) in groups(search, |names| names.hierarchical) {
        clear(search, &old, &new, How::Hierarchical);
    }
}

/// The others of several that have one name, the most alike first.
pub(super) fn namesakes(search: &mut Search<'_>) {
    for (old, new) in groups(search, |names| names.extended) {
        share_out(search, &old, &new, How::Name);
    }
    for (old, new) in groups(search, |names| names.hierarchical) {
        share_out(search, &old, &new, How::Hierarchical);
    }
}

/// Procedures without a partner that have the same name.
fn groups(search: &Search<'_>, key: impl Fn(&Names) -> u64) -> Vec<(Vec<u32>, Vec<u32>)> {
    let mut groups = Vec::new();
    let keyed = |procedures: &[crate::fingerprint::Procedure], singles: &mut dyn Iterator<Item = u32>| {
        singles
            .filter_map(|i| procedures[i as usize].names.map(|names| (key(&names), i)))
            .collect::<Vec<(u64, u32)>>()
    };
    let old = keyed(&search.old.procedures, &mut search.procedures.single_old());
    let new = keyed(&search.new.procedures, &mut search.procedures.single_new());
    let members = |group: &[(u64, u32)]| group.iter().map(|&(_, i)| i).collect::<Vec<u32>>();
    by_key(old.into_iter(), new.into_iter(), |old, new| groups.push((members(old), members(new))));
    groups
}

/// Those that alone have their name, or are the only ones that have it with this code.
fn clear(search: &mut Search<'_>, old: &[u32], new: &[u32], how: How) {
    if let ([old], [new]) = (old, new) {
        search.procedures.pair(*old, *new, how);
        return;
    }
    let whole = |procedures: &[crate::fingerprint::Procedure], ids, i: u32| {
        (hashes::whole(&procedures[i as usize], ids, Level::One), i)
    };
    let mut found = Vec::new();
    by_key(
        old.iter().map(|&i| whole(&search.old.procedures, &search.ids.old, i)),
        new.iter().map(|&i| whole(&search.new.procedures, &search.ids.new, i)),
        |old, new| {
            if let ([(_, old)], [(_, new)]) = (old, new) {
                found.push((*old, *new));
            }
        },
    );
    for (old, new) in found {
        search.procedures.pair(old, new, how);
    }
}

/// Pairs within a group, the most alike first, and among equals those in the same order.
fn share_out(search: &mut Search<'_>, old: &[u32], new: &[u32], how: How) {
    if old.len().max(new.len()) > MOST_ALIKE {
        return;
    }
    let mut candidates = Vec::new();
    for (i, &a) in old.iter().enumerate() {
        for (j, &b) in new.iter().enumerate() {
            let likeness = search.likeness(a, b);
            if likeness >= LEAST_ALIKE {
                candidates.push((likeness, i.abs_diff(j), a, b));
            }
        }
    }
    candidates.sort_by(|x, y| y.0.total_cmp(&x.0).then((x.1, x.2, x.3).cmp(&(y.1, y.2, y.3))));
    for (_, _, a, b) in candidates {
        search.procedures.pair(a, b, how);
    }
}
