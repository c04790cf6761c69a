//! One instruction at a time, in memory where everything it reads and writes shows.
//!
//! It is executed three times from the same registers. Between, all memory is changed but for what it is said to read: it must do the
//! same. Then only that: it should do something else.

use crate::check::{decode, disagreement, takes_turns};
use crate::draw::{self, Dice};
use relive_code::isa::{Access, AccessKind, EffectsReader, How, Insn, Mask, Rare, Segment, Syntax};
use relive_testkit::compile::{Compiled, compile};
use relive_testkit::states::{FLAGS, REGISTERS, RIP, SEGMENT_BASES, State, Stop, Vectors, Watched, Watcher};
use std::collections::BTreeMap;
use std::ops::Range;

/// A program that has memory and does nothing.
const PROGRAM: &str = r#"
    .globl _start
_start:
    jmp _start
    .section .arena, "awx", @nobits
    .balign 4096
    .globl arena
arena:
    .skip 8192
"#;
const SIZE: usize = 8192;
const ARENA: u64 = 0x1000_0000;
/// Where the instruction lies in it.
const CODE: usize = 1024;
const MIDDLE: u64 = ARENA + 5000;
const FS_BASE: u64 = 0x80;
const GS_BASE: u64 = 0x40;

/// What is not drawn: what waits, takes memory away or asks a hypervisor; and what the kernel may do instead of the processor, without
/// a stop behind it.
const LEFT_OUT: [&str; 17] = [
    "int1", "int3", "mwaitx", "umwait", "tpause", "wrpkru", "xabort", "vmcall", "vmmcall", "vmgexit", "hlt",
    "rdpru", "sgdt", "sidt", "sldt", "smsw", "str",
];
/// What does something else each time.
const FICKLE: [&str; 7] = ["rdtsc", "rdtscp", "rdrand", "rdseed", "rdpid", "rdpmc", "cpuid"];

/// What was found out.
#[derive(Default)]
pub(crate) struct Findings {
    /// Instructions that were executed and compared.
    pub(crate) compared: u64,
    /// For each mnemonic: how often it ran, how often it read memory, how often what it read made a difference.
    pub(crate) mnemonics: BTreeMap<String, [u64; 3]>,
    pub(crate) wrong: Vec<String>,
}

/// An instruction and what it finds.
struct Case<'a> {
    insn: Insn,
    before: State,
    vectors: &'a Vectors,
    memory: &'a [u8],
}

/// Everything there is behind an instruction.
#[derive(PartialEq)]
struct Outcome {
    registers: [u64; REGISTERS],
    vectors: Vectors,
    memory: Vec<u8>,
}

pub(crate) struct Arena {
    program: Watched,
    start: State,
    reader: EffectsReader,
    _file: Compiled,
}

impl Arena {
    pub(crate) fn new() -> Self {
        let options =
            ["-nostdlib", "-static", "-Wl,--section-start=.arena=0x10000000", "-Wl,--no-warn-rwx-segments"];
        let file = compile("gcc", &options, ("arena.s", PROGRAM));
        let mut program = Watcher::default().start(&file, &[]);
        let start = program.state();
        Self { program, start, reader: EffectsReader::new(), _file: file }
    }

    /// Executes what `seed` draws until `count` instructions were compared.
    pub(crate) fn draw(&mut self, seed: u64, count: u64) -> Findings {
        let mut dice = Dice::new(seed);
        let mut findings = Findings::default();
        let mut vectors = self.program.vectors();
        let mut memory = vec![0; SIZE];
        let mut round = 0;
        while findings.compared < count {
            if round % 16 == 0 {
                let lane = dice.pick(&[1, 2, 4, 4, 8, 8]);
                (0..vectors.count()).for_each(|i| vectors.set_vector(i, &draw::vector(&mut dice, lane)));
                if vectors.has_masks() {
                    (0..8).for_each(|i| vectors.set_mask(i, dice.next()));
                }
                // Room is left for what is loaded.
                for i in 0..6 {
                    let mut value = [0xff, 0x3f].repeat(5);
                    value[..8].copy_from_slice(&(dice.next() | 1 << 63).to_le_bytes());
                    vectors.set_x87(i, &value.try_into().expect("ten bytes"));
                }
                memory.iter_mut().for_each(|byte| *byte = dice.byte());
            }
            round += 1;
            let mut before = self.start;
            before.stop = Stop::Stepped;
            before.code = draw::instruction(&mut dice);
            before.set_general(&draw::registers(&mut dice, MIDDLE));
            before.set_backwards(dice.one_in(4));
            before.registers[RIP] = ARENA + CODE as u64;
            before.registers[FLAGS] ^= dice.next() & 0x8d5;
            before.registers[SEGMENT_BASES[0]] = FS_BASE;
            before.registers[SEGMENT_BASES[1]] = GS_BASE;
            let Some(insn) = decode(&before) else { continue };
            // Some instructions are only left together with the next one: it ends there.
            before.code[insn.len() as usize..].fill(0xcc);
            memory[CODE..CODE + 16].copy_from_slice(&before.code);
            if may_be_executed(&insn, &before.code) {
                self.one(&Case { insn, before, vectors: &vectors, memory: &memory }, &mut findings);
            }
        }
        findings
    }

    fn one(&mut self, case: &Case, findings: &mut Findings) {
        let Some((after, outcome)) = self.execute(case, case.memory) else { return };
        findings.compared += 1;
        let counts = findings.mnemonics.entry(name(&case.insn)).or_default();
        counts[0] += 1;
        let registers = disagreement(&mut self.reader, &case.insn, &case.before, &after);
        let mut wrong: Vec<String> = registers.into_iter().collect();
        let accesses = self.reader.accesses(&case.insn);
        if !accesses.iter().any(|access| access.how == How::Opaque) {
            self.memory(case, &accesses, &after, &outcome, counts, &mut wrong);
        }
        let text = case.insn.text(Syntax::Intel);
        let bytes = &case.before.code[..case.insn.len() as usize];
        findings
            .wrong
            .extend(wrong.iter().map(|what| format!("{text} ({bytes:02x?}): {what}; {accesses:x?}")));
    }

    /// Compares what an instruction is said to read and write with what it does in memory of other contents.
    fn memory(
        &mut self,
        case: &Case,
        accesses: &[Access],
        after: &State,
        outcome: &Outcome,
        counts: &mut [u64; 3],
        wrong: &mut Vec<String>,
    ) {
        let touched: Vec<_> = accesses.iter().flat_map(|access| touched(access, case, after)).collect();
        wrong.extend(self.unreachable(accesses, &touched));
        let said = Said::new(&touched);
        wrong.extend(said.unsaid_writes(case.memory, &outcome.memory));
        // Its own bytes must stay as they are.
        if FICKLE.contains(&&*name(&case.insn)) || said.reads[CODE..CODE + 16].contains(&true) {
            return;
        }
        let others = said.changed(case.memory, |i| !said.reads[i]);
        match self.execute(case, &others) {
            Some((_, other)) => wrong.extend(said.difference(accesses, outcome, &other, &others)),
            None => wrong.push("faults when other memory is changed".into()),
        }
        if said.reads.contains(&true) {
            let read = said.changed(case.memory, |i| said.reads[i]);
            let moved = |i: usize| read[i] ^ case.memory[i];
            let same = self.execute(case, &read).is_some_and(|(_, other)| {
                other.registers == outcome.registers
                    && other.vectors == outcome.vectors
                    && (0..SIZE).all(|i| !said.writes[i] || other.memory[i] ^ outcome.memory[i] == moved(i))
            });
            counts[1] += 1;
            counts[2] += u64::from(!same);
        }
    }

    /// What is behind the instruction, executed in such memory; nothing if it cannot be.
    fn execute(&mut self, case: &Case, memory: &[u8]) -> Option<(State, Outcome)> {
        self.program.write(ARENA, memory);
        self.program.set_vectors(case.vectors);
        self.program.set_registers(&case.before);
        let takes_turns = takes_turns(&mut self.reader, &case.insn);
        let mut after = self.program.step();
        let mut turns = 0;
        while takes_turns && after.stop == Stop::Stepped && after.rip() == case.before.rip() {
            after = self.program.step();
            turns += 1;
            // A large count ends in a fault, sooner or later.
            if turns > 100 {
                return None;
            }
        }
        assert!(!matches!(after.stop, Stop::Ended(_)), "{} ended the program", case.insn.text(Syntax::Intel));
        if after.stop != Stop::Stepped {
            return None;
        }
        let mut behind = vec![0; SIZE];
        assert!(self.program.read(ARENA, &mut behind));
        let vectors = self.program.vectors();
        Some((after, Outcome { registers: after.registers, vectors, memory: behind }))
    }

    /// Accesses that would have faulted if they were where they are said to be.
    fn unreachable(&self, accesses: &[Access], touched: &[Touched]) -> Option<String> {
        let may_miss = |a: &Access| matches!(a.how, How::State(_));
        if accesses.iter().any(may_miss) {
            return None;
        }
        touched.iter().find_map(|t| {
            let mut bytes = vec![0; t.len];
            (!self.program.read(t.at, &mut bytes)).then(|| format!("there is no memory at {:#x}", t.at))
        })
    }
}

/// The mnemonic.
fn name(insn: &Insn) -> String {
    const PREFIXES: [&str; 10] =
        ["lock", "rep", "repe", "repne", "xacquire", "xrelease", "bnd", "notrack", "fs", "gs"];
    let text = insn.text(Syntax::Intel).to_string();
    text.split(' ').find(|word| !PREFIXES.contains(word)).unwrap_or_default().into()
}

fn may_be_executed(insn: &Insn, bytes: &[u8]) -> bool {
    // Into another kind of code.
    let far = matches!(
        insn.rare(),
        Some(Rare::Far | Rare::FarReturn { .. } | Rare::InterruptReturn | Rare::Transaction(_))
    );
    // Processors do not agree on what `call` and the like do with 16 bits.
    let mut prefixes = bytes.iter().take_while(|&&byte| is_prefix(byte));
    let word = insn.flow().ends_straight_code() && prefixes.any(|&byte| byte == 0x66);
    !insn.is_syscall() && !insn.is_privileged() && !far && !word && !LEFT_OUT.contains(&&*name(insn))
}

fn is_prefix(byte: u8) -> bool {
    matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3)
}

/// Memory that is read or written.
struct Touched {
    at: u64,
    len: usize,
    kind: AccessKind,
}

/// Every place an access touches, by the state before it and, for comparisons that end early, the count after it.
fn touched(access: &Access, case: &Case, after: &State) -> Vec<Touched> {
    let Case { before, vectors, .. } = case;
    let registers = before.general();
    let base = match access.segment {
        Segment::None => 0,
        Segment::Fs => FS_BASE,
        Segment::Gs => GS_BASE,
    };
    let at = access.address(&registers, base);
    let beyond = |by| access.address_beyond(&registers, base, by);
    let one = |at: u64, len: usize| Touched { at, len, kind: access.kind };
    let size = access.size as usize;
    match access.how {
        How::Plain | How::Bit(_) | How::Table | How::Line => vec![one(at, size)],
        How::Masked { element, count, mask } => {
            let elements = size / usize::from(element);
            let is_touched = |i: usize| {
                (i..count.into()).step_by(elements).any(|lane| is_set(mask, lane, element, vectors))
            };
            let touched = (0..elements).filter(|&i| is_touched(i));
            touched.map(|i| one(beyond(i as i64 * i64::from(element)), element.into())).collect()
        }
        How::Opaque => Vec::new(),
        How::State(_) => vec![one(at, 4096)],
        How::Repeated { .. } => {
            let cut = if access.place.narrow { 0xffff_ffff } else { u64::MAX };
            let times = (registers[1] & cut) - (after.general()[1] & cut);
            let step = if before.backwards() { -(size as i64) } else { size as i64 };
            (0..times as i64).map(|i| one(beyond(step * i), size)).collect()
        }
        How::Packed { element, mask } => {
            let lanes = size / usize::from(element);
            let set = (0..lanes).filter(|&lane| is_set(mask, lane, element, vectors)).count();
            vec![one(at, set * usize::from(element))]
        }
        How::Lanes { vector, width, scale, count, mask } => {
            let index = vectors.vector(usize::from(vector));
            let lane = |i: usize| {
                let mut bytes = [0; 8];
                let width = usize::from(width);
                bytes[..width].copy_from_slice(&index[i * width..(i + 1) * width]);
                let spare = 64 - 8 * width;
                (i64::from_le_bytes(bytes) << spare) >> spare
            };
            (0..usize::from(count))
                .filter(|&i| is_set(mask, i, size as u8, vectors))
                .map(|i| one(beyond(lane(i).wrapping_mul(i64::from(scale))), size))
                .collect()
        }
    }
}

fn is_set(mask: Mask, lane: usize, element: u8, vectors: &Vectors) -> bool {
    match mask {
        Mask::Bits(0) => true,
        Mask::Bits(number) => vectors.mask(usize::from(number)) >> lane & 1 == 1,
        Mask::Signs(number) => {
            vectors.vector(usize::from(number))[(lane + 1) * usize::from(element) - 1] & 0x80 != 0
        }
        Mask::MmxSigns(number) => vectors.mmx(usize::from(number))[lane] & 0x80 != 0,
    }
}

/// What is said to be read and written, byte by byte.
struct Said {
    reads: Vec<bool>,
    writes: Vec<bool>,
}

impl Said {
    fn new(touched: &[Touched]) -> Self {
        let mut said = Self { reads: vec![false; SIZE], writes: vec![false; SIZE] };
        for t in touched {
            let place = |at: u64| (at.wrapping_sub(ARENA).min(SIZE as u64)) as usize;
            let range: Range<usize> = place(t.at)..place(t.at.wrapping_add(t.len as u64));
            if range.start > range.end {
                continue;
            }
            if t.kind != AccessKind::Write {
                said.reads[range.clone()].fill(true);
            }
            if t.kind != AccessKind::Read {
                said.writes[range].fill(true);
            }
        }
        said
    }

    fn unsaid_writes(&self, before: &[u8], after: &[u8]) -> Option<String> {
        let at = (0..SIZE).find(|&i| before[i] != after[i] && !self.writes[i])?;
        Some(format!("writes to {:#x}", ARENA + at as u64))
    }

    /// Memory with other bytes in it, but for the instruction.
    fn changed(&self, memory: &[u8], which: impl Fn(usize) -> bool) -> Vec<u8> {
        let is_code = |i: usize| (CODE..CODE + 16).contains(&i);
        memory
            .iter()
            .enumerate()
            .map(|(i, &byte)| if which(i) && !is_code(i) { !byte } else { byte })
            .collect()
    }

    /// What is not the same though nothing changed that is said to be read; `start` is how memory was.
    fn difference(
        &self,
        accesses: &[Access],
        one: &Outcome,
        other: &Outcome,
        start: &[u8],
    ) -> Option<String> {
        if one.registers != other.registers {
            return Some("other registers when other memory is changed".into());
        }
        if one.vectors != other.vectors {
            return Some("other vectors when other memory is changed".into());
        }
        // Of these, some bytes stay as they are; `fxsave` alone is so large.
        let whole = !accesses.iter().any(|a| matches!(a.how, How::State(_)) || a.size == 512);
        let at = (0..SIZE).find(|&i| match self.writes[i] {
            true => other.memory[i] != one.memory[i] && (whole || other.memory[i] != start[i]),
            false => other.memory[i] != start[i],
        })?;
        Some(format!("at {:#x}, memory is not written", ARENA + at as u64))
    }
}
