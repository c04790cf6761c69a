//! Looks whether a unit does what the program does, from nothing but its bytes (`relive run --verify`).
//!
//! Goes along every way through the unit's code and, beside it, through the program's. An instruction of the unit is
//! either the program's next one, which finds all it reads as the program left it; or an addition, of which is kept in
//! mind what it does to registers, flags and the thread's memory. At every way out the program must be where the exit
//! says, with nothing changed that is still needed, and exactly that counted which the log says.
//!
//! Knows nothing of how code is written: only what the thread's memory is for.

mod state;

#[cfg(test)]
mod tests;

use crate::message::fatal;
use crate::thread::offset;
use crate::translate::{Entrance, Exit, HOT, Piece, Request, Source, Unit};
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use relive_abi::engine as abi;
use relive_abi::kernel::EFAULT;
use relive_code::addr::LinkAddr;
use relive_code::isa::{EffectsReader, Flag, Flow, Gpr, Insn, MemoryOperand, Operand, RegSet, Verb};
use state::{Next, State, Value};

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
    calls: &'a dyn Fn(u64, u64) -> Option<u64>,
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
            calls: request.calls,
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
/// Four bytes that are changed while others execute them lie within so many.
const AT_ONCE: u64 = 16;
/// What counting changes, and comparing.
const ALL_FLAGS: RegSet = RegSet::ARITHMETIC_FLAGS;
const ALL_BUT_CARRY: RegSet = ALL_FLAGS.without(RegSet::flag(Flag::Cf));
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
        (Entrance::Jump, _) => {}
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
                let exit = self.next_exit(state, own, &[abi::JUMP, abi::LOOP, abi::STRAY])?;
                let kills = self.effects.effects(own).kills;
                state.executed(kills);
                let (mut taken, mut rest) = (state.clone(), state.clone());
                (taken.next, rest.next) = (Next::At(to.0), Next::At(next));
                let counted = if exit.kind == abi::JUMP { &mut taken } else { &mut rest };
                counted.expect(exit.counter);
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

    /// An instruction that the program does not have there.
    fn add(&mut self, state: &mut State, insn: &Insn, own: Option<&Insn>) -> Step {
        let mut operands = insn.operands();
        let operands = [operands.next(), operands.next(), operands.next()];
        let gs = |operand: Option<Operand>| match operand {
            Some(Operand::Memory(memory)) if insn.uses_gs() => Some(memory),
            _ => None,
        };
        match (insn.verb(), operands) {
            (Verb::Mov, [Some(Operand::Register(to)), ..])
                if let Some(own) = own
                    && insn.loads_target_of(own)
                    && to.number == Gpr::RCX.number() as u8 =>
            {
                let changed = self.effects.effects(insn).reads & state.changed();
                demand(changed.is_empty(), "the target is computed from something changed")?;
                state.set(Gpr::RCX, Value::Target(Vec::new()));
                state.next = Next::Computed(*own);
            }
            (Verb::Mov, [to, from, _]) if gs(to).is_some() || gs(from).is_some() => {
                self.move_through_gs(state, insn, [to, from])?;
            }
            (Verb::Mov, [_, Some(Operand::Immediate(number)), _]) if let Some(to) = whole(insn) => {
                state.set(to, Value::Address(number as u64));
            }
            (Verb::Movzx, [_, from, _]) if insn.first_register() == Some(Gpr::RCX) => {
                let value = narrow(state, from, gs(from))?;
                state.set(Gpr::RCX, value);
            }
            (Verb::Lea, [_, Some(Operand::Memory(memory)), _]) => compute(state, insn, &memory)?,
            (Verb::Rorx, [_, from, Some(Operand::Immediate(by))]) if whole(insn) == Some(Gpr::RCX) => {
                let value = match (gs(from), from) {
                    (Some(memory), _) if state.target_at(&memory, 0) && by == 16 => Value::Upper,
                    (None, Some(Operand::Register(r))) if r.number == Gpr::RCX.number() as u8 => state
                        .value(Gpr::RCX)
                        .rotated(by as u32)
                        .ok_or(Why::Is("it rotates something else"))?,
                    _ => return wrong(UNKNOWN),
                };
                state.set(Gpr::RCX, value);
            }
            (Verb::Inc, [to, ..]) if let Some(counter) = gs(to).as_ref().and_then(counter) => {
                state.counted.push(counter);
                state.flags |= ALL_BUT_CARRY;
            }
            (Verb::Cmp, [to, Some(Operand::Immediate(_)), _])
                if gs(to).as_ref().and_then(counter).is_some() =>
            {
                state.flags |= ALL_FLAGS;
            }
            (Verb::Nop, _) => {}
            (Verb::Push, [from, ..]) => self.push(state, own, from, gs(from))?,
            (Verb::Pop, _) if let Some(own) = own.filter(|own| own.verb() == Verb::Ret) => {
                demand(whole(insn) == Some(Gpr::RCX), "the target of a return is taken elsewhere")?;
                state.set(Gpr::RCX, Value::Target(Vec::new()));
                state.next = Next::Return { site: *own, left: own.drops() };
            }
            (Verb::Ret, _) => {
                let Next::Landing { site } = state.next else { return wrong(UNKNOWN) };
                self.next_exit(state, &site, &[abi::RETURN])?;
                state.is_spilled()?;
                let returns = state.target_is_stored() && insn.drops() == 0;
                demand(returns, "the target of a return is not in the thread's memory")?;
                state.counts_are_right()?;
                return Ok(false);
            }
            (Verb::Ud2, _) if let Next::At(pc) = state.next => {
                demand(self.subject.source.insn(pc).is_none(), "the program has an instruction there")?;
                return Ok(false);
            }
            (Verb::Jmp, [to, ..]) if let Some(memory) = gs(to) => return self.leave(state, &memory),
            _ => return self.add_jump(state, insn, own),
        }
        state.at = insn.next_addr().0;
        Ok(true)
    }

    fn add_jump(&mut self, state: &mut State, insn: &Insn, own: Option<&Insn>) -> Step {
        match (insn.verb(), insn.flow()) {
            (Verb::Jmp, Flow::Jump(to)) => {
                if self.subject.bytes(to.0).is_empty() {
                    return self.share(state, to.0);
                }
                let mut after = state.to(to.0);
                self.jump(&mut after, insn)?;
                *state = after;
                Ok(true)
            }
            (Verb::Call, Flow::Call(to)) => {
                let Next::Call { back, .. } = state.next else { return wrong("the program does not call") };
                demand(!state.has_return, "it calls twice")?;
                // What the callee returns to. Nothing of this unit is counted there.
                let landing = insn.next_addr().0;
                self.ways.push(State::new(landing, back, 0, None).returned(landing));
                let mut after = state.called(to.0);
                self.jump(&mut after, insn)?;
                *state = after;
                Ok(true)
            }
            (Verb::Jrcxz, Flow::Branch(to)) => {
                let mut taken = state.to(to.0);
                self.is_zero(&mut taken, state)?;
                self.ways.push(taken);
                state.at = insn.next_addr().0;
                Ok(true)
            }
            // On flags that an addition has set.
            (_, Flow::Branch(to))
                if insn.condition().is_some()
                    && state.flags.contains(self.effects.effects(insn).reads & RegSet::FLAGS) =>
            {
                self.ways.push(state.to(to.0));
                state.at = insn.next_addr().0;
                Ok(true)
            }
            _ => match own {
                Some(own) if own.verb() == insn.verb() => wrong("the program's has other operands"),
                _ => wrong(UNKNOWN),
            },
        }
    }

    /// What it means that `rcx` is zero, or, for `rest`, is not.
    fn is_zero(&mut self, taken: &mut State, rest: &mut State) -> Result<(), Why> {
        match (rest.value(Gpr::RCX).clone(), rest.next.clone()) {
            (value @ Value::Target(_), Next::Computed(site)) => {
                let exit = self.next_exit(rest, &site, &[abi::GUESS])?;
                rest.expect(exit.counter);
                taken.exits += 2;
                taken.next = Next::At(value.zero_for().ok_or(Why::Is("a comparison that tells nothing"))?);
                taken.set(Gpr::RCX, Value::Other);
            }
            (Value::Difference(from), Next::Perhaps(pc)) => {
                demand(from == (pc >> 16) as u32, "a return is compared with another address")?;
                taken.next = Next::At(pc);
                taken.set(Gpr::RCX, Value::Other);
            }
            (Value::IsLookedAt, _) => taken.may_call_kernel = true,
            (Value::FromFault, _) => taken.set(Gpr::RCX, Value::Fault),
            (Value::Other, _) => {}
            _ => return wrong("a branch that the program does not have"),
        }
        Ok(())
    }

    /// Goes to the `call` of another unit.
    fn share(&mut self, state: &mut State, to: u64) -> Step {
        let Next::Call { site, back, to: target } = state.next else {
            return wrong("it leads out of the unit");
        };
        demand((self.subject.calls)(back, site.addr().0) == Some(to), "it leads to another call")?;
        let exit = self.next_exit(state, &site, &[abi::CALL, abi::INDIRECT_CALL])?;
        demand(exit.to == target.unwrap_or(0), "the exit of the call is another")?;
        self.out(state, &exit)?;
        Ok(false)
    }

    /// A jump that may be changed later, to lead straight to where its exit leads: `after` it, the state must be right
    /// for that.
    fn jump(&mut self, after: &mut State, insn: &Insn) -> Result<(), Why> {
        let field = insn.next_addr().0 - 4;
        let Some(index) = self.subject.exits.iter().position(|exit| exit.field == field) else {
            return Ok(());
        };
        self.found[index] = true;
        after.through = Some(field);
        let exit = self.subject.exits[index];
        demand(field % AT_ONCE <= AT_ONCE - 4, "a jump that cannot be changed at once")?;
        let is_call = match exit.kind {
            // If it only wants to know where it is, a jump does.
            abi::CALL => insn.verb() == Verb::Call,
            kind => kind == abi::INDIRECT_CALL,
        };
        demand(after.has_return == is_call, "what it leads to expects another stack")?;
        let drop = if exit.kind == abi::INDIRECT_CALL { 5 } else { 0 };
        demand(after.at + drop == exit.stub, "it does not lead to the engine")?;
        self.out(after, &exit)
    }

    /// Into the engine, through a word of the thread's memory.
    fn leave(&mut self, state: &mut State, through: &MemoryOperand) -> Step {
        demand(!state.has_return, "an address in the cache is left on the stack")?;
        let number = state.exit.and_then(|n| n.checked_sub(self.subject.first_exit));
        let exit = number.and_then(|n| self.subject.exits.get(n as usize).copied());
        let is_known = exit.is_some_and(|exit| exit.field == 0 || state.through == Some(exit.field));
        demand(is_known || state.exit.is_none(), "the number of another exit")?;
        let is_computed =
            exit.is_some_and(|exit| matches!(exit.kind, abi::INDIRECT_JUMP | abi::INDIRECT_CALL));
        match (plain(through), exit) {
            (Some(offset::WRONG_LANDING), _) => {
                demand(matches!(state.next, Next::Perhaps(_)), "nothing returns there")?;
                state.is_spilled()?;
                demand(state.target_is_stored(), "the target of a return is lost")?;
                Ok(false)
            }
            // The engine leaves everything as it is, and goes on.
            (Some(offset::ENTER), Some(exit)) if exit.kind == HOT => {
                demand(exit.from == self.subject.pc, "it tells that another unit is often entered")?;
                state.at = exit.stub;
                state.exit = None;
                let is_new = !self.seen.contains(state);
                self.seen.push(state.clone());
                Ok(is_new)
            }
            (Some(offset::ENTER), Some(exit)) if !is_computed => self.out(state, &exit).map(|()| false),
            (Some(offset::ENTER_INDIRECT), Some(exit)) if is_computed => {
                self.out(state, &exit).map(|()| false)
            }
            _ => wrong("it enters the engine by no exit, or at the wrong door"),
        }
    }

    /// The unit is left by an exit: everything must be as the program has it.
    fn out(&mut self, state: &State, exit: &Exit) -> Result<(), Why> {
        const ELSEWHERE: &str = "its exit leads elsewhere";
        state.counts_are_right()?;
        match (exit.kind, &state.next) {
            (abi::JUMP | abi::LOOP | abi::STRAY, Next::At(pc)) => {
                demand(self.leads(*pc, exit.to), ELSEWHERE)?;
                self.not_needed(state.changed(), exit.to)
            }
            (abi::CALL, Next::Call { to: Some(to), site, .. }) => {
                demand(*to == exit.to && site.addr().0 == exit.from, ELSEWHERE)?;
                self.not_needed(state.changed(), exit.to)
            }
            (abi::INDIRECT_CALL, Next::Call { to: None, site, .. }) => {
                demand(site.addr().0 == exit.from, ELSEWHERE)?;
                state.is_target_in_rcx()
            }
            (abi::INDIRECT_JUMP, Next::Computed(site)) => {
                demand(site.addr().0 == exit.from && site.flow() == Flow::IndirectJump, ELSEWHERE)?;
                state.is_target_in_rcx()
            }
            (abi::KERNEL, Next::At(pc)) => {
                let call = self
                    .own(*pc)
                    .filter(Insn::is_fast_syscall)
                    .ok_or(Why::Is("the program has no call there"))?;
                demand(call.addr().0 == exit.from && call.next_addr().0 == exit.to, ELSEWHERE)?;
                demand(RCX.contains(state.changed()), "the kernel needs what was changed")
            }
            (abi::REFUSED, Next::At(pc)) => {
                let call = self.subject.source.insn(exit.from).filter(Insn::is_fast_syscall);
                let is_behind = call.is_some_and(|call| call.next_addr().0 == *pc) && exit.to == *pc;
                demand(is_behind && state.was_refused(), "it was not the kernel that refused")?;
                demand(RCX.contains(state.changed()), "more than rcx was changed")
            }
            _ => wrong("an exit of another kind"),
        }
    }

    /// Whether the program gets from one place to another by nothing but jumps.
    fn leads(&self, mut pc: u64, to: u64) -> bool {
        for _ in 0..FAR {
            match self.subject.source.insn(pc).map(|insn| insn.flow()) {
                _ if pc == to => return true,
                Some(Flow::Jump(next)) => pc = next.0,
                _ => return false,
            }
        }
        false
    }

    /// Looks whether the program at some place overwrites registers and flags before it reads them.
    fn not_needed(&mut self, mut changed: RegSet, mut pc: u64) -> Result<(), Why> {
        for _ in 0..FAR {
            if changed.is_empty() {
                return Ok(());
            }
            let Some(insn) = self.subject.source.insn(pc) else { break };
            let does = self.effects.effects(&insn);
            if does.reads.intersects(changed) {
                break;
            }
            changed = changed - does.kills;
            pc = match insn.flow() {
                Flow::Next => insn.next_addr().0,
                Flow::Jump(to) | Flow::Call(to) => to.0,
                _ => break,
            };
        }
        if changed.is_empty() { Ok(()) } else { Err(Why::Changed(changed)) }
    }

    /// Something on the stack: the address that the program's call puts there, or that of a landing.
    fn push(
        &self,
        state: &mut State,
        own: Option<&Insn>,
        from: Option<Operand>,
        gs: Option<MemoryOperand>,
    ) -> Result<(), Why> {
        if let (Some(memory), Next::Return { site, left: 0 }) = (gs, state.next.clone()) {
            let is_table = memory.base.is_none()
                && memory.index.is_some_and(|r| r.number == Gpr::RCX.number() as u8 && r.width == 8)
                && memory.scale == 8
                && memory.displacement == i64::from(offset::RETURNS);
            demand(is_table && *state.value(Gpr::RCX) == Value::Low, "no table of return targets")?;
            state.next = Next::Landing { site };
            return Ok(());
        }
        let (site, to) = match (own.map(|own| (own, own.flow())), &state.next) {
            (Some((own, Flow::Call(to))), _) => (*own, Some(to.0)),
            (_, Next::Computed(site)) if site.flow() == Flow::IndirectCall => (*site, None),
            _ => return wrong(UNKNOWN),
        };
        let back = site.next_addr().0;
        let pushed = match from {
            Some(Operand::Immediate(number)) => number as u64,
            Some(Operand::Memory(memory)) if memory.fixed => {
                let constant = self.subject.bytes(memory.displacement as u64).first_chunk();
                u64::from_le_bytes(*constant.ok_or(Why::Is("the return address is not in the unit"))?)
            }
            _ => return wrong(UNKNOWN),
        };
        demand(pushed == back, "another return address")?;
        state.next = Next::Call { site, back, to };
        Ok(())
    }

    fn move_through_gs(
        &self,
        state: &mut State,
        insn: &Insn,
        operands: [Option<Operand>; 2],
    ) -> Result<(), Why> {
        match operands {
            [Some(Operand::Memory(to)), Some(Operand::Immediate(number))]
                if plain(&to) == Some(offset::EXIT) =>
            {
                demand(to.width == 4, "half an exit")?;
                state.exit = Some(number as u32);
            }
            [Some(Operand::Memory(to)), Some(Operand::Register(from))] if from.width == 8 => {
                let value = Gpr::all().nth(from.number.into()).map(|r| state.value(r).clone());
                match (counter(&to), value) {
                    (Some(to), Some(Value::Counted(counter))) if to == counter => state.counted.push(counter),
                    (Some(_), _) => return wrong("a counter becomes something else"),
                    (None, Some(value)) => {
                        *state.slot(plain(&to)).ok_or(Why::Is("no place for that"))? = value
                    }
                    _ => return wrong(UNKNOWN),
                }
            }
            [Some(Operand::Register(to)), Some(Operand::Memory(from))] => {
                let Some(register) = insn.first_register() else { return wrong(UNKNOWN) };
                let value = match counter(&from) {
                    _ if to.width == 4 && state.target_at(&from, 2) => Value::Upper,
                    _ if to.width != 8 => return wrong(UNKNOWN),
                    Some(counter) => Value::Count(counter),
                    None => state.slot(plain(&from)).ok_or(Why::Is("nothing of that is kept there"))?.clone(),
                };
                state.set(register, value);
            }
            _ => return wrong(UNKNOWN),
        }
        Ok(())
    }
}

const UNKNOWN: &str = "neither the program's instruction nor an addition";

/// The register that an instruction writes all of.
fn whole(insn: &Insn) -> Option<Gpr> {
    match insn.operands().next() {
        Some(Operand::Register(r)) if r.width == 8 => insn.first_register(),
        _ => None,
    }
}

/// Where an operand is in the thread's memory, if no register says so.
fn plain(memory: &MemoryOperand) -> Option<u32> {
    let is_plain = memory.base.is_none() && memory.index.is_none();
    u32::try_from(memory.displacement).ok().filter(|_| is_plain)
}

/// The counter that it is.
fn counter(memory: &MemoryOperand) -> Option<u32> {
    let at = plain(memory)?.checked_sub(offset::COUNTERS)?;
    (at % 8 == 0).then_some(at / 8)
}

/// `movzx ecx, …`
fn narrow(state: &State, from: Option<Operand>, gs: Option<MemoryOperand>) -> Result<Value, Why> {
    let is_rcx = |number: u8| number == Gpr::RCX.number() as u8;
    match (from, gs) {
        (_, Some(memory))
            if memory.base.is_some_and(|r| is_rcx(r.number) && r.width == 8)
                && memory.index.is_none()
                && memory.width == 1
                && memory.displacement == i64::from(offset::KERNEL_CALLS)
                && *state.value(Gpr::RCX) == Value::KernelCall =>
        {
            Ok(Value::IsLookedAt)
        }
        (Some(Operand::Register(r)), None) if r.width == 2 => match state.next {
            Next::Return { .. } if is_rcx(r.number) && state.value(Gpr::RCX).is_target() => Ok(Value::Low),
            _ if r.number == 0 && *state.value(Gpr::RAX) == Value::Own(Gpr::RAX) => Ok(Value::KernelCall),
            _ => wrong(UNKNOWN),
        },
        _ => wrong(UNKNOWN),
    }
}

/// `lea …`
fn compute(state: &mut State, insn: &Insn, from: &MemoryOperand) -> Result<(), Why> {
    let Some(to) = insn.first_register() else { return wrong(UNKNOWN) };
    let number = from.displacement;
    if from.fixed && whole(insn).is_some() {
        state.set(to, Value::Address(number as u64));
        return Ok(());
    }
    let is_own = from.base.is_some_and(|r| usize::from(r.number) == to.number() && r.width == 8);
    let is_result = state.rcx_is.is_some()
        && to == Gpr::RCX
        && from.base.is_some_and(|r| r.number == 0 && r.width == 8)
        && *state.value(Gpr::RAX) == Value::Own(Gpr::RAX);
    if is_result && from.index.is_none() && number == EFAULT.0 as i64 {
        state.set(to, Value::FromFault);
        return Ok(());
    }
    if !is_own || from.index.is_some() {
        return wrong(UNKNOWN);
    }
    if to == Gpr::RSP {
        match &mut state.next {
            _ if state.has_return && number == 8 => state.has_return = false,
            Next::Return { left, .. } if number as u64 == *left => *left = 0,
            _ => return wrong("the stack is changed"),
        }
        return Ok(());
    }
    let value = match (state.value(to), whole(insn).is_some()) {
        (Value::Count(counter), true) if number == 1 => Value::Counted(*counter),
        (Value::Counted(_), true) => Value::Other,
        (Value::Upper, false) => Value::Difference((number as u32).wrapping_neg()),
        (value, true) => value.plus(number).ok_or(Why::Is("a register of the program is changed"))?,
        _ => return wrong(UNKNOWN),
    };
    state.set(to, value);
    Ok(())
}
