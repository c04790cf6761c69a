//! The code that traced threads execute, and what they have written down of it: see [`relive_abi::trace`].

use relive_abi::engine::{CODE, TRACED};
pub use relive_abi::trace::State;
use relive_abi::trace::{FIRST_TAG, NOT_CALLED, STATE, STOP, Stop, Tag};
use relive_code::addr::LinkAddr;
use relive_code::isa::{Accesses, Decode, EffectsReader, Gpr, Insn, Knowledge, Needed, RegSet, Replayed};

/// Code that was translated in one go: entered at one place, left at several.
#[derive(Debug)]
pub struct Unit {
    /// The tag of its first exit.
    pub first: Tag,
    /// The program's code in it: from where to where.
    pub pieces: Vec<(u64, u64)>,
    /// The ways out.
    pub exits: Vec<Exit>,
    /// The registers whose values are known when it is entered, besides the stack pointer.
    pub known: RegSet,
    /// Its instructions.
    pub steps: Vec<Step>,
}

/// A way out of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Where it leads; 0 if that is computed.
    pub to: u64,
    /// How many instructions are executed up to there.
    pub steps: u32,
    /// How many values are written down.
    pub values: u32,
}

/// An instruction of a unit.
#[derive(Debug)]
pub struct Step {
    /// Where it is.
    pub pc: u64,
    /// The piece it is in.
    pub piece: u16,
    /// What it does to memory.
    pub accesses: Accesses,
    /// What it does to registers.
    pub replayed: Replayed,
    /// What is written down of it.
    pub needed: Needed,
}

/// Something a thread has written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A unit was executed up to one of its exits.
    Exit(Tag),
    /// It goes on from outside.
    State(State),
    /// A unit was left in the middle.
    Stop {
        /// The first tag of the unit.
        unit: Tag,
        /// How many of its instructions were executed.
        steps: u32,
    },
    /// The call of the kernel before was not made.
    NotCalled,
}

/// Where something is in a buffer: what it is, and where its values begin.
pub type Found = (usize, Event);

/// A buffer that cannot be read: a tag that means nothing, or a record that is longer than what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no record ends {at} bytes from its start: {tag} means nothing")]
pub struct Damaged {
    /// Where its end is.
    pub at: usize,
    /// What is there.
    pub tag: Tag,
}

/// All units of a process, as far as they are known.
#[derive(Default)]
pub struct Units {
    all: Vec<Unit>,
    /// By tag, from the first on: which unit.
    by_tag: Vec<u32>,
    /// Whether accesses to memory are written down.
    memory: bool,
    effects: EffectsReader,
}

const NONE: u32 = u32::MAX;

impl Units {
    /// None yet, of a process of which accesses to memory are written down or not.
    #[must_use]
    pub fn new(memory: bool) -> Self {
        Self { memory, ..Self::default() }
    }

    /// Takes in a record of the log of a process.
    pub fn add(&mut self, kind: u32, body: &[u8]) {
        match kind {
            TRACED => self.add_unit(body),
            CODE => self.add_code(body),
            _ => {}
        }
    }

    fn add_unit(&mut self, body: &[u8]) {
        let mut words = Words(body);
        let (Some(first), Some(counts)) = (words.u32(), words.u32()) else { return };
        let (Some(known), Some(_)) = (words.u32(), words.u32()) else { return };
        let known = Gpr::all().filter(|register| known >> register.number() & 1 != 0).collect();
        let (pieces, exits) = (counts & 0xffff, counts >> 16);
        let pieces = (0..pieces).map_while(|_| Some((words.u64()?, words.u64()?))).collect();
        let exit = |words: &mut Words<'_>| {
            let (to, _number, rest) = (words.u64()?, words.u32()?, words.u32()?);
            // The piece first: what it means is known when the code is.
            Some(Exit { to, steps: rest & 0xffff, values: 0 })
        };
        let exits: Vec<Exit> = (0..exits).map_while(|_| exit(&mut words)).collect();
        let number = self.all.len() as u32;
        let start = first.saturating_sub(FIRST_TAG) as usize;
        self.by_tag.resize(self.by_tag.len().max(start + exits.len()), NONE);
        self.by_tag[start..start + exits.len()].fill(number);
        self.all.push(Unit { first, pieces, exits, known, steps: Vec::new() });
    }

    fn add_code(&mut self, code: &[u8]) {
        let Some(unit) = self.all.last_mut() else { return };
        let mut knowledge = Knowledge::of(unit.known);
        let (mut rest, mut values) = (code, 0);
        let mut ends = Vec::new();
        for (piece, &(start, end)) in unit.pieces.iter().enumerate() {
            let (bytes, behind) = rest.split_at_checked((end - start) as usize).unwrap_or((rest, &[]));
            rest = behind;
            for insn in Decode::new(bytes, LinkAddr(start)) {
                let step = step(&insn, piece as u16, &mut knowledge, &mut self.effects);
                values += step.needed.len() as u32;
                unit.steps.push(step);
            }
            ends.push((unit.steps.len() as u32, if self.memory { values } else { 0 }));
        }
        for exit in &mut unit.exits {
            (exit.steps, exit.values) = ends.get(exit.steps as usize).copied().unwrap_or_default();
        }
    }

    /// The unit that an exit belongs to, and which of its exits it is.
    #[must_use]
    pub fn find(&self, tag: Tag) -> Option<(&Unit, usize)> {
        let number = *self.by_tag.get(tag.checked_sub(FIRST_TAG)? as usize)?;
        let unit = self.all.get(number as usize)?;
        Some((unit, (tag - unit.first) as usize))
    }

    /// What is in a buffer, the latest first.
    ///
    /// # Errors
    /// If it cannot be read. What comes behind has been found.
    pub fn parse(&self, bytes: &[u8], found: &mut Vec<Found>) -> Result<(), Damaged> {
        let mut end = bytes.len();
        while end > 0 {
            let tag = end.checked_sub(4).map_or(0, |at| read_u32(bytes, at));
            let (start, event) = self.record(bytes, end, tag).ok_or(Damaged { at: end, tag })?;
            found.push((start, event));
            end = start;
        }
        Ok(())
    }

    fn record(&self, bytes: &[u8], end: usize, tag: Tag) -> Option<Found> {
        let before = end.checked_sub(4)?;
        match tag {
            STATE => {
                let start = before.checked_sub(size_of::<State>())?;
                let mut words = Words(&bytes[start..]);
                let mut next = || words.u64().expect("there is enough");
                let registers = std::array::from_fn(|_| next());
                let (flags, pc, fs, gs) = (next(), next(), next(), next());
                Some((start, Event::State(State { registers, flags, pc, fs, gs })))
            }
            STOP => {
                let at = before.checked_sub(size_of::<Stop>())?;
                let mut words = Words(&bytes[at..]);
                let (pc, tag, rest) = (words.u64()?, words.u32()?, words.u32()?);
                let (piece, values) = (rest as u16, rest >> 16);
                let (unit, _) = self.find(tag)?;
                let is_before = |step: &&Step| step.piece < piece || step.piece == piece && step.pc < pc;
                let steps = unit.steps.iter().take_while(is_before).count() as u32;
                Some((at.checked_sub(values as usize * 8)?, Event::Stop { unit: tag, steps }))
            }
            NOT_CALLED => Some((before, Event::NotCalled)),
            tag => {
                let (unit, exit) = self.find(tag)?;
                let start = before.checked_sub(unit.exits[exit].values as usize * 8)?;
                Some((start, Event::Exit(tag)))
            }
        }
    }
}

fn step(insn: &Insn, piece: u16, knowledge: &mut Knowledge, effects: &mut EffectsReader) -> Step {
    let (accesses, replayed) = (effects.accesses(insn), effects.replayed(insn));
    let needed = knowledge.step(&accesses, &replayed);
    Step { pc: insn.addr().0, piece, accesses, replayed, needed }
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

/// Numbers one behind the other.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn u32(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }

    fn u64(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }
}
