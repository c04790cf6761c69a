//! Restartable sequences: the kernel compares where a thread is with addresses of the program's code, which the cache is
//! not. So there are none while the engine runs.
//!
//! A new program is told that the kernel does not have them. One that was running before knows better: the kernel is
//! told at the end what the program believes that it knows.

use crate::entry;
use crate::kernel_calls::number::MEMBARRIER;
use crate::process::PROCESS;
use crate::thread::Thread;
use relive_abi::kernel::{self, EINVAL, ENOSYS, Errno};

const RSEQ: usize = 334;
const UNREGISTER: usize = 1;

/// Where the kernel keeps them for a thread, the length of that, and the signature. All zero if nowhere.
pub type Registration = [u64; 3];

/// Whether the program knows that the kernel has them.
fn are_known() -> bool {
    PROCESS.take().as_ref().is_some_and(|process| process.is_adopted)
}

/// `rseq`.
pub fn call(thread: &mut Thread, [at, len, flags, signature, ..]: [usize; 6]) -> Result<usize, Errno> {
    if !are_known() {
        return Err(ENOSYS);
    }
    let asked = [at as u64, len as u64, signature as u64];
    thread.rseq = match flags {
        0 if thread.rseq[0] == 0 => asked,
        UNREGISTER if thread.rseq == asked => [0; 3],
        _ => return Err(EINVAL),
    };
    Ok(0)
}

/// `membarrier`: a kernel without restartable sequences restarts none for others either (tcmalloc complains of one that does).
pub fn barrier(call: &[usize; 6]) -> Result<usize, Errno> {
    const QUERY: usize = 0;
    /// To restart them, and to ask for that ahead.
    const OF_SEQUENCES: usize = 1 << 7 | 1 << 8;
    let asked = call[0] as u32 as usize;
    if are_known() {
        return entry::call(MEMBARRIER, call);
    }
    match asked {
        QUERY => entry::call(MEMBARRIER, call).map(|has| has & !OF_SEQUENCES),
        asked if asked & OF_SEQUENCES != 0 => Err(EINVAL),
        _ => entry::call(MEMBARRIER, call),
    }
}

/// Takes what a thread has registered away from the kernel.
pub fn suspend(thread: &mut Thread, registration: Registration) {
    if registration[0] != 0 && tell(registration, UNREGISTER).is_ok() {
        thread.rseq = registration;
    }
}

/// Gives it back.
pub fn resume(thread: &Thread) {
    if thread.rseq[0] != 0 {
        let _ = tell(thread.rseq, 0);
    }
}

fn tell([at, len, signature]: Registration, flags: usize) -> Result<usize, Errno> {
    // SAFETY: as the program asked for it.
    unsafe { kernel::call6(RSEQ, [at as usize, len as usize, flags, signature as usize, 0, 0]) }
}
