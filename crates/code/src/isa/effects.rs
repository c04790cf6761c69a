//! What an instruction reads and writes, as data flow needs it.

use super::{Insn, RegSet};
use iced_x86::{InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind, Register};

/// The registers and flags an instruction touches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Effects {
    /// Read, in whole or in part, at least sometimes.
    pub reads: RegSet,
    /// Written, in whole or in part, at least sometimes.
    pub writes: RegSet,
    /// Always overwritten so that nothing of the old value is left.
    pub kills: RegSet,
}

/// Computes [`Effects`]; keeps scratch space between calls.
pub struct EffectsReader {
    pub(super) factory: InstructionInfoFactory,
}

impl Default for EffectsReader {
    fn default() -> Self {
        Self::new()
    }
}

impl EffectsReader {
    /// A reader with empty scratch space.
    #[must_use]
    pub fn new() -> Self {
        Self { factory: InstructionInfoFactory::new() }
    }

    /// What `insn` reads and writes by itself. What a callee or the kernel does is not in it, but for the
    /// registers the system-call convention names.
    pub fn effects(&mut self, insn: &Insn) -> Effects {
        let raw = &insn.raw;
        let mut effects = Effects::default();
        for used in self.factory.info_options(raw, InstructionInfoOptions::NO_MEMORY_USAGE).used_registers() {
            let set = RegSet::holding(used.register());
            match used.access() {
                OpAccess::Read | OpAccess::CondRead => effects.reads |= set,
                OpAccess::Write => {
                    effects.writes |= set;
                    if overwrites_fully(used.register()) {
                        effects.kills |= set;
                    }
                }
                OpAccess::CondWrite => effects.writes |= set,
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => {
                    effects.reads |= set;
                    effects.writes |= set;
                }
                _ => {}
            }
        }
        effects.reads |= RegSet::from_flag_bits(raw.rflags_read());
        let flags = RegSet::from_flag_bits(raw.rflags_modified());
        effects.writes |= flags;
        if !may_leave_flags_alone(insn) {
            effects.kills |= flags;
        }
        match raw.mnemonic() {
            // Without shadow stacks these are no-ops, whatever the decoder says.
            Mnemonic::Rdsspd | Mnemonic::Rdsspq => effects.kills = RegSet::EMPTY,
            Mnemonic::Syscall => {
                for register in [
                    Register::RAX,
                    Register::RDI,
                    Register::RSI,
                    Register::RDX,
                    Register::R10,
                    Register::R8,
                    Register::R9,
                ] {
                    effects.reads |= RegSet::holding(register);
                }
                effects.writes |= RegSet::holding(Register::RAX);
            }
            // The decoder does not list the registers that these save and restore, as the run decides.
            Mnemonic::Fxsave
            | Mnemonic::Fxsave64
            | Mnemonic::Xsave
            | Mnemonic::Xsave64
            | Mnemonic::Xsavec
            | Mnemonic::Xsavec64
            | Mnemonic::Xsaveopt
            | Mnemonic::Xsaveopt64
            | Mnemonic::Xsaves
            | Mnemonic::Xsaves64 => effects.reads |= !(RegSet::GPRS | RegSet::FLAGS),
            Mnemonic::Fxrstor
            | Mnemonic::Fxrstor64
            | Mnemonic::Xrstor
            | Mnemonic::Xrstor64
            | Mnemonic::Xrstors
            | Mnemonic::Xrstors64 => effects.writes |= !(RegSet::GPRS | RegSet::FLAGS),
            // Whoever handles the interrupt may look at everything.
            Mnemonic::Int | Mnemonic::Int1 | Mnemonic::Int3 => effects.reads |= RegSet::ALL,
            _ => {}
        }
        effects
    }
}

/// Writing `register` leaves nothing of what its full register held. The decoder already reports 32-bit
/// writes as 64-bit ones and VEX writes as full-width ones.
fn overwrites_fully(register: Register) -> bool {
    register.is_gpr64() || register.is_zmm() || register.is_k()
}

/// Shifts by a count of zero and string compares of length zero keep the flags they found.
fn may_leave_flags_alone(insn: &Insn) -> bool {
    let raw = &insn.raw;
    match raw.mnemonic() {
        Mnemonic::Shl
        | Mnemonic::Sal
        | Mnemonic::Shr
        | Mnemonic::Sar
        | Mnemonic::Rol
        | Mnemonic::Ror
        | Mnemonic::Rcl
        | Mnemonic::Rcr => raw.op1_kind() == OpKind::Register,
        Mnemonic::Shld | Mnemonic::Shrd => raw.op2_kind() == OpKind::Register,
        _ => insn.repeats() && insn.compares_strings(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::LinkAddr;
    use crate::isa::{Flag, Gpr};
    use alloc::string::ToString;

    fn effects(bytes: &[u8]) -> Effects {
        EffectsReader::new().effects(&Insn::decode(bytes, LinkAddr(0)).expect("valid"))
    }

    fn show(set: RegSet) -> alloc::string::String {
        set.to_string()
    }

    #[test]
    fn partial_writes_kill_nothing() {
        assert_eq!(effects(&[0xb0, 1]).kills, RegSet::EMPTY, "mov al,1");
        assert_eq!(show(effects(&[0xb8, 1, 0, 0, 0]).kills), "rax", "mov eax,1 clears the upper half");
        assert_eq!(
            effects(&[0x0f, 0x28, 0xc1]).kills,
            RegSet::EMPTY,
            "movaps xmm0,xmm1 keeps the upper lanes"
        );
        assert_eq!(show(effects(&[0xc5, 0xf8, 0x28, 0xc1]).kills), "zmm0", "vmovaps clears them");
    }

    #[test]
    fn conditional_moves_kill_nothing() {
        let cmov = effects(&[0x48, 0x0f, 0x44, 0xc1]);
        assert!(cmov.kills.is_empty() && cmov.writes.contains(RegSet::gpr(Gpr::RAX)));
    }

    #[test]
    fn zeroing_reads_nothing() {
        let xor = effects(&[0x31, 0xc0]);
        assert!(xor.reads.is_empty());
        assert!(xor.kills.contains(RegSet::gpr(Gpr::RAX) | RegSet::ARITHMETIC_FLAGS));
    }

    #[test]
    fn shift_by_cl_may_keep_the_flags() {
        assert!(!effects(&[0xd3, 0xe0]).kills.intersects(RegSet::FLAGS), "shl eax,cl");
        assert!(effects(&[0xc1, 0xe0, 3]).kills.contains(RegSet::flag(Flag::Cf)), "shl eax,3");
    }

    #[test]
    fn inc_keeps_carry() {
        let inc = effects(&[0xff, 0xc0]);
        assert!(!inc.writes.intersects(RegSet::flag(Flag::Cf)));
        assert!(inc.kills.contains(RegSet::flag(Flag::Zf)));
    }

    #[test]
    fn saving_the_extended_state_reads_it() {
        let vectors = RegSet::vector(0) | RegSet::vector(31) | RegSet::X87;
        assert!(effects(&[0x0f, 0xc7, 0x64, 0x24, 0x40]).reads.contains(vectors), "xsavec [rsp+0x40]");
        let restore = effects(&[0x0f, 0xae, 0x6c, 0x24, 0x40]);
        assert!(restore.writes.contains(vectors) && restore.kills.is_empty(), "xrstor [rsp+0x40]");
    }

    #[test]
    fn reading_the_shadow_stack_pointer_kills_nothing() {
        assert!(effects(&[0xf3, 0x48, 0x0f, 0x1e, 0xc8]).kills.is_empty());
    }
}
