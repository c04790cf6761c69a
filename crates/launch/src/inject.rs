//! Puts the engine into a process that stands still at its first instruction.

use crate::Error;
use crate::arena::Arena;
use crate::image::Image;
use libc::{c_void, pid_t, user_regs_struct};
use relive_abi::engine::{Boot, ZONE};
use relive_abi::page_up;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A process that is traced by this thread and stands still.
pub(crate) struct Stopped {
    pid: pid_t,
    memory: File,
    /// What it blocks itself: everything is blocked meanwhile, so that no signal comes in between.
    mask: u64,
}

const PTRACE_GETSIGMASK: libc::c_uint = 0x420a;
const PTRACE_SETSIGMASK: libc::c_uint = 0x420b;

/// Between the engine's image and the end of its first stack.
const STACK_LEN: u64 = 64 << 10;

impl Stopped {
    /// Takes a process that has just executed a program: its first stop is still inside that system call.
    pub(crate) fn after_execution(pid: pid_t) -> Result<Self, Error> {
        let mut mask = 0u64;
        about_mask(PTRACE_GETSIGMASK, pid, &mut mask)?;
        about_mask(PTRACE_SETSIGMASK, pid, &mut u64::MAX.clone())?;
        request(libc::PTRACE_SYSCALL, pid, 0)?;
        wait(pid)?;
        let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"));
        let memory = memory.map_err(|error| Error::Kernel { what: "the program's memory", error })?;
        Ok(Self { pid, memory, mask })
    }

    /// The same with other signals blocked in the end than now.
    pub(crate) fn with_mask(self, mask: u64) -> Self {
        Self { mask, ..self }
    }

    fn registers(&self) -> Result<user_regs_struct, Error> {
        // SAFETY: plain numbers.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        request(libc::PTRACE_GETREGS, self.pid, &raw mut registers as usize)?;
        Ok(registers)
    }

    fn set_registers(&self, registers: &user_regs_struct) -> Result<(), Error> {
        request(libc::PTRACE_SETREGS, self.pid, &raw const *registers as usize)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.memory
            .write_all_at(bytes, at)
            .map_err(|error| Error::Kernel { what: "the program's memory", error })
    }

    fn read<const N: usize>(&self, at: u64) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        let read = self.memory.read_exact_at(&mut bytes, at);
        read.map(|()| bytes).map_err(|error| Error::Kernel { what: "the program's memory", error })
    }

    /// Lets the process call the kernel, at an instruction that does that.
    fn call(&self, at: u64, number: i64, arguments: [u64; 6]) -> Result<u64, Error> {
        let mut registers = self.registers()?;
        registers.rip = at;
        registers.rax = number as u64;
        registers.orig_rax = u64::MAX;
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = arguments;
        self.set_registers(&registers)?;
        request(libc::PTRACE_SINGLESTEP, self.pid, 0)?;
        wait(self.pid)?;
        let result = self.registers()?.rax as i64;
        if (-4095..0).contains(&result) {
            let error = std::io::Error::from_raw_os_error(-result as i32);
            return Err(Error::Kernel { what: "a call of the kernel from inside the program", error });
        }
        Ok(result as u64)
    }

    /// Puts the engine in and lets it take over.
    pub(crate) fn inject(self, image: &Image, arena: &Arena) -> Result<(), Error> {
        const SYSCALL: [u8; 2] = [0x0f, 0x05];
        let before = self.registers()?;
        let instruction = before.rip;
        let covered: [u8; 2] = self.read(instruction)?;
        self.write(instruction, &SYSCALL)?;

        let prot_all = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
        let len = page_up(image.len()) + STACK_LEN;
        let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let base =
            self.call(instruction, libc::SYS_mmap, [ZONE - (1 << 30), len, prot_all, private, u64::MAX, 0])?;
        // The path lies where the image will.
        let path = arena.path();
        self.write(base, &[path.as_bytes(), &[0]].concat())?;
        let flags = (libc::O_RDWR | libc::O_CLOEXEC) as u64;
        let fd = self.call(instruction, libc::SYS_open, [base, flags, 0, 0, 0, 0])?;
        let (read_write, shared) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
        let map = [ZONE, arena.len(), read_write as u64, shared as u64, fd, 0];
        let mapped = self.call(instruction, libc::SYS_mmap, map)?;
        self.call(instruction, libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
        self.write(instruction, &covered)?;

        self.write(base, &image.at(base))?;
        let boot = Boot {
            arena: mapped,
            engine: base,
            engine_end: base + len,
            registers: [
                before.rax, before.rcx, before.rdx, before.rbx, before.rsp, before.rbp, before.rsi,
                before.rdi, before.r8, before.r9, before.r10, before.r11, before.r12, before.r13, before.r14,
                before.r15,
            ],
            rip: before.rip,
            rflags: before.eflags,
        };
        let boot_at = (base + len - size_of::<Boot>() as u64) & !63;
        // SAFETY: plain words without holes.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const boot).cast::<u8>(), size_of::<Boot>()) };
        self.write(boot_at, bytes)?;
        let mut registers = before;
        registers.rip = base + image.entry;
        registers.rdi = boot_at;
        registers.rsp = boot_at;
        registers.orig_rax = u64::MAX;
        self.set_registers(&registers)?;
        about_mask(PTRACE_SETSIGMASK, self.pid, &mut self.mask.clone())?;
        request(libc::PTRACE_DETACH, self.pid, 0)
    }
}

/// Gets or sets what a traced process blocks.
fn about_mask(what: libc::c_uint, pid: pid_t, mask: &mut u64) -> Result<(), Error> {
    // SAFETY: the set has eight bytes.
    let result = unsafe { libc::ptrace(what, pid, size_of::<u64>(), &raw mut *mask) };
    if result < 0 { Err(Error::last("the program's blocked signals")) } else { Ok(()) }
}

/// One request about a traced process.
pub(crate) fn request(what: libc::c_uint, pid: pid_t, data: usize) -> Result<(), Error> {
    // SAFETY: the data is a number, or points to what the request expects.
    let result = unsafe { libc::ptrace(what, pid, std::ptr::null_mut::<c_void>(), data) };
    if result < 0 { Err(Error::last("tracing the program")) } else { Ok(()) }
}

/// Waits until a traced process stops, and says why.
pub(crate) fn wait(pid: pid_t) -> Result<i32, Error> {
    let mut status = 0;
    loop {
        // SAFETY: the kernel writes one number.
        let result = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
        if result == pid && libc::WIFSTOPPED(status) {
            return Ok(status);
        }
        if result == pid {
            return Err(Error::Gone(pid));
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return Err(Error::last("waiting for the program"));
        }
    }
}
