//! Reads streams by what the documentation says of them, and nothing else: it must be complete.

mod support;

use proptest::prelude::*;
use support::{Dice, tags, values, write_tags, write_values};

fn number(bytes: &mut &[u8]) -> u64 {
    let len = 1 + bytes.iter().position(|byte| byte & 0x80 == 0).expect("an end");
    let (number, rest) = bytes.split_at(len);
    *bytes = rest;
    number.iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f))
}

/// Columns, unpacked.
struct Columns(Vec<std::vec::IntoIter<u8>>);

impl Columns {
    fn read(mut stream: &[u8], count: usize) -> Self {
        let mut lens: Vec<usize> = (1..count).map(|_| number(&mut stream) as usize).collect();
        lens.push(stream.len() - lens.iter().sum::<usize>());
        let column = |len| {
            let (mut packed, rest) = stream.split_at(len);
            stream = rest;
            let mut bytes = Vec::new();
            while !packed.is_empty() {
                let len = number(&mut packed) as usize;
                bytes.extend(zstd::decode_all(&packed[..len]).expect("a frame"));
                packed = &packed[len..];
            }
            bytes.into_iter()
        };
        Self(lens.into_iter().map(column).collect())
    }

    fn next(&mut self, column: usize) -> u8 {
        self.0[column].next().expect("a byte")
    }

    fn run(&mut self) -> u64 {
        let mut run = 0;
        loop {
            let byte = self.next(0);
            run += u64::from(byte);
            if byte < 255 {
                return run;
            }
        }
    }

    fn difference(&mut self, first: usize, len: u8) -> u64 {
        let folded = (0..len.into()).rev().fold(0, |folded, i| folded << 8 | u64::from(self.next(first + i)));
        if folded % 2 == 0 { folded / 2 } else { !(folded / 2) }
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|column| column.as_slice().is_empty())
    }
}

fn read_tags(mut stream: &[u8]) -> Vec<u32> {
    let count = number(&mut stream) as usize;
    let mut columns = Columns::read(stream, 6);
    let (mut past, mut places) = (vec![0; 1 << 17], vec![0; 1 << 16]);
    let mut followers = vec![vec![0; 4]; 1 << 15];
    let (mut again, mut path, mut last, mut hash) = (0, 0u32, 0u32, 0);
    let mut run = columns.run();
    let mut tags = Vec::new();
    for number in 0..count {
        let expected = run > 0;
        let of_last = &mut followers[last as usize % (1 << 15)];
        let tag = if expected {
            run -= 1;
            past[again % (1 << 17)]
        } else {
            let tag = match columns.next(1) {
                0 => past[places[hash] % (1 << 17)],
                code @ 1..=4 => of_last[usize::from(code) - 1],
                code => last.wrapping_add(columns.difference(2, code - 3) as u32),
            };
            run = columns.run();
            let from = of_last[..3].iter().position(|&follower| follower == tag);
            of_last.remove(from.unwrap_or(3));
            of_last.insert(0, tag);
            tag
        };
        tags.push(tag);
        places[hash] = number;
        past[number % (1 << 17)] = tag;
        again += 1;
        path = path << 8 ^ tag.wrapping_mul(0x9e37_79b1);
        hash = (path.wrapping_mul(0x9e37_79b1) >> 16) as usize;
        last = tag;
        if !expected {
            again = places[hash];
        }
    }
    assert!(run == 0 && columns.is_empty());
    tags
}

#[derive(Clone, Default)]
struct Slot {
    last: u64,
    steps: [u64; 2],
    stride: u64,
    distance: usize,
    way: u8,
}

const M: u64 = 0x9e37_79b9_7f4a_7c15;

fn upper(h: u64) -> usize {
    (h.wrapping_mul(M) >> 48) as usize
}

fn read_values(stream: &[u8], slots: &[u32]) -> Vec<u64> {
    let mut columns = Columns::read(stream, 11);
    let mut past = vec![(0u64, 0u32); 1 << 18];
    let (mut places, mut steps, mut after) = (vec![0; 1 << 16], vec![0u64; 1 << 16], vec![0; 1 << 16]);
    let mut known = vec![Slot::default(); 1 << 15];
    let (mut again, mut lost) = (0, true);
    let mut run = columns.run();
    let mut values = Vec::new();
    for (number, &slot) in slots.iter().enumerate() {
        let ago = |distance: usize| past[number.wrapping_sub(distance) % (1 << 18)].0;
        let of_slot = &mut known[slot as usize % (1 << 15)];
        let [p, q] = of_slot.steps;
        let at_steps = upper(p.wrapping_mul(M) ^ q.wrapping_mul(M).rotate_left(21) ^ u64::from(slot));
        let at_after = upper(ago(1).wrapping_mul(M) ^ u64::from(slot));
        let expected = run > 0;
        if of_slot.way == 0 || !expected {
            let [a, b, c] = [ago(1), ago(2), ago(3)].map(|value| value.wrapping_mul(M));
            let x = a ^ b.rotate_left(21) ^ c.rotate_left(42) ^ u64::from(slot);
            let place = &mut places[upper(x ^ x >> 29)];
            if (lost || past[again % (1 << 18)].1 != slot) && past[*place % (1 << 18)].1 == slot {
                again = *place;
            }
            *place = number;
        }
        let by = |way, slot: &Slot| match way {
            0 => past[again % (1 << 18)].0,
            1 => slot.last.wrapping_add(slot.stride),
            2 => ago(slot.distance),
            3 => slot.last.wrapping_add(steps[at_steps]),
            _ => after[at_after],
        };
        let value = if expected {
            run -= 1;
            by(of_slot.way, of_slot)
        } else {
            let value = match columns.next(1) {
                way @ 0..=4 => {
                    of_slot.way = way;
                    by(way, of_slot)
                }
                5 => {
                    of_slot.distance = columns.next(2).into();
                    ago(of_slot.distance)
                }
                code @ 6..=12 => of_slot.last.wrapping_add(columns.difference(3, code - 4)),
                code => ago(1).wrapping_add(columns.difference(3, code - 11)),
            };
            run = columns.run();
            value
        };
        values.push(value);
        if of_slot.way == 3 || !expected {
            steps[at_steps] = value.wrapping_sub(of_slot.last);
        }
        if of_slot.way == 4 || !expected {
            after[at_after] = value;
        }
        lost = past[again % (1 << 18)].0 != value;
        again += 1;
        past[number % (1 << 18)] = (value, slot);
        let step = value.wrapping_sub(of_slot.last);
        if step == p {
            of_slot.stride = step;
        }
        of_slot.steps = [step, p];
        of_slot.last = value;
    }
    assert!(run == 0 && columns.is_empty());
    values
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn tags_can_be_read(seed: u64) {
        let tags = tags(&mut Dice(seed), 10_000);
        prop_assert!(read_tags(&write_tags(&tags)) == tags);
    }

    #[test]
    fn values_can_be_read(seed: u64) {
        let (slots, values): (Vec<u32>, Vec<u64>) = values(&mut Dice(seed), 10_000).into_iter().unzip();
        let stream = write_values(&slots.iter().copied().zip(values.iter().copied()).collect::<Vec<_>>());
        prop_assert!(read_values(&stream, &slots) == values);
    }
}

#[test]
fn more_than_the_tables_hold() {
    let mut dice = Dice(11);
    let tags = tags(&mut dice, 300_000);
    assert!(read_tags(&write_tags(&tags)) == tags);
    let pairs = values(&mut dice, 600_000);
    let (slots, values): (Vec<u32>, Vec<u64>) = pairs.iter().copied().unzip();
    assert!(read_values(&write_values(&pairs), &slots) == values);
}
