//! What threads have done, as a single-stepper sees it.

use crate::history::{Called, History, Referred};
use relive_abi::trace::BY_INTERRUPT;
use relive_code::addr::LinkAddr;
use relive_code::isa::{Access, EffectsReader, Form, How, Insn, Mask, Segment};
use relive_testkit::states::{SEGMENT_BASES, State, Stop, Vectors, Watcher};
use std::collections::BTreeMap;
use std::path::Path;

/// A thread that is being watched.
struct Thread {
    state: State,
    vectors: Vectors,
    /// Which of the histories is its own.
    history: usize,
}

/// Runs a program and everything it starts: what each thread has done, in the order of their numbers.
pub(crate) fn stepped(program: &Path, args: &[&str]) -> Vec<History> {
    let mut watched = Watcher::default().start(program, args);
    let mut effects = EffectsReader::new();
    let mut all = vec![(watched.id(), History::default())];
    let first = Thread { state: watched.state(), vectors: watched.vectors(), history: 0 };
    let mut threads = BTreeMap::from([(watched.id(), first)]);
    watched.run_all(|id, next, next_vectors| {
        let Some(thread) = threads.get_mut(&id) else {
            threads.insert(id, Thread { state: next, vectors: next_vectors, history: all.len() });
            all.push((id, History::default()));
            return;
        };
        let state = std::mem::replace(&mut thread.state, next);
        let vectors = std::mem::replace(&mut thread.vectors, next_vectors);
        if all[thread.history].1.step(&state, &vectors, &next, &mut effects) {
            thread.history = all.len();
            all.push((id, History::default()));
        }
    });
    // The second may be seen before the first.
    all.sort_by_key(|(id, _)| *id);
    all.into_iter().map(|(_, history)| history).collect()
}

/// What the kernel says to itself of a call that a signal interrupts: it is made again, or not.
const RESTARTED: u64 = (-512i64) as u64;
const INTERRUPTED: [u64; 2] = [(-514i64) as u64, (-516i64) as u64];
const EINTR: u64 = (-4i64) as u64;

const EXECVE: u64 = 59;

impl History {
    /// A thread was in one state and then in the next. Whether it has become another program.
    fn step(&mut self, state: &State, vectors: &Vectors, next: &State, effects: &mut EffectsReader) -> bool {
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
            self.references.extend(touched(&access, &registers, vectors).into_iter().map(|(by, size)| {
                let address = access.address_beyond(&registers, base, by);
                Referred { pc, address, size, kind: access.kind }
            }));
        }
        has_executed
    }
}

/// What an access touches: how far away from its address, and how many bytes.
fn touched(access: &Access, registers: &[u64; 16], vectors: &Vectors) -> Vec<(i64, u32)> {
    let size = access.size;
    match access.how {
        How::Lanes { vector, width, scale, count, mask } => {
            let index = vectors.vector(vector.into());
            let lane = |n: usize| match width {
                4 => i64::from(i32::from_le_bytes(index[4 * n..4 * n + 4].try_into().expect("four bytes"))),
                _ => i64::from_le_bytes(index[8 * n..8 * n + 8].try_into().expect("eight bytes")),
            };
            let set = (0..count.into()).filter(|&n| is_set(mask, n, size as usize, vectors));
            set.map(|n| (lane(n) * i64::from(scale), size)).collect()
        }
        How::Masked { element, count, mask } => {
            let (element, count) = (usize::from(element), usize::from(count));
            let elements = size as usize / element;
            let mut is_touched = vec![false; elements];
            for n in (0..count).filter(|&n| is_set(mask, n, element, vectors)) {
                is_touched[n % elements] = true;
            }
            let all: Vec<usize> = (0..elements).filter(|&n| is_touched[n]).collect();
            let runs = all.chunk_by(|one, next| one + 1 == *next);
            runs.map(|run| ((run[0] * element) as i64, (run.len() * element) as u32)).collect()
        }
        How::Packed { element, mask } => {
            let element = usize::from(element);
            let set = (0..size as usize / element).filter(|&n| is_set(mask, n, element, vectors)).count();
            if set == 0 { Vec::new() } else { vec![(0, (set * element) as u32)] }
        }
        How::State(form) => {
            let asked = (registers[2] << 32 | registers[0] & 0xffff_ffff) & vectors.enabled();
            vec![(0, state_len(form, asked))]
        }
        _ => vec![(0, size)],
    }
}

fn is_set(mask: Mask, n: usize, element: usize, vectors: &Vectors) -> bool {
    match mask {
        Mask::Bits(0) => true,
        Mask::Bits(number) => vectors.mask(number.into()) >> n & 1 != 0,
        Mask::Signs(number) => vectors.vector(number.into())[(n + 1) * element - 1] & 0x80 != 0,
        Mask::MmxSigns(number) => vectors.mmx(number.into())[n] & 0x80 != 0,
    }
}

/// How long the processor's state is. Programs here load what they have saved compacted, and with the same parts.
fn state_len(form: Form, asked: u64) -> u32 {
    use std::arch::x86_64::__cpuid_count;
    let parts = (2..63).filter(|part| asked >> part & 1 != 0).map(|part| __cpuid_count(0xd, part));
    match form {
        Form::Standard => parts.map(|part| part.ebx + part.eax).max().unwrap_or(576),
        Form::Compacted | Form::Said => parts.fold(576, |end, part| {
            let start = if part.ecx & 2 != 0 { end.next_multiple_of(64) } else { end };
            start + part.eax
        }),
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
    let mut prefixes = state.code.iter().take_while(|byte| matches!(byte, 0x66 | 0x67 | 0xf2 | 0xf3));
    prefixes.any(|&byte| byte >= 0xf2)
}
