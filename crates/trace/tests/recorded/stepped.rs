//! What threads have done, as a single-stepper sees it.

use crate::history::{Called, History, Referred};
use relive_abi::trace::BY_INTERRUPT;
use relive_code::addr::LinkAddr;
use relive_code::isa::{EffectsReader, How, Insn, Segment};
use relive_testkit::states::{SEGMENT_BASES, State, Stop, Watcher};
use std::collections::BTreeMap;
use std::path::Path;

/// A thread that is being watched.
struct Thread {
    state: State,
    /// Which of the histories is its own.
    history: usize,
}

/// Runs a program and everything it starts: what each thread has done, in the order in which they begin.
pub(crate) fn stepped(program: &Path, args: &[&str]) -> Vec<History> {
    let mut watched = Watcher::default().start(program, args);
    let mut effects = EffectsReader::new();
    let mut all = vec![History::default()];
    let mut threads = BTreeMap::from([(watched.id(), Thread { state: watched.state(), history: 0 })]);
    watched.run_all(|id, next| {
        let Some(thread) = threads.get_mut(&id) else {
            threads.insert(id, Thread { state: next, history: all.len() });
            all.push(History::default());
            return;
        };
        let state = std::mem::replace(&mut thread.state, next);
        if all[thread.history].step(&state, &next, &mut effects) {
            thread.history = all.len();
            all.push(History::default());
        }
    });
    all
}

/// What the kernel says to itself of a call that a signal interrupts: it is made again, or not.
const RESTARTED: u64 = (-512i64) as u64;
const INTERRUPTED: [u64; 2] = [(-514i64) as u64, (-516i64) as u64];
const EINTR: u64 = (-4i64) as u64;

const EXECVE: u64 = 59;

impl History {
    /// A thread was in one state and then in the next. Whether it has become another program.
    fn step(&mut self, state: &State, next: &State, effects: &mut EffectsReader) -> bool {
        let (pc, registers) = (state.rip(), state.general());
        let Some(insn) = Insn::decode(&state.code, LinkAddr(pc)) else { return false };
        let has_ended = matches!(next.stop, Stop::Ended(_));
        let turned = state.general()[1] != next.general()[1] && is_repeated(state);
        // Otherwise a signal has come, or is delivered to a handler.
        let is_over = has_ended || !matches!(state.stop, Stop::Signal(_)) && next.rip() != pc;
        if !is_over && !turned {
            return false;
        }
        let mut has_executed = false;
        if let Some((number, arguments)) = asked(state) {
            let result = match next.general()[0] {
                _ if has_ended || next.rip() != pc + 2 => None,
                RESTARTED => return false,
                result if INTERRUPTED.contains(&result) => Some(EINTR),
                result => Some(result),
            };
            self.calls.push(Called { number, arguments, result });
            has_executed = number == EXECVE && result.is_none();
        }
        // Of an instruction that repeats itself, there is a step for each turn.
        if is_over {
            self.pcs.push(pc);
        }
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
            self.references.push(Referred { pc, address, size: access.size, kind: access.kind });
        }
        has_executed
    }
}

/// What is asked of the kernel, if it is.
fn asked(state: &State) -> Option<(u64, [u64; 6])> {
    let registers = state.general();
    match state.code[..2] {
        [0x0f, 0x05] => Some((registers[0], [7, 6, 2, 10, 8, 9].map(|register| registers[register]))),
        [0xcd, 0x80] => {
            let arguments = [3, 1, 2, 6, 7, 5].map(|register| registers[register] & 0xffff_ffff);
            Some((registers[0] | BY_INTERRUPT, arguments))
        }
        _ => None,
    }
}

fn is_repeated(state: &State) -> bool {
    matches!(state.code[0], 0xf2 | 0xf3)
}
