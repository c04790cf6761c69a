//! Whoever looks at what threads did while it is recorded.

use super::Traced;
use super::buffer::Buffer;
use crate::file::Segment;
use crate::replay::{Raw, Replay, Wrong};
use crate::visit::Visitor;
use std::sync::{PoisonError, RwLock};

/// Looks at segments while they are recorded, several at once.
pub trait Watcher: Send + Sync {
    /// A segment. `order` counts all of them in the order in which they begin; each number comes once, sooner or later.
    fn segment(&self, order: u64, segment: &Segment, told: &Told<'_>);

    /// Nothing of this one is wanted, or it could not be understood.
    fn nothing(&self, order: u64);
}

/// What a thread has written down in a segment.
pub struct Told<'a> {
    pub(super) records: &'a [Buffer],
    pub(super) traced: &'a RwLock<Traced>,
    pub(super) segment: &'a Segment,
}

impl Told<'_> {
    /// Tells a visitor of everything that happens, with or without accesses to memory.
    ///
    /// # Errors
    /// If something makes no sense. What comes before has been told.
    pub fn replay(&self, memory: bool, visitor: &mut impl Visitor) -> Result<(), Wrong> {
        let mut replay = match (memory, &self.segment.state) {
            (false, _) => Replay::control(),
            (true, None) => Replay::begin(),
            (true, Some(state)) => Replay::with(state),
        };
        for bytes in self.records {
            // One after the other, so that nobody who has something to add waits long.
            let traced = self.traced.read().unwrap_or_else(PoisonError::into_inner);
            replay.run(&traced.process.units, &mut Raw::new(bytes), visitor)?;
        }
        Ok(())
    }
}
