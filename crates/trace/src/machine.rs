//! A thread's registers, as far as they are known: executes the operations of units with the values that were written down.

use crate::operations::{FS, GS, Instruction, Operation, Operations};
use crate::references::Beside;
use crate::replay::Wrong;
use crate::units::{State, Unit};
use crate::visit::{Reference, Stamp};
use relive_code::isa::{EffectsReader, Gpr, Knowledge, Wide};

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
    fn value(&mut self, slot: u32) -> Result<u64, Wrong>;
}

/// What was found of a unit.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) references: Vec<Reference>,
    pub(crate) stamps: Vec<Stamp>,
    /// Nobody wants to know of accesses to memory: those of which there may be many are left out.
    pub(crate) is_unwanted: bool,
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

    /// Whether string instructions go downwards.
    pub(crate) fn is_backwards(&self) -> bool {
        self.backwards
    }

    #[inline(always)]
    pub(crate) fn get(&self, register: u8) -> u64 {
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
    pub(crate) fn general(&self) -> &[u64; 16] {
        self.registers.first_chunk().expect("there are more")
    }

    /// Executes the first so many of a unit's operations. Before there are too many references, `part` is told up to which instruction
    /// they go, of which there will be more.
    pub(crate) fn run<V: Values>(
        &mut self,
        all: &Operations,
        operations: u32,
        values: &mut V,
        found: &mut Found,
        part: &mut impl FnMut(&mut Found, u16),
    ) -> Result<(), Wrong> {
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
                    let instruction = &all.instructions[number as usize];
                    self.instruction(all, instruction, &mut slot, values, found, part)?;
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
        part: &mut impl FnMut(&mut Found, u16),
    ) -> Result<(), Wrong> {
        let mut effects = EffectsReader::new();
        let mut knowledge = Knowledge::of(unit.known, unit.operations.order);
        let mut slot = unit.operations.slot;
        for step in 0..(steps + 1).min(unit.steps.len()) {
            let Some(insn) = unit.decode(step) else { break };
            let (accesses, replayed) = (effects.accesses(&insn), effects.replayed(&insn));
            let needed = knowledge.step(&accesses, &replayed);
            let instruction = Instruction { step: step as u16, accesses, replayed, needed };
            if step < steps {
                self.instruction(&unit.operations, &instruction, &mut slot, values, found, part)?;
                continue;
            }
            let used = (slot - unit.operations.slot) as usize;
            if needed.before.gprs().count() <= count - used.min(count) {
                for register in needed.before.gprs() {
                    self.registers[register.number()] = values.value(slot)?;
                    slot += 1;
                }
                self.repeated(&instruction, left, found, part)?;
            }
        }
        Ok(())
    }

    fn instruction<V: Values>(
        &mut self,
        all: &Operations,
        instruction: &Instruction,
        slot: &mut u32,
        values: &mut V,
        found: &mut Found,
        part: &mut impl FnMut(&mut Found, u16),
    ) -> Result<(), Wrong> {
        let Instruction { replayed, needed, .. } = instruction;
        let mut next_value = || {
            *slot += 1;
            values.value(*slot - 1)
        };
        for register in needed.before.gprs() {
            self.registers[register.number()] = next_value()?;
        }
        let mut beside = Beside::default();
        for (wide, words) in needed.wide.iter().zip(&mut beside.wide) {
            for word in words.iter_mut().take(wide.map_or(0, Wide::words)) {
                *word = next_value()?;
            }
        }
        if needed.form {
            beside.form = next_value()?;
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
        self.accesses(instruction, next[Gpr::RCX.number()], &beside, &all.layout, found, part)?;
        self.registers[..16].copy_from_slice(&next);
        self.backwards = backwards;
        Ok(())
    }
}
