//! What a linker may make of an instruction.

use super::{Flow, Insn};
use iced_x86::OpKind;

impl Insn {
    /// Whether a linker leaves it alone. It fills in displacements and immediates of four and eight bytes, and puts other
    /// instructions in the place of some that have one: of loads of addresses that it knows (`mov foo@GOTPCREL(%rip), %rax`), and
    /// of what finds thread-local data, where also calls disappear and `nop`s fill the rest.
    #[must_use]
    pub fn is_final(&self) -> bool {
        let raw = &self.raw;
        let is_call = matches!(self.flow(), Flow::Call(_) | Flow::IndirectCall);
        let is_far = self.near_target().is_some()
            && !(raw.is_jcc_short()
                || raw.is_jmp_short()
                || raw.is_loop()
                || raw.is_loopcc()
                || raw.is_jcx_short());
        let has_wide_immediate = (0..raw.op_count()).any(|i| {
            matches!(raw.op_kind(i), OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64)
        });
        !(self.is_padding() || is_call || is_far || has_wide_immediate || raw.memory_displ_size() >= 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::LinkAddr;

    fn is_final(bytes: &[u8]) -> bool {
        Insn::decode(bytes, LinkAddr(0x1000)).expect("valid").is_final()
    }

    #[test]
    fn what_has_room_for_an_address_is_not_final() {
        for (bytes, text) in [
            (&[0x48, 0x8b, 0x05, 0, 0, 0, 0][..], "mov rax, [rip]"),
            (&[0x48, 0x8d, 0x05, 0, 0, 0, 0], "lea rax, [rip]"),
            (&[0x8b, 0x80, 0, 0, 0, 0], "mov eax, [rax+disp32]"),
            (&[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0], "mov rax, fs:0"),
            (&[0xa1, 0, 0, 0, 0, 0, 0, 0, 0], "mov eax, [moffs64]"),
            (&[0xb8, 0, 0, 0, 0], "mov eax, imm32"),
            (&[0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0], "mov rax, imm64"),
            (&[0x48, 0x05, 0, 0, 0, 0], "add rax, imm32"),
            (&[0x68, 0, 0, 0, 0], "push imm32"),
            (&[0xe9, 0, 0, 0, 0], "jmp rel32"),
            (&[0x0f, 0x84, 0, 0, 0, 0], "je rel32"),
            (&[0xc7, 0xf8, 0, 0, 0, 0], "xbegin"),
            (&[0xe8, 0, 0, 0, 0], "call"),
            (&[0xff, 0x10], "call [rax]"),
            (&[0x66, 0x90], "xchg ax, ax"),
            (&[0x0f, 0x1f, 0x40, 0], "nop [rax]"),
        ] {
            assert!(!is_final(bytes), "{text}");
        }
    }

    #[test]
    fn what_has_none_is_final() {
        for (bytes, text) in [
            (&[0x48, 0x89, 0xc8][..], "mov rax, rcx"),
            (&[0x8b, 0x40, 8], "mov eax, [rax+8]"),
            (&[0x66, 0xb8, 1, 2], "mov ax, imm16"),
            (&[0x83, 0xc0, 1], "add eax, 1"),
            (&[0xeb, 0], "jmp short"),
            (&[0x74, 0], "je short"),
            (&[0xe3, 0], "jrcxz"),
            (&[0xe2, 0], "loop"),
            (&[0xff, 0xe0], "jmp rax"),
            (&[0xc3], "ret"),
            (&[0xc8, 0, 1, 2], "enter"),
        ] {
            assert!(is_final(bytes), "{text}");
        }
    }
}
