//! The promises on a fixed number of cases from a fixed seed. The fuzzers in `fuzz/` go on from here.

use relive_promises::dice::Dice;
use relive_promises::{annotations, decode_cfg, elf_facts, mutate, profile, profiles, seeds, trace, traces};
use std::panic;

/// Runs one case; should it fail, says which.
fn run(name: &str, seed: u64, case: &[u8], check: fn(&[u8])) {
    if let Err(why) = panic::catch_unwind(|| check(case)) {
        let file = std::env::temp_dir().join(format!("relive-promise-{name}-{seed}"));
        let kept = std::fs::write(&file, case);
        eprintln!("case {seed} from {name} breaks a promise; kept in {}: {kept:?}", file.display());
        panic::resume_unwind(why);
    }
}

#[test]
fn files_as_they_are() {
    for (name, file) in seeds::programs() {
        assert!(file.len() <= 1 << 16, "{name} has {} bytes", file.len());
        run(name, 0, &file, elf_facts::check);
    }
    for bytes in [&[][..], b"\x7f", b"\x7fELF", b"#!/bin/sh\n", &[0; 64], &[0xff; 64]] {
        run("bytes", 0, bytes, elf_facts::check);
    }
}

#[test]
fn damaged_files() {
    for (name, file) in seeds::programs() {
        for seed in 0..120 {
            let mut damaged = file.clone();
            mutate::mutate(&mut damaged, 1 << 16, &mut Dice::new(seed));
            run(name, seed, &damaged, elf_facts::check);
        }
    }
}

#[test]
fn functions_as_they_are() {
    for (case, seed) in seeds::functions().iter().zip(0..) {
        run("function", seed, case, decode_cfg::check);
        let decoded = decode_cfg::Case::decode(case);
        assert_eq!(decoded.encode(), *case);
    }
}

#[test]
fn damaged_functions() {
    let functions = seeds::functions();
    for seed in 0..1500 {
        let mut dice = Dice::new(seed);
        let mut case = decode_cfg::Case::decode(dice.pick::<Vec<u8>>(&functions));
        damage(&mut case, &mut dice);
        run("function", seed, &case.encode(), decode_cfg::check);
    }
}

#[test]
fn profiles_as_they_are() {
    for (name, file) in profiles::profiles() {
        assert!(file.len() <= 1 << 16, "{name} has {} bytes", file.len());
        relive_profile::file::read(&file).unwrap_or_else(|why| panic!("{name}: {why}"));
        let case = profile::Case::unpack(&file);
        assert_eq!(profile::Case::decode(&case.encode()), Some(case.clone()));
        relive_profile::file::read(&case.pack()).unwrap_or_else(|why| panic!("{name}: {why}"));
        run(&name, 0, &file, profile::check);
    }
}

#[test]
fn damaged_profiles() {
    for (name, file) in profiles::profiles() {
        for seed in 0..60 {
            let mut dice = Dice::new(seed);
            let mut case = profile::Case::unpack(&file);
            let in_slots = dice.once_in(3) && !case.slots.is_empty();
            let part = if in_slots { &mut case.slots } else { &mut case.description };
            for _ in 0..=dice.roll(3) {
                let at = dice.roll(part.len());
                part[at] = if dice.once_in(2) { dice.roll(256) as u8 } else { part[at] ^ 1 << dice.roll(8) };
            }
            run(&name, seed, &case.encode(), profile::check);
            let mut damaged = file.clone();
            let at = dice.roll(damaged.len());
            damaged[at] ^= 1 << dice.roll(8);
            run(&name, seed, &damaged, profile::check);
        }
    }
}

#[test]
fn traces_as_they_are() {
    for (name, case) in traces::cases() {
        assert_eq!(trace::Case::decode(&case.encode()), case);
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), case.pack()).expect("room for it");
        let found = relive_trace::Trace::open(file.path()).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!((found.segments().len(), found.processes().count()), (2, 2), "{name}");
        run(&name, 0, &case.pack(), trace::check);
        run(&name, 0, &case.encode(), trace::check);
    }
}

#[test]
fn damaged_traces() {
    for (name, case) in traces::cases() {
        for seed in 0..150 {
            let mut dice = Dice::new(seed);
            let mut damaged = if dice.once_in(4) { case.pack() } else { case.encode() };
            for _ in 0..=dice.roll(4) {
                let at = dice.roll(damaged.len());
                damaged[at] =
                    if dice.once_in(2) { dice.roll(256) as u8 } else { damaged[at] ^ 1 << dice.roll(8) };
            }
            run(&name, seed, &damaged, trace::check);
        }
    }
}

#[test]
fn annotations_as_they_are() {
    for (mut case, seed) in seeds::annotated().into_iter().zip(0..) {
        assert_eq!(annotations::Case::decode(&case.encode()), Some(case.clone()));
        let said = case.believed();
        assert!(said.pieces.len() >= 7, "{} pieces", said.pieces.len());
        assert!(said.pieces.iter().any(|piece| !piece.jumps.is_empty()), "no jumps");
        assert!(said.pieces.iter().any(|piece| !piece.no_return.is_empty()), "no calls that do not return");
        run("annotations", seed, &case.encode(), annotations::check);
        case.is_sealed = true;
        assert_eq!(case.believed(), said);
    }
}

/// Whatever bit of a section changes: a piece that is believed is one that was written.
#[test]
fn no_changed_annotation_is_believed() {
    for case in seeds::annotated() {
        let said = case.believed().pieces;
        for len in 0..case.section.len() {
            let cut = annotations::Case { section: case.section[..len].to_vec(), ..case.clone() };
            assert!(cut.believed().pieces.iter().all(|piece| said.contains(piece)), "cut at {len}");
        }
        for bit in 0..case.section.len() * 8 {
            let mut damaged = case.clone();
            damaged.section[bit / 8] ^= 1 << (bit % 8);
            let believed = damaged.believed().pieces;
            let lie = believed.iter().find(|piece| !said.contains(piece));
            assert!(lie.is_none(), "bit {bit}: {lie:?}");
        }
    }
}

/// Whatever bit of the code changes: what is believed is still true.
#[test]
fn annotations_of_changed_code() {
    for (case, name) in seeds::annotated().into_iter().zip(["O2", "O0", "Os"]) {
        for bit in (0..case.memory.len() * 8).step_by(3) {
            let mut damaged = case.clone();
            damaged.memory[bit / 8] ^= 1 << (bit % 8);
            run(name, bit as u64, &damaged.encode(), annotations::check);
        }
    }
}

#[test]
fn damaged_annotations() {
    for (case, name) in seeds::annotated().into_iter().zip(["O2", "O0", "Os"]) {
        for seed in 0..3000 {
            let mut dice = Dice::new(seed);
            let mut damaged = annotations::Case { is_sealed: true, ..case.clone() };
            for _ in 0..=dice.roll(3) {
                let in_code = dice.once_in(3);
                let part = if in_code { &mut damaged.memory } else { &mut damaged.section };
                let at = dice.roll(part.len());
                part[at] = if dice.once_in(2) { dice.roll(256) as u8 } else { part[at] ^ 1 << dice.roll(8) };
            }
            run(name, seed, &damaged.encode(), annotations::check);
        }
    }
}

#[test]
fn noise() {
    for seed in 0..1500 {
        let mut dice = Dice::new(seed);
        let len = dice.roll(400);
        let case: Vec<u8> = (0..len).map(|_| dice.number() as u8).collect();
        run("noise", seed, &case, decode_cfg::check);
        let header = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0";
        run("noise-elf", seed, &[header, &case[..]].concat(), elf_facts::check);
    }
}

/// Changes bytes, adds claims.
fn damage(case: &mut decode_cfg::Case, dice: &mut Dice) {
    let len = case.memory.len();
    for _ in 0..dice.roll(12) {
        let at = dice.roll(len);
        case.memory[at] = dice.number() as u8;
    }
    case.flags = dice.roll(16) as u8;
    for _ in 0..dice.roll(8) {
        let mut encoded = case.encode();
        let claim: Vec<u8> =
            (0..7).map(|i| if i > 0 && i % 2 == 0 { dice.roll(4) } else { dice.roll(256) } as u8).collect();
        encoded[1] += 1;
        encoded.splice(2..2, claim);
        *case = decode_cfg::Case::decode(&encoded);
    }
}
