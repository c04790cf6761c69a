//! Packs the records of a segment.

use super::Traced;
use super::buffer::Buffer;
use super::rounds::{Place, Rounds};
use super::shapes::{Brief, FEW, Passed, Shape, Shapes};
use crate::columns::put_number;
use crate::control::{BLOCK, Kept as _};
use crate::replay::Wrong;
use crate::units::{Unit, Units, Words};
use crate::values;
use crate::{ControlEncoder, ValueEncoder};
use relive_abi::trace::{Tag, payload, stopped_values};
use std::sync::{PoisonError, RwLock};

/// What was found in the records of a segment.
#[derive(Default)]
pub(super) struct Packed {
    pub(super) instructions: u64,
    pub(super) records: u64,
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
    /// What belongs to special tags.
    rest: Vec<u8>,
    /// The numbers of all units that are executed, in the order in which they are first; and whether one is among them.
    executed: Vec<u8>,
    is_executed: Vec<bool>,
}

/// How many records are packed at once at most, so that there are not too many values.
const AT_ONCE: u32 = values::AT_ONCE as u32 / FEW as u32;

impl Packing {
    /// Packs records, as far as they make sense.
    pub(super) fn pack(&mut self, records: &[Buffer], traced: &RwLock<Traced>) -> Packed {
        let mut packed = Packed::default();
        self.start = 0;
        self.rounds.begin(self.values.surprises());
        for buffer in 0..records.len() {
            // One after the other, so that nobody who has something to add waits long.
            let traced = traced.read().unwrap_or_else(PoisonError::into_inner);
            let Traced { process, shapes } = &*traced;
            let units = &process.units;
            self.is_executed.resize(self.is_executed.len().max(units.all().len()), false);
            let result = match units.is_of_memory() {
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
            let tag = Tag::from_le_bytes(*word);
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
            if Tag::from_le_bytes(*word) != passed.tag || passed.len == 0 {
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
            self.note(unit);
        }
    }

    /// Appends a tag and its values. Whether it was not expected.
    fn append<const MEMORY: bool>(&mut self, shape: Shape, slot: u32, values: &[[u8; 8]], at: usize) -> bool {
        if !MEMORY {
            return self.alone.push(shape.into()).is_some();
        }
        let at = self.start.wrapping_add(at as u32);
        let place = self.control.push(Passed::new(shape, at.wrapping_sub(size_of::<Tag>() as u32)));
        match place {
            Some(place) => {
                self.values.push_new(slot, values, at, place);
                self.rounds.broken(self.values.now(), self.values.surprises());
            }
            None => self.values.push(slot, values, at),
        }
        place.is_some()
    }

    /// A unit is executed, perhaps for the first time.
    fn note(&mut self, unit: &Unit) {
        if !std::mem::replace(&mut self.is_executed[unit.number as usize], true) {
            put_number(&mut self.executed, unit.number.into());
        }
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
        let count = usize::from(stopped_values(tag).unwrap_or(0));
        let len = payload(tag).ok_or(Wrong::UnknownTag(tag))?;
        let (values, behind) = bytes.split_at_checked(count * 8).ok_or(Wrong::CutShort)?;
        let own = behind.get(..len).ok_or(Wrong::CutShort)?;
        let mut slot = 0;
        if stopped_values(tag).is_some() {
            let stop = Words(own).stop().ok_or(Wrong::CutShort)?;
            let (unit, _) = units.find(stop.unit).ok_or(Wrong::UnknownTag(stop.unit))?;
            slot = unit.operations.slot;
            self.note(unit);
            packed.instructions += unit.steps_before(&stop) as u64;
        }
        self.append::<MEMORY>(Shape::special(tag), slot, values.as_chunks().0, at);
        self.rest.extend_from_slice(own);
        Ok(values.len() + len)
    }

    /// There are so many slots at least.
    #[cfg(test)]
    pub(super) fn make_room(&mut self, slots: usize) {
        self.values.make_room(slots);
    }

    /// The parts of the segment, of a trace with accesses to memory or without.
    pub(super) fn finish(&mut self, memory: bool) -> [Vec<u8>; 4] {
        let zip = |bytes: &[u8]| zstd::bulk::compress(bytes, 3).expect("memory for what is packed");
        let (executed, rest) = (zip(&self.executed), zip(&self.rest));
        self.executed.clear();
        self.is_executed.fill(false);
        self.rest.clear();
        let control = if memory { self.control.finish() } else { self.alone.finish() };
        [executed, control, self.values.finish(), rest]
    }
}
