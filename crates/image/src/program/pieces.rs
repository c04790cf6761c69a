//! Functions in several pieces: which code split off by the compiler belongs to which function.
//!
//! `foo.cold` is jumped to from `foo` and jumps back into the middle of it. Names tell where there are
//! any; otherwise the unwind table does, which shows that the stack is not as a call leaves it, or the
//! jumps themselves do.

use super::analyze::{Need, Working};
use super::layout::Layout;
use super::references::References;
use crate::names::cold_parent;
use rayon::prelude::*;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::cfg::EdgeKind;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Jumps between two functions.
#[derive(Default)]
struct Jumps {
    /// Functions that jump to it, anywhere.
    from: BTreeSet<usize>,
    /// Functions into whose middle it jumps.
    into: BTreeSet<usize>,
}

/// Joins pieces to their functions, and makes the targets of the remaining jumps into the middle of
/// other functions entries of those.
pub(super) fn absorb(functions: &mut [Working<'_>], layout: &mut Layout, references: &References) {
    let mut jumps: BTreeMap<usize, Jumps> = BTreeMap::new();
    let mut middles: Vec<(usize, usize, LinkAddr)> = Vec::new();
    for (i, function) in functions.iter().enumerate().filter(|(_, f)| !f.absorbed && !f.is_guess()) {
        for &(to, kind) in &function.links.exits {
            let is_other = |&other: &usize| other != i && functions[other].need != Need::None;
            let Some(other) = layout.holding(to).filter(is_other) else { continue };
            if kind == EdgeKind::FallThrough && functions[other].entry() == to {
                continue;
            }
            jumps.entry(other).or_default().from.insert(i);
            if !functions[other].outline.entries.contains(&to) {
                jumps.entry(i).or_default().into.insert(other);
                middles.push((i, other, to));
            }
        }
    }
    jumps.retain(|&i, jumps| is_piece(&functions[i], jumps, references));
    let called = called_among(functions, jumps.keys().map(|&i| functions[i].entry()).collect());
    jumps.retain(|&i, _| !called.contains(&functions[i].entry()));
    // A piece may belong to what is itself a piece: follow to the end, and never in a circle.
    let target: BTreeMap<usize, usize> = jumps
        .iter()
        .filter_map(|(&piece, jumps)| Some((piece, owner_of(functions, piece, jumps)?)))
        .collect();
    let mut gone: HashSet<usize> = HashSet::new();
    for &piece in target.keys() {
        let mut owner = piece;
        let mut steps = 0;
        while let Some(&next) = target.get(&owner) {
            owner = next;
            steps += 1;
            if steps > target.len() {
                break;
            }
        }
        if steps <= target.len() && owner != piece && !gone.contains(&owner) {
            join(functions, layout, piece, owner);
            gone.insert(piece);
        }
    }
    for (from, into, at) in middles {
        if !gone.contains(&from)
            && !gone.contains(&into)
            && target.get(&from) != Some(&into)
            && target.get(&into) != Some(&from)
        {
            functions[into].add_entry(at);
        }
    }
}

/// Which of `entries` are called.
fn called_among(functions: &[Working<'_>], entries: HashSet<LinkAddr>) -> HashSet<LinkAddr> {
    if entries.is_empty() {
        return entries;
    }
    functions
        .par_iter()
        .filter(|f| !f.absorbed && !f.is_guess())
        .flat_map_iter(|f| f.links.calls.iter().filter(|call| entries.contains(call)))
        .copied()
        .collect()
}

/// Whether a function, unless it is called, is rather a piece of another one.
fn is_piece(candidate: &Working<'_>, jumps: &Jumps, references: &References) -> bool {
    if candidate.fragment {
        return true;
    }
    // Nothing names it or stores its address, one function jumps to it, and it jumps back.
    let nameless = candidate.names.is_empty();
    let start = candidate.entry();
    let stored = !references.code_in(AddrRange::new(start, start.offset(1))).is_empty();
    nameless && !stored && jumps.from.len() == 1 && jumps.from.iter().all(|from| jumps.into.contains(from))
}

fn owner_of(functions: &[Working<'_>], piece: usize, jumps: &Jumps) -> Option<usize> {
    let candidates: BTreeSet<usize> = jumps.from.union(&jumps.into).copied().collect();
    let parents: Vec<&str> = functions[piece].names.iter().filter_map(|n| cold_parent(n)).collect();
    let by_name = candidates
        .iter()
        .copied()
        .find(|&i| functions[i].names.iter().any(|name| parents.contains(&name.as_ref())));
    if by_name.is_some() {
        return by_name;
    }
    // Jumping back into the middle is what only a piece does.
    match (jumps.into.len(), jumps.from.len()) {
        (1, _) => jumps.into.first().copied(),
        (0, 1) => jumps.from.first().copied(),
        _ => None,
    }
}

fn join(functions: &mut [Working<'_>], layout: &mut Layout, piece: usize, owner: usize) {
    let taken = std::mem::take(&mut functions[piece].outline);
    functions[piece].absorbed = true;
    functions[piece].outline.entries.push(taken.entries[0]);
    let names = std::mem::take(&mut functions[piece].names);
    let (vouchers, need) = (functions[piece].vouchers, functions[piece].need);
    let into = &mut functions[owner];
    for range in &taken.pieces {
        layout.hand_over(range.start, owner);
    }
    into.outline.pieces.extend(taken.pieces);
    into.outline.pieces.sort_unstable();
    into.outline.landing_pads.extend(taken.landing_pads);
    into.outline.landing_pads.sort_unstable();
    into.outline.data.extend(taken.data);
    into.outline.leaders.extend(taken.leaders);
    // A piece that some other way is entered keeps that entry.
    into.outline.entries.extend(taken.entries.into_iter().skip(1));
    into.names.extend(names);
    into.vouchers.add_all(vouchers);
    into.need = into.need.max(need);
    into.stale = true;
}
