//! What is left of a function once everything reachable is decoded: fill, data, dead code.

use super::explore::{Explorer, is_fill};
use super::recover::{Jumps, Outline};
use super::{Gap, GapKind, Reason};
use crate::addr::{AddrRange, LinkAddr};
use crate::isa::{Decode, fill_len};
use crate::source::Surroundings;
use alloc::vec::Vec;

/// Explores dead code in the holes and notes what cannot be explained; whether there was any such code.
pub(super) fn explain_holes<S: Surroundings + ?Sized>(
    explorer: &mut Explorer<'_, S>,
    outline: &Outline,
    jumps: &Jumps,
) -> bool {
    let tables = data(outline, jumps);
    let guessed = jumps.values().flat_map(|r| &r.tables).any(|t| t.bound.is_guess());
    let mut dead = false;
    let mut work = explorer.holes();
    work.reverse();
    while let Some(range) = work.pop() {
        // Exploring one hole can fill part of another.
        let Some(whole) = explorer.first_hole_in(range) else { continue };
        let hole = without_data(whole, &tables);
        if hole.end < range.end {
            work.push(AddrRange::new(hole.end, range.end));
        }
        let surroundings = explorer.surroundings();
        let Some(start) = behind_fill(surroundings, hole) else {
            // Fill between a call that only seems not to return and the next block: alignment.
            if explorer.is_doubtful_call_before(hole.start) && explorer.is_inside(hole.end) {
                explorer.explore(hole.start, true);
                dead = true;
            }
            continue;
        };
        if is_sound_code(surroundings, explorer, start, hole.end) {
            // Code right behind a call that never returns: whoever compiled the call did not know that,
            // and neither should we be so sure.
            let revived = start == hole.start && explorer.revive_call_before(start);
            explorer.explore(start, revived);
            dead = true;
            // What was explored may have ended early.
            work.push(AddrRange::new(start, hole.end));
            if guessed && !revived && !is_trap(surroundings, AddrRange::new(start, hole.end)) {
                explorer.problem(Reason::UnreachedBesideGuessedTable, start);
            }
        } else {
            explorer.problem(Reason::UnexplainedBytes, start);
        }
    }
    dead
}

/// Says what each hole is.
pub(super) fn gaps<S: Surroundings + ?Sized>(
    explorer: &Explorer<'_, S>,
    outline: &Outline,
    jumps: &Jumps,
) -> Vec<Gap> {
    let data = data(outline, jumps);
    explorer.holes().into_iter().flat_map(|hole| gaps_in(explorer.surroundings(), hole, &data)).collect()
}

/// Jump tables, and data the outline tells of.
fn data(outline: &Outline, jumps: &Jumps) -> Vec<AddrRange> {
    jumps
        .values()
        .flat_map(|r| &r.tables)
        .filter(|t| t.table != LinkAddr(0))
        .map(|t| AddrRange::sized(t.table, u64::from(t.entry_size) * t.targets.len() as u64))
        .chain(outline.data.iter().copied())
        .collect()
}

/// Whether `range` only stops whoever gets there: the mark of a place the compiler knows is unreachable.
fn is_trap<S: Surroundings + ?Sized>(surroundings: &S, range: AddrRange) -> bool {
    let bytes = surroundings.bytes(range.start);
    let bytes = &bytes[..bytes.len().min(range.len() as usize)];
    Decode::new(bytes, range.start).all(|insn| insn.is_padding() || insn.flow() == crate::isa::Flow::Stop)
}

/// The part of `hole` up to the first piece of data in it, or behind that piece.
fn without_data(hole: AddrRange, data: &[AddrRange]) -> AddrRange {
    let mut hole = hole;
    loop {
        if let Some(object) = data.iter().find(|d| d.contains(hole.start)) {
            hole.start = object.end.min(hole.end);
            if hole.is_empty() {
                return hole;
            }
            continue;
        }
        let next = data.iter().filter(|d| d.overlaps(&hole)).map(|d| d.start).min();
        return AddrRange::new(hole.start, next.unwrap_or(hole.end));
    }
}

/// The first address in `hole` that is not fill, if there is one.
fn behind_fill<S: Surroundings + ?Sized>(surroundings: &S, hole: AddrRange) -> Option<LinkAddr> {
    let bytes = surroundings.bytes(hole.start);
    let bytes = &bytes[..bytes.len().min(hole.len() as usize)];
    let start = hole.start.offset(fill_len(bytes, hole.start) as u64);
    (start < hole.end).then_some(start)
}

/// Whether the bytes from `start` decode one after the other, up to where known code begins or the
/// hole ends, without jumping into the middle of anything.
fn is_sound_code<S: Surroundings + ?Sized>(
    surroundings: &S,
    explorer: &Explorer<'_, S>,
    start: LinkAddr,
    end: LinkAddr,
) -> bool {
    let bytes = surroundings.bytes(start);
    let bytes = &bytes[..bytes.len().min(end.since(start) as usize)];
    let mut at = start;
    for insn in Decode::new(bytes, start) {
        let fair = match insn.flow() {
            crate::isa::Flow::Jump(to) | crate::isa::Flow::Branch(to) => {
                explorer.is_outside(to) && !explorer.is_inside_insn(to)
            }
            crate::isa::Flow::Call(to) => surroundings.is_code(to),
            _ => true,
        };
        if !fair || insn.is_privileged() {
            return false;
        }
        at = insn.next_addr();
    }
    at == end
}

fn gaps_in<S: Surroundings + ?Sized>(surroundings: &S, hole: AddrRange, data: &[AddrRange]) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let mut at = hole.start;
    while at < hole.end {
        let (end, kind) = match data.iter().find(|d| d.contains(at)) {
            Some(object) => (object.end.min(hole.end), GapKind::Data),
            None => {
                let next = data.iter().filter(|d| d.start > at && d.start < hole.end).map(|d| d.start).min();
                let range = AddrRange::new(at, next.unwrap_or(hole.end));
                let kind = if is_fill(surroundings, range) { GapKind::Padding } else { GapKind::Unexplained };
                (range.end, kind)
            }
        };
        gaps.push(Gap { range: AddrRange::new(at, end), kind });
        at = end;
    }
    gaps
}
