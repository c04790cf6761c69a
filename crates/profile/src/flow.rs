//! What was not counted, from what was: whatever enters a block leaves it.
//!
//! Each node of the graph gives one equation: blocks, hubs, and everything outside the function as one
//! node. Counters sit on enough edges that the others form a forest; then some node has only one edge
//! that is not known, and its equation gives it (Knuth 1973; Ball and Larus 1994). A block with a counter
//! of its own gives two equations, one for what enters and one for what leaves.
//!
//! Functions may leave it to their callers to tell how often they are called; then the callers come first.
//!
//! Arithmetic wraps around: sums of profiles are then the same in whatever order they are formed, and
//! a count that comes out below zero, in a profile that does not add up, is still told apart.

use crate::model::{CalledBy, Callee, Count, Counter, Edge, EdgeKind, Function, Mode, Module, Node, State};
use rayon::prelude::*;
use std::collections::HashMap;

/// Where a profile does not add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inconsistency {
    /// The edge of that index would have been taken fewer than zero times.
    Negative {
        /// Which edge.
        edge: u32,
        /// How often.
        count: i64,
    },
    /// A block ran fewer than zero times.
    NegativeBlock {
        /// Which block.
        block: u32,
        /// How often.
        count: i64,
    },
    /// More enters a node than leaves it, or less.
    Imbalance {
        /// Which node.
        node: Node,
        /// How much more enters.
        excess: i64,
    },
}

/// The edges without a counter form a cycle, so counts do not determine them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{edges} edges without a counter form cycles")]
pub struct Undetermined {
    /// How many edges are left.
    pub edges: usize,
}

/// Sets the counts of a module from its counters. Does nothing if it has no counters: then the counts of
/// blocks and edges are all there is.
///
/// # Errors
/// The function whose edges are all to be known and are not.
pub fn recover(module: &mut Module) -> Result<(), (usize, Undetermined)> {
    if module.layout.counters == 0 {
        return Ok(());
    }
    let (counters, mode) = (&module.counters, module.mode);
    let mut calls = DirectCalls::new(&module.functions);
    loop {
        let turn = calls.take_turn();
        if turn.is_empty() {
            return calls.stuck().map_or(Ok(()), |function| Err((function, Undetermined { edges: 1 })));
        }
        let sums = &calls.sums;
        let mut functions: Vec<(usize, &mut Function)> = pick(&mut module.functions, &turn);
        functions.par_iter_mut().try_for_each(|(i, function)| {
            recover_function(function, counters, sums[*i], mode).map_err(|undetermined| (*i, undetermined))
        })?;
        turn.into_iter().for_each(|i| calls.tell(&module.functions[i], i));
    }
}

/// The items of the given indices, which ascend.
fn pick<'a, T>(items: &'a mut [T], indices: &[usize]) -> Vec<(usize, &'a mut T)> {
    let mut wanted = indices.iter().copied().peekable();
    let all = items.iter_mut().enumerate();
    all.filter(|(i, _)| wanted.next_if_eq(i).is_some()).collect()
}

/// What functions know of how often they are called, by the counts of their callers.
struct DirectCalls {
    by_address: HashMap<u64, usize>,
    /// By function: how often it was called by those whose turn has come.
    sums: Vec<u64>,
    /// By function: how many calls to it are not known yet.
    waiting: Vec<usize>,
    ready: Vec<usize>,
}

impl DirectCalls {
    fn new(functions: &[Function]) -> Self {
        let called = functions.iter().enumerate().filter(|(_, f)| f.called);
        let mut calls = Self {
            by_address: called.map(|(i, f)| (f.address, i)).collect(),
            sums: vec![0; functions.len()],
            waiting: vec![0; functions.len()],
            ready: Vec::new(),
        };
        for function in functions {
            for (callee, _) in calls.of(function).collect::<Vec<_>>() {
                calls.waiting[callee] += 1;
            }
        }
        calls.ready = (0..functions.len()).filter(|&i| calls.waiting[i] == 0).collect();
        calls
    }

    /// The calls of a function to others that depend on it.
    fn of<'f>(&'f self, function: &'f Function) -> impl Iterator<Item = (usize, CalledBy)> + 'f {
        let calls = if function.state == State::Measured { &function.calls[..] } else { &[] };
        calls.iter().filter_map(|call| match call.callee {
            Callee::Direct { address, .. } => self.by_address.get(&address).map(|&callee| (callee, call.by)),
            _ => None,
        })
    }

    /// Those that know all about their callers now, in ascending order.
    fn take_turn(&mut self) -> Vec<usize> {
        let mut turn = std::mem::take(&mut self.ready);
        turn.sort_unstable();
        turn
    }

    /// A function tells those it calls.
    fn tell(&mut self, function: &Function, index: usize) {
        for (callee, by) in self.of(function).collect::<Vec<_>>() {
            let count = match by {
                CalledBy::Block(block) => function.blocks.get(block as usize).and_then(|block| block.count),
                CalledBy::Edge(edge) => function.edges.get(edge as usize).and_then(|edge| edge.count),
            };
            self.sums[callee] = self.sums[callee].wrapping_add(count.map_or(0, |count| count.raw));
            self.waiting[callee] -= 1;
            if self.waiting[callee] == 0 {
                self.ready.push(callee);
            }
        }
        debug_assert_eq!(self.waiting[index], 0);
    }

    /// A function that waits for itself.
    fn stuck(&self) -> Option<usize> {
        self.waiting.iter().position(|&waiting| waiting > 0)
    }
}

/// Sets the counts of a function from counters. A counter beyond the end of `counters` is zero. `calls` is how
/// often measured functions called it, if its entry leaves them out.
///
/// # Errors
/// If `mode` is [`Mode::Edges`] and counters do not determine the counts of all edges of a measured
/// function.
pub fn recover_function(
    function: &mut Function,
    counters: &[u64],
    calls: u64,
    mode: Mode,
) -> Result<(), Undetermined> {
    let counts_at_all = !function.state.is_not_measured();
    let measured = |counter: Counter| {
        let raw = counters.get(counter.index() as usize).copied().unwrap_or(0);
        counts_at_all.then_some(Count::measured(raw))
    };
    for block in &mut function.blocks {
        block.count = block.counter.and_then(measured);
    }
    for edge in &mut function.edges {
        edge.count = edge.counter.and_then(measured);
        if let (true, EdgeKind::Enter, Some(count)) = (function.called, edge.kind, &mut edge.count) {
            *count = count.plus(Count::derived(calls));
        }
    }
    if function.state != State::Measured {
        return Ok(());
    }
    let unknown = solve(function);
    count_blocks(function);
    if mode == Mode::Edges && unknown > 0 {
        return Err(Undetermined { edges: unknown });
    }
    Ok(())
}

/// Sets the counts of edges that follow from those of blocks and other edges; how many remain unknown.
pub fn solve(function: &mut Function) -> usize {
    let mut equations = Equations::new(function);
    let mut unknown = 0;
    for (edge, i) in function.edges.iter().zip(0..) {
        let (leaves, enters) = equations.of(edge);
        match edge.count {
            Some(count) => equations.add(leaves, enters, count.raw),
            // What leaves a node only to enter it at once is not in its equation.
            None if leaves == enters => unknown += 1,
            None => {
                unknown += 1;
                equations.toggle(leaves, i);
                equations.toggle(enters, i);
                equations.unknown[leaves] += 1;
                equations.unknown[enters] += 1;
            }
        }
    }
    let mut ready: Vec<usize> = (0..equations.unknown.len()).filter(|&n| equations.unknown[n] == 1).collect();
    while let Some(node) = ready.pop() {
        if equations.unknown[node] != 1 {
            continue;
        }
        let index = equations.which[node];
        let edge = &mut function.edges[index as usize];
        let (leaves, enters) = equations.of(edge);
        let excess = equations.excess[node];
        let count = if leaves == node { excess } else { excess.wrapping_neg() };
        edge.count = Some(Count::derived(count));
        unknown -= 1;
        equations.add(leaves, enters, count);
        for end in [leaves, enters] {
            equations.toggle(end, index);
            equations.unknown[end] -= 1;
            if equations.unknown[end] == 1 {
                ready.push(end);
            }
        }
    }
    unknown
}

/// One equation for each node.
struct Equations {
    blocks: usize,
    /// For each block, the number of the equation for what leaves it, if it has two.
    second: Vec<Option<u32>>,
    /// By how much more enters than leaves.
    excess: Vec<u64>,
    /// How many edges in the equation are not known.
    unknown: Vec<u32>,
    /// The exclusive or of their indices: if there is only one, its index.
    which: Vec<u32>,
}

impl Equations {
    fn new(function: &Function) -> Self {
        let blocks = function.blocks.len();
        let mut nodes = 1 + blocks + function.hubs as usize;
        let mut second = vec![None; blocks];
        let mut known = Vec::new();
        for (i, block) in function.blocks.iter().enumerate() {
            if let Some(count) = block.count {
                second[i] = u32::try_from(nodes).ok();
                known.push((1 + i, nodes, count.raw));
                nodes += 1;
            }
        }
        let (excess, unknown, which) = (vec![0; nodes], vec![0; nodes], vec![0; nodes]);
        let mut equations = Self { blocks, second, excess, unknown, which };
        for (leaves, enters, count) in known {
            equations.add(leaves, enters, count);
        }
        equations
    }

    /// The equations that an edge is part of: of the node it leaves and of the node it enters.
    fn of(&self, edge: &Edge) -> (usize, usize) {
        let leaves = match edge.from.as_block().and_then(|block| self.second[block as usize]) {
            Some(second) => second as usize,
            None => self.number(edge.from),
        };
        (leaves, self.number(edge.to))
    }

    fn number(&self, node: Node) -> usize {
        match (node.as_block(), node.as_hub()) {
            (Some(block), _) => 1 + block as usize,
            (_, Some(hub)) => 1 + self.blocks + hub as usize,
            _ => 0,
        }
    }

    fn add(&mut self, leaves: usize, enters: usize, count: u64) {
        self.excess[leaves] = self.excess[leaves].wrapping_sub(count);
        self.excess[enters] = self.excess[enters].wrapping_add(count);
    }

    fn toggle(&mut self, node: usize, edge: u32) {
        self.which[node] ^= edge;
    }
}

/// Sets the counts of blocks that have no counter: the sum of what enters, if all of it is known.
fn count_blocks(function: &mut Function) {
    let mut sums = vec![Some(Count::measured(0)); function.blocks.len()];
    for edge in &function.edges {
        if let Some(block) = edge.to.as_block() {
            let sum = &mut sums[block as usize];
            *sum = sum.zip(edge.count).map(|(sum, count)| sum.plus(count));
        }
    }
    for (block, sum) in function.blocks.iter_mut().zip(sums) {
        block.count = block.count.or(sum);
    }
}

/// Where the counts of a function do not add up: edges below zero, and nodes where all edges are known
/// and more enters than leaves. Written apart from [`solve`], to check it.
#[must_use]
pub fn check(function: &Function) -> Vec<Inconsistency> {
    let mut found = Vec::new();
    if function.state != State::Measured {
        return found;
    }
    for (edge, i) in function.edges.iter().zip(0..) {
        // A callee that came back more often than it was called, as fork does in its child, leaves less than
        // nothing on the way for those that did not.
        let may_be_less = edge.kind == EdgeKind::NoReturn;
        if let Some(count) = edge.count.filter(|count| count.is_negative() && !may_be_less) {
            found.push(Inconsistency::Negative { edge: i, count: count.raw.cast_signed() });
        }
    }
    for (block, i) in function.blocks.iter().zip(0..) {
        if let Some(count) = block.count.filter(|count| count.is_negative()) {
            found.push(Inconsistency::NegativeBlock { block: i, count: count.raw.cast_signed() });
        }
    }
    let nodes = 1 + function.blocks.len() + function.hubs as usize;
    let (mut entering, mut leaving) = (vec![Some(0u64); nodes], vec![Some(0u64); nodes]);
    let hubs = function.blocks.len();
    let place = |node: Node| match (node.as_block(), node.as_hub()) {
        (Some(block), _) => block as usize,
        (_, Some(hub)) => hubs + hub as usize,
        _ => nodes - 1,
    };
    for edge in &function.edges {
        for sum in [&mut leaving[place(edge.from)], &mut entering[place(edge.to)]] {
            *sum = sum.zip(edge.count).map(|(sum, count)| sum.wrapping_add(count.raw));
        }
    }
    let all = (0..hubs as u32).map(Node::block).chain((0..function.hubs).map(Node::hub));
    for node in all.chain([Node::OUTSIDE]) {
        let (enters, leaves) = (entering[place(node)], leaving[place(node)]);
        let count = node.as_block().and_then(|block| function.blocks[block as usize].count).map(|c| c.raw);
        let pairs = [enters.zip(leaves), enters.zip(count), count.zip(leaves)];
        let excess = pairs.into_iter().flatten().map(|(more, less)| more.wrapping_sub(less).cast_signed());
        if let Some(excess) = excess.into_iter().find(|&excess| excess != 0) {
            found.push(Inconsistency::Imbalance { node, excess });
        }
    }
    found
}
