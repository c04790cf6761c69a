//! Targets of indirect calls.

use std::fs;

use object::{Object, ObjectSymbol};
use relive_abi::rprof::{LOST_TARGETS, target};

use super::harness::{Bench, LAYOUT, Module, Profile};

/// A bench, and where `main` is linked.
fn bench(args: &'static [&'static str]) -> (Bench, u64) {
    let bench = Bench::new();
    let path = bench.link(&Module { args, ..Module::executable("calls.c") });
    let bytes = fs::read(path).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let main = elf.symbol_by_name("main").unwrap().address();
    (bench, main)
}

fn count(profile: &Profile, site: u32, target: u64) -> u64 {
    profile.targets().get(&(site, target)).copied().unwrap_or(0)
}

#[test]
fn few_and_many_targets() {
    for args in [&["-pie"][..], &["-no-pie"], &["-static"]] {
        let (bench, main) = bench(args);
        bench.run_quietly(&["mono"]);
        bench.run_quietly(&["poly"]);
        // Takes over the slot and calls in another order.
        bench.run_quietly(&["reverse"]);
        bench.run_quietly(&["mono"]);
        let profile = bench.profile("program.rprof");
        assert_eq!(profile.slots(), 1);
        assert_eq!(count(&profile, 0, main), 2000);
        for i in 0..50 {
            assert_eq!(count(&profile, 1, main + i), 2 * (i + 1), "target {i}");
        }
        assert_eq!((profile.targets().len(), profile.lost()), (51, 0));
    }
}

#[test]
fn the_first_that_are_frequent_become_usual() {
    let (bench, main) = bench(&["-pie"]);
    bench.run_quietly(&["hot"]);
    let profile = bench.profile("program.rprof");
    for (place, usual) in [(0, main + 2), (1, main + 3)] {
        assert_eq!(profile.word(0, LAYOUT.count_offset(3, place) - 8), usual, "place {place}");
    }
    let counts = [1, 2, 3].map(|n| count(&profile, 3, main + n));
    assert_eq!(counts, [2, 10_001, 50_000]);
    assert_eq!(profile.targets().len(), 3);
}

#[test]
fn code_of_others_and_code_of_nobody() {
    let (bench, _) = bench(&["-pie"]);
    for n in 1..3 {
        bench.run_quietly(&["foreign"]);
        let profile = bench.profile("program.rprof");
        let generated = target::new(target::GENERATED, 0);
        assert_eq!(count(&profile, 2, generated), 7 * n);
        assert_eq!(count(&profile, 39, generated), 3 * n);
        let libc: Vec<_> =
            profile.targets().into_iter().filter(|((_, at), _)| target::split(*at).0 == 1).collect();
        assert_eq!(libc.len(), 2, "{libc:?}");
        assert_eq!((libc[0].0.0, libc[0].1), (2, 5 * n));
        assert_eq!((libc[1].0.0, libc[1].1), (39, 2 * n));
        assert_eq!(libc[0].0.1, libc[1].0.1);
        // One module, with build-id and path; the address is that of the symbol.
        assert_eq!(profile.word(0, 16) >> 32, 1);
        let at = (8192 + LAYOUT.modules_offset()) as usize;
        let module = &profile.bytes[at..at + 256];
        let path_len = module[4] as usize;
        let path = str::from_utf8(&module[40..40 + path_len]).unwrap();
        assert!(path.contains("libc.so"), "{path}");
        let bytes = fs::read(path).unwrap();
        let elf = object::File::parse(&*bytes).unwrap();
        assert_eq!(elf.build_id().unwrap().unwrap(), &module[8..8 + module[0] as usize]);
        let getpid = elf.dynamic_symbols().find(|s| s.name() == Ok("getpid")).unwrap().address();
        assert_eq!(target::split(libc[0].0.1), (1, getpid));
    }
}

#[test]
fn too_many_targets() {
    let (bench, main) = bench(&["-pie"]);
    bench.run_quietly(&["full"]);
    let profile = bench.profile("program.rprof");
    assert_eq!(profile.lost(), u64::from(LOST_TARGETS));
    assert_eq!(profile.targets().len(), 302);
    assert!((0..302).all(|n| count(&profile, 4, main + n) == 3));
}

#[test]
fn signal_handlers_call_too() {
    let (bench, main) = bench(&["-pie"]);
    let output = bench.run(&["signals"]);
    assert!(output.status.success(), "{}", output.status);
    let expected: u64 = str::from_utf8(&output.stdout).unwrap().trim().parse().unwrap();
    let profile = bench.profile("program.rprof");
    for (site, targets) in [(5, 100), (6, 7)] {
        let all: u64 = (0..targets).map(|n| count(&profile, site, main + n)).sum();
        assert_eq!(all, expected, "site {site}");
    }
    assert_eq!(profile.targets().len(), 107);
}

#[test]
fn threads_and_children() {
    for args in [&["-pie"][..], &["-static-pie"]] {
        let (bench, main) = bench(args);
        bench.run_quietly(&["threads"]);
        let profile = bench.profile("program.rprof");
        assert!((0..10).all(|n| count(&profile, 7, main + n) == 600));
        assert_eq!((profile.targets().len(), profile.lost()), (10, 0));
    }
}
