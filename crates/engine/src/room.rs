//! Room in the arena. It is given back when processes are over, so that there may be some a little later.

use core::sync::atomic::Ordering;
use relive_abi::engine::Arena;
use relive_abi::kernel;

/// How often to look, a millisecond apart.
const TIMES: usize = 5000;

/// Takes a part of the arena, after a while if need be. `None` if there is no room: the tool will say so.
pub fn take(arena: &Arena, kind: u32, process: u32, pid: u32, len: u64) -> Option<u64> {
    let taken = (0..TIMES).find_map(|_| {
        arena.take(kind, process, pid, len).or_else(|| {
            sleep();
            None
        })
    });
    if taken.is_none() {
        arena.full.store(1, Ordering::Relaxed);
    }
    taken
}

fn sleep() {
    const NANOSLEEP: usize = 35;
    let time = [0u64, 1_000_000];
    // SAFETY: the kernel only reads the time.
    let _ = unsafe { kernel::call6(NANOSLEEP, [time.as_ptr().expose_provenance(), 0, 0, 0, 0, 0]) };
}
