//! What traced programs write down, against what a single-stepper sees: every instruction, and every access to memory.

#![allow(unsafe_code, reason = "the environment of all programs")]

use relive_code::addr::LinkAddr;
use relive_code::isa::{AccessKind, EffectsReader, How, Insn, Segment};
use relive_launch::arena::Arena;
use relive_launch::collect::Written;
use relive_launch::{Ended, Options, Trace};
use relive_testkit::compile::compile;
use relive_testkit::states::{SEGMENT_BASES, State, Stop, Watcher};
use relive_trace::replay::Replay;
use relive_trace::units::Units;
use relive_trace::visit::{Event, Ran, Reference, Visitor};
use std::ffi::OsString;
use std::path::Path;

/// What was executed, in order.
#[derive(Default)]
struct Executed {
    pcs: Vec<u64>,
    references: Vec<Referred>,
}

#[derive(Debug, PartialEq, Eq)]
struct Referred {
    pc: u64,
    address: u64,
    size: u32,
    kind: AccessKind,
}

/// Reads what the only thread of a program writes down.
struct Reader {
    units: Units,
    read: usize,
    replay: Replay,
    seen: Seen,
}

#[derive(Default)]
struct Seen {
    /// Where it goes on, if that is known.
    next: Option<u64>,
    executed: Executed,
}

impl Reader {
    fn read(&mut self, arena: &Arena, written: &Written<'_>) {
        let processes = arena.processes();
        let process = processes.iter().find(|p| p.number == written.process).expect("it writes");
        let records = arena.records(process);
        records[self.read..].iter().for_each(|(kind, body)| self.units.add(*kind, body));
        self.read = records.len();
        self.replay.records(&self.units, written.bytes, &mut self.seen).expect("records");
    }
}

impl Visitor for Seen {
    fn ran(&mut self, ran: &Ran<'_>) {
        let unit = ran.unit;
        let start = unit.pieces[0].0;
        assert!(self.next.is_none_or(|next| next == start), "{:x?} at {:x?}", self.next, unit.pieces);
        self.next = ran.exit.map(|exit| unit.exits[exit].to).filter(|&to| to != 0);
        self.executed.pcs.extend(unit.steps[..ran.steps].iter().map(|step| step.pc));
        self.executed.references.extend(ran.references.iter().map(|reference| {
            let &Reference { address, size, kind, step, .. } = reference;
            Referred { pc: unit.steps[usize::from(step)].pc, address, size, kind }
        }));
    }

    fn event(&mut self, event: &Event) {
        if let Event::State(state) = event {
            self.next = Some(state.pc);
        }
    }
}

fn traced(program: &Path, args: &[&str]) -> Executed {
    // As the single-stepper starts it.
    let mut command: Vec<OsString> = ["setarch", "-R"].into_iter().map(Into::into).collect();
    command.push(program.into());
    command.extend(args.iter().map(OsString::from));
    let trace = Some(Trace { memory: true });
    let (count, time, follow, verify) = (false, false, true, false);
    let options = Options { command, count, time, follow, verify, cache_len: 1 << 30, trace };
    let mut readers: Vec<(u32, Reader)> = Vec::new();
    let mut sink = |arena: &Arena, written: &Written<'_>| {
        let known = readers.iter().position(|(process, _)| *process == written.process);
        let index = known.unwrap_or_else(|| {
            let units = Units::new(true);
            let (replay, seen) = (Replay::begin(), Seen::default());
            readers.push((written.process, Reader { units, read: 0, replay, seen }));
            readers.len() - 1
        });
        readers[index].1.read(arena, written);
    };
    let done = relive_launch::trace(&options, &mut |_, _| {}, &mut sink).expect("it runs");
    assert_eq!(done.ended, Ended::Exit(0));
    readers.sort_by_key(|(process, _)| *process);
    readers.pop().expect("the program itself").1.seen.executed
}

fn stepped(program: &Path, args: &[&str]) -> Executed {
    const REPEATED: [u8; 2] = [0xf2, 0xf3];
    let mut watched = Watcher::default().start(program, args);
    let mut effects = EffectsReader::new();
    let mut executed = Executed::default();
    let mut state = watched.state();
    let mut last = 0;
    loop {
        for next in watched.steps(1000) {
            let (pc, registers) = (state.rip(), state.general());
            let insn = Insn::decode(&state.code, LinkAddr(pc)).expect("an instruction");
            // Of an instruction that repeats itself, there is a step for each turn.
            if pc != last || !REPEATED.contains(&state.code[0]) {
                executed.pcs.push(pc);
            }
            last = pc;
            for access in effects.accesses(&insn) {
                if matches!(access.how, How::Repeated { .. }) && registers[1] == 0 {
                    continue;
                }
                let base = match access.segment {
                    Segment::None => 0,
                    Segment::Fs => state.registers[SEGMENT_BASES[0]],
                    Segment::Gs => state.registers[SEGMENT_BASES[1]],
                };
                let address = access.address(&registers, base);
                let (size, kind): (u32, AccessKind) = (access.size, access.kind);
                executed.references.push(Referred { pc, address, size, kind });
            }
            if matches!(next, State { stop: Stop::Ended(_), .. }) {
                return executed;
            }
            state = next;
        }
    }
}

const PROGRAM: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
    static long sum(long n) { return n ? n + sum(n - 1) : 0; }
    int main(void) {
        if (!freopen("/dev/null", "w", stdout)) return 1; /* wherever it goes */
        int v[300];
        for (int i = 0; i < 300; i++) v[i] = i * 7919 % 311;
        qsort(v, 300, sizeof *v, by_value);
        char text[500];
        memset(text, 'x', 499);
        text[499] = 0;
        char *copy = strdup(text);
        int same = 1;
        __asm__ volatile("repe cmpsb\n sete %b0" : "=q"(same) : "S"(text), "D"(copy), "c"(500L) : "cc", "memory");
        __asm__ volatile("std\n rep movsb\n cld" ::"S"(text + 400), "D"(text + 410), "c"(100L) : "memory");
        double x = 0;
        for (int i = 1; i < 200; i++) x += 1.0 / i;
        printf("%d %zu %d %.9f %ld %s\n", v[17], strlen(copy), same, x, sum(50), strstr(copy, "xy") ? "y" : "n");
        free(copy);
        return 0;
    }
"#;

/// One test, as whoever runs programs waits for all children of the process it is in.
#[test]
fn as_a_single_stepper_sees_it() {
    // The engine refuses restartable sequences, which libc would notice.
    // SAFETY: nobody else looks at the environment: there is no other test.
    unsafe { std::env::set_var("GLIBC_TUNABLES", "glibc.pthread.rseq=0") };
    let program = compile("gcc", &["-O2", "-static"], ("program.c", PROGRAM));
    for program in [&*program, Path::new("/bin/true")] {
        let (traced, stepped) = (traced(program, &[]), stepped(program, &[]));
        compare(&traced.pcs, &stepped.pcs);
        compare(&traced.references, &stepped.references);
    }
}

fn compare<T: PartialEq + std::fmt::Debug>(one: &[T], other: &[T]) {
    let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[same..], &other[same..]);
    assert!(one.is_empty() && other.is_empty(), "{same}, then {:x?} against {:x?}", first(one), first(other));
}

fn first<T>(all: &[T]) -> &[T] {
    &all[..all.len().min(10)]
}
