//! What is known at a place of a unit.

use super::{RCX, Why, demand};
use crate::thread::offset;
use alloc::vec::Vec;
use relive_abi::engine::NO_COUNTER;
use relive_code::isa::{Gpr, Insn, MemoryOperand, RegSet};

/// Where the program is.
#[derive(Clone)]
pub(super) enum Next {
    /// About to execute what lies here.
    At(u64),
    /// A return arrived where those to this address do: what lies between bits 16 and 47 is yet to be compared.
    Perhaps(u64),
    /// About to execute a computed jump or call, whose target has been loaded.
    Computed(Insn),
    /// A call has put its return address on the stack, and goes to `to` or where its target says.
    Call { site: Insn, back: u64, to: Option<u64> },
    /// A return has taken its target off the stack; so many bytes are left to be.
    Return { site: Insn, left: u64 },
    /// And has put on the stack where such returns land.
    Landing { site: Insn },
}

impl PartialEq for Next {
    fn eq(&self, other: &Self) -> bool {
        let key = |next: &Self| match next {
            Self::At(pc) => (0, *pc, 0),
            Self::Perhaps(pc) => (1, *pc, 0),
            Self::Computed(site) => (2, site.addr().0, 0),
            Self::Call { site, to, .. } => (3, site.addr().0, to.unwrap_or(0)),
            Self::Return { site, left } => (4, site.addr().0, *left),
            Self::Landing { site } => (5, site.addr().0, 0),
        };
        key(self) == key(other)
    }
}

/// What a register or a word of the thread's memory holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Value {
    /// What the program has in this register.
    Own(Gpr),
    /// A counter's.
    Count(u32),
    /// One more than that.
    Counted(u32),
    /// Where a computed jump, call or return leads, after these changes.
    Target(Vec<Change>),
    /// The same from bit 16 on; those above bit 31 are anything.
    Upper,
    /// The same less this number.
    Difference(u32),
    /// The lowest 16 bits of a target.
    Low,
    /// The lowest 16 bits of the number of a call of the kernel.
    KernelCall,
    /// Whether the engine looks at it.
    IsLookedAt,
    /// How far the result of a call of the kernel is from that which says that it could not write.
    FromFault,
    /// Not at all.
    Fault,
    /// This number.
    Address(u64),
    /// Something else.
    Other,
}

/// What can be taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Plus(i64),
    Rotated(u32),
}

impl Value {
    pub(super) fn plus(&self, number: i64) -> Option<Self> {
        let Self::Target(changes) = self else { return None };
        let mut changes = changes.clone();
        let sum = match changes.last() {
            Some(Change::Plus(before)) => Some(before.wrapping_add(number)),
            _ => None,
        };
        if sum.is_some() {
            changes.pop();
        }
        if sum != Some(0) {
            changes.push(Change::Plus(sum.unwrap_or(number)));
        }
        Some(Self::Target(changes))
    }

    /// To the right.
    pub(super) fn rotated(&self, by: u32) -> Option<Self> {
        let Self::Target(changes) = self else { return None };
        let mut changes = changes.clone();
        let sum = match changes.last() {
            Some(Change::Rotated(before)) => Some((before + by) % 64),
            _ => None,
        };
        if sum.is_some() {
            changes.pop();
        }
        if sum != Some(0) {
            changes.push(Change::Rotated(sum.unwrap_or(by)));
        }
        Some(Self::Target(changes))
    }

    /// The one target for which this is zero.
    pub(super) fn zero_for(&self) -> Option<u64> {
        let Self::Target(changes) = self else { return None };
        Some(changes.iter().rev().fold(0, |number: u64, change| match change {
            Change::Plus(n) => number.wrapping_sub(*n as u64),
            Change::Rotated(n) => number.rotate_left(*n),
        }))
    }

    pub(super) fn is_target(&self) -> bool {
        matches!(self, Self::Target(changes) if changes.is_empty())
    }
}

/// The words of the thread's memory in which something is kept.
const SLOTS: [u32; 4] = [offset::RAX, offset::RCX, offset::SCRATCH, offset::TARGET];
const RCX_SLOT: usize = 1;
const SCRATCH_SLOT: usize = 2;
const TARGET_SLOT: usize = 3;

/// What is known.
#[derive(Clone, PartialEq)]
pub(super) struct State {
    /// The place in the cache.
    pub at: u64,
    pub next: Next,
    registers: [Value; 16],
    slots: [Value; SLOTS.len()],
    /// Flags that are not the program's.
    pub flags: RegSet,
    /// An address in the cache is on the stack, above what the program has there.
    pub has_return: bool,
    /// The last jump that belongs to an exit.
    pub through: Option<u64>,
    /// By which exit the thread's memory says that it was left.
    pub exit: Option<u32>,
    /// The engine does not look at the call of the kernel that comes next.
    pub may_call_kernel: bool,
    /// What the program has in `rcx`, if that is known.
    pub rcx_is: Option<u64>,
    /// What has been counted, and what should have been.
    pub counted: Vec<u32>,
    expected: Vec<u32>,
    /// The next of the unit's exits.
    pub exits: usize,
}

impl State {
    /// Nothing has been changed.
    pub(super) fn new(at: u64, pc: u64, exits: usize, counter: Option<u32>) -> Self {
        let mut registers = [const { Value::Other }; 16];
        for register in Gpr::all() {
            registers[register.number()] = Value::Own(register);
        }
        Self {
            at,
            next: Next::At(pc),
            registers,
            slots: [const { Value::Other }; SLOTS.len()],
            flags: RegSet::EMPTY,
            has_return: false,
            through: None,
            exit: None,
            may_call_kernel: false,
            rcx_is: None,
            counted: Vec::new(),
            expected: counter.into_iter().collect(),
            exits,
        }
    }

    /// The same at another place.
    pub(super) fn to(&self, at: u64) -> Self {
        Self { at, ..self.clone() }
    }

    /// The same where a call has led.
    pub(super) fn called(&self, at: u64) -> Self {
        Self { at, has_return: true, ..self.clone() }
    }

    /// The same where a return has led.
    pub(super) fn returned(mut self, at: u64) -> Self {
        self.at = at;
        if let Next::At(pc) = self.next {
            self.next = Next::Perhaps(pc);
        }
        self.set(Gpr::RCX, Value::Other);
        self.slots[RCX_SLOT] = Value::Own(Gpr::RCX);
        self.slots[TARGET_SLOT] = Value::Target(Vec::new());
        self
    }

    pub(super) fn value(&self, register: Gpr) -> &Value {
        &self.registers[register.number()]
    }

    pub(super) fn set(&mut self, register: Gpr, value: Value) {
        let is_own = register == Gpr::RCX && matches!(value, Value::Address(n) if Some(n) == self.rcx_is);
        self.registers[register.number()] = if is_own { Value::Own(register) } else { value };
    }

    /// A word of the thread's memory in which something is kept.
    pub(super) fn slot(&mut self, at: Option<u32>) -> Option<&mut Value> {
        let index = SLOTS.iter().position(|&slot| Some(slot) == at)?;
        Some(&mut self.slots[index])
    }

    /// Registers and flags that are not as the program left them.
    pub(super) fn changed(&self) -> RegSet {
        Gpr::all().filter(|&r| *self.value(r) != Value::Own(r)).collect::<RegSet>() | self.flags
    }

    /// The program has executed an instruction, which has overwritten something.
    pub(super) fn executed(&mut self, kills: RegSet) {
        for register in Gpr::all() {
            let is_own =
                kills.contains(RegSet::gpr(register)) || *self.value(register) == Value::Own(register);
            self.registers[register.number()] = if is_own { Value::Own(register) } else { Value::Other };
        }
        self.flags = self.flags - kills;
        self.slots.fill(Value::Other);
        self.may_call_kernel = false;
        self.rcx_is = None;
    }

    /// The program has called the kernel, and goes on at `back`. The kernel has left the place in the cache in `rcx`.
    pub(super) fn called_kernel(&mut self, kills: RegSet, back: u64) {
        let is_kept = self.slots[SCRATCH_SLOT] == Value::Own(Gpr::RAX);
        self.executed(kills);
        self.set(Gpr::RCX, Value::Other);
        self.rcx_is = Some(back);
        if is_kept {
            self.slots[SCRATCH_SLOT] = Value::KernelCall;
        }
    }

    /// The kernel could not write, and what was asked of it is still known.
    pub(super) fn was_refused(&self) -> bool {
        *self.value(Gpr::RCX) == Value::Fault && self.slots[SCRATCH_SLOT] == Value::KernelCall
    }

    /// Something is to be counted on this way.
    pub(super) fn expect(&mut self, counter: u32) {
        if counter != NO_COUNTER {
            self.expected.push(counter);
        }
    }

    pub(super) fn counts_are_right(&self) -> Result<(), Why> {
        let sorted = |counters: &Vec<u32>| {
            let mut counters = counters.clone();
            counters.sort_unstable();
            counters
        };
        if sorted(&self.counted) == sorted(&self.expected) {
            return Ok(());
        }
        Err(Why::Counted(self.counted.clone(), self.expected.clone()))
    }

    /// Whether an operand is so many bytes into the word that holds the target of a return.
    pub(super) fn target_at(&self, memory: &MemoryOperand, distance: u32) -> bool {
        super::additions::plain(memory) == Some(offset::TARGET + distance) && self.target_is_stored()
    }

    pub(super) fn target_is_stored(&self) -> bool {
        self.slots[TARGET_SLOT].is_target()
    }

    /// `rcx` is kept in the thread's memory, and nothing else has been changed.
    pub(super) fn is_spilled(&self) -> Result<(), Why> {
        demand(self.slots[RCX_SLOT] == Value::Own(Gpr::RCX), "rcx is lost")?;
        let others = self.changed() - RCX;
        if others.is_empty() { Ok(()) } else { Err(Why::Changed(others)) }
    }

    /// The same, and `rcx` holds where the program goes.
    pub(super) fn is_target_in_rcx(&self) -> Result<(), Why> {
        demand(self.value(Gpr::RCX).is_target(), "the target is not in rcx")?;
        self.is_spilled()
    }
}
