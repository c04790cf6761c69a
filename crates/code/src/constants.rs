//! Which registers hold a constant at the start of each block.
//!
//! A small, fast relative of [`crate::values`]: compilers compute the address of a jump table once, in
//! front of a loop, and this finds it again inside the loop, in functions of any size.

use crate::cfg::{Block, BlockId, Edge, Target};
use crate::isa::{Decode, EffectsReader, Gpr, Insn};
use crate::source::CodeSource;
use alloc::vec;
use alloc::vec::Vec;
use iced_x86::{Mnemonic, OpKind, Register};

/// What is known of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// No way leads here, so far.
    Unreached,
    /// Always this.
    Constant(u64),
    /// Different things, or nobody knows.
    Varies,
}

impl Known {
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unreached, x) | (x, Self::Unreached) => x,
            (a, b) if a == b => a,
            _ => Self::Varies,
        }
    }
}

/// What a block does to a register.
#[derive(Clone, Copy)]
enum Effect {
    /// Afterwards it holds what that register held before the block.
    Is(u8),
    /// Afterwards it holds a constant.
    Constant(u64),
    /// Afterwards it holds something else.
    Varies,
}

/// The constants in registers at the start of each block.
pub(crate) struct Constants {
    at_start: Vec<[Known; 16]>,
}

impl Constants {
    /// Follows constants through the blocks; `edges` are sorted by the block they leave.
    pub(crate) fn new<S: CodeSource + ?Sized>(
        source: &S,
        blocks: &[Block],
        edges: &[Edge],
        entries: &[BlockId],
    ) -> Self {
        let mut reader = EffectsReader::new();
        let effects: Vec<[Effect; 16]> =
            blocks.iter().map(|block| summary(source, block, &mut reader)).collect();
        let mut first_edge = vec![0usize; blocks.len() + 1];
        let mut entered = vec![false; blocks.len()];
        for edge in edges {
            first_edge[edge.from.index() + 1] += 1;
            if let Target::Block(to) = edge.to {
                entered[to.index()] = true;
            }
        }
        for i in 0..blocks.len() {
            first_edge[i + 1] += first_edge[i];
        }
        let mut at_start = vec![[Known::Unreached; 16]; blocks.len()];
        let mut work: Vec<u32> = Vec::new();
        for block in 0..blocks.len() as u32 {
            if !entered[block as usize] || entries.contains(&BlockId(block)) {
                at_start[block as usize] = [Known::Varies; 16];
                work.push(block);
            }
        }
        // Each register of each block changes at most twice, so this ends.
        while let Some(block) = work.pop() {
            let before = at_start[block as usize];
            let after: [Known; 16] = core::array::from_fn(|r| match effects[block as usize][r] {
                Effect::Is(from) => before[usize::from(from)],
                Effect::Constant(value) => Known::Constant(value),
                Effect::Varies => Known::Varies,
            });
            for edge in &edges[first_edge[block as usize]..first_edge[block as usize + 1]] {
                let Target::Block(to) = edge.to else { continue };
                // Dead code has nothing to say to code that runs.
                if blocks[to.index()].reached && !blocks[block as usize].reached {
                    continue;
                }
                let merged: [Known; 16] = core::array::from_fn(|r| at_start[to.index()][r].or(after[r]));
                if merged != at_start[to.index()] {
                    at_start[to.index()] = merged;
                    work.push(to.0);
                }
            }
        }
        Self { at_start }
    }

    /// The registers that hold a constant at the start of `block`, and which.
    pub(crate) fn at(&self, block: BlockId) -> impl Iterator<Item = (usize, u64)> {
        self.at_start[block.index()].iter().enumerate().filter_map(|(register, known)| match known {
            Known::Constant(value) => Some((register, *value)),
            _ => None,
        })
    }
}

fn summary<S: CodeSource + ?Sized>(source: &S, block: &Block, reader: &mut EffectsReader) -> [Effect; 16] {
    let mut effects: [Effect; 16] = core::array::from_fn(|r| Effect::Is(r as u8));
    let bytes = source.bytes(block.start);
    let bytes = &bytes[..bytes.len().min(block.len as usize)];
    for insn in Decode::new(bytes, block.start) {
        step(&mut effects, &insn, reader);
    }
    effects
}

fn step(effects: &mut [Effect; 16], insn: &Insn, reader: &mut EffectsReader) {
    let raw = &insn.raw;
    let to = match raw.op0_kind() {
        OpKind::Register if raw.op0_register().size() >= 4 => Gpr::holding(raw.op0_register()),
        _ => None,
    };
    let full = raw.op0_register().is_gpr64();
    match (raw.mnemonic(), to) {
        (Mnemonic::Lea, Some(to)) if raw.is_ip_rel_memory_operand() && full => {
            effects[to.number()] = Effect::Constant(raw.ip_rel_memory_address());
        }
        (Mnemonic::Mov, Some(to)) => {
            effects[to.number()] = match raw.op1_kind() {
                OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64 => {
                    Effect::Constant(raw.immediate(1))
                }
                OpKind::Register if full => match Gpr::holding(raw.op1_register()) {
                    Some(from) => effects[from.number()],
                    None => Effect::Varies,
                },
                _ => Effect::Varies,
            };
        }
        (Mnemonic::Call, _) => {
            // As in `values`: nobody reads what else a callee changes.
            for result in [Register::RAX, Register::RDX] {
                if let Some(result) = Gpr::holding(result) {
                    effects[result.number()] = Effect::Varies;
                }
            }
        }
        // The plain ones need no closer look: they write what they name first, if they write at all.
        (Mnemonic::Cmp | Mnemonic::Test, _) => {}
        (
            Mnemonic::Lea
            | Mnemonic::Movzx
            | Mnemonic::Movsx
            | Mnemonic::Movsxd
            | Mnemonic::Add
            | Mnemonic::Sub
            | Mnemonic::And
            | Mnemonic::Or
            | Mnemonic::Xor
            | Mnemonic::Inc
            | Mnemonic::Dec,
            _,
        ) => {
            if raw.op0_kind() == OpKind::Register
                && let Some(to) = Gpr::holding(raw.op0_register())
            {
                effects[to.number()] = Effect::Varies;
            }
        }
        _ => {
            for gpr in reader.effects(insn).writes.gprs() {
                effects[gpr.number()] = Effect::Varies;
            }
        }
    }
}
