//! Traces as records of bytes, for other tools.

use super::inorder::Teller;
use super::select::{Part, Told};
use relive_code::isa::{AccessKind, EffectsReader, Flow, Gpr, Insn, RegSet};
use relive_trace::Segment;
use relive_trace::units::Unit;
use relive_trace::visit::{Ran, Reference};
use std::collections::HashMap;

/// What an instruction is to other tools, whatever it accesses.
#[derive(Clone, Copy)]
struct Kind {
    flow: Flow,
    reads: RegSet,
    writes: RegSet,
}

/// What the instructions of units are, as they are asked for.
#[derive(Default)]
struct Kinds {
    effects: EffectsReader,
    by_unit: HashMap<u32, Vec<Kind>>,
}

impl Kinds {
    fn of(&mut self, unit: &Unit) -> &[Kind] {
        let effects = &mut self.effects;
        self.by_unit.entry(unit.number).or_insert_with(|| {
            let mut kind = |insn: Insn| {
                let does = effects.effects(&insn);
                Kind { flow: insn.flow(), reads: does.reads, writes: does.writes }
            };
            let nothing = Kind { flow: Flow::Next, reads: RegSet::EMPTY, writes: RegSet::EMPTY };
            (0..unit.steps.len()).map(|step| unit.decode(step).map_or(nothing, &mut kind)).collect()
        })
    }
}

/// Records of 64 bytes for ChampSim: the address, whether it is a branch and is taken, two registers written, four read, two
/// places written, four read. More of each than there is room for is left out, as its own tracer does.
#[derive(Default)]
pub(super) struct ChampSim {
    kinds: Kinds,
}

/// ChampSim tells kinds of branches by which of these registers they read and write.
mod register {
    pub(super) const STACK_POINTER: u8 = 6;
    pub(super) const FLAGS: u8 = 25;
    pub(super) const INSTRUCTION_POINTER: u8 = 26;
    /// General registers but the stack pointer, from here on.
    pub(super) const GENERAL: u8 = 64;
    /// Vector registers.
    pub(super) const VECTOR: u8 = 96;
}

fn registers(set: RegSet) -> impl Iterator<Item = u8> {
    let general = set.gprs().map(|register| match register {
        Gpr::RSP => register::STACK_POINTER,
        other => register::GENERAL + other.number() as u8,
    });
    let flags = (set & RegSet::ARITHMETIC_FLAGS != RegSet::EMPTY).then_some(register::FLAGS);
    general.chain(flags).chain(set.vectors().map(|number| register::VECTOR + number))
}

/// Fills places from the first on.
fn fill<T>(places: &mut [T], from: impl Iterator<Item = T>) {
    places.iter_mut().zip(from).for_each(|(place, value)| *place = value);
}

impl Teller for ChampSim {
    fn ran(&mut self, ran: &Ran<'_>, part: &Part<'_>, out: &mut Vec<u8>) {
        let kinds = self.kinds.of(ran.unit);
        let mut references = part.references;
        for (step, kind) in kinds.iter().enumerate().take(part.to).skip(part.from) {
            let Kind { flow, reads, writes } = *kind;
            let count = references.iter().take_while(|reference| usize::from(reference.step) == step).count();
            let (own, rest) = references.split_at(count);
            references = rest;
            let at = &ran.unit.steps[step];
            let behind = at.pc + u64::from(at.len);
            // Whether it went on elsewhere is seen from what comes next in the unit, or from the exit.
            let next = match ran.unit.steps.get(step + 1).filter(|_| step + 1 < ran.steps) {
                Some(next) => next.pc,
                None => ran.exit.map_or(behind, |exit| ran.unit.exits[exit].to),
            };
            let is_branch = !matches!(flow, Flow::Next | Flow::Stop);
            let is_taken = is_branch && (!matches!(flow, Flow::Branch(_)) || next != behind);
            let (mut written, mut read) = ([0; 2], [0; 4]);
            use register::{FLAGS, INSTRUCTION_POINTER, STACK_POINTER};
            match flow {
                Flow::Next | Flow::Stop => {
                    fill(&mut written, registers(writes));
                    fill(&mut read, registers(reads));
                }
                Flow::Jump(_) => written[0] = INSTRUCTION_POINTER,
                Flow::IndirectJump => {
                    written[0] = INSTRUCTION_POINTER;
                    fill(&mut read, registers(reads).chain([register::GENERAL]).take(1));
                }
                Flow::Branch(_) => {
                    written[0] = INSTRUCTION_POINTER;
                    fill(&mut read, [INSTRUCTION_POINTER, FLAGS].into_iter());
                }
                Flow::Call(_) => {
                    written = [INSTRUCTION_POINTER, STACK_POINTER];
                    fill(&mut read, [INSTRUCTION_POINTER, STACK_POINTER].into_iter());
                }
                Flow::IndirectCall => {
                    written = [INSTRUCTION_POINTER, STACK_POINTER];
                    let other = registers(reads).find(|&r| r != STACK_POINTER).unwrap_or(register::GENERAL);
                    fill(&mut read, [INSTRUCTION_POINTER, STACK_POINTER, other].into_iter());
                }
                Flow::Return => {
                    written = [INSTRUCTION_POINTER, STACK_POINTER];
                    read[0] = STACK_POINTER;
                }
            }
            let (mut stores, mut loads) = ([0; 2], [0; 4]);
            let of = |not: AccessKind| move |r: &&Reference| r.kind != not;
            fill(&mut stores, own.iter().filter(of(AccessKind::Read)).map(|r| r.address));
            fill(&mut loads, own.iter().filter(of(AccessKind::Write)).map(|r| r.address));
            out.extend_from_slice(&at.pc.to_le_bytes());
            out.extend_from_slice(&[is_branch.into(), is_taken.into()]);
            out.extend_from_slice(&written);
            out.extend_from_slice(&read);
            stores.iter().chain(&loads).for_each(|address| out.extend_from_slice(&address.to_le_bytes()));
        }
    }
}

/// Entries of 12 bytes: a type and a size of two bytes each, and an address.
pub(super) struct Drmemtrace {
    thread: u64,
    process: u64,
    kinds: Kinds,
}

/// The types of entries that are written.
mod entry {
    pub(super) const READ: u16 = 0;
    pub(super) const WRITE: u16 = 1;
    pub(super) const INSTRUCTION: u16 = 10;
    pub(super) const JUMP: u16 = 11;
    pub(super) const INDIRECT_JUMP: u16 = 12;
    pub(super) const BRANCH: u16 = 13;
    pub(super) const CALL: u16 = 14;
    pub(super) const INDIRECT_CALL: u16 = 15;
    pub(super) const RETURN: u16 = 16;
    pub(super) const THREAD: u16 = 22;
    pub(super) const PROCESS: u16 = 24;
}

impl Drmemtrace {
    pub(super) fn new(segment: &Segment) -> Self {
        let (thread, process) = (segment.thread.into(), segment.process.into());
        Self { thread, process, kinds: Kinds::default() }
    }
}

fn entry(out: &mut Vec<u8>, kind: u16, size: u32, address: u64) {
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&(size.min(0xffff) as u16).to_le_bytes());
    out.extend_from_slice(&address.to_le_bytes());
}

impl Teller for Drmemtrace {
    fn begin(&mut self, out: &mut Vec<u8>) {
        entry(out, entry::THREAD, 4, self.thread);
        entry(out, entry::PROCESS, 4, self.process);
    }

    fn ran(&mut self, ran: &Ran<'_>, part: &Part<'_>, out: &mut Vec<u8>) {
        let kinds = self.kinds.of(ran.unit);
        part.in_order(ran, |told| match told {
            Told::Instruction(at, number) => {
                let kind = match kinds[number].flow {
                    Flow::Next | Flow::Stop => entry::INSTRUCTION,
                    Flow::Jump(_) => entry::JUMP,
                    Flow::IndirectJump => entry::INDIRECT_JUMP,
                    Flow::Branch(_) => entry::BRANCH,
                    Flow::Call(_) => entry::CALL,
                    Flow::IndirectCall => entry::INDIRECT_CALL,
                    Flow::Return => entry::RETURN,
                };
                entry(out, kind, at.len.into(), at.pc);
            }
            Told::Reference(reference) => {
                if reference.kind != AccessKind::Write {
                    entry(out, entry::READ, reference.size, reference.address);
                }
                if reference.kind != AccessKind::Read {
                    entry(out, entry::WRITE, reference.size, reference.address);
                }
            }
        });
    }
}
