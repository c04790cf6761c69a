//! Forked processes have counters of their own.

use super::harness::{Bench, Module, Profile};

fn forked(args: &[&str], linking: &'static [&'static str]) -> Profile {
    let bench = Bench::new();
    bench.link(&Module { args: linking, ..Module::executable("forks.c") });
    std::fs::create_dir(bench.path("root")).unwrap();
    bench.run_quietly(args);
    bench.profile("program.rprof")
}

#[test]
fn children_of_children() {
    for linking in [&["-pie"][..], &["-no-pie"]] {
        let profile = forked(&["depth"], linking);
        assert_eq!((profile.counter(1), profile.counter(2)), (4000, 30));
        assert_eq!((profile.runs(), profile.slots(), profile.lost()), (4, 4, 0));
        assert!((0..4).all(|slot| profile.counter_in(slot, 1) == 1000));
    }
}

#[test]
fn forks_that_only_a_gate_notices() {
    for linking in [&["-pie"][..], &["-static"], &["-static-pie"]] {
        let profile = forked(&["gate"], linking);
        assert_eq!((profile.counter(1), profile.counter(2)), (100_000, 100_000));
        assert_eq!((profile.runs(), profile.slots(), profile.lost()), (2, 2, 0));
    }
}

#[test]
fn a_child_that_is_killed() {
    let profile = forked(&["kill"], &["-pie"]);
    assert_eq!((profile.counter(1), profile.counter(2), profile.slots()), (1, 500, 2));
}

#[test]
fn a_parent_that_closed_everything() {
    let profile = forked(&["closed"], &["-pie"]);
    assert_eq!((profile.counter(1), profile.counter(2), profile.slots()), (1, 30, 2));
    assert_eq!(profile.lost(), 0);
}

#[test]
fn a_slot_is_kept_without_a_descriptor() {
    let bench = Bench::new();
    bench.link(&Module::executable("forks.c"));
    let one = bench.start(&["closed", "pause"]);
    bench.run_quietly(&["kill"]);
    let profile = bench.profile("program.rprof");
    assert_eq!((profile.counter_in(0, 1), profile.counter_in(1, 1), profile.slots()), (0, 1, 3));
    one.finish();
    assert_eq!(bench.profile("program.rprof").counter(2), 530);
}

#[test]
fn a_parent_in_another_root() {
    if !super::failures::is_root() {
        return;
    }
    // Neither the path nor /proc is there: the parent's open file must do.
    let profile = forked(&["chroot", "root"], &["-pie"]);
    assert_eq!((profile.counter(1), profile.counter(2), profile.slots()), (210, 60, 4));
    assert_eq!(profile.lost(), 0);
}

#[test]
fn a_thread_that_forks() {
    for linking in [&["-pie"][..], &["-no-pie"]] {
        let profile = forked(&["thread"], linking);
        assert_eq!((profile.counter(1), profile.counter(2)), (600, 300));
        assert_eq!((profile.runs(), profile.lost()), (4, 0));
    }
}
