//! Puts the engine into a process that stands still.

use crate::Error;
use crate::arena::Arena;
use crate::calls::{self, OPENED, TEXT};
use crate::image::Image;
use crate::privileges;
use crate::tracee::{Place, Tracee};
use libc::{pid_t, user_regs_struct};
use relive_abi::engine::{Boot, HOME, ZONE};

/// The code segment of 64-bit programs.
pub(crate) const LONG_MODE: u64 = 0x33;

const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;
const ALL: i32 = RW | libc::PROT_EXEC;
const FRESH: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;

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

    /// Maps memory for the engine, and for its first stack.
    pub(crate) fn map_engine(&self, image: &Image) -> Result<Place, Error> {
        let place = image.place(STACK_LEN);
        let (rights, flags) = (ALL as u64, FRESH as u64);
        self.call(libc::SYS_mmap, [HOME, place.end - HOME, rights, flags, u64::MAX, 0]).map_err(|error| {
            match error {
                Error::Kernel { error, .. } if error.raw_os_error() == Some(libc::EEXIST) => {
                    let why = "it has memory of its own where the engine would go";
                    Error::Refused { pid: self.tracee.tid, why: why.into() }
                }
                error => error,
            }
        })?;
        Ok(place)
    }

    /// Maps an arena that is open in the process, and closes it.
    pub(crate) fn map_arena(&self, arena: &Arena, fd: u64) -> Result<u64, Error> {
        let (rights, flags) = (RW, libc::MAP_SHARED | libc::MAP_NORESERVE);
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

/// Puts the engine into a process that has just executed a program, and lets it take over. It is still inside that system
/// call, which will answer 0. Of signals, it blocks those that the mask says in the end, or the same as now.
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
    let before = user_regs_struct { rax: 0, ..tracee.registers()? };
    let begun = begin(&tracee, &before, image, arena);
    if begun.is_err() {
        // It goes on without. If that fails too, it is gone.
        let _ = tracee.set_registers(&user_regs_struct { orig_rax: u64::MAX, ..before });
    }
    tracee.set_mask(mask)?;
    begun
}

/// The same, with everything blocked.
fn begin(tracee: &Tracee, before: &user_regs_struct, image: &Image, arena: &Arena) -> Result<(), Error> {
    if before.cs != LONG_MODE {
        return Err(Error::Refused { pid: tracee.tid, why: "it is a 32-bit program".into() });
    }
    let mapped = arena.share_of(tracee.tid);
    let (place, at) = match map_from_file(tracee, before, image, arena, mapped)? {
        Some(place) => (place, ZONE),
        None => map_and_write(tracee, image, arena)?,
    };
    let boot = Boot {
        arena: at,
        mapped,
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
        user_regs_struct { rip: place.entry, rdi: boot_at, rsp: boot_at, orig_rax: u64::MAX, ..*before };
    tracee.set_registers(&registers)
}

/// Maps the engine from where it is in a file, and the arena. `None` if that is not possible, as something else is there, or
/// the file cannot be executed.
fn map_from_file(
    tracee: &Tracee,
    before: &user_regs_struct,
    image: &Image,
    arena: &Arena,
    mapped: u64,
) -> Result<Option<Place>, Error> {
    const COPY: i32 = libc::MAP_PRIVATE | libc::MAP_FIXED;
    const SHARED: i32 = libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let (path, offset) = image.path().unwrap_or_default();
    let text = format!("{path}\0{}\0", arena.path());
    let map = |at: u64, len: u64, rights: i32, flags: i32, fd: u64, offset: u64| {
        [libc::SYS_mmap as u64, at, len, rights as u64, flags as u64, fd, offset, at]
    };
    let open = |path: u64, how: i32| [libc::SYS_open as u64, path, how as u64, 0, 0, 0, 0, 0];
    let close = [libc::SYS_close as u64, OPENED, 0, 0, 0, 0, 0, 0];
    let place = image.place(STACK_LEN);
    let all = [
        map(HOME, place.end - HOME, ALL, FRESH, u64::MAX, 0),
        open(TEXT, libc::O_RDONLY | libc::O_CLOEXEC),
        map(HOME, image.len(), ALL, COPY, OPENED, offset),
        close,
        open(TEXT + path.len() as u64 + 1, libc::O_RDWR | libc::O_CLOEXEC),
        map(ZONE, mapped, RW, SHARED, OPENED, 0),
        close,
        // A core of the program is none of the engine's memory.
        [libc::SYS_madvise as u64, ZONE, mapped, libc::MADV_DONTDUMP as u64, 0, 0, 0, 0],
    ];
    let Err(failed) = calls::make(tracee, before, &all, text.as_bytes())? else { return Ok(Some(place)) };
    let caller = Caller::new(tracee)?;
    if let Some(fd) = failed.opened {
        caller.call(libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
    }
    if failed.call > 0 {
        caller.call(libc::SYS_munmap, [HOME, place.end - HOME, 0, 0, 0, 0])?;
    }
    Ok(None)
}

/// Maps memory for the engine and writes it there, and maps the arena wherever there is room.
fn map_and_write(tracee: &Tracee, image: &Image, arena: &Arena) -> Result<(Place, u64), Error> {
    let caller = Caller::new(tracee)?;
    let place = caller.map_engine(image)?;
    // The path lies where the engine will.
    tracee.write(place.start, &[arena.path().as_bytes(), &[0]].concat())?;
    let flags = (libc::O_RDWR | libc::O_CLOEXEC) as u64;
    let fd = caller.call(libc::SYS_open, [place.start, flags, 0, 0, 0, 0])?;
    let at = caller.map_arena(arena, fd)?;
    drop(caller);
    tracee.write(place.start, image.bytes())?;
    Ok((place, at))
}
