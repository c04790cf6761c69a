//! Puts the engine into a process that stands still.

use crate::Error;
use crate::arena::Arena;
use crate::image::Image;
use crate::privileges;
use crate::tracee::{Place, Tracee, request, wait};
use libc::{pid_t, user_regs_struct};
use relive_abi::engine::{Boot, ZONE};
use relive_abi::page_up;

/// Between the engine's image and the end of its first stack.
const STACK_LEN: u64 = 64 << 10;

/// An instruction of the program that calls the kernel, for as long as this lives.
pub(crate) struct Caller<'a> {
    tracee: &'a Tracee,
    at: u64,
    covered: [u8; 2],
    before: user_regs_struct,
    mask: u64,
}

impl<'a> Caller<'a> {
    /// Where the thread stands. No other thread of the process runs.
    pub(crate) fn new(tracee: &'a Tracee) -> Result<Self, Error> {
        const SYSCALL: [u8; 2] = [0x0f, 0x05];
        let (before, mask) = (tracee.registers()?, tracee.mask()?);
        let covered = tracee.read(before.rip)?;
        tracee.set_mask(u64::MAX)?;
        tracee.write(before.rip, &SYSCALL)?;
        Ok(Self { tracee, at: before.rip, covered, before, mask })
    }

    pub(crate) fn call(&self, number: i64, arguments: [u64; 6]) -> Result<u64, Error> {
        self.tracee.call(self.at, number, arguments)
    }

    /// Maps memory for the engine.
    pub(crate) fn map_engine(&self, image: &Image) -> Result<Place, Error> {
        let all = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
        let len = page_up(image.len()) + STACK_LEN;
        let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let start = self.call(libc::SYS_mmap, [ZONE - (1 << 30), len, all, private, u64::MAX, 0])?;
        Ok(Place { start, end: start + len, entry: start + image.entry })
    }

    /// Maps an arena that is open in the process, and closes it.
    pub(crate) fn map_arena(&self, arena: &Arena, fd: u64) -> Result<u64, Error> {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
        let len = arena.share_of(self.tracee.tid);
        let mapped = self.call(libc::SYS_mmap, [ZONE, len, rights as u64, flags as u64, fd, 0]);
        self.call(libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
        let mapped = mapped?;
        // A core of the program is none of the engine's memory.
        self.call(libc::SYS_madvise, [mapped, len, libc::MADV_DONTDUMP as u64, 0, 0, 0])?;
        Ok(mapped)
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        // If that fails, the process is gone.
        let _ = self.tracee.write(self.at, &self.covered);
        let _ = self.tracee.settle();
        let _ = self.tracee.set_registers(&self.before);
        let _ = self.tracee.set_mask(self.mask);
    }
}

/// Puts the engine into a process that has just executed a program, and lets it take over. The first stop is still
/// inside that system call. Of signals, it blocks those that the mask says in the end, or the same as now.
pub(crate) fn after_execution(
    pid: pid_t,
    mask: Option<u64>,
    image: &Image,
    arena: &Arena,
) -> Result<(), Error> {
    privileges::tell(pid);
    let tracee = Tracee::stopped(pid)?;
    let mask = mask.map_or_else(|| tracee.mask(), Ok)?;
    tracee.set_mask(u64::MAX)?;
    request(libc::PTRACE_SYSCALL, pid, 0)?;
    wait(pid)?;
    let before = tracee.registers()?;
    let caller = Caller::new(&tracee)?;
    let place = caller.map_engine(image)?;
    // The path lies where the image will.
    tracee.write(place.start, &[arena.path().as_bytes(), &[0]].concat())?;
    let flags = (libc::O_RDWR | libc::O_CLOEXEC) as u64;
    let fd = caller.call(libc::SYS_open, [place.start, flags, 0, 0, 0, 0])?;
    let mapped = caller.map_arena(arena, fd)?;
    drop(caller);

    tracee.write(place.start, &image.at(place.start))?;
    let boot = Boot {
        arena: mapped,
        mapped: arena.share_of(pid),
        engine: place.start,
        engine_end: place.end,
        registers: [
            before.rax, before.rcx, before.rdx, before.rbx, before.rsp, before.rbp, before.rsi, before.rdi,
            before.r8, before.r9, before.r10, before.r11, before.r12, before.r13, before.r14, before.r15,
        ],
        rip: before.rip,
        rflags: before.eflags,
    };
    let boot_at = (place.end - size_of::<Boot>() as u64) & !63;
    // SAFETY: plain words without holes.
    let bytes = unsafe { std::slice::from_raw_parts((&raw const boot).cast::<u8>(), size_of::<Boot>()) };
    tracee.write(boot_at, bytes)?;
    let registers =
        user_regs_struct { rip: place.entry, rdi: boot_at, rsp: boot_at, orig_rax: u64::MAX, ..before };
    tracee.set_registers(&registers)?;
    tracee.set_mask(mask)
}
