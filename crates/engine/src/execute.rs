//! The process becomes another program, and the engine follows it there: whoever runs it puts the engine into the
//! new program before its first instruction.

use crate::entry::{self, AGAIN};
use crate::kernel_calls::{arguments, number};
use crate::process::PROCESS;
use crate::signals::ALL_BUT_NEEDED;
use crate::thread::Thread;
use crate::thread::register::RAX;
use core::sync::atomic::{AtomicU32, Ordering};
use relive_abi::engine::{
    ALONE, Arena, DID_NOT_EXECUTE, FOLLOWED, FREE, MAILBOXES, Mailbox, NOT_FOLLOWED, TAKEN, WILL_EXECUTE,
};
use relive_abi::kernel::{self, Errno};

/// Executes another program; comes back if that fails, or if a signal is first.
pub fn execute(thread: &mut Thread) -> Result<usize, Errno> {
    // From here on, signals are for the new program.
    let mask = kernel::block_signals();
    let result = if thread.is_masked() { Err(AGAIN) } else { with_all_blocked(thread, mask) };
    kernel::block_signals();
    kernel::restore_signals(if thread.is_masked() { ALL_BUT_NEEDED } else { mask });
    result
}

fn with_all_blocked(thread: &Thread, mask: u64) -> Result<usize, Errno> {
    let call = arguments(thread);
    let nr = thread.context.registers[RAX];
    // A shell looks for a program by trying: no need to ask for each of its guesses.
    let exists = nr == number::EXECVEAT || is_executable(call[0]);
    let known = PROCESS
        .take()
        .as_ref()
        .map(|p| (p.arena, if p.is_own() && p.log.head().is_some() { p.log.offset(p.arena) } else { 0 }));
    let arena = known.map(|(arena, _)| arena);
    let mask = mask | thread.hidden;
    let mailbox = match known {
        Some((arena, log)) if exists && arena.options & ALONE == 0 => ask(arena, log, mask),
        _ => None,
    };
    let result = if mailbox.is_some() {
        // Whoever follows gives the new program its mask.
        // SAFETY: replaces this program, or does nothing.
        unsafe { kernel::call6(nr as usize, call) }
    } else {
        kernel::restore_signals(mask);
        entry::call(nr, &call)
    };
    if let (Some(arena), Some(mailbox)) = (arena, mailbox) {
        mailbox.state.store(DID_NOT_EXECUTE, Ordering::Release);
        ring(arena);
        wait_while(&mailbox.state, DID_NOT_EXECUTE);
    }
    result
}

fn is_executable(path: usize) -> bool {
    const FACCESSAT: usize = 269;
    const AT_FDCWD: isize = -100;
    // SAFETY: only reads the path.
    unsafe { kernel::call6(FACCESSAT, [AT_FDCWD as usize, path, 1, 0, 0, 0]) }.is_ok()
}

fn ask(arena: &'static Arena, log: u64, mask: u64) -> Option<&'static Mailbox> {
    // With as many processes as mailboxes about to execute something, the next waits a little.
    let mailbox = loop {
        let free = |m: &&Mailbox| {
            m.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        if let Some(mailbox) = arena.mailboxes[..MAILBOXES].iter().find(free) {
            break mailbox;
        }
        core::hint::spin_loop();
    };
    mailbox.tid.store(kernel::gettid(), Ordering::Relaxed);
    mailbox.log.store(log, Ordering::Relaxed);
    mailbox.mask.store(mask, Ordering::Relaxed);
    mailbox.state.store(WILL_EXECUTE, Ordering::Release);
    ring(arena);
    wait_while(&mailbox.state, WILL_EXECUTE);
    match mailbox.state.load(Ordering::Acquire) {
        FOLLOWED => Some(mailbox),
        NOT_FOLLOWED => {
            mailbox.state.store(FREE, Ordering::Release);
            None
        }
        _ => None,
    }
}

fn ring(arena: &Arena) {
    arena.doorbell.fetch_add(1, Ordering::Release);
    wake(&arena.doorbell);
}

const FUTEX: usize = 202;

/// Wakes all that sleep, in whatever process.
fn wake(word: &AtomicU32) {
    const WAKE: usize = 1;
    // SAFETY: no memory is concerned.
    let _ = unsafe { kernel::call6(FUTEX, [word.as_ptr() as usize, WAKE, i32::MAX as usize, 0, 0, 0]) };
}

/// Sleeps while the word has this value, whoever changes it.
fn wait_while(word: &AtomicU32, value: u32) {
    const WAIT: usize = 0;
    while word.load(Ordering::Acquire) == value {
        // SAFETY: the kernel only reads the word.
        let _ = unsafe { kernel::call6(FUTEX, [word.as_ptr() as usize, WAIT, value as usize, 0, 0, 0]) };
    }
}
