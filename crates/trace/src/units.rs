//! The code that traced threads execute.

use crate::layout::Layout;
use crate::operations::{Operations, compile};
use relive_abi::engine::{CODE, TRACED};
use relive_abi::trace::{Call, CallResult, FIRST_TAG, MOST_TAGS, Stop};
pub use relive_abi::trace::{State, Tag};
use relive_code::addr::LinkAddr;
use relive_code::isa::{Decode, EffectsReader, Flow, Gpr, Insn, RegSet};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

/// Code that was translated in one go: entered at one place, left at several.
#[derive(Debug)]
pub struct Unit {
    /// Its number, in the process.
    pub number: u32,
    /// The number of the first unit with the same code and the same ways out: the same but for what is known when it is entered.
    pub version_of: u32,
    /// The tag of its first exit; those of the others follow.
    pub first: Tag,
    /// The program's code in it: from where to where.
    pub pieces: Vec<(u64, u64)>,
    /// The ways out.
    pub exits: Vec<Exit>,
    /// The registers whose values are known when it is entered, besides the stack pointer.
    pub known: RegSet,
    /// Its instructions.
    pub steps: Vec<Step>,
    /// The bytes of all pieces.
    pub code: Vec<u8>,
    /// How many mappings the process had had by then: as its log tells of them.
    pub mappings: u32,
    pub(crate) operations: Operations,
}

/// A way out of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Where it leads; 0 if that is computed.
    pub to: u64,
    /// What ends there: a jump, a call, a return, ….
    pub kind: u16,
    /// The piece that ends with it.
    pub piece: u16,
    /// How many instructions are executed up to there.
    pub steps: u32,
}

/// An instruction of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where it is.
    pub pc: u64,
    /// Where its bytes are in the unit's code.
    pub offset: u16,
    /// How many there are.
    pub len: u8,
    /// The piece it is in.
    pub piece: u16,
}

/// How control goes from one piece of a unit to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// By a jump or a branch, or simply on.
    On,
    /// By a call.
    Call,
    /// By a return.
    Return,
}

impl Unit {
    /// Decodes one of its instructions.
    #[must_use]
    pub fn decode(&self, step: usize) -> Option<Insn> {
        let &Step { pc, offset, len, .. } = self.steps.get(step)?;
        Insn::decode(self.code.get(usize::from(offset)..)?.get(..len.into())?, LinkAddr(pc))
    }

    /// How control goes from its pieces to the next ones: the first instruction of the piece, how, and where that begins.
    pub fn turns(&self) -> impl Iterator<Item = (usize, Turn, u64)> {
        let starts =
            (1..self.steps.len()).filter(|&step| self.steps[step].piece != self.steps[step - 1].piece);
        starts.map(|step| {
            let turn = match self.decode(step - 1).map(|insn| insn.flow()) {
                Some(Flow::Call(_) | Flow::IndirectCall) => Turn::Call,
                Some(Flow::Return) => Turn::Return,
                _ => Turn::On,
            };
            (step, turn, self.steps[step].pc)
        })
    }

    /// Whether it is the same code, with the same ways out.
    fn is_same(&self, other: &Self) -> bool {
        (&self.pieces, &self.exits, &self.code) == (&other.pieces, &other.exits, &other.code)
    }

    /// Of what [`Self::is_same`] compares, as much as tells most apart.
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.pieces, &self.code, self.exits.len()).hash(&mut hasher);
        hasher.finish()
    }

    /// How many instructions come before the place where it was left in the middle.
    pub(crate) fn steps_before(&self, stop: &Stop) -> usize {
        let (piece, pc) = (stop.piece, stop.pc);
        let is_before = |step: &&Step| {
            let of = u32::from(step.piece);
            of < piece || of == piece && step.pc < pc
        };
        self.steps.iter().take_while(is_before).count()
    }
}

/// All units of a process, as far as they are known.
#[derive(Default)]
pub struct Units {
    all: Vec<Arc<Unit>>,
    /// By tag, from the first on: which unit.
    by_tag: Vec<u32>,
    /// And which of its exits.
    outs: Vec<Out>,
    /// By their code, the first unit of each.
    versions: HashMap<u64, u32>,
    /// A unit whose code has not come yet.
    open: Option<Unit>,
    /// Where the slots of the next unit begin.
    slot: u32,
    pub(crate) mappings: u32,
    kind: Kind,
    effects: EffectsReader,
}

/// What kind of trace it is.
#[derive(Clone, Debug, Default)]
pub struct Kind {
    /// Whether accesses to memory are written down.
    pub memory: bool,
    /// And when those happen that other threads may wait for.
    pub order: bool,
    /// How the processor's state lies in memory.
    pub layout: Arc<Layout>,
}

const NONE: u32 = u32::MAX;

/// Tags are given one after the other, to units in the order in which they are written down, and few are left out.
const APART: usize = 1 << 16;

impl Units {
    /// None yet, of a process in a trace of some kind.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self { kind, ..Self::default() }
    }

    /// Takes in a record of the log of a process.
    pub fn add(&mut self, kind: u32, body: &[u8]) {
        match kind {
            TRACED => self.open = unit(body),
            CODE => self.add_code(body),
            _ => {}
        }
    }

    fn add_code(&mut self, code: &[u8]) {
        let Some(mut unit) = self.open.take() else { return };
        (unit.number, unit.mappings) = (self.all.len() as u32, self.mappings);
        unit.code = code.to_vec();
        let mut insns = Vec::new();
        let mut ends = Vec::new();
        let mut at = 0;
        for (piece, &(start, end)) in unit.pieces.iter().enumerate() {
            let len = end.saturating_sub(start).min((code.len() - at) as u64) as usize;
            let mut offset = at;
            for insn in Decode::new(&code[at..at + len], LinkAddr(start)) {
                let (pc, len) = (insn.addr().0, insn.len() as usize);
                unit.steps.push(Step { pc, offset: offset as u16, len: len as u8, piece: piece as u16 });
                offset += len;
                insns.push(insn);
            }
            at += len;
            ends.push(unit.steps.len() as u32);
        }
        for exit in &mut unit.exits {
            exit.steps = ends.get(usize::from(exit.piece)).copied().unwrap_or_default();
        }
        unit.version_of = self.version_of(&unit);
        unit.operations = compile(&unit, &insns, &self.kind, self.slot, &mut self.effects);
        self.slot += unit.operations.values();
        let start = unit.first.saturating_sub(FIRST_TAG) as usize;
        let end = start + unit.exits.len();
        if start > self.by_tag.len() + APART || end > MOST_TAGS as usize {
            return;
        }
        self.by_tag.resize(self.by_tag.len().max(end), NONE);
        self.by_tag[start..end].fill(unit.number);
        self.outs.resize(self.by_tag.len(), Out::default());
        let count = unit.exits.len();
        let outs = unit.exits.iter().enumerate().map(|(number, exit)| Out::new(number, count, exit.to != 0));
        self.outs[start..end].iter_mut().zip(outs).for_each(|(place, out)| *place = out);
        self.all.push(Arc::new(unit));
    }

    /// The first unit that is the same but for what is known.
    fn version_of(&mut self, unit: &Unit) -> u32 {
        let first = *self.versions.entry(unit.hash()).or_insert(unit.number);
        // Others may have the same hash.
        self.all.get(first as usize).filter(|first| first.is_same(unit)).map_or(unit.number, |_| first)
    }

    /// The first so many of them, for a process that was forked off when there were no others.
    pub(crate) fn first(&self, count: usize) -> Self {
        let all = self.all[..count.min(self.all.len())].to_vec();
        let end = all.iter().map(|unit| unit.first as usize + unit.exits.len()).max();
        let tags = end.map_or(0, |end| end - FIRST_TAG as usize).min(self.by_tag.len());
        let (by_tag, outs) = (self.by_tag[..tags].to_vec(), self.outs[..tags].to_vec());
        let slot = all.last().map_or(0, |unit| unit.operations.slot + unit.operations.values());
        let versions = all.iter().map(|unit| (unit.hash(), unit.version_of)).collect();
        Self { all, by_tag, outs, versions, slot, ..Self::new(self.kind.clone()) }
    }

    /// How many slots all of them have.
    pub(crate) fn slots(&self) -> u32 {
        self.slot
    }

    /// Whether accesses to memory are written down.
    pub(crate) fn is_of_memory(&self) -> bool {
        self.kind.memory
    }

    /// All of them, in the order in which they were made.
    #[must_use]
    pub fn all(&self) -> &[Arc<Unit>] {
        &self.all
    }

    /// The unit that an exit belongs to, and which of its exits it is.
    #[must_use]
    #[inline]
    pub fn find(&self, tag: Tag) -> Option<(&Unit, usize)> {
        let number = *self.by_tag.get(tag.wrapping_sub(FIRST_TAG) as usize)?;
        let unit = self.all.get(number as usize)?;
        Some((unit, (tag - unit.first) as usize))
    }

    /// Which exit of its unit each tag is.
    pub(crate) fn exits(&self) -> Exits<'_> {
        Exits(&self.outs)
    }

    /// How many instructions of a unit come before the place where it was left in the middle.
    pub(crate) fn steps_before(&self, stop: &Stop) -> usize {
        self.find(stop.unit).map_or(0, |(unit, _)| unit.steps_before(stop))
    }
}

/// Which exit of its unit a tag is, in 16 bits.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Out(pub(crate) u16);

impl Out {
    /// How many bits there are for the number.
    const NUMBER: u32 = 11;
    const LEADS_TO_ONE: u16 = 1 << 15;

    pub(crate) fn new(number: usize, count: usize, leads_to_one: bool) -> Self {
        let one = if leads_to_one { Self::LEADS_TO_ONE } else { 0 };
        // No unit has so many; of one that had, each of those would be by itself.
        match u16::try_from(number).ok().filter(|number| *number < 1 << Self::NUMBER) {
            Some(number) => {
                let bits = (usize::BITS - (count.min(1 << Self::NUMBER) - 1).leading_zeros()) as u16;
                Self(number | bits << Self::NUMBER | one)
            }
            None => Self(one),
        }
    }

    /// Which one: the tag is that of the first and this.
    #[inline(always)]
    pub(crate) fn number(self) -> u32 {
        u32::from(self.0) & ((1 << Self::NUMBER) - 1)
    }

    /// How many bits it takes to say which one.
    #[inline(always)]
    pub(crate) fn bits(self) -> u32 {
        u32::from(self.0) >> Self::NUMBER & 15
    }

    /// Whether it leads to one place only.
    #[inline(always)]
    pub(crate) fn leads_to_one(self) -> bool {
        self.0 & Self::LEADS_TO_ONE != 0
    }
}

/// Which exit of its unit each tag is.
#[derive(Clone, Copy)]
pub(crate) struct Exits<'a>(pub(crate) &'a [Out]);

impl Exits<'_> {
    /// Behind the last tag.
    pub(crate) fn end(self) -> usize {
        FIRST_TAG as usize + self.0.len()
    }

    /// Of a tag, if there is such a unit.
    #[inline(always)]
    pub(crate) fn out(self, tag: Tag) -> Option<Out> {
        self.0.get(tag.wrapping_sub(FIRST_TAG) as usize).copied()
    }
}

/// A unit without its code.
fn unit(body: &[u8]) -> Option<Unit> {
    let mut words = Words(body);
    let (first, counts) = (words.u32().filter(|first| *first >= FIRST_TAG)?, words.u32()?);
    let (known, _) = (words.u32()?, words.u32()?);
    let known = Gpr::all().filter(|register| known >> register.number() & 1 != 0).collect();
    let (pieces, exits) = (counts & 0xffff, counts >> 16);
    let pieces = (0..pieces).map(|_| Some((words.u64()?, words.u64()?))).collect::<Option<_>>()?;
    let mut exit = || {
        let (to, _number, rest) = (words.u64()?, words.u32()?, words.u32()?);
        Some(Exit { to, piece: rest as u16, kind: (rest >> 16) as u16, steps: 0 })
    };
    let exits = (0..exits).map(|_| exit()).collect::<Option<_>>()?;
    Some(Unit {
        number: 0,
        version_of: 0,
        first,
        pieces,
        exits,
        known,
        steps: Vec::new(),
        code: Vec::new(),
        mappings: 0,
        operations: Operations::default(),
    })
}

/// Numbers one behind the other.
pub(crate) struct Words<'a>(pub(crate) &'a [u8]);

impl Words<'_> {
    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    pub(crate) fn state(&mut self) -> Option<State> {
        let mut registers = [0; 16];
        for register in &mut registers {
            *register = self.u64()?;
        }
        Some(State { registers, flags: self.u64()?, pc: self.u64()?, fs: self.u64()?, gs: self.u64()? })
    }

    pub(crate) fn call(&mut self) -> Option<Call> {
        let number = self.u64()?;
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = self.u64()?;
        }
        Some(Call { number, arguments, time: self.u64()? })
    }

    pub(crate) fn result(&mut self) -> Option<CallResult> {
        Some(CallResult { value: self.u64()?, time: self.u64()? })
    }

    pub(crate) fn stop(&mut self) -> Option<Stop> {
        Some(Stop { pc: self.u64()?, unit: self.u32()?, piece: self.u32()?, rcx: self.u64()? })
    }
}
