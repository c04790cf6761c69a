//! Reads streams by what the documentation says of them, and nothing else: it must be complete.

mod support;

use proptest::prelude::*;
use support::{Dice, SLOTS, places, tags, values, write_tags, write_values};

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
    const M: u32 = 0x9e37_79b1;
    let count = number(&mut stream) as usize;
    let mut columns = Columns::read(stream, 6);
    let (mut past, mut places) = (vec![0; 1 << 15], vec![0; 1 << 14]);
    let mut followers = vec![vec![0; 4]; 1 << 13];
    let mut again = 0;
    let mut run = columns.run();
    let mut tags: Vec<u32> = Vec::new();
    let hash = |tags: &[u32]| {
        let ago = |n: usize| tags.len().checked_sub(n).map_or(0, |at| tags[at]).wrapping_mul(M);
        let all = ago(1) ^ ago(2) << 8 ^ ago(3) << 16 ^ ago(4) << 24;
        (all.wrapping_mul(M) >> 16) as usize % (1 << 14)
    };
    for number in 0..count {
        let expected = run > 0;
        let last = tags.last().copied().unwrap_or(0);
        let of_last = &mut followers[last as usize % (1 << 13)];
        let tag = if expected {
            run -= 1;
            past[again % (1 << 15)]
        } else {
            let tag = match columns.next(1) {
                0 if places[hash(&tags)] == number => 0,
                0 => past[places[hash(&tags)] % (1 << 15)],
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
        past[number % (1 << 15)] = tag;
        again += 1;
        if !expected {
            again = std::mem::replace(&mut places[hash(&tags)], number + 1);
        }
    }
    assert!(run == 0 && columns.is_empty());
    tags
}

fn read_values(mut stream: &[u8], slots: &[u32]) -> Vec<u64> {
    let lens: Vec<usize> = (0..6).map(|_| number(&mut stream) as usize).collect();
    let mut packed: Vec<usize> = (0..5).map(|_| number(&mut stream) as usize).collect();
    packed.push(stream.len() - packed.iter().sum::<usize>());
    let mut columns: Vec<Vec<u8>> = Vec::new();
    for (len, packed) in lens.into_iter().zip(packed) {
        let (frame, rest) = stream.split_at(packed);
        stream = rest;
        columns.push(if len == 0 { Vec::new() } else { zstd::decode_all(frame).expect("a frame") });
        assert_eq!(columns.last().map(Vec::len), Some(len));
    }
    let mut rest: Vec<&[u8]> = columns.iter().map(|column| &**column).collect();
    let mut before = [0u64; 2];
    // How many values are expected before one that is not, and its difference.
    let mut next_head = move || {
        let (&head, behind) = rest[0].split_first()?;
        rest[0] = behind;
        let run = u64::from(head >> 3) + if head >> 3 == 31 { number(&mut rest[1]) } else { 0 };
        let difference = match head & 7 {
            4 => before[0],
            5 => before[1],
            class => {
                let (bytes, behind) = rest[2 + usize::from(class)].split_at(1 << class);
                rest[2 + usize::from(class)] = behind;
                let folded = bytes.iter().rev().fold(0, |folded, &byte| folded << 8 | u64::from(byte));
                if folded % 2 == 0 { folded / 2 } else { !(folded / 2) }
            }
        };
        before = [difference, before[0]];
        Some((run, difference))
    };
    let (mut past, mut behind) = (vec![0; 1 << 16], vec![0; 1 << 14]);
    let (mut last, mut steps) = (vec![0u64; SLOTS as usize], vec![0; SLOTS as usize]);
    let mut again = 0;
    let mut head = next_head();
    let mut values = Vec::new();
    for ((number, &slot), place) in slots.iter().enumerate().zip(places(slots.iter().copied())) {
        let slot = slot as usize;
        let difference = match head {
            Some((0, difference)) => {
                head = next_head();
                difference
            }
            _ => {
                head = head.map(|(run, difference)| (run - 1, difference));
                if place.is_some() { steps[slot] } else { past[again % (1 << 16)] }
            }
        };
        last[slot] = last[slot].wrapping_add(difference);
        values.push(last[slot]);
        past[number % (1 << 16)] = difference;
        again += 1;
        if let Some(place) = place {
            steps[slot] = difference;
            again = std::mem::replace(&mut behind[place], number + 1);
        }
    }
    assert!(head.is_none());
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
