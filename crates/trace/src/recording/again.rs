//! Packs what a trace holds again: how long that takes shows how fast packing is, without threads that write anything down.

use super::Traced;
use super::buffer::Buffer;
use super::habit::Habit;
use super::records::Packing;
use super::shapes::Shapes;
use crate::file::reader::{Trace, TraceError};
use crate::process::Process;
use std::sync::RwLock;

/// A segment as its thread has written it.
pub struct Again {
    traced: RwLock<Traced>,
    records: Vec<Buffer>,
    memory: bool,
}

/// Whoever packs.
#[derive(Default)]
pub struct Packer {
    packing: Packing,
    habit: Habit,
}

impl Again {
    /// One of the segments of a trace, by its number among them.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn new(trace: &Trace, segment: usize) -> Result<Self, TraceError> {
        let segment = &trace.segments()[segment];
        let of = trace.process(segment.process)?;
        let mut process = Process::new(of.number, of.pid, trace.about().kind());
        process.inherit(of, of.units.all().len(), of.mappings.len());
        let mut shapes = Shapes::default();
        shapes.update(&process.units);
        let records = vec![Buffer::new(trace.written(segment)?.records)];
        let traced = RwLock::new(Traced { process, shapes });
        Ok(Self { traced, records, memory: trace.about().memory })
    }

    /// How many bytes the thread has written down.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.iter().map(|buffer| buffer.len()).sum()
    }

    /// Whether that is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Packer {
    /// Packs a segment: how many records it has, and its parts.
    pub fn pack(&mut self, again: &Again) -> (u64, [Vec<u8>; 4]) {
        let packed = self.packing.pack(&again.records, &again.traced, &self.habit);
        (packed.records, self.packing.finish(again.memory, &packed))
    }
}
