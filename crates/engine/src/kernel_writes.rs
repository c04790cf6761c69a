//! System calls that write to memory of the program where code was translated from: such pages are write-protected,
//! which is nothing the kernel should find out.
//!
//! While there are such pages, the engine looks at calls that write much, or cannot be made again, and opens the pages
//! before. Others come here when the kernel has refused them, and are made once more.

use crate::kernel_calls;
use crate::process::PROCESS;
use crate::program_memory;
use crate::thread::register::RAX;
use crate::thread::{KERNEL_CALLS, Thread};
use relive_abi::PAGE;
use relive_abi::kernel::EFAULT;

/// What a thread has called last, if that is not known.
pub const NO_CALL: u64 = u64::MAX;

const READ: usize = 0;
const IOCTL: usize = 16;
const PREAD64: usize = 17;
const READV: usize = 19;
const ACCEPT: usize = 43;
const RECVFROM: usize = 45;
const RECVMSG: usize = 47;
const WAIT4: usize = 61;
const MSGRCV: usize = 70;
const RT_SIGTIMEDWAIT: usize = 128;
const GETDENTS64: usize = 217;
const MQ_TIMEDRECEIVE: usize = 243;
const WAITID: usize = 247;
const ACCEPT4: usize = 288;
const PREADV: usize = 295;
const RECVMMSG: usize = 299;
const GETRANDOM: usize = 318;
const PREADV2: usize = 327;

const ALL: [usize; 18] = [
    READ,
    IOCTL,
    PREAD64,
    READV,
    ACCEPT,
    RECVFROM,
    RECVMSG,
    WAIT4,
    MSGRCV,
    RT_SIGTIMEDWAIT,
    GETDENTS64,
    MQ_TIMEDRECEIVE,
    WAITID,
    ACCEPT4,
    PREADV,
    RECVMMSG,
    GETRANDOM,
    PREADV2,
];

/// Notes that the engine wants to see these calls.
pub fn watch(calls: &mut [u8; KERNEL_CALLS]) {
    for number in ALL {
        calls[number] = 1;
    }
}

/// Opens what a call is about to write to.
pub fn open_ahead(number: u64, call: &[usize; 6]) {
    match number as usize {
        READ | PREAD64 | RECVFROM | MSGRCV | GETDENTS64 | MQ_TIMEDRECEIVE => open(call[1], call[2]),
        GETRANDOM => open(call[0], call[1]),
        READV | PREADV | PREADV2 => open_parts(call[1], call[2]),
        RECVMSG => open_message(call[1]),
        RECVMMSG => {
            const EACH: usize = 64;
            open(call[1], call[2].saturating_mul(EACH));
            (0..call[2].min(1024)).for_each(|i| open_message(call[1] + i * EACH));
        }
        _ => {}
    }
    if ALL.contains(&(number as usize)) {
        // Results that are told beside.
        call.iter().for_each(|&at| open(at, 256));
    }
}

fn open(at: usize, len: usize) {
    if let Some(process) = PROCESS.take().as_mut() {
        process.cache.open(at as u64, len as u64);
    }
}

/// `iovec`s.
fn open_parts(at: usize, count: usize) {
    for i in 0..count.min(1024) {
        let Ok([start, len]) = program_memory::read::<[usize; 2]>(at + i * 16) else { return };
        open(start, len);
    }
}

/// `msghdr`.
fn open_message(at: usize) {
    let Ok([name, name_len, parts, count, control, control_len, _]) = program_memory::read::<[usize; 7]>(at)
    else {
        return;
    };
    open(at, 56);
    open(name, name_len & 0xffff);
    open(control, control_len);
    open_parts(parts, count);
}

/// The kernel has refused a call: makes it again if code was the reason. Whether it is done; if not, a signal is first.
pub fn again(thread: &mut Thread) -> bool {
    let number = core::mem::replace(&mut thread.scratch, NO_CALL);
    let call = kernel_calls::arguments(thread);
    let mut any = false;
    if let Some(process) = PROCESS.take().as_mut() {
        for at in call {
            any |= process.cache.open(at as u64, PAGE);
        }
    }
    if number == NO_CALL || !any {
        thread.context.registers[RAX] = (-i64::from(EFAULT.0)) as u64;
        return true;
    }
    thread.context.registers[RAX] = number;
    kernel_calls::handle(thread)
}
