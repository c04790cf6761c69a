//! The first thing the engine does in a process.

use crate::cache::By;
use crate::dispatch::TIMED;
use crate::entry;
use crate::limits;
use crate::masks;
use crate::process::{PROCESS, Process};
use crate::signals::{self, Handlers};
use crate::threads;
use crate::verify::WANTED;
use alloc::boxed::Box;
use core::arch::naked_asm;
use core::sync::atomic::Ordering;
use relive_abi::engine::{Arena, Boot, TIME, VERIFY};
use relive_abi::kernel;
use relive_abi::trace::STATE;

/// Where the engine is entered in a new program, on a stack of its own.
///
/// # Safety
/// `rdi` points to what it is given.
#[unsafe(naked)]
pub unsafe extern "C" fn start(boot: &Boot) -> ! {
    naked_asm!("xor ebp, ebp", "call {begin}", "jmp {leave}", begin = sym begin, leave = sym entry::leave)
}

/// Sets everything up for the program's first instruction.
unsafe extern "C" fn begin(boot: &Boot) {
    let mut guard = PROCESS.take();
    // SAFETY: mapped by whoever filled this in, for as long as the process lives.
    let mut process = unsafe { settle(boot.arena, boot.mapped, boot.engine, boot.engine_end) };
    let Ok(thread) = threads::allocate(&mut process) else { die(b"relive: no memory for counters\n") };
    thread.tid = kernel::gettid();
    thread.context.registers = boot.registers;
    thread.context.rflags = boot.rflags;
    // SAFETY: nothing has used it yet.
    if unsafe { kernel::set_gs_base(thread.this) }.is_err() {
        die(b"relive: the kernel does not let this program use gs\n");
    }
    thread.hidden = masks::begin();
    thread.handlers = Box::into_raw(Box::new(Handlers::inherited())).expose_provenance() as u64;
    signals::use_own_stack(thread);
    thread.resume = process.go_on(thread, boot.rip, By::OUTSIDE);
    thread.sign();
    thread.write_state(&boot.registers, boot.rflags, boot.rip, STATE);
    thread.put_in();
    *guard = Some(process);
}

/// What a process needs before its first thread.
///
/// # Safety
/// Both addresses are what they are said to be, for as long as the engine is in the process.
pub unsafe fn settle(arena: u64, mapped: u64, engine: u64, engine_end: u64) -> Process {
    // SAFETY: as the caller promises.
    let arena = unsafe { &*(arena as *const Arena) };
    entry::set_own(engine, engine_end);
    limits::measure(arena, mapped);
    TIMED.store(arena.options & TIME != 0, Ordering::Relaxed);
    WANTED.store(arena.options & VERIFY != 0, Ordering::Relaxed);
    let mut process = Process::new(arena);
    process.maps.hide(engine, engine_end);
    process
}

/// Ends the process, as nothing can be done.
pub fn die(message: &[u8]) -> ! {
    let _ = kernel::write(2, message);
    kernel::exit(125)
}
