//! Threads made by hand, and threads drawn at random against all ways by which one could have learned of the other.

use super::*;
use crate::place::Addresses;
use crate::testing::{Program, Thread, run_cut};
use proptest::prelude::*;
use relive_code::isa::AccessKind;
use relive_trace::units::State;
use relive_trace::visit::Event;

const CLONE: u64 = 56;
const EXECVE: u64 = 59;
const EXIT: u64 = 60;
const MUNMAP: u64 = 11;
const MMAP: u64 = 9;

/// A unit for each of these, at 0x1000, 0x2000, …: a load, a store, a locked instruction; and again, so that
/// different places are accessed by different instructions.
fn program() -> Program {
    let mut code: Vec<(u64, &[u8])> = Vec::new();
    for place in 0..4 {
        code.push((0x1000 + place * 16, &[0x8b, 0x07]));
        code.push((0x2000 + place * 16, &[0x89, 0x07]));
        code.push((0x3000 + place * 16, &[0xf0, 0xff, 0x07]));
    }
    Program::new(&code)
}

const LOAD: usize = 0;
const STORE: usize = 1;
const LOCKED: usize = 2;
/// How many units there are for a place.
const EACH: usize = 3;

const NOWHERE: [u64; 0] = [];

fn none() -> Vec<Vec<u64>> {
    vec![Vec::new(); 3]
}

fn state(fs: u64) -> Event {
    Event::State(State { registers: [0; 16], flags: 0, pc: 0, fs, gs: 0 })
}

fn call(thread: &mut Thread<'_>, number: u64, arguments: [u64; 6], value: u64, times: (u64, u64)) {
    thread.event(Event::Call { number, arguments, time: times.0 });
    thread.event(Event::Result { value, time: times.1 });
}

fn store(thread: &mut Thread<'_>, address: u64) {
    thread.run(STORE, &[(0, address, 4, AccessKind::Write)]);
}

fn load(thread: &mut Thread<'_>, address: u64) {
    thread.run(LOAD, &[(0, address, 4, AccessKind::Read)]);
}

/// The addresses of all races.
fn races(program: &Program, threads: &[Thread<'_>], cut: usize, atomic: &[(u32, u64, u32)]) -> Vec<u64> {
    let find = FindVariables::new(program, &[7], &NoRuntime, atomic);
    let variables = run_cut(find, program, threads, cut);
    let first = BTreeMap::from([(7, threads[0].thread)]);
    let races = Races::new(variables, first, Arc::new(NoRuntime));
    let mut found: Vec<u64> =
        run_cut(races, program, threads, cut).races.iter().map(|race| race.address).collect();
    found.dedup();
    found
}

/// The first thread begins the second at time 10, and then does what it is told; the second is told what to do as well.
fn two(
    program: &Program,
    first: impl FnOnce(&mut Thread<'_>),
    second: impl FnOnce(&mut Thread<'_>),
) -> Vec<Vec<u64>> {
    let mut threads = [1, 2].map(|number| program.numbered_thread(number));
    threads[0].event(state(0x70_0000));
    store(&mut threads[0], 0x9000);
    call(&mut threads[0], CLONE, [0; 6], 2, (10, 20));
    threads[1].event(state(0x80_0000));
    load(&mut threads[1], 0x9000);
    first(&mut threads[0]);
    second(&mut threads[1]);
    [1, 2, 100].map(|cut| races(program, &threads, cut, &[])).to_vec()
}

#[test]
fn nothing_brings_them_in_order() {
    let found = two(&program(), |one| store(one, 0x5000), |other| load(other, 0x5000));
    assert_eq!(found, vec![vec![0x5000]; 3]);
    let found = two(&program(), |one| load(one, 0x5000), |other| load(other, 0x5000));
    assert_eq!(found, none(), "both read");
    let found = two(&program(), |one| store(one, 0x5000), |other| store(other, 0x5004));
    assert_eq!(found, none(), "neighbours");
}

#[test]
fn a_lock_brings_them_in_order() {
    let lock = |thread: &mut Thread<'_>, from: u64| {
        thread.run_locked(LOCKED, 0x6000, from, from + 5);
        store(thread, 0x5000);
        thread.run_locked(LOCKED, 0x6000, from + 10, from + 15);
    };
    let found = two(&program(), |one| lock(one, 100), |other| lock(other, 200));
    assert_eq!(found, none());
    let found = two(&program(), |one| lock(one, 200), |other| lock(other, 100));
    assert_eq!(found, none(), "the other way round");
    let other_lock = |thread: &mut Thread<'_>| {
        thread.run_locked(LOCKED, 0x6004, 200, 205);
        store(thread, 0x5000);
    };
    let found = two(&program(), |one| lock(one, 100), other_lock);
    assert_eq!(found, vec![vec![0x5000]; 3], "another lock beside it");
}

#[test]
fn the_end_of_a_thread_is_seen() {
    let end = |thread: &mut Thread<'_>| {
        store(thread, 0x5000);
        thread.event(Event::Call { number: EXIT, arguments: [0; 6], time: 100 });
    };
    let join = |thread: &mut Thread<'_>| {
        load(thread, 0x80_02d0);
        call(thread, 0, [0; 6], 0, (200, 210));
        load(thread, 0x5000);
    };
    assert_eq!(two(&program(), join, end), none());
    let does_not_look = |thread: &mut Thread<'_>| {
        call(thread, 39, [0; 6], 0, (200, 210));
        load(thread, 0x5000);
    };
    assert_eq!(two(&program(), does_not_look, end), vec![vec![0x5000]; 3]);
}

#[test]
fn a_parent_waits_for_the_child_of_vfork() {
    let leave = |time: u64| {
        move |thread: &mut Thread<'_>| {
            store(thread, 0x5000);
            thread.event(Event::Call { number: EXECVE, arguments: [0; 6], time });
        }
    };
    assert_eq!(two(&program(), |parent| store(parent, 0x5000), leave(15)), none());
    let late = two(&program(), |parent| store(parent, 0x5000), leave(30));
    assert_eq!(late, vec![vec![0x5000]; 3], "it does not wait");
    let fail = |thread: &mut Thread<'_>| {
        call(thread, EXECVE, [0; 6], -2i64 as u64, (12, 15));
        store(thread, 0x5000);
    };
    assert_eq!(
        two(&program(), |parent| store(parent, 0x5000), fail),
        vec![vec![0x5000]; 3],
        "it is still there"
    );
}

#[test]
fn a_parent_waits_for_whatever_end_of_the_child_of_vfork() {
    const CLONE_VFORK: u64 = 0x4000;
    let find = |flags: u64| {
        let program = program();
        let mut threads = [1, 2].map(|number| program.numbered_thread(number));
        threads[0].event(state(0x70_0000));
        call(&mut threads[0], CLONE, [flags, 0, 0, 0, 0, 0], 2, (10, 20));
        store(&mut threads[0], 0x5000);
        threads[1].event(state(0x70_0000));
        // A signal ends it.
        store(&mut threads[1], 0x5000);
        [1, 2, 100].map(|cut| races(&program, &threads, cut, &[])).to_vec()
    };
    assert_eq!(find(CLONE_VFORK), none());
    assert_eq!(find(0), vec![vec![0x5000]; 3]);
}

#[test]
fn segments_begin_where_their_threads_go_on() {
    let program = program();
    let mut thread = program.numbered_thread(1);
    thread.event(state(0x70_0000));
    thread.event(Event::Call { number: 202, arguments: [0x6000, 128, 0, 0, 0, 0], time: 10 });
    thread.event(Event::Result { value: 0, time: 90 });
    store(&mut thread, 0x5000);
    thread.event(Event::Call { number: 39, arguments: [0; 6], time: 95 });
    let find = FindVariables::new(&program, &[7], &NoRuntime, &[]);
    let variables = run_cut(find, &program, &[thread], 1);
    let segment = |number| Segment { process: 7, thread: 1, number, instruction: 0 };
    let races = Races::new(variables, BTreeMap::from([(7, 1)]), Arc::new(NoRuntime));
    let mut begins = races.beginnings();
    let times: Vec<u64> = (0..6).map(|number| begins(&segment(number))).collect();
    assert_eq!(
        times,
        [0, 10, 90, 90, 95, 0],
        "the store comes behind what is known before; the last is none of its"
    );
}

#[test]
fn memory_comes_back_from_the_kernel() {
    let unmap = |thread: &mut Thread<'_>| {
        store(thread, 0x5000);
        call(thread, MUNMAP, [0x5000, 0x1000, 0, 0, 0, 0], 0, (100, 110));
    };
    let map = |thread: &mut Thread<'_>| {
        call(thread, MMAP, [0, 0x1000, 3, 34, 0, 0], 0x5000, (120, 130));
        store(thread, 0x5000);
    };
    assert_eq!(two(&program(), unmap, map), none());
}

/// Two threads take turns with nothing but plain loads and stores, and no moment that is known in between.
#[test]
fn turns_by_plain_stores() {
    let program = program();
    let mut threads = [1, 2].map(|number| program.numbered_thread(number));
    threads[0].event(state(0x70_0000));
    call(&mut threads[0], CLONE, [0; 6], 2, (10, 20));
    threads[1].event(state(0x80_0000));
    for thread in &mut threads {
        for _ in 0..5 {
            load(thread, 0x6000);
            load(thread, 0x6000);
            store(thread, 0x5000);
            store(thread, 0x6000);
        }
        call(thread, 39, [0; 6], 0, (100, 110));
    }
    assert_eq!(races(&program, &threads, 100, &[(7, 0x6000, 4)]), NOWHERE);
    assert_eq!(races(&program, &threads, 100, &[]), [0x5000, 0x6000]);
}

/// What a thread does: a load, a store or a locked instruction, on one of a few places.
type Step = (usize, u64);

proptest! {
    #[test]
    fn as_all_ways_tell(
        steps in prop::collection::vec((0usize..3, 0usize..3, 0u64..4), 1..60),
        widths in prop::collection::vec(1u64..40, 60),
        cut in 1usize..20,
    ) {
        let program = program();
        let mut threads: Vec<_> = [1, 2, 3].map(|number| program.numbered_thread(number)).into();
        threads[0].event(state(0x70_0000));
        call(&mut threads[0], CLONE, [0; 6], 2, (1, 2));
        call(&mut threads[0], CLONE, [0; 6], 3, (3, 4));
        threads[1].event(state(0x80_0000));
        threads[2].event(state(0x90_0000));
        // In order of time; each locked instruction a while after the last one of its thread.
        let mut all: Vec<Done> = Vec::new();
        let mut time = 100;
        let mut last = [0; 3];
        for (&(thread, what, which), width) in steps.iter().zip(&widths) {
            time += 10;
            let (before, after) = ((time - width).max(last[thread] + 1), time + width);
            let done = Done { thread, step: (what, which), before, after };
            match what {
                LOAD | STORE => {
                    let kind = if what == LOAD { AccessKind::Read } else { AccessKind::Write };
                    threads[thread].run(which as usize * EACH + what, &[(0, 0x5000 + which * 8, 4, kind)]);
                }
                _ => {
                    last[thread] = after;
                    time = time.max(after);
                    threads[thread].run_locked(LOCKED, 0x6000 + which * 8, before, after);
                }
            }
            all.push(done);
        }
        let expected: Vec<u64> = (0..4).filter(|&which| is_racy(&all, which)).map(|which| 0x5000 + which * 8).collect();
        prop_assert_eq!(races(&program, &threads, cut, &[]), expected);
    }
}

/// A step that was done.
#[derive(Clone, Copy, Debug)]
struct Done {
    thread: usize,
    step: Step,
    before: u64,
    after: u64,
}

/// Whether two accesses to a place are not in order, by all ways from one to the other.
fn is_racy(all: &[Done], which: u64) -> bool {
    // From just before a step to just behind another: the same thread, or what a locked instruction gives and another takes.
    let leads = |from: usize, to: usize| {
        let (a, b) = (all[from], all[to]);
        let is_way = a.step.0 == LOCKED && b.step.0 == LOCKED && a.step.1 == b.step.1 && a.before <= b.after;
        is_way && a.thread != b.thread
    };
    let reaches = |start: usize, end: usize| {
        // Steps of which it is known, when they are over, that the first access has happened.
        let mut known: Vec<bool> =
            (0..all.len()).map(|i| i > start && all[i].thread == all[start].thread).collect();
        loop {
            let more: Vec<usize> = (0..all.len())
                .filter(|&to| !known[to])
                .filter(|&to| {
                    (0..all.len()).any(|from| {
                        let given = all[from].thread == all[start].thread && from > start
                            || (0..from).any(|b| known[b] && all[b].thread == all[from].thread);
                        given && leads(from, to)
                            || known[from] && from < to && all[from].thread == all[to].thread
                    })
                })
                .collect();
            if more.is_empty() {
                return known[end];
            }
            more.into_iter().for_each(|step| known[step] = true);
        }
    };
    let is_access = |i: &usize| all[*i].step.0 != LOCKED && all[*i].step.1 == which;
    let accesses: Vec<usize> = (0..all.len()).filter(is_access).collect();
    accesses.iter().any(|&a| {
        accesses.iter().any(|&b| {
            let writes = all[a].step.0 == STORE || all[b].step.0 == STORE;
            a < b && writes && all[a].thread != all[b].thread && !reaches(a, b) && !reaches(b, a)
        })
    })
}

#[test]
fn without_its_lock() {
    let program = program();
    let mut thread = program.thread();
    store(&mut thread, 0x5000);
    thread.run_locked(LOCKED, 0x6000, 1, 2);
    store(&mut thread, 0x5000);
    load(&mut thread, 0x500c);
    store(&mut thread, 0x6000);
    load(&mut thread, 0x5004);
    load(&mut thread, 0x5010);
    let guard = discipline::Guard { process: 7, start: 0x5000, end: 0x5010, locks: vec![0x6000] };
    for cut in [1, 2, 100] {
        let question = discipline::Discipline::new(vec![guard.clone()], Arc::new(NoRuntime));
        let report = run_cut(question, &program, std::slice::from_ref(&thread), cut);
        let mut found: Vec<_> = report.accesses.iter().map(|a| (a.address, a.place.pc, a.times)).collect();
        found.sort_unstable();
        assert_eq!((report.checked, found), (4, vec![(0x5000, 0x2000, 1), (0x5004, 0x1000, 1)]));
    }
    assert_eq!(Addresses.variable(0, 0), None);
}
