//! Packs the records of a segment.

use super::Traced;
use super::shapes::{Brief, FEW, Shape, Shapes};
use crate::columns::put_number;
use crate::control::{BLOCK, Kept as _};
use crate::replay::Wrong;
use crate::units::{Unit, Units, Words};
use crate::values::Batch;
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

/// Packs one segment after the other; keeps its tables.
#[derive(Default)]
pub(super) struct Packing {
    /// Of a trace of control flow alone, which has no values.
    alone: ControlEncoder<Brief>,
    control: ControlEncoder<Shape>,
    values: ValueEncoder,
    batch: Batch,
    /// What belongs to special tags.
    rest: Vec<u8>,
    /// The numbers of all units that are executed, in the order in which they are first; and whether one is among them.
    executed: Vec<u8>,
    is_executed: Vec<bool>,
}

/// How many records are packed at once at most.
const AT_ONCE: u32 = 128;

impl Packing {
    /// Packs records, as far as they make sense.
    pub(super) fn pack(&mut self, records: &[Vec<u8>], traced: &RwLock<Traced>) -> Packed {
        let mut packed = Packed::default();
        for bytes in records {
            // One after the other, so that nobody who has something to add waits long.
            let traced = traced.read().unwrap_or_else(PoisonError::into_inner);
            let Traced { process, shapes } = &*traced;
            let units = &process.units;
            self.is_executed.resize(self.is_executed.len().max(units.all().len()), false);
            let result = match units.is_of_memory() {
                true => {
                    self.values.make_room(units.slots() as usize);
                    self.pack_one::<true>(bytes, units, shapes, &mut packed)
                }
                false => self.pack_one::<false>(bytes, units, shapes, &mut packed),
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
        bytes: &[u8],
        units: &Units,
        shapes: &Shapes,
        packed: &mut Packed,
    ) -> Result<(), Wrong> {
        let mut rest = bytes;
        loop {
            let (count, steps) = match MEMORY {
                true => self.pass_expected(&mut rest),
                false => self.pass_expected_alone(&mut rest),
            };
            packed.instructions += steps;
            packed.records += u64::from(count);
            if MEMORY && count >= AT_ONCE / 4 {
                continue;
            }
            let Some((word, behind)) = rest.split_first_chunk() else { return Ok(()) };
            let tag = Tag::from_le_bytes(*word);
            match shapes.get(tag) {
                // What is begun here was not finished.
                _ if tag == 0 => return Ok(()),
                Some(shape) => {
                    let len = if MEMORY { shape.values() * 8 } else { 0 };
                    let (values, behind) = behind.split_at_checked(len).ok_or(Wrong::CutShort)?;
                    rest = behind;
                    let values = values.as_chunks().0;
                    self.push::<MEMORY>(shape, units, values);
                    packed.instructions += shape.steps();
                }
                None => rest = self.special::<MEMORY>(tag, behind, units, packed)?,
            }
            packed.records += 1;
        }
    }

    /// Packs records that were expected and have plain shapes: how many, and how many instructions these are.
    #[inline(never)]
    fn pass_expected(&mut self, rest: &mut &[u8]) -> (u32, u64) {
        let (bytes, mut at, mut steps) = (*rest, 0, 0);
        // Where all that is copied is there.
        let end = bytes.len().saturating_sub(size_of::<Tag>() + Batch::FEW * 8);
        let Batch { values, slots, .. } = &mut self.batch;
        let mut len = 0;
        let count = self.control.push_expected(AT_ONCE, |shape: &Shape| {
            if at >= end || len > Batch::LEN - usize::from(FEW) {
                return false;
            }
            let (word, few) = bytes[at..].split_first_chunk().expect("there is more");
            if Tag::from_le_bytes(*word) != shape.tag() || !shape.is_plain() {
                return false;
            }
            let (slot, count) = (shape.slot(), shape.values());
            if count <= Batch::FEW {
                let few: &[[u8; 8]; Batch::FEW] = few.as_chunks().0.first_chunk().expect("there is more");
                values[len..len + Batch::FEW].copy_from_slice(&few.map(u64::from_le_bytes));
                slots[len..len + Batch::FEW].copy_from_slice(&[0, 1, 2, 3].map(|i| slot.wrapping_add(i)));
            } else {
                let Some(all) = few.as_chunks().0.get(..count) else { return false };
                for (i, value) in all.iter().enumerate() {
                    values[len + i] = u64::from_le_bytes(*value);
                    slots[len + i] = slot + i as u32;
                }
            }
            len += count;
            at += size_of::<Tag>() + count * 8;
            steps += shape.steps();
            true
        });
        self.batch.len = len;
        self.values.push_batch(&self.batch);
        *rest = &bytes[at..];
        (count, steps)
    }

    /// The same where there are no values.
    #[inline(never)]
    fn pass_expected_alone(&mut self, rest: &mut &[u8]) -> (u32, u64) {
        let (mut tags, mut steps) = (rest.as_chunks().0, 0);
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
                let Some((tag, behind)) = tags.split_first() else { return false };
                if Tag::from_le_bytes(*tag) != brief.tag() || !brief.is_plain() {
                    return false;
                }
                tags = behind;
                steps += brief.steps();
                true
            });
            all += count;
            if (count as usize) < BLOCK {
                break;
            }
        }
        *rest = &rest[all as usize * size_of::<Tag>()..];
        (all, steps)
    }

    /// A record of a unit.
    fn push<const MEMORY: bool>(&mut self, shape: Shape, units: &Units, values: &[[u8; 8]]) {
        // None is expected that comes for the first time.
        if self.append::<MEMORY>(shape, shape.slot(), values)
            && let Some((unit, _)) = units.find(shape.tag())
        {
            self.note(unit);
        }
    }

    /// Appends a tag and its values. Whether it was not expected.
    fn append<const MEMORY: bool>(&mut self, shape: Shape, slot: u32, values: &[[u8; 8]]) -> bool {
        if !MEMORY {
            return self.alone.push(shape.into()).is_some();
        }
        let place = self.control.push(shape);
        match place {
            Some(place) => self.values.push_new(slot, values, place),
            None => self.values.push(slot, values),
        }
        place.is_some()
    }

    /// A unit is executed, perhaps for the first time.
    fn note(&mut self, unit: &Unit) {
        if !std::mem::replace(&mut self.is_executed[unit.number as usize], true) {
            put_number(&mut self.executed, unit.number.into());
        }
    }

    /// Something that is not an exit. Gives back what comes behind it.
    #[cold]
    fn special<'a, const MEMORY: bool>(
        &mut self,
        tag: Tag,
        bytes: &'a [u8],
        units: &Units,
        packed: &mut Packed,
    ) -> Result<&'a [u8], Wrong> {
        let count = usize::from(stopped_values(tag).unwrap_or(0));
        let len = payload(tag).ok_or(Wrong::UnknownTag(tag))?;
        let (values, behind) = bytes.split_at_checked(count * 8).ok_or(Wrong::CutShort)?;
        let (own, behind) = behind.split_at_checked(len).ok_or(Wrong::CutShort)?;
        let mut slot = 0;
        if stopped_values(tag).is_some() {
            let stop = Words(own).stop().ok_or(Wrong::CutShort)?;
            let (unit, _) = units.find(stop.unit).ok_or(Wrong::UnknownTag(stop.unit))?;
            slot = unit.operations.slot;
            self.note(unit);
            packed.instructions += unit.steps_before(&stop) as u64;
        }
        self.append::<MEMORY>(Shape::special(tag), slot, values.as_chunks().0);
        self.rest.extend_from_slice(own);
        Ok(behind)
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
