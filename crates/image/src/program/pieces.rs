//! Functions in several pieces: which code split off by the compiler belongs to which function.
//!
//! `foo.cold` is jumped to from `foo` and jumps back into the middle of it. Names tell where there are
//! any; otherwise the unwind table does, which shows that the stack is not as a call leaves it, or the
//! jumps themselves do.

use super::analyze::{Working, holding};
use super::references::References;
use crate::names::cold_parent;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::cfg::{EdgeKind, Target};
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
pub(super) fn absorb(functions: &mut [Working<'_>], index: &[(AddrRange, usize)], references: &References) {
    let mut jumps: BTreeMap<usize, Jumps> = BTreeMap::new();
    let mut middles: Vec<(usize, usize, LinkAddr)> = Vec::new();
    let mut called: HashSet<LinkAddr> = HashSet::new();
    for (i, function) in functions.iter().enumerate().filter(|(_, f)| !f.absorbed && !f.is_guess()) {
        for block in &function.cfg.blocks {
            if let relive_code::cfg::End::Call(target) = block.end {
                called.insert(target);
            }
        }
        for edge in &function.cfg.edges {
            let Target::Outside(to) = edge.to else { continue };
            let Some(other) = holding(index, to).filter(|&other| other != i) else { continue };
            if edge.kind == EdgeKind::FallThrough && functions[other].entry() == to {
                continue;
            }
            jumps.entry(other).or_default().from.insert(i);
            if !functions[other].outline.entries.contains(&to) {
                jumps.entry(i).or_default().into.insert(other);
                middles.push((i, other, to));
            }
        }
    }
    let mut joined: Vec<(usize, usize)> = Vec::new();
    for (&piece, jumps) in &jumps {
        if is_piece(&functions[piece], jumps, &called, references)
            && let Some(owner) = owner_of(functions, piece, jumps)
        {
            joined.push((piece, owner));
        }
    }
    // A piece may belong to what is itself a piece: follow to the end, and never in a circle.
    let target: BTreeMap<usize, usize> = joined.iter().copied().collect();
    let mut gone: HashSet<usize> = HashSet::new();
    for &(piece, _) in &joined {
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
            join(functions, piece, owner);
            gone.insert(piece);
        }
    }
    for (from, into, at) in middles {
        if !gone.contains(&from)
            && !gone.contains(&into)
            && !joined.iter().any(|&(p, o)| (p, o) == (from, into) || (p, o) == (into, from))
        {
            functions[into].add_entry(at);
        }
    }
}

/// Whether a function is rather a piece of another one.
fn is_piece(
    candidate: &Working<'_>,
    jumps: &Jumps,
    called: &HashSet<LinkAddr>,
    references: &References,
) -> bool {
    if called.contains(&candidate.entry()) {
        return false;
    }
    if candidate.fragment {
        return true;
    }
    // Nothing names it, calls it or stores its address, one function jumps to it, and it jumps back.
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

fn join(functions: &mut [Working<'_>], piece: usize, owner: usize) {
    let taken = std::mem::take(&mut functions[piece].outline);
    functions[piece].absorbed = true;
    functions[piece].outline.entries.push(taken.entries[0]);
    let names = std::mem::take(&mut functions[piece].names);
    let vouchers = functions[piece].vouchers;
    let into = &mut functions[owner];
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
    into.stale = true;
}
