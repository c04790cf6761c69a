//! Ways out of a unit: to the engine, to another unit's call, and jumps that are linked later.

use super::additions::plain;
use super::state::{Next, State};
use super::{FAR, RCX, Step, Walk, Why, demand, wrong};
use crate::thread::offset;
use crate::translate::{Exit, HOT};
use relive_abi::engine as abi;
use relive_code::isa::{Flow, Insn, MemoryOperand, RegSet};

/// Four bytes that are changed while others execute them lie within so many.
const AT_ONCE: u64 = 16;

impl Walk<'_, '_> {
    /// Goes to the `call` of another unit.
    pub(super) fn share(&mut self, state: &mut State, to: u64) -> Step {
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
    pub(super) fn jump(&mut self, after: &mut State, insn: &Insn) -> Result<(), Why> {
        let field = insn.next_addr().0 - 4;
        let Some(index) = self.subject.exits.iter().position(|exit| exit.field == field) else {
            return Ok(());
        };
        self.found[index] = true;
        after.through = Some(field);
        let exit = self.subject.exits[index];
        demand(field % AT_ONCE <= AT_ONCE - 4, "a jump that cannot be changed at once")?;
        let is_call = matches!(exit.kind, abi::CALL | abi::INDIRECT_CALL);
        demand(after.has_return == is_call, "what it leads to expects another stack")?;
        let drop = if exit.kind == abi::INDIRECT_CALL { 5 } else { 0 };
        demand(after.at + drop == exit.stub, "it does not lead to the engine")?;
        self.out(after, &exit)
    }

    /// Into the engine, through a word of the thread's memory.
    pub(super) fn leave(&mut self, state: &mut State, through: &MemoryOperand) -> Step {
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
            (abi::JUMP | abi::BRANCH | abi::STRAY, Next::At(pc)) => {
                demand(self.leads(*pc, exit.to), ELSEWHERE)?;
                self.not_needed(state.changed(), exit.to)
            }
            (abi::CALL | abi::CALL_NEXT, Next::Call { to: Some(to), site, .. }) => {
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
    pub(super) fn not_needed(&mut self, mut changed: RegSet, mut pc: u64) -> Result<(), Why> {
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
}
