//! Calls of the kernel by `int 0x80`, as 32-bit programs make them: other numbers, other registers, no more than 32 bits of
//! each.

use crate::kernel_calls::{self, number};
use crate::message::fatal;
use crate::thread::Thread;
use crate::thread::register::{R8, R9, R10, RAX, RBP, RBX, RCX, RDI, RDX, RSI};

/// The instruction.
pub const CALL: [u8; 2] = [0xcd, 0x80];

/// The program's arguments.
pub fn arguments(thread: &Thread) -> [u64; 6] {
    [RBX, RCX, RDX, RSI, RDI, RBP].map(|r| thread.context.registers[r] & 0xffff_ffff)
}

/// Does what the program asks, if that is the engine's business: `None` if the kernel can be asked as it is. Whether it is done;
/// if not, a signal is first.
pub fn handle(thread: &mut Thread) -> Option<bool> {
    let before = thread.context.registers;
    let mut pages = false;
    let number = match before[RAX] as u32 {
        1 => number::EXIT,
        // A child of its own does as well where one shares the memory for a while.
        2 | 190 => number::FORK,
        91 => number::MUNMAP,
        125 => number::MPROTECT,
        163 => number::MREMAP,
        175 => number::RT_SIGPROCMASK,
        179 => number::RT_SIGSUSPEND,
        192 => {
            pages = true;
            number::MMAP
        }
        380 => number::PKEY_MPROTECT,
        // What these are given lies in memory in another way.
        11 | 48 | 67 | 72 | 90 | 119 | 120 | 126 | 173 | 174 | 186 | 308 | 309 | 319 | 358 | 435 => {
            fatal(format_args!("int 0x80 with call {}: such programs cannot be run", before[RAX] as u32))
        }
        _ => return None,
    };
    let registers = &mut thread.context.registers;
    registers[RAX] = number;
    for (to, from) in [(RDI, RBX), (RSI, RCX), (RDX, RDX), (R10, RSI), (R8, RDI), (R9, RBP)] {
        registers[to] = before[from] & 0xffff_ffff;
    }
    if pages {
        registers[R9] <<= 12;
    }
    let is_done = kernel_calls::handle(thread);
    let result = thread.context.registers[RAX];
    thread.context.registers = before;
    if is_done {
        thread.context.registers[RAX] = result;
    }
    Some(is_done)
}
