//! The root of what is put into other programs. See `relive-launch`.

#![no_std]
#![no_main]
#![allow(unsafe_code)]

use core::arch::global_asm;
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
    start = sym boot::start,
    visit = sym visit::start,
);

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    relive_engine::message::panic(info)
}
