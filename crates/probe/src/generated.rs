//! A module of code that is in no file: what a program made, as far as it was executed.
//!
//! There is nothing that tells where functions begin and what else they have, so that what was executed is all there
//! is: blocks are what runs from one jump or target to the next, and a function is what hangs together by jumps.
//! Somebody may know names, and then also how long a function is.

use crate::describe::loops_of;
use crate::observed::{Observed, To};
use relive_abi::hash;
use relive_abi::rprof::SlotLayout;
use relive_code::addr::LinkAddr;
use relive_code::graph::Graph;
use relive_code::isa::{Flow, Insn};
use relive_profile::flow;
use relive_profile::model::{
    Block, Call, CallSite, CalledBy, Callee, Edge, EdgeKind, Function, Module, Node, Piece, SiteId, State,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Code in no file.
pub struct Code<'a> {
    /// Where it begins and its bytes, by address.
    pub ranges: &'a [(u64, Vec<u8>)],
    /// What was executed in one go: from where to where.
    pub straight: &'a [(u64, u64)],
    /// Where direct jumps and calls lead, by where they end and the address they name. Those that are not in it were not
    /// taken.
    pub ways: HashMap<(u64, u64), To>,
    /// Places that others jump to or call.
    pub entries: BTreeSet<u64>,
    /// The name of an address: where what has the name begins, and how it is called.
    pub name: &'a dyn Fn(u64) -> Option<(u64, String)>,
    /// Whether an address has had other code too.
    pub changes: &'a dyn Fn(u64) -> bool,
}

/// Stands for the code, as there is no build.
#[must_use]
pub fn build_id(ranges: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let hash = ranges
        .iter()
        .fold(hash::EMPTY, |hash, (at, bytes)| hash::fnv1a(hash::fnv1a(hash, &at.to_le_bytes()), bytes));
    hash.to_le_bytes().to_vec()
}

/// An instruction that was executed.
#[derive(Clone, Copy)]
struct Step {
    len: u64,
    flow: Flow,
}

/// A block, and how it ends.
struct Straight {
    start: u64,
    end: u64,
    insns: u32,
    last: u64,
    flow: Flow,
}

/// The module, with what was counted filled in.
#[must_use]
pub fn module(path: &str, code: &Code<'_>, mut observed: Observed) -> Module {
    let steps = decode(code);
    let entries = entries(code, &steps);
    let blocks = blocks(code, &steps, &entries, &observed);
    let groups = group(code, &blocks, &entries, &observed);
    let mut module = Module { path: path.to_string(), build_id: build_id(code.ranges), ..Module::default() };
    for group in groups {
        let writer =
            Writer { code, blocks: &blocks, group: &group, observed: &mut observed, module: &mut module };
        let function = writer.function(&entries);
        module.functions.push(function);
    }
    module.layout = SlotLayout { sites: module.sites.len() as u32, ..SlotLayout::default() };
    observed.fill(&mut module);
    let reason = "parts of it were changed, and ways to one version of a block are counted for the other";
    for function in module.functions.iter_mut().filter(|f| !flow::check(f).is_empty()) {
        if function.blocks.iter().any(|block| (code.changes)(block.address)) {
            function.approximate = Some(module.texts.intern(reason));
        }
    }
    module
}

/// The bytes at an address.
fn bytes<'a>(code: &Code<'a>, at: u64) -> &'a [u8] {
    let after = code.ranges.partition_point(|(start, _)| *start <= at);
    let Some((start, bytes)) = code.ranges[..after].last() else { return &[] };
    bytes.get((at - start) as usize..).unwrap_or_default()
}

fn decode(code: &Code<'_>) -> BTreeMap<u64, Step> {
    let mut steps = BTreeMap::new();
    for &(start, end) in code.straight {
        let mut at = start;
        while at < end && !steps.contains_key(&at) {
            let Some(insn) = Insn::decode(bytes(code, at), LinkAddr(at)) else { break };
            steps.insert(at, Step { len: insn.len(), flow: insn.flow() });
            at += insn.len();
        }
    }
    steps
}

/// Where functions are entered, as far as somebody calls them or names them.
fn entries(code: &Code<'_>, steps: &BTreeMap<u64, Step>) -> BTreeSet<u64> {
    let mut entries = code.entries.clone();
    for (&at, step) in steps {
        if let Flow::Call(to) = step.flow
            && let Some(&To::Own(to)) = code.ways.get(&(at + step.len, to.0))
        {
            entries.insert(to);
        }
    }
    entries.retain(|at| steps.contains_key(at));
    entries
}

fn blocks(
    code: &Code<'_>,
    steps: &BTreeMap<u64, Step>,
    entries: &BTreeSet<u64>,
    observed: &Observed,
) -> Vec<Straight> {
    let mut leaders = entries.clone();
    leaders.extend(observed.own_targets());
    for (&at, step) in steps {
        let next = at + step.len;
        match step.flow {
            // Somebody came or went by a way of its own: a signal.
            Flow::Next if observed.executed(at) == observed.executed(next) => continue,
            Flow::Branch(to) | Flow::Jump(to) => {
                if let Some(&To::Own(to)) = code.ways.get(&(next, to.0)) {
                    leaders.insert(to);
                }
            }
            _ => {}
        }
        leaders.insert(next);
    }
    let mut blocks: Vec<Straight> = Vec::new();
    let mut done = BTreeSet::new();
    let starts = leaders.iter().copied().chain(steps.keys().copied()).filter(|at| steps.contains_key(at));
    for start in starts {
        if done.contains(&start) {
            continue;
        }
        let mut block = Straight { start, end: start, insns: 0, last: start, flow: Flow::Next };
        while let Some(step) = steps.get(&block.end) {
            done.insert(block.end);
            block.last = block.end;
            block.end += step.len;
            block.insns += 1;
            block.flow = step.flow;
            if step.flow != Flow::Next || leaders.contains(&block.end) {
                break;
            }
        }
        blocks.push(block);
    }
    blocks.sort_unstable_by_key(|block| block.start);
    blocks
}

/// Where a block leads to inside generated code, how, and whether the other end belongs to the same function for sure.
fn ways<'a>(
    code: &'a Code<'_>,
    block: &'a Straight,
    observed: &'a Observed,
) -> impl Iterator<Item = (EdgeKind, u64)> + 'a {
    let next = match block.flow {
        Flow::Next | Flow::Branch(_) => Some((EdgeKind::FallThrough, block.end)),
        Flow::Call(_) | Flow::IndirectCall => Some((EdgeKind::CallReturn, block.end)),
        _ => None,
    };
    let named = match block.flow {
        Flow::Branch(to) => Some((EdgeKind::Taken, to.0)),
        Flow::Jump(to) => Some((EdgeKind::Jump, to.0)),
        _ => None,
    };
    let named = named.and_then(|(kind, to)| match code.ways.get(&(block.end, to)) {
        Some(&To::Own(to)) => Some((kind, to)),
        _ => None,
    });
    let is_computed = block.flow == Flow::IndirectJump;
    let computed = observed.targets_of(block.last).filter(move |_| is_computed).filter_map(|to| match to {
        To::Own(to) => Some((EdgeKind::Case, *to)),
        _ => None,
    });
    next.into_iter().chain(named).chain(computed)
}

/// Blocks that are one function, by the function's first address. A jump to where others call is a call.
fn group(
    code: &Code<'_>,
    blocks: &[Straight],
    entries: &BTreeSet<u64>,
    observed: &Observed,
) -> Vec<Vec<usize>> {
    let mut parent: Vec<usize> = (0..blocks.len()).collect();
    fn root(parent: &mut [usize], mut i: usize) -> usize {
        while parent[i] != i {
            parent[i] = parent[parent[i]];
            i = parent[i];
        }
        i
    }
    let symbol: Vec<Option<u64>> = blocks.iter().map(|b| (code.name)(b.start).map(|(at, _)| at)).collect();
    let mut first: HashMap<u64, usize> = HashMap::new();
    for (i, block) in blocks.iter().enumerate() {
        let named = symbol[i].and_then(|at| first.get(&at).copied());
        if let Some(at) = symbol[i] {
            first.entry(at).or_insert(i);
        }
        let inner = ways(code, block, observed).filter_map(|(kind, to)| {
            let stays =
                matches!(kind, EdgeKind::FallThrough | EdgeKind::CallReturn) || !entries.contains(&to);
            let other = blocks.binary_search_by_key(&to, |b| b.start).ok()?;
            (stays && symbol[i] == symbol[other]).then_some(other)
        });
        for other in inner.chain(named).collect::<Vec<_>>() {
            let (a, b) = (root(&mut parent, i), root(&mut parent, other));
            parent[a.max(b)] = a.min(b);
        }
    }
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for i in 0..blocks.len() {
        groups.entry(root(&mut parent, i)).or_default().push(i);
    }
    let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
    for group in &mut groups {
        // The lowest block that is called is the entry, and comes first.
        let entry = group.iter().position(|&b| entries.contains(&blocks[b].start)).unwrap_or(0);
        group.rotate_left(entry);
        let from = group.len() - entry;
        group[from..].sort_unstable();
    }
    groups.sort_unstable_by_key(|group| blocks[group[0]].start);
    groups
}

struct Writer<'a, 'c> {
    code: &'a Code<'c>,
    blocks: &'a [Straight],
    /// Which of them.
    group: &'a [usize],
    observed: &'a mut Observed,
    module: &'a mut Module,
}

impl Writer<'_, '_> {
    fn function(self, entries: &BTreeSet<u64>) -> Function {
        let Self { code, blocks, group, observed, module } = self;
        let number = module.functions.len() as u32;
        let entry = blocks[group[0]].start;
        let name = module.texts.intern(&name(code, entry));
        let mut function = Function::new(name, entry, 0, State::Measured);
        let inside: HashMap<u64, u32> = group.iter().zip(0..).map(|(&b, i)| (blocks[b].start, i)).collect();
        let mut leave = Vec::new();
        for (&b, i) in group.iter().zip(0..) {
            let block = &blocks[b];
            function.blocks.push(Block {
                address: block.start,
                size: (block.end - block.start) as u32,
                insns: block.insns,
                line: None,
                is_entry: i == 0 || entries.contains(&block.start),
                is_landing_pad: false,
                counter: None,
                count: None,
            });
            let edge = |to: Node, kind| Edge { from: Node::block(i), to, kind, counter: None, count: None };
            let ways: Vec<_> = ways(code, block, observed).collect();
            for &(kind, to) in &ways {
                if let Some(&to) = inside.get(&to) {
                    function.edges.push(edge(Node::block(to), kind));
                }
            }
            let leaves = |kind: EdgeKind| ways.iter().any(|(k, to)| *k == kind && !inside.contains_key(to));
            // A jump that leads to other code, of whatever kind.
            let named = match block.flow {
                Flow::Branch(to) | Flow::Jump(to) => code.ways.get(&(block.end, to.0)),
                _ => None,
            };
            let tail = match block.flow {
                Flow::Branch(_) | Flow::Jump(_) => {
                    named.is_some_and(|to| !matches!(to, To::Own(to) if inside.contains_key(to)))
                }
                Flow::IndirectJump => {
                    let all: Vec<_> = observed.targets_of(block.last).collect();
                    let own = |to: &To| matches!(to, To::Own(to) if inside.contains_key(to));
                    all.is_empty() || !all.iter().all(|to| own(to))
                }
                _ => false,
            };
            match block.flow {
                Flow::Return => function.edges.push(edge(Node::OUTSIDE, EdgeKind::Return)),
                Flow::Call(_) | Flow::IndirectCall | Flow::Stop => {
                    function.edges.push(edge(Node::OUTSIDE, EdgeKind::NoReturn));
                }
                // What comes next was not executed, or is somebody else's.
                Flow::Next | Flow::Branch(_) if leaves(EdgeKind::FallThrough) => {
                    function.edges.push(edge(Node::OUTSIDE, EdgeKind::NoReturn));
                }
                _ => {}
            }
            if tail {
                leave.push((CalledBy::Edge(function.edges.len() as u32), i, block));
                function.edges.push(edge(Node::OUTSIDE, EdgeKind::TailCall));
            }
            if matches!(block.flow, Flow::Call(_) | Flow::IndirectCall) {
                leave.push((CalledBy::Block(i), i, block));
            }
        }
        observed.measure(&mut function);
        for i in 0..function.blocks.len() as u32 {
            let node = Node::block(i);
            let block = function.blocks[i as usize];
            let differs = |of: fn(&Edge) -> Node| {
                let mut edges = function.edges.iter().filter(|edge| of(edge) == node);
                edges
                    .try_fold(0u64, |sum, e| Some(sum.wrapping_add(e.count?.raw)))
                    .is_some_and(|sum| block.count.is_some_and(|count| count.raw != sum))
            };
            // Returns to where nobody called, handlers of exceptions, and what ends in between.
            let (enters, ends) = (block.is_entry || differs(|e| e.to), differs(|e| e.from));
            let edge = |from, to, kind| Edge { from, to, kind, counter: None, count: None };
            if enters {
                function.blocks[i as usize].is_entry = true;
                function.edges.push(edge(Node::OUTSIDE, node, EdgeKind::Enter));
            }
            if ends {
                function.edges.push(edge(node, Node::OUTSIDE, EdgeKind::NoReturn));
            }
        }
        for (by, i, block) in leave {
            let callee = callee(code, block, (number, i), observed, module);
            function.calls.push(Call { by, address: block.last, callee });
        }
        pieces(code, &mut function);
        let inner = function.edges.iter().filter_map(|e| Some((e.from.as_block()?, e.to.as_block()?)));
        let graph = Graph::from_edges(function.blocks.len(), &inner.collect::<Vec<_>>());
        let roots: Vec<u32> =
            (0..).zip(&function.blocks).filter(|(_, b)| b.is_entry).map(|(i, _)| i).collect();
        function.loops = loops_of(&graph, &roots);
        function
    }
}

/// What a call or a jump to other code calls. Where it leads out of the module, that is noted as for a computed one.
fn callee(
    code: &Code<'_>,
    block: &Straight,
    (function, number): (u32, u32),
    observed: &mut Observed,
    module: &mut Module,
) -> Callee {
    if let Flow::Call(to) | Flow::Branch(to) | Flow::Jump(to) = block.flow {
        match code.ways.get(&(block.end, to.0)) {
            Some(&To::Own(address)) => {
                let name = module.texts.intern(&name(code, address));
                return Callee::Direct { address, name };
            }
            Some(to) => {
                let count = match block.flow {
                    Flow::Branch(_) => observed.left(block.end),
                    _ => observed.executed(block.last),
                };
                observed.add_target(block.last, to.clone(), count);
            }
            None => return Callee::Indirect { site: None },
        }
    }
    let site = SiteId::new(module.sites.len() as u32);
    module.sites.push(CallSite { function, block: number, address: block.last, targets: Vec::new() });
    Callee::Indirect { site: Some(site) }
}

/// The name of what begins at an address.
fn name(code: &Code<'_>, at: u64) -> String {
    (code.name)(at).map_or_else(|| format!("fn_{at:x}"), |(_, name)| name)
}

/// The code of a function whose blocks are known. The first piece is the one that begins with the entry.
fn pieces(code: &Code<'_>, function: &mut Function) {
    for block in &function.blocks {
        let size = u64::from(block.size);
        match function.pieces.last_mut() {
            Some(piece) if piece.start + piece.len == block.address => piece.len += size,
            _ => function.pieces.push(Piece { start: block.address, len: size }),
        }
    }
    for piece in &function.pieces {
        function.code.extend(&bytes(code, piece.start)[..piece.len as usize]);
    }
    function.size = function.pieces.iter().map(|piece| piece.len).sum();
}
