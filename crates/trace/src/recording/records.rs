//! Packs the records of a segment.

use super::Traced;
use super::buffer::Buffer;
use super::executed::Executed;
use super::habit::{Followed, Habit};
use super::local::Local;
use super::shapes::{Brief, Passed, Shape, Shapes};
use crate::control::{BLOCK, Kept as _};
use crate::replay::Wrong;
use crate::units::{Unit, Units, Words};
use crate::values::{self, Avx2, Narrow, Wide};
use crate::{ControlEncoder, ValueEncoder};
use relive_abi::trace::{Tag, payload, stopped_values, tag_of};
use std::sync::{PoisonError, RwLock};
use zstd::bulk::Compressor;

/// How much [`zstd`] tries with what is not made of columns.
const LEVEL: i32 = 3;

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
pub(super) struct Packing {
    /// If the processor has it.
    avx2: Option<Avx2>,
    /// Of a trace of control flow alone, which has no values.
    alone: ControlEncoder<Brief>,
    control: ControlEncoder<Passed>,
    values: ValueEncoder,
    executed: Executed,
    /// The other way.
    local: Local,
    is_local: bool,
    /// How many tags of the segment were not expected.
    new_tags: u64,
    /// Packs what is not made of columns. To make one takes longer than what there is of that in a segment.
    compressor: Compressor<'static>,
}

impl Default for Packing {
    fn default() -> Self {
        Self {
            avx2: Avx2::here(),
            alone: ControlEncoder::default(),
            control: ControlEncoder::default(),
            values: ValueEncoder::default(),
            executed: Executed::default(),
            local: Local::default(),
            is_local: false,
            new_tags: 0,
            compressor: Compressor::new(LEVEL).expect("a level that zstd has"),
        }
    }
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

impl Packing {
    /// Packs records, as far as they make sense.
    pub(super) fn pack(&mut self, records: &[Buffer], traced: &RwLock<Traced>, habit: &Habit) -> Packed {
        let mut packed = Packed::default();
        self.is_local = habit.next_is_local();
        self.new_tags = 0;
        let surprises = self.values.surprises();
        let mut is_of_memory = false;
        for bytes in records {
            // One after the other, so that nobody who has something to add waits long.
            let traced = traced.read().unwrap_or_else(PoisonError::into_inner);
            let Traced { process, shapes } = &*traced;
            let units = &process.units;
            is_of_memory = units.is_of_memory();
            self.executed.make_room(units.all().len());
            let (local, executed) = (&mut self.local, &mut self.executed);
            let result = match is_of_memory {
                true if self.is_local => local.pack::<true>(bytes, &traced, executed, &mut packed),
                false if self.is_local => local.pack::<false>(bytes, &traced, executed, &mut packed),
                true => {
                    self.values.make_room(shapes.slots());
                    self.pack_one::<true>(bytes, units, shapes, &mut packed)
                }
                false => self.pack_one::<false>(bytes, units, shapes, &mut packed),
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
        bytes: &[u8],
        units: &Units,
        shapes: &Shapes,
        packed: &mut Packed,
    ) -> Result<(), Wrong> {
        let mut at = 0;
        loop {
            let (count, steps) = match MEMORY {
                true => self.pass_expected(bytes, &mut at),
                false => self.pass_expected_alone(bytes, &mut at),
            };
            packed.instructions += steps;
            packed.records += u64::from(count);
            let Some((word, behind)) = bytes[at..].split_first_chunk() else { return Ok(()) };
            let tag = tag_of(u32::from_le_bytes(*word));
            at += size_of::<Tag>();
            at += match shapes.get(tag) {
                // What is begun here was not finished.
                _ if tag == 0 => return Ok(()),
                Some(shape) => {
                    let len = if MEMORY { shape.values() * 8 } else { 0 };
                    let values = behind.get(..len).ok_or(Wrong::CutShort)?;
                    self.push::<MEMORY>(shape, units, values.as_chunks().0);
                    packed.instructions += shape.steps();
                    len
                }
                None => self.special::<MEMORY>(tag, behind, units, shapes, packed)?,
            };
            packed.records += 1;
        }
    }

    /// Packs records that were expected: how many, and how many instructions these are.
    fn pass_expected(&mut self, bytes: &[u8], at: &mut usize) -> (u32, u64) {
        let (control, values) = (&mut self.control, &mut self.values);
        if let Some(avx2) = self.avx2 {
            // SAFETY: this processor has it.
            #[expect(unsafe_code, reason = "there is no other way to call what only some processors have")]
            return unsafe { pass_with_avx2(avx2, control, values, bytes, at) };
        }
        pass(Narrow, control, values, bytes, at)
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
            let mut following = self.alone.follow();
            let mut count = 0;
            while count < BLOCK as u32
                && let Some((tag, behind)) = tags.split_first()
                && let brief = following.expected()
                && Tag::from_le_bytes(*tag) == brief.tag()
                && brief.is_plain()
            {
                tags = behind;
                steps += brief.steps();
                following.keep(brief);
                count += 1;
            }
            self.alone.go_on(count);
            all += count;
            if (count as usize) < BLOCK {
                break;
            }
        }
        *at += all as usize * size_of::<Tag>();
        (all, steps)
    }

    /// A record of a unit, whose values are there in the buffer.
    fn push<const MEMORY: bool>(&mut self, shape: Shape, units: &Units, values: &[[u8; 8]]) {
        // None is expected that comes for the first time.
        if self.append::<MEMORY>(shape, shape.slot(), values)
            && let Some((unit, _)) = units.find(shape.tag())
        {
            self.executed.note(unit);
        }
    }

    /// Appends a tag and its values. Whether it was not expected.
    fn append<const MEMORY: bool>(&mut self, shape: Shape, slot: u32, values: &[[u8; 8]]) -> bool {
        if !MEMORY {
            let is_new = self.alone.push(shape.into()).is_some();
            self.new_tags += u64::from(is_new);
            return is_new;
        }
        let place = self.control.push(shape.into());
        match place {
            Some(place) => {
                self.values.push_new(slot, values, place);
                self.new_tags += 1;
            }
            None => self.values.push(slot, values),
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
        shapes: &Shapes,
        packed: &mut Packed,
    ) -> Result<usize, Wrong> {
        let special = Special::find(tag, bytes, units)?;
        let mut slot = 0;
        if let Some((unit, steps)) = special.stopped {
            slot = shapes.first_slot(unit.first);
            self.executed.note(unit);
            packed.instructions += steps as u64;
        }
        self.append::<MEMORY>(Shape::special(tag), slot, special.values);
        packed.rest.extend_from_slice(special.own);
        Ok(special.len())
    }

    /// As on a processor that has no more than all have.
    #[cfg(test)]
    pub(super) fn narrow() -> Self {
        Self { avx2: None, ..Self::default() }
    }

    /// The parts of the segment, of a trace with accesses to memory or without.
    pub(super) fn finish(&mut self, memory: bool, packed: &Packed) -> [Vec<u8>; 4] {
        let rest = self.compressor.compress(&packed.rest).expect("memory for what is packed");
        let [control, values] = match memory {
            _ if self.is_local => self.local.finish(),
            true => [self.control.finish(), self.values.finish()],
            false => [self.alone.finish(), self.values.finish()],
        };
        [self.executed.finish(&mut self.compressor), control, values, rest]
    }
}

/// Packs records that were expected, as long as they come one after the other.
#[inline(always)]
fn pass(
    wide: impl Wide,
    control: &mut ControlEncoder<Passed>,
    values: &mut ValueEncoder,
    bytes: &[u8],
    at: &mut usize,
) -> (u32, u64) {
    let (mut following, mut of_values) = (control.follow(), values.follow());
    let (first, mut here, mut steps) = (following.now(), *at, 0);
    // Where a record may have so many values.
    while let Some(record) = bytes.get(here..).and_then(<[u8]>::first_chunk::<{ 4 + values::MOST * 8 }>) {
        let passed = following.expected();
        let (word, behind) = record.split_first_chunk().expect("a word");
        let behind = behind.first_chunk().expect("as many as there may be");
        if u32::from_le_bytes(*word) != passed.word {
            break;
        }
        let Some(count) = passed.values() else { break };
        if !of_values.push(wide, passed.line, behind, count) {
            break;
        }
        following.keep(passed);
        here += size_of::<Tag>() + count * 8;
        steps += u64::from(passed.steps);
    }
    *at = here;
    let (count, ended) = (following.now().wrapping_sub(first), of_values.end());
    control.go_on(count);
    values.go_on(ended);
    (count, steps)
}

/// All of it together, so that nothing is called.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn pass_with_avx2(
    avx2: Avx2,
    control: &mut ControlEncoder<Passed>,
    values: &mut ValueEncoder,
    bytes: &[u8],
    at: &mut usize,
) -> (u32, u64) {
    pass(avx2, control, values, bytes, at)
}
