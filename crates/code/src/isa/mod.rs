//! The x86-64 instruction set, as far as the rest of the project sees it.
//!
//! The decoder library stays behind this door: everyone else asks an [`Insn`] what it does to control
//! flow ([`Insn::flow`]), to registers and flags ([`EffectsReader`]), and how it reads ([`Insn::text`]).

mod accesses;
mod category;
mod compare;
mod effects;
mod knowledge;
mod linking;
mod moving;
mod operands;
mod rare;
mod regs;
mod replay;
mod same;
mod stride;
mod text;

pub use accesses::{Access, AccessKind, Accesses, Form, How, Mask, Place, Segment, Wide, signed_lane};
pub use category::Category;
pub use compare::{Against, Question};
pub use effects::{Effects, EffectsReader};
pub use knowledge::{Knowledge, Needed};
pub use moving::Tie;
pub use operands::{MemoryOperand, Operand, RegisterClass, RegisterName};
pub use rare::{OperandField, Rare};
pub use regs::{Flag, Gpr, RegSet};
pub use replay::{Binary, Operation, Part, Replayed, Set, Term, Unary};
pub use same::Verb;
pub use stride::Stride;
pub use text::{InsnText, Syntax};

use crate::addr::LinkAddr;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// One decoded instruction.
#[derive(Clone, Copy)]
pub struct Insn {
    pub(crate) raw: Instruction,
}

/// What an instruction does to the program counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Goes on with the next instruction.
    Next,
    /// Jumps, always, to a place written in the instruction.
    Jump(LinkAddr),
    /// Jumps or goes on.
    Branch(LinkAddr),
    /// Jumps to a computed place.
    IndirectJump,
    /// Calls a place written in the instruction.
    Call(LinkAddr),
    /// Calls a computed place.
    IndirectCall,
    /// Returns to the caller.
    Return,
    /// Never goes on: `ud2`, `hlt`.
    Stop,
}

impl Flow {
    /// Whether control does not simply go on with the next instruction, or not always.
    #[must_use]
    pub fn ends_straight_code(self) -> bool {
        self != Self::Next
    }
}

impl Default for Insn {
    /// Not a valid one.
    fn default() -> Self {
        Self { raw: Instruction::default() }
    }
}

impl Insn {
    /// Decodes the instruction at the start of `bytes`; `None` where there is no valid one.
    #[must_use]
    pub fn decode(bytes: &[u8], at: LinkAddr) -> Option<Self> {
        Decode::new(bytes, at).next()
    }

    /// The place it calls, if that is written in it. `call next` only reads the program counter.
    #[must_use]
    pub fn call_target(&self) -> Option<LinkAddr> {
        match self.flow() {
            Flow::Call(to) if to != self.next_addr() => Some(to),
            _ => None,
        }
    }

    /// Where it lies.
    #[must_use]
    pub fn addr(&self) -> LinkAddr {
        LinkAddr(self.raw.ip())
    }

    /// Its length in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.raw.len() as u64
    }

    /// The address of the instruction behind it.
    #[must_use]
    pub fn next_addr(&self) -> LinkAddr {
        LinkAddr(self.raw.next_ip())
    }

    /// What it does to the program counter.
    #[must_use]
    pub fn flow(&self) -> Flow {
        match self.raw.flow_control() {
            FlowControl::Next => match self.raw.code() {
                // Privileged: a user program that reaches it dies.
                Code::Hlt => Flow::Stop,
                _ => Flow::Next,
            },
            FlowControl::UnconditionalBranch => match self.near_target() {
                Some(target) => Flow::Jump(target),
                None => Flow::IndirectJump,
            },
            FlowControl::IndirectBranch => Flow::IndirectJump,
            // A transaction begins here and, when it aborts, resumes at the target.
            FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => match self.near_target() {
                Some(target) => Flow::Branch(target),
                None => Flow::Next,
            },
            FlowControl::Return => Flow::Return,
            FlowControl::Call => match (self.near_target(), self.raw.mnemonic()) {
                (Some(target), _) => Flow::Call(target),
                (None, Mnemonic::Call) => Flow::IndirectCall,
                // `syscall` and friends come back by themselves.
                (None, _) => Flow::Next,
            },
            FlowControl::IndirectCall => Flow::IndirectCall,
            // `int3` and `int n` come back from their handler; only undefined opcodes do not.
            FlowControl::Interrupt => Flow::Next,
            FlowControl::Exception => Flow::Stop,
        }
    }

    fn near_target(&self) -> Option<LinkAddr> {
        matches!(self.raw.op0_kind(), OpKind::NearBranch64 | OpKind::NearBranch32 | OpKind::NearBranch16)
            .then(|| LinkAddr(self.raw.near_branch_target()))
    }

    /// Whether it does nothing and is there to fill space: any `nop`, `int3`, `xchg ax,ax`,
    /// `lea rsi,[rsi+0]` and the like.
    #[must_use]
    pub fn is_padding(&self) -> bool {
        match self.raw.mnemonic() {
            Mnemonic::Nop | Mnemonic::Fnop | Mnemonic::Int3 => true,
            Mnemonic::Xchg => {
                self.raw.op0_kind() == OpKind::Register
                    && self.raw.op1_kind() == OpKind::Register
                    && self.raw.op0_register() == self.raw.op1_register()
                    // `xchg eax,eax` in its long form clears the upper half.
                    && !self.raw.op0_register().is_gpr32()
            }
            Mnemonic::Lea | Mnemonic::Mov => {
                let to = self.raw.op0_register();
                to.is_gpr64()
                    && match self.raw.op1_kind() {
                        OpKind::Register => self.raw.op1_register() == to,
                        OpKind::Memory => {
                            self.raw.mnemonic() == Mnemonic::Lea
                                && self.raw.memory_base() == to
                                && self.raw.memory_index() == Register::None
                                && self.raw.memory_displacement64() == 0
                        }
                        _ => false,
                    }
            }
            _ => false,
        }
    }

    /// Whether only the kernel may execute it.
    #[must_use]
    pub fn is_privileged(&self) -> bool {
        self.raw.is_privileged() && self.raw.code() != Code::Hlt
    }

    /// Whether it is the one-byte breakpoint.
    #[must_use]
    pub fn is_breakpoint(&self) -> bool {
        self.raw.code() == Code::Int3
    }

    /// Whether it marks a place indirect branches may land on (`endbr64`).
    #[must_use]
    pub fn is_landing_mark(&self) -> bool {
        self.raw.code() == Code::Endbr64
    }

    /// Whether it is an indirect jump with the `notrack` prefix: compilers put it on jumps through
    /// tables of their own making and never on tail calls.
    #[must_use]
    pub fn is_notrack(&self) -> bool {
        matches!(self.flow(), Flow::IndirectJump) && self.raw.segment_prefix() == Register::DS
    }

    /// The address its memory operand names, if that is fixed: relative to the instruction, or absolute.
    #[must_use]
    pub fn fixed_memory_operand(&self) -> Option<LinkAddr> {
        if self.raw.is_ip_rel_memory_operand() {
            return Some(LinkAddr(self.raw.ip_rel_memory_address()));
        }
        let has_memory = (0..self.raw.op_count()).any(|i| self.raw.op_kind(i) == OpKind::Memory);
        let plain = self.raw.memory_base() == Register::None && self.raw.memory_index() == Register::None;
        let thread_local = matches!(self.raw.memory_segment(), Register::FS | Register::GS);
        (has_memory && plain && !thread_local).then(|| LinkAddr(self.raw.memory_displacement64()))
    }

    /// Every number in the instruction that could be an address: what a memory operand relative to the
    /// instruction names and, if the code is `absolute`, displacements and immediates of four bytes and more.
    pub fn address_constants(&self, absolute: bool) -> impl Iterator<Item = LinkAddr> + use<'_> {
        let has_memory = (0..self.raw.op_count()).any(|i| self.raw.op_kind(i) == OpKind::Memory);
        let displacement = match (has_memory, self.raw.is_ip_rel_memory_operand()) {
            (true, true) => Some(self.raw.ip_rel_memory_address()),
            (true, false) if absolute => Some(self.raw.memory_displacement64()),
            _ => None,
        };
        let immediates = (0..self.raw.op_count()).filter_map(move |i| match self.raw.op_kind(i) {
            OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64 if absolute => {
                Some(self.raw.immediate(i))
            }
            _ => None,
        });
        displacement.into_iter().chain(immediates).map(LinkAddr)
    }

    /// Whether an instruction among `bytes` may name a place relative to itself: what needs no decoding to be told.
    #[must_use]
    pub fn may_hold_relative_operand(bytes: &[u8]) -> bool {
        // The byte that says which operands there are, followed by a distance.
        bytes.len() > 4 && bytes[..bytes.len() - 4].iter().any(|byte| byte & 0xc7 == 0x05)
    }

    /// Whether it computes the address of its memory operand without touching memory (`lea`).
    #[must_use]
    pub fn is_lea(&self) -> bool {
        self.raw.mnemonic() == Mnemonic::Lea
    }
}

/// Decodes one instruction after the other; ends at the first byte that starts no valid one.
pub struct Decode<'a> {
    inner: Decoder<'a>,
}

impl<'a> Decode<'a> {
    /// Decodes `bytes`, which lie at `at`.
    #[must_use]
    pub fn new(bytes: &'a [u8], at: LinkAddr) -> Self {
        Self { inner: Decoder::with_ip(64, bytes, at.0, DecoderOptions::NONE) }
    }

    /// The next instruction, straight to where it is to be. Whether there is one.
    pub fn next_into(&mut self, insn: &mut Insn) -> bool {
        if !self.inner.can_decode() {
            return false;
        }
        self.inner.decode_out(&mut insn.raw);
        !insn.raw.is_invalid()
    }
}

impl Iterator for Decode<'_> {
    type Item = Insn;

    fn next(&mut self) -> Option<Insn> {
        let mut insn = Insn::default();
        self.next_into(&mut insn).then_some(insn)
    }
}

/// How many bytes at the start of `bytes` are fill: instructions without effect, and zeros.
#[must_use]
pub fn fill_len(bytes: &[u8], at: LinkAddr) -> usize {
    let mut len = 0;
    loop {
        let rest = &bytes[len..];
        let zeros = rest.iter().take_while(|&&b| b == 0).count();
        // A single zero byte begins an instruction as often as not, unless nothing comes behind it.
        if zeros >= 2 || zeros == rest.len() {
            len += zeros;
            if len == bytes.len() {
                return len;
            }
            continue;
        }
        match Insn::decode(rest, at.offset(len as u64)).filter(Insn::is_padding) {
            Some(insn) => len += insn.len() as usize,
            None => return len,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insn(bytes: &[u8]) -> Insn {
        Insn::decode(bytes, LinkAddr(0x1000)).expect("valid")
    }

    #[test]
    fn flow_of_every_kind() {
        assert_eq!(insn(&[0x90]).flow(), Flow::Next);
        assert_eq!(insn(&[0xeb, 0x10]).flow(), Flow::Jump(LinkAddr(0x1012)));
        assert_eq!(insn(&[0x74, 0xfe]).flow(), Flow::Branch(LinkAddr(0x1000)));
        assert_eq!(insn(&[0xe3, 0x00]).flow(), Flow::Branch(LinkAddr(0x1002)));
        assert_eq!(insn(&[0xff, 0xe0]).flow(), Flow::IndirectJump);
        assert_eq!(insn(&[0xe8, 0, 0, 0, 0]).flow(), Flow::Call(LinkAddr(0x1005)));
        assert_eq!(insn(&[0xff, 0xd0]).flow(), Flow::IndirectCall);
        assert_eq!(insn(&[0xc3]).flow(), Flow::Return);
        assert_eq!(insn(&[0xf3, 0xc3]).flow(), Flow::Return);
        assert_eq!(insn(&[0x0f, 0x0b]).flow(), Flow::Stop);
        assert_eq!(insn(&[0xf4]).flow(), Flow::Stop);
        assert_eq!(insn(&[0x0f, 0x05]).flow(), Flow::Next);
        assert_eq!(insn(&[0xcd, 0x80]).flow(), Flow::Next);
        assert_eq!(insn(&[0xcc]).flow(), Flow::Next);
        assert_eq!(insn(&[0x0f, 0xb9, 0x40, 0x02]).flow(), Flow::Stop, "ud1, clang's trap");
        assert_eq!(insn(&[0xc7, 0xf8, 2, 0, 0, 0]).flow(), Flow::Branch(LinkAddr(0x1008)), "xbegin");
        assert_eq!(insn(&[0x0f, 0x01, 0xd5]).flow(), Flow::Next, "xend");
    }

    #[test]
    fn notrack_is_seen() {
        assert!(insn(&[0x3e, 0xff, 0xe0]).is_notrack());
        assert!(!insn(&[0xff, 0xe0]).is_notrack());
    }

    #[test]
    fn padding_is_seen() {
        for bytes in [
            &[0x90][..],
            &[0x66, 0x90],
            &[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
            &[0xcc],
            &[0x48, 0x8d, 0x76, 0],
        ] {
            assert!(insn(bytes).is_padding(), "{bytes:x?}");
        }
        assert!(!insn(&[0x48, 0x8d, 0x76, 1]).is_padding());
        assert!(!insn(&[0x87, 0xc0]).is_padding(), "xchg eax,eax in the long form clears the upper half");
    }

    #[test]
    fn fill_ends_where_code_begins() {
        let fill = |bytes: &[u8]| fill_len(bytes, LinkAddr(0x1000));
        assert_eq!(fill(&[0x90, 0x66, 0x90, 0xc3]), 3);
        assert_eq!(fill(&[0xcc, 0, 0, 0]), 4);
        assert_eq!(fill(&[0x90, 0]), 2, "a zero at the very end");
        assert_eq!(fill(&[0, 0x55]), 0, "add [rbp+…], dl may well be meant");
        assert_eq!(fill(&[]), 0);
    }

    #[test]
    fn fixed_operands() {
        assert_eq!(insn(&[0x48, 0x8d, 0x05, 0x10, 0, 0, 0]).fixed_memory_operand(), Some(LinkAddr(0x1017)));
        assert_eq!(insn(&[0x48, 0x8b, 0x00]).fixed_memory_operand(), None);
        assert_eq!(
            insn(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0]).fixed_memory_operand(),
            None,
            "a thread-local operand has no fixed address"
        );
    }

    #[test]
    fn no_relative_operand_is_overlooked() {
        for bytes in
            [&[0x48, 0x8d, 0x05, 0x10, 0, 0, 0][..], &[0xff, 0x25, 0, 0, 0, 0], &[0x8b, 0x3d, 0, 0, 0, 0]]
        {
            assert!(insn(bytes).fixed_memory_operand().is_some());
            assert!(Insn::may_hold_relative_operand(bytes));
        }
        assert!(!Insn::may_hold_relative_operand(&[0x48, 0x8b, 0x00, 0x90, 0x05, 0, 0]));
    }

    #[test]
    fn garbage_ends_decoding() {
        assert!(Insn::decode(&[0x06], LinkAddr(0)).is_none());
        assert!(Insn::decode(&[0xe8, 0], LinkAddr(0)).is_none());
        assert!(Insn::decode(&[], LinkAddr(0)).is_none());
    }
}
