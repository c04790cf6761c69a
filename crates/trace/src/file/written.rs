//! A segment as its thread has written it: what stands in the file, unpacked but not executed.

use super::Segment;
use super::reader::{Packed, Trace, TraceError};
use crate::machine::Values;
use crate::recording::Nobody;
use crate::replay::{Replay, Source, Wrong};
use crate::units::{State, Units};
use relive_abi::trace::{Call, CallResult, SPECIAL, Stop, Tag, word};

/// What a thread has written down: tags and values, each one behind the other.
#[derive(Debug, Default)]
pub struct Written {
    /// The tags of all records.
    pub tags: Vec<Tag>,
    /// The values of all records.
    pub values: Vec<u64>,
    /// All records as they were, with what belongs to special tags.
    pub records: Vec<u8>,
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
            let mut copying = Copying { packed, units, written: &mut written, stop: None };
            replay.run(units, &mut copying, &mut Nobody)
        })?;
        Ok(written)
    }
}

/// Keeps all that passes.
struct Copying<'a> {
    packed: Packed<'a>,
    units: &'a Units,
    written: &'a mut Written,
    /// What comes behind the values of a unit that was left in the middle.
    stop: Option<Stop>,
}

impl Copying<'_> {
    fn words(&mut self, words: impl IntoIterator<Item = u64>) {
        words.into_iter().for_each(|word| self.written.records.extend_from_slice(&word.to_le_bytes()));
    }
}

impl Values for Copying<'_> {
    fn value(&mut self, slot: u32) -> Result<u64, Wrong> {
        let value = self.packed.value(slot)?;
        self.written.values.push(value);
        self.words([value]);
        Ok(value)
    }
}

impl Source for Copying<'_> {
    fn tag(&mut self) -> Result<Option<Tag>, Wrong> {
        let tag = self.packed.tag()?;
        self.written.tags.extend(tag);
        let values = |tag| self.units.find(tag).map_or(0, |(unit, exit)| unit.operations.ways[exit].values);
        let word = tag.map(|tag| if tag & SPECIAL == 0 { word(tag, values(tag)) } else { tag });
        self.written.records.extend(word.into_iter().flat_map(u32::to_le_bytes));
        Ok(tag)
    }

    fn state(&mut self) -> Result<State, Wrong> {
        let state = self.packed.state()?;
        self.words(state.registers);
        self.words([state.flags, state.pc, state.fs, state.gs]);
        Ok(state)
    }

    fn call(&mut self) -> Result<Call, Wrong> {
        let call = self.packed.call()?;
        self.words([call.number]);
        self.words(call.arguments);
        self.words([call.time]);
        Ok(call)
    }

    fn result(&mut self) -> Result<CallResult, Wrong> {
        let result = self.packed.result()?;
        self.words([result.value, result.time]);
        Ok(result)
    }

    fn stop(&mut self, values: u16) -> Result<Stop, Wrong> {
        let stop = self.packed.stop(values)?;
        self.stop = Some(stop);
        Ok(stop)
    }

    fn is_over(&mut self) {
        if let Some(Stop { pc, unit, piece, rcx }) = self.stop.take() {
            self.words([pc, u64::from(unit) | u64::from(piece) << 32, rcx]);
        }
    }
}
