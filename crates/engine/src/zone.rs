//! Memory of the engine that may lie anywhere: away from the program's.

use core::sync::atomic::{AtomicU64, Ordering};
use relive_abi::engine::ZONE;
use relive_abi::kernel::{self, Errno, MAP_ANONYMOUS, MAP_NORESERVE, MAP_PRIVATE, PROT_RW};
use relive_abi::page_up;

/// Behind the arena.
static NEXT: AtomicU64 = AtomicU64::new(ZONE + (1 << 41));

/// Fresh memory, all zero.
pub fn map(len: u64) -> Result<u64, Errno> {
    let len = page_up(len);
    let hint = NEXT.fetch_add(len, Ordering::Relaxed);
    // SAFETY: a new mapping replaces nothing: the address is only a hint.
    unsafe { kernel::mmap(hint, len, PROT_RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) }
}
