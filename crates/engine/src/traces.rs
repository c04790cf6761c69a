//! Which way the program usually goes from a place that is often entered, by what was counted so far.

use crate::cache::{Cache, Entry};
use crate::flow::Source;
use crate::maps::Maps;
use crate::translate::{Exit, Leg, Source as _, Then, can_compare};
use alloc::vec::Vec;
use relive_abi::engine as abi;
use relive_code::isa::Tie;

/// Bytes of the program's code in one trace at most.
pub(crate) const MOST_BYTES: u64 = 800;
/// `jmp [rip + …]`, and what may stand before it.
const JUMP_THROUGH: [u8; 2] = [0xff, 0x25];
const BND: u8 = 0xf2;
/// What code refers to must be in reach of the cache, which is near the first instruction.
pub(crate) const NEAR: u64 = 256 << 20;
/// Legs in one trace at most.
pub(crate) const MOST_LEGS: usize = 32;

impl Cache {
    /// The way from `head`, with `counts` the counters of the thread that is there.
    pub(crate) fn usual_way(&self, head: u64, counts: &dyn Fn(u32) -> u64, maps: &Maps) -> Vec<Leg> {
        let mut legs: Vec<Leg> = Vec::new();
        let mut bytes = 0;
        let mut pc = head;
        while let Some(unit) = self.first_unit(pc, legs.is_empty()) {
            let before = legs.len();
            let turn = self.along(unit, counts, &mut legs, maps);
            bytes += legs[before..].iter().map(|leg| leg.end - leg.start).sum::<u64>();
            let (Some((then, to)), Some(last)) = (turn, legs.last_mut()) else { break };
            last.then = then;
            let is_far = bytes > MOST_BYTES || legs.len() > MOST_LEGS;
            let is_elsewhere = to.abs_diff(head) > NEAR || maps.find(to).is_none();
            if is_far || is_elsewhere || legs.iter().any(|leg| leg.start == to) {
                break;
            }
            pc = to;
        }
        // What does not come next is not guessed.
        if let Some(last) = legs.last_mut()
            && last.then != Then::Taken
        {
            last.then = Then::On;
        }
        legs
    }

    /// A jump through a word of memory, which has just led to `to`, and will as long as the word says so: the unit it
    /// ends, and the way to there. Libraries call each other like that.
    pub(crate) fn settled_way(&self, exit: u32, to: u64, maps: &Maps) -> Option<(u32, Vec<Leg>)> {
        let site = &self.exits[exit as usize];
        let bytes = maps.bytes(site.from);
        let insn = maps.insn(site.from).filter(|_| site.kind == abi::INDIRECT_JUMP)?;
        // Through another segment, the word would lie elsewhere.
        let is_plain = bytes.strip_prefix(&[BND]).unwrap_or(bytes).starts_with(&JUMP_THROUGH);
        let Tie::Operand { target: slot, .. } = insn.tie(bytes) else { return None };
        let unit = self.unit_of(exit)?;
        let entry = &self.units[unit as usize];
        // SAFETY: the program has just read it.
        let is_there = is_plain && unsafe { (slot.0 as *const u64).read_unaligned() } == to;
        if entry.is_trace() || !is_there || !can_compare(to) || is_first_time(maps.bytes(to)) {
            return None;
        }
        let mut legs = Vec::new();
        self.add_all(unit, &mut legs);
        legs.last_mut()?.then = Then::Guess(to);
        legs.push(Leg { start: to, end: to, then: Then::On });
        Some((unit, legs))
    }

    pub(crate) fn add_all(&self, unit: u32, legs: &mut Vec<Leg>) {
        let (start, len) = self.units[unit as usize].pieces;
        let pieces = self.pieces[start as usize..][..len as usize].iter().filter(|p| p.start < p.end);
        legs.extend(pieces.map(|p| Leg { start: p.start, end: p.end, then: Then::On }));
    }

    /// The unit that counts what happens at a place. Traces that are loops are not made part of others.
    fn first_unit(&self, pc: u64, is_head: bool) -> Option<u32> {
        let unit = self.places.unit(pc)?;
        let entry = &self.units[unit as usize];
        match entry.older {
            Some(_) if !is_head && entry.is_loop => None,
            Some(older) => Some(older),
            None => Some(unit),
        }
    }

    /// Adds the legs of a unit up to where it is usually left. How the last one goes on and where to, if that is known.
    fn along(
        &self,
        unit: u32,
        counts: &dyn Fn(u32) -> u64,
        legs: &mut Vec<Leg>,
        maps: &Maps,
    ) -> Option<(Then, u64)> {
        let entry = &self.units[unit as usize];
        let (counter, first) = entry.counts()?;
        let mut reached = counts(counter);
        let (start, len) = (entry.pieces.0 as usize, entry.pieces.1 as usize);
        let mut exits = self.exits[first..].iter().zip(first as u32..).peekable();
        for (i, piece) in self.pieces[start..][..len].iter().enumerate() {
            if piece.start < piece.end {
                legs.push(Leg { start: piece.start, end: piece.end, then: Then::On });
            }
            while let Some((exit, number)) = exits.next_if(|(exit, _)| exit.piece as usize == i) {
                if exit.kind != abi::BRANCH {
                    return self.at_the_end(exit, number, counts);
                }
                let taken = self.about(exit, number, counts).min(reached);
                if taken > reached / 2 && is_plain(exit.from, maps) {
                    return Some((Then::Taken, exit.to));
                }
                reached = reached.saturating_sub(taken);
            }
        }
        None
    }

    /// How often an exit has been taken, more or less: its share of what has come to where it leads.
    fn about(&self, exit: &Exit, number: u32, counts: &dyn Fn(u32) -> u64) -> u64 {
        let (true, Some(to)) = (exit.is_linked(), self.places.unit(exit.to)) else { return 0 };
        let entered = |unit: u32| counts_of(&self.units[unit as usize], counts);
        let older = self.units[to as usize].older;
        let weight = |number: u32| match self.exits[number as usize].source {
            Source::Target(counter) => counts(counter),
            _ => self.unit_of(number).map_or(0, entered),
        };
        let all: u64 = self.places.ways(exit.to, &self.exits).map(weight).sum();
        let share = u128::from(entered(to) + older.map_or(0, entered)) * u128::from(weight(number))
            / u128::from(all.max(1));
        share as u64
    }

    /// How a unit goes on by its last exit.
    fn at_the_end(&self, exit: &Exit, number: u32, counts: &dyn Fn(u32) -> u64) -> Option<(Then, u64)> {
        match exit.kind {
            abi::JUMP => Some((Then::On, exit.to)),
            abi::INDIRECT_JUMP => {
                let counted = |(to, counter): (u64, Option<u32>)| (counter.map_or(0, counts), to);
                let (most, to) = self.sites.targets(number).map(counted).max()?;
                let all: u64 = self.sites.targets(number).map(counted).map(|(count, _)| count).sum();
                (most > all / 8 * 7 && can_compare(to)).then_some((Then::Guess(to), to))
            }
            _ => None,
        }
    }
}

/// How often a unit has been entered.
fn counts_of(unit: &Entry, counts: &dyn Fn(u32) -> u64) -> u64 {
    unit.counts().map_or(0, |(counter, _)| counts(counter))
}

/// Whether a branch can be turned round.
pub(crate) fn is_plain(branch: u64, maps: &Maps) -> bool {
    maps.insn(branch).is_some_and(|insn| matches!(insn.tie(maps.bytes(branch)), Tie::Branch(..)))
}

/// Whether code finds out where a jump leads, when it is executed for the first time: it puts a number on the stack for
/// the dynamic linker.
fn is_first_time(code: &[u8]) -> bool {
    const ENDBR: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    code.strip_prefix(&ENDBR).unwrap_or(code).first() == Some(&0x68)
}
