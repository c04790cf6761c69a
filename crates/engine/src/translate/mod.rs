//! Turns a piece of a program into code for the cache that does the same, counts, and comes back to the engine
//! where it does not know the way.
//!
//! A *unit* begins at one address and follows the program's code over branches not taken and direct jumps. It lies
//! in two parts: what is usually executed, and out of the way (`cold`) what is not.
//!
//! Return addresses on the program's stack stay those of the program, so that whoever looks at the stack sees what
//! it always saw. Computed targets are therefore looked up; see [`call::landing`].

mod call;
pub mod emit;
pub mod free;
mod indirect;
mod kernel;
mod mark;
mod rare;
mod recorder;
mod trace;

use crate::flow::Source as From;
use crate::places::NONE;
use crate::thread::offset;
use alloc::boxed::Box;
use alloc::vec::Vec;
pub use call::{CALL_LEN, Call, DROP, close_landing, landing, make_up, skip_call};
use emit::Buffer;
use free::{Ahead, FAR, Free};
pub use mark::{IN_RCX, Mark, Progress, RETURNING, STEP, Spilled, is_place};
pub use recorder::{POINTER, Pen, Recorder, Tags};
use relive_abi::engine as abi;
use relive_abi::trace::Tag;
use relive_code::addr::LinkAddr;
use relive_code::isa::{Decode, EffectsReader, Flow, Gpr, Insn, Rare, RegSet, Tie};
pub use trace::{Leg, Then, can_compare, differ};

/// The longest instruction.
pub const LONGEST: usize = 15;

/// Where a program's code is read.
pub trait Source {
    /// The bytes at an address that can be executed: as many as there are up to some limit, none if there is no code.
    fn bytes(&self, pc: u64) -> &[u8];

    /// The instruction at an address, if there is a valid one.
    fn insn(&self, pc: u64) -> Option<Insn> {
        Insn::decode(self.bytes(pc), LinkAddr(pc))
    }
}

/// Instructions one behind the other. Control goes from each piece to the next unless it takes an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first instruction.
    pub start: u64,
    /// Behind the last.
    pub end: u64,
}

/// What a translation needs to be given.
pub struct Request<'a> {
    /// The program.
    pub source: &'a dyn Source,
    /// Where to begin.
    pub pc: u64,
    /// The way to go. If there is none, straight on.
    pub legs: &'a [Leg],
    /// How often it is entered before the engine wants to know; 0 for never.
    pub threshold: u32,
    /// Where the usual part will lie.
    pub hot: u64,
    /// Where the rest will lie.
    pub cold: u64,
    /// The number of the first exit.
    pub first_exit: u32,
    /// The first free counter, if there are to be any.
    pub counter: Option<u32>,
    /// How it will be entered besides by jumps.
    pub entrance: Entrance,
    /// Whether it has to be known where each computed jump leads.
    pub tells_targets: bool,
    /// Where the call that comes back to an address is already, for that at another.
    pub calls: &'a dyn Fn(u64, u64) -> Option<u64>,
    /// Where calls that are followed are made up for, by the address they come back to.
    pub made_up: &'a [(u64, u64)],
    /// Whether somebody wants to know what place in the cache is what place in the program.
    pub marks: bool,
    /// If it is to be written down which way control goes: how.
    pub tags: Option<Tags>,
}

impl Request<'_> {
    /// Whether the unit's first exit tells that it is often entered.
    fn has_trigger(&self) -> bool {
        self.threshold != 0 && self.counter.is_some()
    }

    /// Whether somebody wants to know how often it was entered. Of units that are traced, the counter is for the trigger alone.
    fn counts(&self) -> bool {
        self.counter.is_some() && self.tags.is_none()
    }
}

/// How a unit is entered besides by jumps, without a detour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entrance {
    /// Not at all.
    Jump,
    /// The same, by a jump back or a computed one: what begins there may be executed very often.
    Head,
    /// By calls.
    Call,
    /// By returns.
    Return,
}

/// How a unit is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exit {
    /// What kind: see [`abi::JUMP`] and the others.
    pub kind: u32,
    /// Where it leads, if that is known; for calls of the kernel, where it comes back to.
    pub to: u64,
    /// The instruction that leaves.
    pub from: u64,
    /// The four bytes to change once the way is known; 0 if it never is.
    pub field: u64,
    /// Where that field leads as long as it is not.
    pub stub: u64,
    /// Another field, and where it leads, unless to a unit that has the pointer in the same register: then to [`Unit::inner`] of that. See
    /// [`Pen`].
    pub aside: Option<[u64; 2]>,
    /// The piece it belongs to.
    pub piece: u16,
    /// Its counter.
    pub counter: u32,
    /// What it is for whoever counts.
    pub source: From,
    /// The unit that its field leads to, once it does.
    pub leads: u32,
    /// The unit with it.
    pub unit: u32,
    /// Another exit that leads to the same place: see [`crate::places`].
    pub next: u32,
    /// What is known of registers there, by who replays what is written down.
    pub known: RegSet,
    /// How many values are written down on the way there.
    pub values: u16,
}

impl Exit {
    /// Leads nowhere.
    pub const NONE: Self = Self {
        kind: abi::JUMP,
        to: 0,
        from: 0,
        field: 0,
        stub: 0,
        aside: None,
        piece: 0,
        counter: abi::NO_COUNTER,
        source: From::Outside,
        leads: NONE,
        unit: 0,
        next: NONE,
        known: RegSet::EMPTY,
        values: 0,
    };

    /// Where its field leads as long as the way is not known. A call has an address to drop first.
    pub fn unknown(&self) -> u64 {
        if self.kind == abi::INDIRECT_CALL { self.stub - DROP.len() as u64 } else { self.stub }
    }

    /// Whether its field leads to where it leads.
    pub fn is_linked(&self) -> bool {
        self.leads != NONE
    }

    /// Another exit that leads to the same place.
    pub fn next(&self) -> Option<u32> {
        (self.next != NONE).then_some(self.next)
    }

    /// As it is written down.
    pub fn record(&self) -> abi::Exit {
        let number = if let From::Call(number) = self.source { number } else { self.counter };
        abi::Exit { to: self.to, number, piece: self.piece, kind: self.kind as u16 }
    }
}

/// The kind of an exit by which the engine learns that a unit is often entered. It is in no log.
pub const HOT: u32 = u32::MAX;

/// Translated code.
pub struct Unit {
    /// The usual part.
    pub hot: Buffer,
    /// The rest.
    pub cold: Buffer,
    /// Where it is entered.
    pub body: u64,
    /// Where it is entered with the pointer in the register where it has it.
    pub inner: u64,
    /// Which that is.
    pub pen: Gpr,
    /// Where calls or returns enter it, if that was asked for.
    pub entrance: u64,
    /// The call at its end, if it is the first unit with it.
    pub call: Option<Call>,
    /// If it is not: where that is.
    pub shared_call: Option<u64>,
    /// The way to tell that it is often entered: comes before [`Self::exits`].
    pub trigger: Option<Exit>,
    /// In programs that are traced, the four bytes to change so that whoever enters it goes elsewhere; 0 if there are none.
    pub door: u64,
    /// The ways out; the last one is the end.
    pub exits: Vec<Exit>,
    /// The program's code in it.
    pub pieces: Vec<Piece>,
    /// How many counters it has.
    pub counters: u32,
    /// Registers that matter to it or to what comes next, of those that may be known when it is entered.
    pub useful: RegSet,
    /// What place in the cache is what place in the program, in the order of addresses within each part.
    pub marks: Vec<Mark>,
}

impl Unit {
    /// The tag of its first exit, if the first of its numbers has this one.
    pub fn first_tag(&self, tags: Tags) -> Tag {
        tags.first + u32::from(self.trigger.is_some())
    }

    /// Leaves out the jump at its end, behind where its call comes back to: what comes next will lie there.
    pub fn open_end(&mut self) {
        if let Some(call) = &mut self.call {
            self.hot.bytes.truncate((call.body - self.hot.at) as usize);
            call.way.field = 0;
        }
    }

    /// How many numbers of exits it has.
    pub fn numbers(&self) -> u32 {
        u32::from(self.trigger.is_some()) + self.exits.len() as u32 + u32::from(self.call.is_some())
    }

    /// Where what comes next lies, if that is right behind, and where it is in the program.
    pub fn next(&self) -> Option<(u64, u64)> {
        self.call.filter(|call| call.way.field == 0).map(|call| (call.body, call.back))
    }
}

/// Instructions in one unit at most.
const MOST_INSNS: usize = 96;
/// Branches in one unit at most.
const MOST_BRANCHES: usize = 8;

/// An instruction of a unit.
struct Step {
    insn: Insn,
    bytes: [u8; COPIED],
    piece: u32,
    then: Then,
    rare: Option<Rare>,
    tie: Tie,
}

/// Copies of instructions are as long as the longest, and a bit more, so that they can be moved as a whole.
const COPIED: usize = 16;

impl Step {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.insn.len() as usize]
    }

    fn pc(&self) -> u64 {
        self.insn.addr().0
    }

    /// Decodes the next instruction of `bytes`, which lie at `first`. Whether there is one.
    fn decode(&mut self, decode: &mut Decode<'_>, bytes: &[u8], first: u64) -> bool {
        if !decode.next_into(&mut self.insn) {
            return false;
        }
        self.bytes = copy(&bytes[(self.pc() - first) as usize..]);
        // Both are usually what they are already, and costly to move right after they were written.
        let (rare, tie) = (self.insn.rare(), decode.tie(&self.insn));
        if rare.is_some() {
            self.rare = rare;
        }
        if !matches!(tie, Tie::Free) {
            self.tie = tie;
        }
        true
    }
}

/// The code of a unit: its instructions, and why it ends behind the last.
struct Way {
    steps: Vec<Step>,
    pieces: Vec<Piece>,
    /// Where control goes if the last instruction simply goes on.
    next: u64,
}

/// Another step, to be decoded in its place: an instruction is moved at a cost.
fn next_step(steps: &mut Vec<Step>, piece: usize) -> &mut Step {
    let number = steps.len();
    steps.push(Step {
        insn: Insn::default(),
        bytes: [0; COPIED],
        piece: piece as u32,
        then: Then::On,
        rare: None,
        tie: Tie::Free,
    });
    &mut steps[number]
}

fn follow(source: &dyn Source, start: u64) -> Way {
    let mut pieces = Vec::with_capacity(MOST_BRANCHES);
    pieces.push(Piece { start, end: start });
    let mut way = Way { steps: Vec::with_capacity(MOST_INSNS / 3), pieces, next: start };
    let mut branches = 0;
    let mut bytes = source.bytes(start);
    let mut decode = Decode::new(bytes, LinkAddr(start));
    let mut first = start;
    while way.steps.len() < MOST_INSNS {
        let piece = way.pieces.len() - 1;
        let step = next_step(&mut way.steps, piece);
        let mut is_there = step.decode(&mut decode, bytes, first);
        if !is_there && way.next != first {
            // Perhaps only what was looked at is at its end.
            (bytes, first) = (source.bytes(way.next), way.next);
            decode = Decode::new(bytes, LinkAddr(first));
            is_there = step.decode(&mut decode, bytes, first);
        }
        if !is_there {
            way.steps.pop();
            break;
        }
        let insn = &step.insn;
        way.next = insn.next_addr().0;
        way.pieces[piece].end = way.next;
        match insn.flow() {
            _ if step.rare.is_some_and(rare::ends) => break,
            Flow::Next if insn.is_fast_syscall() => break,
            Flow::Next => {}
            Flow::Branch(_) if branches < MOST_BRANCHES => {
                branches += 1;
                way.pieces.push(Piece { start: way.next, end: way.next });
            }
            Flow::Jump(to)
                if !way.pieces.iter().any(|p| p.start == to.0) && !source.bytes(to.0).is_empty() =>
            {
                way.next = to.0;
                way.pieces.push(Piece { start: to.0, end: to.0 });
                (bytes, first) = (source.bytes(to.0), to.0);
                decode = Decode::new(bytes, to);
            }
            _ => break,
        }
    }
    way
}

/// An instruction's bytes, and perhaps some behind it.
fn copy(bytes: &[u8]) -> [u8; COPIED] {
    #[cold]
    fn copy_few(bytes: &[u8]) -> [u8; COPIED] {
        let mut copy = [0; COPIED];
        copy[..bytes.len()].copy_from_slice(bytes);
        copy
    }
    bytes.first_chunk().copied().unwrap_or_else(|| copy_few(bytes))
}

/// Translates the code at a place of the program.
pub fn translate(request: &Request<'_>, effects: &mut EffectsReader) -> Box<Unit> {
    let mut way = match request.legs {
        [] => follow(request.source, request.pc),
        legs => trace::along(request.source, legs),
    };
    let recorder = request.tags.map(|tags| Recorder::new(tags, &mut way, effects));
    let mut writer = Writer {
        request,
        effects,
        unit: Box::new(Unit {
            hot: Buffer::new(request.hot),
            cold: Buffer::new(request.cold),
            body: 0,
            inner: 0,
            pen: POINTER,
            entrance: 0,
            call: None,
            shared_call: None,
            trigger: None,
            door: 0,
            exits: Vec::with_capacity(MOST_BRANCHES + 2),
            pieces: Vec::new(),
            counters: 0,
            useful: recorder.as_ref().map_or(RegSet::EMPTY, |recorder| recorder.useful),
            marks: Vec::new(),
        }),
        piece: 0,
        recorder,
        progress: if request.counts() { Progress::Entered } else { Progress::Counted },
        followed: Vec::new(),
    };
    writer.write(&way);
    let mut unit = writer.unit;
    unit.pieces = way.pieces;
    unit
}

struct Writer<'a, 'b> {
    request: &'a Request<'a>,
    effects: &'b mut EffectsReader,
    unit: Box<Unit>,
    piece: u32,
    recorder: Option<Recorder>,
    progress: Progress,
    /// Where the calls come back to that are being followed, the outermost first.
    followed: Vec<u64>,
}

impl Writer<'_, '_> {
    fn write(&mut self, way: &Way) {
        self.unit.entrance = self.unit.hot.here();
        match self.request.entrance {
            Entrance::Jump | Entrance::Head => {}
            Entrance::Return => self.landing(self.request.pc),
            Entrance::Call => {
                self.mark(STEP, Spilled::default());
                self.unit.hot.raw(&DROP);
            }
        }
        self.unit.body = self.unit.hot.here();
        self.mark_between(self.request.pc);
        self.watch_recorded();
        self.begin_record();
        self.unit.inner = self.unit.hot.here();
        self.unit.pen = self.recorder.as_ref().map_or(POINTER, |recorder| recorder.pen.register);
        let entry = if self.request.counts() { self.counter() } else { None };
        let place = entry.map(|_| self.entry_place(way));
        for (i, step) in way.steps.iter().enumerate() {
            self.piece = step.piece;
            if let (Some(counter), Some((at, free))) = (entry, place)
                && at == i
            {
                self.count_here(counter, free, step.pc());
            }
            let is_last = i + 1 == way.steps.len();
            if self.step(step, is_last) {
                return;
            }
        }
        match way.steps.last() {
            // No valid instruction: the processor says so too.
            None => self.nowhere(way.next, 0),
            Some(step) if self.recorder.is_some() && step.insn.changes_base() => {
                self.leave_rebased(step, way.next);
            }
            Some(step) => self.leave_at_the_end(abi::JUMP, last_piece(way), step.pc(), way.next),
        }
    }

    /// A place in the first piece where counting costs least.
    fn entry_place(&mut self, way: &Way) -> (usize, Free) {
        let mut best = (0, Free::NOTHING);
        let mut known = Vec::with_capacity(FAR);
        for (i, step) in way.steps.iter().take_while(|s| s.piece == 0).enumerate() {
            let ahead = Ahead { steps: &way.steps, next: i, known: &mut known };
            let free = Free::ahead(self.request.source, self.effects, step.pc(), ahead);
            if free.flags {
                return (i, free);
            }
            if best.1.register.is_none() && free.register.is_some() {
                best = (i, free);
            }
            // Behind it is another unit, or the kernel.
            if step.insn.is_syscall() {
                break;
            }
        }
        best
    }

    fn counter(&mut self) -> Option<u32> {
        let counter = self.request.counter? + self.unit.counters;
        self.unit.counters += 1;
        Some(counter)
    }

    fn mark(&mut self, pc: u64, spilled: Spilled) {
        let pen = self.recorder.as_ref().map_or(Pen::BETWEEN, |recorder| recorder.pen);
        self.mark_with(pc, spilled, pen);
    }

    /// At the beginning of the unit.
    fn mark_between(&mut self, pc: u64) {
        self.mark_with(pc, Spilled::default(), Pen::BETWEEN);
    }

    fn mark_with(&mut self, pc: u64, spilled: Spilled, pen: Pen) {
        if !self.request.marks {
            return;
        }
        let (at, piece, progress) = (self.unit.hot.here(), self.piece, self.progress);
        self.unit.marks.push(Mark { at, pc, spilled, piece, progress, pen });
    }

    /// A place out of the way, at which the unit is over.
    fn mark_cold(&mut self, pc: u64) {
        self.mark_cold_spilled(pc, Spilled::default());
    }

    fn mark_cold_spilled(&mut self, pc: u64, spilled: Spilled) {
        if !self.request.marks {
            return;
        }
        let (at, piece) = (self.unit.cold.here(), self.piece);
        let mark = Mark { at, pc, spilled, piece, progress: Progress::Done, pen: Pen::BETWEEN };
        self.unit.marks.push(mark);
    }

    fn count_here(&mut self, counter: u32, free: Free, pc: u64) {
        self.mark(STEP, Spilled::default());
        match self.request.threshold {
            0 => count(&mut self.unit.hot, counter, free),
            threshold => self.count_up_to(counter, threshold, free),
        }
        self.progress = Progress::Counted;
        self.mark(pc, Spilled::default());
    }

    /// Counts, and enters the engine when there is something to tell.
    fn count_up_to(&mut self, counter: u32, threshold: u32, free: Free) {
        let number = self.request.first_exit;
        let at = offset::counter(counter);
        self.mark_cold(STEP);
        let Unit { hot, cold, .. } = &mut *self.unit;
        let stub = cold.here();
        if free.all_flags {
            hot.increment(at);
            hot.raw(&[0x65, 0x81, 0x3c, 0x25]); // cmp dword gs:[counter], threshold
            hot.raw(&at.to_le_bytes());
            hot.raw(&threshold.to_le_bytes());
            hot.raw(&[0x0f, 0x84]);
            hot.distance(stub, 0);
        } else {
            hot.store(offset::SCRATCH, Gpr::RCX);
            hot.increment_through(Gpr::RCX, at);
            hot.raw(&[0x48, 0x8d, 0x89]); // lea rcx, [rcx - threshold]
            hot.raw(&threshold.wrapping_neg().to_le_bytes());
            hot.raw(&[0xe3, 2, 0xeb, 5, 0xe9]); // jrcxz to the jump, or over it
            hot.distance(stub, 0);
            hot.load(Gpr::RCX, offset::SCRATCH);
            cold.load(Gpr::RCX, offset::SCRATCH);
        }
        leave(cold, number);
        let (from, stub) = (self.request.pc, hot.here());
        self.unit.trigger = Some(Exit { kind: HOT, from, stub, ..Exit::NONE });
    }

    /// Writes one instruction. Whether it was the end.
    fn step(&mut self, step: &Step, is_last: bool) -> bool {
        self.mark(step.pc(), Spilled::default());
        self.record_before(step);
        let is_end = self.instruction(step, is_last);
        if !is_end {
            self.record_after();
        }
        is_end
    }

    fn instruction(&mut self, step: &Step, is_last: bool) -> bool {
        let pc = step.pc();
        let bytes = step.bytes();
        if let Some(rare) = step.rare
            && let Some(is_end) = self.rare(step, rare)
        {
            return is_end;
        }
        match step.tie {
            Tie::Operand { field, target } if !is_indirect(&step.insn) => {
                let hot = &mut self.unit.hot;
                let end = hot.here() + bytes.len() as u64;
                let mut moved = step.bytes;
                moved[field..field + 4].copy_from_slice(&emit::near(end, target.0).to_le_bytes());
                hot.insn(&moved, bytes.len());
            }
            Tie::Jump(to) if is_last => {
                self.leave_at_the_end(abi::JUMP, step.piece, pc, to.0);
                return true;
            }
            Tie::Jump(_) => {}
            Tie::Branch(condition, to) if step.then == Then::Taken && !is_last => {
                self.branch_followed(step, condition, to.0);
            }
            Tie::Branch(condition, to)
                if self.recorder.is_some() && self.followed.is_empty() && to.0 <= pc =>
            {
                self.branch_back(step, condition, to.0);
            }
            Tie::Branch(condition, to) => {
                self.branch_away(step, abi::BRANCH, to.0, |hot, to| hot.branch(condition, to));
            }
            Tie::ShortBranch(to) => self.branch_away(step, abi::BRANCH, to.0, |hot, to| {
                // Leads over the jump that is taken otherwise, to the one that reaches.
                hot.raw(&bytes[..bytes.len() - 1]);
                let short = hot.bytes.len();
                hot.raw(&[0, 0xeb, 0]);
                let taken = hot.size();
                let field = hot.jump(to);
                hot.bytes[short] = (taken - short as u32 - 1) as u8;
                hot.bytes[short + 2] = (hot.size() - taken) as u8;
                field
            }),
            Tie::Call(to) if step.then == Then::Called && !is_last => self.follow_call(step, to.0),
            Tie::Call(to) => {
                let next = step.insn.next_addr();
                self.push_return(next.0);
                self.progress = Progress::Done;
                self.end_record(self.next_exit());
                self.mark(to.0, Spilled::default());
                if to == next {
                    self.leave_at_the_end(abi::CALL_NEXT, step.piece, pc, to.0);
                } else {
                    self.call(step, abi::CALL, to.0);
                }
                return true;
            }
            _ => match step.insn.flow() {
                Flow::IndirectJump if let Then::Guess(to) = step.then => self.guess(step, to),
                Flow::IndirectCall
                    if let Then::GuessedCall(to) = step.then
                        && !is_last =>
                {
                    self.guess_call(step, to);
                }
                Flow::Return
                    if let Then::Returned(to) = step.then
                        && !is_last =>
                {
                    self.follow_return(step, to);
                }
                Flow::IndirectJump | Flow::IndirectCall | Flow::Return => {
                    self.indirect(step);
                    return true;
                }
                Flow::Stop => {
                    self.unit.hot.raw(bytes);
                    self.exit(abi::NOWHERE, step.piece, pc, 0, 0, 0);
                    return true;
                }
                _ if step.insn.is_fast_syscall() => {
                    self.kernel(step);
                    return true;
                }
                _ => self.unit.hot.insn(&step.bytes, bytes.len()),
            },
        }
        false
    }

    /// An instruction that cannot be executed.
    fn nowhere(&mut self, pc: u64, piece: u32) {
        self.mark(pc, Spilled::default());
        self.unit.hot.raw(&[0x0f, 0x0b]);
        self.exit(abi::NOWHERE, piece, pc, 0, 0, 0);
    }

    /// A branch that `write` writes so that it leads to the address it is given, if control goes to `to`.
    fn branch_away(&mut self, step: &Step, kind: u32, to: u64, write: impl FnOnce(&mut Buffer, u64) -> u64) {
        if self.recorder.is_some() {
            return self.branch_recorded(step, kind, to, write);
        }
        let number = self.next_exit();
        let stub = self.unit.cold.here();
        self.mark_cold(to);
        leave(&mut self.unit.cold, number);
        let field = write(&mut self.unit.hot, stub);
        self.exit(kind, step.piece, step.pc(), to, field, stub);
    }

    fn leave_at_the_end(&mut self, kind: u32, piece: u32, from: u64, to: u64) {
        let number = self.next_exit();
        let stub = self.unit.cold.here();
        self.mark_cold(to);
        leave(&mut self.unit.cold, number);
        if self.progress != Progress::Called {
            self.progress = Progress::Done;
        }
        self.end_record(number);
        self.mark(to, Spilled::default());
        let field = self.unit.hot.jump(stub);
        self.exit(kind, piece, from, to, field, stub);
    }

    /// Behind an instruction that has changed the base of a segment: the engine says what it is now, each time.
    fn leave_rebased(&mut self, step: &Step, to: u64) {
        let number = self.next_exit();
        self.progress = Progress::Done;
        self.end_record(number);
        self.mark(to, Spilled::default());
        leave(&mut self.unit.hot, number);
        self.exit(abi::REBASED, step.piece, step.pc(), to, 0, 0);
    }

    fn next_exit(&self) -> u32 {
        self.request.first_exit + u32::from(self.request.has_trigger()) + self.unit.exits.len() as u32
    }

    fn exit(&mut self, kind: u32, piece: u32, from: u64, to: u64, field: u64, stub: u64) {
        let (known, values) = (self.known(), self.recorder.as_ref().map_or(0, |recorder| recorder.written));
        let piece = piece as u16;
        self.unit.exits.push(Exit { kind, to, from, field, stub, piece, known, values, ..Exit::NONE });
    }
}

fn last_piece(way: &Way) -> u32 {
    way.pieces.len() as u32 - 1
}

fn is_indirect(insn: &Insn) -> bool {
    matches!(insn.flow(), Flow::IndirectJump | Flow::IndirectCall | Flow::Return)
}

/// Counts, at a place where some things are not needed.
pub fn count(code: &mut Buffer, counter: u32, free: Free) {
    let at = offset::counter(counter);
    match free {
        Free { flags: true, .. } => code.increment(at),
        Free { register: Some(register), .. } => code.increment_through(register, at),
        Free { .. } => {
            code.store(offset::SCRATCH, Gpr::RAX);
            code.increment_through(Gpr::RAX, at);
            code.load(Gpr::RAX, offset::SCRATCH);
        }
    }
}

/// Goes to the engine by an exit.
fn leave(code: &mut Buffer, exit: u32) {
    code.store_number(offset::EXIT, exit);
    code.jump_through(offset::ENTER);
}

/// A way to a place that is not known yet, as an exit of its own.
pub fn way(code: &mut Buffer, number: u32, from: u64, to: u64) -> Exit {
    let (field, stub) = jump_to_stub(code);
    leave(code, number);
    Exit { to, from, field, stub, ..Exit::NONE }
}

/// A jump to what comes next, until it leads elsewhere.
fn jump_to_stub(code: &mut Buffer) -> (u64, u64) {
    let field = code.jump(code.here());
    let stub = code.here();
    patch(code, field, stub);
    (field, stub)
}

/// `rcx = rax - rcx` without flags. Twice is nothing.
pub fn compare(code: &mut Buffer) {
    code.raw(&[0x48, 0xf7, 0xd1]); // not rcx
    code.raw(&[0x48, 0x8d, 0x4c, 0x01, 0x01]); // lea rcx, [rcx + rax + 1]
}

/// Changes where a jump in a buffer leads.
fn patch(code: &mut Buffer, field: u64, to: u64) {
    let at = (field - code.at) as usize;
    code.bytes[at..at + 4].copy_from_slice(&emit::near(field + 4, to).to_le_bytes());
}
