//! What one thread writes down, packed as it comes.
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
use crate::units::{State, Units, Words};
use crate::{ControlEncoder, ValueEncoder};
use relive_abi::trace::{
    CALL, Call, CallResult, NOT_CALLED, RESULT, SPECIAL, STATE, Stop, Tag, stopped_values,
};
use relive_code::isa::Gpr;
use std::time::Duration;

/// A thread that is being traced.
pub(super) struct Thread {
    process: u32,
    tid: u32,
    segments: u32,
    instructions: u64,
    /// What was last known for sure of the registers, and where that was in the buffer.
    machine: Option<Machine>,
    /// Where the stack is.
    stack: u64,
    open: Option<Open>,
    /// By unit, the last segment in which it was executed, counted from one.
    executed: Vec<u32>,
    /// Whether something could not be understood.
    is_lost: bool,
}

/// A segment that is not finished yet.
struct Open {
    state: Option<State>,
    first_instruction: u64,
    begins: Duration,
    ends: Duration,
    records: u64,
    raw: u64,
    control: ControlEncoder,
    values: ValueEncoder,
    rest: Vec<u8>,
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

    /// How much went into the open segment.
    pub(super) fn raw(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.raw)
    }

    /// How long it has been open.
    pub(super) fn open_for(&self, now: Duration) -> Duration {
        self.open.as_ref().map_or(Duration::ZERO, |open| now.saturating_sub(open.begins))
    }

    /// Packs what it has written down.
    pub(super) fn take(
        &mut self,
        units: &Units,
        shapes: &Shapes,
        bytes: &[u8],
        now: Duration,
    ) -> Result<(), Wrong> {
        if self.is_lost {
            return Ok(());
        }
        let mut open = self.open.take().unwrap_or_else(|| Open {
            state: self.machine.as_ref().map(|machine| machine.state(0)),
            first_instruction: self.instructions,
            begins: now,
            ends: now,
            records: 0,
            raw: 0,
            control: ControlEncoder::new(),
            values: ValueEncoder::new(),
            rest: Vec::new(),
            executed: Vec::new(),
        });
        open.ends = now;
        open.raw += bytes.len() as u64;
        self.executed.resize(units.all().len(), 0);
        let result = self.pack(units, shapes, bytes, &mut open);
        self.is_lost = result.is_err();
        self.open = Some(open);
        result
    }

    fn pack(&mut self, units: &Units, shapes: &Shapes, bytes: &[u8], open: &mut Open) -> Result<(), Wrong> {
        let segment = self.segments + 1;
        let mut base = Base::Known(0);
        let mut at = 0;
        while let Some((word, rest)) = bytes[at..].split_first_chunk() {
            let tag = Tag::from_le_bytes(*word);
            let Some(shape) = shapes.get(tag) else {
                if tag == 0 {
                    // What is begun here was not finished.
                    break;
                }
                if tag == STATE {
                    base = Base::Known(at);
                }
                at += self.special(tag, rest, units, open)? + word.len();
                continue;
            };
            if shape.is_base {
                base = Base::Stack(at, self.stack);
            }
            open.control.push(tag);
            open.records += 1;
            let values = rest.get(..usize::from(shape.values) * 8).ok_or(Wrong::CutShort)?;
            let (values, _) = values.as_chunks();
            for (slot, value) in (shape.slot..).zip(values) {
                open.values.push(slot, u64::from_le_bytes(*value));
            }
            if let Some(value) = usize::from(shape.stack).checked_sub(1).and_then(|n| values.get(n)) {
                self.stack = u64::from_le_bytes(*value);
            }
            self.stack = self.stack.wrapping_add_signed(shape.moved);
            self.instructions += u64::from(shape.steps);
            if self.executed[shape.unit as usize] != segment {
                self.executed[shape.unit as usize] = segment;
                put_number(&mut open.executed, shape.unit.into());
            }
            at += word.len() + values.len() * 8;
            if shape.turns {
                self.execute(units, &bytes[..at], &base)?;
                base = Base::Known(at);
            }
        }
        self.execute(units, &bytes[..at], &base)
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
    fn special(&mut self, tag: Tag, rest: &[u8], units: &Units, open: &mut Open) -> Result<usize, Wrong> {
        if tag & SPECIAL == 0 {
            return Err(Wrong::UnknownTag(tag));
        }
        let len = match (tag, stopped_values(tag)) {
            (STATE, _) => {
                let state = Words(rest).state().ok_or(Wrong::CutShort)?;
                self.stack = state.registers[Gpr::RSP.number()];
                self.machine = Some(Machine::new(&state));
                keep(size_of::<State>(), rest, open)?
            }
            (NOT_CALLED, _) => 0,
            (CALL, _) => keep(size_of::<Call>(), rest, open)?,
            (RESULT, _) => keep(size_of::<CallResult>(), rest, open)?,
            (_, Some(count)) => {
                let len = usize::from(count) * 8;
                let (values, behind) = rest.split_at_checked(len).ok_or(Wrong::CutShort)?;
                let stop = Words(behind).stop().ok_or(Wrong::CutShort)?;
                let (unit, _) = units.find(stop.unit).ok_or(Wrong::UnknownTag(stop.unit))?;
                for (slot, value) in (unit.operations.slot..).zip(values.as_chunks().0) {
                    open.values.push(slot, u64::from_le_bytes(*value));
                }
                self.instructions += unit.steps_before(&stop) as u64;
                // A state follows, so that nobody asks where the stack is.
                len + keep(size_of::<Stop>(), behind, open)?
            }
            _ => return Err(Wrong::UnknownTag(tag)),
        };
        open.control.push(tag);
        open.records += 1;
        Ok(len)
    }

    /// Finishes the open segment.
    pub(super) fn close(&mut self) -> Option<(Segment, [Vec<u8>; 4])> {
        let open = self.open.take().filter(|open| open.records > 0)?;
        let pack = |bytes: &[u8]| zstd::bulk::compress(bytes, 3).expect("memory for what is packed");
        let parts = [pack(&open.executed), open.control.finish(), open.values.finish(), pack(&open.rest)];
        let segment = Segment {
            process: self.process,
            thread: self.tid,
            number: self.segments,
            first_instruction: open.first_instruction,
            instructions: self.instructions - open.first_instruction,
            records: open.records,
            raw: open.raw,
            begins: open.begins.as_nanos() as u64,
            ends: open.ends.as_nanos() as u64,
            state: open.state,
            lens: parts.each_ref().map(|part| part.len() as u64),
            at: 0,
            len: 0,
        };
        self.segments += 1;
        Some((segment, parts))
    }
}

/// Takes over so many bytes as they are.
fn keep(len: usize, bytes: &[u8], open: &mut Open) -> Result<usize, Wrong> {
    open.rest.extend_from_slice(bytes.get(..len).ok_or(Wrong::CutShort)?);
    Ok(len)
}
