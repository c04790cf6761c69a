//! The root of what is put into other programs. See `relive-launch`.

#![no_std]
#![no_main]
#![allow(unsafe_code)]

use core::arch::global_asm;
use relive_code::addr::LinkAddr;
use relive_code::isa::Insn;
use relive_engine::{boot, heap::Heap, visit};

#[global_allocator]
static HEAP: Heap = Heap::new();

relive_abi::memory_functions!();

global_asm!(
    ".p2align 4",
    ".globl relive_engine_start",
    "relive_engine_start:",
    "jmp {start}",
    ".p2align 4",
    "jmp {visit}",
    ".p2align 4",
    "jmp {prepare}",
    start = sym boot::start,
    visit = sym visit::start,
    prepare = sym prepare,
);

/// Does what is the same in every process, before any: decoding needs large tables, which take longer to make than many
/// programs to run.
///
/// # Safety
/// The memory is nobody's, and stays where it is.
unsafe extern "C" fn prepare(start: u64, end: u64) -> u64 {
    // SAFETY: as the caller promises; nobody else runs.
    unsafe { HEAP.begin(start, end) };
    core::hint::black_box(Insn::decode(&[0x90], LinkAddr(0)));
    // SAFETY: as above.
    unsafe { HEAP.leave_rest() }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    relive_engine::message::panic(info)
}
