//! Instructions that move a register on by a constant.

use super::{Gpr, Insn};
use iced_x86::{Mnemonic, OpKind, Register};

/// A register that changes by a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stride {
    /// The register.
    pub register: Gpr,
    /// What is added to it.
    pub by: i64,
    /// Whether all of it changes so; otherwise the lower half does, and the upper half becomes zero.
    pub wide: bool,
}

impl Insn {
    /// The register it adds a constant to, if that is what it does to registers.
    #[must_use]
    pub fn stride(&self) -> Option<Stride> {
        let raw = &self.raw;
        if raw.mnemonic() == Mnemonic::Loop {
            return Some(Stride {
                register: Gpr::RCX,
                by: -1,
                wide: raw.code() == iced_x86::Code::Loop_rel8_64_RCX,
            });
        }
        if raw.op_count() == 0 || raw.op0_kind() != OpKind::Register {
            return None;
        }
        let to = raw.op0_register();
        if !to.is_gpr32() && !to.is_gpr64() {
            return None;
        }
        let constant = |i| match raw.op_kind(i) {
            OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
            | OpKind::Immediate32 => Some(i64::from(raw.immediate(i) as i32)),
            _ => None,
        };
        let by = match raw.mnemonic() {
            Mnemonic::Inc => 1,
            Mnemonic::Dec => -1,
            Mnemonic::Add => constant(1)?,
            Mnemonic::Sub => -constant(1)?,
            Mnemonic::Lea
                if raw.memory_base() == to.full_register() && raw.memory_index() == Register::None =>
            {
                raw.memory_displacement64().cast_signed()
            }
            _ => return None,
        };
        Some(Stride { register: Gpr::holding(to)?, by, wide: to.is_gpr64() })
    }

    /// The register it loads from where the register itself points to: a step along a list.
    #[must_use]
    pub fn follows(&self) -> Option<Gpr> {
        let raw = &self.raw;
        let is_load = raw.mnemonic() == Mnemonic::Mov && raw.op1_kind() == OpKind::Memory;
        let to = if is_load { raw.op0_register() } else { return None };
        (to.is_gpr64() && raw.memory_base() == to).then(|| Gpr::holding(to)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::LinkAddr;

    fn stride(bytes: &[u8]) -> Option<Stride> {
        Insn::decode(bytes, LinkAddr(0x1000)).expect("valid").stride()
    }

    #[test]
    fn constants_are_added() {
        let wide = |register, by| Some(Stride { register, by, wide: true });
        let half = |register, by| Some(Stride { register, by, wide: false });
        assert_eq!(stride(&[0x48, 0x83, 0xc0, 8]), wide(Gpr::RAX, 8), "add rax, 8");
        assert_eq!(stride(&[0x48, 0x83, 0xc0, 0xf8]), wide(Gpr::RAX, -8), "add rax, -8");
        assert_eq!(stride(&[0x48, 0x81, 0xe9, 0, 1, 0, 0]), wide(Gpr::RCX, -256), "sub rcx, 256");
        assert_eq!(stride(&[0x83, 0xe9, 1]), half(Gpr::RCX, -1), "sub ecx, 1");
        assert_eq!(stride(&[0x49, 0xff, 0xc4]), wide(Gpr::R12, 1), "inc r12");
        assert_eq!(stride(&[0xff, 0xc8]), half(Gpr::RAX, -1), "dec eax");
        assert_eq!(stride(&[0x48, 0x8d, 0x76, 0xfc]), wide(Gpr::RSI, -4), "lea rsi, [rsi - 4]");
        assert_eq!(stride(&[0x8d, 0x76, 4]), half(Gpr::RSI, 4), "lea esi, [rsi + 4]");
        assert_eq!(stride(&[0xe2, 0xfe]), wide(Gpr::RCX, -1), "loop");
    }

    #[test]
    fn lists_are_followed() {
        let follows = |bytes: &[u8]| Insn::decode(bytes, LinkAddr(0x1000)).expect("valid").follows();
        assert_eq!(follows(&[0x48, 0x8b, 0]), Some(Gpr::RAX), "mov rax, [rax]");
        assert_eq!(follows(&[0x4d, 0x8b, 0x49, 8]), Some(Gpr::R9), "mov r9, [r9 + 8]");
        assert_eq!(follows(&[0x48, 0x8b, 3]), None, "mov rax, [rbx]");
        assert_eq!(follows(&[0x48, 0x89, 0]), None, "mov [rax], rax");
        assert_eq!(follows(&[0x48, 3, 0]), None, "add rax, [rax]");
    }

    #[test]
    fn nothing_else_is_a_stride() {
        assert_eq!(stride(&[0x48, 0x8d, 0x77, 4]), None, "lea rsi, [rdi + 4]");
        assert_eq!(stride(&[0x48, 0x8d, 0x74, 0x36, 4]), None, "lea rsi, [rsi + rsi + 4]");
        assert_eq!(stride(&[0x66, 0x83, 0xc0, 8]), None, "add ax, 8");
        assert_eq!(stride(&[0x48, 0x83, 0, 8]), None, "add qword ptr [rax], 8");
        assert_eq!(stride(&[0x48, 1, 0xc8]), None, "add rax, rcx");
        assert_eq!(stride(&[0x48, 0x83, 0xd0, 8]), None, "adc rax, 8");
    }
}
