//! System calls that change what the engine relies on: memory that can be executed, threads, processes, signals.
//! All others go straight to the kernel.

use crate::process::{PROCESS, Process};
use crate::thread::register::{R8, R9, R10, R11, RAX, RCX, RDI, RDX, RSI};
use crate::thread::{KERNEL_CALLS, Thread};
use crate::{restrict, room, rseq, signals, threads};
use relive_abi::kernel::{self, EINVAL, Errno};
use relive_abi::page_up;

#[allow(missing_docs)]
pub mod number {
    pub const MMAP: u64 = 9;
    pub const MPROTECT: u64 = 10;
    pub const MUNMAP: u64 = 11;
    pub const RT_SIGACTION: u64 = 13;
    pub const RT_SIGPROCMASK: u64 = 14;
    pub const RT_SIGRETURN: u64 = 15;
    pub const SIGALTSTACK: u64 = 131;
    pub const MREMAP: u64 = 25;
    pub const CLONE: u64 = 56;
    pub const FORK: u64 = 57;
    pub const VFORK: u64 = 58;
    pub const EXECVE: u64 = 59;
    pub const EXIT: u64 = 60;
    pub const PRCTL: u64 = 157;
    pub const ARCH_PRCTL: u64 = 158;
    pub const SETRLIMIT: u64 = 160;
    pub const PRLIMIT64: u64 = 302;
    pub const SECCOMP: u64 = 317;
    pub const EXECVEAT: u64 = 322;
    pub const PKEY_MPROTECT: u64 = 329;
    pub const RSEQ: u64 = 334;
    pub const CLONE3: u64 = 435;
}
use number::*;

const WATCHED: [u64; 22] = [
    RT_SIGPROCMASK,
    RT_SIGACTION,
    RT_SIGRETURN,
    SIGALTSTACK,
    MMAP,
    MPROTECT,
    MUNMAP,
    MREMAP,
    CLONE,
    FORK,
    VFORK,
    EXECVE,
    EXIT,
    PRCTL,
    ARCH_PRCTL,
    SETRLIMIT,
    PRLIMIT64,
    SECCOMP,
    EXECVEAT,
    PKEY_MPROTECT,
    RSEQ,
    CLONE3,
];

/// Notes which calls the engine wants to see.
pub fn watch(calls: &mut [u8; KERNEL_CALLS]) {
    for number in WATCHED {
        calls[number as usize] = 1;
    }
}

/// The program's arguments.
pub fn arguments(thread: &Thread) -> [usize; 6] {
    [RDI, RSI, RDX, R10, R8, R9].map(|r| thread.context.registers[r] as usize)
}

/// The call as the program asked for it.
///
/// # Safety
/// The program answers for what it does to its own memory; to the engine's it does nothing.
unsafe fn as_asked(thread: &Thread) -> Result<usize, Errno> {
    // SAFETY: as above.
    unsafe { kernel::call6(thread.context.registers[RAX] as usize, arguments(thread)) }
}

/// Does what the program asks of the kernel.
pub fn handle(thread: &mut Thread) {
    let [a, b, ..] = arguments(thread).map(|a| a as u64);
    let result = match thread.context.registers[RAX] {
        CLONE | FORK | VFORK | CLONE3 => threads::begin(thread),
        EXIT => threads::end(thread),
        RT_SIGACTION => signals::action(thread, arguments(thread)),
        RT_SIGPROCMASK => signals::mask(thread, arguments(thread)),
        RT_SIGRETURN => signals::return_from_handler(thread),
        SIGALTSTACK => signals::alternate_stack(thread, arguments(thread)),
        EXECVE | EXECVEAT => crate::execute::execute(thread),
        MMAP => changing(thread, a, b, false),
        MUNMAP => changing(thread, a, b, true),
        MPROTECT | PKEY_MPROTECT | MREMAP => changing(thread, a, b, true),
        ARCH_PRCTL => segment(thread, a),
        SETRLIMIT | PRLIMIT64 => limit(thread),
        // Comes here only if it cannot be let go.
        PRCTL | SECCOMP if restrict::is_asked(thread) => Err(EINVAL),
        RSEQ => rseq::call(thread, arguments(thread)),
        // SAFETY: the program's own business.
        _ => unsafe { as_asked(thread) },
    };
    thread.context.registers[RAX] = match result {
        Ok(value) => value as u64,
        Err(Errno(number)) => (-i64::from(number)) as u64,
    };
    thread.context.registers[RCX] = thread.context.pc;
    thread.context.registers[R11] = thread.context.rflags;
}

/// A call that may take away or change code.
fn changing(thread: &mut Thread, start: u64, len: u64, surely: bool) -> Result<usize, Errno> {
    const MAP_FIXED: u64 = 0x10;
    let mut guard = PROCESS.take();
    let Some(Process { maps, cache, .. }) = guard.as_mut() else { return Err(EINVAL) };
    let replaces = surely || thread.context.registers[R10] & MAP_FIXED != 0;
    let end = start.saturating_add(page_up(len.min(1 << 47)));
    if replaces && maps.overlaps(start, end) {
        maps.forget(start, end);
        cache.guard.forget(start, end);
        cache.invalidate(start, end);
    }
    // SAFETY: the program's own business. The lock is held, so that no other thread translates what goes away.
    unsafe { as_asked(thread) }
}

fn segment(thread: &mut Thread, what: u64) -> Result<usize, Errno> {
    const ARCH_SET_GS: u64 = 0x1001;
    const ARCH_GET_GS: u64 = 0x1004;
    if what == ARCH_SET_GS || what == ARCH_GET_GS {
        return Err(EINVAL);
    }
    // SAFETY: the program's own business.
    unsafe { as_asked(thread) }
}

/// A limit, perhaps of what the engine has much of.
fn limit(thread: &Thread) -> Result<usize, Errno> {
    // SAFETY: the program's own business.
    let result = unsafe { as_asked(thread) };
    if let Some(Process { arena, log, .. }) = PROCESS.take().as_mut() {
        room::shrink(arena, log);
    }
    result
}
