//! What happened in a thread, one thing after the other, as whoever replays a trace is told.

use crate::units::{State, Unit};
use relive_code::isa::AccessKind;

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Where in memory.
    pub address: u64,
    /// How many bytes.
    pub size: u32,
    /// Which instruction of the unit.
    pub step: u16,
    /// Whether it reads or writes.
    pub kind: AccessKind,
    /// Whether nobody else can come in between (`lock`, `xchg` with memory).
    pub is_locked: bool,
}

/// When an instruction was executed that other threads may wait for: numbers that grow with time, the same for all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Which instruction of the unit.
    pub step: u16,
    /// Some time before it.
    pub before: u64,
    /// Some time behind it.
    pub after: u64,
}

/// A unit that was executed, or a part of it.
///
/// If an instruction repeats itself very often, its unit is told in parts: each but the last ends before that instruction, though with
/// some of its accesses, and without an exit; the next begins with it.
#[derive(Clone, Copy)]
pub struct Ran<'a> {
    /// The unit.
    pub unit: &'a Unit,
    /// The first of its instructions that is executed in this part. Only if it is zero, the unit was entered.
    pub from: usize,
    /// Behind the last one. Of one that repeats itself, a part may have been executed in addition, if there is no exit: its accesses are
    /// told.
    pub steps: usize,
    /// By which exit it was left; none if it was left in the middle, or if another part follows.
    pub exit: Option<usize>,
    /// Every access to memory, in order. None in a trace of control flow alone.
    pub references: &'a [Reference],
    /// Instructions with a [`Reference::is_locked`], in order.
    pub stamps: &'a [Stamp],
}

impl Ran<'_> {
    /// Whether control has come in this part to an instruction that begins a piece, from the piece before. What comes last may be the way there.
    #[must_use]
    pub fn has_come_to(&self, step: usize) -> bool {
        self.from < step && (step < self.steps || step == self.steps && self.exit.is_none())
    }
}

/// What else happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The thread goes on from outside: at its start, in a handler of a signal, or behind one.
    State(State),
    /// A call of the kernel begins.
    Call {
        /// Which.
        number: u64,
        /// With what.
        arguments: [u64; 6],
        /// Some time before it.
        time: u64,
    },
    /// It is over.
    Result {
        /// What it returns.
        value: u64,
        /// Some time behind it.
        time: u64,
    },
    /// The call of the kernel at the end of the unit before was not made.
    NotCalled,
}

/// Who is told of what happened in a thread.
pub trait Visitor {
    /// A unit was executed.
    fn ran(&mut self, ran: &Ran<'_>);

    /// Something else happened.
    fn event(&mut self, _event: &Event) {}
}
