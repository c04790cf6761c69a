//! Packs the records of a segment.

use super::Traced;
use super::buffer::Buffer;
use super::executed::Executed;
use super::habit::{Followed, Habit};
use super::local::Local;
use super::rounds::{Place, Rounds};
use super::shapes::{Brief, FEW, Passed, Shape, Shapes};
use crate::control::{BLOCK, Kept as _};
use crate::replay::Wrong;
use crate::units::{Unit, Units, Words};
use crate::values;
use crate::{ControlEncoder, ValueEncoder};
use relive_abi::trace::{Tag, payload, stopped_values, tag_of};
use std::sync::{PoisonError, RwLock};

/// What was found in the records of a segment.
#[derive(Default)]
pub(super) struct Packed {
    pub(super) instructions: u64,
    pub(super) records: u64,
    /// Whether it was packed without looking back.
    pub(super) is_local: bool,
    /// What belongs to special tags.
    pub(super) rest: Vec<u8>,
    /// What could not be understood, so that the rest was left out.
    pub(super) wrong: Option<Wrong>,
}

impl Packed {
    /// Whether there was nothing at all.
    pub(super) fn is_empty(&self) -> bool {
        self.records == 0 && self.wrong.is_none()
    }
}

/// Packs one segment after the other; keeps its tables.
#[derive(Default)]
pub(super) struct Packing {
    /// Of a trace of control flow alone, which has no values.
    alone: ControlEncoder<Brief>,
    control: ControlEncoder<Passed>,
    values: ValueEncoder,
    rounds: Rounds,
    /// Where in the segment the buffer begins that is being packed, modulo 2³².
    start: u32,
    executed: Executed,
    /// The other way.
    local: Local,
    is_local: bool,
    /// How many tags of the segment were not expected.
    new_tags: u64,
}

/// What a special tag says.
pub(super) struct Special<'a> {
    /// Values, if a unit was left in the middle: which, and behind how many instructions.
    pub(super) values: &'a [[u8; 8]],
    pub(super) stopped: Option<(&'a Unit, usize)>,
    /// What else belongs to it.
    pub(super) own: &'a [u8],
}

impl<'a> Special<'a> {
    /// Of a tag, with what lies behind it.
    pub(super) fn find(tag: Tag, bytes: &'a [u8], units: &'a Units) -> Result<Self, Wrong> {
        let count = stopped_values(tag).map(usize::from);
        let len = payload(tag).ok_or(Wrong::UnknownTag(tag))?;
        let (values, behind) = bytes.split_at_checked(count.unwrap_or(0) * 8).ok_or(Wrong::CutShort)?;
        let own = behind.get(..len).ok_or(Wrong::CutShort)?;
        let mut stopped = None;
        if let Some(count) = count {
            let stop = Words(own).stop().ok_or(Wrong::CutShort)?;
            let (unit, _) = units.find(stop.unit).ok_or(Wrong::UnknownTag(stop.unit))?;
            if count > unit.operations.values() as usize {
                return Err(Wrong::CutShort);
            }
            stopped = Some((unit, unit.steps_before(&stop)));
        }
        Ok(Self { values: values.as_chunks().0, stopped, own })
    }

    /// How long it is.
    pub(super) fn len(&self) -> usize {
        size_of_val(self.values) + self.own.len()
    }
}

/// How many records are packed at once at most, so that there are not too many values.
const AT_ONCE: u32 = values::AT_ONCE as u32 / FEW as u32;

impl Packing {
    /// Packs records, as far as they make sense.
    pub(super) fn pack(&mut self, records: &[Buffer], traced: &RwLock<Traced>, habit: &Habit) -> Packed {
        let mut packed = Packed::default();
        self.is_local = habit.next_is_local();
        self.new_tags = 0;
        let surprises = self.values.surprises();
        let mut is_of_memory = false;
        self.start = 0;
        self.rounds.begin(self.values.surprises());
        for buffer in 0..records.len() {
            // One after the other, so that nobody who has something to add waits long.
            let traced = traced.read().unwrap_or_else(PoisonError::into_inner);
            let Traced { process, shapes } = &*traced;
            let units = &process.units;
            is_of_memory = units.is_of_memory();
            self.executed.make_room(units.all().len());
            let (local, executed) = (&mut self.local, &mut self.executed);
            let result = match is_of_memory {
                true if self.is_local => {
                    local.pack::<true>(&records[buffer], units, shapes, executed, &mut packed)
                }
                false if self.is_local => {
                    local.pack::<false>(&records[buffer], units, shapes, executed, &mut packed)
                }
                true => {
                    self.values.make_room(units.slots() as usize);
                    self.pack_one::<true>(records, buffer, units, shapes, &mut packed)
                }
                false => self.pack_one::<false>(records, buffer, units, shapes, &mut packed),
            };
            if let Err(wrong) = result {
                packed.wrong = Some(wrong);
                break;
            }
        }
        if !self.is_local {
            habit.learn(&Followed {
                records: packed.records,
                values: self.values.now().into(),
                new_tags: self.new_tags,
                new_values: self.values.surprises() - surprises,
                memory: is_of_memory,
            });
        }
        packed.is_local = self.is_local;
        packed
    }

    fn pack_one<const MEMORY: bool>(
        &mut self,
        records: &[Buffer],
        buffer: usize,
        units: &Units,
        shapes: &Shapes,
        packed: &mut Packed,
    ) -> Result<(), Wrong> {
        let bytes = &*records[buffer];
        let mut at = 0;
        let result = loop {
            if at >= bytes.len() {
                break Ok(());
            }
            let most = if MEMORY { self.pass_rounds(records, buffer, &mut at, packed) } else { 0 };
            let (count, steps) = match MEMORY {
                true => self.pass_expected(bytes, &mut at, most),
                false => self.pass_expected_alone(bytes, &mut at),
            };
            packed.instructions += steps;
            packed.records += u64::from(count);
            if MEMORY {
                self.rounds.passed(count);
                if count == most {
                    continue;
                }
                self.rounds.settle_one(&mut self.control);
            }
            let Some((word, behind)) = bytes[at..].split_first_chunk() else { break Ok(()) };
            let tag = tag_of(u32::from_le_bytes(*word));
            at += size_of::<Tag>();
            at += match shapes.get(tag) {
                // What is begun here was not finished.
                _ if tag == 0 => break Ok(()),
                Some(shape) => {
                    let len = if MEMORY { shape.values() * 8 } else { 0 };
                    let Some(values) = behind.get(..len) else { break Err(Wrong::CutShort) };
                    self.push::<MEMORY>(shape, units, values.as_chunks().0, at);
                    packed.instructions += shape.steps();
                    len
                }
                None => match self.special::<MEMORY>(tag, behind, units, packed, at) {
                    Ok(len) => len,
                    Err(wrong) => break Err(wrong),
                },
            };
            packed.records += 1;
        };
        self.start = self.start.wrapping_add(bytes.len() as u32);
        result
    }

    /// Packs rounds, if the thread goes round. How many records should be packed one by one before this is tried again, at most.
    fn pass_rounds(&mut self, records: &[Buffer], buffer: usize, at: &mut usize, packed: &mut Packed) -> u32 {
        if self.rounds.must_settle(&self.control) {
            self.rounds.settle(|buffer| &records[buffer], &mut self.control, &mut self.values);
        }
        let place = Place { bytes: &records[buffer], buffer, start: self.start, at: *at };
        *at += self.rounds.pass(&place, &mut self.control, &mut self.values, packed);
        self.rounds.patience(&self.control).min(AT_ONCE)
    }

    /// Packs records that were expected and have plain shapes: how many, and how many instructions these are. What was expected says where
    /// each of them is, so that nobody waits for the length of the one before.
    #[inline(never)]
    fn pass_expected(&mut self, bytes: &[u8], at: &mut usize, most: u32) -> (u32, u64) {
        let expected = self.control.expected().filter(|_| self.values.is_recent());
        let Some(expected) = expected else { return (0, 0) };
        let start = self.start;
        let shift = start.wrapping_add(*at as u32).wrapping_sub(expected.at);
        // Where all values of a record are there.
        let tags = &bytes[..bytes.len().saturating_sub(usize::from(FEW) * 8)];
        let (mut steps, mut len) = (0, 0);
        let count = self.control.push_expected(most, |passed: &Passed| {
            let at = passed.at.wrapping_add(shift);
            let word = tags.get(at.wrapping_sub(start) as usize..)?.first_chunk()?;
            if u32::from_le_bytes(*word) != passed.word || passed.len == 0 {
                return None;
            }
            steps += u64::from(passed.steps);
            len += passed.len as usize;
            Some(Passed { at, ..*passed })
        });
        self.values.push_expected(bytes, start, shift, (len - count as usize * size_of::<Tag>()) / 8);
        *at += len;
        (count, steps)
    }

    /// The same where there are no values.
    #[inline(never)]
    fn pass_expected_alone(&mut self, bytes: &[u8], at: &mut usize) -> (u32, u64) {
        let (mut tags, mut steps) = (bytes[*at..].as_chunks().0, 0);
        let mut all = 0;
        loop {
            let count = self.alone.push_blocks(tags, |block| {
                let is_plain = block.iter().fold(true, |all, brief| all & brief.is_plain());
                if is_plain {
                    steps += block.iter().map(Brief::steps).sum::<u64>();
                }
                is_plain
            });
            tags = &tags[count..];
            all += count as u32;
            let count = self.alone.push_expected(BLOCK as u32, |brief| {
                let (tag, behind) = tags.split_first()?;
                if Tag::from_le_bytes(*tag) != brief.tag() || !brief.is_plain() {
                    return None;
                }
                tags = behind;
                steps += brief.steps();
                Some(*brief)
            });
            all += count;
            if (count as usize) < BLOCK {
                break;
            }
        }
        *at += all as usize * size_of::<Tag>();
        (all, steps)
    }

    /// A record of a unit, whose values are there in the buffer.
    fn push<const MEMORY: bool>(&mut self, shape: Shape, units: &Units, values: &[[u8; 8]], at: usize) {
        // None is expected that comes for the first time.
        if self.append::<MEMORY>(shape, shape.slot(), values, at)
            && let Some((unit, _)) = units.find(shape.tag())
        {
            self.executed.note(unit);
        }
    }

    /// Appends a tag and its values. Whether it was not expected.
    fn append<const MEMORY: bool>(&mut self, shape: Shape, slot: u32, values: &[[u8; 8]], at: usize) -> bool {
        if !MEMORY {
            let is_new = self.alone.push(shape.into()).is_some();
            self.new_tags += u64::from(is_new);
            return is_new;
        }
        let at = self.start.wrapping_add(at as u32);
        let place = self.control.push(Passed::new(shape, at.wrapping_sub(size_of::<Tag>() as u32)));
        match place {
            Some(place) => {
                self.values.push_new(slot, values, at, place);
                self.new_tags += 1;
                self.rounds.broken(self.values.now(), self.values.surprises());
            }
            None => self.values.push(slot, values, at),
        }
        place.is_some()
    }

    /// Something that is not an exit: how much belongs to it, there in the buffer.
    #[cold]
    fn special<const MEMORY: bool>(
        &mut self,
        tag: Tag,
        bytes: &[u8],
        units: &Units,
        packed: &mut Packed,
        at: usize,
    ) -> Result<usize, Wrong> {
        let special = Special::find(tag, bytes, units)?;
        let mut slot = 0;
        if let Some((unit, steps)) = special.stopped {
            slot = unit.operations.slot;
            self.executed.note(unit);
            packed.instructions += steps as u64;
        }
        self.append::<MEMORY>(Shape::special(tag), slot, special.values, at);
        packed.rest.extend_from_slice(special.own);
        Ok(special.len())
    }

    /// There are so many slots at least.
    #[cfg(test)]
    pub(super) fn make_room(&mut self, slots: usize) {
        self.values.make_room(slots);
    }

    /// The parts of the segment, of a trace with accesses to memory or without.
    pub(super) fn finish(&mut self, memory: bool, packed: &Packed) -> [Vec<u8>; 4] {
        let rest = zstd::bulk::compress(&packed.rest, 3).expect("memory for what is packed");
        let [control, values] = match memory {
            _ if self.is_local => self.local.finish(),
            true => [self.control.finish(), self.values.finish()],
            false => [self.alone.finish(), self.values.finish()],
        };
        [self.executed.finish(), control, values, rest]
    }
}
