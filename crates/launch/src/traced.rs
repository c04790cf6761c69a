//! What traced threads have written down, as units and the ways through them.

use crate::arena::{Arena, Process};
use relive_abi::engine::{self as abi, Exit, Piece};
use relive_abi::trace::{FIRST_TAG, NOT_CALLED, STATE, STOP, State, Stop, Tag, Traced};
use relive_code::addr::LinkAddr;
use relive_code::isa::{Decode, EffectsReader, Insn, Knowledge};

/// Code that was translated in one go.
#[derive(Debug)]
pub struct Unit {
    /// The tag of its first exit.
    pub first: Tag,
    /// The program's code in it.
    pub pieces: Vec<Piece>,
    /// The ways out.
    pub exits: Vec<Exit>,
    /// Its code: the bytes of all pieces, one behind the other.
    pub code: Vec<u8>,
    /// How many values are written down up to the end of each piece.
    pub values: Vec<u16>,
}

/// All units of a process, as far as they have been read.
#[derive(Default)]
pub struct Units {
    all: Vec<Unit>,
    /// By tag, from the first on: which unit.
    by_tag: Vec<u32>,
    /// How many records of the log have been read.
    read: usize,
    /// Whether accesses to memory are written down too.
    pub memory: bool,
    effects: EffectsReader,
}

impl Unit {
    /// Its instructions, each with the piece it is in.
    pub fn insns(&self) -> impl Iterator<Item = (usize, Insn)> {
        let mut rest = &self.code[..];
        self.pieces.iter().enumerate().flat_map(move |(piece, p)| {
            let (bytes, behind) = rest.split_at_checked((p.end - p.start) as usize).unwrap_or((rest, &[]));
            rest = behind;
            Decode::new(bytes, LinkAddr(p.start)).map(move |insn| (piece, insn))
        })
    }
}

/// How many values are written down up to the end of each piece.
fn plan(unit: &Unit, effects: &mut EffectsReader) -> Vec<u16> {
    let mut knowledge = Knowledge::LEAST;
    let mut values = vec![0; unit.pieces.len()];
    for (piece, insn) in unit.insns() {
        let needed = knowledge.step(&effects.accesses(&insn), &effects.replayed(&insn));
        values[piece..].iter_mut().for_each(|n| *n += needed.len() as u16);
    }
    values
}

/// Something a thread has written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A unit was executed up to one of its exits.
    Exit(Tag),
    /// It went on from outside.
    State(State),
    /// A unit was left in the middle.
    Stop(Stop),
    /// The call of the kernel before was not made.
    NotCalled,
}

/// A tag that means nothing, or a record that is longer than what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Where its end is.
    pub at: usize,
    /// What is there.
    pub tag: Tag,
}

const NONE: u32 = u32::MAX;

impl Units {
    /// Reads what has been written down since.
    pub fn read(&mut self, arena: &Arena, process: &Process<'_>) {
        let records = arena.records(process);
        for (kind, body) in records.iter().skip(self.read) {
            match *kind {
                abi::TRACED => self.add(body),
                abi::CODE => {
                    if let Some(last) = self.all.last_mut() {
                        last.code = body.to_vec();
                        if self.memory {
                            last.values = plan(last, &mut self.effects);
                        }
                    }
                }
                _ => {}
            }
        }
        self.read = records.len();
    }

    fn add(&mut self, body: &[u8]) {
        let Some((head, rest)) = plain::<Traced>(body) else { return };
        let (pieces, rest) = many::<Piece>(rest, head.pieces.into());
        let (exits, _) = many::<Exit>(rest, head.exits.into());
        let number = self.all.len() as u32;
        let first = (head.first - FIRST_TAG) as usize;
        self.by_tag.resize(self.by_tag.len().max(first + exits.len()), NONE);
        self.by_tag[first..first + exits.len()].fill(number);
        let values = vec![0; pieces.len()];
        self.all.push(Unit { first: head.first, pieces, exits, code: Vec::new(), values });
    }

    /// The unit that an exit belongs to, and which of its exits it is.
    #[must_use]
    pub fn find(&self, tag: Tag) -> Option<(&Unit, usize)> {
        let number = *self.by_tag.get(tag.checked_sub(FIRST_TAG)? as usize)?;
        let unit = self.all.get(number as usize)?;
        Some((unit, (tag - unit.first) as usize))
    }

    /// What is in a buffer, in order.
    ///
    /// # Errors
    /// If it cannot be.
    pub fn parse(&self, bytes: &[u8]) -> Result<Vec<Event>, Damaged> {
        let mut events = Vec::with_capacity(bytes.len() / 4);
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some((before, tag)) = rest.split_last_chunk::<4>() else {
                return Err(Damaged { at: rest.len(), tag: 0 });
            };
            let tag = Tag::from_le_bytes(*tag);
            let damaged = Damaged { at: rest.len(), tag };
            let (event, before) = match tag {
                STATE => last::<State>(before).map(|(state, before)| (Event::State(state), before)),
                STOP => last::<Stop>(before).and_then(|(stop, before)| {
                    let start = before.len().checked_sub(usize::from(stop.values) * 8)?;
                    Some((Event::Stop(stop), &before[..start]))
                }),
                NOT_CALLED => Some((Event::NotCalled, before)),
                tag => self.find(tag).and_then(|(unit, exit)| {
                    let values = unit.values[usize::from(unit.exits[exit].piece)];
                    let start = before.len().checked_sub(usize::from(values) * 8)?;
                    Some((Event::Exit(tag), &before[..start]))
                }),
            }
            .ok_or(damaged)?;
            events.push(event);
            rest = before;
        }
        events.reverse();
        Ok(events)
    }
}

/// Plain words at the start of some bytes.
fn plain<T: Copy>(bytes: &[u8]) -> Option<(T, &[u8])> {
    let (first, rest) = bytes.split_at_checked(size_of::<T>())?;
    // SAFETY: as many bytes, of plain words: every value is a valid one.
    Some((unsafe { first.as_ptr().cast::<T>().read_unaligned() }, rest))
}

/// The same at their end.
fn last<T: Copy>(bytes: &[u8]) -> Option<(T, &[u8])> {
    let (before, last) = bytes.split_at_checked(bytes.len().checked_sub(size_of::<T>())?)?;
    plain(last).map(|(value, _)| (value, before))
}

fn many<T: Copy>(mut bytes: &[u8], most: usize) -> (Vec<T>, &[u8]) {
    let mut all = Vec::with_capacity(most);
    while all.len() < most
        && let Some((one, rest)) = plain(bytes)
    {
        all.push(one);
        bytes = rest;
    }
    (all, bytes)
}
