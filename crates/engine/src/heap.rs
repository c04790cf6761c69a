//! The engine's own memory: blocks of powers of two from large pieces that are never given back, larger ones straight
//! from the kernel. Whoever allocates holds the engine's lock.
//!
//! Fresh memory is dear, as the kernel has to find and clear it: what is given back is used again first, in parts if need
//! be, and large blocks that grow take their pages with them.

use crate::zone;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr;
use relive_abi::kernel;
use relive_abi::page_up;

/// The smallest block is 16 bytes, the largest 512 KiB.
const SIZES: usize = 16;
const SMALLEST: u32 = 4;
/// The first size with memory of its own: 64 KiB.
const LARGE: usize = 12;
/// What is asked of the kernel at once, at least and at most: half of what there is, so that who needs much gets large
/// pages, and others do not.
const SHORTEST: u64 = 1 << 20;
const LONGEST: u64 = 32 << 20;

/// Blocks for everything that is allocated in the engine.
pub struct Heap(UnsafeCell<State>);

struct State {
    /// For each size, free blocks as a list.
    free: [*mut u8; SIZES],
    /// The rest of the last large piece.
    next: u64,
    end: u64,
    /// The length of all pieces.
    pieces: u64,
}

// SAFETY: only used by the thread that holds the engine's lock.
unsafe impl Sync for Heap {}

impl Heap {
    /// Nothing yet.
    #[must_use]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self(UnsafeCell::new(State::NONE))
    }

    /// Takes blocks from memory that somebody else has mapped, first.
    ///
    /// # Safety
    /// It is nobody's, and the lock is held.
    pub unsafe fn begin(&self, start: u64, end: u64) {
        // SAFETY: as the caller promises.
        let state = unsafe { &mut *self.0.get() };
        (state.next, state.end) = (start, end);
    }

    /// Leaves the rest of that memory alone, and says where it begins.
    ///
    /// # Safety
    /// The lock is held.
    pub unsafe fn leave_rest(&self) -> u64 {
        // SAFETY: as the caller promises.
        let state = unsafe { &mut *self.0.get() };
        let rest = state.next;
        *state = State::NONE;
        rest
    }
}

/// Which size is right, if not one that is too large.
fn class(layout: Layout) -> Option<usize> {
    let size = layout.size().max(layout.align()).next_power_of_two().max(1 << SMALLEST);
    let class = (size.trailing_zeros() - SMALLEST) as usize;
    (class < SIZES).then_some(class)
}

fn size_of_class(class: usize) -> u64 {
    1 << (class as u32 + SMALLEST)
}

impl State {
    const NONE: Self = Self { free: [ptr::null_mut(); SIZES], next: 0, end: 0, pieces: 0 };

    /// # Safety
    /// The block is of that size and nobody's.
    unsafe fn give(&mut self, class: usize, block: *mut u8) {
        // SAFETY: it has room for an address.
        unsafe { *block.cast::<*mut u8>() = self.free[class] };
        self.free[class] = block;
    }

    /// A block that was given back, or the beginning of a larger one.
    fn used(&mut self, class: usize) -> Option<*mut u8> {
        let from = (class..SIZES).find(|&from| !self.free[from].is_null())?;
        let block = self.free[from];
        // SAFETY: a free block begins with the address of the next.
        self.free[from] = unsafe { *block.cast::<*mut u8>() };
        for half in (class..from).rev() {
            // SAFETY: the block is twice as large, or more.
            unsafe { self.give(half, block.add(size_of_class(half) as usize)) };
        }
        Some(block)
    }

    /// A block of fresh memory, aligned to its size; null if there is none.
    fn fresh(&mut self, class: usize) -> *mut u8 {
        let size = size_of_class(class);
        if class >= LARGE {
            return zone::map(size).unwrap_or(0) as *mut u8;
        }
        if self.end.saturating_sub(self.next.next_multiple_of(size)) < size {
            self.skip_to(self.end);
            let len = (self.pieces / 2).next_power_of_two().clamp(SHORTEST, LONGEST);
            let Ok(piece) = zone::map_much(len) else { return ptr::null_mut() };
            (self.next, self.end) = (piece, piece + len);
            self.pieces += len;
        }
        self.skip_to(self.next.next_multiple_of(size));
        let at = self.next;
        self.next += size;
        at as *mut u8
    }

    /// Leaves a part of the piece for smaller blocks.
    fn skip_to(&mut self, at: u64) {
        while self.next < at {
            let most = self.next.trailing_zeros().min((at - self.next).ilog2()) - SMALLEST;
            let class = (most as usize).min(SIZES - 1);
            // SAFETY: in the piece, and nobody's yet.
            unsafe { self.give(class, self.next as *mut u8) };
            self.next += size_of_class(class);
        }
    }
}

/// How long a block is.
fn len(layout: Layout) -> u64 {
    class(layout).map_or(page_up(layout.size() as u64), size_of_class)
}

// SAFETY: blocks do not overlap: each comes from a piece once and from a list after it was given back.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class(layout) else {
            return zone::map_much(len(layout)).unwrap_or(0) as *mut u8;
        };
        // SAFETY: the lock is held.
        let state = unsafe { &mut *self.0.get() };
        state.used(class).unwrap_or_else(|| state.fresh(class))
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match class(layout) {
            // SAFETY: mapped by `alloc` for this block alone.
            None => unsafe { kernel::munmap(block as u64, len(layout)) },
            // SAFETY: the lock is held, and the block is not used any more.
            Some(class) => unsafe { (*self.0.get()).give(class, block) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        let (from, to) = (class(layout), class(new));
        if from == to && from.is_some() {
            return block;
        }
        if from.is_none_or(|class| class >= LARGE) && to.is_none_or(|class| class >= LARGE) {
            let (from, to) = (len(layout), len(new));
            // SAFETY: the block has pages of its own.
            return unsafe { zone::grow(block as u64, from, to) }.unwrap_or(0) as *mut u8;
        }
        // SAFETY: two blocks, of which the smaller length is in both.
        unsafe {
            let to = self.alloc(new);
            if !to.is_null() {
                ptr::copy_nonoverlapping(block, to, layout.size().min(size));
                self.dealloc(block, layout);
            }
            to
        }
    }
}
