//! Buffers of traced threads that others look at where they lie, instead of copying them: each is emptied when the last of them is done.

use crate::arena::RingView;
use relive_abi::trace::BUFFERS;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A ring whose buffers are taken away.
pub(crate) struct Lender {
    ring: RingView,
    open: Mutex<Open>,
    /// How many buffers are lent.
    lent: AtomicU32,
}

/// Buffers come back in any order, and the thread wants them in theirs.
struct Open {
    emptied: u64,
    /// Which of those behind have come back.
    back: [bool; BUFFERS],
}

impl Lender {
    pub(crate) fn new(ring: RingView) -> Self {
        let emptied = ring.head().emptied.load(Ordering::Acquire);
        Self { ring, open: Mutex::new(Open { emptied, back: [false; BUFFERS] }), lent: AtomicU32::new(0) }
    }

    /// How many buffers are lent.
    pub(crate) fn lent(&self) -> u32 {
        self.lent.load(Ordering::Acquire)
    }

    /// Lends a buffer that has been filled so far.
    pub(crate) fn lend(self: &Arc<Self>, number: u64, len: usize) -> Lent {
        self.lent.fetch_add(1, Ordering::Relaxed);
        Lent { lender: self.clone(), number, len }
    }

    /// Empties a buffer that nobody looks at any more, and tells the thread.
    pub(crate) fn empty(&self, number: u64, len: usize) {
        let head = self.ring.head();
        // A thread that may not use all buffers goes through all of them nevertheless: their memory is wanted elsewhere. It takes as long
        // to fill one then as it takes to get its pages.
        let is_tight = head.most.load(Ordering::Relaxed) != 0;
        if !is_tight || !self.ring.give_back(number) {
            self.ring.wipe(number, len);
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.back[number as usize % BUFFERS] = true;
        let before = open.emptied;
        while open.back[open.emptied as usize % BUFFERS] {
            let index = open.emptied as usize % BUFFERS;
            open.back[index] = false;
            open.emptied += 1;
        }
        if open.emptied > before {
            head.emptied.store(open.emptied, Ordering::Release);
            head.room.fetch_add(1, Ordering::Release);
            crate::follow::futex_wake(&head.room);
        }
    }
}

/// A buffer that was lent. It is emptied when this goes.
pub struct Lent {
    lender: Arc<Lender>,
    number: u64,
    len: usize,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.lender.ring.filled(self.number, self.len)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.lender.empty(self.number, self.len);
        self.lender.lent.fetch_sub(1, Ordering::Release);
    }
}
