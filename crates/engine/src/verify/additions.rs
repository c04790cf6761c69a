//! What is added to the program's code: what it does to registers, flags and the thread's memory.

use super::state::{Next, State, Value};
use super::{Step, Walk, Why, demand, wrong};
use crate::thread::offset;
use alloc::vec::Vec;
use relive_abi::engine as abi;
use relive_abi::kernel::EFAULT;
use relive_code::isa::{Flag, Flow, Gpr, Insn, MemoryOperand, Operand, RegSet, Verb};

/// The condition.
const EQUAL: u8 = 4;
/// What counting changes, and comparing.
const ALL_FLAGS: RegSet = RegSet::ARITHMETIC_FLAGS;
const ALL_BUT_CARRY: RegSet = ALL_FLAGS.without(RegSet::flag(Flag::Cf));

impl Walk<'_, '_> {
    /// An instruction that the program does not have there.
    pub(super) fn add(&mut self, state: &mut State, insn: &Insn, own: Option<&Insn>) -> Step {
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
            (Verb::Movzx, [Some(Operand::Register(to)), from, _])
                if insn.first_register() == Some(Gpr::RCX) && to.width >= 4 =>
            {
                let value = narrow(state, from, gs(from))?;
                state.set(Gpr::RCX, value);
            }
            (Verb::Lea, [_, Some(Operand::Memory(memory)), _]) => self.compute(state, insn, &memory)?,
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
            (Verb::Pext, [_, Some(Operand::Register(r)), which])
                if whole(insn) == Some(Gpr::RCX)
                    && matches!(state.next, Next::Return { .. } | Next::Computed(_)) =>
            {
                let is_target = r.number == Gpr::RCX.number() as u8 && state.value(Gpr::RCX).is_target();
                let which = gs(which).as_ref().and_then(plain);
                demand(is_target && which == Some(offset::RETURNS_MASK), "no place for a return target")?;
                state.set(Gpr::RCX, Value::Low);
            }
            (Verb::Inc, [to, ..]) if let Some((counter, 8)) = gs(to).as_ref().and_then(counter) => {
                state.counted.push(counter);
                state.flags |= ALL_BUT_CARRY;
            }
            (Verb::Cmp, [to, Some(Operand::Immediate(number)), _])
                if let Some((counter, 4 | 8)) = gs(to).as_ref().and_then(counter) =>
            {
                let is_often =
                    Some(counter) == self.subject.counter && number == self.subject.threshold.into();
                demand(is_often, "a counter is compared with something")?;
                state.flags |= ALL_FLAGS;
            }
            (Verb::Nop, _) => {}
            (Verb::Push, [from, ..]) if insn.stack_change() == -8 => self.push(state, own, from, gs(from))?,
            (Verb::Pop, _) if let Some(own) = own.filter(|own| own.verb() == Verb::Ret) => {
                demand(whole(insn) == Some(Gpr::RCX), "the target of a return is taken elsewhere")?;
                state.set(Gpr::RCX, Value::Target(Vec::new()));
                state.next = Next::Return { site: *own, left: own.drops() };
            }
            (Verb::Ret, _) if insn.stack_change() == 8 => {
                let Next::Landing { site } = state.next else { return wrong(UNKNOWN) };
                self.next_exit(state, &site, &[abi::RETURN])?;
                state.is_spilled()?;
                demand(state.target_is_stored(), "the target of a return is not in the thread's memory")?;
                state.counts_are_right()?;
                return Ok(false);
            }
            (Verb::Ud2, _) if let Next::At(pc) = state.next => {
                demand(self.subject.source.insn(pc).is_none(), "the program has an instruction there")?;
                return Ok(false);
            }
            (Verb::Jmp, [to, ..])
                if let (Some(memory), Next::Computed(site)) = (gs(to), state.next.clone())
                    && memory.index.is_some() =>
            {
                demand(is_table(&memory) && *state.value(Gpr::RCX) == Value::Low, "no table of targets")?;
                self.next_exit(state, &site, &[abi::INDIRECT_JUMP])?;
                state.is_spilled()?;
                demand(state.target_is_stored(), "the target of a jump is not in the thread's memory")?;
                state.counts_are_right()?;
                return Ok(false);
            }
            (Verb::Jmp, [to, ..]) if let Some(memory @ MemoryOperand { width: 8, .. }) = gs(to) => {
                return self.leave(state, &memory);
            }
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
                if insn.condition() == Some(EQUAL)
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

    /// Something on the stack: the address that the program's call puts there, or that of a landing.
    fn push(
        &self,
        state: &mut State,
        own: Option<&Insn>,
        from: Option<Operand>,
        gs: Option<MemoryOperand>,
    ) -> Result<(), Why> {
        if let (Some(memory), Next::Return { site, left: 0 }) = (gs, state.next.clone()) {
            demand(is_table(&memory) && *state.value(Gpr::RCX) == Value::Low, "no table of return targets")?;
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
                    (Some((to, 8)), Some(Value::Counted(counter))) if to == counter => {
                        state.counted.push(counter)
                    }
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
                    Some((counter, _)) => Value::Count(counter),
                    None => state.slot(plain(&from)).ok_or(Why::Is("nothing of that is kept there"))?.clone(),
                };
                state.set(register, value);
            }
            _ => return wrong(UNKNOWN),
        }
        Ok(())
    }

    /// `lea …`
    fn compute(&self, state: &mut State, insn: &Insn, from: &MemoryOperand) -> Result<(), Why> {
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
        if is_result && whole(insn).is_some() && from.index.is_none() && number == EFAULT.0 as i64 {
            state.set(to, Value::FromFault);
            return Ok(());
        }
        if !is_own || from.index.is_some() {
            return wrong(UNKNOWN);
        }
        if to == Gpr::RSP && whole(insn).is_some() {
            match &mut state.next {
                _ if state.has_return && number == 8 => state.has_return = false,
                Next::Return { left, .. } if number as u64 == *left => *left = 0,
                _ => return wrong("the stack is changed"),
            }
            return Ok(());
        }
        let width = match insn.operands().next() {
            Some(Operand::Register(register)) => register.width,
            _ => 0,
        };
        let value = match (state.value(to), width) {
            (Value::Count(counter), 8) if number == 1 => Value::Counted(*counter),
            (Value::Counted(counter), 8) if Some(*counter) == self.subject.counter => {
                demand(number == -i64::from(self.subject.threshold), "a counter is compared with something")?;
                Value::Other
            }
            (Value::Upper, 4) => Value::Difference((number as u32).wrapping_neg()),
            (value, 8) => value.plus(number).ok_or(Why::Is("a register of the program is changed"))?,
            _ => return wrong(UNKNOWN),
        };
        state.set(to, value);
        Ok(())
    }
}

/// Nothing is known of the instruction.
pub(super) const UNKNOWN: &str = "neither the program's instruction nor an addition";

/// The register that an instruction writes all of.
fn whole(insn: &Insn) -> Option<Gpr> {
    match insn.operands().next() {
        Some(Operand::Register(r)) if r.width == 8 => insn.first_register(),
        _ => None,
    }
}

/// Where an operand is in the thread's memory, if no register says so.
pub(super) fn plain(memory: &MemoryOperand) -> Option<u32> {
    let is_plain = memory.base.is_none() && memory.index.is_none();
    u32::try_from(memory.displacement).ok().filter(|_| is_plain)
}

/// Whether it is the place that `rcx` names, among those for return targets.
fn is_table(memory: &MemoryOperand) -> bool {
    memory.base.is_none()
        && memory.width == 8
        && memory.index.is_some_and(|r| r.number == Gpr::RCX.number() as u8 && r.width == 8)
        && memory.scale == 8
        && memory.displacement == i64::from(offset::RETURNS)
}

/// The counter that it is, and how many bytes of it.
fn counter(memory: &MemoryOperand) -> Option<(u32, u8)> {
    let at = plain(memory)?.checked_sub(offset::COUNTERS)?;
    (at % 8 == 0).then_some((at / 8, memory.width))
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
            Next::Return { .. } | Next::Computed(_)
                if is_rcx(r.number) && state.value(Gpr::RCX).is_target() =>
            {
                Ok(Value::Low)
            }
            _ if r.number == 0 && *state.value(Gpr::RAX) == Value::Own(Gpr::RAX) => Ok(Value::KernelCall),
            _ => wrong(UNKNOWN),
        },
        _ => wrong(UNKNOWN),
    }
}
