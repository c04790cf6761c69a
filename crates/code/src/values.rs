//! What registers hold, as expressions: enough to see through how compilers compute jump targets.
//!
//! A forward data-flow analysis over one function. Every value is an expression over things that are
//! not known (a register at entry, the result of some instruction, a merge of paths); equal expressions
//! have equal numbers, so that a bound proved by `cmp eax, 7; ja` is found again when a copy of `eax`
//! indexes a table, whatever registers and stack slots it went through in between.
//!
//! A full interpretation from every path would be exact and far too slow; a backward slice per jump was
//! tried in other tools and loses values that are computed before a loop and used inside it.

use crate::addr::LinkAddr;
use crate::cfg::{Block, BlockId, Edge, EdgeKind, Target};
use crate::constants::Constants;
use crate::isa::{Decode, EffectsReader, Flow, Gpr, Insn};
use crate::source::{Pointer, Surroundings};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use hashbrown::HashMap;
use iced_x86::{ConditionCode, Mnemonic, OpKind, Register};
use smallvec::SmallVec;

/// A value, by the number of its expression.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Val(u32);

/// Where a value comes from that is not known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Origin {
    /// In that register when the function was entered.
    Entry(u8),
    /// Left in that register by the instruction at that address.
    Insn(LinkAddr, u8),
    /// In that register at the start of that block, different on different paths.
    Merge(u32, u8),
}

/// Terms of a sum: value times factor.
pub(crate) type Terms = SmallVec<[(Val, u64); 2]>;

/// An expression over 64-bit words.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Expr {
    /// A constant plus multiples of other values, none of which is itself a sum.
    Sum(u64, Terms),
    /// The low bits, the rest cleared.
    Low(Val, u8),
    /// The low bits, their sign copied upwards.
    Signed(Val, u8),
    /// Bitwise and with a constant.
    And(Val, u64),
    /// So many bits of memory, as it was after the given event.
    Load { addr: Val, bits: u8, epoch: u32 },
    /// One of two.
    Select(Val, Val),
    /// Not known.
    Opaque(Origin),
}

/// All expressions of one analysis.
#[derive(Default)]
pub(crate) struct Exprs {
    nodes: Vec<Expr>,
    numbers: HashMap<Expr, Val>,
}

impl Exprs {
    pub(crate) fn get(&self, v: Val) -> &Expr {
        &self.nodes[v.0 as usize]
    }

    fn intern(&mut self, expr: Expr) -> Val {
        if let Some(&v) = self.numbers.get(&expr) {
            return v;
        }
        let v = Val(self.nodes.len() as u32);
        self.nodes.push(expr.clone());
        self.numbers.insert(expr, v);
        v
    }

    pub(crate) fn constant(&mut self, value: u64) -> Val {
        self.intern(Expr::Sum(value, Terms::new()))
    }

    pub(crate) fn as_constant(&self, v: Val) -> Option<u64> {
        match self.get(v) {
            Expr::Sum(value, terms) if terms.is_empty() => Some(*value),
            _ => None,
        }
    }

    fn opaque(&mut self, origin: Origin) -> Val {
        self.intern(Expr::Opaque(origin))
    }

    /// The value as constant and terms.
    pub(crate) fn as_sum(&self, v: Val) -> (u64, Terms) {
        match self.get(v) {
            Expr::Sum(constant, terms) => (*constant, terms.clone()),
            _ => (0, smallvec::smallvec![(v, 1)]),
        }
    }

    fn sum(&mut self, constant: u64, terms: Terms) -> Val {
        if constant == 0 && terms.len() == 1 && terms[0].1 == 1 {
            return terms[0].0;
        }
        self.intern(Expr::Sum(constant, terms))
    }

    /// `a + factor * b`.
    fn add_scaled(&mut self, a: Val, b: Val, factor: u64) -> Val {
        let (mut constant, mut terms) = self.as_sum(a);
        let (other, more) = self.as_sum(b);
        constant = constant.wrapping_add(other.wrapping_mul(factor));
        for (v, times) in more {
            let times = times.wrapping_mul(factor);
            match terms.iter_mut().find(|(have, _)| *have == v) {
                Some((_, have)) => *have = have.wrapping_add(times),
                None => terms.push((v, times)),
            }
        }
        terms.retain(|&mut (_, times)| times != 0);
        terms.sort_unstable();
        // Sums of many parts are of no use to anybody, and unrolled hashes would build them without end.
        if terms.len() > 6 {
            return self.intern(Expr::And(a, u64::MAX));
        }
        self.sum(constant, terms)
    }

    fn low(&mut self, v: Val, bits: u8) -> Val {
        if bits >= 64 || self.width(v) <= bits {
            return v;
        }
        let mask = (1u64 << bits) - 1;
        match *self.get(v) {
            Expr::Sum(value, ref terms) if terms.is_empty() => self.constant(value & mask),
            Expr::Low(inner, _) => self.intern(Expr::Low(inner, bits)),
            Expr::Signed(inner, from) if from >= bits => self.intern(Expr::Low(inner, bits)),
            _ => self.intern(Expr::Low(v, bits)),
        }
    }

    fn signed(&mut self, v: Val, bits: u8) -> Val {
        if bits >= 64 {
            return v;
        }
        match *self.get(v) {
            Expr::Sum(value, ref terms) if terms.is_empty() => {
                let shift = 64 - u32::from(bits);
                self.constant((((value << shift) as i64) >> shift) as u64)
            }
            Expr::Low(inner, from) if from >= bits => self.signed(inner, bits),
            _ => self.intern(Expr::Signed(v, bits)),
        }
    }

    fn and(&mut self, v: Val, mask: u64) -> Val {
        match mask {
            0xff => self.low(v, 8),
            0xffff => self.low(v, 16),
            0xffff_ffff => self.low(v, 32),
            _ => match self.as_constant(v) {
                Some(value) => self.constant(value & mask),
                None => self.intern(Expr::And(v, mask)),
            },
        }
    }

    /// How many low bits can be other than zero.
    fn width(&self, v: Val) -> u8 {
        match self.get(v) {
            Expr::Sum(value, terms) if terms.is_empty() => 64 - value.leading_zeros() as u8,
            Expr::Low(_, bits) | Expr::Load { bits, .. } => *bits,
            Expr::And(_, mask) => 64 - mask.leading_zeros() as u8,
            _ => 64,
        }
    }

    /// Whether it is an address in the function's own stack frame, and at which offset from the stack
    /// pointer at entry (or from where it was aligned).
    pub(crate) fn stack_offset(&self, v: Val) -> Option<i64> {
        let (constant, terms) = self.as_sum(v);
        match terms.as_slice() {
            [(base, 1)] => match self.get(*base) {
                Expr::Opaque(Origin::Entry(4)) => Some(constant as i64),
                Expr::And(inner, _) if self.stack_offset(*inner).is_some() => Some(constant as i64),
                _ => None,
            },
            _ => None,
        }
    }
}

/// How strong the knowledge of an upper bound is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Strength {
    /// An unsigned compare and branch: the programmer's or compiler's own range check.
    Compared,
    /// A mask, the width of a load, or another kind of check: no larger, but a table may well be smaller.
    Masked,
}

/// An upper bound that a branch proved.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Limit {
    value: Val,
    high: u64,
    how: Strength,
}

/// What is known at one point of the function.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) regs: [Val; 16],
    /// What memory holds: address, value, width in bits; sorted by address.
    slots: Vec<(Val, Val, u8)>,
    /// What the flags compare: left side, constant right side, width.
    compared: Option<(Val, u64, u8)>,
    /// Upper bounds proved by branches, the oldest first.
    limits: Vec<Limit>,
    /// The last event that may have changed memory.
    epoch: u32,
}

/// Slots beyond this many are forgotten: unoptimised code has thousands, and only the recent ones matter.
const MAX_SLOTS: usize = 96;

/// Bounds beyond this many are forgotten, the oldest first: the check of an index is close to its use.
const MAX_LIMITS: usize = 48;

/// After so many visits of a block, what is known there only shrinks.
const MAX_VISITS: u8 = 12;

/// The control flow the analysis runs over.
pub(crate) struct Flowing<'a> {
    blocks: &'a [Block],
    edges: &'a [Edge],
    entries: &'a [BlockId],
    /// Where the edges out of each block begin.
    first_edge: Vec<u32>,
}

impl<'a> Flowing<'a> {
    /// `edges` are sorted by the block they leave.
    pub(crate) fn new(blocks: &'a [Block], edges: &'a [Edge], entries: &'a [BlockId]) -> Self {
        let mut first_edge = vec![0; blocks.len() + 1];
        for edge in edges {
            first_edge[edge.from.index() + 1] += 1;
        }
        for i in 0..blocks.len() {
            first_edge[i + 1] += first_edge[i];
        }
        Self { blocks, edges, entries, first_edge }
    }

    fn edges_from(&self, block: u32) -> &'a [Edge] {
        &self.edges[self.first_edge[block as usize] as usize..self.first_edge[block as usize + 1] as usize]
    }
}

/// The analysis and its result.
pub(crate) struct Values<'a, S: ?Sized> {
    surroundings: &'a S,
    flow: Flowing<'a>,
    pub(crate) exprs: Exprs,
    effects: EffectsReader,
    at_start: Vec<Option<State>>,
    /// What is known at the end of each block, and the condition of its branch.
    at_end: Vec<Option<(State, Option<ConditionCode>)>>,
    /// Edges into each block, as indices: where a block's begin, and the indices.
    incoming: (Vec<u32>, Vec<u32>),
    /// Lowest stack offset whose address went into a register: slots from there on may be changed by
    /// callees and through pointers.
    escaped: i64,
    order: Vec<u32>,
}

impl<'a, S: Surroundings + ?Sized> Values<'a, S> {
    pub(crate) fn new(surroundings: &'a S, flow: Flowing<'a>) -> Self {
        let blocks = flow.blocks.len();
        let mut values = Self {
            surroundings,
            flow,
            exprs: Exprs::default(),
            effects: EffectsReader::new(),
            at_start: Vec::new(),
            at_end: Vec::new(),
            incoming: (Vec::new(), Vec::new()),
            escaped: i64::MAX,
            order: vec![0; blocks],
        };
        values.incoming = incoming_edges(&values.flow);
        values
    }

    /// Runs the analysis over the whole function, once.
    fn ensure_solved(&mut self) {
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

    fn entry_state(&mut self) -> State {
        let regs = core::array::from_fn(|r| self.exprs.opaque(Origin::Entry(r as u8)));
        State { regs, slots: Vec::new(), compared: None, limits: Vec::new(), epoch: 0 }
    }

    /// At a landing pad or another block nobody is seen to enter, nothing is known.
    fn unknown_state(&mut self, block: u32) -> State {
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

    fn is_entry(&self, block: u32) -> bool {
        self.flow.entries.contains(&BlockId(block))
    }

    fn edges_into(&self, block: u32) -> &[u32] {
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
    fn run_block(&mut self, block: u32, state: &mut State) -> Option<ConditionCode> {
        let end = self.flow.blocks[block as usize].end_addr();
        self.run_until(block, state, end)
    }

    fn run_until(&mut self, block: u32, state: &mut State, until: LinkAddr) -> Option<ConditionCode> {
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

    /// The largest number `v` can be in `state`, if anything bounds it.
    pub(crate) fn upper_bound(&self, state: &State, v: Val) -> Option<(u64, Strength)> {
        if let Some(limit) = state.limit(v) {
            return Some(limit);
        }
        match *self.exprs.get(v) {
            Expr::Sum(constant, ref terms) => {
                let mut high = i64::try_from(constant).ok()? as u64;
                let mut strength = Strength::Compared;
                for &(term, times) in terms {
                    let (bound, how) = self.upper_bound(state, term)?;
                    high = high.checked_add(bound.checked_mul(times)?)?;
                    strength = strength.max(how);
                }
                Some((high, strength))
            }
            Expr::Low(inner, bits) => {
                let cap = (1u64 << bits) - 1;
                match self.upper_bound(state, inner) {
                    Some((high, how)) if high <= cap => Some((high, how)),
                    _ if bits <= 16 => Some((cap, Strength::Masked)),
                    _ => None,
                }
            }
            Expr::Signed(inner, bits) => {
                // Known non-negative in that width, so the sign changes nothing.
                let low = self.exprs.numbers.get(&Expr::Low(inner, bits)).copied().unwrap_or(inner);
                let (high, how) = self.upper_bound(state, low)?;
                (high < 1 << (bits - 1)).then_some((high, how))
            }
            Expr::And(inner, mask) => match self.upper_bound(state, inner) {
                Some((high, how)) if high <= mask => Some((high, how)),
                _ => Some((mask, Strength::Masked)),
            },
            Expr::Load { bits, .. } if bits <= 16 => Some(((1 << bits) - 1, Strength::Masked)),
            _ => None,
        }
    }

    /// The latest check of `index`, as the lowest value and how far above it the highest may be. Checks
    /// of a low part of it count (whoever checks `eax` and then uses `rax` knows that the upper half is
    /// clear), and so do checks of `index - low`.
    pub(crate) fn latest_check(&self, state: &State, index: Val) -> Option<(u64, u64, Strength)> {
        let plain = self.without_width(index);
        state.limits.iter().rev().find_map(|limit| {
            let limited = self.without_width(limit.value);
            if limited == plain {
                return Some((0, limit.high, limit.how));
            }
            let (constant, terms) = self.exprs.as_sum(limited);
            let [(term, 1)] = terms.as_slice() else { return None };
            let low = constant.wrapping_neg();
            (self.without_width(*term) == plain && low < 1 << 31).then_some((low, limit.high, limit.how))
        })
    }

    fn without_width(&self, v: Val) -> Val {
        match *self.exprs.get(v) {
            Expr::Low(inner, _) | Expr::Signed(inner, _) => inner,
            _ => v,
        }
    }

    /// Whether what `v` is depends on which way control came, other than through memory.
    pub(crate) fn depends_on_path(&self, v: Val) -> bool {
        match self.exprs.get(v) {
            Expr::Opaque(Origin::Merge(..)) => true,
            Expr::Opaque(_) => false,
            Expr::Sum(_, terms) => terms.iter().any(|t| self.depends_on_path(t.0)),
            Expr::Low(inner, _) | Expr::Signed(inner, _) | Expr::And(inner, _) => {
                self.depends_on_path(*inner)
            }
            Expr::Select(a, b) => self.depends_on_path(*a) || self.depends_on_path(*b),
            // The entry of a table depends on its index; what else memory holds is anybody's guess.
            Expr::Load { addr, .. } => {
                let (base, terms) = self.exprs.as_sum(*addr);
                self.surroundings.is_constant(LinkAddr(base))
                    && terms.iter().any(|t| self.depends_on_path(t.0))
            }
        }
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

    /// The address a memory operand names.
    pub(crate) fn address(&mut self, state: &State, insn: &Insn) -> Option<Val> {
        let raw = &insn.raw;
        if matches!(raw.memory_segment(), Register::FS | Register::GS) {
            return None;
        }
        let displacement = if raw.is_ip_rel_memory_operand() {
            raw.ip_rel_memory_address()
        } else {
            raw.memory_displacement64()
        };
        let mut sum = self.exprs.constant(displacement);
        if !raw.is_ip_rel_memory_operand()
            && let Some(base) = Gpr::holding(raw.memory_base())
        {
            let base = state.regs[base.number()];
            sum = self.exprs.add_scaled(sum, base, 1);
        }
        if raw.memory_index().is_vector_register() {
            return None;
        }
        if let Some(index) = Gpr::holding(raw.memory_index()) {
            let index = state.regs[index.number()];
            sum = self.exprs.add_scaled(sum, index, u64::from(raw.memory_index_scale()));
        }
        if raw.memory_base().is_gpr32() || raw.memory_index().is_gpr32() {
            sum = self.exprs.low(sum, 32);
        }
        Some(sum)
    }

    /// What a load of `bits` at `addr` gives.
    pub(crate) fn load(&mut self, state: &mut State, addr: Val, bits: u8) -> Val {
        if let Ok(i) = state.slots.binary_search_by_key(&addr, |s| s.0) {
            let (_, value, width) = state.slots[i];
            if width >= bits {
                return self.exprs.low(value, bits);
            }
        }
        if let Some(fixed) = self.exprs.as_constant(addr).map(LinkAddr)
            && bits == 64
            && self.surroundings.is_constant(fixed)
            && let Pointer::Here(to) = self.surroundings.pointer(fixed)
        {
            return self.exprs.constant(to.0);
        }
        let value = self.exprs.intern(Expr::Load { addr, bits, epoch: state.epoch });
        state.set_slot(addr, value, bits);
        value
    }

    fn store(&mut self, state: &mut State, insn: &Insn, addr: Option<Val>, value: Option<Val>, bits: u8) {
        let Some(addr) = addr else {
            self.memory_changed(state, insn);
            return;
        };
        let (offset, base) = self.exprs.as_sum(addr);
        let (offset, len) = (offset as i64, i64::from(bits / 8));
        let on_stack = self.exprs.stack_offset(addr).is_some();
        let escaped = self.escaped;
        let exprs = &self.exprs;
        // What is known to lie beside the new value stays; what may overlap it is gone.
        state.slots.retain(|&(at, _, width)| {
            let (start, other) = exprs.as_sum(at);
            let start = start as i64;
            if other == base {
                return start >= offset.saturating_add(len)
                    || start.saturating_add(i64::from(width / 8)) <= offset;
            }
            match exprs.stack_offset(at) {
                Some(start) => on_stack || start < escaped,
                None => on_stack && offset < escaped,
            }
        });
        if !on_stack {
            state.epoch = self.epoch_of(insn);
        }
        if let Some(value) = value {
            state.set_slot(addr, value, bits);
        }
    }

    fn epoch_of(&self, insn: &Insn) -> u32 {
        insn.addr().since(self.flow.blocks[0].start) as u32 | INSN_EPOCH
    }

    fn memory_changed(&mut self, state: &mut State, insn: &Insn) {
        state.epoch = self.epoch_of(insn);
        let (escaped, exprs) = (self.escaped, &self.exprs);
        state.slots.retain(|&(at, ..)| exprs.stack_offset(at).is_some_and(|offset| offset < escaped));
    }

    fn operand(&mut self, state: &mut State, insn: &Insn, index: u32) -> Option<Val> {
        let raw = &insn.raw;
        match raw.op_kind(index) {
            OpKind::Register => self.read_register(state, raw.op_register(index)),
            OpKind::Memory => {
                let bits = raw.memory_size().size() * 8;
                let addr = self.address(state, insn)?;
                (matches!(bits, 8 | 16 | 32 | 64)).then(|| self.load(state, addr, bits as u8))
            }
            OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64 => Some(self.exprs.constant(raw.immediate(index))),
            _ => None,
        }
    }

    fn read_register(&mut self, state: &State, register: Register) -> Option<Val> {
        let gpr = Gpr::holding(register)?;
        if matches!(register, Register::AH | Register::BH | Register::CH | Register::DH) {
            return None;
        }
        Some(self.exprs.low(state.regs[gpr.number()], register.size() as u8 * 8))
    }

    fn write_register(&mut self, state: &mut State, insn: &Insn, register: Register, value: Option<Val>) {
        let Some(gpr) = Gpr::holding(register) else { return };
        let number = gpr.number();
        let value = match (value, register.size()) {
            (Some(value), 8) => value,
            (Some(value), 4) => self.exprs.low(value, 32),
            _ => self.exprs.opaque(Origin::Insn(insn.addr(), number as u8)),
        };
        if number != Gpr::RSP.number()
            && number != Gpr::RBP.number()
            && let Some(offset) = self.exprs.stack_offset(value)
        {
            self.escaped = self.escaped.min(offset);
        }
        state.regs[number] = value;
    }

    /// Writes the result of `insn` to its first operand.
    fn write_result(&mut self, state: &mut State, insn: &Insn, value: Option<Val>) {
        let raw = &insn.raw;
        match raw.op0_kind() {
            OpKind::Register => self.write_register(state, insn, raw.op0_register(), value),
            OpKind::Memory => {
                let addr = self.address(state, insn);
                let bits = (raw.memory_size().size() * 8).min(255) as u8;
                let value = value.filter(|_| matches!(bits, 8 | 16 | 32 | 64));
                let value = value.map(|v| self.exprs.low(v, bits));
                self.store(state, insn, addr, value, bits);
            }
            _ => {}
        }
    }

    fn operand_bits(insn: &Insn, index: u32) -> u8 {
        match insn.raw.op_kind(index) {
            OpKind::Register => (insn.raw.op_register(index).size() * 8).min(255) as u8,
            OpKind::Memory => (insn.raw.memory_size().size() * 8).min(255) as u8,
            _ => 64,
        }
    }

    /// Carries `state` over one instruction.
    fn step(&mut self, state: &mut State, insn: &Insn) {
        let raw = &insn.raw;
        let bits = Self::operand_bits(insn, 0);
        match raw.mnemonic() {
            Mnemonic::Mov | Mnemonic::Movzx => {
                let value = self.operand(state, insn, 1);
                self.write_result(state, insn, value);
            }
            Mnemonic::Movsx | Mnemonic::Movsxd => {
                let from = Self::operand_bits(insn, 1);
                let value = self.operand(state, insn, 1).map(|v| self.exprs.signed(v, from));
                self.write_result(state, insn, value);
            }
            Mnemonic::Cdqe => {
                let value = state.regs[0];
                state.regs[0] = self.exprs.signed(value, 32);
            }
            Mnemonic::Lea => {
                let value = self.address(state, insn);
                self.write_result(state, insn, value);
            }
            Mnemonic::Add | Mnemonic::Sub => {
                let (a, b) = (self.operand(state, insn, 0), self.operand(state, insn, 1));
                let factor = if raw.mnemonic() == Mnemonic::Add { 1 } else { u64::MAX };
                state.compared = None;
                if factor != 1 {
                    self.compare(state, a, b, bits);
                }
                let value = a.zip(b).map(|(a, b)| self.exprs.add_scaled(a, b, factor));
                self.write_result(state, insn, value);
            }
            Mnemonic::Inc | Mnemonic::Dec => {
                let by = if raw.mnemonic() == Mnemonic::Inc { 1u64 } else { u64::MAX };
                let value = self.operand(state, insn, 0).map(|a| {
                    let one = self.exprs.constant(by);
                    self.exprs.add_scaled(a, one, 1)
                });
                state.compared = None;
                self.write_result(state, insn, value);
            }
            Mnemonic::Shl | Mnemonic::Sal => {
                let value =
                    self.operand(state, insn, 0).zip(self.operand(state, insn, 1)).and_then(|(a, by)| {
                        let by = self.exprs.as_constant(by).filter(|&by| by < 32)?;
                        let zero = self.exprs.constant(0);
                        Some(self.exprs.add_scaled(zero, a, 1 << by))
                    });
                state.compared = None;
                self.write_result(state, insn, value);
            }
            Mnemonic::And => {
                let value =
                    self.operand(state, insn, 0).zip(self.operand(state, insn, 1)).and_then(|(a, mask)| {
                        let mask = self.exprs.as_constant(mask)?;
                        let mask = if bits < 64 { mask & ((1 << bits) - 1) } else { mask };
                        Some(self.exprs.and(a, mask))
                    });
                state.compared = None;
                self.write_result(state, insn, value);
            }
            Mnemonic::Xor
                if raw.op1_kind() == OpKind::Register && raw.op0_register() == raw.op1_register() =>
            {
                let zero = self.exprs.constant(0);
                state.compared = None;
                self.write_result(state, insn, Some(zero));
            }
            Mnemonic::Cmp => {
                let (a, b) = (self.operand(state, insn, 0), self.operand(state, insn, 1));
                self.compare(state, a, b, bits);
            }
            Mnemonic::Push => {
                let value = self.operand(state, insn, 0);
                self.move_stack_pointer(state, -8);
                let top = state.regs[4];
                self.store(state, insn, Some(top), value, 64);
            }
            Mnemonic::Pop => {
                let top = state.regs[4];
                let value = self.load(state, top, 64);
                self.move_stack_pointer(state, 8);
                self.write_result(state, insn, Some(value));
            }
            Mnemonic::Leave => {
                state.regs[4] = state.regs[5];
                let top = state.regs[4];
                state.regs[5] = self.load(state, top, 64);
                self.move_stack_pointer(state, 8);
            }
            Mnemonic::Call => {
                // The callee may well change more than its results. But then no compiler reads the rest
                // again, and where one does, it knows that this callee leaves them alone.
                for number in [0usize, 2] {
                    state.regs[number] = self.exprs.opaque(Origin::Insn(insn.addr(), number as u8));
                }
                state.compared = None;
                self.memory_changed(state, insn);
            }
            _ if is_conditional_move(insn) => {
                let value = self
                    .operand(state, insn, 0)
                    .zip(self.operand(state, insn, 1))
                    .map(|(a, b)| if a == b { a } else { self.exprs.intern(Expr::Select(a, b)) });
                self.write_result(state, insn, value);
            }
            _ => self.step_unknown(state, insn),
        }
    }

    /// An instruction whose result is of no interest: forget what it may have written.
    fn step_unknown(&mut self, state: &mut State, insn: &Insn) {
        let effects = self.effects.effects(insn);
        for gpr in effects.writes.gprs() {
            let number = gpr.number();
            state.regs[number] = self.exprs.opaque(Origin::Insn(insn.addr(), number as u8));
        }
        if effects.writes.intersects(crate::isa::RegSet::ARITHMETIC_FLAGS) {
            state.compared = None;
        }
        if insn.raw.op0_kind() == OpKind::Memory {
            // Possibly only read, but then nothing is lost but knowledge.
            let addr = self.address(state, insn);
            let bits = (insn.raw.memory_size().size() * 8).clamp(8, 248) as u8;
            self.store(state, insn, addr, None, bits);
        } else if insn.raw.is_string_instruction() {
            self.memory_changed(state, insn);
        }
    }

    fn compare(&mut self, state: &mut State, a: Option<Val>, b: Option<Val>, bits: u8) {
        state.compared = match (a, b.and_then(|b| self.exprs.as_constant(b))) {
            (Some(a), Some(right)) => {
                let right = if bits < 64 { right & ((1 << bits) - 1) } else { right };
                Some((a, right, bits))
            }
            _ => None,
        };
    }

    fn move_stack_pointer(&mut self, state: &mut State, by: i64) {
        let by = self.exprs.constant(by as u64);
        state.regs[4] = self.exprs.add_scaled(state.regs[4], by, 1);
    }
}

/// Learns from which way a branch went.
fn refine(state: &mut State, kind: EdgeKind, condition: Option<ConditionCode>) {
    let (Some(condition), Some((left, right, bits))) = (condition, state.compared) else { return };
    let taken = match kind {
        EdgeKind::Taken => true,
        EdgeKind::FallThrough => false,
        _ => return,
    };
    let limit = match (condition, taken) {
        (ConditionCode::a, false) | (ConditionCode::be, true) => Some((right, Strength::Compared)),
        (ConditionCode::ae, false) | (ConditionCode::b, true) => {
            right.checked_sub(1).map(|high| (high, Strength::Compared))
        }
        // These bound the index too, if it is not negative, but are no range check for a table: clang
        // tells ranges apart this way, and the table that follows may be much smaller.
        (ConditionCode::e, true) | (ConditionCode::ne, false) => Some((right, Strength::Masked)),
        (ConditionCode::g, false) | (ConditionCode::le, true) => {
            positive(right, bits).map(|high| (high, Strength::Masked))
        }
        (ConditionCode::ge, false) | (ConditionCode::l, true) => {
            positive(right, bits).and_then(|r| r.checked_sub(1)).map(|high| (high, Strength::Masked))
        }
        _ => None,
    };
    if let Some((high, how)) = limit {
        state.set_limit(Limit { value: left, high, how });
    }
}

/// For each block, the edges into it.
fn incoming_edges(flow: &Flowing<'_>) -> (Vec<u32>, Vec<u32>) {
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for (edge, index) in flow.edges.iter().zip(0..) {
        if let Target::Block(to) = edge.to {
            pairs.push((to.0, index));
        }
    }
    pairs.sort_unstable();
    let starts = (0..=flow.blocks.len() as u32).map(|b| pairs.partition_point(|p| p.0 < b) as u32).collect();
    (starts, pairs.into_iter().map(|p| p.1).collect())
}

/// Distinguishes epochs begun by an instruction from those begun by a merge of paths.
const INSN_EPOCH: u32 = 1 << 31;

fn merge_epoch(block: u32) -> u32 {
    block + 1
}

fn positive(value: u64, bits: u8) -> Option<u64> {
    ((8..=64).contains(&bits) && value < 1 << (bits - 1)).then_some(value)
}

fn is_conditional_move(insn: &Insn) -> bool {
    insn.raw.condition_code() != ConditionCode::None
        && insn.flow() == Flow::Next
        && insn.raw.op_count() == 2
        && insn.raw.op0_kind() == OpKind::Register
        && Gpr::holding(insn.raw.op0_register()).is_some()
}

impl State {
    fn limit(&self, v: Val) -> Option<(u64, Strength)> {
        self.limits.iter().rev().find(|l| l.value == v).map(|l| (l.high, l.how))
    }

    fn set_limit(&mut self, mut limit: Limit) {
        if let Some(known) = self.limits.iter().position(|l| l.value == limit.value) {
            let known = self.limits.remove(known);
            if known.high <= limit.high {
                limit = known;
            }
        }
        if self.limits.len() >= MAX_LIMITS {
            self.limits.remove(0);
        }
        self.limits.push(limit);
    }

    fn set_slot(&mut self, addr: Val, value: Val, bits: u8) {
        match self.slots.binary_search_by_key(&addr, |s| s.0) {
            Ok(i) => self.slots[i] = (addr, value, bits),
            Err(i) => {
                if self.slots.len() >= MAX_SLOTS {
                    self.slots.remove(0);
                    self.set_slot(addr, value, bits);
                    return;
                }
                self.slots.insert(i, (addr, value, bits));
            }
        }
    }
}
