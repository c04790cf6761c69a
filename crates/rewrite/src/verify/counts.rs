//! Whether the counters that the new code increments tell what the plan says they tell.
//!
//! A counter need not sit on what it counts: if a block has one way out only, counting the block counts the
//! way. So for every counter the difference between where it is incremented and what it stands for must
//! vanish on every way from outside to outside; that is so if it is the difference of two numbers, one for
//! each node, with zero for the outside. All counters are checked at once, each with a weight of its own.

use relive_probe::describe::Measured;
use relive_probe::graph::Node;
use std::collections::VecDeque;

/// A number that stands for a counter in sums.
pub(super) fn weight(counter: u32) -> u64 {
    // splitmix64
    let mut x = (u64::from(counter) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// What the new code increments.
pub(super) struct Increments {
    /// On the way along each arc; `None` for one that was not walked.
    pub(super) arcs: Vec<Option<u64>>,
    /// In each block; `None` for one that was not walked.
    pub(super) blocks: Vec<Option<u64>>,
}

/// A place where counts would be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wrong {
    /// By index.
    Arc(usize),
    /// By index.
    Block(usize),
}

/// Compares what is incremented with the plan. Returns the first place where the two do not fit.
pub(super) fn check(measured: &Measured, increments: &Increments) -> Option<Wrong> {
    let (flow, plan) = (&measured.flow, &measured.plan);
    let planned = |counter: Option<u32>| counter.map_or(0, weight);
    let outside = 2 * flow.blocks + flow.hubs.len();
    let (head, tail) = (|block: usize| 2 * block, |block: usize| 2 * block + 1);
    let leaving = |node: Node| match node {
        Node::Outside => outside,
        Node::Block(block) => tail(block.index()),
        Node::Hub(hub) => 2 * flow.blocks + hub as usize,
    };
    let entering = |node: Node| match node {
        Node::Block(block) => head(block.index()),
        node => leaving(node),
    };
    let mut steps: Vec<(usize, usize, u64, Wrong)> = Vec::new();
    for (i, arc) in flow.arcs.iter().enumerate() {
        if let Some(incremented) = increments.arcs[i] {
            let excess = incremented.wrapping_sub(planned(plan.arcs[i]));
            steps.push((leaving(arc.from), entering(arc.to), excess, Wrong::Arc(i)));
        }
    }
    for (i, incremented) in increments.blocks.iter().enumerate() {
        if let Some(incremented) = incremented {
            let excess = incremented.wrapping_sub(planned(plan.blocks[i]));
            steps.push((head(i), tail(i), excess, Wrong::Block(i)));
        }
    }
    let mut touching: Vec<Vec<usize>> = vec![Vec::new(); outside + 1];
    for (i, &(from, to, ..)) in steps.iter().enumerate() {
        touching[from].push(i);
        touching[to].push(i);
    }
    let mut level: Vec<Option<u64>> = vec![None; outside + 1];
    // What hangs on nothing is taken to hang on the outside by one of its nodes.
    for root in std::iter::once(outside).chain(0..outside) {
        if level[root].is_some() {
            continue;
        }
        level[root] = Some(0);
        let mut todo = VecDeque::from([root]);
        while let Some(node) = todo.pop_front() {
            let here = level[node].unwrap_or(0);
            for &i in &touching[node] {
                let (from, to, excess, wrong) = steps[i];
                let (other, expected) = if from == node {
                    (to, here.wrapping_add(excess))
                } else {
                    (from, here.wrapping_sub(excess))
                };
                match level[other] {
                    None => {
                        level[other] = Some(expected);
                        todo.push_back(other);
                    }
                    Some(known) if from == to && excess != 0 || other != node && known != expected => {
                        return Some(wrong);
                    }
                    Some(_) => {}
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_code::cfg::BlockId;
    use relive_probe::graph::{Arc, ArcKind, Flow};
    use relive_probe::placement::Plan;
    use std::collections::HashMap;

    /// outside → 0 → {1, 2} → outside; the arc 0 → 1 has the counter.
    fn fork() -> Measured {
        let block = |n| Node::Block(BlockId(n));
        let arc = |from, to, kind| Arc { from, to, kind };
        let arcs = vec![
            arc(Node::Outside, block(0), ArcKind::Enter),
            arc(block(0), block(1), ArcKind::Taken),
            arc(block(0), block(2), ArcKind::FallThrough),
            arc(block(1), Node::Outside, ArcKind::Return),
            arc(block(2), Node::Outside, ArcKind::Return),
        ];
        let flow = Flow { blocks: 3, arcs, ..Flow::default() };
        let plan = Plan {
            blocks: vec![None; 3],
            arcs: vec![None, Some(0), None, None, None],
            counters: 1,
            ..Plan::default()
        };
        Measured { flow, plan, first_counter: 0, sites: HashMap::new() }
    }

    fn increments(arcs: [u64; 5], blocks: [u64; 3]) -> Increments {
        Increments { arcs: arcs.map(Some).to_vec(), blocks: blocks.map(Some).to_vec() }
    }

    #[test]
    fn a_counter_may_move_where_it_counts_the_same() {
        let w = weight(0);
        for right in [
            increments([0, w, 0, 0, 0], [0; 3]),
            increments([0; 5], [0, w, 0]),
            increments([0, 0, 0, w, 0], [0; 3]),
        ] {
            assert_eq!(check(&fork(), &right), None);
        }
        for wrong in [
            increments([0; 5], [0; 3]),
            increments([0; 5], [w, 0, 0]),
            increments([0; 5], [0, 0, w]),
            increments([0, w, 0, 0, 0], [0, w, 0]),
            increments([0, w, w, 0, 0], [0; 3]),
            increments([0, weight(1), 0, 0, 0], [0; 3]),
        ] {
            assert!(check(&fork(), &wrong).is_some());
        }
    }
}
