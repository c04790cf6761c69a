//! Code that writes down which way control goes: see [`relive_abi::trace`].
//!
//! Between units, `r11` points to where the next record of the thread goes, and the program's own `r11` is in the thread's
//! memory. In a unit whose instructions use `r11`, a register that none of them uses takes its place.

use super::emit::Buffer;
use super::{STEP, Spilled, Step, Way, Writer};
use crate::thread::offset;
use relive_abi::trace::Tag;
use relive_code::isa::{EffectsReader, Gpr, Knowledge, Needed, RegSet};

/// The register that points to where the next record goes, between units.
pub const POINTER: Gpr = Gpr::R11;

/// Those that can take its place. Not `rax` and `rcx`, which code that the engine adds uses where it leaves a unit.
const OTHERS: [Gpr; 12] = [
    Gpr::R15,
    Gpr::R14,
    Gpr::R13,
    Gpr::R12,
    Gpr::R10,
    Gpr::R9,
    Gpr::R8,
    Gpr::RBX,
    Gpr::RBP,
    Gpr::RDI,
    Gpr::RSI,
    Gpr::RDX,
];

/// Where the pointer is at some place of the code, and how much of the record has been written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pen {
    /// The register that points to the record; what the program has in it is in the thread's memory.
    pub register: Gpr,
    /// How many values have been written.
    pub values: u16,
    /// The pointer is in the thread's memory, and all registers are the program's.
    pub is_away: bool,
}

impl Pen {
    /// As it is between units, and in programs that are not traced.
    pub const BETWEEN: Self = Self { register: POINTER, values: 0, is_away: false };
}

/// What is to be written down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tags {
    /// The tag of the first exit.
    pub first: Tag,
    /// Whether accesses to memory are too.
    pub memory: bool,
    /// What is known of registers besides what always is.
    pub known: RegSet,
}

impl Tags {
    /// The same from a later exit on.
    pub fn from(self, exits: u32) -> Self {
        Self { first: self.first + exits, ..self }
    }

    /// The same with more known.
    pub fn with(self, known: RegSet) -> Self {
        Self { known, ..self }
    }
}

/// What is written in a unit.
pub struct Recorder {
    /// The tag of its first exit.
    pub first: Tag,
    /// Where the pointer is.
    pub pen: Pen,
    /// Whether accesses to memory are written down too, and what is known then.
    knowledge: Option<Knowledge>,
    /// What has to be written down of the instruction at hand.
    needed: Needed,
    /// See [`super::Unit::useful`].
    pub(super) useful: RegSet,
    /// Whether the record has been finished.
    is_over: bool,
}

impl Recorder {
    /// For a unit, which becomes shorter if its instructions leave no register.
    pub(super) fn new(tags: Tags, way: &mut Way, effects: &mut EffectsReader) -> Self {
        let mut used = RegSet::EMPTY;
        let mut overwritten = RegSet::EMPTY;
        let mut register = POINTER;
        let free = |used: RegSet| {
            let is_free = |register: &Gpr| !used.contains(RegSet::gpr(*register));
            [POINTER].iter().chain(&OTHERS).copied().find(is_free)
        };
        for i in 0..way.steps.len() {
            let insn = &way.steps[i].insn;
            if insn.is_fast_syscall() {
                // The record ends before it.
                break;
            }
            let does = effects.effects(insn);
            if does.reads.contains(RegSet::GPRS) {
                // An interrupt: whoever looks at the registers sees the program's.
                continue;
            }
            if way.steps[i].piece == 0 {
                overwritten |= does.kills - used - does.reads;
            }
            used |= does.reads | does.writes;
            match free(used) {
                Some(found) => register = found,
                None => {
                    way.cut(i);
                    break;
                }
            }
        }
        Self {
            first: tags.first,
            pen: Pen { register, ..Pen::BETWEEN },
            knowledge: tags.memory.then_some(Knowledge::of(tags.known)),
            needed: Needed::default(),
            useful: RegSet::GPRS - overwritten,
            is_over: false,
        }
    }
}

impl Way {
    /// Ends it before one of its instructions.
    fn cut(&mut self, at: usize) {
        let step = &self.steps[at];
        let (pc, piece) = (step.pc(), step.piece as usize);
        self.steps.truncate(at);
        self.next = pc;
        self.pieces.truncate(piece + 1);
        self.pieces[piece].end = pc;
        if self.pieces[piece].start == pc {
            self.pieces.pop();
        }
    }
}

impl Writer<'_, '_> {
    /// At the beginning of a unit: moves the pointer out of the way.
    pub(super) fn begin_record(&mut self) {
        let Some(Recorder { pen: Pen { register, .. }, .. }) = self.recorder else { return };
        if register != POINTER {
            self.unit.hot.store(offset::HOST, register);
            self.mark(STEP, Spilled::default());
            self.unit.hot.copy(register, POINTER);
            self.unit.hot.load(POINTER, offset::R11);
        }
    }

    /// Writes down what has to be known of registers before an instruction.
    pub(super) fn record_before(&mut self, step: &Step) {
        let Some(recorder) = &mut self.recorder else { return };
        let Some(knowledge) = &mut recorder.knowledge else { return };
        let (accesses, replayed) = (self.effects.accesses(&step.insn), self.effects.replayed(&step.insn));
        let needed = knowledge.step(&accesses, &replayed);
        recorder.needed = needed;
        let (pen, hot) = (&mut recorder.pen, &mut self.unit.hot);
        for register in needed.before.gprs() {
            hot.store_register_at(pen.register, len(*pen), register);
            pen.values += 1;
        }
        if needed.flags {
            hot.store(offset::SCRATCH, Gpr::RAX);
            let at = *pen;
            pen.values += 1;
            self.mark(step.pc(), Spilled { scratch: Some(Gpr::RAX), ..Spilled::default() });
            let hot = &mut self.unit.hot;
            hot.raw(&[0x48, 0x8b, 0x04, 0x24]); // mov rax, [rsp]
            hot.store_register_at(at.register, len(at), Gpr::RAX);
            hot.load(Gpr::RAX, offset::SCRATCH);
        }
        if !needed.is_empty() {
            self.mark(step.pc(), Spilled::default());
        }
    }

    /// The same behind it.
    pub(super) fn record_after(&mut self) {
        let Some(recorder) = &mut self.recorder else { return };
        for register in core::mem::take(&mut recorder.needed).after.gprs() {
            self.unit.hot.store_register_at(recorder.pen.register, len(recorder.pen), register);
            recorder.pen.values += 1;
        }
    }

    /// What is known of registers besides what always is.
    pub(super) fn known(&self) -> RegSet {
        let knowledge = self.recorder.as_ref().and_then(|recorder| recorder.knowledge);
        knowledge.map_or(RegSet::EMPTY, |knowledge| (knowledge.known() - Knowledge::ALWAYS) & RegSet::GPRS)
    }

    /// Finishes the record: the unit is left by an exit. From here on all is as it is between units.
    pub(super) fn end_record(&mut self, exit: u32) {
        let Some(recorder) = &mut self.recorder else { return };
        if core::mem::replace(&mut recorder.is_over, true) {
            return;
        }
        let (tag, pen) = (recorder.first + (exit - self.request.first_exit), recorder.pen);
        recorder.pen = Pen::BETWEEN;
        write_tag(&mut self.unit.hot, tag, pen);
        // Up to here, nothing has changed for whoever looks at the record.
        self.mark(STEP, Spilled::default());
        finish(&mut self.unit.hot, pen);
    }

    /// Before a call of the kernel, which overwrites `r11`.
    pub(super) fn put_away(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            self.unit.hot.store(offset::BUFFER, POINTER);
            recorder.pen.is_away = true;
        }
    }

    /// Behind it.
    pub(super) fn take_back(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            self.unit.hot.store(offset::R11, POINTER);
            self.unit.hot.load(POINTER, offset::BUFFER);
            recorder.pen.is_away = false;
            self.mark(STEP, Spilled::default());
        }
    }

    /// The same out of the way, where only one of several exits comes by.
    pub(super) fn end_record_cold(&mut self, exit: u32) {
        let Some(recorder) = &self.recorder else { return };
        let tag = recorder.first + (exit - self.request.first_exit);
        write_tag(&mut self.unit.cold, tag, recorder.pen);
        finish(&mut self.unit.cold, recorder.pen);
    }
}

/// How long a record is: its tag, which is written last, and its values.
fn len(pen: Pen) -> u32 {
    size_of::<Tag>() as u32 + u32::from(pen.values) * 8
}

fn write_tag(code: &mut Buffer, tag: Tag, pen: Pen) {
    code.store_at(pen.register, 0, tag);
}

fn finish(code: &mut Buffer, pen: Pen) {
    let end = len(pen);
    if pen.register == POINTER {
        code.advance(POINTER, POINTER, end);
    } else {
        code.store(offset::R11, POINTER);
        code.advance(POINTER, pen.register, end);
        code.load(pen.register, offset::HOST);
    }
}
