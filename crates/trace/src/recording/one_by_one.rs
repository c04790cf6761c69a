//! Records are packed many at a time where they come as expected. What comes of it is the same as record by record and value by value.

use super::Traced;
use super::buffer::Buffer;
use super::habit::Habit;
use super::records::{Packed, Packing};
use super::shapes::Shapes;
use crate::control::PAST;
use crate::layout::Layout;
use crate::process::Process;
use crate::units::Kind;
use crate::{ControlEncoder, ValueEncoder, values};
use proptest::prelude::*;
use std::sync::{Arc, RwLock};

/// How many values a record has, by its tag.
const VALUES: [usize; 12] = [0, 2, 1, 0, 3, 1, 2, 15, 4, 5, 30, 33];
/// How many slots each has to itself.
const ROOM: u32 = 40;
const SLOTS: u32 = VALUES.len() as u32 * ROOM;

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
    let strides = prop::collection::vec(prop_oneof![Just(0_u64), Just(8), 1_u64..1 << 33], SLOTS as usize);
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
                let slot = tag as usize * ROOM as usize + i;
                number += 1;
                let jump =
                    if number % other == 0 { number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20 } else { 0 };
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

/// Packs them together, in two buffers, with values or without.
fn packed(
    packing: &mut Packing,
    records: &[(u32, Vec<[u8; 8]>)],
    cut: usize,
    memory: bool,
) -> (Packed, [Vec<u8>; 4]) {
    let kind = Kind { memory, order: false, layout: Arc::new(Layout::default()) };
    let process = Process::new(0, 1, kind);
    let count = |tag: usize| (tag as u32 * ROOM, tag as u32, VALUES[tag] as u16);
    let shapes = Shapes::of((0..VALUES.len()).map(count));
    let traced = RwLock::new(Traced { process, shapes });
    let bytes = |records: &[(u32, Vec<[u8; 8]>)]| {
        let one = |(tag, values): &(u32, Vec<[u8; 8]>)| {
            let values = if memory { &values[..] } else { &[] };
            [&relive_abi::trace::word(*tag, values.len() as u16).to_le_bytes()[..], values.as_flattened()]
                .concat()
        };
        records.iter().flat_map(one).collect::<Vec<u8>>()
    };
    let (first, second) = records.split_at(cut);
    let buffers = [Buffer::new(bytes(first)), Buffer::new(bytes(second))];
    let packed = packing.pack(&buffers, &traced, &Habit::default());
    let parts = packing.finish(memory, &packed);
    (packed, parts)
}

/// Whether they are packed as one by one.
fn check(records: &[(u32, Vec<[u8; 8]>)], cut: f64) {
    let cut = (records.len() as f64 * cut) as usize;
    let (mut control, mut values) = (ControlEncoder::<u32>::new(), ValueEncoder::new());
    values.make_room(SLOTS as usize);
    let mut packings = [Packing::default(), Packing::narrow()];
    // What is left of a segment must not matter in the next.
    for _ in 0..2 {
        for (tag, all) in records {
            match control.push(*tag) {
                Some(place) => values.push_new(tag * ROOM, all, place),
                None => values.push(tag * ROOM, all),
            }
        }
        let (control, values) = (control.finish(), values.finish());
        for packing in &mut packings {
            for memory in [true, false] {
                let (packed, parts) = packed(packing, records, cut, memory);
                assert!(packed.wrong.is_none());
                assert_eq!(packed.records, records.len() as u64);
                assert_eq!(packed.instructions, records.iter().map(|(tag, _)| u64::from(*tag)).sum::<u64>());
                assert!(parts[1] == control);
                assert!(!memory || parts[2] == values);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_same_as_one_by_one(loops in prop::collection::vec(a_loop(), 1..6), again: bool, cut in 0.0..1.0_f64) {
        check(&records(&if again { [&loops[..]; 2].concat() } else { loops }), cut);
    }
}

#[test]
fn hardly_more_than_enough() {
    let strides = vec![8; SLOTS as usize];
    for more in 0..12 {
        let one = |tags: &[u32]| Loop {
            tags: tags.to_vec(),
            times: 128 / tags.len() + more,
            strides: strides.clone(),
            other: u64::MAX,
            apart: usize::MAX,
        };
        let all = [one(&[1]), one(&[2, 4]), one(&[1]), one(&[5]), one(&[2, 4]), one(&[1])];
        check(&records(&[&all[..]; 3].concat()), 1.0);
    }
}

/// What comes again after as long as anything is remembered, or a little longer: where that was lies what has just come.
#[test]
fn again_when_just_forgotten() {
    let again = [3, 5, 2, 7, 8, 8, 9, 9, 9, 10, 2, 10, 2, 10, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10];
    let count = |tags: &[u32]| tags.iter().map(|&tag| VALUES[tag as usize]).sum::<usize>();
    for later in 0..34 {
        // So many tags, or so many values.
        let tags = [&again[..], &vec![1; PAST - again.len() + later]].concat();
        let mut values = [&again[..], &[4; 20_000]].concat();
        values.resize(values.len() + values::PAST + later - count(&values), 2);
        for before in [tags, values] {
            let (mut last, mut number) = ([0_u64; SLOTS as usize], 0);
            let all: Vec<_> = [&before[..], &again, &again].concat();
            let all = all.iter().map(|&tag| {
                let values = (0..VALUES[tag as usize]).map(|i| {
                    number += 1;
                    let slot = &mut last[(tag * ROOM) as usize + i];
                    // What lies between moves in a way of its own.
                    *slot += if matches!(tag, 2 | 4) { number % 1000 } else { 8 * (i as u64 / 3) };
                    u64::to_le_bytes(*slot)
                });
                (tag, values.collect())
            });
            check(&all.collect::<Vec<_>>(), 1.0);
        }
    }
}
