//! Writes a memory stream.
//!
//! What is known of slots, and what was of values, lies so that [`LANES`] values of a record can be looked at together: where the values of a record lie one
//! behind the other, so do their slots and what is expected of them.

use super::lanes::{LANES, Lanes, Past, Wide};
use super::{BEFORE_LAST, CLASS_BITS, COLUMNS, DIFFERENCES, HEADS, LAST, LONG, PAST, PLACES, RUNS};
use crate::columns::put_number;
use crate::difference::fold;
use crate::table::zeroed;
use zstd::bulk::Compressor;

/// How much [`zstd`] tries. Level 1 saves a fifth of the room, and takes a tenth more time for all of packing.
const LEVEL: i32 = -4;

/// How many values a record may have that are looked at together.
pub(crate) const MOST: usize = 32;

/// A line of a processor's cache. Slots of a unit begin with one, so that what was just written of others is not read with them: a processor
/// waits where it is.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
struct Line(Lanes);

/// How many values are kept: those that can be asked for, and room for what is written behind the last, which has no meaning.
pub(super) const ROOM: usize = PAST + 2 * MOST;

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

/// Values that were not expected, in columns.
#[derive(Default)]
struct Surprises {
    columns: [Column; COLUMNS],
    /// How many there are, of all streams.
    count: u64,
    /// The number of the value behind the last.
    behind: u32,
    /// The last difference, and the one before.
    before: [u64; 2],
}

impl Surprises {
    #[inline(always)]
    fn push(&mut self, number: u32, step: u64) {
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
        self.count += 1;
    }
}

/// Values among which some were not expected, and are not in columns yet: where the first lies in the past, and above that a bit for each of [`LANES`] that
/// was not. As nobody can foretell whether there are any, something is written for each, which is one of them or lies behind the last.
type Open = u64;

/// How many of these there may be.
const OPEN: usize = 1 << 14;
/// How many values are appended together at most: all are in the past until those that were not expected are in columns.
const AT_ONCE: usize = OPEN / 2;

/// Writes a memory stream.
pub struct ValueEncoder {
    /// By slot, [`LANES`] in each: the last value; and how far it moved the last time that this was not expected.
    last: Vec<Line>,
    steps: Vec<Line>,
    /// In which stream each line was last used: before that, nothing is known of it.
    streams: Vec<u32>,
    stream: u32,
    /// The differences of the last values.
    past: Box<[u64; ROOM]>,
    places: Box<[u32; PLACES]>,
    /// The number of the next value, and where it and what is expected of it lie in the past.
    now: u32,
    here: usize,
    there: usize,
    open: Box<[Open; OPEN]>,
    /// How many are open, and the number of the first value that may be one of them.
    count: usize,
    closed: u32,
    surprises: Surprises,
    compressor: Compressor<'static>,
}

impl Default for ValueEncoder {
    fn default() -> Self {
        Self::new()
    }
}

/// Values that have been appended, as long as these are as many as one can go through without thinking of anything else.
pub(crate) struct Following<'a> {
    last: &'a mut [Line],
    past: &'a mut [u64; ROOM],
    open: &'a mut [Open; OPEN],
    here: usize,
    /// How far it is from there to what is expected, modulo the number of addresses.
    to_there: usize,
    end: usize,
    /// How many are open.
    count: usize,
}

/// Where it ended.
pub(crate) struct Ended {
    here: usize,
    count: usize,
}

impl Following<'_> {
    /// Where it ends.
    #[inline(always)]
    pub(crate) fn end(&self) -> Ended {
        Ended { here: self.here, count: self.count }
    }

    /// Appends the values of a record that was expected, with which `bytes` begin, from this line of slots on. Whether it could.
    ///
    /// # Panics
    /// If there are no such slots.
    #[inline(always)]
    pub(crate) fn push(&mut self, wide: impl Wide, line: u32, bytes: &[u8; MOST * 8], count: usize) -> bool {
        // Where what is expected of the last of these values is the first of them, they are for others: it was so long ago that it has been written
        // over.
        if self.here + MOST >= self.end || count > self.to_there.wrapping_neg() {
            return false;
        }
        self.push_lanes(wide, line as usize, bytes, 0, count);
        // Few have more.
        if count > LANES {
            for from in (LANES..count.min(MOST)).step_by(LANES) {
                self.push_lanes(wide, line as usize + from / LANES, bytes, from, count - from);
            }
        }
        self.here += count;
        true
    }

    /// What lies behind the last value has no meaning.
    #[inline(always)]
    fn push_lanes(
        &mut self,
        wide: impl Wide,
        line: usize,
        bytes: &[u8; MOST * 8],
        from: usize,
        count: usize,
    ) {
        let values = bytes[from * 8..].first_chunk().expect("so many lanes");
        let here = self.here + from;
        let Line(last) = &mut self.last[line];
        let there = here.wrapping_add(self.to_there);
        let surprises = wide.step(values, count, last, Past { all: self.past, there, here });
        self.open[self.count % OPEN] = here as u64 | u64::from(surprises) << 32;
        self.count += usize::from(surprises != 0);
    }
}

impl ValueEncoder {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            last: Vec::new(),
            steps: Vec::new(),
            streams: Vec::new(),
            stream: 1,
            past: zeroed(),
            places: zeroed(),
            now: 0,
            here: 0,
            there: ROOM - PAST,
            open: zeroed(),
            count: 0,
            closed: 0,
            surprises: Surprises::default(),
            compressor: Compressor::new(LEVEL).expect("a level that zstd has"),
        }
    }

    /// There are so many slots at least.
    pub fn make_room(&mut self, slots: usize) {
        // One more is looked at where a record has no values.
        let lines = self.last.len().max(slots.div_ceil(LANES) + 1);
        self.last.resize(lines, Line::default());
        self.steps.resize(lines, Line::default());
        self.streams.resize(lines, 0);
    }

    /// How many values have not been expected so far, in all streams.
    pub(crate) fn surprises(&mut self) -> u64 {
        self.close();
        self.surprises.count
    }

    /// The number of the next value.
    pub(crate) fn now(&self) -> u32 {
        self.now
    }

    /// To append the values of records that were expected, one after the other. Afterwards it has to be said [how far](Self::go_on) that got.
    #[inline(always)]
    pub(crate) fn follow(&mut self) -> Following<'_> {
        self.make_room_for_open();
        let Self { here, there, count, .. } = *self;
        // Neither gets to the end of the past.
        let end = here + (ROOM - here.max(there)).min(AT_ONCE);
        let (last, past, open) = (&mut self.last[..], &mut *self.past, &mut *self.open);
        Following { last, past, open, here, to_there: there.wrapping_sub(here), end, count }
    }

    /// Goes on where following ended.
    #[inline(always)]
    pub(crate) fn go_on(&mut self, Ended { here, count }: Ended) {
        let values = here - self.here;
        (self.here, self.there, self.count) = (here, self.there + values, count);
        self.now = self.now.wrapping_add(values as u32);
    }

    /// Appends the values of a tag that was expected, from this slot on.
    ///
    /// # Panics
    /// If there are no such slots.
    pub fn push(&mut self, slot: u32, values: &[[u8; 8]]) {
        self.push_all::<false>(slot, values);
    }

    /// Appends the values of a tag that was not expected, from this slot on. Where that leads is what the control stream says.
    ///
    /// # Panics
    /// If there are no such slots.
    pub fn push_new(&mut self, slot: u32, values: &[[u8; 8]], place: usize) {
        self.push_all::<true>(slot, values);
        let before = std::mem::replace(&mut self.places[place % PLACES], self.now);
        // Of what was longer ago than the table has room for, that is left which has taken its place.
        let ago = self.now.wrapping_sub(before).wrapping_sub(1) as usize % PAST + 1;
        self.there = if ago > self.here { self.here + ROOM } else { self.here } - ago;
    }

    #[inline(always)]
    fn push_all<const NEW: bool>(&mut self, slot: u32, values: &[[u8; 8]]) {
        for (slot, value) in (slot as usize..).zip(values) {
            self.make_room_for_open();
            let (line, lane) = (slot / LANES, slot % LANES);
            if std::mem::replace(&mut self.streams[line], self.stream) != self.stream {
                (self.last[line], self.steps[line]) = Default::default();
            }
            let (Line(last), Line(steps)) = (&mut self.last[line], &mut self.steps[line]);
            let value = u64::from_le_bytes(*value);
            let step = value.wrapping_sub(std::mem::replace(&mut last[lane], value));
            let expected =
                if NEW { std::mem::replace(&mut steps[lane], step) } else { self.past[self.there % ROOM] };
            self.open[self.count % OPEN] = self.here as u64 | 1 << 32;
            self.count += usize::from(step != expected);
            self.past[self.here % ROOM] = step;
            self.now = self.now.wrapping_add(1);
            (self.here, self.there) = (next(self.here), next(self.there));
        }
    }

    /// Makes room for [`AT_ONCE`] values, if these are appended together.
    #[inline(always)]
    fn make_room_for_open(&mut self) {
        if self.count > OPEN - AT_ONCE || self.now.wrapping_sub(self.closed) > AT_ONCE as u32 {
            self.close();
        }
    }

    /// Puts into columns what is not there yet.
    #[inline(never)]
    fn close(&mut self) {
        for &open in &self.open[..std::mem::take(&mut self.count)] {
            let (first, mut lanes) = (open as u32 as usize, open >> 32);
            while lanes != 0 {
                let lane = lanes.trailing_zeros() as usize;
                let ago = (self.here + ROOM - first) % ROOM - lane;
                self.surprises.push(self.now.wrapping_sub(ago as u32), self.past[first + lane]);
                lanes &= lanes - 1;
            }
        }
        self.closed = self.now;
    }

    /// The stream. From here on, it is a new one.
    #[must_use]
    pub fn finish(&mut self) -> Vec<u8> {
        self.close();
        let surprises = &mut self.surprises;
        let mut stream = Vec::new();
        let columns = surprises.columns.each_mut().map(|column| {
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
        (surprises.behind, surprises.before) = (0, [0; 2]);
        self.stream += 1;
        // Nobody asks for anything in the past that is not written before.
        self.places.fill(0);
        (self.now, self.closed, self.here, self.there) = (0, 0, 0, ROOM - PAST);
        stream
    }
}

/// The next place in the past.
fn next(place: usize) -> usize {
    if place + 1 == ROOM { 0 } else { place + 1 }
}
