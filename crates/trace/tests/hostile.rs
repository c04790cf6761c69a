//! Streams that are damaged or made to do harm: an error, no panic, and no more memory than the tables take.

#![allow(unsafe_code, reason = "a global allocator that counts")]

mod support;

use proptest::prelude::*;
use relive_trace::{ControlDecoder, StreamError, ValueDecoder};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use support::{Dice, SLOTS, read_tags, read_values, tags, values, write_tags, write_values};

/// Counts what this thread holds.
struct Scale;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: all work is done by `System`.
unsafe impl GlobalAlloc for Scale {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.get() + layout.size() as isize;
        HELD.set(held);
        MOST.set(MOST.get().max(held));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size() as isize);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Scale = Scale;

/// Tables take 1.3 and 2.3 MB, what is unpacked 0.4 MB, what is known of slots 1 MB.
const LIMIT: isize = 7 << 20;

/// How much is read of what may have no end.
const ENOUGH: usize = 100_000;

/// Reads it all as tags, holding none of them.
fn control(stream: &[u8]) -> Result<(), StreamError> {
    weighed(|| {
        let mut decoder = ControlDecoder::new(stream)?;
        for _ in 0..ENOUGH {
            if decoder.next()?.is_none() {
                break;
            }
        }
        Ok(())
    })
}

/// Reads as much as there is as values of some slots, holding none of them.
fn memory(stream: &[u8]) -> Result<(), StreamError> {
    weighed(|| {
        let mut decoder = ValueDecoder::new(stream, SLOTS)?;
        for i in 0..ENOUGH as u32 {
            decoder.next([i % SLOTS, i % 7, SLOTS - 1][i as usize % 3], i % 5 == 0)?;
            decoder.follow(i as usize);
        }
        decoder.finish()
    })
}

fn weighed(read: impl FnOnce() -> Result<(), StreamError>) -> Result<(), StreamError> {
    let before = HELD.get();
    MOST.set(before);
    let result = read();
    assert!(MOST.get() - before < LIMIT, "{} bytes", MOST.get() - before);
    result
}

fn mutate(dice: &mut Dice, bytes: &mut Vec<u8>) {
    for _ in 0..=dice.roll(4) {
        if bytes.is_empty() {
            return;
        }
        let at = dice.roll(bytes.len() as u64) as usize;
        match dice.roll(6) {
            0 => bytes[at] ^= 1 << dice.roll(8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][dice.roll(5) as usize],
            2 => bytes.truncate(at),
            3 => drop(bytes.remove(at)),
            4 => bytes.insert(at, dice.roll(256) as u8),
            _ => {
                let end = (at + 1 + dice.roll(9) as usize).min(bytes.len());
                bytes[at..end].fill(0xff);
            }
        }
    }
}

fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Columns that hold these bytes, a chunk each.
fn columns(columns: &[&[u8]]) -> Vec<u8> {
    let packed: Vec<Vec<u8>> = columns
        .iter()
        .map(|bytes| {
            let mut column = Vec::new();
            if !bytes.is_empty() {
                let frame = zstd::bulk::compress(bytes, 1).expect("packed");
                put_number(&mut column, frame.len() as u64);
                column.extend(frame);
            }
            column
        })
        .collect();
    let mut stream = Vec::new();
    packed[..packed.len() - 1].iter().for_each(|column| put_number(&mut stream, column.len() as u64));
    packed.iter().for_each(|column| stream.extend(column));
    stream
}

/// A control stream that says it has so many tags.
fn control_of(len: u64, bytes: [&[u8]; 6]) -> Vec<u8> {
    let mut stream = Vec::new();
    put_number(&mut stream, len);
    stream.extend(columns(&bytes));
    stream
}

/// A memory stream that says its columns have these lengths.
fn memory_of(lens: [u64; 6], bytes: [&[u8]; 6]) -> Vec<u8> {
    let frames = bytes.map(|bytes| zstd::bulk::compress(bytes, 1).expect("packed"));
    let mut stream = Vec::new();
    lens.into_iter().for_each(|len| put_number(&mut stream, len));
    frames[..5].iter().for_each(|frame| put_number(&mut stream, frame.len() as u64));
    frames.iter().for_each(|frame| stream.extend(frame));
    stream
}

/// A memory stream of these columns.
fn memory_with(bytes: [&[u8]; 6]) -> Vec<u8> {
    memory_of(bytes.map(|bytes| bytes.len() as u64), bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn bytes_of_streams(seed: u64) {
        let mut dice = Dice(seed);
        let mut stream = write_tags(&tags(&mut dice, 300));
        mutate(&mut dice, &mut stream);
        let _ = control(&stream);
        let mut stream = write_values(&values(&mut dice, 300));
        mutate(&mut dice, &mut stream);
        let _ = memory(&stream);
    }

    #[test]
    fn bytes_of_columns(seed: u64) {
        let mut dice = Dice(seed);
        let mut bytes: [Vec<u8>; 6] = std::array::from_fn(|_| {
            (0..dice.roll(100)).map(|_| dice.roll([9, 21, 256][dice.0 as usize % 3]) as u8).collect()
        });
        bytes[0].push(dice.roll(300).min(255) as u8);
        let _ = control(&control_of(dice.roll(500), bytes.each_ref().map(|bytes| &**bytes)));
        let _ = memory(&memory_with(bytes.each_ref().map(|bytes| &**bytes)));
    }

    #[test]
    fn anything(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = control(&bytes);
        let _ = memory(&bytes);
    }
}

#[test]
fn cut_anywhere() {
    let mut dice = Dice(5);
    let tags = tags(&mut dice, 400);
    let stream = write_tags(&tags);
    (0..stream.len()).for_each(|len| assert!(control(&stream[..len]).is_err(), "{len} of {}", stream.len()));
    let values = values(&mut dice, 400);
    let stream = write_values(&values);
    for len in 0..stream.len() {
        let slots = values.iter().map(|&(slot, _)| slot);
        assert!(read_values(&stream[..len], slots).is_err(), "{len} of {}", stream.len());
    }
}

fn refused(result: Result<(), StreamError>, why: &str) {
    assert_eq!(result.expect_err(why).to_string(), why);
}

#[test]
fn what_is_wrong_is_said() {
    refused(control(b""), "it ends in the middle");
    refused(memory(b""), "it ends in the middle");
    refused(control(&[0xff; 20]), "a number has no end");
    // As many as it says; fewer; more.
    control(&control_of(3, [&[3], &[], &[], &[], &[], &[]])).expect("readable");
    refused(control(&control_of(4, [&[3], &[], &[], &[], &[], &[]])), "it ends in the middle");
    refused(control(&control_of(2, [&[3], &[], &[], &[], &[], &[]])), "it goes on behind its end");
    refused(control(&control_of(3, [&[3], &[], &[7], &[], &[], &[]])), "it goes on behind its end");
    refused(control(&control_of(3, [&[3, 1], &[], &[], &[], &[], &[]])), "it goes on behind its end");
    // Tags: one that is new and far away, one with bytes missing, one that means nothing.
    let far = control_of(1, [&[0, 0], &[7], &[1], &[2], &[3], &[4]]);
    assert_eq!(read_tags(&far, 2).expect("readable"), [!(0x0403_0201 / 2)]);
    refused(control(&control_of(1, [&[0, 0], &[7], &[1], &[2], &[3], &[]])), "it ends in the middle");
    refused(control(&control_of(1, [&[0, 0], &[8], &[], &[], &[], &[]])), "a code of 8 means nothing");
    // The same for values: one that is not expected, with a difference of a byte. A slot moves by that again only if its tag is new again.
    let one = memory_with([&[0], &[], &[4], &[], &[], &[]]);
    assert_eq!(read_values(&one, [9]).expect("readable"), [2]);
    assert_eq!(read_values(&one, [9, 7]).expect("readable"), [2, 0]);
    refused(read_values(&one, []).map(drop), "it goes on behind its end");
    refused(memory(&memory_with([&[0], &[], &[], &[4, 0], &[], &[]])), "it ends in the middle");
    refused(memory(&memory_with([&[3], &[], &[], &[], &[], &[0; 7]])), "it ends in the middle");
    refused(memory(&memory_with([&[0], &[], &[4, 0], &[], &[], &[]])), "it goes on behind its end");
    refused(memory(&memory_with([&[0], &[1], &[4], &[], &[], &[]])), "it goes on behind its end");
    refused(memory(&memory_with([&[6], &[], &[], &[], &[], &[]])), "a code of 6 means nothing");
    refused(memory(&memory_with([&[0xf8], &[], &[4], &[], &[], &[]])), "it ends in the middle");
    refused(memory(&memory_with([&[0xf8], &[0xff; 11], &[4], &[], &[], &[]])), "a number has no end");
    // Shorter or longer than it says.
    refused(
        memory(&memory_of([1, 0, 2, 0, 0, 0], [&[0], &[], &[4], &[], &[], &[]])),
        "a part cannot be unpacked",
    );
    refused(
        memory(&memory_of([1, 0, 0, 0, 0, 0], [&[0], &[], &[4], &[], &[], &[]])),
        "a part cannot be unpacked",
    );
    // A slot that is too far away.
    refused(read_values(&one, [SLOTS]).map(drop), "no slot has the number 65536");
}

#[test]
fn bombs() {
    // A chunk of zeroes that unpacks to a gigabyte, and one of nothing.
    let zeroes = vec![0; 1 << 30];
    refused(control(&control_of(1, [&zeroes, &[], &[], &[], &[], &[]])), "a part cannot be unpacked");
    refused(memory(&memory_with([&[], &zeroes, &[], &[], &[], &[]])), "a part cannot be unpacked");
    // One that says it is short.
    let short = [0, 4, 0, 0, 0, 0];
    refused(memory(&memory_of(short, [&[], &zeroes, &[], &[], &[], &[]])), "a part cannot be unpacked");
    let nothing = zstd::bulk::compress(&[], 1).expect("packed");
    let mut stream = vec![1, nothing.len() as u8 + 1, 0, 0, 0, 0, nothing.len() as u8];
    stream.extend(nothing);
    refused(control(&stream), "a part cannot be unpacked");
    // As many tags as can be said, of which there are none.
    refused(control(&control_of(u64::MAX, [&[0], &[], &[], &[], &[], &[]])), "it ends in the middle");
    // A column that is longer than all.
    refused(control(&[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), "it ends in the middle");
}
