//! What traced programs write down, against what a single-stepper sees: every instruction, every access to memory, every call of
//! the kernel, of every thread.
//!
//! Each test is for a process of its own, as whoever runs programs waits for all children of the process it is in.

#![allow(unsafe_code, reason = "the environment of all programs")]

mod history;
mod stepped;
mod traced;

use relive_launch::Ended;
use relive_testkit::compile::{Compiled, compile};
use std::path::Path;
use stepped::stepped;
use traced::traced;

/// Compiles a program without a library.
fn bare(name: &str, text: &str) -> Compiled {
    const START: &str = include_str!("programs/start.h");
    let text = text.replace("#include \"start.h\"", START);
    compile(
        "gcc",
        &["-O2", "-static", "-nostdlib", "-fno-stack-protector", "-fno-builtin", "-w"],
        (name, &text),
    )
}

/// Runs a program both ways, and compares each of its threads.
fn compare(program: &Path, ended: Ended, has_library: bool) {
    let (how, traced) = traced(program, &[], true);
    assert_eq!(how, ended);
    let stepped = stepped(program, &[]);
    assert_eq!(traced.len(), stepped.len());
    traced.iter().zip(&stepped).for_each(|(traced, stepped)| traced.compare(stepped, has_library));
}

#[test]
fn programs_with_a_library() {
    // The engine refuses restartable sequences, which libc would notice.
    // SAFETY: nobody else looks at the environment: each test has a process of its own.
    unsafe { std::env::set_var("GLIBC_TUNABLES", "glibc.pthread.rseq=0") };
    let program = compile("gcc", &["-O2", "-static"], ("library.c", include_str!("programs/library.c")));
    for program in [&*program, Path::new("/bin/true")] {
        compare(program, Ended::Exit(0), true);
    }
}

#[test]
fn calls_of_the_kernel() {
    compare(&bare("calls.c", include_str!("programs/calls.c")), Ended::Signal(9), false);
}

#[test]
fn vectors_masks_and_states() {
    compare(&bare("vectors.c", include_str!("programs/vectors.c")), Ended::Exit(0), false);
}

#[test]
fn strings() {
    compare(&bare("strings.c", include_str!("programs/strings.c")), Ended::Exit(0), false);
}

/// Wherever a buffer ends, what does not fit goes to the next one whole.
#[test]
fn ends_of_buffers() {
    let program = bare("edges.c", include_str!("programs/edges.c"));
    let (how, threads) = traced(&program, &[], true);
    assert_eq!(how, Ended::Exit(0));
    // Nothing, where the processor has no masks.
    let read: u64 = threads[0].references.iter().map(|access| u64::from(access.size)).sum();
    assert!(!(1000..600_000 * 30).contains(&read));
}

#[test]
fn aligned_accesses() {
    compare(&bare("aligned.c", include_str!("programs/aligned.c")), Ended::Exit(0), false);
}

#[test]
fn habits() {
    compare(&bare("habits.c", include_str!("programs/habits.c")), Ended::Exit(0), false);
}

#[test]
fn threads() {
    compare(&bare("threads.c", include_str!("programs/threads.c")), Ended::Exit(0), false);
}

/// Two threads count up one number: who found which is the order in which they did.
#[test]
fn order_between_threads() {
    let program = bare("threads.c", include_str!("programs/threads.c"));
    // On a busy machine, one may be done before the other begins.
    assert!((0..20).any(|_| have_met(&program)), "they have hardly met");
}

/// Whether they have counted at the same time. The order is right in any case.
fn have_met(program: &Path) -> bool {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("found");
    let (ended, threads) = traced(program, &[path.to_str().expect("a plain name")], true);
    assert_eq!(ended, Ended::Exit(0));
    let found = std::fs::read(&path).expect("what was found");
    let found = found.chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    // Besides, each says that it begins, and exchanges something at its end.
    let times = threads[1..].iter().flat_map(|thread| &thread.times[1..thread.times.len() - 1]);
    let mut all: Vec<(u64, [u64; 2])> = found.zip(times.copied()).collect();
    assert_eq!(all.len(), 2 * 200_000);
    let second = all[200_000..].iter().map(|(found, _)| *found);
    let turns = second.clone().zip(second.skip(1)).filter(|(found, next)| found + 1 != *next).count();
    all.sort_unstable();
    let mut latest = 0;
    for (_, [before, after]) in all {
        // Nothing was over before it began, or before what came earlier had begun.
        assert!(before < after && latest < after);
        latest = latest.max(before);
    }
    turns > 1
}
