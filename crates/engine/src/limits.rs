//! How many addresses the engine takes: many, as they cost nothing, unless the program may not have many itself
//! (`ulimit -v`). Then the engine makes do with a small share.

use crate::log::Log;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use relive_abi::engine::{Arena, COUNTERS_LEN, LOG_LEN};
use relive_abi::kernel::{self, Errno, RLIMIT_AS, RLIMIT_DATA};
use relive_abi::page_up;

/// By how many powers of two everything is smaller.
static SMALLER: AtomicU32 = AtomicU32::new(0);
/// How much of the arena is mapped.
static MAPPED: AtomicU64 = AtomicU64::new(0);

/// What one thread takes if nothing is smaller, with its code; other threads are only counters.
const ALL: u64 = LOG_LEN + COUNTERS_LEN + (192 << 20);
/// With less than this even a small program could not be measured.
const MOST: u32 = 6;

/// The length of a thread's counters: code in the cache counts on it.
static COUNTERS: AtomicU64 = AtomicU64::new(0);

/// The length of a process's log, if nothing is smaller.
static LOG: AtomicU64 = AtomicU64::new(0);

/// How much the program may have.
fn limit() -> u64 {
    kernel::limit(RLIMIT_AS).min(kernel::limit(RLIMIT_DATA))
}

/// Looks how much there is.
pub fn measure(arena: &Arena, mapped: u64) {
    MAPPED.store(mapped, Ordering::Relaxed);
    adapt();
    // Where there are few addresses for the arena, many processes have to share them.
    let part = page_up(arena.len / 64);
    COUNTERS.store(part.min(COUNTERS_LEN >> smaller()), Ordering::Relaxed);
    LOG.store(part.min(LOG_LEN), Ordering::Relaxed);
}

fn adapt() {
    let limit = limit();
    let smaller = (0..MOST).find(|by| ALL >> by <= limit / 8).unwrap_or(MOST);
    SMALLER.store(smaller, Ordering::Relaxed);
}

/// The program has limited itself: gives back what is not needed of all that was there for the taking.
pub fn shrink(arena: &Arena, log: &mut Log) {
    let (limit, head) = (limit(), page_up(size_of::<Arena>() as u64));
    let mapped = MAPPED.load(Ordering::Relaxed);
    if limit == u64::MAX || mapped <= head {
        return;
    }
    adapt();
    MAPPED.store(head, Ordering::Relaxed);
    let start = &raw const *arena as u64;
    let (kept, end) = log.shrink((limit / 32).max(4 << 20));
    for (from, to) in [(start + head, kept), (end, start + mapped)] {
        if from < to {
            // SAFETY: neither the head nor the log, and counters are mapped a second time.
            unsafe { kernel::munmap(from, to - from) };
        }
    }
}

/// By how many powers of two everything is smaller than usual.
pub fn smaller() -> u32 {
    SMALLER.load(Ordering::Relaxed)
}

/// The length of a process's log.
pub fn log() -> u64 {
    LOG.load(Ordering::Relaxed).min(LOG_LEN >> smaller())
}

/// The length of a thread's counters.
pub fn counters() -> u64 {
    COUNTERS.load(Ordering::Relaxed)
}

/// Maps a part of the arena; over what is at an address, if one is given.
///
/// # Safety
/// What is there belongs to the engine and is not needed.
pub unsafe fn share(arena: &Arena, offset: u64, len: u64, at: Option<u64>) -> Result<u64, Errno> {
    const REMAP_FILE_PAGES: usize = 216;
    let start = &raw const *arena as u64;
    let is_mapped = offset + len <= MAPPED.load(Ordering::Relaxed);
    let from = if is_mapped { start + offset } else { start };
    let at = match at {
        None if is_mapped => return Ok(from),
        None => crate::zone::map(len)?,
        Some(at) => at,
    };
    // SAFETY: as the caller promises, or mapped just now.
    let at = unsafe { kernel::mremap(from, 0, at, len) }?;
    if !is_mapped {
        // Without this flag all of it would be brought into memory.
        const MAP_NONBLOCK: usize = 0x1_0000;
        let page = (offset / relive_abi::PAGE) as usize;
        let call = [at as usize, len as usize, 0, page, MAP_NONBLOCK, 0];
        // That was only the head once more. There is no descriptor of the file here, and this needs none.
        // SAFETY: another part of the same file in the same place.
        unsafe { kernel::call6(REMAP_FILE_PAGES, call) }?;
    }
    kernel::keep_out_of_cores(at, len);
    Ok(at)
}

/// Gives the memory of [`share`] back, where no address was given.
///
/// # Safety
/// It is not used any more.
pub unsafe fn give_back(offset: u64, at: u64, len: u64) {
    if offset + len > MAPPED.load(Ordering::Relaxed) {
        // SAFETY: as the caller promises.
        unsafe { kernel::munmap(at, len) };
    }
}
