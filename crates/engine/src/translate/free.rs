//! What the code from some place on does not need: flags and registers that it overwrites before it reads them.

use super::Source;
use relive_code::isa::{EffectsReader, Flag, Flow, Gpr, RegSet};

/// How far to look.
const FAR: usize = 24;

/// What `inc` changes.
const CHANGED: RegSet = {
    let set = RegSet::ARITHMETIC_FLAGS;
    set.without(RegSet::flag(Flag::Cf))
};

/// What is not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Free {
    /// All arithmetic flags but carry.
    pub flags: bool,
    /// A register that can hold a pointer to memory.
    pub register: Option<Gpr>,
    /// All registers.
    pub registers: RegSet,
}

impl Free {
    /// Everything may be needed.
    pub const NOTHING: Self = Self { flags: false, register: None, registers: RegSet::EMPTY };

    /// What code at `pc` does not need, as far as can be seen.
    pub fn at(source: &dyn Source, effects: &mut EffectsReader, mut pc: u64) -> Self {
        let mut read = RegSet::EMPTY;
        let mut free = RegSet::EMPTY;
        for _ in 0..FAR {
            let Some((insn, _)) = source.insn(pc) else { break };
            let does = effects.effects(&insn);
            read |= does.reads;
            free |= does.kills - read;
            pc = match insn.flow() {
                Flow::Next if !insn.is_syscall() => insn.next_addr().0,
                Flow::Jump(to) | Flow::Call(to) => to.0,
                _ => break,
            };
        }
        let usable = |r: &Gpr| *r != Gpr::RSP && *r != Gpr::R12;
        Self { flags: free.contains(CHANGED), register: free.gprs().find(usable), registers: free & RegSet::GPRS }
    }
}
