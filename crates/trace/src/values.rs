//! The memory stream: values of address registers, each for a *slot* that the reader knows.
//!
//! # The stream
//!
//! Eleven columns (see `columns`):
//!
//! | column | holds |
//! |---|---|
//! | 0 | runs: how many values, one after the other, were as expected |
//! | 1 | codes: what a value was that was not expected |
//! | 2 | distances |
//! | 3 to 10 | the bytes of differences, the lowest first |
//!
//! Runs and codes alternate. First comes a run, then a code for the value behind it, then another run, and so
//! on; the last is a run. Each code stands for one value:
//!
//! | code | the value |
//! |---|---|
//! | 0 to 4 | what this *way* of foretelling expects; see below |
//! | 5 | the one that was recorded as many values ago, for any slot, as the next byte in the column of distances says: 1 to 255 |
//! | 6 to 12 | the last value of the slot and a difference of 2 to 8 bytes, modulo 2⁶⁴ |
//! | 13 to 19 | the value before, whatever its slot, and a difference of 2 to 8 bytes, modulo 2⁶⁴ |
//!
//! If several would do, it is the first of them; of the two differences, the one that is smaller when folded,
//! and the first if they are equal. A distance is only found if no later value had the same hash as this one,
//! so code 5 is not everywhere where it could be.
//!
//! # What is expected
//!
//! There are five ways of foretelling a value. Each slot has one that it goes by, at first 0: what that
//! expects is what is expected. When it is wrong and another is right, the slot goes by that one from then
//! on.
//!
//! | way | expects | for |
//! |---|---|---|
//! | 0 | what followed the last time | structures that are walked through again |
//! | 1 | the slot's last value and its stride | arrays, and what does not change |
//! | 2 | the value as many values ago as the slot's distance | pointers that are passed on |
//! | 3 | the slot's last value and what was added to it after its last two steps | arrays of several dimensions |
//! | 4 | what the slot had the last time the value before it was the same | fields of objects |
//!
//! Tables, all zero at first, with values modulo 2⁶⁴ and numbers modulo 2³². Indices are modulo the number of
//! entries; nothing tells entries apart that meet.
//!
//! | table | entries | index | holds |
//! |---|---|---|---|
//! | `past` | 2¹⁸ | number of the value in the stream | value and slot |
//! | `places` | 2¹⁶ | hash of the last three values and the slot | number of the value that came after them |
//! | `slots` | 2¹⁵ | slot | last value, last two steps, stride, distance, way |
//! | `steps` | 2¹⁶ | hash of the slot's last two steps and the slot | the step after them |
//! | `after` | 2¹⁶ | hash of the value before and the slot | the value |
//!
//! With `M` = 0x9e3779b97f4a7c15, `a`, `b`, `c` the values one, two and three before, `p` and `q` the last
//! step of the slot and the one before it, and `‹` for rotation to the left, the hashes are the upper 16 bits
//! of `h · M`, where `h` is
//!
//! - for `places`, `x xor x / 2²⁹` with `x = a·M xor (b·M ‹ 21) xor (c·M ‹ 42) xor slot`,
//! - for `steps`, `p·M xor (q·M ‹ 21) xor slot`,
//! - for `after`, `a·M xor slot`.
//!
//! Way 0 follows a pointer, `again`, through an earlier part of the same stream; it starts at 0, *lost*. A
//! step, with a value for a slot:
//!
//! 1. If the slot goes by way 0, or else once it is known that the value is not as expected, the pointer is
//!    *looked after*: if it is lost, or `past[again]` is another slot's, and if `past[places[hash]]` is this
//!    slot's, it moves to `places[hash]`. Then `places[hash]` becomes the value's number.
//! 2. What the slot's way expects is known now: `past[again]`, or as the table above says. If the value is
//!    another, its code says how the slot's way or distance changes: to the way of codes 0 to 4, the distance
//!    of code 5.
//! 3. If the slot went by way 3, or the value was not expected, `steps[hash]` becomes the value less the
//!    slot's last value. If the slot went by way 4, or the value was not expected, `after[hash]` becomes the
//!    value.
//! 4. The pointer is lost if `past[again]` is not the value, and goes on by one in any case. `past[number]`
//!    becomes the value and the slot.
//! 5. The slot's last value becomes the value, and its last step the difference between them. If that is the
//!    same as the last step was, it becomes the stride too.
//!
//! # Why so
//!
//! Values are foretold nearly as well if a way learns only where it is used or where all else failed, and in
//! two thirds of the time: what is not looked at need not be in the processor's cache. Larger tables save
//! room (four times as large, a sixth), smaller ones no time.

use crate::columns::{ColumnReaders, ColumnWriters};
use crate::difference;
use crate::error::StreamError;
use crate::runs::{CODES, next_run, put_run};
use crate::table::zeroed;

/// The column of distances.
const DISTANCES: usize = 2;
/// The column of the lowest bytes of differences; seven more follow.
const BYTES: usize = 3;
const COLUMNS: usize = BYTES + 8;

// Ways, and the codes that name them.
const AGAIN: u8 = 0;
const STRIDE: u8 = 1;
const NEAR: u8 = 2;
const STEPS: u8 = 3;
const AFTER: u8 = 4;

/// The code of a distance.
const DISTANCE: u8 = 5;
/// The first code of a difference to the slot's last value, for [`difference::LEAST`] bytes.
const FROM_LAST: u8 = 6;
/// The first code of a difference to the value before, for [`difference::LEAST`] bytes.
const FROM_BEFORE: u8 = 13;
const CODES_END: u8 = 20;

const PAST: usize = 1 << 18;
const PLACES: usize = 1 << 16;
const SLOTS: usize = 1 << 15;
const STEP_HASHES: usize = 1 << 16;
const AFTER_HASHES: usize = 1 << 16;
/// How many hashes of values the writer knows the latest place of.
const LATEST: usize = 1 << 10;

const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// What is known of a slot.
#[derive(Clone, Copy, Default)]
struct Slot {
    last: u64,
    step: u64,
    step_before: u64,
    stride: u64,
    distance: u8,
    way: u8,
}

/// How a value came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    /// As the slot's way expected.
    By(u8),
    /// Otherwise.
    Unexpected,
}

/// What foretells values, the same in writer and reader.
struct Foresight {
    /// Values and their slots.
    past: Box<[[u64; 2]; PAST]>,
    places: Box<[u32; PLACES]>,
    slots: Box<[Slot; SLOTS]>,
    steps: Box<[u64; STEP_HASHES]>,
    after: Box<[u64; AFTER_HASHES]>,
    /// The number of the next value.
    now: u32,
    again: u32,
    lost: bool,
}

impl Foresight {
    fn new() -> Self {
        Self {
            past: zeroed(),
            places: zeroed(),
            slots: zeroed(),
            steps: zeroed(),
            after: zeroed(),
            now: 0,
            again: 0,
            lost: true,
        }
    }

    #[inline(always)]
    fn slot(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots[slot as usize % SLOTS]
    }

    /// The value that many values ago.
    #[inline(always)]
    fn ago(&self, distance: u32) -> u64 {
        self.past[self.now.wrapping_sub(distance) as usize % PAST][0]
    }

    #[inline(always)]
    fn place(&self, slot: u32) -> usize {
        let context = self.ago(1).wrapping_mul(MIX)
            ^ self.ago(2).wrapping_mul(MIX).rotate_left(21)
            ^ self.ago(3).wrapping_mul(MIX).rotate_left(42)
            ^ u64::from(slot);
        ((context ^ context >> 29).wrapping_mul(MIX) >> 48) as usize % PLACES
    }

    #[inline(always)]
    fn at_steps(&self, slot: u32) -> usize {
        let known = &self.slots[slot as usize % SLOTS];
        let context = known.step.wrapping_mul(MIX)
            ^ known.step_before.wrapping_mul(MIX).rotate_left(21)
            ^ u64::from(slot);
        (context.wrapping_mul(MIX) >> 48) as usize % STEP_HASHES
    }

    #[inline(always)]
    fn at_after(&self, slot: u32) -> usize {
        let context = self.ago(1).wrapping_mul(MIX) ^ u64::from(slot);
        (context.wrapping_mul(MIX) >> 48) as usize % AFTER_HASHES
    }

    /// Makes sure that `again` is where something can be expected for this slot, if there is such a place.
    #[inline(always)]
    fn look_after(&mut self, slot: u32) {
        let place = self.place(slot);
        if self.lost || self.past[self.again as usize % PAST][1] != u64::from(slot) {
            let candidate = self.places[place];
            if self.past[candidate as usize % PAST][1] == u64::from(slot) {
                self.again = candidate;
            }
        }
        self.places[place] = self.now;
    }

    /// What a way expects.
    #[inline(always)]
    fn expected(&self, slot: u32, way: u8) -> u64 {
        let known = &self.slots[slot as usize % SLOTS];
        match way {
            AGAIN => self.past[self.again as usize % PAST][0],
            STRIDE => known.last.wrapping_add(known.stride),
            NEAR => self.ago(known.distance.into()),
            STEPS => known.last.wrapping_add(self.steps[self.at_steps(slot)]),
            _ => self.after[self.at_after(slot)],
        }
    }

    #[inline(always)]
    fn learn(&mut self, slot: u32, value: u64, came: Came) {
        if matches!(came, Came::By(STEPS) | Came::Unexpected) {
            let at = self.at_steps(slot);
            self.steps[at] = value.wrapping_sub(self.slot(slot).last);
        }
        if matches!(came, Came::By(AFTER) | Came::Unexpected) {
            let at = self.at_after(slot);
            self.after[at] = value;
        }
        self.lost = self.past[self.again as usize % PAST][0] != value;
        self.again = self.again.wrapping_add(1);
        self.past[self.now as usize % PAST] = [value, slot.into()];
        self.now = self.now.wrapping_add(1);
        let known = self.slot(slot);
        let step = value.wrapping_sub(known.last);
        if step == known.step {
            known.stride = step;
        }
        known.step_before = known.step;
        known.step = step;
        known.last = value;
    }
}

/// Writes a memory stream.
pub struct ValueEncoder {
    foresight: Foresight,
    /// By a hash of values: the number of the latest.
    latest: Box<[u32; LATEST]>,
    columns: ColumnWriters<COLUMNS>,
    run: u64,
}

impl Default for ValueEncoder {
    fn default() -> Self {
        Self::new()
    }
}

impl ValueEncoder {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self { foresight: Foresight::new(), latest: zeroed(), columns: ColumnWriters::new(), run: 0 }
    }

    /// Appends a value.
    #[inline]
    pub fn push(&mut self, slot: u32, value: u64) {
        let foresight = &mut self.foresight;
        let way = foresight.slot(slot).way;
        if way == AGAIN {
            foresight.look_after(slot);
        }
        let latest = std::mem::replace(&mut self.latest[hash(value)], foresight.now);
        if foresight.expected(slot, way) == value {
            self.run += 1;
            foresight.learn(slot, value, Came::By(way));
        } else {
            if way != AGAIN {
                foresight.look_after(slot);
            }
            self.push_new(slot, value, latest);
        }
    }

    fn push_new(&mut self, slot: u32, value: u64, latest: u32) {
        put_run(&mut self.columns, self.run);
        self.run = 0;
        let foresight = &mut self.foresight;
        let distance = foresight.now.wrapping_sub(latest);
        if let Some(way) = (AGAIN..=AFTER).find(|&way| foresight.expected(slot, way) == value) {
            foresight.slot(slot).way = way;
            self.columns.push(CODES, way);
        } else if let Ok(near @ 1..) = u8::try_from(distance)
            && foresight.ago(distance) == value
        {
            foresight.slot(slot).distance = near;
            self.columns.push(CODES, DISTANCE);
            self.columns.push(DISTANCES, near);
        } else {
            let from_last = difference::fold(value.wrapping_sub(foresight.slot(slot).last) as i64);
            let from_before = difference::fold(value.wrapping_sub(foresight.ago(1)) as i64);
            let (code, folded) =
                if from_last <= from_before { (FROM_LAST, from_last) } else { (FROM_BEFORE, from_before) };
            self.columns.push(CODES, code + difference::len(folded) - difference::LEAST);
            difference::put(&mut self.columns, BYTES, folded);
        }
        self.foresight.learn(slot, value, Came::Unexpected);
    }

    /// The stream.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        put_run(&mut self.columns, self.run);
        let mut stream = Vec::new();
        self.columns.finish(&mut stream);
        stream
    }
}

#[inline]
fn hash(value: u64) -> usize {
    (value.wrapping_mul(MIX) >> 54) as usize % LATEST
}

/// Reads a memory stream.
pub struct ValueDecoder<'a> {
    foresight: Foresight,
    columns: ColumnReaders<'a, COLUMNS>,
    run: u64,
}

impl<'a> ValueDecoder<'a> {
    /// From the bytes that [`ValueEncoder::finish`] gave.
    pub fn new(stream: &'a [u8]) -> Result<Self, StreamError> {
        let mut columns = ColumnReaders::new(stream)?;
        let run = next_run(&mut columns)?;
        Ok(Self { foresight: Foresight::new(), columns, run })
    }

    /// The next value, which is for this slot.
    #[inline]
    pub fn next(&mut self, slot: u32) -> Result<u64, StreamError> {
        let foresight = &mut self.foresight;
        let way = foresight.slot(slot).way;
        if way == AGAIN || self.run == 0 {
            foresight.look_after(slot);
        }
        if self.run == 0 {
            return self.next_new(slot);
        }
        self.run -= 1;
        let value = foresight.expected(slot, way);
        foresight.learn(slot, value, Came::By(way));
        Ok(value)
    }

    fn next_new(&mut self, slot: u32) -> Result<u64, StreamError> {
        let code = self.columns.next(CODES)?;
        let foresight = &mut self.foresight;
        let value = match code {
            AGAIN..=AFTER => {
                foresight.slot(slot).way = code;
                foresight.expected(slot, code)
            }
            DISTANCE => {
                let distance = self.columns.next(DISTANCES)?;
                foresight.slot(slot).distance = distance;
                foresight.ago(distance.into())
            }
            FROM_LAST..CODES_END => {
                let (first, from) = if code < FROM_BEFORE {
                    (FROM_LAST, foresight.slot(slot).last)
                } else {
                    (FROM_BEFORE, foresight.ago(1))
                };
                let folded = difference::next(&mut self.columns, BYTES, code - first + difference::LEAST)?;
                from.wrapping_add(difference::unfold(folded) as u64)
            }
            _ => return Err(StreamError::UnknownCode(code)),
        };
        self.run = next_run(&mut self.columns)?;
        self.foresight.learn(slot, value, Came::Unexpected);
        Ok(value)
    }

    /// Makes sure that all values were read.
    pub fn finish(self) -> Result<(), StreamError> {
        if self.run > 0 { Err(StreamError::TooLong) } else { self.columns.finish() }
    }
}
