//! Files that are damaged or made to do harm: an error, no panic, and no more memory than they justify.

#![allow(unsafe_code, reason = "a global allocator that counts")]

mod support;

use proptest::prelude::*;
use prost::Message as _;
use relive_profile::{file, proto};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use support::{Dice, measured, plan_edges, program};

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

/// What a small file may take: the most that a description may unpack to, some twentyfold.
const LIMIT: isize = 64 << 20;

/// Reads it and weighs what that took; what came of it, as text.
fn read(bytes: &[u8]) -> Result<(), String> {
    MOST.set(HELD.get());
    let before = HELD.get();
    let result = file::read(bytes).map(|profile| {
        for module in &profile.modules {
            for function in &module.functions {
                let _ = (function.loop_counts(), function.entries(), relive_profile::flow::check(function));
                for call in &function.calls {
                    let _ = (module.call_count(function, call), module.targets(call.callee).len());
                }
            }
        }
        // Whatever can be read can be added up and written.
        let sum = relive_profile::merge::merge([profile.clone(), profile]);
        file::read(&file::write(&sum)).expect("what was read can be written");
    });
    assert!(MOST.get() - before < LIMIT, "{} bytes for a file of {}", MOST.get() - before, bytes.len());
    result.map_err(|error| error.to_string())
}

fn sample(seed: u64) -> Vec<u8> {
    let mut dice = Dice(seed);
    let mut module = program(&mut dice, 3);
    plan_edges(&mut dice, &mut module);
    measured(&mut dice, &module, 2).0
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

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let len = u64::from_le_bytes(bytes[32..40].try_into().expect("8 bytes")) as usize;
    zstd::decode_all(&bytes[4096..4096 + len]).expect("packed")
}

/// The same profile with that for a description, and all that the header says about it put right.
fn with_description(bytes: &[u8], description: &[u8]) -> Vec<u8> {
    let slots = u64::from_le_bytes(bytes[40..48].try_into().expect("8 bytes")) as usize;
    let packed = zstd::encode_all(description, 3).expect("packed");
    let mut file = bytes[..4096].to_vec();
    file[32..40].copy_from_slice(&(packed.len() as u64).to_le_bytes());
    file.extend(packed);
    file.resize(file.len().next_multiple_of(4096), 0);
    let start = file.len() as u64;
    file[40..48].copy_from_slice(&start.to_le_bytes());
    file.extend(&bytes[slots..]);
    if let Some(module) = first_module(description) {
        let checksum = module.code.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        file[16..24].copy_from_slice(&checksum.to_le_bytes());
        if let Ok(proto::Code { slot: Some(slot), .. }) = proto::Code::decode(&*module.code) {
            for (i, len) in [slot.counters, slot.sites, slot.overflows, slot.modules].iter().enumerate() {
                file[48 + i * 4..52 + i * 4].copy_from_slice(&len.to_le_bytes());
            }
        }
    }
    file
}

fn first_module(description: &[u8]) -> Option<proto::Module> {
    let description = proto::Description::decode(description).ok()?;
    proto::Module::decode(&**description.modules.first()?).ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn bytes_of_the_file(seed: u64) {
        let mut dice = Dice(seed);
        let mut bytes = sample(seed % 8);
        mutate(&mut dice, &mut bytes);
        let _ = read(&bytes);
    }

    #[test]
    fn bytes_of_the_description(seed: u64) {
        let mut dice = Dice(seed);
        let bytes = sample(seed % 8);
        let mut description = unpacked(&bytes);
        mutate(&mut dice, &mut description);
        let _ = read(&with_description(&bytes, &description));
    }

    #[test]
    fn bytes_of_the_code(seed: u64) {
        let mut dice = Dice(seed);
        let bytes = sample(seed % 8);
        let mut module = first_module(&unpacked(&bytes)).expect("a module");
        mutate(&mut dice, &mut module.code);
        let description = proto::Description { modules: vec![module.encode_to_vec()], producer: String::new() };
        let _ = read(&with_description(&bytes, &description.encode_to_vec()));
    }

    #[test]
    fn numbers_of_the_code(seed: u64) {
        let mut dice = Dice(seed);
        let _ = read(&with_code(&mut dice, seed % 8, |dice, code| {
            let functions = code.functions.as_mut().expect("functions");
            let edges = code.edges.as_mut().expect("edges");
            let loops = code.loops.as_mut().expect("loops");
            let calls = code.calls.as_mut().expect("calls");
            let narrow = [0, 1, 2, 3, 100, 1 << 16, 1 << 31, u32::MAX - 1, u32::MAX][dice.roll(9) as usize];
            let wide = [0, 1, -1, 2, i64::MAX, i64::MIN, 1 << 32, 1 << 20][dice.roll(8) as usize];
            let column = match dice.roll(16) {
                0 => &mut functions.hubs,
                1 => &mut functions.blocks,
                2 => &mut functions.edges,
                3 => &mut functions.loops,
                4 => &mut functions.calls,
                5 => &mut functions.name,
                6 => &mut functions.reason,
                7 => &mut loops.header,
                8 => &mut loops.blocks,
                9 => &mut loops.block,
                10 => &mut calls.by,
                11 => &mut calls.value,
                12 => &mut edges.kind,
                13 => {
                    let column = if dice.roll(2) == 0 { &mut edges.from } else { &mut edges.to };
                    let at = dice.roll(column.len() as u64) as usize;
                    column[at] = wide;
                    return;
                }
                14 => {
                    let at = dice.roll(edges.counter.len().max(1) as u64) as usize;
                    edges.counter.iter_mut().skip(at).take(1).for_each(|counter| *counter = wide);
                    return;
                }
                _ => {
                    code.slot.as_mut().expect("a layout").counters = narrow;
                    return;
                }
            };
            if !column.is_empty() {
                let at = dice.roll(column.len() as u64) as usize;
                column[at] = narrow;
            }
        }));
    }
}

fn with_code(dice: &mut Dice, seed: u64, change: impl FnOnce(&mut Dice, &mut proto::Code)) -> Vec<u8> {
    let bytes = sample(seed);
    let mut module = first_module(&unpacked(&bytes)).expect("a module");
    let mut code = proto::Code::decode(&*module.code).expect("code");
    change(dice, &mut code);
    module.code = code.encode_to_vec();
    let description = proto::Description { modules: vec![module.encode_to_vec()], producer: String::new() };
    with_description(&bytes, &description.encode_to_vec())
}

/// A file in which counts of blocks and edges are all there is, and a change of it.
fn carried(change: impl FnOnce(&mut proto::Module)) -> Vec<u8> {
    let mut profile = file::read(&sample(1)).expect("readable");
    let module = &mut profile.modules[0];
    module.counters.clear();
    module.layout = relive_abi::rprof::SlotLayout { sites: module.layout.sites, ..Default::default() };
    for function in &mut module.functions {
        function.blocks.iter_mut().for_each(|block| block.counter = None);
        function.edges.iter_mut().for_each(|edge| edge.counter = None);
    }
    module.carried = vec![relive_profile::model::Source::default()];
    let mut bytes = file::write(&profile);
    let mut module = first_module(&unpacked(&bytes)).expect("a module");
    change(&mut module);
    let description = proto::Description { modules: vec![module.encode_to_vec()], producer: String::new() };
    let packed = zstd::encode_all(&*description.encode_to_vec(), 3).expect("packed");
    bytes.truncate(4096);
    bytes[32..40].copy_from_slice(&(packed.len() as u64).to_le_bytes());
    bytes.extend(packed);
    bytes
}

#[test]
fn counts_that_were_carried_over() {
    fn counts(module: &mut proto::Module) -> &mut proto::Counts {
        module.block_counts.as_mut().expect("counts")
    }
    read(&carried(|_| {})).expect("readable");
    // As files were before there was a confidence.
    read(&carried(|module| assert_eq!(counts(module).confidence, []))).expect("readable");
    for origin in [0, 1, 2, 3, 4, 5, 8, 16] {
        read(&carried(|module| counts(module).origin[0] = origin)).expect("readable");
    }
    for origin in [6, 7, 17, u32::MAX] {
        refused(&carried(|module| counts(module).origin[0] = origin), "unknown origin");
    }
    let with_confidence = |percent| {
        carried(move |module| {
            let counts = counts(module);
            counts.confidence = vec![100; counts.count.len()];
            counts.confidence[0] = percent;
        })
    };
    read(&with_confidence(0)).expect("readable");
    for percent in [101, 256, 256 + 100, u32::MAX] {
        refused(&with_confidence(percent), &format!("a confidence of {percent} %"));
    }
    refused(&carried(|module| counts(module).confidence = vec![100]), "confidence of counts: columns of");
    refused(
        &carried(|module| module.carried.as_mut().expect("sources").runs.clear()),
        "sources: columns of 1 and 0",
    );
    let counters = sample(1);
    let mut module = first_module(&unpacked(&counters)).expect("a module");
    module.carried = Some(proto::Sources {
        build_id: vec![Vec::new()],
        path: vec![String::new()],
        runs: vec![1],
        steps: vec![1],
    });
    let description = proto::Description { modules: vec![module.encode_to_vec()], producer: String::new() };
    refused(&with_description(&counters, &description.encode_to_vec()), "but with counters");
}

fn refused(bytes: &[u8], why: &str) {
    let error = read(bytes).expect_err(why);
    assert!(error.contains(why), "{why}: {error}");
}

#[test]
fn what_is_wrong_is_said() {
    let good = sample(1);
    read(&good).expect("readable");
    refused(b"", "not a profile");
    refused(b"\x7fELF", "not a profile");
    refused(&good[..60], "header: the file ends");
    refused(&good[..4200], "description: the file ends");
    refused(&good[..good.len() - 1], "slot 1: the file ends");
    let with = |at: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    refused(&with(8, &[2]), "version 2");
    refused(&with(16, &[1, 2, 3]), "header: its checksum");
    refused(&with(24, &[0xff; 8]), "description: the file ends");
    refused(&with(40, &[1]), "header: slots begin");
    refused(&with(48, &[0xff; 4]), "header: slots are not laid out");
    refused(&with(4100, &[0xff; 40]), "description: cannot be unpacked");
}

#[test]
fn bombs() {
    let good = sample(1);
    // Zeroes that unpack to a gigabyte.
    refused(&with_description(&good, &vec![0; 1 << 30]), "unpacks to more than");
    // A million empty modules; a million empty texts.
    let modules = vec![Vec::new(); 1 << 19];
    let description = proto::Description { modules, producer: String::new() };
    refused(&with_description(&good, &description.encode_to_vec()), "module 0");
    let bytes = with_code(&mut Dice(0), 1, |_, code| code.texts.resize(1 << 19, String::new()));
    read(&bytes).expect("many texts are no fault");
    let many =
        with_code(&mut Dice(0), 1, |_, code| code.slot.as_mut().expect("a layout").counters = u32::MAX);
    refused(&many, "4294967295 counters");
    let hubs =
        with_code(&mut Dice(0), 1, |_, code| code.functions.as_mut().expect("some").hubs[0] = u32::MAX);
    refused(&hubs, "more hubs than edges");
}
