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

use crate::columns::{put_number, take_number};
use crate::difference::{fold, unfold};
use crate::error::StreamError;
use crate::frames::unpack;
use crate::table::zeroed;
use zstd::bulk::Compressor;

/// How much [`zstd`] tries. Level 1 saves a fifth of the room, and takes a tenth more time for all of packing.
const LEVEL: i32 = -4;
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

/// Where a value was that was packed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spot {
    pub(crate) slot: u32,
    /// Where in the segment, as it was written down, modulo 2³².
    pub(crate) at: u32,
}

/// What foretells values, the same in writer and reader.
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

    fn forget(&mut self) {
        // Nobody asks for anything in the past that is not written before.
        self.places.fill(0);
        (self.now, self.again) = (0, 0);
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

/// Bytes at whose end something is written that may be shorter than what is copied.
#[derive(Default)]
struct Column {
    bytes: Vec<u8>,
    len: usize,
}

impl Column {
    #[inline(always)]
    fn push(&mut self, number: u64, len: usize) {
        let end = self.len + 8;
        if end > self.bytes.len() {
            self.grow();
        }
        self.bytes[self.len..end].copy_from_slice(&number.to_le_bytes());
        self.len += len;
    }

    #[cold]
    fn push_number(&mut self, mut number: u32) {
        while number >= 0x80 {
            self.push((number as u8 | 0x80).into(), 1);
            number >>= 7;
        }
        self.push(number.into(), 1);
    }

    #[cold]
    fn grow(&mut self) {
        self.bytes.resize(self.bytes.len() * 2 + 4096, 0);
    }
}

/// Values that were not expected.
struct Surprises {
    /// Their numbers and differences, as far as they are not in columns yet, and how many these are. What lies behind has no meaning: whether
    /// a value is one of them shows when it is there already, as nobody can foretell that.
    numbers: Box<[u32; OPEN]>,
    steps: Box<[u64; OPEN]>,
    open: usize,
    /// How many are in columns, of all streams.
    closed: u64,
    columns: [Column; COLUMNS],
    /// The number of the value behind the last in the columns.
    behind: u32,
    /// The last difference in the columns, and the one before.
    before: [u64; 2],
}

/// How many values may not be in columns yet.
const OPEN: usize = 1 << 14;
/// How many values are appended at once at most.
pub(crate) const AT_ONCE: usize = OPEN;

impl Surprises {
    fn new() -> Self {
        Self {
            numbers: zeroed(),
            steps: zeroed(),
            open: 0,
            closed: 0,
            columns: Default::default(),
            behind: 0,
            before: [0; 2],
        }
    }

    /// Takes a value that is one of them or not.
    fn push(&mut self, number: u32, step: u64, is_one: bool) {
        self.numbers[self.open % OPEN] = number;
        self.steps[self.open % OPEN] = step;
        self.open += usize::from(is_one);
    }

    /// Makes room for so many, at most [`OPEN`].
    fn make_room(&mut self, count: usize) {
        if self.open + count > OPEN {
            self.close();
        }
    }

    #[inline(never)]
    fn close(&mut self) {
        let open = std::mem::take(&mut self.open);
        self.closed += open as u64;
        for (&number, &step) in self.numbers.iter().zip(&*self.steps).take(open) {
            let run = number.wrapping_sub(self.behind);
            self.behind = number.wrapping_add(1);
            let folded = fold(step as i64);
            let bits = 63 - (folded | 1).leading_zeros();
            // Which it is does not show before: there are no branches.
            let new = u32::from(bits >= 8) + u32::from(bits >= 16) + u32::from(bits >= 32);
            let class = if step == self.before[1] { BEFORE_LAST } else { new };
            let class = if step == self.before[0] { LAST } else { class };
            self.before = [step, self.before[0]];
            self.columns[HEADS].push(u64::from(run.min(LONG) << CLASS_BITS | class), 1);
            let len = if class < LAST { 1 << new } else { 0 };
            self.columns[DIFFERENCES + new as usize].push(folded, len);
            if run >= LONG {
                self.columns[RUNS].push_number(run - LONG);
            }
        }
    }
}

/// Writes a memory stream.
pub struct ValueEncoder {
    slots: Vec<Slot>,
    /// In which stream each slot was last used: before that, nothing is known of it.
    streams: Vec<u32>,
    stream: u32,
    foresight: Foresight,
    /// As `foresight.past`: of which slot each value was, and where.
    spots: Box<[Spot; PAST]>,
    surprises: Surprises,
    compressor: Compressor<'static>,
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
        Self {
            slots: Vec::new(),
            streams: Vec::new(),
            stream: 1,
            foresight: Foresight::new(),
            spots: zeroed(),
            surprises: Surprises::new(),
            compressor: Compressor::new(LEVEL).expect("a level that zstd has"),
        }
    }

    /// There are so many slots at least.
    pub fn make_room(&mut self, slots: usize) {
        self.slots.resize(self.slots.len().max(slots), Slot::default());
        self.streams.resize(self.slots.len(), 0);
    }

    /// Whether what is expected of values is not so long ago that others have taken their places.
    pub(crate) fn is_recent(&self) -> bool {
        self.foresight.now.wrapping_sub(self.foresight.again) <= PAST as u32
    }

    /// How many values have not been expected so far, in all streams.
    pub(crate) fn surprises(&self) -> u64 {
        self.surprises.closed + self.surprises.open as u64
    }

    /// How many slots there are.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The number of the next value.
    pub(crate) fn now(&self) -> u32 {
        self.foresight.now
    }

    /// How far back the value lies whose difference is expected.
    pub(crate) fn distance(&self) -> u32 {
        self.foresight.now.wrapping_sub(self.foresight.again)
    }

    /// Of which slots the last values were, and where, the first of them first.
    pub(crate) fn latest(&self, count: u32) -> impl Iterator<Item = Spot> {
        (0..count).map(move |n| self.spots[self.foresight.now.wrapping_sub(count - n) as usize % PAST])
    }

    /// A value is not as expected, by its number: those before it have been told.
    pub(crate) fn surprise(&mut self, number: u32, step: u64) {
        self.surprises.make_room(1);
        self.surprises.push(number, step, true);
    }

    /// Appends so many values of tags that were expected, of which others say the rest: which of them [were not](Self::surprise), what
    /// [to keep](Self::put) of them, and [how they end](Self::set_last).
    pub(crate) fn go_on(&mut self, count: u32) {
        let Foresight { now, again, .. } = &mut self.foresight;
        (*now, *again) = (now.wrapping_add(count), again.wrapping_add(count));
    }

    /// Keeps something of a value, by its number.
    pub(crate) fn put(&mut self, number: u32, step: u64, spot: Spot) {
        self.foresight.past[number as usize % PAST] = step;
        self.spots[number as usize % PAST] = spot;
    }

    /// The last value of a slot.
    pub(crate) fn set_last(&mut self, slot: u32, value: u64) {
        self.slots[slot as usize].last = value;
    }

    /// Appends so many values of tags that were expected, at most [`AT_ONCE`]: each lies in `bytes` as far behind the one that it follows
    /// as `shift` says, and `start` is where `bytes` begin. What it follows must be [recent](Self::is_recent).
    ///
    /// # Panics
    /// If they are not there.
    #[inline(never)]
    pub(crate) fn push_expected(&mut self, bytes: &[u8], start: u32, shift: u32, count: usize) {
        self.surprises.make_room(count);
        // All of it is at hand for as long as this takes.
        let (past, spots, slots) = (&mut *self.foresight.past, &mut *self.spots, &mut self.slots[..]);
        let (mut to, mut from) = (self.foresight.now, self.foresight.again);
        let (numbers, steps) = (&mut *self.surprises.numbers, &mut *self.surprises.steps);
        let mut open = self.surprises.open;
        for _ in 0..count {
            let Spot { slot, at } = spots[from as usize % PAST];
            let at = at.wrapping_add(shift);
            let value = bytes[at.wrapping_sub(start) as usize..].first_chunk().expect("it is there");
            let value = u64::from_le_bytes(*value);
            let last = &mut slots[slot as usize].last;
            let step = value.wrapping_sub(*last);
            *last = value;
            numbers[open % OPEN] = to;
            steps[open % OPEN] = step;
            open += usize::from(step != past[from as usize % PAST]);
            past[to as usize % PAST] = step;
            spots[to as usize % PAST] = Spot { slot, at };
            to = to.wrapping_add(1);
            from = from.wrapping_add(1);
        }
        (self.foresight.now, self.foresight.again, self.surprises.open) = (to, from, open);
    }

    /// Appends the values of a tag that was expected, from this slot on. They are there.
    ///
    /// # Panics
    /// If there are no such slots.
    pub fn push(&mut self, slot: u32, values: &[[u8; 8]], at: u32) {
        self.push_all(slot, values, at, |foresight, _, step| foresight.expected() != step);
    }

    /// Appends the values of a tag that was not expected, from this slot on. They are there. Where that leads is what the control stream
    /// says.
    ///
    /// # Panics
    /// If there are no such slots.
    pub fn push_new(&mut self, slot: u32, values: &[[u8; 8]], at: u32, place: usize) {
        self.push_all(slot, values, at, |_, known, step| std::mem::replace(known, step) != step);
        self.foresight.follow(place);
    }

    #[inline(always)]
    fn push_all(
        &mut self,
        slot: u32,
        values: &[[u8; 8]],
        at: u32,
        mut is_surprise: impl FnMut(&Foresight, &mut u64, u64) -> bool,
    ) {
        let slots = self.slots[slot as usize..][..values.len()].iter_mut();
        let streams = &mut self.streams[slot as usize..];
        for (i, ((known, stream), value)) in slots.zip(streams).zip(values).enumerate() {
            if std::mem::replace(stream, self.stream) != self.stream {
                *known = Slot::default();
            }
            let value = u64::from_le_bytes(*value);
            let step = value.wrapping_sub(known.last);
            known.last = value;
            self.surprises.make_room(1);
            let is_surprise = is_surprise(&self.foresight, &mut known.step, step);
            self.surprises.push(self.foresight.now, step, is_surprise);
            let spot = Spot { slot: slot + i as u32, at: at.wrapping_add(i as u32 * 8) };
            self.spots[self.foresight.now as usize % PAST] = spot;
            self.foresight.learn(step);
        }
    }

    /// The stream. From here on, it is a new one.
    #[must_use]
    pub fn finish(&mut self) -> Vec<u8> {
        self.surprises.close();
        let mut stream = Vec::new();
        let columns = self.surprises.columns.each_mut().map(|column| {
            let len = std::mem::take(&mut column.len);
            put_number(&mut stream, len as u64);
            if len == 0 {
                return Vec::new();
            }
            self.compressor.compress(&column.bytes[..len]).expect("memory for what is packed")
        });
        for column in &columns[..COLUMNS - 1] {
            put_number(&mut stream, column.len() as u64);
        }
        columns.iter().for_each(|column| stream.extend_from_slice(column));
        (self.surprises.behind, self.surprises.before) = (0, [0; 2]);
        self.stream += 1;
        self.foresight.forget();
        stream
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
