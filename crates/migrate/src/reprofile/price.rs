//! What counting costs: how often counters would be incremented, by what an old profile says.
//!
//! A program spends most of its time in little of its code. So most entries of a profile cost next to nothing to count, and
//! nothing is gained by taking them over; what is worth a thought are the few that do cost.

use super::behaviour::Behaviour;
use super::entries::{self, Entry};
use crate::carry::settle::Graph;
use relive_profile::model::{Count, Function, Module, Node};

/// What counting an entry by itself costs.
#[must_use]
pub fn of(function: &Function, entry: Entry) -> u64 {
    match entry {
        // No counter can be put on an edge alone: the others are told by it.
        Entry::Edge(_) => whole(function),
        Entry::Block(_) | Entry::Function => entry.count(function).unwrap_or(0),
    }
}

/// What measuring all of a function costs: counters are on what is not on the heaviest spanning tree of its flow.
#[must_use]
pub fn whole(function: &Function) -> u64 {
    let graph = Graph::new(function);
    let value = |count: Option<Count>| count.map_or(0, Count::value);
    let blocks = (0..).zip(&function.blocks).map(|(i, block)| {
        let node = Node::block(i);
        (value(block.count), graph.begin(node), graph.end(node))
    });
    let edges =
        function.edges.iter().map(|edge| (value(edge.count), graph.end(edge.from), graph.begin(edge.to)));
    let mut arcs: Vec<(u64, u32, u32)> = blocks.chain(edges).filter(|arc| arc.0 > 0).collect();
    arcs.sort_unstable_by_key(|arc| std::cmp::Reverse(arc.0));
    let mut trees: Vec<u32> = (0..graph.nodes).collect();
    let mut sum = 0u64;
    for (count, from, to) in arcs {
        let (from, to) = (root(&mut trees, from), root(&mut trees, to));
        if from == to {
            sum = sum.saturating_add(count);
        } else {
            trees[from as usize] = to;
        }
    }
    sum
}

/// The root of the tree that a node is in.
fn root(trees: &mut [u32], mut node: u32) -> u32 {
    while trees[node as usize] != node {
        trees[node as usize] = trees[trees[node as usize] as usize];
        node = trees[node as usize];
    }
    node
}

/// What it costs that a function is moved, whatever is counted in it: whoever calls it from where it was has one more jump to
/// make, and its code runs a bit slower, for its place alone.
#[must_use]
pub fn moved(function: &Function) -> u64 {
    let counts = function.blocks.iter().filter_map(|block| block.count);
    let blocks = counts.map(Count::value).fold(0, u64::saturating_add);
    let entries = function.entries().map_or(0, Count::value);
    (blocks / BLOCKS).saturating_add(entries)
}

/// So many blocks that were moved cost as much as one increment. By lua 5.5.1 (`relive-benchmarks profmig`), where all of it moved costs 3 %, and all
/// increments 4 %; a call of a function that was moved costs about as much as an increment.
const BLOCKS: u64 = 4;

/// How much may be spent on counting what is taken to hold all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The most that an entry may cost, together with its function.
    most: u64,
    /// The most that it may cost if its function is moved anyway.
    most_alone: u64,
    /// All increments, if everything is measured.
    increments: u128,
    /// The most of them that measuring what does not hold may take.
    pub(super) limit: u128,
}

impl Budget {
    /// Enough for the cheapest entries of the behaviours that together cost `share` of what it costs to measure everything.
    /// `carried` has the counts that are expected.
    #[must_use]
    pub fn new(carried: &Module, behaviours: &[&Behaviour], share: f64) -> Self {
        let (mut all, mut increments) = (0u128, 0u128);
        // What each entry costs by itself, with its function, and which one that is.
        let mut costs: Vec<(u64, u64, usize)> = Vec::new();
        for (i, function) in carried.functions.iter().enumerate() {
            let moved = moved(function);
            let whole = u128::from(whole(function));
            all += whole + u128::from(moved);
            increments += whole;
            let entries = behaviours.iter().flat_map(|behaviour| entries::of(function, behaviour.about));
            costs.extend(
                entries.map(|entry| of(function, entry)).map(|own| (own.saturating_add(moved), own, i)),
            );
        }
        // Half of it for functions that are only moved for this.
        let limit = (all as f64 * share / 2.0) as u128;
        costs.sort_unstable();
        let mut is_moved = vec![false; carried.functions.len()];
        let most = affordable(limit, &costs, |&(cost, own, function)| {
            let first = !std::mem::replace(&mut is_moved[function], true);
            (cost, if first { cost } else { own })
        });
        costs.sort_unstable_by_key(|&(_, own, _)| own);
        let most_alone = affordable(limit, &costs, |&(_, own, _)| (own, own));
        Self { most, most_alone, increments, limit: u128::MAX }
    }

    /// The same, and no more than a share of all increments is spent on what does not hold.
    #[must_use]
    pub fn within(self, share: f64) -> Self {
        Self { limit: (self.increments as f64 * share) as u128, ..self }
    }

    /// Whether an entry is cheap enough to be counted in any case, in a function that is moved anyway or is not.
    #[must_use]
    pub fn allows(self, function: &Function, entry: Entry, is_moved: bool) -> bool {
        let own = of(function, entry);
        if is_moved { own <= self.most_alone } else { own.saturating_add(moved(function)) <= self.most }
    }

    /// Whether it is not to be moved without need.
    #[must_use]
    pub fn spares(self, function: &Function) -> bool {
        moved(function) > self.most
    }
}

/// The highest cost up to which everything can be had within a limit. `costs` ascend; of each, `of` tells its cost, and what is spent on it.
fn affordable<T>(limit: u128, costs: &[T], mut of: impl FnMut(&T) -> (u64, u64)) -> u64 {
    let costs: Vec<(u64, u64)> = costs.iter().map(&mut of).collect();
    let (mut spent, mut most) = (0u128, 0);
    for same in costs.chunk_by(|a, b| a.0 == b.0) {
        spent += same.iter().map(|&(_, spent)| u128::from(spent)).sum::<u128>();
        if spent > limit {
            break;
        }
        most = same[0].0;
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reprofile::behaviour::Knowledge;
    use relive_profile::model::{Block, Edge, EdgeKind, Loop, State, TextId};

    /// A block, a loop of one block, and a block: entered `times`, with `rounds` each.
    fn looping(times: u64, rounds: u64) -> Function {
        let mut function = Function::new(TextId::default(), 0x1000, 12, State::Measured);
        let block = |(i, count): (u64, u64)| Block {
            address: 0x1000 + 4 * i,
            size: 4,
            insns: 1,
            line: None,
            is_entry: i == 0,
            is_landing_pad: false,
            counter: None,
            count: Some(Count::measured(count)),
        };
        function.blocks = [(0, times), (1, times * rounds), (2, times)].map(block).to_vec();
        let (out, b) = (Node::OUTSIDE, Node::block);
        function.edges = [
            (out, b(0), EdgeKind::Enter, times),
            (b(0), b(1), EdgeKind::FallThrough, times),
            (b(1), b(1), EdgeKind::Taken, times * (rounds - 1)),
            (b(1), b(2), EdgeKind::FallThrough, times),
            (b(2), out, EdgeKind::Return, times),
        ]
        .map(|(from, to, kind, count)| Edge {
            from,
            to,
            kind,
            counter: None,
            count: Some(Count::measured(count)),
        })
        .to_vec();
        function.loops = vec![Loop { header: 1, parent: None, depth: 0, line: None, blocks: vec![1] }];
        function
    }

    #[test]
    fn one_counter_for_the_way_in_and_one_for_the_rounds() {
        assert_eq!(whole(&looping(10, 100)), 10 + 990);
        assert_eq!(of(&looping(10, 100), Entry::Block(1)), 1000);
        assert_eq!(of(&looping(10, 100), Entry::Edge(0)), 1000);
    }

    #[test]
    fn the_cheapest_first() {
        let functions = vec![looping(10, 100), looping(1, 10), looping(2, 10)];
        let module = Module { functions, ..Module::default() };
        let knowledge = Knowledge::default();
        let loops = knowledge.find("loops").expect("known");
        // Counters cost 1030 and moving 277; the loops cost 1000 + 265, 10 + 4 and 20 + 8.
        let of = |share: f64| {
            let budget = Budget::new(&module, &[loops], share);
            module.functions.iter().map(|f| budget.allows(f, Entry::Block(1), false)).collect::<Vec<_>>()
        };
        assert_eq!(of(0.0), [false, false, false]);
        assert_eq!(of(0.03), [false, true, false]);
        assert_eq!(of(0.08), [false, true, true]);
        assert_eq!(of(2.0), [true, true, true]);
        let budget = Budget::new(&module, &[loops], 0.08);
        assert!(budget.spares(&module.functions[0]) && !budget.spares(&module.functions[1]));
        assert!(budget.allows(&module.functions[0], Entry::Block(0), true));
        assert!(!budget.allows(&module.functions[0], Entry::Block(0), false));
    }
}
