//! What is written is what is read, and what repeats itself is small.

mod support;

use proptest::prelude::*;
use support::{Dice, SLOTS, read_tags, read_values, tags, values, write_tags, write_values};

/// Writes and reads tags; how many bytes they took.
fn through_tags(tags: &[u32]) -> usize {
    let stream = write_tags(tags);
    assert!(read_tags(&stream, usize::MAX).expect("readable") == tags);
    stream.len()
}

/// Writes and reads values; how many bytes they took.
fn through_values(values: &[(u32, u64)]) -> usize {
    let stream = write_values(values);
    let read = read_values(&stream, values.iter().map(|&(slot, _)| slot)).expect("readable");
    assert!(read.iter().eq(values.iter().map(|(_, value)| value)));
    stream.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn any_tags(tags in prop::collection::vec(any::<u32>(), 0..2000)) {
        through_tags(&tags);
    }

    #[test]
    fn any_few_tags(tags in prop::collection::vec(0..4u32, 0..5000)) {
        through_tags(&tags);
    }

    #[test]
    fn tags_of_programs(seed: u64) {
        through_tags(&tags(&mut Dice(seed), 20_000));
    }

    #[test]
    fn any_values(values in prop::collection::vec((0..SLOTS, any::<u64>()), 0..2000)) {
        through_values(&values);
    }

    #[test]
    fn any_few_values(values in prop::collection::vec((0..3u32, 0..4u64), 0..5000)) {
        through_values(&values);
    }

    #[test]
    fn values_of_programs(seed: u64) {
        through_values(&values(&mut Dice(seed), 20_000));
    }
}

#[test]
fn more_than_the_tables_hold() {
    let mut dice = Dice(7);
    let long = tags(&mut dice, 400_000);
    let once = through_tags(&long);
    assert!(once < long.len() / 4, "{once} bytes for {} tags", long.len());
    let long = values(&mut dice, 700_000);
    let once = through_values(&long);
    assert!(once < long.len() * 2, "{once} bytes for {} values", long.len());
    // Chunks that cannot be packed.
    let noise: Vec<u32> = (0..100_000).map(|_| dice.roll(1 << 32) as u32).collect();
    assert!(through_tags(&noise) < noise.len() * 6);
    let noise: Vec<(u32, u64)> = (0..100_000).map(|i| (i % SLOTS, dice.roll(u64::MAX))).collect();
    assert!(through_values(&noise) < noise.len() * 10);
}

#[test]
fn nothing() {
    assert!(through_tags(&[]) < 32);
    assert!(through_values(&[]) < 32);
}

#[test]
fn what_repeats_itself_is_small() {
    let mut dice = Dice(3);
    // A loop of 1000 different tags, a thousand times.
    let round: Vec<u32> = (0..1000).map(|_| dice.roll(1 << 20) as u32).collect();
    let len = through_tags(&round.repeat(1000));
    assert!(len < 5000, "{len} bytes");
    // A list of 1000 nodes that are anywhere, walked through a thousand times.
    let round: Vec<(u32, u64)> = (0..1000).map(|i| (i % 3, dice.roll(1 << 47))).collect();
    let len = through_values(&round.repeat(1000));
    assert!(len < 9000, "{len} bytes");
    // An array; one by columns.
    let array: Vec<(u32, u64)> = (0..1_000_000).map(|i| (5, 0x7f00_0000_0000 + i * 24)).collect();
    let len = through_values(&array);
    assert!(len < 150, "{len} bytes");
    let matrix: Vec<(u32, u64)> =
        (0..1_000_000).map(|i| (5, 0x7f00_0000_0000 + i / 10 * 8 + i % 10 * 80_000)).collect();
    let len = through_values(&matrix);
    assert!(len < 1000, "{len} bytes");
    // Pointers that are passed from one slot to the next.
    let passed: Vec<(u32, u64)> = (0..100_000)
        .flat_map(|_| {
            let pointer = dice.roll(1 << 16) * 16 + (1 << 40);
            [(1, pointer), (2, pointer), (3, pointer)]
        })
        .collect();
    let len = through_values(&passed);
    // Three bytes each, and heads.
    assert!(len < 450_000, "{len} bytes");
}
