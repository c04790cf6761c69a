//! The analysis of a whole function: what is known at the start and end of every block.

use super::Values;
use super::expr::{Expr, Origin, Val};
use super::state::{State, refine};
use crate::addr::LinkAddr;
use crate::cfg::{BlockId, EdgeKind, Target};
use crate::isa::{Decode, Flow};
use crate::source::Surroundings;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use iced_x86::ConditionCode;

/// After so many visits of a block, what is known there only shrinks.
const MAX_VISITS: u8 = 12;

impl<S: Surroundings + ?Sized> Values<'_, S> {
    /// Runs the analysis over the whole function, once.
    pub(super) fn ensure_solved(&mut self) {
        if !self.at_start.is_empty() {
            return;
        }
        self.number_blocks();
        loop {
            let before = self.escaped;
            self.solve();
            if self.escaped == before {
                return;
            }
        }
    }

    /// Reverse postorder: the order in which a forward analysis settles fastest.
    fn number_blocks(&mut self) {
        let count = self.flow.blocks.len();
        let mut seen = vec![false; count];
        let mut next = count as u32;
        let mut stack: Vec<(u32, usize)> = Vec::new();
        let roots: Vec<u32> = self.flow.entries.iter().map(|b| b.0).chain(0..count as u32).collect();
        for root in roots {
            if core::mem::replace(&mut seen[root as usize], true) {
                continue;
            }
            stack.push((root, 0));
            while let Some((block, index)) = stack.last_mut() {
                let edges = self.flow.edges_from(*block);
                if let Some(edge) = edges.get(*index) {
                    *index += 1;
                    if let Target::Block(to) = edge.to
                        && !core::mem::replace(&mut seen[to.index()], true)
                    {
                        stack.push((to.0, 0));
                    }
                } else {
                    next -= 1;
                    self.order[*block as usize] = next;
                    stack.pop();
                }
            }
        }
    }

    pub(super) fn entry_state(&mut self) -> State {
        let regs = core::array::from_fn(|r| self.exprs.opaque(Origin::Entry(r as u8)));
        State { regs, slots: Vec::new(), compared: None, limits: Vec::new(), epoch: 0 }
    }

    /// At a landing pad or another block nobody is seen to enter, nothing is known.
    pub(super) fn unknown_state(&mut self, block: u32) -> State {
        let regs = core::array::from_fn(|r| self.exprs.opaque(Origin::Merge(block, r as u8)));
        State { regs, slots: Vec::new(), compared: None, limits: Vec::new(), epoch: merge_epoch(block) }
    }

    fn solve(&mut self) {
        let count = self.flow.blocks.len();
        self.at_start = vec![None; count];
        self.at_end = vec![None; count];
        let mut visits = vec![0u8; count];
        let mut work: BTreeSet<(u32, u32)> = BTreeSet::new();
        for block in 0..count as u32 {
            if self.is_entry(block) || self.edges_into(block).is_empty() {
                work.insert((self.order[block as usize], block));
            }
        }
        while let Some((_, block)) = work.pop_first() {
            let visit = &mut visits[block as usize];
            *visit = visit.saturating_add(1);
            let settled = *visit > MAX_VISITS;
            let state = self.join(block, settled);
            if self.at_start[block as usize].as_ref() == Some(&state) {
                continue;
            }
            self.at_start[block as usize] = Some(state.clone());
            let mut end = state;
            let condition = self.run_block(block, &mut end);
            self.at_end[block as usize] = Some((end, condition));
            for edge in self.flow.edges_from(block) {
                if let Target::Block(to) = edge.to {
                    work.insert((self.order[to.index()], to.0));
                }
            }
        }
    }

    pub(super) fn is_entry(&self, block: u32) -> bool {
        self.flow.entries.contains(&BlockId(block))
    }

    pub(super) fn edges_into(&self, block: u32) -> &[u32] {
        let (starts, edges) = &self.incoming;
        &edges[starts[block as usize] as usize..starts[block as usize + 1] as usize]
    }

    /// What is known at the start of `block`: what all ways into it that were seen so far agree on.
    /// Once it is `settled`, what was once given up stays so; otherwise two loops could take turns
    /// changing each other for ever.
    fn join(&mut self, block: u32, settled: bool) -> State {
        let mut joined = if self.is_entry(block) { Some(self.entry_state()) } else { None };
        if settled && let Some(before) = self.at_start[block as usize].clone() {
            joined = Some(before);
        }
        for i in 0..self.edges_into(block).len() {
            let edge = self.flow.edges[self.edges_into(block)[i] as usize];
            // Dead code has nothing to say to code that runs.
            if self.flow.blocks[block as usize].reached && !self.flow.blocks[edge.from.index()].reached {
                continue;
            }
            // Taken out for a moment, so that the hundreds of ways into a case of an interpreter need
            // no copy each.
            let Some(end) = self.at_end[edge.from.index()].take() else { continue };
            let (state, condition) = &end;
            let changed = match edge.kind {
                EdgeKind::LandingPad => Some(self.after_unwinding(state, block)),
                EdgeKind::Taken | EdgeKind::FallThrough
                    if condition.is_some() && state.compared.is_some() =>
                {
                    let mut refined = state.clone();
                    refine(&mut refined, edge.kind, *condition);
                    Some(refined)
                }
                _ => None,
            };
            let incoming = changed.as_ref().unwrap_or(state);
            joined = Some(match joined {
                None => incoming.clone(),
                Some(have) => self.merge(block, have, incoming),
            });
            self.at_end[edge.from.index()] = Some(end);
        }
        joined.unwrap_or_else(|| self.unknown_state(block))
    }

    /// Whether `v` already stands for what different ways bring into register `r` of `block`.
    fn is_merge(&self, v: Val, block: u32, r: usize) -> bool {
        *self.exprs.get(v) == Expr::Opaque(Origin::Merge(block, r as u8))
    }

    /// What survives an exception: the callee-saved registers and the stack pointer of the frame.
    fn after_unwinding(&mut self, thrown: &State, pad: u32) -> State {
        let mut state = self.unknown_state(pad);
        for register in [3usize, 4, 5, 12, 13, 14, 15] {
            state.regs[register] = thrown.regs[register];
        }
        state.slots = thrown.slots.clone();
        state
    }

    fn merge(&mut self, block: u32, mut have: State, incoming: &State) -> State {
        for (r, (mine, theirs)) in have.regs.iter_mut().zip(incoming.regs).enumerate() {
            if *mine != theirs && !self.is_merge(*mine, block, r) {
                *mine = self.exprs.opaque(Origin::Merge(block, r as u8));
            }
        }
        have.slots.retain(|slot| incoming.slots.binary_search(slot).is_ok());
        have.limits.retain_mut(|limit| match incoming.limit(limit.value) {
            Some((high, how)) => {
                limit.high = limit.high.max(high);
                limit.how = limit.how.max(how);
                true
            }
            None => false,
        });
        if have.compared != incoming.compared {
            have.compared = None;
        }
        if have.epoch != incoming.epoch {
            have.epoch = merge_epoch(block);
        }
        have
    }

    /// Carries `state` over the instructions of `block`; the condition of the branch at its end.
    pub(super) fn run_block(&mut self, block: u32, state: &mut State) -> Option<ConditionCode> {
        let end = self.flow.blocks[block as usize].end_addr();
        self.run_until(block, state, end)
    }

    pub(super) fn run_until(
        &mut self,
        block: u32,
        state: &mut State,
        until: LinkAddr,
    ) -> Option<ConditionCode> {
        let block = self.flow.blocks[block as usize];
        let surroundings = self.surroundings;
        let bytes = surroundings.bytes(block.start);
        let bytes = &bytes[..bytes.len().min(block.len as usize)];
        let mut condition = None;
        for insn in Decode::new(bytes, block.start) {
            if insn.addr() >= until {
                break;
            }
            condition = matches!(insn.flow(), Flow::Branch(_)).then(|| insn.raw.condition_code());
            self.step(state, &insn);
        }
        condition
    }
}

fn merge_epoch(block: u32) -> u32 {
    block + 1
}
