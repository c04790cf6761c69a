//! Packs the records of a segment without looking back: see [`crate::local`].

use super::Traced;
use super::buffer::Buffer;
use super::executed::Executed;
use super::records::{Packed, Special};
use super::shapes::{Shape, Shapes};
use crate::local::columns::Packer;
use crate::local::control::{self, AT_ONCE, Pen};
use crate::local::values::{self, Spot};
use crate::replay::Wrong;
use crate::units::Out;
use crate::values::Avx2;
use relive_abi::trace::{MANY, MOST_TAGS, SPECIAL, Tag, count_of, tag_of};

/// So many values of a record are noted without asking how many there are.
const FEW: usize = 4;
/// How many a record may have that says how many these are.
const MOST: usize = MANY as usize - 1;
/// So many values are noted at once at least.
const NOTED: usize = AT_ONCE * FEW;

/// Packs without looking back.
pub(super) struct Local {
    /// If the processor has it.
    avx2: Option<Avx2>,
    pen: Pen,
    control: control::ControlEncoder,
    values: values::ValueEncoder,
    /// Records that were found: their tags, and their values.
    tags: Box<[(Tag, Out); AT_ONCE]>,
    noted: Vec<Spot>,
    packer: Packer,
}

impl Default for Local {
    fn default() -> Self {
        let (control, values) = Default::default();
        let (tags, noted) = (crate::table::zeroed(), vec![Spot::default(); NOTED + MOST]);
        Self {
            avx2: Avx2::here(),
            pen: Pen::default(),
            control,
            values,
            tags,
            noted,
            packer: Packer::default(),
        }
    }
}

/// Records that were found.
struct Found {
    /// How many bytes they have.
    len: usize,
    records: usize,
    values: usize,
    steps: u64,
}

/// Finds records as long as they are those of units, and say how many values they have. It takes no longer than to get from one to the next, which is
/// why it is apart and does as little as can be.
#[inline(always)]
fn find_plain<const MEMORY: bool>(
    bytes: &[u8],
    at: usize,
    shapes: &[Shape],
    tags: &mut [(Tag, Out); AT_ONCE],
    noted: &mut [Spot],
) -> Found {
    let (mut rest, mut values, mut steps, mut records) = (bytes, 0, 0, 0);
    for found in tags {
        let Some((word, behind)) = rest.split_first_chunk() else { break };
        let word = u32::from_le_bytes(*word);
        // Special tags are greater.
        let count = count_of(word) as usize;
        if count > MOST {
            break;
        }
        let tag = word & (MOST_TAGS - 1);
        let Some(shape) = shapes.get(tag as usize) else { break };
        if !shape.has_values(if MEMORY { count } else { shape.values() }) {
            break;
        }
        if MEMORY {
            let Some(behind) = behind.get(count * 8..) else { break };
            let Some(room) = noted.get_mut(values..values + MOST) else { break };
            let here = at + (bytes.len() - rest.len()) + size_of::<Tag>();
            let first = Spot { slot: shape.slot(), at: here as u32 };
            for (n, spot) in room[..FEW].iter_mut().enumerate() {
                *spot = first.behind(n);
            }
            if count > FEW {
                for (n, spot) in room[..count].iter_mut().enumerate().skip(FEW) {
                    *spot = first.behind(n);
                }
            }
            values += count;
            rest = behind;
        } else {
            rest = behind;
        }
        *found = (tag, shape.out());
        steps += shape.steps();
        records += 1;
    }
    Found { len: bytes.len() - rest.len(), records, values, steps }
}

/// Why records are not gone on with.
enum Stop {
    /// There are no more.
    End,
    /// Something that is not an exit.
    Special(Tag),
    Wrong(Wrong),
}

impl Local {
    /// Packs a buffer, as far as it makes sense.
    pub(super) fn pack<const MEMORY: bool>(
        &mut self,
        buffer: &Buffer,
        traced: &Traced,
        executed: &mut Executed,
        packed: &mut Packed,
    ) -> Result<(), Wrong> {
        let shapes = &traced.shapes;
        self.control.make_room(shapes.len());
        self.values.make_room(if MEMORY { shapes.slots() } else { 0 });
        let bytes = &**buffer;
        let mut at = 0;
        loop {
            let stop = self.pack_some::<MEMORY>(bytes, &mut at, traced, executed, packed);
            match stop {
                None => {}
                Some(Stop::End) => return Ok(()),
                Some(Stop::Wrong(wrong)) => return Err(wrong),
                Some(Stop::Special(tag)) => {
                    at += size_of::<Tag>();
                    at += self.special::<MEMORY>(tag, bytes, at, traced, executed, packed)?;
                }
            }
        }
    }

    fn pack_some<const MEMORY: bool>(
        &mut self,
        bytes: &[u8],
        at: &mut usize,
        traced: &Traced,
        executed: &mut Executed,
        packed: &mut Packed,
    ) -> Option<Stop> {
        match self.avx2 {
            Some(_) => {
                // SAFETY: this processor has it.
                #[expect(
                    unsafe_code,
                    reason = "there is no other way to call what only some processors have"
                )]
                unsafe {
                    self.pack_some_with_avx2::<MEMORY>(bytes, at, traced, executed, packed)
                }
            }
            None => self.pack_some_anywhere::<MEMORY>(bytes, at, traced, executed, packed),
        }
    }

    /// All of it together, so that all of it has what the processor has.
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn pack_some_with_avx2<const MEMORY: bool>(
        &mut self,
        bytes: &[u8],
        at: &mut usize,
        traced: &Traced,
        executed: &mut Executed,
        packed: &mut Packed,
    ) -> Option<Stop> {
        self.pack_some_anywhere::<MEMORY>(bytes, at, traced, executed, packed)
    }

    /// Packs at most [`AT_ONCE`] records: first it is found out where they are, then tags are packed, then values. Each of these has little
    /// to keep in mind, and nothing in it depends on which tags and values these are.
    #[inline(always)]
    fn pack_some_anywhere<const MEMORY: bool>(
        &mut self,
        bytes: &[u8],
        at: &mut usize,
        traced: &Traced,
        executed: &mut Executed,
        packed: &mut Packed,
    ) -> Option<Stop> {
        let (count, noted, stop) = self.find::<MEMORY>(bytes, at, &traced.shapes, packed);
        self.control.prepare(&self.pen);
        let mut pen = self.pen;
        for n in 0..count {
            let (tag, out) = self.tags[n];
            if !self.control.push(&mut pen, tag, out) {
                pen = self.control.push_new(pen, tag, out);
                self.note(tag, traced, executed);
            }
        }
        self.pen = pen;
        if MEMORY {
            self.values.push(bytes, &self.noted[..noted]);
        }
        packed.records += count as u64;
        stop
    }

    /// Finds the next records, at most [`AT_ONCE`]: notes how many there are, and how many values they have.
    #[inline(always)]
    fn find<const MEMORY: bool>(
        &mut self,
        bytes: &[u8],
        at: &mut usize,
        shapes: &Shapes,
        packed: &mut Packed,
    ) -> (usize, usize, Option<Stop>) {
        let found = find_plain::<MEMORY>(&bytes[*at..], *at, shapes.all(), &mut self.tags, &mut self.noted);
        *at += found.len;
        packed.instructions += found.steps;
        let (number, noted) = (found.records, found.values);
        if number == AT_ONCE || noted > NOTED {
            return (number, noted, None);
        }
        // What comes here is not plain.
        let Some(word) = bytes[*at..].first_chunk() else { return (number, noted, Some(Stop::End)) };
        let word = u32::from_le_bytes(*word);
        let tag = tag_of(word);
        let Some(shape) = shapes.get(tag) else {
            return (number, noted, Some(if word == 0 { Stop::End } else { Stop::Special(word) }));
        };
        let (count, start) = (if MEMORY { shape.values() } else { 0 }, *at + size_of::<Tag>());
        if bytes.len() < start + count * 8 {
            return (number, noted, Some(Stop::Wrong(Wrong::CutShort)));
        }
        if noted + count > self.noted.len() {
            self.noted.resize(noted + count, Spot::default());
        }
        let first = Spot { slot: shape.slot(), at: start as u32 };
        (0..count).for_each(|n| self.noted[noted + n] = first.behind(n));
        self.tags[number] = (tag, shape.out());
        packed.instructions += shape.steps();
        *at = start + count * 8;
        (number + 1, noted + count, None)
    }

    /// A unit is executed, perhaps for the first time: then nothing is known of it.
    #[inline(never)]
    fn note(&mut self, tag: Tag, traced: &Traced, executed: &mut Executed) {
        let Traced { process, shapes } = traced;
        let Some((unit, _)) = process.units.find(tag) else { return };
        if executed.note(unit) {
            self.control.forget(unit.first, unit.exits.len());
            if process.units.is_of_memory() {
                self.values.forget(shapes.first_slot(unit.first), unit.operations.values() as usize);
            }
        }
    }

    /// Something that is not an exit: how much belongs to it.
    #[cold]
    fn special<const MEMORY: bool>(
        &mut self,
        tag: Tag,
        bytes: &[u8],
        at: usize,
        traced: &Traced,
        executed: &mut Executed,
        packed: &mut Packed,
    ) -> Result<usize, Wrong> {
        if tag & SPECIAL == 0 {
            return Err(Wrong::UnknownTag(tag_of(tag)));
        }
        let special = Special::find(tag, &bytes[at..], &traced.process.units)?;
        self.pen = self.control.push_new(self.pen, tag, Out::default());
        if let Some((unit, steps)) = special.stopped {
            self.note(unit.first, traced, executed);
            packed.instructions += steps as u64;
            if MEMORY {
                let first = Spot { slot: traced.shapes.first_slot(unit.first), at: at as u32 };
                (0..special.values.len()).for_each(|n| self.values.push(bytes, &[first.behind(n)]));
            }
        }
        packed.records += 1;
        packed.rest.extend_from_slice(special.own);
        Ok(special.len())
    }

    /// The streams. From here on, there are new ones.
    pub(super) fn finish(&mut self) -> [Vec<u8>; 2] {
        let control = self.control.finish(&mut self.pen, &mut self.packer);
        [control, self.values.finish(&mut self.packer)]
    }
}
