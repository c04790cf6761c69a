//! What each thread has of its own, where `gs` points: places for registers, the ways into the engine, the table of
//! return targets and, behind them, its counters.

use crate::frame::{SignalInfo, SignalStack};
use crate::interrupted::Interrupted;
use crate::room;
use crate::rseq::Registration;

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
    pub const RSP: usize = 4;
    pub const RSI: usize = 6;
    pub const RDI: usize = 7;
    pub const R8: usize = 8;
    pub const R9: usize = 9;
    pub const R10: usize = 10;
    pub const R11: usize = 11;
}

/// How many numbers of system calls are told apart.
pub const KERNEL_CALLS: usize = 1 << 16;
/// How many bits of a return address choose where to look.
pub const RETURNS: usize = 1 << 16;

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
    /// The table of all return targets of the process: see [`crate::returns`].
    pub all_returns: u64,
    /// Flags and a register, while code looks into it.
    pub flags: u64,
    /// The same.
    pub rdx: u64,
    /// The program's state while the engine runs.
    pub context: Context,
    /// The thread's number.
    pub tid: u32,
    /// A signal has been put aside and everything is blocked.
    pub masked: u32,
    /// What the program blocks, while everything is blocked.
    pub mask: u64,
    /// What the program believes to block of the signals that the engine needs.
    pub hidden: u64,
    /// The signal; number 0 if there is none.
    pub put_aside: SignalInfo,
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
    pub returns: [u64; RETURNS],
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
    pub const KERNEL_CALLS: u32 = offset_of!(Thread, kernel_calls) as u32;
    pub const RETURNS: u32 = offset_of!(Thread, returns) as u32;

    /// Where counters begin.
    pub const COUNTERS: u32 = (size_of::<Thread>() as u32).next_multiple_of(4096);

    /// Where a counter is.
    pub fn counter(number: u32) -> u32 {
        COUNTERS + number * 8
    }
}

/// What a thread takes in memory with its counters, not with its stacks.
pub fn len() -> u64 {
    u64::from(offset::COUNTERS) + room::counters()
}
