//! Whether two instructions do the same, wherever they lie; and the few kinds of instruction that code is mostly moved
//! with.

use super::{Flow, Insn};
use iced_x86::{Mnemonic, OpKind, Register};

/// What an instruction does, for those that are told apart here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names of instructions")]
pub enum Verb {
    Mov,
    Movzx,
    Lea,
    Inc,
    Cmp,
    Rorx,
    Pext,
    Push,
    Pop,
    Nop,
    Jrcxz,
    Jmp,
    Call,
    Ret,
    Ud2,
    Other,
}

impl Insn {
    /// What it does.
    #[must_use]
    pub fn verb(&self) -> Verb {
        match self.raw.mnemonic() {
            Mnemonic::Mov => Verb::Mov,
            Mnemonic::Movzx => Verb::Movzx,
            Mnemonic::Lea => Verb::Lea,
            Mnemonic::Inc => Verb::Inc,
            Mnemonic::Cmp => Verb::Cmp,
            Mnemonic::Rorx => Verb::Rorx,
            Mnemonic::Pext => Verb::Pext,
            Mnemonic::Push => Verb::Push,
            Mnemonic::Pop => Verb::Pop,
            Mnemonic::Nop => Verb::Nop,
            Mnemonic::Jrcxz => Verb::Jrcxz,
            Mnemonic::Jmp => Verb::Jmp,
            Mnemonic::Call => Verb::Call,
            Mnemonic::Ret => Verb::Ret,
            Mnemonic::Ud2 => Verb::Ud2,
            _ => Verb::Other,
        }
    }

    /// Whether it does what another does: the same with the same registers, numbers and memory. What is relative to the
    /// instruction leads to the same place. Branches are the same if they ask the same, wherever they lead.
    #[must_use]
    pub fn does_what(&self, other: &Self) -> bool {
        match (self.flow(), other.flow()) {
            (Flow::Branch(_), Flow::Branch(_)) => match (self.condition(), other.condition()) {
                (None, None) => self.raw.code() == other.raw.code(),
                (mine, others) => mine == others,
            },
            // The displacement of a relative operand is the place it leads to.
            _ => self.raw == other.raw,
        }
    }

    /// Whether it puts into a whole register where another, a computed jump or call, leads.
    #[must_use]
    pub fn loads_target_of(&self, jump: &Self) -> bool {
        let (mine, other) = (&self.raw, &jump.raw);
        let segment = |register| matches!(register, Register::FS | Register::GS).then_some(register);
        mine.mnemonic() == Mnemonic::Mov
            && mine.op0_kind() == OpKind::Register
            && mine.op0_register().is_gpr64()
            && (other.is_jmp_near_indirect() || other.is_call_near_indirect())
            && mine.op1_kind() == other.op0_kind()
            && match mine.op1_kind() {
                OpKind::Register => mine.op1_register() == other.op0_register(),
                _ => {
                    mine.memory_base() == other.memory_base()
                        && mine.memory_index() == other.memory_index()
                        && mine.memory_index_scale() == other.memory_index_scale()
                        && mine.memory_displacement64() == other.memory_displacement64()
                        && segment(mine.memory_segment()) == segment(other.memory_segment())
                }
            }
    }

    /// By how much it changes the stack pointer, if it is one that does nothing else with it.
    #[must_use]
    pub fn stack_change(&self) -> i32 {
        self.raw.stack_pointer_increment()
    }

    /// How many bytes a return takes off the stack besides the address.
    #[must_use]
    pub fn drops(&self) -> u64 {
        if self.raw.op_count() == 0 { 0 } else { self.raw.immediate(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::LinkAddr;

    fn at(at: u64, bytes: &[u8]) -> Insn {
        Insn::decode(bytes, LinkAddr(at)).expect("valid")
    }

    #[test]
    fn the_same_elsewhere() {
        let load = at(0x1000, &[0x48, 0x8b, 0x05, 0x10, 0, 0, 0]);
        assert!(at(0x1008, &[0x48, 0x8b, 0x05, 8, 0, 0, 0]).does_what(&load));
        assert!(!at(0x1008, &[0x48, 0x8b, 0x05, 0x10, 0, 0, 0]).does_what(&load), "another place");
        assert!(!at(0x1008, &[0x48, 0x8b, 0x0d, 8, 0, 0, 0]).does_what(&load), "another register");
        assert!(at(0, &[0x0f, 0x84, 1, 0, 0, 0]).does_what(&at(0, &[0x74, 0])), "je, je");
        assert!(!at(0, &[0x0f, 0x85, 1, 0, 0, 0]).does_what(&at(0, &[0x74, 0])), "jne, je");
        assert!(!at(0, &[0xe3, 0]).does_what(&at(0, &[0xe2, 0])), "jrcxz, loop");
    }

    #[test]
    fn targets_are_loaded() {
        let jump = at(0x1000, &[0x3e, 0xff, 0x24, 0xc5, 0, 1, 0, 0]); // notrack jmp [rax*8 + 0x100]
        assert!(at(0, &[0x48, 0x8b, 0x0c, 0xc5, 0, 1, 0, 0]).loads_target_of(&jump));
        assert!(!at(0, &[0x8b, 0x0c, 0xc5, 0, 1, 0, 0]).loads_target_of(&jump), "half a register");
        assert!(!at(0, &[0x64, 0x48, 0x8b, 0x0c, 0xc5, 0, 1, 0, 0]).loads_target_of(&jump), "thread-local");
        assert!(
            at(0, &[0x48, 0x89, 0xc1]).loads_target_of(&at(0, &[0xff, 0xd0])),
            "mov rcx, rax for call rax"
        );
    }
}
