//! Segments out of the file of a trace.

use crate::driver::Source;
use crate::{Code, Segment};
use relive_trace::units::Unit;
use relive_trace::visit::Visitor;
use relive_trace::{Trace, TraceError};
use std::sync::Arc;

/// A trace whose segments are replayed in the order of time.
pub struct File<'t> {
    trace: &'t Trace,
    segments: Vec<Segment>,
    /// Where these are in the trace.
    order: Vec<usize>,
    memory: bool,
}

impl<'t> File<'t> {
    /// All of a trace whose code can be read; with or without accesses to memory.
    ///
    /// # Errors
    ///
    /// If the code of a process cannot be read.
    pub fn new(trace: &'t Trace, memory: bool) -> Result<Self, TraceError> {
        let all = trace.segments();
        let mut order: Vec<usize> = (0..all.len()).collect();
        // Segments of a thread are in order already.
        order.sort_by_key(|&index| all[index].begins);
        for segment in all {
            trace.process(segment.process)?;
        }
        let segments = order.iter().map(|&index| {
            let &relive_trace::Segment { process, thread, number, first_instruction, .. } = &all[index];
            Segment { process, thread, number, instruction: first_instruction }
        });
        Ok(Self { trace, segments: segments.collect(), order, memory })
    }

    /// The same in the order of when segments begin as somebody else knows it: never earlier than those before of their thread.
    #[must_use]
    pub fn in_order(self, begins: impl FnMut(&Segment) -> u64) -> Self {
        let times: Vec<u64> = self.segments.iter().map(begins).collect();
        let mut order: Vec<usize> = (0..times.len()).collect();
        order.sort_by_key(|&index| times[index]);
        Self {
            segments: order.iter().map(|&index| self.segments[index]).collect(),
            order: order.iter().map(|&index| self.order[index]).collect(),
            ..self
        }
    }
}

impl Source for File<'_> {
    type Error = TraceError;

    fn segments(&self) -> &[Segment] {
        &self.segments
    }

    fn replay<V: Visitor>(&self, index: usize, visitor: &mut V) -> Result<(), TraceError> {
        let segment = &self.trace.segments()[self.order[index]];
        match self.memory {
            true => self.trace.replay(segment, visitor),
            false => self.trace.replay_control(segment, visitor),
        }
    }
}

impl Code for File<'_> {
    fn units(&self, process: u32) -> &[Arc<Unit>] {
        self.trace.process(process).map_or(&[], |process| process.units.all())
    }
}
