//! The memory stream: values of address registers, each for a *slot* that the reader knows.
//!
//! # The stream
//!
//! Numbers are of 7 bits in a byte, lowest first, the highest bit set in all but the last byte. The stream is:
//!
//! | | |
//! |---|---|
//! | number | how long the rest is when it is unpacked |
//! | bytes | the rest, one zstd frame |
//!
//! Unpacked, that is:
//!
//! | | |
//! |---|---|
//! | number | of how many slots there are tokens |
//! | two numbers for each | the slot less the one before, and how many bytes its tokens have |
//! | bytes | all tokens, slot by slot |
//!
//! A token says: so many times the value of this slot is the last one and the same *step* as before; then comes a new step.
//! Behind its last token, it is the same step for ever. The first last value is 0, as is the first step.
//!
//! | | |
//! |---|---|
//! | byte | the lower four bits: how many bytes the step has, 0, 1, 2, 4 or 8; the upper four: how often it was the same, 15 for more |
//! | number | if it was 15 times or more: how many more |
//! | bytes | the step, folded (0, -1, 1, -2, … are 0, 1, 2, 3, …), the lowest byte first |
//!
//! Steps and sums are modulo 2⁶⁴.
//!
//! # Why so
//!
//! What is written down of a place of the program is like what was written down there before; and if a pointer is used at several
//! places, their steps are the same one after the other, which zstd finds. Ways to foretell values from what came just before,
//! whatever its slot, took less room for most programs, but more time, most of it where nothing could be foretold.

use crate::columns::{put_number, take_number};
use crate::difference::{fold, unfold};
use crate::error::StreamError;
use std::io::Read as _;

/// How much [`zstd`] tries.
const LEVEL: i32 = 1;
/// No stream is longer when it is unpacked.
const MOST: u64 = 1 << 28;
/// In a token, a run that goes on behind it.
const LONG: u32 = 15;

/// What is known of a slot when values are written.
#[derive(Clone, Copy, Default)]
struct Slot {
    last: u64,
    step: u64,
    run: u32,
    /// How many bytes its tokens have.
    len: u32,
}

/// A new step of a slot.
struct Token {
    slot: u32,
    run: u32,
    folded: u64,
}

/// How many bytes are taken for a number: 0, 1, 2, 4 or 8, as these can be written at once.
#[inline]
fn len(number: u64) -> u32 {
    let bytes = (64 - number.leading_zeros()).div_ceil(8);
    if bytes == 0 { 0 } else { bytes.next_power_of_two() }
}

/// How many bytes a number of 7 bits in a byte needs.
fn long_len(number: u32) -> u32 {
    (32 - (number | 1).leading_zeros()).div_ceil(7)
}

impl Token {
    #[inline]
    fn len(&self) -> u32 {
        let more = if self.run >= LONG { long_len(self.run - LONG) } else { 0 };
        1 + more + len(self.folded)
    }
}

/// Writes a memory stream.
#[derive(Default)]
pub struct ValueEncoder {
    slots: Vec<Slot>,
    tokens: Vec<Token>,
    /// What is packed, kept for the next time.
    bytes: Vec<u8>,
}

impl ValueEncoder {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a value.
    #[inline]
    pub fn push(&mut self, slot: u32, value: u64) {
        let Some(known) = self.slots.get_mut(slot as usize) else {
            self.slots.resize(slot as usize + 1, Slot::default());
            self.push(slot, value);
            return;
        };
        let step = value.wrapping_sub(known.last);
        known.last = value;
        if step == known.step {
            known.run += 1;
        } else {
            let token = Token { slot, run: known.run, folded: fold(step as i64) };
            (known.step, known.run) = (step, 0);
            known.len += token.len();
            self.tokens.push(token);
        }
    }

    /// The stream. From here on, it is a new one.
    #[must_use]
    pub fn finish(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let used = || self.slots.iter().zip(0u64..).filter(|(slot, _)| slot.len > 0);
        put_number(&mut bytes, used().count() as u64);
        let mut before = 0;
        for (slot, number) in used() {
            put_number(&mut bytes, number - before);
            put_number(&mut bytes, slot.len.into());
            before = number;
        }
        // From here on, a slot's length is where its next token goes.
        let mut at = bytes.len() as u32;
        for slot in self.slots.iter_mut().filter(|slot| slot.len > 0) {
            at += std::mem::replace(&mut slot.len, at);
        }
        bytes.resize(at as usize, 0);
        for token in &self.tokens {
            let to = &mut self.slots[token.slot as usize].len;
            let mut at = *to as usize;
            *to += token.len();
            let run = token.run.min(LONG);
            bytes[at] = (run << 4 | len(token.folded)) as u8;
            at += 1;
            if run == LONG {
                let mut more = token.run - LONG;
                while more >= 0x80 {
                    bytes[at] = more as u8 | 0x80;
                    more >>= 7;
                    at += 1;
                }
                bytes[at] = more as u8;
                at += 1;
            }
            let folded = token.folded;
            match len(folded) {
                0 => {}
                1 => bytes[at] = folded as u8,
                2 => bytes[at..at + 2].copy_from_slice(&(folded as u16).to_le_bytes()),
                4 => bytes[at..at + 4].copy_from_slice(&(folded as u32).to_le_bytes()),
                _ => bytes[at..at + 8].copy_from_slice(&folded.to_le_bytes()),
            }
        }
        let mut stream = Vec::new();
        put_number(&mut stream, bytes.len() as u64);
        stream.extend(zstd::bulk::compress(&bytes, LEVEL).expect("memory for what is packed"));
        self.bytes = bytes;
        self.slots.fill(Slot::default());
        self.tokens.clear();
        stream
    }
}

/// What is known of a slot when values are read.
#[derive(Clone, Copy, Default)]
struct Open {
    last: u64,
    step: u64,
    /// The step behind the run.
    next: u64,
    run: u32,
    /// Where the next token is, and where there is none any more.
    at: u32,
    end: u32,
}

/// Reads a memory stream.
pub struct ValueDecoder {
    bytes: Vec<u8>,
    slots: Vec<Open>,
}

impl ValueDecoder {
    /// From the bytes that [`ValueEncoder::finish`] gave, of a process that has so many slots.
    pub fn new(mut stream: &[u8], count: u32) -> Result<Self, StreamError> {
        let len = take_number(&mut stream)?;
        if len > MOST {
            return Err(StreamError::Compression);
        }
        // It takes as much memory as there is, not as much as it says.
        let mut bytes = Vec::new();
        let unpacked = zstd::stream::read::Decoder::with_buffer(stream);
        let read = unpacked.and_then(|unpacked| unpacked.take(len + 1).read_to_end(&mut bytes));
        if read.ok() != Some(len as usize) {
            return Err(StreamError::Compression);
        }
        let mut rest = &*bytes;
        let mut slots: Vec<Open> = Vec::new();
        let (mut slot, mut lens) = (0, Vec::new());
        for _ in 0..take_number(&mut rest)? {
            slot = take_number(&mut rest)?.saturating_add(slot);
            let len = take_number(&mut rest)?;
            if slot >= u64::from(count) {
                return Err(StreamError::UnknownSlot(slot));
            }
            if len > MOST {
                return Err(StreamError::EndlessNumber);
            }
            lens.push((slot as usize, len));
        }
        slots.resize(lens.last().map_or(0, |(slot, _)| slot + 1), Open { run: u32::MAX, ..Open::default() });
        let mut at = (bytes.len() - rest.len()) as u64;
        for (slot, len) in lens {
            let end = at + len;
            if end > bytes.len() as u64 {
                return Err(StreamError::CutShort);
            }
            slots[slot] = Open { at: at as u32, end: end as u32, ..Open::default() };
            slots[slot].look_ahead(&bytes)?;
            at = end;
        }
        if at != bytes.len() as u64 {
            return Err(StreamError::TooLong);
        }
        Ok(Self { bytes, slots })
    }

    /// The next value, which is for this slot.
    #[inline]
    pub fn next(&mut self, slot: u32) -> Result<u64, StreamError> {
        // Of a slot without tokens, all values are 0.
        let Some(open) = self.slots.get_mut(slot as usize) else { return Ok(0) };
        if open.run > 0 {
            open.run -= 1;
            open.last = open.last.wrapping_add(open.step);
            return Ok(open.last);
        }
        open.step = open.next;
        open.last = open.last.wrapping_add(open.step);
        open.look_ahead(&self.bytes)?;
        Ok(open.last)
    }

    /// Makes sure that all values were read that are not just the same step again.
    pub fn finish(self) -> Result<(), StreamError> {
        let read = self.slots.iter().all(|open| open.at == open.end && open.run > 0);
        if read { Ok(()) } else { Err(StreamError::TooLong) }
    }
}

impl Open {
    /// Reads the next token.
    #[inline]
    fn look_ahead(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        let tokens = &bytes[self.at as usize..self.end as usize];
        let Some((&head, mut rest)) = tokens.split_first() else {
            // The same step for ever: more often than anybody asks.
            self.run = u32::MAX;
            return Ok(());
        };
        self.run = u32::from(head >> 4);
        if self.run == LONG {
            let more = u32::try_from(take_number(&mut rest)?).map_err(|_| StreamError::EndlessNumber)?;
            self.run = self.run.checked_add(more).ok_or(StreamError::EndlessNumber)?;
        }
        let len = usize::from(head & 15);
        let folded = match len {
            0 => Some(0),
            1 => rest.first().copied().map(u64::from),
            2 => rest.first_chunk().map(|bytes| u16::from_le_bytes(*bytes).into()),
            4 => rest.first_chunk().map(|bytes| u32::from_le_bytes(*bytes).into()),
            8 => rest.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)),
            _ => return Err(StreamError::UnknownCode(head)),
        };
        let folded = folded.ok_or(StreamError::CutShort)?;
        self.next = unfold(folded) as u64;
        self.at = self.end - (rest.len() - len) as u32;
        Ok(())
    }
}
