//! values
use crate::columns::{ColumnReaders, ColumnWriters};
use crate::difference;
use crate::error::StreamError;
use crate::runs::{CODES, next_run, put_run};

const DISTANCES: usize = 2;
const BYTES: usize = 3;
const COLUMNS: usize = BYTES + 8;

const PREDICTIONS: u8 = 5;
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
    step_before: u64,
    distance: u8,
    best: u8,
}

#[derive(Clone, Copy, Default)]
struct Past {
    value: u64,
    slot: u32,
}

struct Foresight {
    slots: Box<[Slot; SLOTS]>,
    strides: Box<[u64; STRIDES]>,
    after: Box<[u64; AFTER]>,
    places: Box<[u32; PLACES]>,
    past: Box<[Past; PAST]>,
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
            now: 0,
            again: 0,
            lost: true,
            previous: 0,
            mixed: [0; 3],
        }
    }

    #[inline(always)]
    fn place(&self, slot: u32) -> usize {
        let context =
            self.mixed[0] ^ self.mixed[1].rotate_left(21) ^ self.mixed[2].rotate_left(42) ^ u64::from(slot);
        ((context ^ context >> 29).wrapping_mul(MIX) >> 48) as usize % PLACES
    }

    #[inline(always)]
    fn steps(&self, slot: u32, known: &Slot) -> usize {
        let both = known.step.wrapping_mul(MIX)
            ^ known.step_before.wrapping_mul(MIX).rotate_left(21)
            ^ u64::from(slot);
        (both.wrapping_mul(MIX) >> 48) as usize % STRIDES
    }

    #[inline(always)]
    fn after(&self, slot: u32) -> usize {
        ((self.mixed[0] ^ u64::from(slot)).wrapping_mul(MIX) >> 48) as usize % AFTER
    }

    /// Moves `again` to where it is expected.
    #[inline(always)]
    fn look(&mut self, slot: u32) {
        let place = self.place(slot);
        let candidate = self.places[place];
        self.places[place] = self.now;
        if self.lost | (self.past[self.again as usize % PAST].slot != slot) {
            let fits = self.past[candidate as usize % PAST].slot == slot;
            self.again = if fits { candidate } else { self.again };
        }
    }

    #[inline(always)]
    fn expected(&self, slot: u32, way: u8) -> u64 {
        let known = &self.slots[slot as usize % SLOTS];
        match way {
            0 => self.past[self.again as usize % PAST].value,
            1 => known.last.wrapping_add(known.stride),
            2 => self.past[self.now.wrapping_sub(known.distance.into()) as usize % PAST].value,
            3 => known.last.wrapping_add(self.strides[self.steps(slot, known)]),
            _ => self.after[self.after(slot)],
        }
    }

    #[inline(always)]
    fn learn(&mut self, slot: u32, value: u64, best: u8) {
        self.lost = self.past[self.again as usize % PAST].value != value;
        self.again = self.again.wrapping_add(1);
        self.past[self.now as usize % PAST] = Past { value, slot };
        self.now = self.now.wrapping_add(1);
        let at = slot as usize % SLOTS;
        if best >= 3 {
            let known = &self.slots[at];
            let steps = self.steps(slot, known);
            self.strides[steps] = value.wrapping_sub(known.last);
            let after = self.after(slot);
            self.after[after] = value;
        }
        self.mixed = [value.wrapping_mul(MIX), self.mixed[0], self.mixed[1]];
        self.previous = value;
        let known = &mut self.slots[at];
        let step = value.wrapping_sub(known.last);
        if step == known.step {
            known.stride = step;
        }
        known.step_before = known.step;
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
        let best = self.foresight.slots[slot as usize % SLOTS].best;
        if best == 0 {
            self.foresight.look(slot);
        }
        if self.foresight.expected(slot, best) == value {
            self.run += 1;
            self.foresight.learn(slot, value, best);
        } else {
            if best != 0 {
                self.foresight.look(slot);
            }
            self.event(slot, value);
            self.foresight.learn(slot, value, 3);
        }
        self.near[near(value)] = self.foresight.now.wrapping_sub(1);
    }

    fn event(&mut self, slot: u32, value: u64) {
        put_run(&mut self.columns, self.run);
        self.run = 0;
        let foresight = &mut self.foresight;
        let right = (0..PREDICTIONS).find(|&way| foresight.expected(slot, way) == value);
        let known = &mut foresight.slots[slot as usize % SLOTS];
        if let Some(right) = right {
            known.best = right;
            self.columns.push(CODES, right);
            return;
        }
        let distance = foresight.now.wrapping_sub(self.near[near(value)]);
        if let 1..=255 = distance
            && foresight.past[foresight.now.wrapping_sub(distance) as usize % PAST].value == value
        {
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
        let best = self.foresight.slots[slot as usize % SLOTS].best;
        if best == 0 || self.run == 0 {
            self.foresight.look(slot);
        }
        if self.run > 0 {
            self.run -= 1;
            let value = self.foresight.expected(slot, best);
            self.foresight.learn(slot, value, best);
            Ok(value)
        } else {
            let value = self.event(slot)?;
            self.foresight.learn(slot, value, 3);
            Ok(value)
        }
    }

    fn event(&mut self, slot: u32) -> Result<u64, StreamError> {
        let code = self.columns.next(CODES)?;
        let foresight = &mut self.foresight;
        let at = slot as usize % SLOTS;
        let value = match code {
            0..5 => {
                foresight.slots[at].best = code;
                foresight.expected(slot, code)
            }
            RECENT => {
                let distance = self.columns.next(DISTANCES)?;
                foresight.slots[at].distance = distance;
                foresight.past[foresight.now.wrapping_sub(distance.into()) as usize % PAST].value
            }
            FROM_LAST..32 => {
                let folded = difference::next(&mut self.columns, BYTES, code % 8 + 1)?;
                let from = if code < FROM_PREVIOUS { foresight.slots[at].last } else { foresight.previous };
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
