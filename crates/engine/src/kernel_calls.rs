//! System calls that change what the engine relies on: memory that can be executed, threads, processes, signals.
//! All others go straight to the kernel.

use crate::entry::{self, AGAIN};
use crate::process::{PROCESS, Process};
use crate::thread::register::{R8, R9, R10, R11, RAX, RCX, RDI, RDX, RSI};
use crate::thread::{KERNEL_CALLS, Thread};
use crate::{kernel_writes, limits, masks, restrict, rseq, segments, signals, threads};
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
    pub const RT_SIGSUSPEND: u64 = 130;
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
    pub const EXIT_GROUP: u64 = 231;
    pub const PSELECT6: u64 = 270;
    pub const PPOLL: u64 = 271;
    pub const EPOLL_PWAIT: u64 = 281;
    pub const PRLIMIT64: u64 = 302;
    pub const SECCOMP: u64 = 317;
    pub const EXECVEAT: u64 = 322;
    pub const MEMBARRIER: u64 = 324;
    pub const PKEY_MPROTECT: u64 = 329;
    pub const IO_PGETEVENTS: u64 = 333;
    pub const RSEQ: u64 = 334;
    pub const CLONE3: u64 = 435;
    pub const EPOLL_PWAIT2: u64 = 441;
}
use number::*;

const WATCHED: [u64; 30] = [
    RT_SIGPROCMASK,
    RT_SIGACTION,
    RT_SIGRETURN,
    RT_SIGSUSPEND,
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
    EXIT_GROUP,
    PSELECT6,
    PPOLL,
    EPOLL_PWAIT,
    PRLIMIT64,
    SECCOMP,
    EXECVEAT,
    MEMBARRIER,
    PKEY_MPROTECT,
    IO_PGETEVENTS,
    RSEQ,
    CLONE3,
    EPOLL_PWAIT2,
];

/// What `prctl` is asked for: an end to reading the time stamp counter.
const NO_TIME: [usize; 2] = [26, 2];

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

/// Does what the program asks of the kernel. Whether it is done: if not, a signal is first.
pub fn handle(thread: &mut Thread) -> bool {
    let call = arguments(thread);
    let [a, b, ..] = call.map(|a| a as u64);
    // The kernel looks at no more than half of it.
    let number = u64::from(thread.context.registers[RAX] as u32);
    let result = match number {
        CLONE | FORK | VFORK | CLONE3 => threads::begin(thread),
        EXIT => threads::end(thread),
        EXIT_GROUP => {
            thread.hand_over();
            threads::end_process();
            // SAFETY: there is nothing after it.
            unsafe { as_asked(thread) }
        }
        RT_SIGACTION => signals::action(thread, call),
        RT_SIGPROCMASK => masks::change(thread, call),
        RT_SIGSUSPEND | PSELECT6 | PPOLL | EPOLL_PWAIT | EPOLL_PWAIT2 | IO_PGETEVENTS => {
            masks::wait(thread, number, call)
        }
        RT_SIGRETURN => signals::return_from_handler(thread),
        SIGALTSTACK => signals::alternate_stack(thread, call),
        EXECVE | EXECVEAT => crate::execute::execute(thread),
        MMAP => changing(thread, a, b, false),
        MUNMAP => changing(thread, a, b, true),
        MPROTECT | PKEY_MPROTECT | MREMAP => changing(thread, a, b, true),
        ARCH_PRCTL => segments::prctl(thread, call),
        SETRLIMIT | PRLIMIT64 => limit(number, &call),
        // Comes here only if it cannot be let go.
        PRCTL | SECCOMP if restrict::is_asked(thread) => Err(EINVAL),
        // Code in the cache of traced programs looks at the time.
        PRCTL if call[..2] == NO_TIME && thread.is_traced() => Err(EINVAL),
        RSEQ => rseq::call(thread, call),
        MEMBARRIER => rseq::barrier(&call),
        _ => {
            kernel_writes::open_ahead(number, &call);
            entry::call(number, &call)
        }
    };
    thread.context.registers[RAX] = match result {
        Ok(value) => value as u64,
        Err(AGAIN) => return false,
        Err(Errno(number)) => (-i64::from(number)) as u64,
    };
    thread.context.registers[RCX] = thread.context.pc;
    thread.context.registers[R11] = thread.context.rflags;
    true
}

/// A call that may take away or change code.
fn changing(thread: &mut Thread, start: u64, len: u64, surely: bool) -> Result<usize, Errno> {
    const MAP_SHARED: u64 = 1;
    const MAP_FIXED: u64 = 0x10;
    const PROT_WRITE: u64 = 2;
    let mut guard = PROCESS.take();
    let Some(Process { maps, cache, .. }) = guard.as_mut() else { return Err(EINVAL) };
    let [number, rights, flags] = [RAX, RDX, R10].map(|r| thread.context.registers[r]);
    let replaces = surely || flags & MAP_FIXED != 0;
    let end = start.saturating_add(page_up(len.min(1 << 47)));
    if replaces && number == MREMAP {
        // Pages that move keep what can be done with them.
        cache.open(start, end - start);
    }
    if replaces && (maps.overlaps(start, end) || !cache.guard.is_empty()) {
        maps.forget(start, end);
        cache.forget(start, end);
    }
    let shares = number == MMAP && flags & MAP_SHARED != 0 || number == MPROTECT || number == PKEY_MPROTECT;
    if shares && rights & PROT_WRITE != 0 {
        cache.give_up_shared();
    }
    // SAFETY: the program's own business. The lock is held, so that no other thread translates what goes away.
    unsafe { as_asked(thread) }
}

/// A limit, perhaps of what the engine has much of.
fn limit(number: u64, call: &[usize; 6]) -> Result<usize, Errno> {
    kernel_writes::open_ahead(number, call);
    let result = entry::call(number, call);
    if let Some(Process { arena, log, .. }) = PROCESS.take().as_mut() {
        limits::shrink(arena, log);
    }
    result
}
