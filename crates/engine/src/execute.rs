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

fn with_all_blocked(thread: &mut Thread, mask: u64) -> Result<usize, Errno> {
    thread.hand_over();
    let call = arguments(thread);
    let nr = thread.context.registers[RAX];
    // A shell looks for a program by trying: no need to ask for each of its guesses.
    let exists = nr == number::EXECVEAT || is_executable(call[0]);
    let known = PROCESS
        .take()
        .as_ref()
        .map(|p| (p.arena, if p.is_own() && p.log.head().is_some() { p.log.offset() } else { 0 }));
    let arena = known.map(|(arena, _)| arena);
    let mask = mask | thread.hidden;
    let mailbox = match known {
        Some((arena, log)) if exists && arena.options & ALONE == 0 => {
            ask(arena, &Request { what: WILL_EXECUTE, log, mask })
        }
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
        // Who follows waits for news of this process.
        kernel::tell_of_child(arena.tool);
        while wait_while(&mailbox.state, DID_NOT_EXECUTE).is_err() && !is_closed(arena) {}
    }
    result
}

fn is_executable(path: usize) -> bool {
    const FACCESSAT: usize = 269;
    const AT_FDCWD: isize = -100;
    // SAFETY: only reads the path.
    unsafe { kernel::call6(FACCESSAT, [AT_FDCWD as usize, path, 1, 0, 0, 0]) }.is_ok()
}

/// What is asked of whoever runs the process.
pub struct Request {
    /// The state of a mailbox with such a request.
    pub what: u32,
    /// See [`Mailbox::log`].
    pub log: u64,
    /// See [`Mailbox::mask`].
    pub mask: u64,
}

/// Asks for something. `None` if it will not be done; otherwise the mailbox is still in use.
pub fn ask(arena: &'static Arena, request: &Request) -> Option<&'static Mailbox> {
    if is_closed(arena) {
        return None;
    }
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
    mailbox.log.store(request.log, Ordering::Relaxed);
    mailbox.mask.store(request.mask, Ordering::Relaxed);
    mailbox.state.store(request.what, Ordering::Release);
    ring(arena);
    while wait_while(&mailbox.state, request.what).is_err() {
        if is_closed(arena) {
            return None;
        }
    }
    match mailbox.state.load(Ordering::Acquire) {
        FOLLOWED => Some(mailbox),
        NOT_FOLLOWED => {
            mailbox.state.store(FREE, Ordering::Release);
            None
        }
        _ => None,
    }
}

/// Whether there is nobody to ask any more.
fn is_closed(arena: &Arena) -> bool {
    arena.closed.load(Ordering::Acquire) != 0 || !kernel::process_exists(arena.tool)
}

fn ring(arena: &Arena) {
    arena.doorbell.fetch_add(1, Ordering::Release);
    wake(&arena.doorbell);
}

const FUTEX: usize = 202;
const ETIMEDOUT: Errno = Errno(110);

/// Wakes all that sleep, in whatever process.
fn wake(word: &AtomicU32) {
    const WAKE: usize = 1;
    // SAFETY: no memory is concerned.
    let _ = unsafe { kernel::call6(FUTEX, [word.as_ptr() as usize, WAKE, i32::MAX as usize, 0, 0, 0]) };
}

/// Sleeps while the word has this value, whoever changes it; an error if that takes long.
fn wait_while(word: &AtomicU32, value: u32) -> Result<(), Errno> {
    const WAIT: usize = 0;
    const LONG: [u64; 2] = [1, 0];
    while word.load(Ordering::Acquire) == value {
        let call = [word.as_ptr() as usize, WAIT, value as usize, LONG.as_ptr() as usize, 0, 0];
        // SAFETY: the kernel only reads the word and the time.
        if let Err(error @ ETIMEDOUT) = unsafe { kernel::call6(FUTEX, call) } {
            return Err(error);
        }
    }
    Ok(())
}
