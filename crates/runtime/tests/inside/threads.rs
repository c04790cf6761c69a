//! Threads have counters of their own.

use relive_abi::rprof::LOST_SHARED;

use super::harness::{Bench, Module, Profile};

fn run(args: &'static [&'static str], what: &str) -> Profile {
    let bench = Bench::new();
    bench.link(&Module { args, ..Module::executable("threads.c") });
    bench.run_quietly(&[what]);
    bench.profile("program.rprof")
}

const KINDS: [&[&str]; 4] = [&["-pie"], &["-no-pie"], &["-static"], &["-static-pie"]];

#[test]
fn no_count_is_lost() {
    for args in KINDS {
        let profile = run(args, "parallel");
        assert_eq!((profile.counter(1), profile.runs(), profile.lost()), (8_000_001, 1, 0), "{args:?}");
        assert!((2..=9).contains(&profile.slots()), "{}", profile.slots());
    }
}

#[test]
fn areas_of_dead_threads_are_used_again() {
    for args in KINDS {
        let profile = run(args, "serial");
        assert_eq!((profile.counter(1), profile.lost()), (3001, 0));
        assert!(profile.slots() <= 3, "{}", profile.slots());
    }
    let profile = run(&["-pie"], "stacks");
    assert_eq!((profile.counter(1), profile.lost()), (1001, 0));
    assert!(profile.slots() <= 8, "{}", profile.slots());
}

#[test]
fn a_child_that_shares_memory() {
    let profile = run(&["-pie"], "vfork");
    assert_eq!((profile.counter(1), profile.slots(), profile.runs()), (101, 1, 1));
}

#[test]
fn without_room_threads_share() {
    let profile = run(&["-pie"], "full");
    assert_eq!((profile.slots(), profile.lost()), (1, u64::from(LOST_SHARED)));
    assert!((1001..=4001).contains(&profile.counter(1)), "{}", profile.counter(1));
}

#[test]
fn registers_survive() {
    for args in KINDS {
        assert_eq!(run(args, "registers").counter(1), 2);
    }
}

#[test]
fn slots_of_threads_are_free_after_the_process() {
    let bench = Bench::new();
    bench.link(&Module::executable("threads.c"));
    // Two threads, maybe one after the other.
    bench.start(&["pause"]).kill();
    assert!(bench.profile("program.rprof").slots() <= 3);
    let one = bench.start(&["pause"]);
    assert!(bench.profile("program.rprof").slots() <= 3);
    one.finish();
    let profile = bench.profile("program.rprof");
    assert_eq!((profile.counter(1), profile.runs()), (402, 2));
}

#[test]
fn threads_and_forks_in_a_storm() {
    for args in KINDS {
        let profile = run(args, "storm");
        // 4 threads; each time a thread counts 10, a child 10 and a thread of the child 10.
        assert_eq!(
            (profile.counter(1), profile.counter(2), profile.lost()),
            (4 * 25 * 10 + 1, 4 * 25 * 20, 0)
        );
        assert_eq!(profile.runs(), 101);
    }
}
