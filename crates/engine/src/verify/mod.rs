//! Looks whether a unit does what the program does, from nothing but its bytes (`relive run --verify`).
//!
//! Goes along every way through the unit's code and, beside it, through the program's. An instruction of the unit is
//! either the program's next one, which finds all it reads as the program left it; or an addition, of which is kept in
//! mind what it does to registers, flags and the thread's memory. At every way out the program must be where the exit
//! says, with nothing changed that is still needed, and exactly that counted which the log says.
//!
//! Knows nothing of how code is written: only what the thread's memory is for.

mod additions;
mod exits;
mod state;

#[cfg(test)]
mod tests;

use crate::message::fatal;
use crate::translate::{Entrance, Exit, HOT, Piece, Request, Source, Unit};
use additions::UNKNOWN;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use relive_abi::engine as abi;
use relive_code::addr::LinkAddr;
use relive_code::isa::{EffectsReader, Flow, Gpr, Insn, RegSet};
use state::{Next, State};

/// Whether to.
pub static WANTED: AtomicBool = AtomicBool::new(false);

/// Looks at a unit that has just been put in its place, if that is wanted; ends the process if it is wrong.
pub fn check(
    request: &Request<'_>,
    unit: &Unit,
    effects: &mut EffectsReader,
    statistics: &mut abi::Statistics,
) {
    if !WANTED.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the unit's place in the cache, where nobody writes before it is linked.
    let put = |at: u64, len: u32| unsafe { core::slice::from_raw_parts(at as *const u8, len as usize) };
    let (hot, cold) = (put(unit.hot.at, unit.hot.size()), put(unit.cold.at, unit.cold.size()));
    let subject = Subject::new(request, unit, hot, cold);
    if subject.has_rare() {
        statistics.unverified += 1;
        return;
    }
    match verify(&subject, effects) {
        Ok(()) => statistics.verified += 1,
        Err(wrong) => fatal(format_args!("{wrong}")),
    }
}

/// Why a unit is not right.
#[derive(Debug)]
pub struct Wrong {
    /// The instruction in the cache, and its bytes.
    at: u64,
    bytes: Vec<u8>,
    /// Where the program is, as far as that is known.
    pc: u64,
    what: Why,
}

/// What is not right about an instruction.
#[derive(Debug)]
enum Why {
    /// This.
    Is(&'static str),
    /// These may be needed, and an addition has changed them.
    Changed(RegSet),
    /// These counters are counted up, instead of those.
    Counted(Vec<u32>, Vec<u32>),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(what) => f.write_str(what),
            Self::Changed(set) => write!(f, "{set} may be needed, and was changed by an addition"),
            Self::Counted(counted, expected) => {
                write!(f, "counters {counted:?} are counted up instead of {expected:?}")
            }
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, bytes, pc, what } = self;
        write!(
            f,
            "the translation of the program at {pc:#x} does something else at {at:#x} ({bytes:02x?}): {what}"
        )
    }
}

/// A unit, and what it is made from.
pub struct Subject<'a> {
    source: &'a dyn Source,
    pc: u64,
    /// Its parts: where they lie, and the bytes that are there.
    parts: [(u64, &'a [u8]); 2],
    body: u64,
    entrance: (Entrance, u64),
    first_exit: u32,
    exits: Vec<Exit>,
    pieces: &'a [Piece],
    counter: Option<u32>,
    threshold: u32,
    calls: &'a dyn Fn(u64, u64) -> Option<u64>,
    /// Where the next unit lies, if that is right behind this one, and where it is in the program.
    next: Option<(u64, u64)>,
}

impl<'a> Subject<'a> {
    /// A unit, with the bytes of its two parts as they are now.
    pub fn new(request: &Request<'a>, unit: &'a Unit, hot: &'a [u8], cold: &'a [u8]) -> Self {
        let way = unit.call.map(|call| call.way);
        Self {
            source: request.source,
            pc: request.pc,
            parts: [(unit.hot.at, hot), (unit.cold.at, cold)],
            body: unit.body,
            entrance: (request.entrance, unit.entrance),
            first_exit: request.first_exit,
            exits: unit.trigger.into_iter().chain(unit.exits.iter().copied()).chain(way).collect(),
            pieces: &unit.pieces,
            counter: request.counter,
            threshold: request.threshold,
            calls: request.calls,
            next: unit.next(),
        }
    }

    /// Whether there is an instruction in it that programs hardly ever use: for these, code is not compared.
    fn has_rare(&self) -> bool {
        self.pieces.iter().any(|piece| {
            let mut pc = piece.start;
            while pc < piece.end {
                match self.source.insn(pc) {
                    Some(insn) if insn.rare().is_none() => pc = insn.next_addr().0,
                    found => return found.is_some(),
                }
            }
            false
        })
    }

    fn bytes(&self, at: u64) -> &'a [u8] {
        let rest = |&(start, bytes): &(u64, &'a [u8])| bytes.get(at.wrapping_sub(start) as usize..);
        self.parts.iter().find_map(rest).unwrap_or_default()
    }
}

/// More instructions than any unit has on all its ways.
const MOST: usize = 1 << 16;
/// Direct jumps in a row, and instructions until something is overwritten.
const FAR: usize = 64;
const RCX: RegSet = RegSet::gpr(Gpr::RCX);

/// Looks at all ways through a unit.
///
/// # Errors
/// At the first place that does something else than the program.
pub fn verify(subject: &Subject<'_>, effects: &mut EffectsReader) -> Result<(), Wrong> {
    let has_trigger = subject.exits.first().is_some_and(|exit| exit.kind == HOT);
    let start = State::new(subject.body, subject.pc, usize::from(has_trigger), subject.counter);
    let mut ways = alloc::vec![start.clone()];
    match subject.entrance {
        (Entrance::Jump | Entrance::Head, _) => {}
        (Entrance::Call, at) => ways.push(start.called(at)),
        (Entrance::Return, at) => ways.push(start.returned(at)),
    }
    let found = alloc::vec![false; subject.exits.len()];
    let mut walk = Walk { subject, effects, ways, seen: Vec::new(), found, left: MOST };
    while let Some(mut state) = walk.ways.pop() {
        if walk.seen.contains(&state) {
            continue;
        }
        walk.seen.push(state.clone());
        loop {
            match walk.step(&mut state) {
                Ok(true) => {}
                Ok(false) => break,
                Err(what) => return Err(walk.wrong(&state, what)),
            }
        }
    }
    match subject.exits.iter().zip(&walk.found).find(|(exit, found)| exit.field != 0 && !**found) {
        None => Ok(()),
        Some((exit, _)) => {
            let bytes = Vec::new();
            Err(Wrong { at: exit.field, bytes, pc: exit.from, what: Why::Is("nothing comes to an exit") })
        }
    }
}

struct Walk<'a, 'b> {
    subject: &'a Subject<'a>,
    effects: &'b mut EffectsReader,
    /// Where there is still to be looked.
    ways: Vec<State>,
    /// Where that has been begun.
    seen: Vec<State>,
    /// The exits whose jumps have been met.
    found: Vec<bool>,
    left: usize,
}

/// Whether to go on, or what is wrong.
type Step = Result<bool, Why>;

fn wrong<T>(what: &'static str) -> Result<T, Why> {
    Err(Why::Is(what))
}

fn demand(holds: bool, what: &'static str) -> Result<(), Why> {
    if holds { Ok(()) } else { wrong(what) }
}

impl Walk<'_, '_> {
    fn wrong(&self, state: &State, what: Why) -> Wrong {
        let bytes = self.subject.bytes(state.at);
        let len = Insn::decode(bytes, LinkAddr(state.at)).map_or(0, |insn| insn.len() as usize);
        let pc = match &state.next {
            Next::At(pc) | Next::Perhaps(pc) => *pc,
            Next::Computed(site)
            | Next::Call { site, .. }
            | Next::Return { site, .. }
            | Next::Landing { site } => site.addr().0,
        };
        Wrong { at: state.at, bytes: bytes[..len].to_vec(), pc, what }
    }

    fn step(&mut self, state: &mut State) -> Step {
        self.left = self.left.checked_sub(1).ok_or(Why::Is("it has no end"))?;
        if let (Some((at, to)), Next::At(pc)) = (self.subject.next, &state.next)
            && state.at == at
        {
            demand(*pc == to, "what comes next is not what follows")?;
            state.counts_are_right()?;
            return self.not_needed(state.changed(), to).map(|()| false);
        }
        let bytes = self.subject.bytes(state.at);
        let insn = Insn::decode(bytes, LinkAddr(state.at)).ok_or(Why::Is("no instruction"))?;
        let own = match state.next {
            Next::At(pc) if !state.has_return => self.own(pc),
            _ => None,
        };
        let reads = self.effects.effects(&insn).reads & state.changed();
        if let Some(own) = &own
            && reads.is_empty()
            && let Some(going) = self.execute(state, &insn, own)?
        {
            return Ok(going);
        }
        self.add(state, &insn, own.as_ref()).map_err(|what| match what {
            Why::Is(UNKNOWN) if !reads.is_empty() => Why::Changed(reads),
            what => what,
        })
    }

    /// The program's instruction at a place, or behind the jumps that are there.
    fn own(&self, mut pc: u64) -> Option<Insn> {
        for _ in 0..FAR {
            let insn = self.subject.source.insn(pc)?;
            match insn.flow() {
                Flow::Jump(to) => pc = to.0,
                _ => return self.subject.pieces.iter().any(|p| p.start <= pc && pc < p.end).then_some(insn),
            }
        }
        None
    }

    /// The program's own instruction, if it is that.
    fn execute(&mut self, state: &mut State, insn: &Insn, own: &Insn) -> Result<Option<bool>, Why> {
        let next = own.next_addr().0;
        // The kernel is called without prefixes.
        let is_same = insn.does_what(own) || insn.is_fast_syscall() && own.is_fast_syscall();
        match own.flow() {
            Flow::Next if is_same => {
                let kills = self.effects.effects(own).kills;
                if own.is_fast_syscall() {
                    demand(state.may_call_kernel, "nobody asked whether the engine looks at this call")?;
                    state.called_kernel(kills, next);
                } else {
                    state.executed(kills);
                }
                state.next = Next::At(next);
                state.at = insn.next_addr().0;
                Ok(Some(true))
            }
            Flow::Stop if is_same => {
                state.counts_are_right()?;
                Ok(Some(false))
            }
            Flow::Branch(to) => {
                let is_opposite =
                    own.condition().is_some() && insn.condition() == own.condition().map(|c| c ^ 1);
                let Flow::Branch(leads) = insn.flow() else { return Ok(None) };
                if !is_same && !is_opposite {
                    return Ok(None);
                }
                let exit = self.next_exit(state, own, &[abi::BRANCH, abi::STRAY])?;
                demand(is_same == (exit.kind == abi::BRANCH), "another way is followed than the log says")?;
                let kills = self.effects.effects(own).kills;
                state.executed(kills);
                let (mut taken, mut rest) = (state.clone(), state.clone());
                (taken.next, rest.next) = (Next::At(to.0), Next::At(next));
                if is_opposite {
                    core::mem::swap(&mut taken, &mut rest);
                }
                rest.at = insn.next_addr().0;
                taken.at = leads.0;
                self.jump(&mut taken, insn)?;
                self.ways.push(taken);
                *state = rest;
                Ok(Some(true))
            }
            _ => Ok(None),
        }
    }

    /// The exit of the program's instruction: they are in the order in which control comes to them.
    fn next_exit(&self, state: &mut State, own: &Insn, kinds: &[u32]) -> Result<Exit, Why> {
        let exit = self.subject.exits.get(state.exits).copied();
        state.exits += 1;
        exit.filter(|exit| exit.from == own.addr().0 && kinds.contains(&exit.kind))
            .ok_or(Why::Is("it has no exit of that kind"))
    }
}
