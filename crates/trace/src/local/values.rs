//! The memory stream of code that hardly ever does the same again: each value by what its own slot did before.
//!
//! # The stream
//!
//! Two columns (see [`super::columns`]). The first has four bits for each value, the lower half of each byte first: how many bytes of the second belong to
//! it, 0 if it is as expected. These are the [folded](crate::difference::fold) difference to the last value of the slot (0 at first), the lowest byte
//! first, one at least. A value is expected to differ from the last by as much as that from the one before.

use super::columns;
use crate::difference::{fold, unfold};
use crate::error::StreamError;

const LENS: usize = 0;
const BYTES: usize = 1;

/// What is known of a slot.
#[derive(Clone, Copy, Default)]
struct Slot {
    last: u64,
    step: u64,
}

/// A value that is to be packed: its slot, and where it lies.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spot {
    pub(crate) slot: u32,
    pub(crate) at: u32,
}

impl Spot {
    /// That many values behind it, of the same record.
    #[inline(always)]
    pub(crate) fn behind(self, count: usize) -> Self {
        Self { slot: self.slot.wrapping_add(count as u32), at: self.at.wrapping_add(count as u32 * 8) }
    }
}

/// Writes a memory stream.
#[derive(Default)]
pub(crate) struct ValueEncoder {
    slots: Vec<Slot>,
    /// By value, how many bytes belong to it.
    lens: Vec<u8>,
    values: usize,
    bytes: Vec<u8>,
    len: usize,
    halves: Vec<u8>,
}

impl ValueEncoder {
    /// There are so many slots at least.
    pub(crate) fn make_room(&mut self, slots: usize) {
        self.slots.resize(self.slots.len().max(slots), Slot::default());
    }

    /// Nothing is known any more of some slots.
    pub(crate) fn forget(&mut self, first: u32, count: usize) {
        self.slots[first as usize..][..count].fill(Slot::default());
    }

    /// Appends values that lie in some bytes.
    ///
    /// # Panics
    /// If they are not there, or there are no such slots.
    #[inline(always)]
    pub(crate) fn push(&mut self, bytes: &[u8], spots: &[Spot]) {
        let count = spots.len();
        if self.lens.len() < self.values + count || self.bytes.len() < self.len + (count + 1) * 8 {
            self.grow(count);
        }
        let lens = &mut self.lens[self.values..][..count];
        let slots = &mut self.slots[..];
        let (mut at, to) = (self.len, &mut *self.bytes);
        for (spot, has) in spots.iter().zip(lens) {
            let value = bytes[spot.at as usize..].first_chunk().expect("it is there");
            let value = u64::from_le_bytes(*value);
            let slot = &mut slots[spot.slot as usize];
            let step = value.wrapping_sub(slot.last);
            let folded = fold(step as i64);
            let len = 8 - (folded | 1).leading_zeros() as usize / 8;
            // Whether it is expected does not show before: there is no branch.
            let len = if step == slot.step { 0 } else { len };
            *slot = Slot { last: value, step };
            to[at..at + 8].copy_from_slice(&folded.to_le_bytes());
            *has = len as u8;
            at += len;
        }
        self.len = at;
        self.values += count;
    }

    #[cold]
    fn grow(&mut self, count: usize) {
        self.lens.resize(self.lens.len() * 2 + count + 4096, 0);
        self.bytes.resize(self.bytes.len() * 2 + (count + 1) * 8 + 4096, 0);
    }

    /// The stream. From here on, it is a new one.
    pub(crate) fn finish(&mut self, packer: &mut columns::Packer) -> Vec<u8> {
        let (pairs, last) = self.lens[..self.values].as_chunks::<2>();
        self.halves.clear();
        self.halves.extend(pairs.iter().map(|[low, high]| low | high << 4));
        self.halves.extend(last);
        let mut stream = Vec::new();
        packer.put(&mut stream, &[&self.halves, &self.bytes[..self.len]]);
        (self.values, self.len) = (0, 0);
        stream
    }
}

/// Reads a memory stream.
pub(crate) struct ValueDecoder {
    slots: Vec<Slot>,
    columns: [Vec<u8>; 2],
    values: usize,
    at: usize,
}

impl ValueDecoder {
    /// From the bytes that [`ValueEncoder::finish`] gave, of a process that has so many slots.
    pub(crate) fn new(stream: &[u8], count: u32) -> Result<Self, StreamError> {
        let columns = columns::unpacked(stream)?;
        Ok(Self { slots: vec![Slot::default(); count as usize], columns, values: 0, at: 0 })
    }

    /// The next value, which is for this slot.
    #[inline(always)]
    pub(crate) fn next(&mut self, slot: u32) -> Result<u64, StreamError> {
        let known = self.slots.get_mut(slot as usize).ok_or(StreamError::UnknownSlot(slot.into()))?;
        let halves = *self.columns[LENS].get(self.values / 2).ok_or(StreamError::CutShort)?;
        let len = usize::from(halves >> (self.values % 2 * 4) & 15);
        self.values += 1;
        let rest = &self.columns[BYTES][self.at..];
        if len > 0 {
            let mut word = [0; 8];
            match rest.first_chunk() {
                _ if len > 8 => return Err(StreamError::UnknownCode(len as u8)),
                Some(whole) => word = *whole,
                None => word[..len].copy_from_slice(rest.get(..len).ok_or(StreamError::CutShort)?),
            }
            self.at += len;
            let folded = u64::from_le_bytes(word) & u64::MAX >> (64 - 8 * len);
            known.step = unfold(folded) as u64;
        }
        known.last = known.last.wrapping_add(known.step);
        Ok(known.last)
    }

    /// Makes sure that all values were read.
    #[cfg(test)]
    pub(crate) fn finish(self) -> Result<(), StreamError> {
        let is_read =
            self.columns[LENS].len() == self.values.div_ceil(2) && self.columns[BYTES].len() == self.at;
        if is_read { Ok(()) } else { Err(StreamError::TooLong) }
    }
}
