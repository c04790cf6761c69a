//! Recovers every access to memory: executes what the instructions of units do to registers, with what was written down.

use crate::units::{State, Step, Unit};
use relive_code::isa::{Access, AccessKind, Gpr, How, Segment};

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The instruction.
    pub pc: u64,
    /// Where in memory.
    pub address: u64,
    /// How many bytes.
    pub size: u32,
    /// Whether it reads or writes.
    pub kind: AccessKind,
}

/// A thread, as far as is known.
#[derive(Clone, Debug)]
pub struct Replay {
    registers: [u64; 16],
    /// Whether string instructions go downwards.
    backwards: bool,
    fs: u64,
    gs: u64,
}

const DIRECTION: u64 = 1 << 10;

impl Replay {
    /// A thread that goes on with a state.
    #[must_use]
    pub fn new(state: &State) -> Self {
        let State { registers, flags, fs, gs, .. } = *state;
        Self { registers, backwards: flags & DIRECTION != 0, fs, gs }
    }

    /// Executes the first instructions of a unit, with the values that were written down, and tells of each access.
    /// Whether there were enough values.
    pub fn execute(
        &mut self,
        unit: &Unit,
        steps: u32,
        mut values: impl Iterator<Item = u64>,
        mut tell: impl FnMut(Reference),
    ) -> bool {
        unit.steps.iter().take(steps as usize).all(|step| self.step(step, &mut values, &mut tell).is_some())
    }

    fn step(
        &mut self,
        step: &Step,
        values: &mut impl Iterator<Item = u64>,
        tell: &mut impl FnMut(Reference),
    ) -> Option<()> {
        for register in step.needed.before.gprs() {
            self.registers[register.number()] = values.next()?;
        }
        let mut next = self.registers;
        for set in &step.replayed.sets {
            next[set.to.number()] = set.evaluate(&self.registers, self.backwards);
        }
        let mut backwards = step.replayed.backwards.unwrap_or(self.backwards);
        if step.needed.flags {
            backwards = values.next()? & DIRECTION != 0;
        }
        for register in step.needed.after.gprs() {
            next[register.number()] = values.next()?;
        }
        self.accesses(step, next[Gpr::RCX.number()], tell);
        (self.registers, self.backwards) = (next, backwards);
        Some(())
    }

    /// Tells of an instruction's accesses; `left` is what is in `rcx` afterwards.
    fn accesses(&self, step: &Step, left: u64, tell: &mut impl FnMut(Reference)) {
        let base = |access: &Access| match access.segment {
            Segment::None => 0,
            Segment::Fs => self.fs,
            Segment::Gs => self.gs,
        };
        let repeated = step.accesses.iter().find_map(|access| match access.how {
            How::Repeated { compares } => Some((compares, access.place.narrow)),
            _ => None,
        });
        let times = repeated.map_or(1, |(compares, narrow)| {
            let width = if narrow { u64::from(u32::MAX) } else { u64::MAX };
            let all = self.registers[Gpr::RCX.number()] & width;
            if compares { all.wrapping_sub(left & width) } else { all }
        });
        for n in 0..times {
            for access in &step.accesses {
                let by = n.wrapping_mul(u64::from(access.size)).cast_signed();
                let by = if self.backwards { by.wrapping_neg() } else { by };
                let address = access.address_beyond(&self.registers, base(access), by);
                tell(Reference { pc: step.pc, address, size: access.size, kind: access.kind });
            }
        }
    }
}
