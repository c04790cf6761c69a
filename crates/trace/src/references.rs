//! The accesses to memory of instructions that do more than one, or none, or of which more has to be known than an address.

use crate::layout::Layout;
use crate::machine::{Found, Machine};
use crate::operations::{FS, GS, Instruction};
use crate::replay::Wrong;
use crate::visit::Reference;
use relive_code::isa::{Access, Gpr, How, Segment, signed_lane};

/// As many references are told at once, at most, of instructions that repeat themselves.
const MOST: usize = 1 << 14;

/// Where what a process can have of memory ends.
const END_OF_MEMORY: u64 = 1 << 56;

/// What is known when an instruction is executed besides general registers.
#[derive(Default)]
pub(crate) struct Beside {
    /// The register with indices, and the one with a mask.
    pub(crate) wide: [[u64; 8]; 2],
    /// The word that says in which form the processor's state is.
    pub(crate) form: u64,
}

impl Machine {
    /// Tells of an instruction's accesses; `left` is what is in `rcx` afterwards. If there are many, `part` is told before there are
    /// more.
    pub(crate) fn accesses(
        &self,
        instruction: &Instruction,
        left: u64,
        beside: &Beside,
        layout: &Layout,
        found: &mut Found,
        part: &mut impl FnMut(&mut Found, u16),
    ) -> Result<(), Wrong> {
        let compares = instruction.accesses.iter().find_map(|access| match access.how {
            How::Repeated { compares } => Some(compares),
            _ => None,
        });
        if let Some(compares) = compares {
            return self.repeated(instruction, if compares { left } else { 0 }, found, part);
        }
        for access in &instruction.accesses {
            self.access(access, instruction.step, beside, layout, found);
        }
        Ok(())
    }

    fn access(&self, access: &Access, step: u16, beside: &Beside, layout: &Layout, found: &mut Found) {
        let [index, mask_words] = &beside.wide;
        let mut push = |by: i64, size: u32| {
            let address = self.address(access, by);
            let &Access { kind, is_locked, .. } = access;
            found.references.push(Reference { address, size, step, kind, is_locked });
        };
        match access.how {
            How::Lanes { width, scale, count, mask, .. } => {
                let set = mask.bits(mask_words, count, access.size as usize);
                for lane in (0..count).filter(|lane| set >> lane & 1 != 0) {
                    let by = signed_lane(index, lane, width).wrapping_mul(scale.into());
                    push(by, access.size);
                }
            }
            How::Masked { element, count, mask } => {
                let set = mask.bits(mask_words, count, element.into());
                let elements = (access.size / u32::from(element)).max(1) as usize;
                let is_set = |n: usize| (n..count.into()).step_by(elements).any(|lane| set >> lane & 1 != 0);
                let mut at = 0;
                while at < elements {
                    let len = (at..elements).take_while(|&n| is_set(n)).count();
                    if len > 0 {
                        push((at * usize::from(element)) as i64, len as u32 * u32::from(element));
                    }
                    at += len + 1;
                }
            }
            How::Packed { element, mask } => {
                let count = (access.size / u32::from(element)) as u8;
                let len = mask.bits(mask_words, count, element.into()).count_ones();
                if len > 0 {
                    push(0, len * u32::from(element));
                }
            }
            How::State(form) => {
                let [low, high] = [Gpr::RAX, Gpr::RDX].map(|register| self.general()[register.number()]);
                let asked = high << 32 | low & 0xffff_ffff;
                push(0, layout.len(form, asked, beside.form));
            }
            _ => push(0, access.size),
        }
    }

    fn address(&self, access: &Access, by: i64) -> u64 {
        let base = match access.segment {
            Segment::None => 0,
            Segment::Fs => self.get(FS),
            Segment::Gs => self.get(GS),
        };
        access.address_beyond(self.general(), base, by)
    }

    /// Tells of the accesses of an instruction that repeats itself, until so much is left in `rcx`.
    pub(crate) fn repeated(
        &self,
        instruction: &Instruction,
        left: u64,
        found: &mut Found,
        part: &mut impl FnMut(&mut Found, u16),
    ) -> Result<(), Wrong> {
        let &Instruction { step, ref accesses, .. } = instruction;
        let repeated = accesses.iter().find(|access| matches!(access.how, How::Repeated { .. }));
        let Some(first) = repeated.filter(|_| !found.is_unwanted) else { return Ok(()) };
        let width = if first.place.narrow { u64::from(u32::MAX) } else { u64::MAX };
        let times = (self.general()[Gpr::RCX.number()] & width).saturating_sub(left & width);
        if accesses.iter().any(|access| !self.is_in_memory(access, times)) {
            return Err(Wrong::BeyondMemory);
        }
        for n in 0..times {
            if found.references.len() + accesses.len() > MOST {
                part(found, step);
            }
            for access in accesses {
                let by = n.wrapping_mul(u64::from(access.size)).cast_signed();
                let address = self.address(access, if self.is_backwards() { by.wrapping_neg() } else { by });
                let &Access { size, kind, is_locked, .. } = access;
                found.references.push(Reference { address, size, step, kind, is_locked });
            }
        }
        Ok(())
    }

    /// Whether so many accesses one behind the other can have happened.
    fn is_in_memory(&self, access: &Access, times: u64) -> bool {
        if times == 0 || access.place.narrow {
            return true;
        }
        let first = self.address(access, 0);
        let last = (times - 1).checked_mul(access.size.into()).and_then(|len| match self.is_backwards() {
            true => first.checked_sub(len),
            false => first.checked_add(len),
        });
        last.is_some_and(|last| first.max(last) < END_OF_MEMORY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::State;
    use relive_code::addr::LinkAddr;
    use relive_code::isa::{EffectsReader, Insn, Needed};

    /// How many references `rep stosq` has in each part, going up or down.
    fn parts(times: u64, to: u64, backwards: bool) -> Result<Vec<usize>, Wrong> {
        let insn = Insn::decode(&[0xf3, 0x48, 0xab], LinkAddr(0)).expect("valid");
        let mut effects = EffectsReader::new();
        let (accesses, replayed) = (effects.accesses(&insn), effects.replayed(&insn));
        let instruction = Instruction { step: 0, accesses, replayed, needed: Needed::default() };
        let mut registers = [0; 16];
        registers[Gpr::RCX.number()] = times;
        registers[Gpr::RDI.number()] = to;
        let flags = if backwards { 1 << 10 } else { 0 };
        let machine = Machine::new(&State { registers, flags, pc: 0, fs: 0, gs: 0 });
        let (mut found, mut lens) = (Found::default(), Vec::new());
        machine.repeated(&instruction, 0, &mut found, &mut |found, _| {
            lens.push(found.references.len());
            found.clear();
        })?;
        lens.push(found.references.len());
        Ok(lens)
    }

    #[test]
    fn in_parts() {
        assert_eq!(parts(3, 0x1000, false).expect("possible"), [3]);
        assert_eq!(parts(MOST as u64 * 2 + 5, 0x1000, false).expect("possible"), [MOST, MOST, 5]);
        assert_eq!(parts(3, 16, true).expect("possible"), [3]);
    }

    #[test]
    fn more_than_any_memory() {
        for (times, to, backwards) in
            [(u64::MAX, 0x1000, false), (1 << 53, 0x1000, false), (4, 16, true), (2, u64::MAX - 8, false)]
        {
            assert!(matches!(parts(times, to, backwards), Err(Wrong::BeyondMemory)), "{times:x} at {to:x}");
        }
    }
}
