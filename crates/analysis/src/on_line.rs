//! Asks segments while they are recorded.
//!
//! Whoever packs a segment replays it for its part, several at once; each combines what is next in order when it is done. As
//! segments are closed that began long before others, few parts wait for one that is not closed yet.

use crate::{Analysis, Segment};
use relive_trace::recording::watch::{Told, Watcher};
use relive_trace::replay::Wrong;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A question to a trace that is being made.
pub struct OnLine<A: Analysis> {
    memory: bool,
    combined: Mutex<Combined<A>>,
}

struct Combined<A: Analysis> {
    analysis: A,
    /// Parts that come later than one that is not there yet, and those of which there is nothing.
    waiting: BTreeMap<u64, Option<(Segment, A::Part)>>,
    /// Which comes next.
    next: u64,
    wrong: Option<(u32, Wrong)>,
}

impl<A: Analysis> OnLine<A> {
    /// Nothing has been asked yet.
    #[must_use]
    pub fn new(analysis: A) -> Self {
        let memory = analysis.wants_memory();
        let combined = Combined { analysis, waiting: BTreeMap::new(), next: 0, wrong: None };
        Self { memory, combined: Mutex::new(combined) }
    }

    /// All that was asked, when everything is over; and a thread of which something could not be understood, and why.
    pub fn finish(self) -> (A, Option<(u32, Wrong)>) {
        let mut combined = self.combined.into_inner().unwrap_or_else(PoisonError::into_inner);
        combined.combine(true);
        (combined.analysis, combined.wrong)
    }

    fn combined(&self) -> MutexGuard<'_, Combined<A>> {
        self.combined.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Analysis> Combined<A> {
    /// Combines what is there, up to the first that is not; in the end, all.
    fn combine(&mut self, is_end: bool) {
        while let Some(first) = self.waiting.first_entry() {
            if *first.key() != self.next && !is_end {
                return;
            }
            self.next = first.key() + 1;
            if let Some((segment, part)) = first.remove() {
                self.analysis.combine(&segment, part);
            }
        }
    }
}

impl<A: Analysis + Send> Watcher for OnLine<A> {
    fn segment(&self, order: u64, segment: &relive_trace::Segment, told: &Told<'_>) {
        let &relive_trace::Segment { process, thread, number, first_instruction, .. } = segment;
        let segment = Segment { process, thread, number, instruction: first_instruction };
        let mut part = self.combined().analysis.part(&segment);
        let result = told.replay(self.memory, &mut part);
        let mut combined = self.combined();
        if let (None, Err(wrong)) = (&combined.wrong, result) {
            combined.wrong = Some((thread, wrong));
        }
        combined.waiting.insert(order, Some((segment, part)));
        combined.combine(false);
    }

    fn nothing(&self, order: u64) {
        let mut combined = self.combined();
        combined.waiting.insert(order, None);
        combined.combine(false);
    }
}
