//! What is known of a thread's registers where a segment ends, so that the next one can begin there.
//!
//! A segment can begin wherever a buffer ends. Where the stack is, and in which direction string instructions go, each record tells
//! without being executed; the rest is found by executing a few records again, from the last that took nothing else for known.

use super::shapes::{Shape, Shapes};
use super::{Nobody, Traced};
use crate::control::Kept as _;
use crate::machine::{DIRECTION, Machine};
use crate::operations::Direction;
use crate::replay::{Raw, Replay, Wrong};
use crate::units::{State, Units};
use relive_abi::trace::{STATE, Tag, payload, stopped_values};
use relive_code::isa::Gpr;

/// The way through the records of a segment.
#[derive(Default)]
pub(super) struct Way {
    /// The last state that the thread went on with, if there was one.
    state: Option<State>,
    here: Known,
    /// Places on the way, in order.
    marks: Vec<Mark>,
}

/// What every record tells without being executed.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Where the stack is, or how far it has moved since the start or the last state.
    stack: u64,
    /// Which of the two.
    is_stack_known: bool,
    /// Whether string instructions go downwards, if that has changed since.
    backwards: Option<bool>,
}

/// A place, and what is known there.
#[derive(Clone, Copy)]
struct Mark {
    buffer: usize,
    at: usize,
    known: Known,
}

impl Known {
    /// Behind a record.
    fn pass(&mut self, shape: &Shape, values: &[[u8; 8]], units: &Units) {
        if shape.is_plain() {
            self.stack = self.stack.wrapping_add_signed(shape.gone().moved());
            return;
        }
        let Some((unit, exit)) = units.find(shape.tag()) else { return };
        let Some(way) = unit.operations.ways.get(exit) else { return };
        let value = |n: u16| values.get(usize::from(n)).map(|value| u64::from_le_bytes(*value));
        if let Some(known) = way.stack.and_then(value) {
            (self.is_stack_known, self.stack) = (true, known);
        }
        self.stack = self.stack.wrapping_add_signed(way.moved);
        match way.direction {
            Direction::Same => {}
            Direction::Backwards(backwards) => self.backwards = Some(backwards),
            Direction::Value(n) => self.backwards = value(n).map(|flags| flags & DIRECTION != 0),
        }
    }

    /// All that is always known of a thread here.
    fn machine(&self, mut before: Machine) -> Machine {
        let start = if self.is_stack_known { 0 } else { before.stack() };
        before.set(Gpr::RSP, start.wrapping_add(self.stack));
        if let Some(backwards) = self.backwards {
            before.turn(backwards);
        }
        before
    }
}

impl Way {
    /// Remembers a place.
    pub(super) fn mark(&mut self, buffer: usize, at: usize) {
        self.marks.push(Mark { buffer, at, known: self.here });
    }

    /// The stack has moved.
    pub(super) fn moved(&mut self, by: i64) {
        self.here.stack = self.here.stack.wrapping_add_signed(by);
    }

    /// A record was passed.
    pub(super) fn passed(&mut self, shape: &Shape, values: &[[u8; 8]], units: &Units) {
        self.here.pass(shape, values, units);
    }

    /// The thread goes on with a state.
    pub(super) fn go_on_with(&mut self, state: Option<State>) {
        self.state = state;
        self.here = Known::default();
    }

    /// What is known at the end, from what was at the start.
    pub(super) fn end(
        &self,
        before: Option<Machine>,
        traced: &Traced,
        records: &[Vec<u8>],
    ) -> Result<Option<Machine>, Wrong> {
        let units = &traced.process.units;
        let before = self.state.as_ref().map(Machine::new).or(before);
        if !units.is_of_memory() {
            // Nobody asks.
            return Ok(before);
        }
        let mut ends = self.marks.iter().skip(1).map(|next| (next.buffer, next.at)).collect::<Vec<_>>();
        ends.push((records.len(), 0));
        let pieces = self.marks.iter().zip(ends).rev();
        let mut bases = pieces.map(|(mark, (buffer, end))| {
            let bytes = &records[mark.buffer];
            let end = if buffer == mark.buffer { end } else { bytes.len() };
            last_base(*mark, &bytes[..end], units, &traced.shapes)
        });
        let base = bases.find_map(|base| base);
        let (buffer, mut at, machine) = match base {
            Some(base) => (base.buffer, base.at, before.map(|before| base.known.machine(before))),
            None => (0, 0, before),
        };
        let mut replay = Replay::on(machine);
        for records in &records[buffer..] {
            replay.run(units, &mut Raw::new(&records[at..]), &mut Nobody)?;
            at = 0;
        }
        Ok(replay.machine)
    }
}

/// The last place from a mark to the end of these bytes where nothing is taken for known but what each record tells.
fn last_base(mut mark: Mark, bytes: &[u8], units: &Units, shapes: &Shapes) -> Option<Mark> {
    let mut found = None;
    while let Some((word, behind)) = bytes.get(mark.at..).and_then(|rest| rest.split_first_chunk()) {
        let tag = Tag::from_le_bytes(*word);
        let len = match shapes.get(tag) {
            Some(shape) => {
                if shape.is_base() {
                    found = Some(mark);
                }
                let len = shape.values() * 8;
                mark.known.pass(&shape, behind.get(..len)?.as_chunks().0, units);
                len
            }
            None if tag == 0 => break,
            None => {
                if tag == STATE {
                    mark.known = Known::default();
                    found = Some(mark);
                }
                payload(tag)? + usize::from(stopped_values(tag).unwrap_or(0)) * 8
            }
        };
        mark.at += size_of::<Tag>() + len;
    }
    found
}
