//! The engine's own memory: blocks of a few sizes from large pieces that are never given back, large ones straight
//! from the kernel. Whoever allocates holds the engine's lock.

use crate::zone;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr;
use relive_abi::kernel;
use relive_abi::page_up;

/// The smallest block is 16 bytes, the largest 32 KiB.
const SIZES: usize = 12;
const SMALLEST: u32 = 4;
/// What is asked of the kernel at once.
const PIECE: u64 = 1 << 20;

/// Blocks for everything that is allocated in the engine.
pub struct Heap(UnsafeCell<State>);

struct State {
    /// For each size, free blocks as a list.
    free: [*mut u8; SIZES],
    /// The rest of the last large piece.
    next: u64,
    end: u64,
}

// SAFETY: only used by the thread that holds the engine's lock.
unsafe impl Sync for Heap {}

impl Heap {
    /// Nothing yet.
    #[must_use]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self(UnsafeCell::new(State { free: [ptr::null_mut(); SIZES], next: 0, end: 0 }))
    }
}

/// Memory from the kernel; null if there is none.
fn map(len: u64) -> u64 {
    zone::map_much(len).unwrap_or(0)
}

fn class(layout: Layout) -> Option<usize> {
    let size = layout.size().max(layout.align()).next_power_of_two().max(1 << SMALLEST);
    let class = (size.trailing_zeros() - SMALLEST) as usize;
    (class < SIZES).then_some(class)
}

// SAFETY: blocks do not overlap: each comes from a piece once and from its list after it was given back.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class(layout) else { return map(page_up(layout.size() as u64)) as *mut u8 };
        // SAFETY: the lock is held.
        let state = unsafe { &mut *self.0.get() };
        let first = state.free[class];
        if !first.is_null() {
            // SAFETY: a free block begins with the address of the next.
            state.free[class] = unsafe { *first.cast::<*mut u8>() };
            return first;
        }
        let size = 1u64 << (class as u32 + SMALLEST);
        if state.end - state.next < size {
            state.next = map(PIECE);
            if state.next == 0 {
                state.end = 0;
                return ptr::null_mut();
            }
            state.end = state.next + PIECE;
        }
        // Blocks are aligned to their size.
        let at = state.next.next_multiple_of(size);
        if at + size > state.end {
            state.end = state.next;
            // SAFETY: as before.
            return unsafe { self.alloc(layout) };
        }
        state.next = at + size;
        at as *mut u8
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match class(layout) {
            // SAFETY: mapped by `alloc` for this block alone.
            None => unsafe { kernel::munmap(block as u64, page_up(layout.size() as u64)) },
            Some(class) => {
                // SAFETY: the lock is held, and the block has room for an address.
                unsafe {
                    let state = &mut *self.0.get();
                    *block.cast::<*mut u8>() = state.free[class];
                    state.free[class] = block;
                }
            }
        }
    }
}
