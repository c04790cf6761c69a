//! Successive shortest paths from where there is too much to where there is too little.
//!
//! A node has a *price*: what it costs, at least, to carry a unit from there to a node with too little. Measured against
//! prices no step is cheaper than nothing, so Dijkstra's search applies; it stops at the first
//! node with too little, and then raises the prices of what it came by. Nodes further away are not touched.

use super::Arc;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Makes `flows`, which leave `excess` at the nodes and cost nothing, into the cheapest that leave none.
pub(super) fn settle(arcs: &[Arc], flows: Vec<u64>, excess: Vec<i128>) -> Vec<u64> {
    let nodes = excess.len();
    let mut paths = Paths {
        arcs,
        steps: Steps::new(nodes, arcs),
        flows,
        excess,
        prices: vec![0; nodes],
        reached: vec![UNREACHED; nodes],
        seen: Vec::new(),
        way: Vec::new(),
        level: VecDeque::new(),
        heap: BinaryHeap::new(),
    };
    for source in 0..nodes as u32 {
        while paths.excess[source as usize] > 0 {
            let sink = paths.search(source).expect("what arrived can go back to where it came from");
            paths.raise_prices(sink);
            paths.carry(source, sink);
            paths.forget();
        }
    }
    paths.flows
}

/// One arc as seen from one of its ends.
#[derive(Clone, Copy)]
struct Step {
    arc: u32,
    to: u32,
    /// Flow is taken back, not added.
    back: bool,
}

impl Step {
    fn from(self, arcs: &[Arc]) -> u32 {
        let arc = arcs[self.arc as usize];
        if self.back { arc.to } else { arc.from }
    }
}

/// The steps from each node, in compressed rows.
struct Steps {
    starts: Vec<u32>,
    steps: Vec<Step>,
}

impl Steps {
    fn new(nodes: usize, arcs: &[Arc]) -> Self {
        let ends = arcs.iter().enumerate().filter(|(_, arc)| arc.from != arc.to);
        let mut starts = vec![0; nodes + 1];
        for (_, arc) in ends.clone() {
            starts[arc.from as usize] += 1;
            starts[arc.to as usize] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        // Filled from the back, so that each start ends up where its row begins and steps are in the order of arcs.
        let mut steps = vec![Step { arc: 0, to: 0, back: false }; sum as usize];
        let mut put = |at: u32, step| {
            starts[at as usize] -= 1;
            steps[starts[at as usize] as usize] = step;
        };
        for (index, arc) in ends.rev() {
            let index = index as u32;
            put(arc.to, Step { arc: index, to: arc.from, back: true });
            put(arc.from, Step { arc: index, to: arc.to, back: false });
        }
        Self { starts, steps }
    }

    fn of(&self, node: u32) -> std::ops::Range<u32> {
        self.starts[node as usize]..self.starts[node as usize + 1]
    }
}

/// How the search came to a node.
#[derive(Clone, Copy)]
struct Reached {
    distance: u64,
    /// The step that led here, by its index.
    by: u32,
}

const UNREACHED: Reached = Reached { distance: u64::MAX, by: u32::MAX };

struct Paths<'a> {
    arcs: &'a [Arc],
    steps: Steps,
    flows: Vec<u64>,
    excess: Vec<i128>,
    prices: Vec<i64>,
    /// Of the search under way. Between searches, all is unreached.
    reached: Vec<Reached>,
    seen: Vec<u32>,
    /// The steps of the way found, last first.
    way: Vec<Step>,
    /// Nodes to go on from at the distance under way, and those further away. Two of them because most steps between
    /// nodes with prices cost nothing, and a heap is slow.
    level: VecDeque<u32>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Paths<'_> {
    /// What one unit by a step costs now, and how many units can go before that changes.
    fn offer(&self, step: Step) -> (i64, u64) {
        let Arc { evidence, more, less, .. } = self.arcs[step.arc as usize];
        let flow = self.flows[step.arc as usize];
        let (more, less) = (i64::from(more), i64::from(less));
        match step.back {
            false if flow < evidence => (-less, evidence - flow),
            false => (more, u64::MAX - flow),
            true if flow > evidence => (-more, flow - evidence),
            true => (less, flow),
        }
    }

    /// Finds the node with too little that is the cheapest to carry to.
    fn search(&mut self, source: u32) -> Option<u32> {
        let mut sink = None;
        let mut limit = u64::MAX;
        let mut distance = 0;
        self.reach(source, Reached { distance, by: u32::MAX });
        self.level.push_back(source);
        while distance < limit {
            let Some(node) = self.level.pop_front() else {
                let Some(Reverse((further, node))) = self.heap.pop() else { break };
                distance = further;
                if self.reached[node as usize].distance == further {
                    self.level.push_back(node);
                }
                continue;
            };
            for by in self.steps.of(node) {
                let step = self.steps.steps[by as usize];
                let (cost, room) = self.offer(step);
                let cost = cost - self.prices[node as usize] + self.prices[step.to as usize];
                debug_assert!(room == 0 || cost >= 0, "a step cheaper than nothing");
                let there = distance.saturating_add_signed(cost);
                if room == 0 || there >= limit.min(self.reached[step.to as usize].distance) {
                    continue;
                }
                self.reach(step.to, Reached { distance: there, by });
                if self.excess[step.to as usize] < 0 {
                    (sink, limit) = (Some(step.to), there);
                } else if there == distance {
                    self.level.push_back(step.to);
                } else {
                    self.heap.push(Reverse((there, step.to)));
                }
                if limit == distance {
                    break;
                }
            }
        }
        sink
    }

    fn reach(&mut self, node: u32, how: Reached) {
        let reached = &mut self.reached[node as usize];
        if reached.distance == u64::MAX {
            self.seen.push(node);
        }
        *reached = how;
    }

    /// Sets prices so that, measured against them, the way to `sink` costs nothing and no step less.
    fn raise_prices(&mut self, sink: u32) {
        let limit = self.reached[sink as usize].distance;
        for &node in &self.seen {
            self.prices[node as usize] += limit.saturating_sub(self.reached[node as usize].distance) as i64;
        }
    }

    /// Carries all that is too much at `source`, too little at `sink` and possible on the way found.
    fn carry(&mut self, source: u32, sink: u32) {
        let mut amount = self.excess[source as usize].min(-self.excess[sink as usize]);
        let mut way = std::mem::take(&mut self.way);
        let mut node = sink;
        while node != source {
            let step = self.steps.steps[self.reached[node as usize].by as usize];
            amount = amount.min(i128::from(self.offer(step).1));
            node = step.from(self.arcs);
            way.push(step);
        }
        self.excess[source as usize] -= amount;
        self.excess[sink as usize] += amount;
        let amount = amount as u64;
        for step in way.drain(..) {
            let flow = &mut self.flows[step.arc as usize];
            *flow = if step.back { *flow - amount } else { *flow + amount };
        }
        self.way = way;
    }

    fn forget(&mut self) {
        for node in self.seen.drain(..) {
            self.reached[node as usize] = UNREACHED;
        }
        self.level.clear();
        self.heap.clear();
    }
}
