//! Goes on with rounds: records that come again and again, one round behind the other, as those of a loop do.
//!
//! Where the part that is followed lies one round back, and two rounds have been gone through record by record, all that follows can be compared with
//! what lies one and two rounds before it, where it lies, many bytes at a time. Nothing else has to be looked at as long as every word
//! moves as far as in the round before: tags do not move, and a value that was expected the last time is expected again. What comes of it is the same
//! as record by record, to the bit; only how fast differs.
//!
//! # Which values are not expected
//!
//! Let `V(i)` be a value, `i - 1` the same value one round before, `p(i)` the value before `i` of the same slot, in this round or the one before.
//! A value is expected if `V(i) - V(p(i))`, its difference, is what it was one round before: `V(i - 1) - V(p(i) - 1)`. That is, if `i` and
//! `p(i)` have moved by as much since the round before. If both have moved by as much as the last time, the answer is what it was in the last
//! round. So in each round only those values are asked for that did not move as before, those whose `p` did not, and those that were not
//! expected the last time.

use super::records::Packed;
use super::shapes::Passed;
use crate::values::Spot;
use crate::{ControlEncoder, ValueEncoder, control, values};

/// What is compared at once.
const CHUNK: usize = 64;
/// And how much has to be there for that: the last word begins a value.
const REACH: usize = CHUNK + 8;
/// How many bytes a round has at most, so that what is known of it stays in a processor's own cache.
const LONGEST: usize = 1 << 16;
/// How many records have to have been expected one after the other, two rounds apart from that, before it is worth the while.
const LEAST: u32 = 128;
/// Of so many values, one may not be expected, or be asked for. Where there are more, it takes less time to go through them record by record: that
/// is so in python (one of 10), and gains nothing with one of 20.
const SELDOM: usize = 32;
/// How many may be asked for before that is looked at.
const FEW: usize = 256;

/// What a word of a round is, if it does not begin a value: its number is told then.
const TAG: u32 = u32::MAX;
const UPPER: u32 = u32::MAX - 1;

/// A record of a round.
#[derive(Clone, Copy)]
struct Record {
    /// How far behind the beginning of the round.
    at: usize,
    /// How many values and how many instructions there are before it in the round.
    values: usize,
    steps: u64,
    passed: Passed,
}

/// A value of a round.
#[derive(Clone, Copy)]
struct Value {
    /// How far behind the beginning of the round.
    at: usize,
    slot: u32,
    /// How far before it the value before of the same slot is.
    back: usize,
    /// The value of the round that comes next for the same slot: itself, if it has the slot for itself.
    next: usize,
}

/// One round.
#[derive(Default)]
struct Round {
    /// How long.
    len: usize,
    steps: u64,
    records: Vec<Record>,
    values: Vec<Value>,
    /// What each word is.
    words: Vec<u32>,
    /// By slot: a value of the round. What is left from others has no meaning.
    of_slot: Vec<u32>,
}

/// A set of values of a round.
#[derive(Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn insert(&mut self, n: usize) {
        self.0[n / 64] |= 1 << (n % 64);
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    fn clear(&mut self, len: usize) {
        self.0.clear();
        self.0.resize(len.div_ceil(64), 0);
    }

    /// In order.
    fn each(&self, mut what: impl FnMut(usize)) {
        for (i, &word) in self.0.iter().enumerate() {
            let mut left = word;
            while left != 0 {
                what(i * 64 + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }
}

/// Rounds that have been passed of which not everything has been learnt that would have been record by record: that is only done if somebody can
/// ask for it.
struct Debt {
    /// In which buffer of the segment, where it begins there, and what comes before the buffer.
    buffer: usize,
    at: usize,
    start: u32,
    /// The numbers of the first tag and value, and how many there are.
    first: [u32; 2],
    count: [usize; 2],
    /// Whether something else may be followed from now on.
    is_due: bool,
}

/// Goes on with rounds.
#[derive(Default)]
pub(super) struct Rounds {
    round: Round,
    now: Bits,
    next: Bits,
    debt: Option<Debt>,
    /// How many records have been expected, one after the other.
    run: u32,
    /// How many there have to be before it is tried (again).
    wanted: u32,
    /// The number of the first value in them, and how many had not been expected before.
    begins: u32,
    surprises: u64,
}

/// Where records lie that are to be passed.
pub(super) struct Place<'a> {
    /// The buffer, which it is in the segment, and what comes before it there.
    pub(super) bytes: &'a [u8],
    pub(super) buffer: usize,
    pub(super) start: u32,
    pub(super) at: usize,
}

impl Rounds {
    /// Begins with another segment.
    pub(super) fn begin(&mut self, surprises: u64) {
        self.debt = None;
        self.broken(0, surprises);
    }

    /// So many records were expected.
    pub(super) fn passed(&mut self, count: u32) {
        self.run = self.run.saturating_add(count);
    }

    /// A record was not. What comes behind begins with this value, and so many have not been expected so far.
    pub(super) fn broken(&mut self, begins: u32, surprises: u64) {
        (self.run, self.wanted, self.begins, self.surprises) = (0, 0, begins, surprises);
        if let Some(debt) = &mut self.debt {
            debt.is_due = true;
        }
    }

    /// How many records should be passed one by one before this is asked again, at most.
    pub(super) fn patience(&self, control: &ControlEncoder<Passed>) -> u32 {
        let wanted = self.wanted(control);
        if self.run < wanted { wanted - self.run } else { u32::MAX }
    }

    fn wanted(&self, control: &ControlEncoder<Passed>) -> u32 {
        control.distance().saturating_mul(2).max(LEAST).max(self.wanted)
    }

    /// Whether what was left out has to be learnt before the next record is looked at.
    pub(super) fn must_settle(&self, control: &ControlEncoder<Passed>) -> bool {
        self.debt.as_ref().is_some_and(|debt| debt.is_due || self.run >= self.wanted(control))
    }

    /// Passes records as long as they are those of further rounds: how long they are.
    pub(super) fn pass(
        &mut self,
        place: &Place<'_>,
        control: &mut ControlEncoder<Passed>,
        values: &mut ValueEncoder,
        packed: &mut Packed,
    ) -> usize {
        if self.run < self.wanted(control) {
            return 0;
        }
        self.wanted = self.run.saturating_mul(2);
        let surprises = (values.surprises() - self.surprises) as usize;
        let is_regular = surprises * SELDOM <= values.now().wrapping_sub(self.begins) as usize;
        if !is_regular || !self.round.learn(place, control, values) {
            return 0;
        }
        let (len, in_round) = (self.round.len, self.round.records.len());
        let (rounds, last) = self.compare(place, values);
        let count =
            [rounds * in_round + last, rounds * self.round.values.len() + self.round.values_before(last)];
        if count[0] == 0 {
            return 0;
        }
        let first = [control.now(), values.now()];
        control.go_on(count[0] as u32);
        values.go_on(count[1] as u32);
        let debt =
            Debt { buffer: place.buffer, at: place.at, start: place.start, first, count, is_due: false };
        // What comes next follows the last round; a slot goes on from its last value.
        let from = [
            count[0].saturating_sub(in_round.max(control::LOOKS_BACK)),
            count[1].saturating_sub(self.round.values.len()),
        ];
        self.round.write(&debt, place.bytes, from, count, control, values);
        self.round.values_from(&debt, from[1], count[1], |value, at, _| {
            values.set_last(value.slot, word(place.bytes, at))
        });
        if from != [0; 2] {
            self.debt = Some(Debt { count: from, ..debt });
        }
        packed.records += count[0] as u64;
        packed.instructions += rounds as u64 * self.round.steps + self.round.steps_before(last);
        self.run = self.run.saturating_add(count[0] as u32);
        self.wanted = self.run.saturating_mul(2);
        rounds * len + self.round.at(last)
    }

    /// Learns the one tag of those left out that is asked for if the next is not expected.
    pub(super) fn settle_one(&self, control: &mut ControlEncoder<Passed>) {
        let Some(debt) = &self.debt else { return };
        // Whoever was the last to come to its place in the table.
        let last = control.now().wrapping_sub(1);
        let number = last.wrapping_sub(last.wrapping_sub(control.looked_up()) % control::PAST as u32);
        let n = number.wrapping_sub(debt.first[0]) as usize;
        if n < debt.count[0] {
            control.put(number, self.round.passed(debt, n));
        }
    }

    /// Learns what has been left out.
    pub(super) fn settle<'a>(
        &mut self,
        buffer: impl Fn(usize) -> &'a [u8],
        control: &mut ControlEncoder<Passed>,
        values: &mut ValueEncoder,
    ) {
        let Some(debt) = self.debt.take() else { return };
        // What would have been written over by now is gone.
        let gone =
            |now: u32, first: u32, room: usize| (now.wrapping_sub(first) as usize).saturating_sub(room);
        let from = [
            gone(control.now(), debt.first[0], control::PAST),
            gone(values.now(), debt.first[1], values::PAST),
        ];
        self.round.write(&debt, buffer(debt.buffer), from, debt.count, control, values);
    }

    /// How many whole rounds follow, and how many records of the one that is not whole. Values that are not expected are told.
    fn compare(&mut self, place: &Place<'_>, values: &mut ValueEncoder) -> (usize, usize) {
        let Self { round, now, next, .. } = self;
        let &Place { bytes, at, .. } = place;
        let end = bytes.len().saturating_sub(REACH).max(at);
        let (len, count) = (round.len, round.values.len());
        let (mut rounds, mut asked) = (0, 0);
        let first = values.now();
        now.clear(count);
        next.clear(count);
        // Of the first, nothing is known of the round before.
        (0..count).for_each(|n| now.insert(n));
        loop {
            if now.is_empty() {
                rounds += (same_until(bytes, at + rounds * len, end, len) - at) / len - rounds;
            }
            let start = at + rounds * len;
            let stop = round.changes(bytes, start, end, |n| {
                now.insert(n);
                let after = round.values[n].next;
                if after > n { now.insert(after) } else { next.insert(after) }
            });
            let records = stop.map_or(round.records.len(), |stop| round.whole(stop));
            let most = round.values_before(records);
            let number = first.wrapping_add((rounds * count) as u32);
            now.each(|n| {
                if n >= most {
                    return;
                }
                asked += 1;
                let Value { at, back, .. } = round.values[n];
                let at = start + at;
                let step = |at: usize| word(bytes, at).wrapping_sub(word(bytes, at - back));
                if step(at) != step(at - len) {
                    values.surprise(number.wrapping_add(n as u32), step(at));
                    next.insert(n);
                }
            });
            if stop.is_some() {
                return (rounds, records);
            }
            rounds += 1;
            std::mem::swap(now, next);
            next.clear(count);
            // Otherwise it takes longer than record by record.
            if asked > count + FEW + rounds * count / SELDOM {
                return (rounds, 0);
            }
        }
    }
}

impl Round {
    /// Learns the round that has just been gone through. Whether it is one.
    fn learn(&mut self, place: &Place<'_>, control: &ControlEncoder<Passed>, values: &ValueEncoder) -> bool {
        let [count, in_all] = [control.distance(), values.distance()].map(|distance| distance as usize);
        let len = count * size_of::<u32>() + in_all * 8;
        let is_round = count > 0 && len <= LONGEST && place.at >= 2 * len;
        if !is_round || place.at + len + REACH > place.bytes.len() {
            return false;
        }
        let begins = place.start.wrapping_add((place.at - len) as u32);
        self.len = len;
        self.steps = 0;
        self.records.clear();
        self.words.clear();
        let mut number = 0;
        for passed in control.latest(count as u32) {
            let at = self.words.len() * 4;
            // Something else may lie in between.
            if passed.len < 4 || passed.at != begins.wrapping_add(at as u32) {
                return false;
            }
            self.records.push(Record { at, values: number, steps: self.steps, passed: *passed });
            self.steps += u64::from(passed.steps);
            self.words.push(TAG);
            for _ in 0..passed.len as usize / 8 {
                self.words.extend([number as u32, UPPER]);
                number += 1;
            }
        }
        if number != in_all || self.words.len() * 4 != len {
            return false;
        }
        self.learn_values(values);
        true
    }

    fn learn_values(&mut self, values: &ValueEncoder) {
        let count = values.distance();
        self.values.clear();
        let mut at = self.words.iter().enumerate().filter(|(_, word)| **word < UPPER).map(|(i, _)| i * 4);
        self.of_slot.resize(values.slots().max(self.of_slot.len()), 0);
        for (n, spot) in values.latest(count).enumerate() {
            self.of_slot[spot.slot as usize] = n as u32;
            let at = at.next().unwrap_or_default();
            self.values.push(Value { at, slot: spot.slot, back: 0, next: 0 });
        }
        // By now, the last of each slot is known.
        for n in 0..self.values.len() {
            let Value { at, slot, .. } = self.values[n];
            let before = std::mem::replace(&mut self.of_slot[slot as usize], n as u32) as usize;
            let wraps = if before >= n { self.len } else { 0 };
            self.values[n].back = at + wraps - self.values[before].at;
            self.values[before].next = n;
        }
    }

    /// Where a record begins; behind the last, how long it is.
    fn at(&self, record: usize) -> usize {
        self.records.get(record).map_or(self.len, |record| record.at)
    }

    fn values_before(&self, record: usize) -> usize {
        self.records.get(record).map_or(self.values.len(), |record| record.values)
    }

    fn steps_before(&self, record: usize) -> u64 {
        self.records.get(record).map_or(self.steps, |record| record.steps)
    }

    /// How many records end before some place.
    fn whole(&self, stop: usize) -> usize {
        self.records.partition_point(|record| record.at <= stop).saturating_sub(1)
    }

    /// Tells which values of a round have not moved as in the round before; where the round ends, if another tag comes, or nothing.
    fn changes(
        &self,
        bytes: &[u8],
        start: usize,
        end: usize,
        mut changed: impl FnMut(usize),
    ) -> Option<usize> {
        let len = self.len;
        let mut at = start;
        while at < end.min(start + len) {
            if moves_otherwise(bytes, at, len) {
                for at in (at..(at + CHUNK).min(start + len)).step_by(4) {
                    match self.words[(at - start) / 4] {
                        TAG if bytes[at..at + 4] != bytes[at - len..at - len + 4] => return Some(at - start),
                        TAG | UPPER => {}
                        value => {
                            let before = [0, 1, 2].map(|rounds| word(bytes, at - rounds * len));
                            if moved(before) != 0 {
                                changed(value as usize);
                            }
                        }
                    }
                }
            }
            at += CHUNK;
        }
        (start + len > end).then(|| end.saturating_sub(start))
    }

    /// Puts tags and values from some on into what is followed, as it would have been record by record.
    fn write(
        &self,
        debt: &Debt,
        bytes: &[u8],
        from: [usize; 2],
        to: [usize; 2],
        control: &mut ControlEncoder<Passed>,
        values: &mut ValueEncoder,
    ) {
        for n in from[0]..to[0] {
            control.put(debt.first[0].wrapping_add(n as u32), self.passed(debt, n));
        }
        self.values_from(debt, from[1], to[1], |value, at, n| {
            let step = word(bytes, at).wrapping_sub(word(bytes, at - value.back));
            let spot = Spot { slot: value.slot, at: debt.start.wrapping_add(at as u32) };
            values.put(debt.first[1].wrapping_add(n as u32), step, spot);
        });
    }

    /// One of the records that were passed.
    fn passed(&self, debt: &Debt, number: usize) -> Passed {
        let (rounds, record) = (number / self.records.len(), number % self.records.len());
        let Record { at, passed, .. } = self.records[record];
        Passed { at: debt.start.wrapping_add((debt.at + rounds * self.len + at) as u32), ..passed }
    }

    /// Tells of values from one to another, where in the buffer they are, and their numbers.
    fn values_from(&self, debt: &Debt, from: usize, to: usize, mut tell: impl FnMut(&Value, usize, usize)) {
        for n in from..to {
            let (rounds, value) = (n / self.values.len(), &self.values[n % self.values.len()]);
            tell(value, debt.at + rounds * self.len + value.at, n);
        }
    }
}

/// The word that begins somewhere.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("it is there"))
}

/// Whether something has moved otherwise than the last time: now, one round before, and two.
#[inline(always)]
fn moved([now, before, first]: [u64; 3]) -> u64 {
    now.wrapping_sub(before) ^ before.wrapping_sub(first)
}

/// Whether anything in a chunk has. Values begin at any multiple of four, so that there are two ways to look at it.
#[inline(always)]
fn moves_otherwise(bytes: &[u8], at: usize, len: usize) -> bool {
    let [now, before, first] = [0, 1, 2].map(|rounds| {
        bytes[at - rounds * len..].first_chunk::<REACH>().expect("as much is left behind each")
    });
    let one = |chunk: &[u8; REACH], at: usize| u64::from_le_bytes(*chunk[at..].first_chunk().expect("in it"));
    let mut differs = 0;
    for at in (0..CHUNK).step_by(8) {
        differs |= moved([one(now, at), one(before, at), one(first, at)]);
    }
    for at in (4..CHUNK).step_by(8) {
        differs |= moved([one(now, at), one(before, at), one(first, at)]);
    }
    differs != 0
}

/// From where on up to which chunk everything moves as before.
#[inline(never)]
fn same_until(bytes: &[u8], from: usize, end: usize, len: usize) -> usize {
    let mut at = from;
    while at < end && !moves_otherwise(bytes, at, len) {
        at += CHUNK;
    }
    at.min(end.max(from))
}

#[cfg(test)]
mod tests {
    use super::super::Traced;
    use super::super::buffer::Buffer;
    use super::super::habit::Habit;
    use super::super::records::Packing;
    use super::super::shapes::Shapes;
    use super::*;
    use crate::layout::Layout;
    use crate::process::Process;
    use crate::units::Kind;
    use proptest::prelude::*;
    use std::sync::{Arc, RwLock};

    /// How many values a record has, by its tag.
    const VALUES: [usize; 8] = [0, 2, 1, 0, 3, 1, 2, 15];
    const SLOTS: u32 = VALUES.len() as u32 * 16;

    /// A loop: its records, and how often it is gone through.
    #[derive(Clone, Debug)]
    struct Loop {
        tags: Vec<u32>,
        times: usize,
        /// How far each slot moves, by slot.
        strides: Vec<u64>,
        /// Every so often, a value is another one.
        other: u64,
        /// One of the records has values that have nothing to do with those of others.
        apart: usize,
    }

    fn a_loop() -> impl Strategy<Value = Loop> {
        let strides =
            prop::collection::vec(prop_oneof![Just(0_u64), Just(8), 1_u64..1 << 33], SLOTS as usize);
        let other = prop_oneof![Just(u64::MAX), 2..2000_u64];
        (prop::collection::vec(1..VALUES.len() as u32, 1..120), 1..2000_usize, strides, other, 0..200_usize)
            .prop_map(|(tags, times, strides, other, apart)| Loop { tags, times, strides, other, apart })
    }

    /// What a thread writes that goes through loops, each record by itself.
    fn records(loops: &[Loop]) -> Vec<(u32, Vec<[u8; 8]>)> {
        let (mut last, mut number) = (vec![1 << 32; SLOTS as usize], 0_u64);
        let mut all = Vec::new();
        for Loop { tags, times, strides, other, apart } in loops {
            for n in 0..(*times).min(20_000 / tags.len()) * tags.len() {
                let tag = tags[n % tags.len()];
                let values = (0..VALUES[tag as usize]).map(|i| {
                    let slot = tag as usize * 16 + i;
                    number += 1;
                    let jump = if number % other == 0 {
                        number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
                    } else {
                        0
                    };
                    if n % tags.len() == *apart {
                        return u64::to_le_bytes(number * 24);
                    }
                    last[slot] = u64::wrapping_add(last[slot], strides[slot]).wrapping_add(jump);
                    u64::to_le_bytes(last[slot])
                });
                all.push((tag, values.collect()));
            }
        }
        all
    }

    /// Packs them together, in two buffers.
    fn packed(packing: &mut Packing, records: &[(u32, Vec<[u8; 8]>)], cut: usize) -> (Packed, [Vec<u8>; 4]) {
        let kind = Kind { memory: true, order: false, layout: Arc::new(Layout::default()) };
        let process = Process::new(0, 1, kind);
        let count = |tag: usize| (tag as u32 * 16, tag as u32, VALUES[tag] as u16);
        let shapes = Shapes::of((0..VALUES.len()).map(count));
        let traced = RwLock::new(Traced { process, shapes });
        let bytes = |records: &[(u32, Vec<[u8; 8]>)]| {
            let one = |(tag, values): &(u32, Vec<[u8; 8]>)| {
                [&relive_abi::trace::word(*tag, values.len() as u16).to_le_bytes()[..], values.as_flattened()]
                    .concat()
            };
            records.iter().flat_map(one).collect::<Vec<u8>>()
        };
        let (first, second) = records.split_at(cut);
        let buffers = [Buffer::new(bytes(first)), Buffer::new(bytes(second))];
        packing.make_room(SLOTS as usize);
        let packed = packing.pack(&buffers, &traced, &Habit::default());
        {
            let parts = packing.finish(true, &packed);
            (packed, parts)
        }
    }

    /// Whether they are packed as if nobody knew of rounds.
    fn check(loops: &[Loop], cut: f64) {
        let records = records(loops);
        let cut = (records.len() as f64 * cut) as usize;
        let (mut control, mut values) = (ControlEncoder::<u32>::new(), ValueEncoder::new());
        values.make_room(SLOTS as usize);
        let mut packing = Packing::default();
        // What is left of a segment must not matter in the next.
        for _ in 0..2 {
            let (packed, parts) = packed(&mut packing, &records, cut);
            for (tag, all) in &records {
                match control.push(*tag) {
                    Some(place) => values.push_new(tag * 16, all, 0, place),
                    None => values.push(tag * 16, all, 0),
                }
            }
            assert!(packed.wrong.is_none());
            assert_eq!(packed.records, records.len() as u64);
            assert_eq!(packed.instructions, records.iter().map(|(tag, _)| u64::from(*tag)).sum::<u64>());
            assert!(parts[1] == control.finish());
            assert!(parts[2] == values.finish());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn the_same_as_one_by_one(loops in prop::collection::vec(a_loop(), 1..6), again: bool, cut in 0.0..1.0_f64) {
            check(&if again { [&loops[..]; 2].concat() } else { loops }, cut);
        }
    }

    #[test]
    fn hardly_more_than_enough() {
        let strides = vec![8; SLOTS as usize];
        for more in 0..12 {
            let one = |tags: &[u32]| Loop {
                tags: tags.to_vec(),
                times: LEAST as usize / tags.len() + more,
                strides: strides.clone(),
                other: u64::MAX,
                apart: usize::MAX,
            };
            let all = [one(&[1]), one(&[2, 4]), one(&[1]), one(&[5]), one(&[2, 4]), one(&[1])];
            check(&[&all[..]; 3].concat(), 1.0);
        }
    }
}
