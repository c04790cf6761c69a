//! What the code from some place on does not need: flags and registers that it overwrites before it reads them.

use super::{Source, Step};
use alloc::vec::Vec;
use relive_code::addr::LinkAddr;
use relive_code::isa::{Decode, Effects, EffectsReader, Flag, Flow, Gpr, Insn, RegSet};

/// How far to look.
pub(super) const FAR: usize = 24;

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
        Self::ahead(source, effects, pc, Ahead { steps: &[], next: 0, known: &mut Vec::new() })
    }

    /// The same where instructions have been decoded already.
    pub(super) fn ahead(
        source: &dyn Source,
        effects: &mut EffectsReader,
        pc: u64,
        ahead: Ahead<'_, '_>,
    ) -> Self {
        let usable = |r: &Gpr| *r != Gpr::RSP && *r != Gpr::R12;
        let mut free = Self::NOTHING;
        look(source, effects, pc, ahead, |read, killed| {
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
    let ahead = Ahead { steps: &[], next: 0, known: &mut Vec::new() };
    look(source, effects, pc, ahead, |read, killed| {
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
    mut ahead: Ahead<'_, '_>,
    mut enough: impl FnMut(RegSet, RegSet) -> bool,
) {
    let (mut read, mut killed) = (RegSet::EMPTY, RegSet::EMPTY);
    let mut decode = None;
    let mut other = Insn::default();
    for _ in 0..FAR {
        let (insn, does) = match ahead.take(pc, effects) {
            Some(known) => known,
            None => {
                let decode = decode.get_or_insert_with(|| Decode::new(source.bytes(pc), LinkAddr(pc)));
                if !decode.next_into(&mut other) {
                    return;
                }
                (&other, effects.effects(&other))
            }
        };
        read |= does.reads - killed;
        killed |= does.kills - read;
        if enough(read, killed) {
            return;
        }
        pc = match insn.flow() {
            Flow::Next if !insn.is_syscall() => insn.next_addr().0,
            Flow::Jump(to) | Flow::Call(to) => {
                decode = None;
                to.0
            }
            _ => return,
        };
    }
}

/// Instructions that have been decoded, from one of them on, and what they do, as far as somebody has asked.
pub(super) struct Ahead<'a, 'b> {
    pub steps: &'a [Step],
    pub next: usize,
    pub known: &'b mut Vec<Effects>,
}

impl<'a> Ahead<'a, '_> {
    /// The next one, if it is the one at `pc`. Whoever has come to another does not come back.
    fn take(&mut self, pc: u64, effects: &mut EffectsReader) -> Option<(&'a Insn, Effects)> {
        let Some(step) = self.steps.get(self.next).filter(|step| step.pc() == pc) else {
            self.steps = &[];
            return None;
        };
        if self.known.len() == self.next {
            self.known.push(effects.effects(&step.insn));
        }
        let does = self.known[self.next];
        self.next += 1;
        Some((&step.insn, does))
    }
}
