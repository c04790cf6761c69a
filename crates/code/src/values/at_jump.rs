//! What is known where an indirect jump stands: from the blocks before it, from the whole function, or
//! along one path.

use super::Values;
use super::state::{State, refine};
use crate::cfg::{BlockId, EdgeKind, Target};
use crate::constants::Constants;
use crate::isa::{Decode, Insn};
use crate::source::Surroundings;
use alloc::vec;
use alloc::vec::Vec;
use iced_x86::Mnemonic;

impl<S: Surroundings + ?Sized> Values<'_, S> {
    /// What is known right before the last instruction of `block`.
    pub(crate) fn before_last(&mut self, block: BlockId) -> Option<State> {
        self.ensure_solved();
        let mut state = self.at_start[block.index()].clone()?;
        let last = self.flow.blocks[block.index()].last_insn();
        self.run_until(block.0, &mut state, last);
        Some(state)
    }

    /// What is known right before the last instruction of `block` from the few blocks that always run
    /// before it, whatever happened earlier. Most jumps need no more, and it costs next to nothing.
    pub(crate) fn before_last_locally(
        &mut self,
        block: BlockId,
        constants: Option<&Constants>,
    ) -> Option<State> {
        const BLOCKS_BACK: usize = 6;
        let mut path = vec![block];
        while path.len() <= BLOCKS_BACK {
            let first = path[path.len() - 1];
            match self.edges_into(first.0) {
                [only] if !self.is_entry(first.0) => {
                    let edge = self.flow.edges[*only as usize];
                    if edge.kind == EdgeKind::LandingPad || path.contains(&edge.from) {
                        break;
                    }
                    path.push(edge.from);
                }
                _ => break,
            }
        }
        let first = path.pop()?;
        path.reverse();
        let mut state = if self.is_entry(first.0) { self.entry_state() } else { self.unknown_state(first.0) };
        for (register, value) in constants.into_iter().flat_map(|c| c.at(first)) {
            state.regs[register] = self.exprs.constant(value);
        }
        if path.is_empty() {
            let last = self.flow.blocks[block.index()].last_insn();
            self.run_until(first.0, &mut state, last);
            return Some(state);
        }
        self.follow(first, state, &path)
    }

    /// What is known right before the last instruction of a path's last block, if control came along
    /// just that path of blocks, whose first has `from` among its predecessors.
    pub(crate) fn along(&mut self, from: BlockId, path: &[BlockId]) -> Option<State> {
        self.ensure_solved();
        let state = self.at_start[from.index()].clone()?;
        self.follow(from, state, path)
    }

    fn follow(&mut self, from: BlockId, mut state: State, path: &[BlockId]) -> Option<State> {
        let mut here = from;
        let mut condition = self.run_block(here.0, &mut state);
        for (i, &next) in path.iter().enumerate() {
            let kind = self.flow.edges_from(here.0).iter().find(|e| e.to == Target::Block(next))?.kind;
            refine(&mut state, kind, condition);
            let last = i + 1 == path.len();
            let until = if last {
                self.flow.blocks[next.index()].last_insn()
            } else {
                self.flow.blocks[next.index()].end_addr()
            };
            condition = self.run_until(next.0, &mut state, until);
            here = next;
        }
        Some(state)
    }

    /// The blocks that lead to `block`, each once.
    pub(crate) fn predecessors(&self, block: BlockId) -> Vec<BlockId> {
        let mut found: Vec<BlockId> =
            self.edges_into(block.0).iter().map(|&e| self.flow.edges[e as usize].from).collect();
        found.dedup();
        found
    }

    /// Whether `block` ends in `pop reg; jmp *reg`: a return in two steps, as unwinders do it.
    pub(crate) fn pops_target(&self, block: BlockId, jump: &Insn) -> bool {
        let block = self.flow.blocks[block.index()];
        let bytes = self.surroundings.bytes(block.start);
        let bytes = &bytes[..bytes.len().min(block.last as usize)];
        Decode::new(bytes, block.start).last().is_some_and(|before| {
            before.raw.mnemonic() == Mnemonic::Pop && before.raw.op0_register() == jump.raw.op0_register()
        })
    }
}
