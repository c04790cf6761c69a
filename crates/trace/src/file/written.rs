//! A segment as its thread has written it: what stands in the file, unpacked but not executed.

use super::Segment;
use super::reader::{Packed, Trace, TraceError};
use crate::machine::Values;
use crate::recording::Nobody;
use crate::replay::{Replay, Source, Wrong};
use crate::units::State;
use relive_abi::trace::{Call, CallResult, Stop, Tag};

/// What a thread has written down: tags and values, each one behind the other.
#[derive(Debug, Default)]
pub struct Written {
    /// The tags of all records.
    pub tags: Vec<Tag>,
    /// The values of all records.
    pub values: Vec<u64>,
}

impl Trace {
    /// What a thread has written down in a segment.
    ///
    /// # Errors
    /// If a part of it cannot be read.
    pub fn written(&self, segment: &Segment) -> Result<Written, TraceError> {
        let mut replay = segment.state.as_ref().map_or_else(Replay::begin, Replay::with);
        let mut written = Written::default();
        self.unpacked(segment, |units, packed| {
            replay.run(units, &mut Copying { packed, written: &mut written }, &mut Nobody)
        })?;
        Ok(written)
    }
}

/// Keeps all that passes.
struct Copying<'a> {
    packed: Packed<'a>,
    written: &'a mut Written,
}

impl Values for Copying<'_> {
    fn value(&mut self, slot: u32) -> Result<u64, Wrong> {
        let value = self.packed.value(slot)?;
        self.written.values.push(value);
        Ok(value)
    }
}

impl Source for Copying<'_> {
    fn tag(&mut self) -> Result<Option<Tag>, Wrong> {
        let tag = self.packed.tag()?;
        self.written.tags.extend(tag);
        Ok(tag)
    }

    fn state(&mut self) -> Result<State, Wrong> {
        self.packed.state()
    }

    fn call(&mut self) -> Result<Call, Wrong> {
        self.packed.call()
    }

    fn result(&mut self) -> Result<CallResult, Wrong> {
        self.packed.result()
    }

    fn stop(&mut self, values: u16) -> Result<Stop, Wrong> {
        self.packed.stop(values)
    }
}
