//! What a function did, as the branches that BOLT wants to see.
//!
//! BOLT's blocks are not those of a profile: it goes on behind calls, and takes a jump that follows a conditional one into the
//! same block. A way into the middle of one of its blocks would make it doubt the whole function, so such ways are left out;
//! they follow from the others. See `BinaryFunction::buildCFG` and `DataReader::recordBranch` in LLVM's `bolt/lib`.

use super::names::Names;
use crate::export::Summary;
use crate::flow::{Way, last_instruction, ways};
use crate::surroundings::Surroundings;
use relive_code::addr::LinkAddr;
use relive_code::isa::{Flow, Insn};
use relive_profile::model::{Callee, Count, EdgeKind, Function, Module, Origin, State, Target};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Where a branch starts or leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// Not in this file, or nobody knows.
    Unknown,
    /// An instruction, by its address.
    At(u64),
}

/// How control came from one end to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum How {
    /// It jumped, called or was caught.
    Branched,
    /// It went on.
    Continued,
}

/// How often control went from one instruction to another. By ends.
pub(crate) type Branches = BTreeMap<(End, End, How), u64>;

/// What there is to tell of a module, and of how many functions nothing can be told.
pub(crate) struct Told {
    pub(crate) branches: Branches,
    /// Functions whose branches are in.
    pub(crate) functions: u64,
    /// Functions that ran, but BOLT does not know them by any symbol.
    pub(crate) unknown: u64,
    /// Functions that ran, but the profile does not hold their code.
    pub(crate) without_code: u64,
    /// What ran less often is not told of, and how many branches did.
    pub(crate) least: u64,
    pub(crate) rare: u64,
}

impl Told {
    /// How many functions are told of, and what of the others.
    pub(crate) fn summary(&self) -> Summary {
        let mut summary = Summary { written: vec![("functions", self.functions)], notes: Vec::new() };
        if self.unknown > 0 {
            let note =
                format!("{} functions that ran have no symbol, and BOLT no name for them", self.unknown);
            summary.notes.push(note);
        }
        if self.without_code > 0 {
            let note =
                format!("of {} functions that ran the profile does not hold the code", self.without_code);
            summary.notes.push(note);
        }
        if self.rare > 0 {
            let note = format!("{} branches that ran less than {} times are left out", self.rare, self.least);
            summary.notes.push(note);
        }
        summary
    }

    /// Leaves out what ran less often than a share of all branches.
    pub(crate) fn leave_out_below(&mut self, share: f64) {
        let all = self.branches.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
        self.least = (all as f64 * share).ceil() as u64;
        let before = self.branches.len();
        self.branches.retain(|_, count| *count >= self.least);
        self.rare = (before - self.branches.len()) as u64;
    }
}

/// Collects the branches of a module.
pub(crate) fn collect(module: &Module, around: &dyn Surroundings, names: &Names) -> Told {
    let mut told =
        Told { branches: Branches::new(), functions: 0, unknown: 0, without_code: 0, least: 0, rare: 0 };
    let mut called: HashMap<u64, u64> = HashMap::new();
    for function in &module.functions {
        if function.entries().is_none_or(|count| count.value() == 0) && function.executed_insns() == 0 {
            continue;
        }
        if names.place(function.address).is_none() {
            told.unknown += 1;
            continue;
        }
        if function.code.is_empty() && function.state == State::Measured {
            told.without_code += 1;
            continue;
        }
        told.functions += 1;
        if !is_guessed(function) {
            let ways = ways(function, |at| around.cases(module, at));
            inside(function, names, &ways, &mut told.branches);
        }
        calls(module, function, &mut told.branches, &mut called);
    }
    for function in module.functions.iter().filter(|function| names.place(function.address).is_some()) {
        let entries = function.entries().map_or(0, Count::value);
        let rest = entries.saturating_sub(called.get(&function.address).copied().unwrap_or(0));
        add(&mut told.branches, (End::Unknown, End::At(function.address), How::Branched), rest);
    }
    told
}

/// Whether nothing but calls is known of a function: it is new in this build, and all counts in it follow from how often it is called and
/// from what code lets expect. BOLT would lay it out by that, and the compiler, which saw the source, did better: `sweeplist` of lua 5.5.0
/// took 1.27 million jumps where it was laid out by guesses, and 0.59 million as it was (workload `test`).
fn is_guessed(function: &Function) -> bool {
    let is_inferred = |count: Option<Count>| count.is_none_or(|count| count.origin == Origin::Inferred);
    function.blocks.iter().all(|block| is_inferred(block.count))
        && function.edges.iter().all(|edge| is_inferred(edge.count))
}

fn add(branches: &mut Branches, key: (End, End, How), count: u64) {
    if count > 0 {
        let sum = branches.entry(key).or_default();
        *sum = sum.saturating_add(count);
    }
}

/// Ways between blocks, and those into the function that do not lead to its first block.
fn inside(function: &Function, names: &Names, ways: &[Way], branches: &mut Branches) {
    let leaders = Leaders::new(function, names, ways);
    for way in ways {
        let Some(to) = function.blocks.get(way.to as usize).map(|block| block.address) else { continue };
        let from = match (way.kind, way.from) {
            // The unwinder jumps there, not the code that threw.
            (EdgeKind::LandingPad, _) => Some(End::Unknown),
            (_, None) => (to != function.address).then_some(End::Unknown),
            (_, Some(from)) if leaders.starts_block(way.to) => {
                function.blocks.get(from as usize).and_then(|b| last_instruction(function, b)).map(End::At)
            }
            _ => None,
        };
        let how = match way.kind {
            EdgeKind::FallThrough | EdgeKind::CallReturn => How::Continued,
            _ => How::Branched,
        };
        if let Some(from) = from {
            add(branches, (from, End::At(to), how), way.count);
        }
    }
}

/// Which blocks of a function BOLT begins a block at.
struct Leaders(HashSet<u32>);

impl Leaders {
    fn new(function: &Function, names: &Names, ways: &[Way]) -> Self {
        let mut leaders: HashSet<u32> = HashSet::new();
        for way in ways {
            if !matches!(way.kind, EdgeKind::FallThrough | EdgeKind::CallReturn) {
                leaders.insert(way.to);
            }
        }
        for way in ways {
            let (EdgeKind::FallThrough, Some(from)) = (way.kind, way.from) else { continue };
            let (Some(from), Some(to)) =
                (function.blocks.get(from as usize), function.blocks.get(way.to as usize))
            else {
                continue;
            };
            let Some(last) = last_instruction(function, from).and_then(|at| insn(function, at)) else {
                continue;
            };
            let stays = |target: LinkAddr| {
                names.place(target.0).map(|place| place.name) == names.place(from.address).map(|p| p.name)
            };
            // A jump behind a conditional jump belongs to the block of the latter, if both stay in the function.
            let begins = match last.flow() {
                Flow::Branch(target) => {
                    let jumps = insn(function, to.address).map(|insn| insn.flow());
                    !(stays(target) && matches!(jumps, Some(Flow::Jump(target)) if stays(target)))
                }
                flow => matches!(flow, Flow::Jump(_) | Flow::IndirectJump | Flow::Return | Flow::Stop),
            };
            if begins {
                leaders.insert(way.to);
            }
        }
        Self(leaders)
    }

    fn starts_block(&self, block: u32) -> bool {
        self.0.contains(&block)
    }
}

/// The instruction at an address.
fn insn(function: &Function, at: u64) -> Option<Insn> {
    (1..=15)
        .rev()
        .find_map(|len| function.bytes_at(at, len))
        .and_then(|bytes| Insn::decode(bytes, LinkAddr(at)))
}

/// Calls and jumps to other functions; `called` sums them up by what is called.
fn calls(module: &Module, function: &Function, branches: &mut Branches, called: &mut HashMap<u64, u64>) {
    for call in &function.calls {
        let Some(total) = module.call_count(function, call).map(Count::value) else { continue };
        let from = End::At(call.address);
        let mut known = 0u64;
        let mut to = |address: u64, count: u64| {
            known = known.saturating_add(count);
            add(branches, (from, End::At(address), How::Branched), count);
            let sum = called.entry(address).or_default();
            *sum = sum.saturating_add(count);
        };
        match call.callee {
            Callee::Direct { address, .. } => to(address, total),
            Callee::Import { .. } => {}
            Callee::Indirect { .. } => {
                for target in module.targets(call.callee) {
                    if let Target::Own(address) = target.target {
                        to(address, target.count);
                    }
                }
            }
        }
        add(branches, (from, End::Unknown, How::Branched), total.saturating_sub(known));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_profile::model::{Block, Confidence, Level, TextId};

    #[test]
    fn functions_of_which_nothing_is_known_but_calls() {
        let mut function = Function::new(TextId::default(), 0x1000, 4, State::Measured);
        let block = |origin| Block {
            address: 0x1000,
            size: 4,
            insns: 1,
            line: None,
            is_entry: false,
            is_landing_pad: false,
            counter: None,
            count: Some(Count { raw: 7, origin, confidence: Confidence::new(40) }),
        };
        function.blocks = vec![block(Origin::Inferred)];
        assert!(is_guessed(&function));
        function.blocks.push(block(Origin::Matched(Level::One)));
        assert!(!is_guessed(&function));
    }
}
