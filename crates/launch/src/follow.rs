//! Answers processes that are about to execute another program, and puts the engine into that.

use crate::Error;
use crate::arena::Arena;
use crate::image::Image;
use crate::processes::status;
use crate::tracee::{Tracee, let_go, request, signal_of, wait};
use crate::{attach, inject};
use libc::pid_t;
use relive_abi::engine::{
    DID_NOT_EXECUTE, EXECUTED, FOLLOWED, FREE, Mailbox, NOT_FOLLOWED, WILL_EXECUTE, WILL_RESTRICT,
};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Answers until told to stop. Everything about one process is done by this one thread: the kernel wants it so.
pub(crate) fn serve(arena: &Arena, image: &Image, stop: &AtomicBool) {
    let head = arena.head();
    loop {
        let rung = head.doorbell.load(Ordering::Acquire);
        let is_over = stop.load(Ordering::Acquire);
        head.closed.store(is_over.into(), Ordering::Release);
        for mailbox in &head.mailboxes {
            match mailbox.state.load(Ordering::Acquire) {
                WILL_EXECUTE => answer(mailbox, arena, image),
                WILL_RESTRICT => let_restrict(mailbox, arena, image),
                _ => {}
            }
        }
        if is_over {
            return;
        }
        futex_wait(&head.doorbell, rung);
    }
}

/// Rings the doorbell from this side.
pub(crate) fn ring(arena: &Arena) {
    arena.head().doorbell.fetch_add(1, Ordering::Release);
    futex_wake(&arena.head().doorbell);
}

fn answer(mailbox: &Mailbox, arena: &Arena, image: &Image) {
    let tid = mailbox.tid.load(Ordering::Relaxed) as pid_t;
    let reply = |state| {
        mailbox.state.store(state, Ordering::Release);
        futex_wake(&mailbox.state);
    };
    if seize(tid).is_err() {
        return reply(NOT_FOLLOWED);
    }
    reply(FOLLOWED);
    let followed = follow(tid, mailbox, arena, image);
    // Whatever happened: nobody waits in this mailbox any more.
    reply(FREE);
    if let Err(error) = followed {
        // One that has ended meanwhile needs nobody, unless it was refused before.
        let is_over = status(tid, "State").is_none_or(|state| state.starts_with(['Z', 'X']));
        let_go(tid);
        if !is_over || matches!(error, Error::Refused { .. }) {
            eprintln!("relive: process {tid} is not followed: {error}");
        }
    }
}

/// A process is about to restrict its system calls: goes on without the engine.
fn let_restrict(mailbox: &Mailbox, arena: &Arena, image: &Image) {
    let tid = mailbox.tid.load(Ordering::Relaxed) as pid_t;
    let reply = |state| {
        mailbox.state.store(state, Ordering::Release);
        futex_wake(&mailbox.state);
    };
    let Some(pid) = status(tid, "Tgid").and_then(|pid| pid.parse().ok()) else { return reply(FREE) };
    let name = status(tid, "Name").unwrap_or_default();
    let engine = arena.engine_of(pid);
    // Whether it can be done has to be known before it leaves the engine.
    let (Some(engine), Ok(_)) = (engine, Tracee::seize(tid)) else { return reply(NOT_FOLLOWED) };
    reply(FOLLOWED);
    let gone = attach::detach_before(tid, pid, engine, image);
    reply(FREE);
    match gone {
        Ok(()) => eprintln!(
            "relive: process {pid} ({name}) restricts its system calls (seccomp): from here on it is not measured, nor is \
             what it starts"
        ),
        Err(error) => eprintln!("relive: process {pid} ({name}) could not be let go: {error}"),
    }
}

/// Asks to be told when a thread executes a program.
pub(crate) fn seize(tid: pid_t) -> Result<(), Error> {
    request(libc::PTRACE_SEIZE, tid, (libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACESYSGOOD) as usize)
}

/// Whether a stop is that of a program that has been executed.
pub(crate) fn is_execution(status: i32) -> bool {
    status >> 8 == libc::SIGTRAP | libc::PTRACE_EVENT_EXEC << 8
}

fn follow(tid: pid_t, mailbox: &Mailbox, arena: &Arena, image: &Image) -> Result<(), Error> {
    loop {
        // The leader has the number of the process afterwards, whichever thread has executed the program.
        let mut status = 0;
        // SAFETY: the kernel writes one number.
        let pid =
            unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::WNOHANG | libc::__WNOTHREAD) };
        if pid <= 0 {
            if mailbox.state.load(Ordering::Acquire) == DID_NOT_EXECUTE {
                request(libc::PTRACE_INTERRUPT, tid, 0)?;
                let signal = signal_of(wait(tid)?);
                return request(libc::PTRACE_DETACH, tid, signal as usize);
            }
            if pid < 0 {
                return Err(Error::Gone(tid));
            }
            wait_for_news();
            continue;
        }
        if !libc::WIFSTOPPED(status) {
            return Err(Error::Gone(pid));
        }
        if is_execution(status) {
            let before = mailbox.log.load(Ordering::Relaxed);
            if before != 0 {
                arena.log_head(before).state.store(EXECUTED, Ordering::Release);
            }
            let mask = mailbox.mask.load(Ordering::Relaxed);
            return inject::after_execution(pid, Some(mask), image, arena);
        }
        // Some signal for the program on its way.
        request(libc::PTRACE_CONT, pid, signal_of(status) as usize)?;
    }
}

/// That something has become of a traced process, or a program could not be executed.
const NEWS: i32 = libc::SIGCHLD;

fn news() -> libc::sigset_t {
    // SAFETY: the set is filled in before it is used.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, NEWS);
        set
    }
}

/// Keeps news for [`wait_for_news`], in this thread and those it starts. What was blocked before.
pub(crate) fn keep_news() -> libc::sigset_t {
    // SAFETY: both sets are of the right size.
    unsafe {
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, &news(), &raw mut before);
        before
    }
}

/// Waits for news, but not for long: who could not execute a program may not be allowed to tell.
fn wait_for_news() {
    const LONG: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };
    // SAFETY: the kernel only reads both.
    unsafe { libc::sigtimedwait(&news(), std::ptr::null_mut(), &LONG) };
}

fn futex_wait(word: &AtomicU32, value: u32) {
    // SAFETY: the kernel only reads the word.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            std::ptr::null::<libc::timespec>(),
        )
    };
}

pub(crate) fn futex_wake(word: &AtomicU32) {
    // SAFETY: no memory is concerned.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
