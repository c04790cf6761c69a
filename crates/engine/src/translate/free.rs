//! What the code from some place on does not need: flags and registers that it overwrites before it reads them.

use super::Source;
use relive_code::addr::LinkAddr;
use relive_code::isa::{Decode, EffectsReader, Flag, Flow, Gpr, RegSet};

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
    /// Carry too.
    pub all_flags: bool,
    /// A register, if flags are needed: it can hold a number.
    pub register: Option<Gpr>,
}

impl Free {
    /// Everything may be needed.
    pub const NOTHING: Self = Self { flags: false, all_flags: false, register: None };

    /// What code at `pc` does not need, as far as can be seen: flags, or else a register.
    pub fn at(source: &dyn Source, effects: &mut EffectsReader, pc: u64) -> Self {
        let usable = |r: &Gpr| *r != Gpr::RSP && *r != Gpr::R12;
        let mut free = Self::NOTHING;
        look(source, effects, pc, |read, killed| {
            free = Self {
                flags: killed.contains(CHANGED),
                all_flags: killed.contains(RegSet::ARITHMETIC_FLAGS),
                register: killed.gprs().find(usable),
            };
            free.flags || read.intersects(CHANGED.without(killed)) && free.register.is_some()
        });
        free
    }
}

/// Whether code at `pc` overwrites a register before it reads it, as far as can be seen.
pub fn overwrites(source: &dyn Source, effects: &mut EffectsReader, pc: u64, register: Gpr) -> bool {
    let register = RegSet::gpr(register);
    let mut overwritten = false;
    look(source, effects, pc, |read, killed| {
        overwritten = killed.contains(register);
        overwritten || read.contains(register)
    });
    overwritten
}

/// Goes along the code, with what has been read and what has been overwritten before it was read, until somebody has
/// seen enough.
fn look(
    source: &dyn Source,
    effects: &mut EffectsReader,
    mut pc: u64,
    mut enough: impl FnMut(RegSet, RegSet) -> bool,
) {
    let (mut read, mut killed) = (RegSet::EMPTY, RegSet::EMPTY);
    let mut decode = Decode::new(source.bytes(pc), LinkAddr(pc));
    for _ in 0..FAR {
        let Some(insn) = decode.next() else { return };
        let does = effects.effects(&insn);
        read |= does.reads - killed;
        killed |= does.kills - read;
        if enough(read, killed) {
            return;
        }
        pc = match insn.flow() {
            Flow::Next if !insn.is_syscall() => continue,
            Flow::Jump(to) | Flow::Call(to) => to.0,
            _ => return,
        };
        decode = Decode::new(source.bytes(pc), LinkAddr(pc));
    }
}
