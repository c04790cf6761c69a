//! The memory stream: values of address registers, each for a *slot* that the reader knows, as it knows the tags that they belong to.
//!
//! # The stream
//!
//! Numbers are of 7 bits in a byte, lowest first, the highest bit set in all but the last byte. The stream is six columns: first the
//! lengths of all of them when they are unpacked, then those of all but the last as they are, all as numbers; then the columns follow each
//! other, each one zstd frame, or nothing if it is empty.
//!
//! | column | holds |
//! |---|---|
//! | 0 | heads of values that were not expected |
//! | 1 | long runs, as numbers |
//! | 2 to 5 | differences of 1, 2, 4 and 8 bytes |
//!
//! A head is a byte. Its lower three bits say what the difference is: 0 to 3 in which of the last four columns it is, 4 that it is the same as
//! that of the head before, 5 as that of the head before that one (both are 0 at first). The upper five say how many values before it were
//! expected, one after the other, 31 for more: how many more is in column 1. Behind the last head, all values are as expected.
//!
//! A difference is between a value and the one before of the same slot, which is 0 at first. It is folded (0, -1, 1, -2, … are 0, 1, 2,
//! 3, …), and its lowest byte comes first. Differences and sums are modulo 2⁶⁴.
//!
//! # What is expected
//!
//! Threads do the same things again. Where the control stream follows an earlier part of itself, the difference that a value had there is
//! expected here too: `again`, which counts values, keeps step with the pointer of that name there, which counts tags. Tables, all zero at first:
//!
//! | table | entries | index | holds |
//! |---|---|---|---|
//! | `past` | 2¹⁶ | number of the value in the stream | its difference |
//! | `places` | 2¹⁴ | as in the control stream | number of the first value behind |
//! | `steps` | one for each slot | slot | a difference |
//!
//! Of a tag that was expected, each value's difference is expected to be `past[again]`; of one that was not, `steps[slot]`, which becomes the
//! difference then. `past[number]` becomes the difference, and `again` goes on by one. Behind the values of a tag that was not expected, `again`
//! becomes `places[hash]`, and `places[hash]` the number of the next value.
//!
//! # Why so
//!
//! Most of what is written down of a loop changes by the same as the last time, or as the last time that a thread went the same way. To ask a
//! pointer what that was takes less time than to look it up, and finds more than what the same place of the program did last.

use crate::columns::take_number;
use crate::difference::unfold;
use crate::error::StreamError;
use crate::frames::unpack;
use crate::table::zeroed;

mod encoder;
mod lanes;

pub(crate) use encoder::MOST;
pub use encoder::ValueEncoder;
pub(crate) use lanes::{Avx2, LANES, Narrow, Wide};

/// In a head, a run that goes on elsewhere.
const LONG: u32 = 31;
/// How many bits of a head say what the difference is.
const CLASS_BITS: u32 = 3;
/// The same difference as the last that was not expected, and as the one before that. What is less is the logarithm of its length.
const LAST: u32 = 4;
const BEFORE_LAST: u32 = 5;

/// How many values are kept.
pub(crate) const PAST: usize = 1 << 16;
const PLACES: usize = 1 << 14;

const HEADS: usize = 0;
const RUNS: usize = 1;
/// The first column of differences.
const DIFFERENCES: usize = 2;
const COLUMNS: usize = 6;

/// What is known of a slot.
#[derive(Clone, Copy, Default)]
struct Slot {
    last: u64,
    /// How far it moved the last time that this was not expected.
    step: u64,
}

/// What foretells values. The [writer](encoder) has the same, laid out so that it can go through many values at once.
struct Foresight {
    past: Box<[u64; PAST]>,
    places: Box<[u32; PLACES]>,
    /// The number of the next value.
    now: u32,
    again: u32,
}

impl Foresight {
    fn new() -> Self {
        Self { past: zeroed(), places: zeroed(), now: 0, again: 0 }
    }

    #[inline(always)]
    fn expected(&self) -> u64 {
        self.past[self.again as usize % PAST]
    }

    #[inline(always)]
    fn learn(&mut self, step: u64) {
        self.past[self.now as usize % PAST] = step;
        self.now = self.now.wrapping_add(1);
        self.again = self.again.wrapping_add(1);
    }

    fn follow(&mut self, place: usize) {
        self.again = std::mem::replace(&mut self.places[place % PLACES], self.now);
    }
}

/// Reads a memory stream.
pub struct ValueDecoder {
    slots: Vec<Slot>,
    foresight: Foresight,
    columns: [Vec<u8>; COLUMNS],
    at: [usize; COLUMNS],
    /// How many values are as expected before the next that is not.
    run: u64,
    /// What the difference of that one is, and of the two before.
    next: u64,
    before: [u64; 2],
}

impl ValueDecoder {
    /// From the bytes that [`ValueEncoder::finish`] gave, of a process that has so many slots.
    pub fn new(mut stream: &[u8], count: u32) -> Result<Self, StreamError> {
        let mut lens = [0; COLUMNS];
        for len in &mut lens {
            *len = take_number(&mut stream)?;
        }
        let mut packed = [0; COLUMNS];
        for len in &mut packed[..COLUMNS - 1] {
            *len = take_number(&mut stream)?;
        }
        let before = packed.iter().fold(0, |sum: u64, len| sum.saturating_add(*len));
        packed[COLUMNS - 1] = (stream.len() as u64).saturating_sub(before);
        let mut columns = [const { Vec::new() }; COLUMNS];
        for ((column, len), packed) in columns.iter_mut().zip(lens).zip(packed) {
            let packed = usize::try_from(packed).ok().and_then(|len| stream.split_at_checked(len));
            let (frame, rest) = packed.ok_or(StreamError::CutShort)?;
            stream = rest;
            *column = if frame.is_empty() && len == 0 { Vec::new() } else { unpack(frame, len)? };
        }
        let slots = vec![Slot::default(); count as usize];
        let (foresight, at) = (Foresight::new(), [0; COLUMNS]);
        let mut decoder = Self { slots, foresight, columns, at, run: 0, next: 0, before: [0; 2] };
        decoder.next_head()?;
        Ok(decoder)
    }

    /// The next value, which is for this slot, of a tag that was expected or not.
    #[inline]
    pub fn next(&mut self, slot: u32, is_new: bool) -> Result<u64, StreamError> {
        let known = self.slots.get_mut(slot as usize).ok_or(StreamError::UnknownSlot(slot.into()))?;
        let step = if self.run == 0 {
            self.next
        } else if is_new {
            known.step
        } else {
            self.foresight.expected()
        };
        known.last = known.last.wrapping_add(step);
        let value = known.last;
        if is_new {
            known.step = step;
        }
        self.foresight.learn(step);
        if self.run == 0 {
            self.next_head()?;
        } else {
            self.run -= 1;
        }
        Ok(value)
    }

    /// All values of a tag that was not expected have been read. Where that leads is what the control stream says.
    pub fn follow(&mut self, place: usize) {
        self.foresight.follow(place);
    }

    #[inline]
    fn next_head(&mut self) -> Result<(), StreamError> {
        let Some(&head) = self.columns[HEADS].get(self.at[HEADS]) else {
            // As expected for ever: more often than anybody asks.
            self.run = u64::MAX;
            return Ok(());
        };
        self.at[HEADS] += 1;
        self.run = u64::from(head >> CLASS_BITS);
        if self.run == u64::from(LONG) {
            let mut rest = &self.columns[RUNS][self.at[RUNS]..];
            self.run = take_number(&mut rest)?.checked_add(LONG.into()).ok_or(StreamError::EndlessNumber)?;
            self.at[RUNS] = self.columns[RUNS].len() - rest.len();
        }
        self.next = match u32::from(head) & ((1 << CLASS_BITS) - 1) {
            LAST => self.before[0],
            BEFORE_LAST => self.before[1],
            class @ 0..LAST => self.difference(class as usize)?,
            _ => return Err(StreamError::UnknownCode(head)),
        };
        self.before = [self.next, self.before[0]];
        Ok(())
    }

    /// The next difference of one of four lengths.
    #[inline]
    fn difference(&mut self, class: usize) -> Result<u64, StreamError> {
        let column = DIFFERENCES + class;
        let (from, len) = (self.at[column], 1 << class);
        let bytes = self.columns[column].get(from..from + len).ok_or(StreamError::CutShort)?;
        self.at[column] += len;
        let mut folded = [0; 8];
        folded[..len].copy_from_slice(bytes);
        Ok(unfold(u64::from_le_bytes(folded)) as u64)
    }

    /// Makes sure that all values were read that are not just as expected.
    pub fn finish(self) -> Result<(), StreamError> {
        let is_read = self.columns.iter().zip(self.at).all(|(column, at)| column.len() == at);
        // Behind the last there is no end to what is expected.
        if is_read && self.run > u64::from(u32::MAX) { Ok(()) } else { Err(StreamError::TooLong) }
    }
}
