//! What branches ask, so that those which ask the same can be told wherever they are.
//!
//! Compared are an operation, its constants and the fields of structures it looks at, whatever the registers: `cmp byte ptr [rdi+8], 5`
//! and `cmp byte ptr [rbx+8], 5` ask the same.

use crate::levels::mix;
use relive_code::addr::LinkAddr;
use relive_code::isa::{Decode, Insn, Operand, RegisterClass};
use relive_profile::model::Function;

/// What a branch asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The same number for the same question.
    pub asks: u64,
    /// It is taken if the answer is no: another branch that asks the same may be taken if it is yes.
    pub is_opposite: bool,
}

/// What a block of a function asks in the end, if it ends with a branch.
#[must_use]
pub fn of(function: &Function, block: u32) -> Option<Question> {
    let block = function.blocks.get(block as usize)?;
    asked_by(function.bytes_at(block.address, block.size.into())?, LinkAddr(block.address))
}

fn asked_by(bytes: &[u8], at: LinkAddr) -> Option<Question> {
    let (mut last, mut compare) = (None, None);
    for insn in Decode::new(bytes, at) {
        if insn.compares().is_some() {
            compare = Some(insn);
        }
        last = Some(insn);
    }
    let condition = last?.condition()?;
    Some(Question { asks: mix(said(&compare?), u64::from(condition >> 1)), is_opposite: condition & 1 == 1 })
}

/// An operation with what does not depend on where it is: no registers, no slots of the stack, no addresses.
fn said(insn: &Insn) -> u64 {
    let mut said = u64::from(insn.group());
    for operand in insn.operands() {
        said = match operand {
            Operand::Register(name) => mix(mix(said, 1), name.width.into()),
            Operand::Immediate(value) => mix(mix(said, 2), value.cast_unsigned()),
            Operand::Memory(memory) => {
                let in_frame = memory
                    .base
                    .is_some_and(|base| base.class == RegisterClass::General && base.number == STACK_POINTER);
                let place = match (memory.fixed, in_frame) {
                    (true, _) => u64::MAX,
                    (_, true) => u64::MAX - 1,
                    _ => memory.displacement.cast_unsigned(),
                };
                mix(mix(mix(said, 3), memory.width.into()), place)
            }
            Operand::Target(_) => mix(said, 4),
        };
    }
    said
}

const STACK_POINTER: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn question(bytes: &[u8]) -> Option<Question> {
        asked_by(bytes, LinkAddr(0x1000))
    }

    #[test]
    fn registers_do_not_matter_and_fields_do() {
        // cmp byte ptr [rdi + 8], 5; je
        let one = question(&[0x80, 0x7f, 8, 5, 0x74, 0x10]).expect("a branch");
        // cmp byte ptr [rbx + 8], 5; jne
        let opposite = question(&[0x80, 0x7b, 8, 5, 0x75, 0x20]).expect("a branch");
        assert_eq!(one.asks, opposite.asks);
        assert!(!one.is_opposite && opposite.is_opposite);
        // cmp byte ptr [rdi + 9], 5; je; and with 6
        assert_ne!(question(&[0x80, 0x7f, 9, 5, 0x74, 0x10]).expect("a branch").asks, one.asks);
        assert_ne!(question(&[0x80, 0x7f, 8, 6, 0x74, 0x10]).expect("a branch").asks, one.asks);
        // jmp, and a branch whose comparison is elsewhere
        assert_eq!(question(&[0xeb, 0x10]), None);
        assert_eq!(question(&[0x74, 0x10]), None);
    }
}
