//! What another tool saw, put onto the blocks and edges of a program.
//!
//! Branches tell of edges, and stretches that were run through without a branch tell of all blocks in them. Both are samples:
//! something that was seen happens, and how often in comparison to other things; what was not seen may still happen.

use super::Placed;
use relive_profile::model::{
    CalledBy, Callee, Confidence, Count, Edge, EdgeKind, Function, Module, Node, State, Target, TargetCount,
};
use std::collections::{BTreeMap, HashMap};

/// What was seen, by addresses as linked.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sampled {
    /// From the instruction that branched (nothing if that is not in the program) to where it led.
    pub(super) branches: BTreeMap<(Option<u64>, u64), u64>,
    /// From where a block of another tool begins, which may be several of ours, to where control went from it.
    pub(super) blocks: BTreeMap<(u64, u64), u64>,
    /// From the first instruction that ran to the last, one after the other.
    pub(super) stretches: BTreeMap<(u64, u64), u64>,
}

impl Sampled {
    pub(super) fn branch(&mut self, from: Option<u64>, to: u64, count: u64) {
        add(self.branches.entry((from, to)).or_default(), count);
    }

    pub(super) fn block(&mut self, start: u64, to: u64, count: u64) {
        add(self.blocks.entry((start, to)).or_default(), count);
    }

    pub(super) fn stretch(&mut self, first: u64, last: u64, count: u64) {
        add(self.stretches.entry((first, last)).or_default(), count);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.branches.is_empty() && self.blocks.is_empty() && self.stretches.is_empty()
    }
}

fn add(sum: &mut u64, count: u64) {
    *sum = sum.saturating_add(count);
}

/// How likely a count is right that was sampled often; and one that says that something was never seen.
const SAMPLED: Confidence = Confidence::new(95);
const NEVER_SEEN: Confidence = Confidence::new(90);
/// That a function never ran of which nothing was seen.
const NOTHING_SEEN: Confidence = Confidence::new(60);

/// The same by function, block and edge.
pub(super) struct Seen {
    functions: Vec<Option<SeenFunction>>,
    /// By call site.
    targets: BTreeMap<(usize, u64), u64>,
    placed: Placed,
}

struct SeenFunction {
    blocks: Vec<u64>,
    edges: Vec<u64>,
    /// Whether stretches are known, so that blocks that are in none did not run.
    has_stretches: bool,
}

impl Seen {
    pub(super) fn of(sampled: &Sampled, module: &Module) -> Self {
        let mut placing = Placing::new(module);
        for (&(from, to), &count) in &sampled.branches {
            let found = placing.branch(from, to, count);
            placing.tally(found, count);
        }
        for (&(start, to), &count) in &sampled.blocks {
            let found = placing.block(start, to, count);
            placing.tally(found, count);
        }
        for (&(first, last), &count) in &sampled.stretches {
            let found = placing.stretch(first, last, count);
            placing.tally(found, count);
        }
        placing.seen
    }

    pub(super) fn put(&self, module: &mut Module) -> (Placed, Vec<usize>) {
        let mut known = Vec::new();
        for (i, (function, seen)) in module.functions.iter_mut().zip(&self.functions).enumerate() {
            if function.state != State::Measured {
                continue;
            }
            match seen {
                Some(seen) => {
                    seen.put(function);
                    known.push(i);
                }
                None => {
                    let never = Some(Count::sampled(0, NOTHING_SEEN));
                    function.blocks.iter_mut().for_each(|block| block.count = never);
                    function.edges.iter_mut().for_each(|edge| edge.count = never);
                }
            }
        }
        for (&(site, address), &count) in &self.targets {
            if let Some(site) = module.sites.get_mut(site) {
                site.targets.push(TargetCount { target: Target::Own(address), count });
            }
        }
        (Placed { functions: known.len() as u64, ..self.placed }, known)
    }
}

impl SeenFunction {
    fn put(&self, function: &mut Function) {
        let count = |seen: u64| {
            Some(if seen > 0 { Count::sampled(seen, SAMPLED) } else { Count::sampled(0, NEVER_SEEN) })
        };
        if self.has_stretches {
            let mut entered = vec![0u64; self.blocks.len()];
            for (edge, &seen) in function.edges.iter().zip(&self.edges) {
                if let Some(block) = edge.to.as_block() {
                    add(&mut entered[block as usize], seen);
                }
            }
            // What was entered more often than run through was not seen in whole.
            for ((block, &seen), entered) in function.blocks.iter_mut().zip(&self.blocks).zip(entered) {
                block.count = if seen >= entered { count(seen) } else { None };
            }
        }
        for (edge, &seen) in function.edges.iter_mut().zip(&self.edges) {
            let is_told = seen > 0 || !is_often_left_out(edge.kind);
            edge.count = if is_told { count(seen) } else { None };
        }
        if !self.has_stretches {
            // What was seen to enter a block or to leave it ran it. Noise makes one more than the other; what was seen happened.
            let through = along(function, |edge| edge.to).into_iter().zip(along(function, |edge| edge.from));
            let through: Vec<Option<u64>> = through.map(|(entered, left)| entered.max(left)).collect();
            for (block, seen) in function.blocks.iter_mut().zip(through) {
                block.count = seen.and_then(count);
            }
        }
    }
}

/// For each block, how often control went along its edges at one end, if it has some and all are told.
fn along(function: &Function, end: impl Fn(&Edge) -> Node) -> Vec<Option<u64>> {
    let mut sums: Vec<Option<Option<u64>>> = vec![None; function.blocks.len()];
    for edge in &function.edges {
        if let Some(block) = end(edge).as_block() {
            let sum = sums[block as usize].get_or_insert(Some(0));
            *sum = sum.zip(edge.count).map(|(sum, count)| sum.saturating_add(count.value()));
        }
    }
    sums.into_iter().map(Option::flatten).collect()
}

/// How often calls come back, and functions are entered and left, is often not told, and follows from the rest.
fn is_often_left_out(kind: EdgeKind) -> bool {
    use EdgeKind::{CallReturn, Enter, NoReturn, Return, TailCall};
    matches!(kind, CallReturn | Return | Enter | TailCall | NoReturn)
}

/// While ways are looked up.
struct Placing<'m> {
    module: &'m Module,
    /// Where each block begins, which function it is of, and which block.
    starts: Vec<(u64, u32, u32)>,
    /// Edges by function, and by where they begin and end.
    edges: HashMap<(u32, Node, Node), u32>,
    seen: Seen,
}

/// A block of a function.
#[derive(Clone, Copy, PartialEq, Eq)]
struct At {
    function: u32,
    block: u32,
}

impl<'m> Placing<'m> {
    fn new(module: &'m Module) -> Self {
        let (mut starts, mut edges) = (Vec::new(), HashMap::new());
        for (function, i) in module.functions.iter().zip(0..) {
            if function.state != State::Measured {
                continue;
            }
            starts.extend(function.blocks.iter().zip(0..).map(|(block, j)| (block.address, i, j)));
            for (edge, j) in function.edges.iter().zip(0..) {
                edges.entry((i, edge.from, edge.to)).or_insert(j);
            }
        }
        starts.sort_unstable();
        let functions = module.functions.iter().map(|_| None).collect();
        let seen = Seen { functions, targets: BTreeMap::new(), placed: Placed::default() };
        Self { module, starts, edges, seen }
    }

    fn tally(&mut self, found: Option<()>, count: u64) {
        let placed = &mut self.seen.placed;
        add(if found.is_some() { &mut placed.seen } else { &mut placed.impossible }, count);
    }

    /// The block around an address, and whether it begins there.
    fn at(&self, address: u64) -> Option<(At, bool)> {
        let behind = self.starts.partition_point(|&(start, ..)| start <= address);
        let &(start, function, block) = self.starts[..behind].last()?;
        let size = self.function(function).blocks[block as usize].size;
        (address - start < u64::from(size)).then_some((At { function, block }, address == start))
    }

    fn function(&self, index: u32) -> &'m Function {
        &self.module.functions[index as usize]
    }

    fn seen_of(&mut self, function: u32) -> &mut SeenFunction {
        let known = self.function(function);
        self.seen.functions[function as usize].get_or_insert_with(|| SeenFunction {
            blocks: vec![0; known.blocks.len()],
            edges: vec![0; known.edges.len()],
            has_stretches: false,
        })
    }

    fn count_edge(&mut self, function: u32, edge: u32, count: u64) {
        add(&mut self.seen_of(function).edges[edge as usize], count);
    }

    /// A branch that was taken, a call, or a return.
    fn branch(&mut self, from: Option<u64>, to: u64, count: u64) -> Option<()> {
        let (to_at, begins) = self.at(to)?;
        let from_at = from.and_then(|from| self.at(from)).map(|(at, _)| at);
        if !begins {
            return None;
        }
        let target = Node::block(to_at.block);
        let called = from.zip(from_at).and_then(|(from, at)| self.call(from, at, to, count));
        if called.is_none()
            && let Some(from_at) = from_at.filter(|at| at.function == to_at.function)
            && self.inside(from_at, to_at, count).is_some()
        {
            return Some(());
        }
        if let Some(&edge) = self.edges.get(&(to_at.function, Node::OUTSIDE, target)) {
            self.count_edge(to_at.function, edge, count);
            return Some(());
        }
        self.came_back(from_at, to_at, count).or_else(|| self.caught(to_at, count))
    }

    /// A branch between two blocks of a function, perhaps through a table.
    fn inside(&mut self, from: At, to: At, count: u64) -> Option<()> {
        let (source, target) = (Node::block(from.block), Node::block(to.block));
        if let Some(&edge) = self.edges.get(&(from.function, source, target)) {
            if self.function(from.function).edges[edge as usize].kind == EdgeKind::LandingPad {
                return None;
            }
            self.count_edge(from.function, edge, count);
            return Some(());
        }
        let through = (0..self.function(from.function).hubs).map(Node::hub).find_map(|hub| {
            let in_edge = *self.edges.get(&(from.function, source, hub))?;
            Some((in_edge, *self.edges.get(&(from.function, hub, target))?))
        });
        let (in_edge, out_edge) = through?;
        self.count_edge(from.function, in_edge, count);
        self.count_edge(from.function, out_edge, count);
        Some(())
    }

    /// A call, or a jump to another function: whether there is one at that instruction.
    fn call(&mut self, from: u64, at: At, to: u64, count: u64) -> Option<()> {
        let function = self.function(at.function);
        let call = function.calls.iter().find(|call| call.address == from)?;
        match call.callee {
            Callee::Direct { address, .. } if address != to => return None,
            Callee::Import { .. } => return None,
            Callee::Indirect { site: Some(site) } => {
                add(self.seen.targets.entry((site.index() as usize, to)).or_default(), count);
            }
            _ => {}
        }
        match call.by {
            CalledBy::Edge(edge) => self.count_edge(at.function, edge, count),
            // The block ran at least that often; what it did then is told by other ways.
            CalledBy::Block(_) => {
                self.seen_of(at.function);
            }
        }
        Some(())
    }

    /// A return to behind a call.
    fn came_back(&mut self, from: Option<At>, to: At, count: u64) -> Option<()> {
        let function = self.function(to.function);
        let target = Node::block(to.block);
        let edge = function.edges.iter().position(|e| e.to == target && e.kind == EdgeKind::CallReturn)?;
        self.count_edge(to.function, edge as u32, count);
        if let Some(from) = from {
            let source = Node::block(from.block);
            let returns = self
                .function(from.function)
                .edges
                .iter()
                .position(|e| e.from == source && e.kind == EdgeKind::Return);
            if let Some(edge) = returns {
                self.count_edge(from.function, edge as u32, count);
            }
        }
        Some(())
    }

    /// An exception: which call threw it is not told if several lead there.
    fn caught(&mut self, to: At, count: u64) -> Option<()> {
        let function = self.function(to.function);
        let target = Node::block(to.block);
        let edge = function.edges.iter().position(|e| e.to == target && e.kind == EdgeKind::LandingPad)?;
        self.count_edge(to.function, edge as u32, count);
        Some(())
    }

    /// A way out of what another tool takes for one block: of the blocks that follow each other there, the first that it can be of.
    fn block(&mut self, start: u64, to: u64, count: u64) -> Option<()> {
        let ((mut at, begins), (to, begins_too)) = (self.at(start)?, self.at(to)?);
        (begins && begins_too && at.function == to.function).then_some(())?;
        loop {
            if self.inside(at, to, count).is_some() {
                return Some(());
            }
            let block = &self.function(at.function).blocks[at.block as usize];
            let (next, _) = self.at(block.address + u64::from(block.size)).filter(|&(next, begins)| {
                let edge = (at.function, Node::block(at.block), Node::block(next.block));
                begins && next.function == at.function && self.edges.contains_key(&edge)
            })?;
            at = next;
        }
    }

    /// Everything between two instructions ran.
    fn stretch(&mut self, first: u64, last: u64, count: u64) -> Option<()> {
        let (from, _) = self.at(first)?;
        let function = self.function(from.function);
        // First find the way, so that a stretch that cannot be leaves no trace.
        let (mut blocks, mut edges) = (vec![from.block], Vec::new());
        let mut at = from;
        loop {
            let block = &function.blocks[at.block as usize];
            let end = block.address + u64::from(block.size);
            if last < end {
                break;
            }
            let (next, _) = self.at(end).filter(|(next, begins)| *begins && next.function == at.function)?;
            let edge = *self.edges.get(&(at.function, Node::block(at.block), Node::block(next.block)))?;
            blocks.push(next.block);
            edges.push(edge);
            at = next;
        }
        (first <= last).then_some(())?;
        let seen = self.seen_of(from.function);
        seen.has_stretches = true;
        for block in blocks {
            add(&mut seen.blocks[block as usize], count);
        }
        for edge in edges {
            add(&mut seen.edges[edge as usize], count);
        }
        Some(())
    }
}
