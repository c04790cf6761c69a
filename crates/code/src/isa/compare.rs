//! What conditional branches ask, as far as that hints at the answer.

use super::{Gpr, Insn};
use iced_x86::{ConditionCode, Mnemonic, OpKind, Register, RflagsBits};

/// What a branch asks of the flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// Equal, or zero.
    Equal,
    /// Less, or less or equal, signed.
    Less,
    /// Less, or less or equal, unsigned.
    Below,
    /// The result is negative.
    Negative,
    /// Overflow, or not a number.
    Odd,
}

/// What a value is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Against {
    /// Zero; how many bytes are compared.
    Zero(u8),
    /// Another constant.
    Constant,
    /// A mask: some bits are looked at.
    Mask,
    /// Another value.
    Value,
    /// Nothing: the flags come from arithmetic, or from floating-point numbers.
    Nothing,
}

impl Insn {
    /// The condition of a branch, numbered as in its opcode: that of the opposite one differs in the lowest bit.
    #[must_use]
    pub fn condition(&self) -> Option<u8> {
        self.raw.is_jcc_short_or_near().then(|| self.raw.condition_code() as u8 - 1)
    }

    /// What a conditional branch asks, and whether it is taken if the answer is yes.
    #[must_use]
    pub fn question(&self) -> Option<(Question, bool)> {
        Some(match self.raw.condition_code() {
            ConditionCode::e => (Question::Equal, true),
            ConditionCode::ne => (Question::Equal, false),
            ConditionCode::l | ConditionCode::le => (Question::Less, true),
            ConditionCode::ge | ConditionCode::g => (Question::Less, false),
            ConditionCode::b | ConditionCode::be => (Question::Below, true),
            ConditionCode::ae | ConditionCode::a => (Question::Below, false),
            ConditionCode::s => (Question::Negative, true),
            ConditionCode::ns => (Question::Negative, false),
            ConditionCode::o | ConditionCode::p => (Question::Odd, true),
            ConditionCode::no | ConditionCode::np => (Question::Odd, false),
            ConditionCode::None => return None,
        })
    }

    /// What it compares with, if it sets the flags that branches ask.
    #[must_use]
    pub fn compares(&self) -> Option<Against> {
        let raw = &self.raw;
        let is_constant = !matches!(raw.op1_kind(), OpKind::Register | OpKind::Memory);
        let size = || match raw.op0_kind() {
            OpKind::Register => raw.op0_register().size() as u8,
            _ => raw.memory_size().size() as u8,
        };
        Some(match raw.mnemonic() {
            Mnemonic::Test
                if raw.op0_kind() == OpKind::Register && raw.op0_register() == raw.op1_register() =>
            {
                Against::Zero(size())
            }
            Mnemonic::Test | Mnemonic::Bt => Against::Mask,
            Mnemonic::And if is_constant => Against::Mask,
            Mnemonic::Cmp if is_constant && raw.immediate(1) == 0 => Against::Zero(size()),
            Mnemonic::Cmp if is_constant => Against::Constant,
            Mnemonic::Cmp => Against::Value,
            _ if raw.rflags_modified() & RflagsBits::ZF != 0 => Against::Nothing,
            _ => return None,
        })
    }

    /// The register that its first operand is.
    #[must_use]
    pub fn first_register(&self) -> Option<Gpr> {
        (self.raw.op0_kind() == OpKind::Register).then(|| Gpr::holding(self.raw.op0_register())).flatten()
    }

    /// The constant it puts into `rax`, if it does: in front of a return, the result.
    #[must_use]
    pub fn result_constant(&self) -> Option<i64> {
        let raw = &self.raw;
        if self.first_register() != Some(Gpr::RAX) || raw.op_count() != 2 {
            return None;
        }
        match (raw.mnemonic(), raw.op1_kind()) {
            (Mnemonic::Xor, OpKind::Register) => (raw.op1_register() == raw.op0_register()).then_some(0),
            (_, OpKind::Register | OpKind::Memory) => None,
            // Results are mostly `int`, and moved as four bytes.
            (Mnemonic::Mov, _) if raw.op0_register().is_gpr32() => Some(i64::from(raw.immediate(1) as i32)),
            (Mnemonic::Mov, _) => Some(raw.immediate(1) as i64),
            (Mnemonic::Or, _) => (raw.immediate(1) as i8 == -1).then_some(-1),
            _ => None,
        }
    }

    /// Whether it reads memory into a register, as a whole or in parts.
    #[must_use]
    pub fn loads(&self) -> bool {
        matches!(self.raw.mnemonic(), Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd)
            && self.raw.op0_kind() == OpKind::Register
            && self.raw.op1_kind() == OpKind::Memory
            && !matches!(self.raw.memory_base(), Register::RSP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::LinkAddr;

    fn insn(bytes: &[u8]) -> Insn {
        Insn::decode(bytes, LinkAddr(0x1000)).expect("valid")
    }

    #[test]
    fn branches_ask() {
        assert_eq!(insn(&[0x74, 0]).question(), Some((Question::Equal, true)));
        assert_eq!(insn(&[0x7f, 0]).question(), Some((Question::Less, false)), "jg");
        assert_eq!(insn(&[0x76, 0]).question(), Some((Question::Below, true)), "jbe");
        assert_eq!(insn(&[0x0f, 0x88, 0, 0, 0, 0]).question(), Some((Question::Negative, true)), "js");
        assert_eq!(insn(&[0x7b, 0]).question(), Some((Question::Odd, false)), "jnp");
        assert_eq!(insn(&[0x74, 0]).condition(), Some(4), "je");
        assert_eq!(insn(&[0x0f, 0x85, 0, 0, 0, 0]).condition(), Some(5), "jne");
        assert_eq!(insn(&[0xe3, 0]).condition(), None);
        assert_eq!(insn(&[0xeb, 0]).question(), None);
        assert_eq!(insn(&[0xe3, 0]).question(), None, "jrcxz asks no flag");
    }

    #[test]
    fn comparisons() {
        assert_eq!(insn(&[0x48, 0x85, 0xc0]).compares(), Some(Against::Zero(8)), "test rax, rax");
        assert_eq!(insn(&[0x80, 0x3f, 0]).compares(), Some(Against::Zero(1)), "cmp byte ptr [rdi], 0");
        assert_eq!(insn(&[0x83, 0xf8, 0xff]).compares(), Some(Against::Constant), "cmp eax, -1");
        assert_eq!(insn(&[0x85, 0xc8]).compares(), Some(Against::Mask), "test eax, ecx");
        assert_eq!(insn(&[0xa8, 4]).compares(), Some(Against::Mask), "test al, 4");
        assert_eq!(insn(&[0x39, 0xc8]).compares(), Some(Against::Value), "cmp eax, ecx");
        assert_eq!(insn(&[0x01, 0xc8]).compares(), Some(Against::Nothing), "add eax, ecx");
        assert_eq!(insn(&[0x89, 0xc8]).compares(), None, "mov eax, ecx");
    }

    #[test]
    fn results() {
        assert_eq!(insn(&[0x31, 0xc0]).result_constant(), Some(0), "xor eax, eax");
        assert_eq!(insn(&[0xb8, 0xea, 0xff, 0xff, 0xff]).result_constant(), Some(-22), "mov eax, -22");
        assert_eq!(insn(&[0x83, 0xc8, 0xff]).result_constant(), Some(-1), "or eax, -1");
        assert_eq!(insn(&[0x48, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff]).result_constant(), Some(-1));
        assert_eq!(insn(&[0x31, 0xc9]).result_constant(), None, "xor ecx, ecx");
        assert_eq!(insn(&[0x89, 0xc8]).result_constant(), None, "mov eax, ecx");
    }

    #[test]
    fn loads() {
        assert!(insn(&[0x8b, 0x07]).loads(), "mov eax, [rdi]");
        assert!(insn(&[0x0f, 0xb6, 0x07]).loads(), "movzx eax, byte ptr [rdi]");
        assert!(!insn(&[0x89, 0x07]).loads(), "mov [rdi], eax");
        assert!(!insn(&[0x8b, 0x44, 0x24, 8]).loads(), "a spilled register is no data");
    }
}
