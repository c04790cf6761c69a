//! What a thread has written down, wherever that lies.

use std::ops::{Deref, Range};

/// A part of something that whoever collects has handed over, which gets it back when this goes.
pub(super) struct Buffer {
    all: Box<dyn AsRef<[u8]> + Send + Sync>,
    part: Range<usize>,
}

impl Buffer {
    /// All of it.
    pub(super) fn new(all: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        let part = 0..all.as_ref().len();
        Self { all: Box::new(all), part }
    }

    /// Leaves out so much at its beginning.
    pub(super) fn skip(&mut self, len: usize) {
        self.part.start = (self.part.start + len).min(self.part.end);
    }

    /// Leaves out what comes behind so much.
    pub(super) fn truncate(&mut self, len: usize) {
        self.part.end = (self.part.start + len).min(self.part.end);
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &(*self.all).as_ref()[self.part.clone()]
    }
}
