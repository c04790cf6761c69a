//! What an instruction does and with what, as data: for those who compare instructions.

use super::Insn;
use crate::addr::LinkAddr;
use iced_x86::{ConditionCode, Mnemonic, OpKind, Register};

/// What one operand is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// A register.
    Register(RegisterName),
    /// A number.
    Immediate(i64),
    /// A place in memory.
    Memory(MemoryOperand),
    /// A place in the code.
    Target(LinkAddr),
}

/// A register or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterName {
    /// What kind of register.
    pub class: RegisterClass,
    /// Which of its kind.
    pub number: u8,
    /// How many bytes of it.
    pub width: u8,
}

/// Kinds of registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterClass {
    /// `rax` and the like.
    General,
    /// `xmm0` and the like.
    Vector,
    /// All others.
    Other,
}

/// A place in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryOperand {
    /// The register it is relative to.
    pub base: Option<RegisterName>,
    /// The register that is scaled and added.
    pub index: Option<RegisterName>,
    /// By what.
    pub scale: u8,
    /// What is added; the whole address if [`MemoryOperand::fixed`].
    pub displacement: i64,
    /// The address does not depend on registers.
    pub fixed: bool,
    /// Relative to the thread.
    pub thread_local: bool,
    /// How many bytes are read or written; zero if it is not said.
    pub width: u8,
}

impl Insn {
    /// What it does, as a number: the mnemonic.
    #[must_use]
    pub fn opcode(&self) -> u16 {
        self.raw.mnemonic() as u16
    }

    /// What it does more or less: instructions that compilers use for the same thing have the same number.
    #[must_use]
    pub fn group(&self) -> u16 {
        use Mnemonic as M;
        let mnemonic = self.raw.mnemonic();
        let representative = match mnemonic {
            M::Movzx | M::Movsx | M::Movsxd => M::Mov,
            M::Lea | M::Sub | M::Inc | M::Dec | M::Neg => M::Add,
            M::Test | M::Bt => M::Cmp,
            M::Or | M::Xor | M::Not => M::And,
            M::Sal | M::Shr | M::Sar | M::Rol | M::Ror | M::Shlx | M::Shrx | M::Sarx | M::Rorx => M::Shl,
            M::Mul => M::Imul,
            M::Div => M::Idiv,
            M::Movups | M::Movapd | M::Movupd | M::Movdqa | M::Movdqu => M::Movaps,
            M::Movsd | M::Movd | M::Movq => M::Movss,
            _ if self.raw.condition_code() != ConditionCode::None => match mnemonic {
                _ if self.raw.is_jcc_short_or_near() => M::Je,
                _ if self.raw.op_count() == 1 => M::Sete,
                _ => M::Cmove,
            },
            other => other,
        };
        representative as u16
    }

    /// Its operands in order, without those that are understood.
    pub fn operands(&self) -> impl Iterator<Item = Operand> + '_ {
        let raw = &self.raw;
        (0..raw.op_count()).filter_map(move |i| {
            Some(match raw.op_kind(i) {
                OpKind::Register => Operand::Register(name(raw.op_register(i))?),
                OpKind::Memory => Operand::Memory(MemoryOperand {
                    base: name(raw.memory_base()).filter(|_| !raw.is_ip_rel_memory_operand()),
                    index: name(raw.memory_index()),
                    scale: raw.memory_index_scale() as u8,
                    displacement: raw.memory_displacement64().cast_signed(),
                    fixed: self.fixed_memory_operand().is_some(),
                    thread_local: matches!(raw.memory_segment(), Register::FS | Register::GS),
                    width: raw.memory_size().size() as u8,
                }),
                OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => {
                    Operand::Target(LinkAddr(raw.near_branch_target()))
                }
                OpKind::Immediate8
                | OpKind::Immediate8_2nd
                | OpKind::Immediate16
                | OpKind::Immediate32
                | OpKind::Immediate64
                | OpKind::Immediate8to16
                | OpKind::Immediate8to32
                | OpKind::Immediate8to64
                | OpKind::Immediate32to64 => Operand::Immediate(raw.immediate(i).cast_signed()),
                _ => return None,
            })
        })
    }
}

fn name(register: Register) -> Option<RegisterName> {
    if register == Register::None {
        return None;
    }
    let class = match register {
        _ if register.is_gpr() => RegisterClass::General,
        _ if register.is_vector_register() => RegisterClass::Vector,
        _ => RegisterClass::Other,
    };
    let number = register.full_register().number();
    Some(RegisterName { class, number: number as u8, width: register.size() as u8 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn insn(bytes: &[u8]) -> Insn {
        Insn::decode(bytes, LinkAddr(0x1000)).expect("valid")
    }

    #[test]
    fn operands_are_told() {
        // mov eax, [rbx+rcx*4+8]
        let operands: Vec<_> = insn(&[0x8b, 0x44, 0x8b, 0x08]).operands().collect();
        let Operand::Register(eax) = operands[0] else { panic!("{operands:?}") };
        assert_eq!((eax.class, eax.number, eax.width), (RegisterClass::General, 0, 4));
        let Operand::Memory(memory) = operands[1] else { panic!("{operands:?}") };
        assert_eq!((memory.scale, memory.displacement, memory.width), (4, 8, 4));
        assert_eq!((memory.base.map(|r| r.number), memory.index.map(|r| r.number)), (Some(3), Some(1)));
        assert!(!memory.fixed && !memory.thread_local);
        // lea rax, [rip+0x10]
        let operands: Vec<_> = insn(&[0x48, 0x8d, 0x05, 0x10, 0, 0, 0]).operands().collect();
        let Operand::Memory(memory) = operands[1] else { panic!("{operands:?}") };
        assert!(memory.fixed && memory.base.is_none());
        assert_eq!(memory.displacement, 0x1017);
        // and eax, -2
        let operands: Vec<_> = insn(&[0x83, 0xe0, 0xfe]).operands().collect();
        assert_eq!(operands[1], Operand::Immediate(-2));
        // je 0x1002
        assert_eq!(insn(&[0x74, 0]).operands().collect::<Vec<_>>(), [Operand::Target(LinkAddr(0x1002))]);
    }

    #[test]
    fn groups_hold_what_does_the_same() {
        let (je, jg) = (insn(&[0x74, 0]), insn(&[0x7f, 0]));
        assert_ne!(je.opcode(), jg.opcode());
        assert_eq!(je.group(), jg.group());
        let (sete, cmove) = (insn(&[0x0f, 0x94, 0xc0]), insn(&[0x0f, 0x44, 0xc1]));
        assert_ne!(sete.group(), cmove.group());
        assert_ne!(sete.group(), je.group());
    }
}
