//! Looks through what one thread writes down, and cuts it into segments.
//!
//! A segment can begin wherever a buffer ends, as what is known of registers there is known here too: where the stack is, each
//! record tells without being executed; the rest is found by executing a few records again, from the last that took nothing for
//! known.

use super::Nobody;
use super::shapes::Shapes;
use crate::columns::put_number;
use crate::file::Segment;
use crate::machine::Machine;
use crate::replay::{Raw, Replay, Wrong};
use crate::units::{Units, Words};
use relive_abi::trace::{STATE, Tag, payload, stopped_values};
use relive_code::isa::Gpr;
use std::time::Duration;

/// A thread that is being traced.
pub(super) struct Thread {
    process: u32,
    tid: u32,
    segments: u32,
    instructions: u64,
    /// What is known of the registers at the end of the last buffer, or where that was last changed otherwise.
    machine: Option<Machine>,
    /// Where the stack is.
    stack: u64,
    open: Option<Open>,
    /// By unit, the last segment in which it was executed, counted from one.
    executed: Vec<u32>,
    /// Whether something could not be understood.
    is_lost: bool,
}

/// A segment that goes on.
struct Open {
    segment: Segment,
    records: Vec<Vec<u8>>,
    executed: Vec<u8>,
}

/// From where records are executed again.
enum Base {
    /// From here on with what is known at the place.
    Known(usize),
    /// From here on, where only the stack is known.
    Stack(usize, u64),
}

impl Thread {
    pub(super) fn new(process: u32, tid: u32) -> Self {
        Self {
            process,
            tid,
            segments: 0,
            instructions: 0,
            machine: None,
            stack: 0,
            open: None,
            executed: Vec::new(),
            is_lost: false,
        }
    }

    pub(super) fn instructions(&self) -> u64 {
        self.instructions
    }

    /// How much is in the open segment.
    pub(super) fn raw(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.segment.raw)
    }

    /// How long it has been open.
    pub(super) fn open_for(&self, now: Duration) -> Duration {
        self.open
            .as_ref()
            .map_or(Duration::ZERO, |open| now.saturating_sub(Duration::from_nanos(open.segment.begins)))
    }

    /// Takes in what it has written down, in a copy that `copy` makes.
    pub(super) fn take(
        &mut self,
        units: &Units,
        shapes: &Shapes,
        bytes: &[u8],
        now: Duration,
        copy: impl FnOnce(&[u8]) -> Vec<u8>,
    ) -> Result<(), Wrong> {
        if self.is_lost {
            return Ok(());
        }
        let now = now.as_nanos() as u64;
        let mut open = self.open.take().unwrap_or_else(|| Open {
            segment: Segment {
                process: self.process,
                thread: self.tid,
                number: self.segments,
                first_instruction: self.instructions,
                instructions: 0,
                records: 0,
                raw: 0,
                begins: now,
                ends: now,
                state: self.machine.as_ref().map(|machine| machine.state(0)),
                lens: [0; 4],
                at: 0,
                len: 0,
            },
            records: Vec::new(),
            executed: Vec::new(),
        });
        self.executed.resize(units.all().len(), 0);
        let mut at = 0;
        let result = self.scan(units, shapes, bytes, &mut open, &mut at);
        self.is_lost = result.is_err();
        open.segment.ends = now;
        open.segment.raw += at as u64;
        if at > 0 {
            open.records.push(copy(&bytes[..at]));
        }
        self.open = Some(open);
        result
    }

    /// Looks through records. `at` is how much of them makes sense.
    fn scan(
        &mut self,
        units: &Units,
        shapes: &Shapes,
        bytes: &[u8],
        open: &mut Open,
        at: &mut usize,
    ) -> Result<(), Wrong> {
        let segment = self.segments + 1;
        let mut base = Base::Known(0);
        while let Some((word, rest)) = bytes[*at..].split_first_chunk() {
            let tag = Tag::from_le_bytes(*word);
            let Some(shape) = shapes.get(tag) else {
                if tag == 0 {
                    // What is begun here was not finished.
                    break;
                }
                if tag == STATE {
                    base = Base::Known(*at);
                }
                *at += self.special(tag, rest, units)? + word.len();
                open.segment.records += 1;
                continue;
            };
            if shape.is_base {
                base = Base::Stack(*at, self.stack);
            }
            let len = usize::from(shape.values) * 8;
            let values = rest.get(..len).ok_or(Wrong::CutShort)?;
            if let Some(value) =
                usize::from(shape.stack).checked_sub(1).and_then(|n| values.as_chunks().0.get(n))
            {
                self.stack = u64::from_le_bytes(*value);
            }
            self.stack = self.stack.wrapping_add_signed(shape.moved);
            self.instructions += u64::from(shape.steps);
            open.segment.records += 1;
            let executed = &mut self.executed[shape.unit as usize];
            if *executed != segment {
                *executed = segment;
                put_number(&mut open.executed, shape.unit.into());
            }
            *at += word.len() + len;
            if shape.turns {
                self.execute(units, &bytes[..*at], &base)?;
                base = Base::Known(*at);
            }
        }
        self.execute(units, &bytes[..*at], &base)
    }

    /// Executes records again, from where enough is known of them to their end.
    fn execute(&mut self, units: &Units, bytes: &[u8], base: &Base) -> Result<(), Wrong> {
        let mut replay = Replay::on(self.machine.take());
        let from = match *base {
            Base::Known(from) => from,
            Base::Stack(from, stack) => {
                replay.machine.iter_mut().for_each(|machine| machine.set(Gpr::RSP, stack));
                from
            }
        };
        replay.run(units, &mut Raw::new(&bytes[from..]), &mut Nobody)?;
        self.machine = replay.machine;
        Ok(())
    }

    /// Something that is not an exit: how long it is behind its tag.
    #[cold]
    fn special(&mut self, tag: Tag, rest: &[u8], units: &Units) -> Result<usize, Wrong> {
        let values = usize::from(stopped_values(tag).unwrap_or(0)) * 8;
        let own = payload(tag).ok_or(Wrong::UnknownTag(tag))?;
        let behind = rest.get(values..values + own).ok_or(Wrong::CutShort)?;
        if tag == STATE {
            let state = Words(behind).state().ok_or(Wrong::CutShort)?;
            self.stack = state.registers[Gpr::RSP.number()];
            self.machine = Some(Machine::new(&state));
        } else if stopped_values(tag).is_some() {
            // A state follows, so that nobody asks where the stack is.
            let stop = Words(behind).stop().ok_or(Wrong::CutShort)?;
            let (unit, _) = units.find(stop.unit).ok_or(Wrong::UnknownTag(stop.unit))?;
            self.instructions += unit.steps_before(&stop) as u64;
        }
        Ok(values + own)
    }

    /// Ends the open segment: it, its records, and which units they mention.
    pub(super) fn close(&mut self) -> Option<(Segment, Vec<Vec<u8>>, Vec<u8>)> {
        let Open { mut segment, records, executed } =
            self.open.take().filter(|open| open.segment.records > 0)?;
        segment.instructions = self.instructions - segment.first_instruction;
        self.segments += 1;
        Some((segment, records, executed))
    }
}
