//! values
use crate::columns::{ColumnReaders, ColumnWriters};
use crate::difference;
use crate::error::StreamError;
use crate::runs::{CODES, next_run, put_run};

const DISTANCES: usize = 2;
const BYTES: usize = 3;
const COLUMNS: usize = BYTES + 8;

const PREDICTIONS: usize = 5;
const RECENT: u8 = 8;
const FROM_LAST: u8 = 16;
const FROM_PREVIOUS: u8 = 24;

const SLOTS: usize = 1 << 15;
const STRIDES: usize = 1 << 16;
const AFTER: usize = 1 << 16;
const PLACES: usize = 1 << 16;
const PAST: usize = 1 << 18;
const NEAR: usize = 1 << 10;

const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Copy, Default)]
struct Slot {
    last: u64,
    step: u64,
    stride: u64,
    steps: u32,
    distance: u8,
    best: u8,
}

struct Expected {
    values: [u64; 8],
    place: usize,
    steps: usize,
    after: usize,
}

struct Foresight {
    slots: Box<[Slot; SLOTS]>,
    strides: Box<[u64; STRIDES]>,
    after: Box<[u64; AFTER]>,
    places: Box<[u32; PLACES]>,
    past: Box<[u64; PAST]>,
    past_slots: Box<[u32; PAST]>,
    now: u32,
    again: u32,
    lost: bool,
    previous: u64,
    mixed: [u64; 3],
}

impl Foresight {
    fn new() -> Self {
        Self {
            slots: zeroed(),
            strides: zeroed(),
            after: zeroed(),
            places: zeroed(),
            past: zeroed(),
            past_slots: zeroed(),
            now: 0,
            again: 0,
            lost: true,
            previous: 0,
            mixed: [0; 3],
        }
    }

    #[inline(always)]
    fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize % SLOTS]
    }

    #[inline(always)]
    fn expect(&mut self, slot: u32) -> Expected {
        let known = self.slots[slot as usize % SLOTS];
        let context = self.mixed[0] ^ self.mixed[1].rotate_left(21) ^ self.mixed[2].rotate_left(42) ^ u64::from(slot);
        let place = ((context ^ context >> 29).wrapping_mul(MIX) >> 48) as usize % PLACES;
        if self.lost || self.past_slots[self.again as usize % PAST] != slot {
            let candidate = self.places[place];
            if self.past_slots[candidate as usize % PAST] == slot {
                self.again = candidate;
            }
        }
        let steps = known.steps as usize % STRIDES;
        let after = ((self.mixed[0] ^ u64::from(slot)).wrapping_mul(MIX) >> 48) as usize % AFTER;
        let near = self.now.wrapping_sub(known.distance.into());
        Expected {
            values: [
                self.past[self.again as usize % PAST],
                known.last.wrapping_add(self.strides[steps]),
                known.last.wrapping_add(known.stride),
                self.past[near as usize % PAST],
                self.after[after],
                0,
                0,
                0,
            ],
            place,
            steps,
            after,
        }
    }

    #[inline(always)]
    fn learn(&mut self, slot: u32, value: u64, expected: &Expected) {
        self.lost = expected.values[0] != value;
        self.again = self.again.wrapping_add(1);
        self.places[expected.place] = self.now;
        self.past[self.now as usize % PAST] = value;
        self.past_slots[self.now as usize % PAST] = slot;
        self.now = self.now.wrapping_add(1);
        self.mixed = [value.wrapping_mul(MIX), self.mixed[0], self.mixed[1]];
        self.previous = value;
        let known = &mut self.slots[slot as usize % SLOTS];
        let step = value.wrapping_sub(known.last);
        self.strides[expected.steps] = step;
        self.after[expected.after] = value;
        if step == known.step {
            known.stride = step;
        }
        let both = step.wrapping_mul(MIX) ^ known.step.wrapping_mul(MIX).rotate_left(21) ^ u64::from(slot);
        known.steps = (both.wrapping_mul(MIX) >> 48) as u32;
        known.step = step;
        known.last = value;
    }
}

fn zeroed<T: Copy + Default, const N: usize>() -> Box<[T; N]> {
    vec![T::default(); N].try_into().ok().expect("as many as that")
}

/// Writes.
pub struct ValueEncoder {
    foresight: Foresight,
    near: Box<[u32; NEAR]>,
    columns: ColumnWriters<COLUMNS>,
    run: u64,
}

impl Default for ValueEncoder {
    fn default() -> Self {
        Self::new()
    }
}

impl ValueEncoder {
    /// n
    #[must_use]
    pub fn new() -> Self {
        Self { foresight: Foresight::new(), near: zeroed(), columns: ColumnWriters::new(), run: 0 }
    }

    /// p
    #[inline]
    pub fn push(&mut self, slot: u32, value: u64) {
        let expected = self.foresight.expect(slot);
        let best = self.foresight.slot(slot).best;
        if expected.values[usize::from(best) % 8] == value {
            self.run += 1;
        } else {
            self.event(slot, value, &expected);
        }
        self.near[near(value)] = self.foresight.now;
        self.foresight.learn(slot, value, &expected);
    }

    fn event(&mut self, slot: u32, value: u64, expected: &Expected) {
        put_run(&mut self.columns, self.run);
        self.run = 0;
        let foresight = &mut self.foresight;
        let known = &mut foresight.slots[slot as usize % SLOTS];
        if let Some(right) = expected.values[..PREDICTIONS].iter().position(|&expected| expected == value) {
            known.best = right as u8;
            self.columns.push(CODES, right as u8);
            return;
        }
        let distance = foresight.now.wrapping_sub(self.near[near(value)]);
        if let 1..=255 = distance && foresight.past[foresight.now.wrapping_sub(distance) as usize % PAST] == value {
            known.distance = distance as u8;
            self.columns.push(CODES, RECENT);
            self.columns.push(DISTANCES, distance as u8);
            return;
        }
        let from_last = difference::fold(value.wrapping_sub(known.last) as i64);
        let from_previous = difference::fold(value.wrapping_sub(foresight.previous) as i64);
        let (code, folded) =
            if from_last <= from_previous { (FROM_LAST, from_last) } else { (FROM_PREVIOUS, from_previous) };
        self.columns.push(CODES, code - 1 + difference::len(folded));
        difference::put(&mut self.columns, BYTES, folded);
    }

    /// f
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        put_run(&mut self.columns, self.run);
        let mut stream = Vec::new();
        self.columns.finish(&mut stream);
        stream
    }
}

fn near(value: u64) -> usize {
    (value.wrapping_mul(MIX) >> 54) as usize % NEAR
}

/// Reads.
pub struct ValueDecoder<'a> {
    foresight: Foresight,
    columns: ColumnReaders<'a, COLUMNS>,
    run: u64,
}

impl<'a> ValueDecoder<'a> {
    /// n
    pub fn new(stream: &'a [u8]) -> Result<Self, StreamError> {
        let mut columns = ColumnReaders::new(stream)?;
        let run = next_run(&mut columns)?;
        Ok(Self { foresight: Foresight::new(), columns, run })
    }

    /// n
    #[inline]
    pub fn next(&mut self, slot: u32) -> Result<u64, StreamError> {
        let expected = self.foresight.expect(slot);
        let value = if self.run > 0 {
            self.run -= 1;
            expected.values[usize::from(self.foresight.slot(slot).best) % 8]
        } else {
            self.event(slot, &expected)?
        };
        self.foresight.learn(slot, value, &expected);
        Ok(value)
    }

    fn event(&mut self, slot: u32, expected: &Expected) -> Result<u64, StreamError> {
        let code = self.columns.next(CODES)?;
        let foresight = &mut self.foresight;
        let known = &mut foresight.slots[slot as usize % SLOTS];
        let value = match code {
            0..5 => {
                known.best = code;
                expected.values[usize::from(code)]
            }
            RECENT => {
                known.distance = self.columns.next(DISTANCES)?;
                foresight.past[foresight.now.wrapping_sub(known.distance.into()) as usize % PAST]
            }
            FROM_LAST..32 => {
                let folded = difference::next(&mut self.columns, BYTES, code % 8 + 1)?;
                let from = if code < FROM_PREVIOUS { known.last } else { foresight.previous };
                from.wrapping_add(difference::unfold(folded) as u64)
            }
            _ => return Err(StreamError::UnknownCode(code)),
        };
        self.run = next_run(&mut self.columns)?;
        Ok(value)
    }

    /// f
    pub fn finish(self) -> Result<(), StreamError> {
        if self.run > 0 { Err(StreamError::TooLong) } else { self.columns.finish() }
    }
}
