//! A thread that is traced by this one and stands still.

use crate::Error;
use crate::processes::status;
use libc::{c_uint, c_void, pid_t, user_regs_struct};
use relive_abi::engine::{VISIT_ENTRY, VISIT_OVER, Visit};
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const PTRACE_GETSIGMASK: c_uint = 0x420a;
const PTRACE_SETSIGMASK: c_uint = 0x420b;
const PTRACE_GET_RSEQ_CONFIGURATION: c_uint = 0x420f;
const NT_X86_XSTATE: usize = 0x202;

/// How a stop at a system call looks, by [`libc::PTRACE_O_TRACESYSGOOD`].
const AT_CALL: i32 = libc::SIGTRAP | 0x80;

/// How long a thread may take to stand still: one that waits for the child of a `vfork` does not before that is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// A traced thread. It goes its own way when this value goes.
pub(crate) struct Tracee {
    pub(crate) tid: pid_t,
    memory: File,
    /// Signals that came at a bad time, for later.
    late: RefCell<Vec<i32>>,
}

/// Where the engine is in a process.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Where it is entered.
    pub(crate) entry: u64,
}

impl Tracee {
    /// A thread that this one traces already, and that stands still.
    pub(crate) fn stopped(tid: pid_t) -> Result<Self, Error> {
        let memory = File::options().read(true).write(true).open(format!("/proc/{tid}/mem"));
        let memory = memory.map_err(|error| Error::Kernel { what: "the program's memory", error })?;
        Ok(Self { tid, memory, late: RefCell::default() })
    }

    /// Begins to trace a thread, and stops it.
    pub(crate) fn seize(tid: pid_t) -> Result<Self, Error> {
        request(libc::PTRACE_SEIZE, tid, libc::PTRACE_O_TRACESYSGOOD as usize)?;
        let stopped = stop(tid).and_then(|()| Self::stopped(tid));
        if stopped.is_err() {
            let _ = request(libc::PTRACE_DETACH, tid, 0);
        }
        stopped
    }

    /// Lets it go on for a moment, and stops it again.
    pub(crate) fn pause(&self, signal: i32) -> Result<(), Error> {
        request(libc::PTRACE_CONT, self.tid, signal as usize)?;
        std::thread::sleep(Duration::from_micros(50));
        stop(self.tid)
    }

    /// Executes one instruction, if no signal comes first.
    pub(crate) fn step(&self) -> Result<(), Error> {
        request(libc::PTRACE_SINGLESTEP, self.tid, 0)?;
        match wait(self.tid)? {
            status if libc::WSTOPSIG(status) == libc::SIGTRAP => Ok(()),
            status => self.pause(libc::WSTOPSIG(status)),
        }
    }

    /// Makes sure that the last thing the kernel did for it was to stop it: then a system call that was interrupted is
    /// made again, if its registers say so.
    pub(crate) fn settle(&self) -> Result<(), Error> {
        request(libc::PTRACE_INTERRUPT, self.tid, 0)?;
        request(libc::PTRACE_CONT, self.tid, 0)?;
        loop {
            match wait(self.tid)? {
                status if status >> 16 == libc::PTRACE_EVENT_STOP => return Ok(()),
                status => {
                    self.late.borrow_mut().push(libc::WSTOPSIG(status));
                    request(libc::PTRACE_CONT, self.tid, 0)?;
                }
            }
        }
    }

    pub(crate) fn registers(&self) -> Result<user_regs_struct, Error> {
        // SAFETY: plain numbers.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        request(libc::PTRACE_GETREGS, self.tid, &raw mut registers as usize)?;
        Ok(registers)
    }

    pub(crate) fn set_registers(&self, registers: &user_regs_struct) -> Result<(), Error> {
        request(libc::PTRACE_SETREGS, self.tid, &raw const *registers as usize)
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.memory
            .write_all_at(bytes, at)
            .map_err(|error| Error::Kernel { what: "the program's memory", error })
    }

    pub(crate) fn read<const N: usize>(&self, at: u64) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        let read = self.memory.read_exact_at(&mut bytes, at);
        read.map(|()| bytes).map_err(|error| Error::Kernel { what: "the program's memory", error })
    }

    pub(crate) fn read_some(&self, at: u64, len: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; len];
        let read = self.memory.read_exact_at(&mut bytes, at);
        read.map(|()| bytes).map_err(|error| Error::Kernel { what: "the program's memory", error })
    }

    /// Goes on until it stops itself behind a call at an address. Other signals wait.
    pub(crate) fn go_to_own_stop(&self, at: u64) -> Result<user_regs_struct, Error> {
        loop {
            request(libc::PTRACE_CONT, self.tid, 0)?;
            let status = wait(self.tid)?;
            if status >> 16 != 0 {
                continue;
            }
            let (signal, registers) = (libc::WSTOPSIG(status), self.registers()?);
            match signal {
                libc::SIGSTOP if registers.rip == at => return Ok(registers),
                signal if is_fault(signal) => return Err(Error::Broken { tid: self.tid, signal }),
                signal => self.late.borrow_mut().push(signal),
            }
        }
    }

    /// What it blocks.
    pub(crate) fn mask(&self) -> Result<u64, Error> {
        let mut mask = 0u64;
        self.about_mask(PTRACE_GETSIGMASK, &mut mask)?;
        Ok(mask)
    }

    /// Says what it blocks.
    pub(crate) fn set_mask(&self, mask: u64) -> Result<(), Error> {
        self.about_mask(PTRACE_SETSIGMASK, &mut mask.clone())
    }

    fn about_mask(&self, what: c_uint, mask: &mut u64) -> Result<(), Error> {
        // SAFETY: the set has eight bytes.
        let result = unsafe { libc::ptrace(what, self.tid, size_of::<u64>(), &raw mut *mask) };
        if result < 0 { Err(Error::last("the program's blocked signals")) } else { Ok(()) }
    }

    /// Where the kernel keeps restartable sequences for it: address, length, signature. All zero if nowhere.
    pub(crate) fn rseq(&self) -> [u64; 3] {
        #[repr(C)]
        #[derive(Default)]
        struct Configuration {
            at: u64,
            len: u32,
            signature: u32,
            flags: u32,
            fill: u32,
        }
        let mut found = Configuration::default();
        let size = size_of::<Configuration>();
        // SAFETY: the kernel writes at most that many bytes. One that does not know how writes nothing.
        unsafe { libc::ptrace(PTRACE_GET_RSEQ_CONFIGURATION, self.tid, size, &raw mut found) };
        [found.at, found.len.into(), found.signature.into()]
    }

    /// All that [`Self::registers`] does not have: vectors and the like.
    fn extended(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; 64 << 10];
        let mut io = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        self.about_extended(libc::PTRACE_GETREGSET, &mut io)?;
        bytes.truncate(io.iov_len);
        Ok(bytes)
    }

    fn about_extended(&self, what: c_uint, io: &mut libc::iovec) -> Result<(), Error> {
        // SAFETY: the bytes are there.
        let result = unsafe { libc::ptrace(what, self.tid, NT_X86_XSTATE, &raw mut *io) };
        if result < 0 { Err(Error::last("the program's registers")) } else { Ok(()) }
    }

    /// Goes on to the next beginning or end of a system call.
    fn go_to_call(&self) -> Result<(), Error> {
        loop {
            request(libc::PTRACE_SYSCALL, self.tid, 0)?;
            match wait(self.tid)? {
                status if libc::WSTOPSIG(status) == AT_CALL => return Ok(()),
                status if status >> 16 != 0 => {}
                status if is_fault(libc::WSTOPSIG(status)) => {
                    return Err(Error::Broken { tid: self.tid, signal: libc::WSTOPSIG(status) });
                }
                // What can be blocked is.
                status => self.late.borrow_mut().push(libc::WSTOPSIG(status)),
            }
        }
    }

    /// Lets it call the kernel, at an instruction that does that. Changes its registers.
    pub(crate) fn call(&self, at: u64, number: i64, arguments: [u64; 6]) -> Result<u64, Error> {
        let mut registers = self.registers()?;
        registers.rip = at;
        registers.rax = number as u64;
        registers.orig_rax = u64::MAX;
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = arguments;
        self.set_registers(&registers)?;
        self.go_to_call()?;
        self.go_to_call()?;
        let result = self.registers()?.rax as i64;
        if (-4095..0).contains(&result) {
            let error = std::io::Error::from_raw_os_error(-result as i32);
            return Err(Error::Kernel { what: "a call of the kernel from inside the program", error });
        }
        Ok(result as u64)
    }

    /// Lets the engine do something in this thread, which does not notice.
    pub(crate) fn visit(&self, place: &Place, visit: &mut Visit) -> Result<(), Error> {
        let (registers, extended, mask) = (self.registers()?, self.extended()?, self.mask()?);
        let at = place.visit();
        // SAFETY: plain words without holes.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const *visit).cast(), size_of::<Visit>()) };
        self.write(at, bytes)?;
        self.set_mask(u64::MAX)?;
        let inside = user_regs_struct {
            rip: place.entry + VISIT_ENTRY,
            rdi: at,
            rsp: at,
            eflags: 0x202,
            orig_rax: u64::MAX,
            ..registers
        };
        self.set_registers(&inside)?;
        while {
            self.go_to_call()?;
            self.registers()?.orig_rax != VISIT_OVER
        } {
            self.go_to_call()?;
        }
        self.go_to_call()?;
        let bytes: [u8; size_of::<Visit>()] = self.read(at)?;
        // SAFETY: plain words, and as many bytes.
        *visit = unsafe { bytes.as_ptr().cast::<Visit>().read_unaligned() };
        self.settle()?;
        let mut extended = extended;
        let mut io = libc::iovec { iov_base: extended.as_mut_ptr().cast(), iov_len: extended.len() };
        self.about_extended(libc::PTRACE_SETREGSET, &mut io)?;
        self.set_mask(mask)?;
        self.set_registers(&registers)
    }
}

impl Place {
    /// Where a [`Visit`] lies; the stack is below it.
    pub(crate) fn visit(&self) -> u64 {
        (self.end - size_of::<Visit>() as u64) & !63
    }

    pub(crate) fn holds(&self, at: u64) -> bool {
        (self.start..self.end).contains(&at)
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        for &signal in self.late.borrow().iter() {
            // SAFETY: no memory is concerned.
            unsafe { libc::syscall(libc::SYS_tkill, self.tid, signal) };
        }
        let_go(self.tid);
    }
}

/// Has nothing to do with a traced thread any more. Whether it has ended: then its parent cannot learn of that before
/// this.
pub(crate) fn let_go(tid: pid_t) -> bool {
    for _ in 0..2000 {
        let mut status = 0;
        // SAFETY: the kernel writes one number.
        let result = unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL | libc::WNOHANG) };
        if result < 0 || result == tid && !libc::WIFSTOPPED(status) {
            return true;
        }
        let signal = if result == tid { signal_of(status) } else { 0 };
        if request(libc::PTRACE_DETACH, tid, signal as usize).is_ok() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// The signal at which a thread stands that the program has still to be told of; 0 if it stands for another reason.
pub(crate) fn signal_of(status: i32) -> i32 {
    match libc::WSTOPSIG(status) {
        AT_CALL | libc::SIGTRAP => 0,
        _ if status >> 16 != 0 => 0,
        signal => signal,
    }
}

/// Whether a signal comes from what a thread itself does.
fn is_fault(signal: i32) -> bool {
    matches!(signal, libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE | libc::SIGTRAP)
}

/// Stops a traced thread that runs. Signals that come first are for the program, and so is a fault that the kernel has
/// not told of yet: it is about the instruction at which the thread stands, which is about to be another.
fn stop(tid: pid_t) -> Result<(), Error> {
    /// More than a fault needs to be told, on a machine that is not too busy.
    const A_MOMENT: Duration = Duration::from_millis(20);
    let interrupt = || request(libc::PTRACE_INTERRUPT, tid, 0);
    interrupt()?;
    let start = Instant::now();
    let mut asked = start;
    loop {
        let mut status = 0;
        // SAFETY: the kernel writes one number.
        match unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL | libc::WNOHANG) } {
            0 if start.elapsed() > PATIENCE => return Err(Error::Busy(tid)),
            0 => {
                if asked.elapsed() > A_MOMENT {
                    interrupt()?;
                    asked = Instant::now();
                }
                std::thread::sleep(Duration::from_micros(50));
            }
            found if found == tid && !libc::WIFSTOPPED(status) => return Err(Error::Gone(tid)),
            found if found == tid && status >> 16 == libc::PTRACE_EVENT_STOP => {
                if !has_fault(tid) {
                    return Ok(());
                }
                // It stops at the signal next.
                request(libc::PTRACE_CONT, tid, 0)?;
                asked = Instant::now();
            }
            found if found == tid => {
                interrupt()?;
                request(libc::PTRACE_CONT, tid, libc::WSTOPSIG(status) as usize)?;
            }
            _ if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            _ => return Err(Error::Gone(tid)),
        }
    }
}

/// Whether the kernel is about to tell a thread of a fault.
fn has_fault(tid: pid_t) -> bool {
    let signals = |field: &str| status(tid, field).and_then(|set| u64::from_str_radix(&set, 16).ok());
    let (Some(pending), Some(blocked)) = (signals("SigPnd"), signals("SigBlk")) else { return false };
    let coming = pending & !blocked;
    (1..=64).any(|signal| coming & 1 << (signal - 1) != 0 && is_fault(signal))
}

/// One request about a traced thread.
pub(crate) fn request(what: c_uint, tid: pid_t, data: usize) -> Result<(), Error> {
    // SAFETY: the data is a number, or points to what the request expects.
    let result = unsafe { libc::ptrace(what, tid, std::ptr::null_mut::<c_void>(), data) };
    if result < 0 { Err(Error::last("tracing the program")) } else { Ok(()) }
}

/// Waits until a traced thread stops, and says why.
pub(crate) fn wait(tid: pid_t) -> Result<i32, Error> {
    let mut status = 0;
    loop {
        // SAFETY: the kernel writes one number.
        let result = unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL) };
        if result == tid && libc::WIFSTOPPED(status) {
            return Ok(status);
        }
        if result == tid {
            return Err(Error::Gone(tid));
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return Err(Error::last("waiting for the program"));
        }
    }
}
