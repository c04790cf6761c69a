//! Memory of the engine that may lie anywhere: away from the program's.

use core::sync::atomic::{AtomicU64, Ordering};
use relive_abi::engine::{ARENA_LEN, ZONE};
use relive_abi::kernel::{self, Errno, MAP_ANONYMOUS, MAP_NORESERVE, MAP_PRIVATE, PROT_RW};
use relive_abi::page_up;

/// Behind the arena.
static NEXT: AtomicU64 = AtomicU64::new(ZONE + ARENA_LEN);

const MADVISE: usize = 28;

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

/// More memory for something, at another address; what has been used goes there with all its pages.
///
/// # Safety
/// It is somebody's own, mapped by the functions above, and not used at the old address any more.
pub unsafe fn grow(at: u64, len: u64, new_len: u64) -> Result<u64, Errno> {
    let new = map_much(new_len)?;
    // SAFETY: nobody knows the new memory yet, and the rest is as the caller promises.
    if let Err(error) = unsafe { kernel::mremap(at, len, new, page_up(new_len)) } {
        // SAFETY: as above.
        unsafe { kernel::munmap(new, page_up(new_len)) };
        return Err(error);
    }
    if new_len >= LARGE {
        use_large_pages(new, new_len);
    }
    Ok(new)
}

/// Brings memory in that will all be used, in one go. Where the kernel does not know how, it comes page by page.
pub fn populate(at: u64, len: u64) {
    const POPULATE_WRITE: usize = 23;
    // SAFETY: changes nothing that can be seen.
    let _ = unsafe { kernel::call6(MADVISE, [at as usize, len as usize, POPULATE_WRITE, 0, 0, 0]) };
}

fn map_at(hint: u64, len: u64) -> Result<u64, Errno> {
    // SAFETY: a new mapping replaces nothing: the address is only a hint.
    let at = unsafe { kernel::mmap(hint, len, PROT_RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) }?;
    kernel::keep_out_of_cores(at, len);
    Ok(at)
}

/// Much memory is better off in large pages. Where the kernel has none it stays as it is.
pub fn use_large_pages(at: u64, len: u64) {
    const LARGE_PAGES: usize = 14;
    // SAFETY: changes nothing that can be seen.
    let _ = unsafe { kernel::call6(MADVISE, [at as usize, len as usize, LARGE_PAGES, 0, 0, 0]) };
}
