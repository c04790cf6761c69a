//! What has to change in an instruction when it moves to another address.

use super::{Decode, Insn};
use crate::addr::LinkAddr;
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

/// How an instruction depends on where it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tie {
    /// Not at all: its bytes can be copied.
    Free,
    /// A memory operand: the four bytes at offset `field` are the distance from the end of the
    /// instruction to `target`.
    Operand {
        /// Offset of the distance in the instruction.
        field: usize,
        /// What it leads to.
        target: LinkAddr,
    },
    /// A jump.
    Jump(LinkAddr),
    /// A branch on a condition, numbered as in its opcode.
    Branch(u8, LinkAddr),
    /// A branch that exists only with a distance of one byte (`loop`, `jrcxz`): its bytes, without
    /// the distance, are at most two.
    ShortBranch(LinkAddr),
    /// A call.
    Call(LinkAddr),
    /// It cannot be moved: a transaction, or an address relative to the lower half of the program counter.
    Fixed,
}

impl Insn {
    /// How it depends on where it lies; `bytes` are its own.
    #[must_use]
    pub fn tie(&self, bytes: &[u8]) -> Tie {
        self.tie_with(|| {
            let mut decoder = Decoder::with_ip(64, bytes, self.raw.ip(), DecoderOptions::NONE);
            let mut again = Instruction::default();
            decoder.decode_out(&mut again);
            decoder.get_constant_offsets(&again).displacement_offset()
        })
    }

    fn tie_with(&self, field: impl FnOnce() -> usize) -> Tie {
        let near = self.near_target();
        match (self.raw.mnemonic(), near) {
            (Mnemonic::Jmp, Some(target)) => return Tie::Jump(target),
            (Mnemonic::Call, Some(target)) => return Tie::Call(target),
            (
                Mnemonic::Loop | Mnemonic::Loope | Mnemonic::Loopne | Mnemonic::Jrcxz | Mnemonic::Jecxz,
                Some(target),
            ) => {
                return Tie::ShortBranch(target);
            }
            (_, Some(target)) => {
                return self.condition().map_or(Tie::Fixed, |condition| Tie::Branch(condition, target));
            }
            (_, None) => {}
        }
        match self.raw.memory_base() {
            Register::RIP if self.raw.is_ip_rel_memory_operand() => {
                Tie::Operand { field: field(), target: LinkAddr(self.raw.ip_rel_memory_address()) }
            }
            Register::EIP => Tie::Fixed,
            _ => Tie::Free,
        }
    }

    /// Whether it calls the kernel.
    #[must_use]
    pub fn is_syscall(&self) -> bool {
        matches!(self.raw.code(), Code::Syscall | Code::Sysenter | Code::Int_imm8)
    }

    /// Whether an instruction among `bytes` may call the kernel: what needs no decoding to be told.
    #[must_use]
    pub fn may_hold_syscall(bytes: &[u8]) -> bool {
        bytes.windows(2).any(|pair| matches!(pair, [0x0f, 0x05 | 0x34] | [0xcd, _]))
    }

    /// Whether it calls the kernel in the way that overwrites `rcx` and `r11`.
    #[must_use]
    pub fn is_fast_syscall(&self) -> bool {
        self.raw.code() == Code::Syscall
    }

    /// Whether it reads or sets the `gs` base, or goes through it.
    #[must_use]
    pub fn uses_gs(&self) -> bool {
        let through = |i| self.raw.op_kind(i) == OpKind::Memory && self.raw.memory_segment() == Register::GS;
        (0..self.raw.op_count()).any(through)
            || matches!(
                self.raw.mnemonic(),
                Mnemonic::Rdgsbase | Mnemonic::Wrgsbase | Mnemonic::Swapgs | Mnemonic::Lgs
            )
    }

    /// Whether it reads or writes memory, other than the stack by `push` and the like.
    #[must_use]
    pub fn touches_memory(&self) -> bool {
        !self.is_lea() && (0..self.raw.op_count()).any(|i| self.raw.op_kind(i) == OpKind::Memory)
    }
}

impl Decode<'_> {
    /// How the last instruction that was decoded depends on where it lies.
    #[must_use]
    pub fn tie(&self, last: &Insn) -> Tie {
        last.tie_with(|| self.inner.get_constant_offsets(&last.raw).displacement_offset())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tie(bytes: &[u8]) -> Tie {
        let mut decode = Decode::new(bytes, LinkAddr(0x1000));
        let insn = decode.next().expect("valid");
        assert_eq!(decode.tie(&insn), insn.tie(bytes));
        insn.tie(bytes)
    }

    #[test]
    fn ties_of_every_kind() {
        assert_eq!(tie(&[0x48, 0x89, 0xc3]), Tie::Free);
        assert_eq!(tie(&[0xeb, 0x10]), Tie::Jump(LinkAddr(0x1012)));
        assert_eq!(tie(&[0x75, 0x00]), Tie::Branch(5, LinkAddr(0x1002)));
        assert_eq!(tie(&[0x0f, 0x8f, 0, 0, 0, 0]), Tie::Branch(15, LinkAddr(0x1006)));
        assert_eq!(tie(&[0xe3, 0x00]), Tie::ShortBranch(LinkAddr(0x1002)));
        assert_eq!(tie(&[0xe8, 0, 0, 0, 0]), Tie::Call(LinkAddr(0x1005)));
        assert_eq!(
            tie(&[0x48, 0x8d, 0x05, 0x10, 0, 0, 0]),
            Tie::Operand { field: 3, target: LinkAddr(0x1017) }
        );
        assert_eq!(
            tie(&[0xc7, 0x05, 0, 0, 0, 0, 1, 0, 0, 0]),
            Tie::Operand { field: 2, target: LinkAddr(0x100a) },
            "an immediate comes behind the distance"
        );
        assert_eq!(tie(&[0xff, 0x15, 0, 0, 0, 0]), Tie::Operand { field: 2, target: LinkAddr(0x1006) });
        assert_eq!(tie(&[0xff, 0xe0]), Tie::Free);
        assert_eq!(tie(&[0xc7, 0xf8, 2, 0, 0, 0]), Tie::Fixed, "xbegin");
        assert_eq!(tie(&[0x67, 0x8b, 0x05, 0, 0, 0, 0]), Tie::Fixed, "relative to eip");
    }

    #[test]
    fn gs_is_seen() {
        let uses = |bytes: &[u8]| Insn::decode(bytes, LinkAddr(0)).expect("valid").uses_gs();
        assert!(uses(&[0x65, 0x48, 0xff, 0x05, 0, 0, 0, 0]));
        assert!(!uses(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0]));
    }

    #[test]
    fn no_syscall_is_overlooked() {
        for bytes in [&[0x0f, 0x05][..], &[0x0f, 0x34], &[0xcd, 0x80], &[0x48, 0x0f, 0x05]] {
            assert!(Insn::decode(bytes, LinkAddr(0)).expect("valid").is_syscall());
            assert!(Insn::may_hold_syscall(bytes));
        }
        assert!(!Insn::may_hold_syscall(&[0x0f, 0x1f, 0x05, 0xcd]));
    }
}
