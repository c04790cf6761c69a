//! The analysis of a whole function: what is known at the start and end of every block.

use super::Values;
use super::expr::{Expr, Exprs, Origin};
use super::flow::{Hub, Hubs};
use super::state::{State, refine};
use crate::addr::LinkAddr;
use crate::cfg::{BlockId, EdgeKind, Target};
use crate::isa::{Decode, Flow};
use crate::source::Surroundings;
use alloc::borrow::Cow;
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
        // What is found to escape makes all that was found before doubtful. Most of it shows when every block is
        // looked at once.
        self.solve(1);
        loop {
            let before = self.escaped;
            self.solve(u8::MAX);
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

    /// Goes on until nothing changes, or every block was visited `most` times.
    fn solve(&mut self, most: u8) {
        let count = self.flow.blocks.len();
        let hubs = Hubs::new(&self.flow);
        self.at_start = vec![None; count];
        self.at_end = vec![None; count];
        let mut at_hub: Vec<Option<State>> = vec![None; hubs.hubs.len()];
        // Hubs are numbered behind the blocks. Each comes up once all blocks that lead to it did.
        let hub_order: Vec<u32> = hubs
            .hubs
            .iter()
            .map(|hub| hub.from.iter().map(|&block| self.order[block as usize]).max().unwrap_or(0))
            .collect();
        let mut visits = vec![0u8; count + hubs.hubs.len()];
        let mut work: BTreeSet<(u32, u32)> = BTreeSet::new();
        for block in 0..count as u32 {
            if self.is_entry(block) || self.edges_into(block).is_empty() {
                work.insert((self.order[block as usize], block));
            }
        }
        while let Some((_, node)) = work.pop_first() {
            let visit = &mut visits[node as usize];
            if *visit == most && most != u8::MAX {
                continue;
            }
            *visit = visit.saturating_add(1);
            let settled = *visit > MAX_VISITS;
            if let Some(hub) = (node as usize).checked_sub(count) {
                let before = at_hub[hub].take();
                let state = self.join_jumps(&hubs.hubs[hub], node, before.as_ref().filter(|_| settled));
                if before != state {
                    work.extend(hubs.hubs[hub].to.iter().map(|&to| (self.order[to as usize], to)));
                }
                at_hub[hub] = state;
                continue;
            }
            let state = self.join(node, settled, &hubs, &at_hub);
            if self.at_start[node as usize].as_ref() == Some(&state) {
                continue;
            }
            self.at_start[node as usize] = Some(state.clone());
            let mut end = state;
            let condition = self.run_block(node, &mut end);
            self.at_end[node as usize] = Some((end, condition));
            if let Some(hub) = hubs.of(node) {
                work.insert((hub_order[hub as usize], count as u32 + hub));
                continue;
            }
            for edge in self.flow.edges_from(node) {
                if let Target::Block(to) = edge.to {
                    work.insert((self.order[to.index()], to.0));
                }
            }
        }
    }

    /// What all jumps of a hub that were seen so far agree on.
    fn join_jumps(&mut self, hub: &Hub, node: u32, before: Option<&State>) -> Option<State> {
        let mut joined = before.cloned();
        for &from in &hub.from {
            if let Some((state, _)) = &self.at_end[from as usize] {
                join_into(&mut joined, &mut self.exprs, node, Cow::Borrowed(state));
            }
        }
        joined
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
    fn join(&mut self, block: u32, settled: bool, hubs: &Hubs, at_hub: &[Option<State>]) -> State {
        let mut joined = if self.is_entry(block) { Some(self.entry_state()) } else { None };
        if settled && let Some(before) = self.at_start[block as usize].clone() {
            joined = Some(before);
        }
        for i in 0..self.edges_into(block).len() {
            let edge = self.flow.edges[self.edges_into(block)[i] as usize];
            // Dead code has nothing to say to code that runs.
            let is_dead = !self.flow.blocks[edge.from.index()].reached;
            if is_dead && self.flow.blocks[block as usize].reached || hubs.of(edge.from.0).is_some() {
                continue;
            }
            let Some((state, condition)) = &self.at_end[edge.from.index()] else { continue };
            let changed = match edge.kind {
                EdgeKind::LandingPad => {
                    let thrown = state.clone();
                    Some(self.after_unwinding(thrown, block))
                }
                EdgeKind::Taken | EdgeKind::FallThrough
                    if condition.is_some() && state.compared.is_some() =>
                {
                    let mut refined = state.clone();
                    refine(&mut refined, edge.kind, *condition);
                    Some(refined)
                }
                _ => None,
            };
            match (changed, &self.at_end[edge.from.index()]) {
                (Some(state), _) => join_into(&mut joined, &mut self.exprs, block, Cow::Owned(state)),
                (None, Some((state, _))) => {
                    join_into(&mut joined, &mut self.exprs, block, Cow::Borrowed(state));
                }
                (None, None) => {}
            }
        }
        for state in hubs.into(block).iter().filter_map(|&hub| at_hub[hub as usize].as_ref()) {
            join_into(&mut joined, &mut self.exprs, block, Cow::Borrowed(state));
        }
        joined.unwrap_or_else(|| self.unknown_state(block))
    }

    /// What survives an exception: the callee-saved registers and the stack pointer of the frame.
    fn after_unwinding(&mut self, thrown: State, pad: u32) -> State {
        let mut state = self.unknown_state(pad);
        for register in [3usize, 4, 5, 12, 13, 14, 15] {
            state.regs[register] = thrown.regs[register];
        }
        state.slots = thrown.slots;
        state
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

/// Leaves in `joined` what it and `incoming` agree on, at the start of a block or in a hub.
fn join_into(joined: &mut Option<State>, exprs: &mut Exprs, node: u32, incoming: Cow<'_, State>) {
    let Some(have) = joined else {
        *joined = Some(incoming.into_owned());
        return;
    };
    for (r, (mine, theirs)) in have.regs.iter_mut().zip(incoming.regs).enumerate() {
        // What already stands for what different ways bring goes on doing so.
        let merged = Origin::Merge(node, r as u8);
        if *mine != theirs && *exprs.get(*mine) != Expr::Opaque(merged) {
            *mine = exprs.opaque(merged);
        }
    }
    have.slots.retain(|slot| incoming.slots.binary_search(slot).is_ok());
    have.limits.retain_mut(|limit| match incoming.limit(limit.value) {
        Some((high, how)) => {
            limit.how = limit.how.meet(how, limit.high == high);
            limit.high = limit.high.max(high);
            true
        }
        None => false,
    });
    if have.compared != incoming.compared {
        have.compared = None;
    }
    if have.epoch != incoming.epoch {
        have.epoch = merge_epoch(node);
    }
}

fn merge_epoch(block: u32) -> u32 {
    block + 1
}
