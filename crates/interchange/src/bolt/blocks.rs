//! The blocks of a function as BOLT finds and numbers them, by its own rules and from nothing but the code.
//!
//! All instructions of a function are looked at, those that nothing leads to as well. A block begins where something leads to (a jump of any
//! function, a case of a table, a handler of exceptions, a symbol) and behind each instruction that ends one, but for a jump behind a
//! conditional one, which belongs to its block. A branch to another function ends its block, and is a call of it.
//! See `BinaryFunction::disassemble` and `buildCFG` in LLVM's `bolt/lib/Core/BinaryFunction.cpp`.

use relive_code::addr::LinkAddr;
use relive_code::isa::{Decode, Flow, Insn};
use std::collections::BTreeSet;

/// Where the code of all functions leads to, by function: known before the blocks of any are.
#[derive(Default)]
pub(crate) struct Labels(BTreeSet<u64>);

impl Labels {
    /// Notes a place that something leads to.
    pub(crate) fn add(&mut self, address: u64) {
        self.0.insert(address);
    }

    /// Notes where jumps and branches of code lead to.
    pub(crate) fn add_jumps(&mut self, code: &[u8], start: u64) {
        for insn in Decode::new(code, LinkAddr(start)) {
            if let Flow::Jump(to) | Flow::Branch(to) = insn.flow() {
                self.add(to.0);
            }
        }
    }
}

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub(crate) start: u64,
    pub(crate) instructions: u32,
}

/// The blocks of a function.
pub(crate) struct Blocks {
    /// By number.
    pub(crate) numbered: Vec<Numbered>,
    /// The instructions that call.
    calls: BTreeSet<u64>,
}

impl Blocks {
    /// The blocks of the code that begins at `start`.
    pub(crate) fn new(code: &[u8], start: u64, labels: &Labels) -> Self {
        let end = start + code.len() as u64;
        let inside = |to: LinkAddr| (start..end).contains(&to.0);
        let mut blocks = Self { numbered: Vec::new(), calls: BTreeSet::new() };
        // The last instruction, if it ended a block.
        let mut ended: Option<Flow> = None;
        for insn in Decode::new(code, LinkAddr(start)) {
            let at = insn.addr().0;
            let is_label = at == start || labels.0.contains(&at);
            let begins = match ended {
                _ if is_label => true,
                Some(Flow::Branch(to)) if inside(to) => !matches!(insn.flow(), Flow::Jump(to) if inside(to)),
                ended => ended.is_some(),
            };
            if begins {
                blocks.numbered.push(Numbered { start: at, instructions: 0 });
            }
            if let Some(block) = blocks.numbered.last_mut() {
                block.instructions += 1;
            }
            match insn.flow() {
                Flow::Call(_) | Flow::IndirectCall => _ = blocks.calls.insert(at),
                _ => {}
            }
            ended = Some(insn.flow()).filter(|_| ends_block(&insn, code, start));
        }
        blocks
    }

    /// The block an instruction is in.
    pub(crate) fn around(&self, address: u64) -> Option<usize> {
        self.numbered.partition_point(|block| block.start <= address).checked_sub(1)
    }

    /// The block that begins at an address.
    pub(crate) fn at(&self, address: u64) -> Option<usize> {
        self.around(address).filter(|&number| self.numbered[number].start == address)
    }

    /// Whether the instruction there calls.
    pub(crate) fn calls(&self, address: u64) -> bool {
        self.calls.contains(&address)
    }
}

/// Whether BOLT takes an instruction for the last of its block: `hlt` it does not.
fn ends_block(insn: &Insn, code: &[u8], start: u64) -> bool {
    const HLT: u8 = 0xf4;
    match insn.flow() {
        Flow::Stop => code.get((insn.addr().0 - start) as usize) != Some(&HLT),
        Flow::Next | Flow::Call(_) | Flow::IndirectCall => false,
        Flow::Jump(_) | Flow::Branch(_) | Flow::IndirectJump | Flow::Return => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_bolt_numbers_them() {
        let code = [
            0x74, 0x06, // 1000 je 1008
            0xeb, 0x04, // 1002 jmp 1008: of the same block
            0xeb, 0x02, // 1004 jmp 1008: nothing leads here
            0x90, 0x90, // 1006 two more that nothing leads to
            0x0f, 0x84, 0xf2, 0x1f, 0, 0, // 1008 je 3000: another function
            0xe8, 0, 0, 0, 0,    // 100e call 1013
            0xf4, // 1013 hlt
            0xc3, // 1014 ret
        ];
        let mut labels = Labels::default();
        labels.add_jumps(&code, 0x1000);
        let blocks = Blocks::new(&code, 0x1000, &labels);
        let found: Vec<(u64, u32)> = blocks.numbered.iter().map(|b| (b.start, b.instructions)).collect();
        assert_eq!(found, [(0x1000, 2), (0x1004, 1), (0x1006, 2), (0x1008, 1), (0x100e, 3)]);
        assert_eq!((blocks.around(0x1002), blocks.at(0x1002), blocks.at(0x1008)), (Some(0), None, Some(3)));
        assert!(blocks.calls(0x100e) && !blocks.calls(0x1008));
    }
}
