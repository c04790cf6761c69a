//! The control stream of code that hardly ever does the same again: by which of its exits each unit was left, and where that led.
//!
//! # The stream
//!
//! How many tags there are, and three columns (see [`super::columns`]):
//!
//! | column | holds |
//! |---|---|
//! | 0 | how many tags were expected, one after the other, before each that was not; as numbers |
//! | 1 | each tag that was not: the [folded](crate::difference::fold) difference to the tag before, 0 at first, as a number |
//! | 2 | exits of the units that were expected, in bits, the lowest of each byte first; zero at the end |
//!
//! # What is expected
//!
//! A unit is expected, by the first of its tags: that which came the last time in the same *place*. It is enough to say by which exit it was
//! left then, in as many bits as there are exits to tell apart. None is expected in a place for the first time. The place is the tag before, if
//! that is an exit that leads to one place only; otherwise (computed jumps, returns, special tags) one of 2¹⁴, by the last tags: with `a`
//! the last of them, `b` the one before and so on, the upper 14 bits of `(a · M xor b · M · 2⁸ xor c · M · 2¹⁶ xor d · M · 2²⁴) · M` modulo 2³², where
//! `M` is 0x9e3779b1. Special tags are never expected.
//!
//! # Why so
//!
//! Nothing depends on whether a branch is taken: what cannot be foreseen by a processor is not asked for. To follow an earlier part
//! ([`crate::control`]) takes less room, and less time if that goes on for long.

use super::columns;
use crate::columns::{put_number, take_number};
use crate::difference::{fold, unfold};
use crate::error::StreamError;
use crate::units::{Exits, Out};
use relive_abi::trace::{SPECIAL, Tag};

const MIX: u32 = 0x9e37_79b1;
/// How many places there are for exits that lead to several.
const PLACES_BITS: u32 = 14;
const PLACES: usize = 1 << PLACES_BITS;

const RUNS: usize = 0;
const TAGS: usize = 1;
const BITS: usize = 2;

/// Where the next unit comes.
#[derive(Clone, Copy, Default)]
struct Place {
    at: usize,
    last: Tag,
    mixed: u32,
}

impl Place {
    /// Behind a tag.
    #[inline(always)]
    fn behind(self, tag: Tag, out: Out) -> Self {
        let mixed = self.mixed << 8 ^ tag.wrapping_mul(MIX);
        let by_last = (mixed.wrapping_mul(MIX) >> (32 - PLACES_BITS)) as usize;
        Self { at: if out.leads_to_one() { PLACES + tag as usize } else { by_last }, last: tag, mixed }
    }
}

/// Where a control stream goes on: what changes with each tag, which is small, so that whoever appends many has it at hand.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pen {
    place: Place,
    /// Bits that do not make a byte yet, how many they are, and how many bytes there are.
    open: u64,
    count: u32,
    len: usize,
    /// How many tags there are, and how many there were behind the last that was not expected.
    tags: u64,
    before: u64,
}

/// Writes a control stream.
#[derive(Default)]
pub(crate) struct ControlEncoder {
    first: Vec<Tag>,
    bits: Vec<u8>,
    runs: Vec<u8>,
    tags: Vec<u8>,
}

/// How many tags are appended at once at most.
pub(crate) const AT_ONCE: usize = 512;

impl ControlEncoder {
    /// There are no tags but special ones that are greater.
    pub(crate) fn make_room(&mut self, tags: usize) {
        self.first.resize(self.first.len().max(PLACES + tags), 0);
    }

    /// Nothing is known any more of where exits lead.
    pub(crate) fn forget(&mut self, first: Tag, exits: usize) {
        self.first[PLACES + first as usize..][..exits].fill(0);
    }

    /// Makes room for [`AT_ONCE`] tags.
    pub(crate) fn prepare(&mut self, pen: &Pen) {
        if self.bits.len() < pen.len + AT_ONCE * 4 + 8 {
            self.bits.resize(self.bits.len() * 2 + AT_ONCE * 4 + 8, 0);
        }
    }

    /// Appends a tag if it is expected: whether it was.
    #[inline(always)]
    pub(crate) fn push(&mut self, pen: &mut Pen, tag: Tag, out: Out) -> bool {
        let first = tag.wrapping_sub(out.number());
        let is_expected = self.first[pen.place.at] == first;
        if is_expected {
            pen.open |= u64::from(out.number()) << pen.count;
            pen.count += out.bits();
            self.bits[pen.len..pen.len + 8].copy_from_slice(&pen.open.to_le_bytes());
            let whole = pen.count / 8;
            pen.len += whole as usize;
            pen.open >>= whole * 8;
            pen.count %= 8;
            pen.tags += 1;
            pen.place = pen.place.behind(tag, out);
        }
        is_expected
    }

    /// Appends one that is not.
    #[inline(never)]
    pub(crate) fn push_new(&mut self, mut pen: Pen, tag: Tag, out: Out) -> Pen {
        put_number(&mut self.runs, pen.tags - pen.before);
        pen.tags += 1;
        pen.before = pen.tags;
        put_number(&mut self.tags, fold((tag.wrapping_sub(pen.place.last) as i32).into()));
        self.first[pen.place.at] = if tag & SPECIAL == 0 { tag.wrapping_sub(out.number()) } else { 0 };
        pen.place = pen.place.behind(tag, out);
        pen
    }

    /// The stream. From here on, it is a new one.
    pub(crate) fn finish(&mut self, pen: &mut Pen, packer: &mut columns::Packer) -> Vec<u8> {
        let mut stream = Vec::new();
        put_number(&mut stream, pen.tags);
        let bits = &self.bits[..pen.len + usize::from(pen.count > 0)];
        packer.put(&mut stream, &[&self.runs, &self.tags, bits]);
        self.runs.clear();
        self.tags.clear();
        *pen = Pen::default();
        if !self.first.is_empty() {
            self.first[..PLACES].fill(0);
        }
        stream
    }
}

/// Reads a control stream.
pub(crate) struct ControlDecoder<'a> {
    exits: Exits<'a>,
    first: Vec<Tag>,
    place: Place,
    columns: [Vec<u8>; 3],
    /// How much of the first two was read, and how many bits of the last.
    at: [usize; 3],
    run: u64,
    left: u64,
}

impl<'a> ControlDecoder<'a> {
    /// From the bytes that [`ControlEncoder::finish`] gave, of a process with these exits.
    pub(crate) fn new(mut stream: &[u8], exits: Exits<'a>) -> Result<Self, StreamError> {
        let left = take_number(&mut stream)?;
        let columns = columns::unpacked(stream)?;
        let (first, place) = (vec![0; PLACES + exits.end()], Place::default());
        let mut decoder = Self { exits, first, place, columns, at: [0; 3], run: 0, left };
        decoder.next_run()?;
        Ok(decoder)
    }

    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    fn number(&mut self, column: usize) -> Result<u64, StreamError> {
        let mut rest = &self.columns[column][self.at[column]..];
        let number = take_number(&mut rest)?;
        self.at[column] = self.columns[column].len() - rest.len();
        Ok(number)
    }

    fn next_run(&mut self) -> Result<(), StreamError> {
        // Behind the last that is not expected, all others are.
        self.run = if self.at[RUNS] == self.columns[RUNS].len() { u64::MAX } else { self.number(RUNS)? };
        Ok(())
    }

    /// The next tag; none at the end.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Tag>, StreamError> {
        let Some(left) = self.left.checked_sub(1) else { return self.end() };
        self.left = left;
        let tag = if self.run > 0 {
            self.run -= 1;
            let first = self.first[self.place.at];
            let out = self.exits.out(first).ok_or(StreamError::UnknownTag(first))?;
            first + self.bits(out.bits())?
        } else {
            self.next_new()?
        };
        let out = match tag & SPECIAL {
            0 => self.exits.out(tag).ok_or(StreamError::UnknownTag(tag))?,
            _ => Out::default(),
        };
        self.place = self.place.behind(tag, out);
        Ok(Some(tag))
    }

    fn next_new(&mut self) -> Result<Tag, StreamError> {
        let tag = self.place.last.wrapping_add(unfold(self.number(TAGS)?) as u32);
        self.next_run()?;
        let out = self.exits.out(tag).filter(|_| tag & SPECIAL == 0);
        self.first[self.place.at] = out.map_or(0, |out| tag.wrapping_sub(out.number()));
        Ok(tag)
    }

    #[inline(always)]
    fn bits(&mut self, count: u32) -> Result<u32, StreamError> {
        let (bytes, at) = (&self.columns[BITS], self.at[BITS]);
        self.at[BITS] += count as usize;
        if self.at[BITS] > bytes.len() * 8 {
            return Err(StreamError::CutShort);
        }
        let mut word = [0; 8];
        let rest = &bytes[at / 8..];
        match rest.first_chunk() {
            Some(whole) => word = *whole,
            None => word[..rest.len()].copy_from_slice(rest),
        }
        Ok((u64::from_le_bytes(word) >> (at % 8)) as u32 & ((1 << count) - 1))
    }

    fn end<T>(&self) -> Result<Option<T>, StreamError> {
        let is_read = self.run > u64::from(u32::MAX)
            && self.at[TAGS] == self.columns[TAGS].len()
            && self.at[BITS].div_ceil(8) == self.columns[BITS].len();
        if is_read { Ok(None) } else { Err(StreamError::TooLong) }
    }
}
