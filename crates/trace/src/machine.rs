//! A thread's registers, as far as they are known: executes the operations of units with the values that were written down.

use crate::operations::{FS, GS, Instruction, Operation, Operations};
use crate::units::{State, Unit};
use crate::visit::{Reference, Stamp};
use relive_code::isa::{Access, EffectsReader, Gpr, How, Knowledge, Segment};

/// Room for all numbers that a byte of an operation can be, so that none has to be checked.
const REGISTERS: usize = 32;
/// The direction flag among all flags.
pub(crate) const DIRECTION: u64 = 1 << 10;

/// A thread, as far as is known.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    registers: [u64; REGISTERS],
    /// Whether string instructions go downwards.
    backwards: bool,
}

/// Where values come from, each for its slot.
pub(crate) trait Values {
    type Error;
    fn value(&mut self, slot: u32) -> Result<u64, Self::Error>;
}

/// What was found of a unit.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) references: Vec<Reference>,
    pub(crate) stamps: Vec<Stamp>,
}

impl Found {
    pub(crate) fn clear(&mut self) {
        self.references.clear();
        self.stamps.clear();
    }
}

impl Machine {
    pub(crate) fn new(state: &State) -> Self {
        let mut registers = [0; REGISTERS];
        registers[..16].copy_from_slice(&state.registers);
        registers[usize::from(FS)] = state.fs;
        registers[usize::from(GS)] = state.gs;
        Self { registers, backwards: state.flags & DIRECTION != 0 }
    }

    /// The state at `pc`. Of registers that are not known, it says something.
    pub(crate) fn state(&self, pc: u64) -> State {
        let mut registers = [0; 16];
        registers.copy_from_slice(&self.registers[..16]);
        let flags = if self.backwards { DIRECTION } else { 0 };
        let [fs, gs] = [FS, GS].map(|segment| self.registers[usize::from(segment)]);
        State { registers, flags, pc, fs, gs }
    }

    /// Where the stack is.
    pub(crate) fn stack(&self) -> u64 {
        self.registers[Gpr::RSP.number()]
    }

    /// String instructions go downwards from now on, or upwards.
    pub(crate) fn turn(&mut self, backwards: bool) {
        self.backwards = backwards;
    }

    /// A register is known to hold this.
    pub(crate) fn set(&mut self, register: Gpr, value: u64) {
        self.registers[register.number()] = value;
    }

    #[inline(always)]
    fn get(&self, register: u8) -> u64 {
        self.registers[usize::from(register) % REGISTERS]
    }

    #[inline(always)]
    fn put(&mut self, register: u8, value: u64) {
        self.registers[usize::from(register) % REGISTERS] = value;
    }

    #[inline(always)]
    fn sum(&self, base: u8, index: u8, shift: u8, displacement: i64) -> u64 {
        let index = self.get(index) << (shift & 63);
        self.get(base).wrapping_add(index).wrapping_add_signed(displacement)
    }

    /// The general registers.
    fn general(&self) -> &[u64; 16] {
        self.registers.first_chunk().expect("there are more")
    }

    /// Executes the first so many of a unit's operations.
    pub(crate) fn run<V: Values>(
        &mut self,
        all: &Operations,
        operations: u32,
        values: &mut V,
        found: &mut Found,
    ) -> Result<(), V::Error> {
        let mut slot = all.slot;
        for operation in &all.list[..operations as usize] {
            match *operation {
                Operation::Value(register) => {
                    let value = values.value(slot)?;
                    self.put(register, value);
                    slot += 1;
                }
                Operation::Access {
                    base,
                    index,
                    shift,
                    segment,
                    kind,
                    is_locked,
                    step,
                    size,
                    displacement,
                } => {
                    let address = self.sum(base, index, shift, displacement).wrapping_add(self.get(segment));
                    found.references.push(Reference { address, size, step, kind, is_locked });
                }
                Operation::Sum { to, base, index, shift, displacement } => {
                    self.put(to, self.sum(base, index, shift, displacement));
                }
                Operation::Constant { to, value } => self.put(to, value),
                Operation::Half { to, from } => self.put(to, self.get(from) & 0xffff_ffff),
                Operation::Set(number) => {
                    let set = &all.sets[number as usize];
                    let value = set.evaluate(self.general(), self.backwards);
                    self.put(set.to.number() as u8, value);
                }
                Operation::Instruction(number) => {
                    self.instruction(&all.instructions[number as usize], &mut slot, values, found)?;
                }
            }
        }
        Ok(())
    }

    /// Executes the first so many of a unit's instructions, wherever that is, with so many values. Of the next one, if it repeats
    /// itself, as much as has been done when so much is `left` of it.
    pub(crate) fn run_steps<V: Values>(
        &mut self,
        unit: &Unit,
        (steps, left): (usize, u64),
        count: usize,
        values: &mut V,
        found: &mut Found,
    ) -> Result<(), V::Error> {
        let mut effects = EffectsReader::new();
        let mut knowledge = Knowledge::of(unit.known, unit.operations.order);
        let mut slot = unit.operations.slot;
        for step in 0..(steps + 1).min(unit.steps.len()) {
            let Some(insn) = unit.decode(step) else { break };
            let (accesses, replayed) = (effects.accesses(&insn), effects.replayed(&insn));
            let needed = knowledge.step(&accesses, &replayed);
            let instruction = Instruction { step: step as u16, accesses, replayed, needed };
            if step < steps {
                self.instruction(&instruction, &mut slot, values, found)?;
                continue;
            }
            let used = (slot - unit.operations.slot) as usize;
            if needed.before.gprs().count() <= count - used.min(count) {
                for register in needed.before.gprs() {
                    self.registers[register.number()] = values.value(slot)?;
                    slot += 1;
                }
                self.repeated(&instruction, left, found);
            }
        }
        Ok(())
    }

    fn instruction<V: Values>(
        &mut self,
        instruction: &Instruction,
        slot: &mut u32,
        values: &mut V,
        found: &mut Found,
    ) -> Result<(), V::Error> {
        let Instruction { replayed, needed, .. } = instruction;
        let mut next_value = || {
            *slot += 1;
            values.value(*slot - 1)
        };
        for register in needed.before.gprs() {
            self.registers[register.number()] = next_value()?;
        }
        let mut next = *self.general();
        for set in &replayed.sets {
            next[set.to.number()] = set.evaluate(self.general(), self.backwards);
        }
        let mut backwards = replayed.backwards.unwrap_or(self.backwards);
        if needed.flags {
            backwards = next_value()? & DIRECTION != 0;
        }
        if needed.times {
            let (step, before, after) = (instruction.step, next_value()?, next_value()?);
            found.stamps.push(Stamp { step, before, after });
        }
        for register in needed.after.gprs() {
            next[register.number()] = next_value()?;
        }
        self.accesses(instruction, next[Gpr::RCX.number()], found);
        self.registers[..16].copy_from_slice(&next);
        self.backwards = backwards;
        Ok(())
    }

    /// Tells of an instruction's accesses; `left` is what is in `rcx` afterwards.
    fn accesses(&self, instruction: &Instruction, left: u64, found: &mut Found) {
        let compares = instruction.accesses.iter().find_map(|access| match access.how {
            How::Repeated { compares } => Some(compares),
            _ => None,
        });
        match compares {
            None => self.turns(instruction, 1, found),
            Some(compares) => self.repeated(instruction, if compares { left } else { 0 }, found),
        }
    }

    /// Tells of the accesses of an instruction that repeats itself, until so much is left in `rcx`.
    fn repeated(&self, instruction: &Instruction, left: u64, found: &mut Found) {
        let repeated = instruction.accesses.iter().find(|access| matches!(access.how, How::Repeated { .. }));
        if let Some(access) = repeated {
            let width = if access.place.narrow { u64::from(u32::MAX) } else { u64::MAX };
            let all = self.registers[Gpr::RCX.number()] & width;
            self.turns(instruction, all.saturating_sub(left & width), found);
        }
    }

    fn turns(&self, instruction: &Instruction, times: u64, found: &mut Found) {
        let &Instruction { step, ref accesses, .. } = instruction;
        let base = |access: &Access| match access.segment {
            Segment::None => 0,
            Segment::Fs => self.get(FS),
            Segment::Gs => self.get(GS),
        };
        for n in 0..times {
            for access in accesses {
                let by = n.wrapping_mul(u64::from(access.size)).cast_signed();
                let by = if self.backwards { by.wrapping_neg() } else { by };
                let address = access.address_beyond(self.general(), base(access), by);
                let &Access { size, kind, is_locked, .. } = access;
                found.references.push(Reference { address, size, step, kind, is_locked });
            }
        }
    }
}
