//! Memory of the engine that may lie anywhere: away from the program's.

use core::sync::atomic::{AtomicU64, Ordering};
use relive_abi::engine::{ARENA_LEN, ZONE};
use relive_abi::kernel::{self, Errno, MAP_ANONYMOUS, MAP_NORESERVE, MAP_PRIVATE, PROT_RW};
use relive_abi::page_up;

/// Behind the arena.
static NEXT: AtomicU64 = AtomicU64::new(ZONE + ARENA_LEN);

/// The size of a large page.
pub const LARGE: u64 = 2 << 20;

/// Fresh memory, all zero.
pub fn map(len: u64) -> Result<u64, Errno> {
    let len = page_up(len);
    map_at(NEXT.fetch_add(len, Ordering::Relaxed), len)
}

/// The same for much that will all be used.
pub fn map_much(len: u64) -> Result<u64, Errno> {
    if len < LARGE {
        return map(len);
    }
    let len = page_up(len);
    let hint = NEXT.fetch_add(len.next_multiple_of(LARGE) + LARGE, Ordering::Relaxed);
    let at = map_at(hint.next_multiple_of(LARGE), len)?;
    use_large_pages(at, len);
    Ok(at)
}

fn map_at(hint: u64, len: u64) -> Result<u64, Errno> {
    // SAFETY: a new mapping replaces nothing: the address is only a hint.
    let at = unsafe { kernel::mmap(hint, len, PROT_RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) }?;
    kernel::keep_out_of_cores(at, len);
    Ok(at)
}

/// Much memory is better off in large pages. Where the kernel has none it stays as it is.
pub fn use_large_pages(at: u64, len: u64) {
    const MADVISE: usize = 28;
    const LARGE_PAGES: usize = 14;
    // SAFETY: changes nothing that can be seen.
    let _ = unsafe { kernel::call6(MADVISE, [at as usize, len as usize, LARGE_PAGES, 0, 0, 0]) };
}
