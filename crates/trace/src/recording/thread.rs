//! A thread that is being traced: what it has written down and nobody has packed yet, and what is known of it where the last packed
//! segment ends.

use super::buffer::Buffer;
use super::habit::Habit;
use super::lock;
use super::packing::Ready;
use crate::machine::Machine;
use crate::replay::Wrong;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A thread as whoever takes things away sees it.
#[derive(Default)]
pub(super) struct Thread {
    segments: u32,
    /// What is to be packed next: buffers, how long they are together, and when the first and the last was taken away.
    pub(super) records: Vec<Buffer>,
    pub(super) raw: u64,
    /// Its place among all segments, in the order in which they begin.
    pub(super) order: u64,
    pub(super) begins: Duration,
    pub(super) ends: Duration,
    pub(super) line: Arc<Line>,
}

impl Thread {
    /// One that the kernel has given the number of another, which has left so much behind.
    pub(super) fn after(segments: u32, instructions: u64) -> Self {
        let known = Known { segments, instructions, ..Known::default() };
        let line = Arc::new(Line { known: Mutex::new(known), ..Line::default() });
        Self { segments, line, ..Self::default() }
    }

    /// Takes in what it has written down. If a segment begins with it, it takes the next place.
    pub(super) fn add(&mut self, records: Buffer, now: Duration, next: &mut u64) {
        if self.records.is_empty() {
            (self.raw, self.begins, self.order) = (0, now, *next);
            *next += 1;
        }
        self.ends = now;
        self.raw += records.len() as u64;
        self.records.push(records);
    }

    /// How many segments there are.
    pub(super) fn segments(&self) -> u32 {
        self.segments
    }

    /// The number of the segment that ends here.
    pub(super) fn cut(&mut self) -> u32 {
        self.segments += 1;
        self.segments - 1
    }
}

/// Where the segments of a thread wait for each other, as each begins with what is known where the one before ends.
#[derive(Default)]
pub(super) struct Line {
    known: Mutex<Known>,
    moved: Condvar,
    pub(super) habit: Habit,
    /// Segments that are packed but those before are not, by their numbers.
    pub(super) ready: Mutex<BTreeMap<u32, Ready>>,
}

/// Where a thread is with regard to what is wanted of it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has not come to the beginning.
    #[default]
    Before,
    /// It is recorded.
    In,
    /// It was.
    After,
}

/// What is known of a thread where a segment ends.
#[derive(Default)]
pub(super) struct Known {
    pub(super) stage: Stage,
    /// How many segments have been packed.
    segments: u32,
    /// How many instructions were executed.
    pub(super) instructions: u64,
    /// What is known of the registers; nothing before the first state.
    pub(super) machine: Option<Machine>,
    /// What could not be understood. Nothing behind that is packed.
    pub(super) wrong: Option<Wrong>,
}

impl Line {
    /// Waits until all segments before this one are packed.
    pub(super) fn wait_for(&self, segment: u32) -> MutexGuard<'_, Known> {
        let known = self.known();
        self.moved.wait_while(known, |known| known.segments < segment).unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, if nobody has to wait for that.
    pub(super) fn is_at(&self, segment: u32) -> Option<MutexGuard<'_, Known>> {
        Some(self.known()).filter(|known| known.segments >= segment)
    }

    /// The segment that waited is packed.
    pub(super) fn pass(&self, mut known: MutexGuard<'_, Known>) {
        known.segments += 1;
        drop(known);
        self.moved.notify_all();
    }

    /// Goes on with all segments that are ready and whose turn it is, unless somebody else does.
    pub(super) fn settle(&self, mut each: impl FnMut(&mut Known, Ready)) {
        let next = |number: u32| lock(&self.ready).remove(&number);
        loop {
            let Ok(mut known) = self.known.try_lock() else { return };
            while let Some(ready) = next(known.segments) {
                each(&mut known, ready);
                known.segments += 1;
                self.moved.notify_all();
            }
            let number = known.segments;
            drop(known);
            // Somebody may have come meanwhile, and gone as it was not free.
            if !lock(&self.ready).contains_key(&number) {
                return;
            }
        }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
