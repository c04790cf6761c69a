//! A process that is running already, measured for a while.

use crate::arena::Arena;
use crate::attach::{attach, detach, is_measured};
use crate::image::Image;
use crate::limits::Limits;
use crate::over::{self, Each};
use crate::run::{Pipe, serve_until};
use crate::{Done, Ended, Error, Options, follow};
use libc::pid_t;
use std::collections::HashMap;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Measures a process, and what it starts meanwhile, and tells of each process when it is over, or at the end: until it
/// ends, the time is over or this process is told to end. Then all of them go on without the engine.
///
/// # Errors
/// If the process cannot be measured.
pub fn measure(
    pid: pid_t,
    options: &Options,
    time: Option<Duration>,
    each: &mut Each<'_>,
) -> Result<Done, Error> {
    Limits::raise();
    let told = told_to_end()?;
    // SAFETY: numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as i32;
    if fd < 0 {
        return Err(Error::Refused { pid, why: "there is no such process".into() });
    }
    let ended = Pipe(fd);
    follow::keep_news();
    let image = Image::new();
    let arena = attach(pid, &image, options).map_err(|error| explain(pid, error))?;
    let tell = |arena: &Arena, stop: &Receiver<()>| over::tell(arena, stop, each, None);
    serve_until(&arena, &image, tell, || wait(&[&told, &ended], time));
    Ok(Done { ended: Ended::Exit(0), is_complete: arena.is_complete() })
}

/// Takes the engine out of every process that is still there, and out of those they start meanwhile.
pub(crate) fn leave_all(arena: &Arena, image: &Image) {
    let start = Instant::now();
    let mut failed = Vec::new();
    loop {
        // The same process executes one program after the other: the last counts.
        let mut processes = arena.processes();
        processes.retain(|p| p.engine != (0, 0));
        processes.sort_unstable_by_key(|p| p.number);
        let engines = processes.into_iter().map(|p| (p.pid as pid_t, p.engine));
        let mut found = false;
        for (pid, engine) in engines.collect::<HashMap<_, _>>() {
            if failed.contains(&pid) || !is_measured(pid) {
                continue;
            }
            found = true;
            match detach(pid, engine, image) {
                Ok(()) | Err(Error::Gone(_)) => {}
                Err(_) if start.elapsed() < Duration::from_secs(2) => {}
                Err(error) => {
                    eprintln!("relive: process {pid} still has the engine in it: {error}");
                    failed.push(pid);
                }
            }
        }
        if !found {
            return;
        }
    }
}

/// Something that can be read when a signal has come that ends this process by default.
fn told_to_end() -> Result<Pipe, Error> {
    // SAFETY: the set is filled in before it is used.
    let fd = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC)
    };
    if fd < 0 { Err(Error::last("waiting for signals")) } else { Ok(Pipe(fd)) }
}

/// Waits until something can be read, or the time is over.
fn wait(what: &[&Pipe], time: Option<Duration>) {
    let end = time.map(|time| Instant::now() + time);
    loop {
        let mut polls: Vec<_> =
            what.iter().map(|fd| libc::pollfd { fd: fd.0, events: libc::POLLIN, revents: 0 }).collect();
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        // At least a millisecond, so that this does not end too early.
        let left = left.map_or(-1, |left| i32::try_from(left.as_millis()).unwrap_or(i32::MAX) + 1);
        // SAFETY: as many entries as it says.
        let ready = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, left) };
        if ready > 0 || end.is_some_and(|end| end <= Instant::now()) {
            return;
        }
    }
}

/// Who may not trace gets to know why.
fn explain(pid: pid_t, error: Error) -> Error {
    let Error::Kernel { error: inner, .. } = &error else { return error };
    if inner.raw_os_error() != Some(libc::EPERM) {
        return error;
    }
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let why = match scope.trim() {
        "1" | "2" => {
            "this machine lets nobody trace what he has not started: run this as root, or allow it until the next start with \
             `sysctl kernel.yama.ptrace_scope=0`"
        }
        "3" => "this machine lets nobody trace anything (kernel.yama.ptrace_scope=3), until its next start",
        _ => "it may not be traced: it belongs to another user, or has privileges; run this as root",
    };
    Error::Refused { pid, why: why.to_owned() }
}
