//! What no content finds, by control flow: from partners, both builds are walked along edges of the same kind.
//!
//! Two blocks that are reached the same way from partners, lead to partners and end alike are partners themselves.
//! Other new blocks on the way share the old block of that stretch: they run at most as often as it does, so such a
//! match is partial.

use super::{Found, Sides};
use crate::fingerprint::Way;
use crate::pairing::Pairing;
use relive_profile::model::EdgeKind;

/// Completes `pairs`; returns new blocks that only share an old one: new, old.
pub(crate) fn run(sides: &Sides<'_>, pairs: &mut Pairing<Found>) -> Vec<(u32, u32)> {
    let mut work: Vec<(u32, u32)> = pairs.pairs().map(|(old, new, _)| (old, new)).collect();
    if let (Some(old), Some(new)) = (sides.old.entry, sides.new.entry)
        && pairs.pair(old, new, Found::ControlFlow)
    {
        work.push((old, new));
    }
    while let Some((old, new)) = work.pop() {
        for &(b, way) in sides.new.out.of(new) {
            if pairs.of_new(b).is_some() || !is_single_way(way) {
                continue;
            }
            let same = sides
                .old
                .out
                .of(old)
                .iter()
                .find(|(a, w)| sides.same_way(old, new, *w) == way && pairs.of_old(*a).is_none());
            if let Some(&(a, _)) = same
                && ends_alike(sides, a, b)
                && leads_to_partners(sides, pairs, a, b)
                && pairs.pair(a, b, Found::ControlFlow)
            {
                work.push((a, b));
            }
        }
    }
    share(sides, pairs)
}

/// A jump table has many ways of the same kind.
fn is_single_way(way: Way) -> bool {
    way.kind != EdgeKind::Case
}

fn ends_alike(sides: &Sides<'_>, old: u32, new: u32) -> bool {
    let kinds = |edges: &[(u32, Way)]| -> Vec<EdgeKind> {
        let mut kinds: Vec<EdgeKind> = edges.iter().map(|&(_, way)| way.kind).collect();
        kinds.sort_unstable();
        kinds
    };
    kinds(sides.old.out.of(old)) == kinds(sides.new.out.of(new))
}

/// Whether some way on leads from both to partners, or both end here.
fn leads_to_partners(sides: &Sides<'_>, pairs: &Pairing<Found>, old: u32, new: u32) -> bool {
    let (olds, news) = (sides.old.out.of(old), sides.new.out.of(new));
    if olds.is_empty() && news.is_empty() {
        return true;
    }
    olds.iter().any(|&(a, way)| {
        pairs.of_old(a).is_some_and(|partner| news.iter().any(|&(b, w)| b == partner && w.kind == way.kind))
    })
}

/// Gives new blocks that have no partner the old block of the same stretch of control flow: of the way on from the
/// last partner before it that is not taken by the same kind of edge to a partner.
fn share(sides: &Sides<'_>, pairs: &Pairing<Found>) -> Vec<(u32, u32)> {
    let mut shared: Vec<Option<u32>> = vec![None; sides.new.blocks.len()];
    let mut work: Vec<(u32, u32)> = Vec::new();
    for (old, new, _) in pairs.pairs() {
        for &(b, way) in sides.new.out.of(new) {
            if pairs.of_new(b).is_some() || shared[b as usize].is_some() || !is_single_way(way) {
                continue;
            }
            if let Some(&(a, _)) =
                sides.old.out.of(old).iter().find(|(_, w)| sides.same_way(old, new, *w) == way)
            {
                shared[b as usize] = Some(a);
                work.push((a, b));
            }
        }
    }
    while let Some((a, new)) = work.pop() {
        for &(b, way) in sides.new.out.of(new) {
            if pairs.of_new(b).is_none() && shared[b as usize].is_none() && is_single_way(way) {
                shared[b as usize] = Some(a);
                work.push((a, b));
            }
        }
    }
    (0..).zip(shared).filter_map(|(new, old)| Some((new, old?))).collect()
}
