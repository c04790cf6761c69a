//! Instructions that programs hardly ever use, and that do something else at another address, or where `gs` belongs to
//! somebody else.

use super::{Gpr, Insn};
use crate::addr::LinkAddr;
use iced_x86::{Code, Mnemonic, OpKind, Register};

/// What is special about an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rare {
    /// Its memory operand is relative to `gs`.
    Gs,
    /// The same, and the operand is the address in a register, which is not said.
    GsImplied(Gpr),
    /// `rdgsbase`; of the lower half only if it is not wide.
    ReadBase {
        /// Where to.
        to: Gpr,
        /// 64 bits.
        wide: bool,
    },
    /// `wrgsbase`.
    WriteBase {
        /// From where.
        from: Gpr,
        /// 64 bits.
        wide: bool,
    },
    /// The selector is read into a register.
    ReadSelector(Gpr),
    /// It is loaded from a register.
    LoadSelector(Gpr),
    /// Another way to use `gs`: loaded from memory or the stack, or by a gathering instruction.
    OtherGs,
    /// Its memory operand has this address, which it finds by the lower half of the program counter.
    LowRelative(u32),
    /// A transaction begins; if it cannot be, execution goes on there.
    Transaction(LinkAddr),
    /// `retf`, which drops so many bytes more.
    FarReturn {
        /// An address and a selector have eight bytes each, otherwise four.
        wide: bool,
        /// Bytes to drop.
        drop: u16,
    },
    /// `iretq`.
    InterruptReturn,
    /// Another jump or call to a selector and an address.
    Far,
    /// Calls the kernel as 32-bit programs do.
    Call32,
}

impl Insn {
    /// What is special about it; for most instructions nothing.
    #[must_use]
    pub fn rare(&self) -> Option<Rare> {
        let raw = &self.raw;
        let gpr = |i: u32| Gpr::all().nth(raw.op_register(i).full_register().number());
        match raw.code() {
            Code::Rdgsbase_r32 | Code::Rdgsbase_r64 => {
                Some(Rare::ReadBase { to: gpr(0)?, wide: raw.code() == Code::Rdgsbase_r64 })
            }
            Code::Wrgsbase_r32 | Code::Wrgsbase_r64 => {
                Some(Rare::WriteBase { from: gpr(0)?, wide: raw.code() == Code::Wrgsbase_r64 })
            }
            Code::Retfw | Code::Retfw_imm16 => Some(Rare::Far),
            Code::Retfd => Some(Rare::FarReturn { wide: false, drop: 0 }),
            Code::Retfq => Some(Rare::FarReturn { wide: true, drop: 0 }),
            Code::Retfd_imm16 => Some(Rare::FarReturn { wide: false, drop: raw.immediate16() }),
            Code::Retfq_imm16 => Some(Rare::FarReturn { wide: true, drop: raw.immediate16() }),
            Code::Iretq => Some(Rare::InterruptReturn),
            Code::Iretd | Code::Iretw => Some(Rare::Far),
            Code::Xbegin_rel32 | Code::Xbegin_rel16 => {
                Some(Rare::Transaction(LinkAddr(raw.near_branch_target())))
            }
            Code::Int_imm8 if raw.immediate8() == 0x80 => Some(Rare::Call32),
            _ => match raw.mnemonic() {
                Mnemonic::Mov if raw.op0_register() == Register::GS && raw.op0_kind() == OpKind::Register => {
                    Some(if raw.op1_kind() == OpKind::Register {
                        Rare::LoadSelector(gpr(1)?)
                    } else {
                        Rare::OtherGs
                    })
                }
                Mnemonic::Mov if raw.op1_register() == Register::GS && raw.op1_kind() == OpKind::Register => {
                    Some(if raw.op0_kind() == OpKind::Register {
                        Rare::ReadSelector(gpr(0)?)
                    } else {
                        Rare::OtherGs
                    })
                }
                Mnemonic::Pop if raw.op0_register() == Register::GS => Some(Rare::OtherGs),
                Mnemonic::Lgs => Some(Rare::OtherGs),
                Mnemonic::Jmp | Mnemonic::Call if raw.is_jmp_far_indirect() || raw.is_call_far_indirect() => {
                    Some(Rare::Far)
                }
                _ if raw.segment_prefix() == Register::GS => self.through_gs(),
                _ if raw.memory_base() == Register::EIP => {
                    Some(Rare::LowRelative(raw.ip_rel_memory_address() as u32))
                }
                _ => None,
            },
        }
    }

    fn through_gs(&self) -> Option<Rare> {
        let raw = &self.raw;
        if self.is_lea() {
            return None;
        }
        (0..raw.op_count()).find_map(|i| match raw.op_kind(i) {
            OpKind::Memory if raw.mnemonic() == Mnemonic::Xlatb => Some(Rare::GsImplied(Gpr::RBX)),
            OpKind::Memory if raw.is_vsib() => Some(Rare::OtherGs),
            OpKind::Memory => Some(Rare::Gs),
            OpKind::MemorySegRSI => Some(Rare::GsImplied(Gpr::RSI)),
            OpKind::MemorySegRDI => Some(Rare::GsImplied(Gpr::RDI)),
            OpKind::MemorySegESI | OpKind::MemorySegEDI | OpKind::MemorySegSI | OpKind::MemorySegDI => {
                Some(Rare::OtherGs)
            }
            _ => None,
        })
    }
}

/// Where an instruction's bytes say what memory it means: a byte with a register in it, and what belongs to that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperandField {
    /// The first byte of the instruction that is not a prefix of the old kind.
    pub opcode: usize,
    /// The byte.
    pub start: usize,
    /// Behind its displacement.
    pub end: usize,
}

impl OperandField {
    /// Finds it in an instruction that has one, other than those with an absolute address of eight bytes.
    #[must_use]
    pub fn find(bytes: &[u8]) -> Option<Self> {
        let opcode = bytes.iter().position(|&b| !is_prefix(b))?;
        let start = match *bytes.get(opcode)? {
            0xc5 => opcode + 3,
            0xc4 => opcode + 4,
            0x62 => opcode + 5,
            first => {
                let at = opcode + usize::from((0x40..0x50).contains(&first));
                match (bytes.get(at), bytes.get(at + 1)) {
                    (Some(0x0f), Some(0x38 | 0x3a)) => at + 3,
                    (Some(0x0f), _) => at + 2,
                    _ => at + 1,
                }
            }
        };
        let field = *bytes.get(start)?;
        let (kind, memory) = (field >> 6, field & 7);
        let mut end = start + 1;
        let mut has_base = true;
        if memory == 4 {
            has_base = *bytes.get(end)? & 7 != 5 || kind != 0;
            end += 1;
        }
        end += match kind {
            0 if memory == 5 || !has_base => 4,
            0 => 0,
            1 => 1,
            2 => 4,
            _ => return None,
        };
        (end <= bytes.len()).then_some(Self { opcode, start, end })
    }

    /// The instruction with another operand: memory at the address in a register that is one of the first eight, and
    /// neither the stack pointer nor `rbp`. Written to a buffer, of which the length is returned.
    #[must_use]
    pub fn through(self, bytes: &[u8], register: Gpr) -> ([u8; 16], usize) {
        let mut all = [0; 16];
        let mut len = 0;
        let mut put = |byte: u8| {
            all[len] = byte;
            len += 1;
        };
        // Neither a segment nor another size of addresses.
        bytes[..self.opcode].iter().filter(|&&b| !matches!(b, 0x65 | 0x67)).for_each(|&b| put(b));
        for (i, &byte) in bytes.iter().enumerate().take(self.start).skip(self.opcode) {
            let first = bytes[self.opcode];
            put(match i - self.opcode {
                0 if (0x40..0x50).contains(&byte) => byte & !3,
                1 if matches!(first, 0xc4 | 0x62) => byte | 0x60,
                _ => byte,
            });
        }
        put(bytes[self.start] & 0b0011_1000 | register.number() as u8);
        bytes[self.end..].iter().for_each(|&b| put(b));
        (all, len)
    }
}

fn is_prefix(byte: u8) -> bool {
    matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rare(bytes: &[u8]) -> Option<Rare> {
        Insn::decode(bytes, LinkAddr(0x1000)).expect("valid").rare()
    }

    #[test]
    fn kinds() {
        assert_eq!(rare(&[0x48, 0x89, 0xc3]), None);
        assert_eq!(rare(&[0x65, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0]), Some(Rare::Gs));
        assert_eq!(rare(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0]), None, "fs");
        assert_eq!(rare(&[0x65, 0x90]), None, "no memory");
        assert_eq!(rare(&[0x65, 0x48, 0x8d, 0x03]), None, "lea");
        assert_eq!(rare(&[0xf3, 0x65, 0xa4]), Some(Rare::GsImplied(Gpr::RSI)));
        assert_eq!(rare(&[0x65, 0xd7]), Some(Rare::GsImplied(Gpr::RBX)));
        assert_eq!(
            rare(&[0xf3, 0x4c, 0x0f, 0xae, 0xca]),
            Some(Rare::ReadBase { to: Gpr::RDX, wide: true }),
            "a register by its own number"
        );
        assert_eq!(rare(&[0xf3, 0x0f, 0xae, 0xd9]), Some(Rare::WriteBase { from: Gpr::RCX, wide: false }));
        assert_eq!(rare(&[0x8e, 0xe8]), Some(Rare::LoadSelector(Gpr::RAX)));
        assert_eq!(rare(&[0x8c, 0xe9]), Some(Rare::ReadSelector(Gpr::RCX)));
        assert_eq!(rare(&[0x8e, 0x28]), Some(Rare::OtherGs));
        assert_eq!(rare(&[0x0f, 0xa9]), Some(Rare::OtherGs));
        assert_eq!(rare(&[0xc7, 0xf8, 2, 0, 0, 0]), Some(Rare::Transaction(LinkAddr(0x1008))));
        assert_eq!(rare(&[0x67, 0x8b, 0x05, 0, 0, 0, 0]), Some(Rare::LowRelative(0x1007)));
        assert_eq!(rare(&[0x48, 0xcb]), Some(Rare::FarReturn { wide: true, drop: 0 }));
        assert_eq!(rare(&[0xca, 8, 0]), Some(Rare::FarReturn { wide: false, drop: 8 }));
        assert_eq!(rare(&[0x48, 0xcf]), Some(Rare::InterruptReturn));
        assert_eq!(rare(&[0xff, 0x28]), Some(Rare::Far));
        assert_eq!(rare(&[0xcd, 0x80]), Some(Rare::Call32));
        assert_eq!(rare(&[0xcd, 3]), None);
    }

    #[test]
    fn operands_are_replaced() {
        let through = |bytes: &[u8]| {
            let (all, len) = OperandField::find(bytes).expect("an operand").through(bytes, Gpr::RSI);
            let insn = Insn::decode(&all[..len], LinkAddr(0)).expect("valid");
            assert_eq!(insn.len() as usize, len);
            alloc::format!("{}", insn.text(crate::isa::Syntax::Intel))
        };
        assert_eq!(through(&[0x65, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0]), "mov rax, [rsi]");
        assert_eq!(through(&[0x65, 0x67, 0x44, 0x89, 0x7c, 0x8b, 0x10]), "mov [rsi], r15d");
        assert_eq!(through(&[0x65, 0x43, 0xc6, 0x84, 0xaf, 1, 2, 3, 4, 9]), "mov byte ptr [rsi], 9");
        assert_eq!(through(&[0x65, 0xc5, 0xfb, 0x10, 0x05, 0, 0, 0, 0]), "vmovsd xmm0, [rsi]");
        assert_eq!(through(&[0x65, 0xc4, 0xc2, 0x7d, 0x18, 0x47, 0x04]), "vbroadcastss ymm0, [rsi]");
        assert_eq!(through(&[0x65, 0x62, 0xd1, 0x7c, 0x48, 0x10, 0x47, 0x01]), "vmovups zmm0, [rsi]");
        assert_eq!(through(&[0xf0, 0x65, 0x0f, 0xc1, 0x45, 0x00]), "lock xadd [rsi], eax");
    }
}
