//! Procedures with the same name. Where several have it (static functions of different files, overloads), those with
//! the most similar code belong together, and among equals those in the same order.

use super::{How, Search};
use crate::names::Names;
use crate::pairing::by_key;

/// Groups larger than this are matched in their order only.
const MOST_ALIKE: usize = 48;

pub(super) fn identical(search: &mut Search<'_>) {
    run(search, How::Name, |names| names.extended);
}

pub(super) fn hierarchical(search: &mut Search<'_>) {
    run(search, How::Hierarchical, |names| names.hierarchical);
}

fn run(search: &mut Search<'_>, how: How, key: impl Fn(&Names) -> u64) {
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
    for (old, new) in groups {
        match (&*old, &*new) {
            ([old], [new]) => {
                search.procedures.pair(*old, *new, how);
            }
            _ => share_out(search, &old, &new, how),
        }
    }
}

/// Pairs within a group, the most alike first.
fn share_out(search: &mut Search<'_>, old: &[u32], new: &[u32], how: How) {
    let mut candidates = Vec::new();
    if old.len().max(new.len()) <= MOST_ALIKE {
        for (i, &a) in old.iter().enumerate() {
            for (j, &b) in new.iter().enumerate() {
                candidates.push((search.alike(a, b), i.abs_diff(j), a, b));
            }
        }
        candidates.sort_by(|x, y| y.0.total_cmp(&x.0).then((x.1, x.2, x.3).cmp(&(y.1, y.2, y.3))));
    } else {
        candidates.extend(old.iter().zip(new).map(|(&a, &b)| (1.0, 0, a, b)));
    }
    for (_, _, a, b) in candidates {
        search.procedures.pair(a, b, how);
    }
}
