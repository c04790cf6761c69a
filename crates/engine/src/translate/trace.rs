//! Ways through a program that are often taken: over branches, and along computed jumps where they mostly lead.
//!
//! Into calls only together with the way back ([`Then::Called`], [`Then::Returned`]), and only if somebody writes records: without a `call`
//! in the cache, the processor does not foresee the return of who leaves the way before. One who does makes up for it: see [`make_up`].

use super::call::{Pushed, choose_landing};
use super::emit::Buffer;
use super::{
    Exit, IN_RCX, Piece, STEP, Source, Spilled, Step, Way, Writer, count, free, next_step, patch, rare,
};
use crate::processor;
use crate::thread::offset;
use crate::translate::free::Free;
use alloc::vec::Vec;
use relive_abi::engine as abi;
use relive_code::addr::LinkAddr;
use relive_code::isa::{Decode, Gpr};

/// A part of the way: instructions one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The first instruction.
    pub start: u64,
    /// Behind the last.
    pub end: u64,
    /// How it goes on from there.
    pub then: Then,
}

/// How the way goes on after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Straight on, or to where a jump always leads. At the end: wherever.
    On,
    /// A branch is taken.
    Taken,
    /// A computed jump leads here.
    Guess(u64),
    /// The function that is called comes next.
    Called,
    /// A computed call leads here.
    GuessedCall(u64),
    /// A return leads here, behind a call that was followed.
    Returned(u64),
}

impl Then {
    /// Whether a call is followed.
    pub fn is_call(self) -> bool {
        matches!(self, Self::Called | Self::GuessedCall(_))
    }
}

/// The instructions of a way.
pub(super) fn along(source: &dyn Source, legs: &[Leg]) -> Way {
    let pieces = legs.iter().map(|leg| Piece { start: leg.start, end: leg.end }).collect();
    let mut way = Way { steps: Vec::new(), pieces, next: legs[0].start };
    for (piece, leg) in legs.iter().enumerate() {
        let mut at = leg.start;
        while at < leg.end {
            let bytes = source.bytes(at);
            let step = next_step(&mut way.steps, piece);
            if !step.decode(&mut Decode::new(bytes, LinkAddr(at)), bytes, at) {
                way.steps.pop();
                return way;
            }
            at = step.insn.next_addr().0;
            if at == leg.end {
                step.then = leg.then;
            }
            if step.rare.is_some_and(rare::ends) {
                way.pieces.truncate(piece + 1);
                return way;
            }
        }
        way.next = at;
    }
    way
}

impl Writer<'_, '_> {
    /// A branch whose target comes next; not to take it leads away.
    pub(super) fn branch_followed(&mut self, step: &Step, condition: u8, to: u64) {
        let next = step.insn.next_addr().0;
        self.branch_away(step, abi::STRAY, next, |hot, to| hot.branch(condition ^ 1, to));
        self.mark(to, Spilled::default());
    }

    /// A computed jump that mostly leads to `to`, which comes next.
    pub(super) fn guess(&mut self, step: &Step, to: u64) {
        let pc = step.pc();
        let spilled = Spilled { rcx: true, ..Spilled::default() };
        self.unit.hot.store(offset::RCX, Gpr::RCX);
        self.mark(pc, spilled);
        self.load_target(step);
        self.mark(STEP, Spilled::default());
        let elsewhere = self.compare(to);
        self.mark_cold(STEP);
        self.unit.cold.raw(&elsewhere);
        let counter = if self.request.counts() { self.counter() } else { None };
        if let Some(counter) = counter {
            count(&mut self.unit.cold, counter, Free::NOTHING);
        }
        self.mark_cold_spilled(IN_RCX, spilled);
        let counter = counter.unwrap_or(abi::NO_COUNTER);
        self.unit.exits.push(Exit {
            kind: abi::GUESS,
            to: pc,
            from: pc,
            piece: step.piece as u16,
            counter,
            ..Exit::NONE
        });
        let number = self.next_exit();
        if self.recorder.is_some() {
            self.end_record_aside(number);
            self.make_up(false);
            self.mark_cold_spilled(IN_RCX, spilled);
            choose_landing(&mut self.unit.cold);
            self.unit.cold.jump_from_table(offset::RETURNS);
            self.exit(abi::INDIRECT_JUMP, step.piece, pc, 0, 0, 0);
            self.mark(to, Spilled::default());
            return;
        }
        let start = self.unit.cold.here();
        let field = self.unit.cold.jump(start);
        let stub = self.unit.cold.here();
        self.unit.cold.store_number(offset::EXIT, number);
        self.unit.cold.jump_through(offset::ENTER_INDIRECT);
        patch(&mut self.unit.cold, field, stub);
        self.exit(abi::INDIRECT_JUMP, step.piece, pc, 0, field, stub);
        self.mark(to, Spilled::default());
    }

    /// A call whose function comes next.
    pub(super) fn follow_call(&mut self, step: &Step, to: u64) {
        let back = step.insn.next_addr().0;
        self.push_return(back);
        self.mark(to, Spilled::default());
        self.followed.push(back);
    }

    /// A computed call that mostly leads to `to`, which comes next.
    pub(super) fn guess_call(&mut self, step: &Step, to: u64) {
        let (pc, back) = (step.pc(), step.insn.next_addr().0);
        let spilled = Spilled { rcx: true, ..Spilled::default() };
        self.unit.hot.store(offset::RCX, Gpr::RCX);
        self.mark(pc, spilled);
        self.load_target(step);
        self.mark(STEP, Spilled::default());
        let pushed = Pushed::new(&mut self.unit.cold, back);
        let elsewhere = self.compare(to);
        self.mark_cold(STEP);
        self.unit.cold.raw(&elsewhere);
        pushed.push(&mut self.unit.cold);
        self.guessed_wrong(step);
        self.followed.push(back);
        self.end_record_aside(self.next_exit());
        self.make_up(false);
        self.mark_cold_spilled(IN_RCX, spilled);
        choose_landing(&mut self.unit.cold);
        self.unit.cold.jump_from_table(offset::RETURNS);
        self.exit(abi::INDIRECT_CALL, step.piece, pc, 0, 0, 0);
        pushed.push(&mut self.unit.hot);
        self.mark(to, Spilled::default());
    }

    /// An exit that says where a guess was, and that nobody leaves by: see [`abi::GUESS`].
    fn guessed_wrong(&mut self, step: &Step) {
        let (pc, piece) = (step.pc(), step.piece as u16);
        self.unit.exits.push(Exit { kind: abi::GUESS, to: pc, from: pc, piece, ..Exit::NONE });
    }

    /// A return that leads to `to`, which comes next, if nobody has changed where.
    pub(super) fn follow_return(&mut self, step: &Step, to: u64) {
        let spilled = self.take_return(step);
        let elsewhere = self.compare(to);
        self.mark_cold(STEP);
        self.unit.cold.raw(&elsewhere);
        self.end_record_aside(self.next_exit());
        self.mark_cold_spilled(IN_RCX, spilled);
        choose_landing(&mut self.unit.cold);
        self.unit.cold.jump_from_table(offset::RETURNS);
        self.exit(abi::RETURN, step.piece, step.pc(), 0, 0, 0);
        self.mark(to, Spilled::default());
        self.followed.pop();
    }

    /// Goes on if `rcx`, which is spilled, is an address, and out of the way otherwise: then what is returned puts the
    /// number in `rcx` back.
    fn compare(&mut self, to: u64) -> Vec<u8> {
        let needs_rcx = !free::overwrites(self.request.source, self.effects, to, Gpr::RCX);
        let elsewhere = self.unit.cold.here();
        let hot = &mut self.unit.hot;
        let back = differ(hot, to);
        hot.raw(&[0xe3, 5, 0xe9]); // jrcxz over the jump
        hot.distance(elsewhere, 0);
        if needs_rcx {
            hot.load(Gpr::RCX, offset::RCX);
        }
        back
    }
}

/// Whether [`differ`] can tell an address from others.
pub fn can_compare(to: u64) -> bool {
    // The opposite of the smallest number is no number.
    to as u32 != 1 << 31 && (processor::can_rotate() || i32::try_from(to).is_ok())
}

/// Makes `rcx` zero if it is this address, without flags and another register; returns code that takes it back. Takes
/// the lower half of the address away, then the upper.
pub fn differ(code: &mut Buffer, to: u64) -> Vec<u8> {
    const ROTATE: [u8; 6] = [0xc4, 0xe3, 0xfb, 0xf0, 0xc9, 32]; // rorx rcx, rcx, 32
    let add = |number: i32| {
        let [a, b, c, d] = number.to_le_bytes();
        [0x48, 0x8d, 0x89, a, b, c, d] // lea rcx, [rcx + …]
    };
    let low = to as u32 as i32;
    // What is left is a multiple of 2³², so rotating brings it down.
    let high = (to.wrapping_sub(low as i64 as u64) >> 32) as u32 as i32;
    code.raw(&add(low.wrapping_neg()));
    if high == 0 {
        return add(low).to_vec();
    }
    code.raw(&ROTATE);
    code.raw(&add(high.wrapping_neg()));
    [&add(high)[..], &ROTATE, &add(low)].concat()
}
