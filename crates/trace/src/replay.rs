//! Tells of everything that a thread did, from what it has written down.

use crate::machine::{Found, Machine, Values};
use crate::units::{State, Unit, Units, Words};
use crate::visit::{Event, Ran, Visitor};
use relive_abi::trace::{
    CALL, Call, CallResult, NOT_CALLED, RESULT, SAME_STATE, SPECIAL, STATE, Stop, Tag, stopped_values, tag_of,
};

/// What a thread has written down, whatever form it has.
pub(crate) trait Source: Values {
    /// The next tag; none at the end.
    fn tag(&mut self) -> Result<Option<Tag>, Wrong>;

    /// The state that belongs to the tag.
    fn state(&mut self) -> Result<State, Wrong>;

    /// The call of the kernel that belongs to the tag.
    fn call(&mut self) -> Result<Call, Wrong>;

    /// The same for its result.
    fn result(&mut self) -> Result<CallResult, Wrong>;

    /// Where a unit was left in the middle, behind so many values, which come next.
    fn stop(&mut self, values: u16) -> Result<Stop, Wrong>;

    /// Passes over the values of a record, if they lie in the way of the next.
    fn pass_over(&mut self, _values: u16) -> Result<(), Wrong> {
        Ok(())
    }

    /// All of what belongs to a tag has been read.
    fn is_over(&mut self) {}
}

/// What was written down makes no sense.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Wrong {
    /// A part of it cannot be unpacked.
    #[error(transparent)]
    Stream(#[from] crate::StreamError),
    /// A record is longer than what there is.
    #[error("it ends in the middle of a record")]
    CutShort,
    /// There is no such unit.
    #[error("no code belongs to the tag {0:#x}")]
    UnknownTag(Tag),
    /// It does not begin with what a thread begins with.
    #[error("it begins without a state")]
    NoState,
    /// No process has so much memory.
    #[error("an instruction that repeats itself goes beyond the end of memory")]
    BeyondMemory,
}

/// A thread that is replayed.
#[derive(Default)]
pub struct Replay {
    pub(crate) machine: Option<Machine>,
    found: Found,
    /// Values are not there, or nobody wants to know.
    is_control_alone: bool,
}

impl Replay {
    /// A thread that begins.
    #[must_use]
    pub fn begin() -> Self {
        Self::default()
    }

    /// A thread that goes on with a state.
    pub(crate) fn with(state: &State) -> Self {
        Self { machine: Some(Machine::new(state)), ..Self::default() }
    }

    /// A thread of which only the control flow is of interest.
    pub(crate) fn control() -> Self {
        Self { is_control_alone: true, ..Self::default() }
    }

    /// A thread of which that is known. Only what is known later is of interest.
    pub(crate) fn on(machine: Option<Machine>) -> Self {
        Self { machine, found: Found { is_unwanted: true, ..Found::default() }, ..Self::default() }
    }

    /// Replays records as the thread has written them, up to the first that was only begun.
    ///
    /// # Errors
    /// If they make no sense.
    pub fn records(&mut self, units: &Units, bytes: &[u8], visitor: &mut impl Visitor) -> Result<(), Wrong> {
        self.run(units, &mut Raw::new(bytes), visitor)
    }

    /// Replays what there is.
    pub(crate) fn run(
        &mut self,
        units: &Units,
        source: &mut impl Source,
        visitor: &mut impl Visitor,
    ) -> Result<(), Wrong> {
        while let Some(tag) = source.tag()? {
            if tag & SPECIAL == 0 {
                let (unit, exit) = units.find(tag).ok_or(Wrong::UnknownTag(tag))?;
                let way = &unit.operations.ways[exit];
                self.found.clear();
                let mut from = 0;
                if self.is_control_alone {
                    source.pass_over(way.values)?;
                } else if way.operations > 0 {
                    let machine = self.machine.as_mut().ok_or(Wrong::NoState)?;
                    let mut part = |found: &mut Found, step| tell_part(unit, &mut from, step, found, visitor);
                    machine.run(&unit.operations, way.operations, source, &mut self.found, &mut part)?;
                }
                let Found { references, stamps, .. } = &self.found;
                let steps = unit.exits[exit].steps as usize;
                visitor.ran(&Ran { unit, from, steps, exit: Some(exit), references, stamps });
            } else {
                self.special(tag, units, source, visitor)?;
            }
            source.is_over();
        }
        Ok(())
    }

    #[cold]
    fn special(
        &mut self,
        tag: Tag,
        units: &Units,
        source: &mut impl Source,
        visitor: &mut impl Visitor,
    ) -> Result<(), Wrong> {
        match tag {
            STATE => {
                let state = source.state()?;
                self.machine = Some(Machine::new(&state));
                visitor.event(&Event::State(state));
            }
            SAME_STATE => self.machine = Some(Machine::new(&source.state()?)),
            NOT_CALLED => visitor.event(&Event::NotCalled),
            CALL => {
                let Call { number, arguments, time } = source.call()?;
                visitor.event(&Event::Call { number, arguments, time });
            }
            RESULT => {
                let CallResult { value, time } = source.result()?;
                visitor.event(&Event::Result { value, time });
            }
            tag => {
                let values = stopped_values(tag).ok_or(Wrong::UnknownTag(tag))?;
                let stop = source.stop(values)?;
                let (unit, _) = units.find(stop.unit).ok_or(Wrong::UnknownTag(stop.unit))?;
                let steps = unit.steps_before(&stop);
                self.found.clear();
                let mut from = 0;
                let count = values.into();
                let mut values = Counted { source, slot: unit.operations.slot, left: values };
                if unit.operations.memory && !self.is_control_alone {
                    let machine = self.machine.as_mut().ok_or(Wrong::NoState)?;
                    let found = &mut self.found;
                    let mut part = |found: &mut Found, step| tell_part(unit, &mut from, step, found, visitor);
                    machine.run_steps(unit, (steps, stop.rcx), count, &mut values, found, &mut part)?;
                    values.skip()?;
                }
                let Found { references, stamps, .. } = &self.found;
                visitor.ran(&Ran { unit, from, steps, exit: None, references, stamps });
            }
        }
        Ok(())
    }
}

/// Tells of what was found up to an instruction of which there is more to tell.
#[cold]
fn tell_part(unit: &Unit, from: &mut usize, step: u16, found: &mut Found, visitor: &mut impl Visitor) {
    let (steps, Found { references, stamps, .. }) = (step.into(), &*found);
    visitor.ran(&Ran { unit, from: *from, steps, exit: None, references, stamps });
    *from = steps;
    found.clear();
}

/// Reads something off the beginning of bytes.
pub(crate) fn words<'a, T>(bytes: &mut &'a [u8], read: fn(&mut Words<'a>) -> Option<T>) -> Result<T, Wrong> {
    let mut words = Words(bytes);
    let found = read(&mut words).ok_or(Wrong::CutShort)?;
    *bytes = words.0;
    Ok(found)
}

/// As many values as there are.
struct Counted<'a, S> {
    source: &'a mut S,
    slot: u32,
    left: u16,
}

impl<S: Source> Counted<'_, S> {
    /// Passes over those of an instruction that was not executed.
    fn skip(&mut self) -> Result<(), Wrong> {
        while self.left > 0 {
            self.value(self.slot)?;
        }
        Ok(())
    }
}

impl<S: Source> Values for Counted<'_, S> {
    fn value(&mut self, slot: u32) -> Result<u64, Wrong> {
        self.left = self.left.checked_sub(1).ok_or(Wrong::CutShort)?;
        self.slot = slot + 1;
        self.source.value(slot)
    }
}

/// Records as threads write them: see [`relive_abi::trace`].
pub(crate) struct Raw<'a> {
    bytes: &'a [u8],
    /// How much follows what belongs to a tag, if that is not read in order.
    behind: usize,
}

impl<'a> Raw<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, behind: 0 }
    }
}

impl Values for Raw<'_> {
    #[inline]
    fn value(&mut self, _slot: u32) -> Result<u64, Wrong> {
        let (word, rest) = self.bytes.split_first_chunk().ok_or(Wrong::CutShort)?;
        self.bytes = rest;
        Ok(u64::from_le_bytes(*word))
    }
}

impl Source for Raw<'_> {
    #[inline]
    fn tag(&mut self) -> Result<Option<Tag>, Wrong> {
        let Some((word, rest)) = self.bytes.split_first_chunk() else { return Ok(None) };
        let tag = tag_of(u32::from_le_bytes(*word));
        if tag == 0 {
            // What is begun here was not finished.
            return Ok(None);
        }
        self.bytes = rest;
        Ok(Some(tag))
    }

    fn state(&mut self) -> Result<State, Wrong> {
        words(&mut self.bytes, Words::state)
    }

    fn call(&mut self) -> Result<Call, Wrong> {
        words(&mut self.bytes, Words::call)
    }

    fn result(&mut self) -> Result<CallResult, Wrong> {
        words(&mut self.bytes, Words::result)
    }

    fn stop(&mut self, values: u16) -> Result<Stop, Wrong> {
        let behind = self.bytes.get(usize::from(values) * 8..).ok_or(Wrong::CutShort)?;
        let mut words = Words(behind);
        let stop = words.stop().ok_or(Wrong::CutShort)?;
        self.behind = words.0.len() + 1;
        Ok(stop)
    }

    fn pass_over(&mut self, values: u16) -> Result<(), Wrong> {
        self.bytes = self.bytes.get(usize::from(values) * 8..).ok_or(Wrong::CutShort)?;
        Ok(())
    }

    fn is_over(&mut self) {
        if let Some(behind) = std::mem::take(&mut self.behind).checked_sub(1) {
            self.bytes = &self.bytes[self.bytes.len().saturating_sub(behind)..];
        }
    }
}
