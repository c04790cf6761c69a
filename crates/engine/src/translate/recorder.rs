//! Code that writes down which way control goes: see [`relive_abi::trace`].
//!
//! Between units, `r11` points to where the next record of the thread goes, and the program's own `r11` is in the thread's
//! memory. In a unit whose instructions use `r11`, a register that none of them uses takes its place.

use super::emit::Buffer;
use super::free::Free;
use super::{Progress, STEP, Spilled, Step, Then, Unit, Way, Writer, leave, rare};
use crate::thread::offset;
use core::mem::offset_of;
use relive_abi::engine as abi;
use relive_abi::trace::{CALL, Call, CallResult, RESULT, Tag, word};
use relive_code::isa::{EffectsReader, Form, Gpr, Knowledge, Needed, Rare, RegSet};

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
    /// And when those happen that other threads may wait for.
    pub order: bool,
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
    /// How many values the last record that was finished has.
    pub(super) written: u16,
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
            if tags.order && insn.is_locked() {
                // For the time.
                used |= RegSet::gpr(Gpr::RAX) | RegSet::gpr(Gpr::RDX);
            }
            match free(used) {
                Some(found) => register = found,
                None => {
                    way.cut(i);
                    break;
                }
            }
            if way.steps[i].insn.changes_base() {
                // What it is relative to from now on is told by the engine.
                way.cut(i + 1);
                break;
            }
        }
        Self {
            first: tags.first,
            pen: Pen { register, ..Pen::BETWEEN },
            knowledge: tags.memory.then_some(Knowledge::of(tags.known, tags.order)),
            needed: Needed::default(),
            useful: RegSet::GPRS - overwritten,
            written: 0,
            is_over: false,
        }
    }
}

impl Recorder {
    /// The tag of an exit, with which the record is finished.
    fn tag(&mut self, exit: u32, first_exit: u32) -> Tag {
        self.written = self.pen.values;
        self.first + (exit - first_exit)
    }
}

impl Way {
    /// Ends it before one of its instructions, if it has so many.
    fn cut(&mut self, at: usize) {
        let Some(step) = self.steps.get(at) else { return };
        let (pc, piece) = (step.pc(), step.piece as usize);
        self.steps.truncate(at);
        // A branch whose target came next does not lead there any more if it is not taken.
        let branch = self.steps.last().filter(|step| step.then == Then::Taken);
        self.next = branch.map_or(pc, |branch| branch.insn.next_addr().0);
        self.pieces.truncate(piece + 1);
        self.pieces[piece].end = pc;
        if self.pieces[piece].start == pc {
            self.pieces.pop();
        }
    }
}

impl Writer<'_, '_> {
    /// In front of a unit: the door, and behind it the engine is told when the unit has been entered often enough.
    pub(super) fn watch_recorded(&mut self) {
        if self.recorder.is_none() || !self.request.has_trigger() {
            return;
        }
        let Some(counter) = self.counter() else { return };
        let pc = self.request.pc;
        (self.unit.door, _) = super::jump_to_stub(&mut self.unit.hot);
        let free = Free::at(self.request.source, self.effects, pc);
        self.mark_with(STEP, Spilled::default(), Pen::BETWEEN);
        self.count_up_to(counter, self.request.threshold, free);
        self.mark_between(pc);
    }

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
        for wide in needed.wide.into_iter().flatten() {
            hot.store_wide_at(pen.register, len(*pen), wide);
            pen.values += wide.words() as u16;
        }
        if needed.form {
            self.record_form(step);
        }
        if needed.flags {
            // Above the place to return to and its selector, if it returns.
            let distance = if step.rare == Some(Rare::InterruptReturn) { 16 } else { 0 };
            self.record_word(step, |hot| hot.raw(&[0x48, 0x8b, 0x44, 0x24, distance])); // mov rax, [rsp + …]
        }
        if needed.times {
            self.record_time(false);
        }
        if !needed.is_empty() {
            self.mark(step.pc(), Spilled::default());
        }
    }

    /// Writes down the word of memory that says in which form the processor's state lies there.
    fn record_form(&mut self, step: &Step) {
        let Some(memory) = rare::memory_of(&step.insn) else { return };
        let through_fs = memory.thread_local && step.rare != Some(Rare::Gs);
        self.record_word(step, |hot| {
            rare::load_address(hot, Gpr::RAX, &memory);
            if step.rare == Some(Rare::Gs) {
                hot.store(offset::RDX, Gpr::RDX);
                hot.load(Gpr::RDX, offset::GS_BASE);
                rare::add(hot, Gpr::RAX, Gpr::RDX, 0);
                hot.load(Gpr::RDX, offset::RDX);
            }
            if through_fs {
                hot.raw(&[0x64]);
            }
            hot.raw(&[0x48, 0x8b, 0x80]); // mov rax, [rax + …]
            hot.raw(&Form::WORD.to_le_bytes());
        });
    }

    /// Writes down a word of memory, which `load` loads into `rax`.
    fn record_word(&mut self, step: &Step, load: impl FnOnce(&mut Buffer)) {
        let Some(recorder) = &mut self.recorder else { return };
        let at = recorder.pen;
        recorder.pen.values += 1;
        self.unit.hot.store(offset::SCRATCH, Gpr::RAX);
        self.mark(step.pc(), Spilled { scratch: Some(Gpr::RAX), ..Spilled::default() });
        let hot = &mut self.unit.hot;
        load(hot);
        hot.store_register_at(at.register, len(at), Gpr::RAX);
        hot.load(Gpr::RAX, offset::SCRATCH);
    }

    /// The same behind it.
    pub(super) fn record_after(&mut self) {
        let Some(recorder) = &mut self.recorder else { return };
        let needed = core::mem::take(&mut recorder.needed);
        if needed.times {
            self.record_time(true);
        }
        let Some(recorder) = &mut self.recorder else { return };
        for register in needed.after.gprs() {
            self.unit.hot.store_register_at(recorder.pen.register, len(recorder.pen), register);
            recorder.pen.values += 1;
        }
    }

    /// Writes down the time, right before an instruction that nobody can come in between or right behind it.
    ///
    /// Such an instruction waits until all that was written before it can be seen, and with that the time before. Nothing keeps
    /// the processor from looking at the time behind it too early, but for a fence.
    fn record_time(&mut self, is_behind: bool) {
        let Some(recorder) = &mut self.recorder else { return };
        let pen = recorder.pen;
        recorder.pen.values += 1;
        self.mark(STEP, Spilled::default());
        let hot = &mut self.unit.hot;
        hot.store(offset::SCRATCH, Gpr::RAX);
        hot.store(offset::RDX, Gpr::RDX);
        if is_behind {
            hot.raw(&FENCE);
        }
        write_time(hot, pen.register, len(pen));
        hot.load(Gpr::RDX, offset::RDX);
        hot.load(Gpr::RAX, offset::SCRATCH);
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
        let (tag, pen) = (recorder.tag(exit, self.request.first_exit), recorder.pen);
        recorder.pen = Pen::BETWEEN;
        write_tag(&mut self.unit.hot, tag, pen);
        // Up to here, nothing has changed for whoever looks at the record.
        self.mark(STEP, Spilled::default());
        finish(&mut self.unit.hot, pen);
        self.make_up(true);
    }

    /// A branch backwards, which is likely to be taken: what is written down then is not out of the way.
    pub(super) fn branch_back(&mut self, step: &Step, condition: u8, to: u64) {
        self.unit.hot.raw(&[0x70 | (condition ^ 1), 0]); // over all of this
        let short = self.unit.hot.bytes.len();
        let before = core::mem::replace(&mut self.progress, Progress::Done);
        self.mark_between(to);
        self.progress = before;
        self.mark_cold(to);
        let number = self.next_exit();
        let Some(recorder) = &mut self.recorder else { return };
        let (tag, pen) = (recorder.tag(number, self.request.first_exit), recorder.pen);
        let Unit { hot, cold, .. } = &mut *self.unit;
        write_tag(hot, tag, pen);
        let (field, stub, aside);
        if pen.register == POINTER {
            hot.advance(POINTER, POINTER, len(pen));
            (stub, aside) = (cold.here(), None);
            field = hot.jump(stub);
        } else {
            hot.advance(pen.register, pen.register, len(pen));
            let otherwise = cold.here();
            aside = Some([hot.jump(otherwise), otherwise]);
            give_back(cold, pen, 0);
            (field, stub) = super::jump_to_stub(cold);
        }
        leave(cold, number);
        hot.bytes[short - 1] = (hot.bytes.len() - short) as u8;
        self.exit(abi::BRANCH, step.piece, step.pc(), to, field, stub);
        self.set_aside(aside);
        self.mark(step.insn.next_addr().0, Spilled::default());
    }

    /// A branch that `write` writes so that it leads to the address it is given, if control goes to `to`: what is written down then lies there,
    /// out of the way.
    pub(super) fn branch_recorded(
        &mut self,
        step: &Step,
        kind: u32,
        to: u64,
        write: impl FnOnce(&mut Buffer, u64) -> u64,
    ) {
        let number = self.next_exit();
        self.mark_cold(to);
        let Some(recorder) = &mut self.recorder else { return };
        let (tag, pen) = (recorder.tag(number, self.request.first_exit), recorder.pen);
        let Unit { hot, cold, .. } = &mut *self.unit;
        write(hot, cold.here());
        write_tag(cold, tag, pen);
        let mut aside = None;
        if !self.followed.is_empty() {
            finish(cold, pen);
            self.mark_cold(STEP);
            self.make_up(false);
            self.mark_cold(to);
        } else if pen.register == POINTER {
            cold.advance(POINTER, POINTER, len(pen));
        } else {
            cold.advance(pen.register, pen.register, len(pen));
            let (field, otherwise) = super::jump_to_stub(cold);
            aside = Some([field, otherwise]);
            give_back(cold, pen, 0);
        }
        let cold = &mut self.unit.cold;
        let (field, stub) = super::jump_to_stub(cold);
        leave(cold, number);
        self.exit(kind, step.piece, step.pc(), to, field, stub);
        self.set_aside(aside);
    }

    /// Finishes the record out of the way, where a computed jump does not lead where it mostly does: `rcx` says where, and is spilled.
    pub(super) fn end_record_aside(&mut self, exit: u32) {
        let Some(recorder) = &mut self.recorder else { return };
        let (tag, pen) = (recorder.tag(exit, self.request.first_exit), recorder.pen);
        let cold = &mut self.unit.cold;
        write_tag(cold, tag, pen);
        finish(cold, pen);
    }

    fn set_aside(&mut self, aside: Option<[u64; 2]>) {
        if let Some(exit) = self.unit.exits.last_mut() {
            exit.aside = aside;
        }
    }

    /// Before a call of the kernel, which overwrites `rcx`: what for. The program's `rax` is in the thread's memory too.
    pub(super) fn record_call(&mut self) {
        if self.recorder.is_none() {
            return;
        }
        let hot = &mut self.unit.hot;
        let at = |field: usize| (size_of::<Tag>() + field) as u32;
        hot.store_register_at(POINTER, at(offset_of!(Call, number)), Gpr::RAX);
        for (i, register) in ARGUMENTS.into_iter().enumerate() {
            hot.store_register_at(POINTER, at(offset_of!(Call, arguments) + 8 * i), register);
        }
        hot.copy(Gpr::RCX, Gpr::RDX);
        write_time(hot, POINTER, at(offset_of!(Call, time)));
        hot.copy(Gpr::RDX, Gpr::RCX);
        hot.load(Gpr::RAX, offset::SCRATCH);
        hot.store_at(POINTER, 0, CALL);
        hot.advance(POINTER, POINTER, at(size_of::<Call>()));
    }

    /// Behind it: what came of it.
    pub(super) fn record_result(&mut self) {
        if self.recorder.is_none() {
            return;
        }
        let hot = &mut self.unit.hot;
        let at = |field: usize| (size_of::<Tag>() + field) as u32;
        hot.store_register_at(POINTER, at(offset_of!(CallResult, value)), Gpr::RAX);
        hot.store(offset::RAX, Gpr::RAX);
        hot.store(offset::RDX, Gpr::RDX);
        hot.raw(&FENCE);
        write_time(hot, POINTER, at(offset_of!(CallResult, time)));
        hot.load(Gpr::RDX, offset::RDX);
        hot.load(Gpr::RAX, offset::RAX);
        hot.store_at(POINTER, 0, RESULT);
        hot.advance(POINTER, POINTER, at(size_of::<CallResult>()));
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
}

/// How long a record is: its tag, which is written last, and its values.
fn len(pen: Pen) -> u32 {
    size_of::<Tag>() as u32 + u32::from(pen.values) * 8
}

/// Where the kernel finds what it is called with.
const ARGUMENTS: [Gpr; 6] = [Gpr::RDI, Gpr::RSI, Gpr::RDX, Gpr::R10, Gpr::R8, Gpr::R9];

/// `lfence`: what comes behind it waits for what comes before.
const FENCE: [u8; 3] = [0x0f, 0xae, 0xe8];

/// Overwrites `rax` and `rdx`.
fn write_time(code: &mut Buffer, base: Gpr, distance: u32) {
    code.raw(&[0x0f, 0x31]); // rdtsc
    code.store_half_at(base, distance, Gpr::RAX);
    code.store_half_at(base, distance + 4, Gpr::RDX);
}

fn write_tag(code: &mut Buffer, tag: Tag, pen: Pen) {
    code.store_at(pen.register, 0, word(tag, pen.values));
}

fn finish(code: &mut Buffer, pen: Pen) {
    let end = len(pen);
    if pen.register == POINTER {
        code.advance(POINTER, POINTER, end);
    } else {
        give_back(code, pen, end);
    }
}

/// The register that has taken the pointer's place is the program's again.
fn give_back(code: &mut Buffer, pen: Pen, end: u32) {
    code.store(offset::R11, POINTER);
    code.advance(POINTER, pen.register, end);
    code.load(pen.register, offset::HOST);
}
