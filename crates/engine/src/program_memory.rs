//! The program's memory at addresses that the program gives to the kernel: they may be wrong, and then the kernel says
//! so instead of ending the process. So does the engine, for the calls it answers.

use crate::process::PROCESS;
use core::arch::naked_asm;
use core::mem::MaybeUninit;
use relive_abi::kernel::{EFAULT, Errno};

/// Copies `len` bytes and returns how many are left: not all of them are if there is a fault.
#[unsafe(naked)]
unsafe extern "C" fn copy(to: u64, from: u64, len: u64) -> u64 {
    naked_asm!(
        "mov rcx, rdx",
        ".globl relive_copy",
        "relive_copy:",
        "rep movsb",
        ".globl relive_copied",
        "relive_copied:",
        "mov rax, rcx",
        "ret",
    )
}

unsafe extern "C" {
    static relive_copy: u8;
    static relive_copied: u8;
}

/// Where to go on after a fault at `at`, if it happened on behalf of the program.
pub fn after_fault(at: u64) -> Option<u64> {
    (at == &raw const relive_copy as u64).then_some(&raw const relive_copied as u64)
}

/// Reads a value.
pub fn read<T: Copy>(at: usize) -> Result<T, Errno> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: there is room for the value, and a fault ends the copy.
    let left = unsafe { copy(value.as_mut_ptr() as u64, at as u64, size_of::<T>() as u64) };
    // SAFETY: all of it has been read. Only plain words are asked for.
    if left == 0 { Ok(unsafe { value.assume_init() }) } else { Err(EFAULT) }
}

/// Reads the first bytes of a value.
pub fn read_into<T: Copy>(at: usize, value: &mut T, len: usize) -> Result<(), Errno> {
    // SAFETY: no more than there is room for, and a fault ends the copy.
    let left = unsafe { copy(&raw mut *value as u64, at as u64, len.min(size_of::<T>()) as u64) };
    if left == 0 { Ok(()) } else { Err(EFAULT) }
}

/// Writes a value. Nobody may hold the engine's lock: there may be code at this place.
pub fn write<T: Copy>(at: usize, value: &T) -> Result<(), Errno> {
    let len = size_of::<T>() as u64;
    // SAFETY: the program says that it has room there, and a fault ends the copy.
    let try_once = || unsafe { copy(at as u64, &raw const *value as u64, len) } == 0;
    if try_once() {
        return Ok(());
    }
    let is_open = PROCESS.take().as_mut().is_some_and(|process| process.cache.open(at as u64, len));
    if is_open && try_once() { Ok(()) } else { Err(EFAULT) }
}
