//! A command, from its start to its end.

use crate::Error;
use crate::arena::Arena;
use crate::collect::Sink;
use crate::follow;
use crate::image::Image;
use crate::inject;
use crate::limits::Limits;
use crate::measure::leave_all;
use crate::over::{self, Each};
use crate::tracee::wait;
use libc::pid_t;
use relive_abi::engine::{ALONE, COUNT, Exempt, TIME, TRACE, TRACE_MEMORY, TRACE_ORDER, VERIFY};
use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver};

/// What to write down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trace {
    /// Whether accesses to memory are.
    pub memory: bool,
    /// And when those of them happen that other threads may wait for: `lock` and the like.
    pub order: bool,
}

/// How to run a command.
#[derive(Default)]
pub struct Options {
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// Whether to count.
    pub count: bool,
    /// Whether to take the time in the engine.
    pub time: bool,
    /// Whether to follow what it starts.
    pub follow: bool,
    /// Whether to look at all translations.
    pub verify: bool,
    /// How many bytes of translated code a process may have.
    pub cache_len: u64,
    /// Whether to write down which way control goes, and perhaps accesses to memory.
    pub trace: Option<Trace>,
    /// Code that need not be counted.
    pub exempt: Vec<Exempt>,
}

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// By itself.
    Exit(i32),
    /// By a signal.
    Signal(i32),
}

/// What came of a run.
pub struct Done {
    /// How the command ended.
    pub ended: Ended,
    /// Whether there was room for everything that was to be counted.
    pub is_complete: bool,
}

/// Runs a command and everything it starts, and tells of each process when it is over, or at the end.
///
/// # Errors
/// If it cannot be executed, or the engine cannot be put into it.
pub fn run(options: &Options, each: &mut Each<'_>) -> Result<Done, Error> {
    run_with(options, |arena, stop| over::tell(arena, stop, each, None))
}

/// The same, and tells of everything that its threads write down.
///
/// # Errors
/// As above.
pub fn trace<'a>(options: &Options, each: &mut Each<'_>, sink: &'a mut Sink<'a>) -> Result<Done, Error> {
    run_with(options, |arena, stop| over::tell(arena, stop, each, Some(sink)))
}

fn run_with(options: &Options, tell: impl FnOnce(&Arena, &Receiver<()>) + Send) -> Result<Done, Error> {
    let limits = Limits::raise();
    let blocked = follow::keep_news();
    let image = Image::new();
    let arena = Arena::new(options)?;
    let Child { pid, hold, error } = start(&options.command, &limits, &blocked)?;
    leave_signals_to(pid);
    follow::seize(pid)?;
    drop(hold);
    match wait(pid) {
        Ok(status) if follow::is_execution(status) => {}
        _ => return Err(failure(pid, &error, &options.command)),
    }
    inject::after_execution(pid, None, &image, &arena).inspect_err(|_| {
        // SAFETY: no memory is concerned.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    })?;

    let ended = serve_until(&arena, &image, tell, || end_of(pid))?;
    Ok(Done { ended, is_complete: arena.is_complete() })
}

/// Answers the processes, and tells of those that are over, until something has happened. What is left behind then goes on
/// without the engine.
pub(crate) fn serve_until<T>(
    arena: &Arena,
    image: &Image,
    tell: impl FnOnce(&Arena, &Receiver<()>) + Send,
    happened: impl FnOnce() -> T,
) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (_running, over) = mpsc::channel();
        scope.spawn(|| follow::serve(arena, image, &stop));
        scope.spawn(move || tell(arena, &over));
        let result = happened();
        leave_all(arena, image);
        stop.store(true, Ordering::Release);
        follow::ring(arena);
        result
    })
}

/// What is asked for, as bits.
pub(crate) fn arena_options(options: &Options) -> u32 {
    let flag = |on: bool, flag: u32| if on { flag } else { 0 };
    flag(options.count, COUNT)
        | flag(options.time, TIME)
        | flag(!options.follow, ALONE)
        | flag(options.verify, VERIFY)
        | flag(options.trace.is_some(), TRACE)
        | flag(options.trace.is_some_and(|trace| trace.memory), TRACE_MEMORY)
        | flag(options.trace.is_some_and(|trace| trace.order), TRACE_ORDER)
}

/// The command, for [`pass_on`].
static COMMAND: AtomicI32 = AtomicI32::new(0);

/// From now on it is the command that decides what becomes of a signal, as there is a profile to be written after its end: a
/// terminal tells it anyway, and what only this process is told is passed on.
fn leave_signals_to(pid: pid_t) {
    COMMAND.store(pid, Ordering::Relaxed);
    for (signal, action) in [
        (libc::SIGINT, libc::SIG_IGN),
        (libc::SIGQUIT, libc::SIG_IGN),
        (libc::SIGTERM, pass_on as *const () as libc::sighandler_t),
        (libc::SIGHUP, pass_on as *const () as libc::sighandler_t),
    ] {
        // SAFETY: the handler does nothing but call the kernel.
        unsafe {
            // Who was started with a signal ignored leaves it at that.
            if libc::signal(signal, action) == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
    }
}

extern "C" fn pass_on(signal: i32) {
    // SAFETY: no memory is concerned.
    unsafe { libc::kill(COMMAND.load(Ordering::Relaxed), signal) };
}

/// A process that is about to execute a command.
struct Child {
    pid: pid_t,
    /// It goes on when this is closed.
    hold: Pipe,
    /// Why it could not.
    error: Pipe,
}

/// A descriptor that is closed when this goes.
pub(crate) struct Pipe(pub(crate) i32);

impl Drop for Pipe {
    fn drop(&mut self) {
        // SAFETY: ours.
        unsafe { libc::close(self.0) };
    }
}

fn pipe() -> Result<(Pipe, Pipe), Error> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two numbers.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(Error::last("a pipe to the program"));
    }
    Ok((Pipe(ends[0]), Pipe(ends[1])))
}

fn start(command: &[OsString], limits: &Limits, blocked: &libc::sigset_t) -> Result<Child, Error> {
    let invalid = |_| Error::Command {
        command: command[0].to_string_lossy().into_owned(),
        error: std::io::ErrorKind::InvalidInput.into(),
    };
    let words = command.iter().map(|word| CString::new(word.clone().into_vec()));
    let words: Vec<CString> = words.collect::<Result<_, _>>().map_err(invalid)?;
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let (held, hold) = pipe()?;
    let (error, failed) = pipe()?;
    // SAFETY: the child calls nothing but the kernel, in effect, until it executes the command.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last("a process for the program")),
        0 => {
            // SAFETY: as above.
            unsafe {
                libc::close(hold.0);
                // Rust programs ignore it, others do not.
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                let mut byte = 0u8;
                libc::read(held.0, (&raw mut byte).cast(), 1);
                libc::sigprocmask(libc::SIG_SETMASK, blocked, std::ptr::null_mut());
                limits.restore();
                libc::execvp(pointers[0], pointers.as_ptr());
                let number = *libc::__errno_location();
                libc::write(failed.0, (&raw const number).cast(), 4);
                libc::_exit(127)
            }
        }
        pid => Ok(Child { pid, hold, error }),
    }
}

/// Why the command did not come to be executed.
fn failure(pid: pid_t, said: &Pipe, command: &[OsString]) -> Error {
    let mut number = 0i32;
    // SAFETY: room for one number.
    if unsafe { libc::read(said.0, (&raw mut number).cast(), 4) } != 4 {
        return Error::Gone(pid);
    }
    let command = String::from_utf8_lossy(command[0].as_bytes()).into_owned();
    Error::Command { command, error: std::io::Error::from_raw_os_error(number) }
}

/// Waits for the end of the process that was started first.
fn end_of(pid: pid_t) -> Result<Ended, Error> {
    // A descriptor for the process becomes readable when all of it has ended; waiting for the process itself
    // would also tell of stops, which are another thread's business.
    // SAFETY: numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as i32;
    if fd < 0 {
        return Err(Error::last("waiting for the program"));
    }
    let fd = Pipe(fd);
    loop {
        let mut poll = libc::pollfd { fd: fd.0, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry.
        if unsafe { libc::poll(&raw mut poll, 1, -1) } == 1 {
            break;
        }
    }
    let mut status = 0;
    // SAFETY: the kernel writes one number.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } != pid {
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return Err(Error::last("waiting for the program"));
        }
    }
    Ok(if libc::WIFSIGNALED(status) {
        Ended::Signal(libc::WTERMSIG(status))
    } else {
        Ended::Exit(libc::WEXITSTATUS(status))
    })
}

/// Ends this process as the program was ended.
pub fn end_by(signal: i32) -> ! {
    // SAFETY: the default of these signals ends the process. A core of this one would help nobody.
    unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
        libc::_exit(128 + signal)
    }
}
