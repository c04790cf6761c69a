//! What each thread has of its own, where `gs` points: places for registers, the ways into the engine, the table of
//! return targets and, behind them, its counters.

use crate::entry;
use crate::frame::{SignalInfo, SignalStack};
use crate::interrupted::Interrupted;
use crate::limits;
use crate::processor;
use crate::rseq::Registration;
use crate::signals::NEEDED;

/// The state of a program that is not running just now.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Context {
    /// By hardware number.
    pub registers: [u64; 16],
    /// The flags.
    pub rflags: u64,
    /// Where it goes on.
    pub pc: u64,
    fill: [u64; 6],
    /// `xmm0` to `xmm15`: all that the engine's own code may overwrite of the rest of the state.
    pub vectors: [u64; 32],
}

impl Context {
    /// All zero.
    pub const ZERO: Self = Self { registers: [0; 16], rflags: 0, pc: 0, fill: [0; 6], vectors: [0; 32] };
}

/// Register numbers, as in [`Context::registers`].
pub mod register {
    #![allow(missing_docs)]
    pub const RAX: usize = 0;
    pub const RCX: usize = 1;
    pub const RDX: usize = 2;
    pub const RBX: usize = 3;
    pub const RSP: usize = 4;
    pub const RBP: usize = 5;
    pub const RSI: usize = 6;
    pub const RDI: usize = 7;
    pub const R8: usize = 8;
    pub const R9: usize = 9;
    pub const R10: usize = 10;
    pub const R11: usize = 11;
}

/// How many numbers of system calls are told apart.
pub const KERNEL_CALLS: usize = 1 << 16;
/// How many places there are for return targets, at first and at most. The low bits of an address choose one.
pub const RETURNS: usize = 1 << 16;
/// At most.
pub const MOST_RETURNS: usize = 1 << 19;
/// How many returns may find another's target in their place until there are more places.
const PATIENCE: u64 = 1 << 16;

/// No code: the thread has ended.
pub const NO_GENERATION: u32 = u32::MAX;

/// A thread's own memory.
#[repr(C)]
pub struct Thread {
    /// Its own address.
    pub this: u64,
    /// Where spilled registers are.
    pub rax: u64,
    /// The same.
    pub rcx: u64,
    /// For one more register, over a few instructions.
    pub scratch: u64,
    /// Why the cache was left: the number of an exit.
    pub exit: u32,
    /// Whether the engine is at work: a signal must wait.
    pub inside: u32,
    /// The engine's stack.
    pub stack: u64,
    /// Where to go on in the cache.
    pub resume: u64,
    /// Into the engine, by an exit.
    pub enter: u64,
    /// Into the engine, with a target in `rcx`, which is spilled.
    pub enter_indirect: u64,
    /// From a landing that was not the right one.
    pub wrong_landing: u64,
    /// Where a return leads, or a computed jump that missed.
    pub target: u64,
    /// Where the table of all return targets of the process is noted: see [`crate::returns`].
    pub all_returns: u64,
    /// Which bits of an address choose a place in [`Self::returns`].
    pub returns_mask: u64,
    /// How many more times code may look into the table of all.
    pub patience: u64,
    /// Flags and a register, while code looks into it.
    pub flags: u64,
    /// The same.
    pub rdx: u64,
    /// Of a traced program: its `r11`, while code in the cache runs, as that points to the next record.
    pub r11: u64,
    /// The same for a register that points there within a unit.
    pub host: u64,
    /// Where the next record goes, while the engine or the kernel is at work for the thread.
    pub buffer: u64,
    /// Where its [`relive_abi::trace::Ring`] is; 0 if it is not traced.
    pub ring: u64,
    /// Where it has gone on behind a signal, if it steps through itself: in the cache, and in the program.
    pub resumed: [u64; 2],
    /// The process that empties it.
    pub tool: u32,
    /// Whether it does.
    pub is_collected: bool,
    /// The program's state while the engine runs.
    pub context: Context,
    /// The thread's number.
    pub tid: u32,
    /// A signal has been put aside and everything is blocked.
    pub masked: u32,
    /// Whether it belongs to another process that nobody follows: its counters are its own.
    pub is_apart: bool,
    /// The code it goes on in, or is in: see [`crate::renewal`].
    pub generation: u32,
    /// What the program blocks, while everything is blocked.
    pub mask: u64,
    /// What the program believes to block of the signals that the engine needs.
    pub hidden: u64,
    /// The signal; number 0 if there is none.
    pub put_aside: SignalInfo,
    /// Signals that the engine needs itself, sent by somebody while they are blocked or another is put aside.
    pub held: [SignalInfo; NEEDED.count_ones() as usize],
    /// What the program blocks while it waits, in calls that say so.
    pub waits_with: u64,
    /// Whether it does: see [`crate::masks`].
    pub wait: u32,
    /// Whether the kernel has been asked to forget all handlers of a new process, the engine's too.
    pub has_no_handlers: u32,
    /// Whether its parent waits until it is not used any more.
    pub is_lent: u32,
    /// The program's own base of `gs`.
    pub gs_base: u64,
    /// What it has last loaded into `gs`.
    pub gs_selector: u64,
    /// The program's signal stack.
    pub signal_stack: SignalStack,
    /// The engine's.
    pub engine_stack: SignalStack,
    /// Where the program's handlers are.
    pub handlers: u64,
    /// What the kernel is told about restartable sequences when the engine goes.
    pub rseq: Registration,
    /// What signals have interrupted, the latest last.
    pub interrupted: Interrupted,
    /// Which system calls the engine looks at: not zero.
    pub kernel_calls: [u8; KERNEL_CALLS],
    /// Where returns go, by the low bits of the address.
    pub returns: [u64; MOST_RETURNS],
}

impl Thread {
    /// Forgets where returns go.
    pub fn forget_returns(&mut self) {
        self.returns_mask = self.returns_mask.max(RETURNS as u64 - 1);
        self.patience = self.patience.max(PATIENCE);
        self.returns[..=self.returns_mask as usize].fill(entry::unknown_return as *const () as u64);
    }

    /// Remembers where a return to an address goes.
    pub fn remember_return(&mut self, to: u64, landing: u64) {
        if self.patience == 0 {
            self.patience = u64::MAX;
            if processor::can_extract() {
                self.returns_mask = MOST_RETURNS as u64 - 1;
                self.returns[RETURNS..].fill(entry::unknown_return as *const () as u64);
            }
        }
        self.returns[(to & self.returns_mask) as usize] = landing;
    }

    /// Whether a signal has been put aside, by a handler that may have run just now.
    pub fn is_masked(&self) -> bool {
        // SAFETY: a field of this thread.
        unsafe { (&raw const self.masked).read_volatile() != 0 }
    }
}

/// Distances from `gs`.
pub mod offset {
    #![allow(missing_docs, reason = "the fields of the same names have it")]
    use super::Thread;
    use core::mem::offset_of;

    pub const RAX: u32 = offset_of!(Thread, rax) as u32;
    pub const RCX: u32 = offset_of!(Thread, rcx) as u32;
    pub const SCRATCH: u32 = offset_of!(Thread, scratch) as u32;
    pub const EXIT: u32 = offset_of!(Thread, exit) as u32;
    pub const ENTER: u32 = offset_of!(Thread, enter) as u32;
    pub const ENTER_INDIRECT: u32 = offset_of!(Thread, enter_indirect) as u32;
    pub const WRONG_LANDING: u32 = offset_of!(Thread, wrong_landing) as u32;
    pub const TARGET: u32 = offset_of!(Thread, target) as u32;
    pub const RDX: u32 = offset_of!(Thread, rdx) as u32;
    pub const R11: u32 = offset_of!(Thread, r11) as u32;
    pub const HOST: u32 = offset_of!(Thread, host) as u32;
    pub const BUFFER: u32 = offset_of!(Thread, buffer) as u32;
    pub const GS_BASE: u32 = offset_of!(Thread, gs_base) as u32;
    pub const GS_SELECTOR: u32 = offset_of!(Thread, gs_selector) as u32;
    pub const KERNEL_CALLS: u32 = offset_of!(Thread, kernel_calls) as u32;
    pub const RETURNS: u32 = offset_of!(Thread, returns) as u32;
    pub const RETURNS_MASK: u32 = offset_of!(Thread, returns_mask) as u32;

    /// Where counters begin.
    pub const COUNTERS: u32 = (size_of::<Thread>() as u32).next_multiple_of(4096);

    /// Where a counter is.
    pub fn counter(number: u32) -> u32 {
        COUNTERS + number * 8
    }
}

/// What a thread takes in memory with its counters, not with its stacks.
pub fn len() -> u64 {
    u64::from(offset::COUNTERS) + limits::counters()
}
