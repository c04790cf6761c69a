//! Successive shortest paths from where there is too much to where there is too little.
//!
//! A node has a *price*: what it costs, at least, to carry a unit from there to a node with too little. Measured against
//! prices no step is cheaper than nothing, so Dijkstra's search applies; it stops at the first
//! node with too little, and then raises the prices of what it came by. Nodes further away are not touched.
//!
//! Tried and left: a search from all nodes with too much at once, with blocking flows (three times as fast on the densest
//! graphs and nine times on the largest switches, but forty times as slow on nested statements with half the evidence
//! wrong); setting all prices anew by a search from the nodes with too little whenever searches get long (twice
//! as fast on dense graphs, slower by as much on large switches).

use super::Arc;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Makes `flows`, which leave `excess` at the nodes and cost nothing, into the cheapest that leave none.
pub(super) fn settle(arcs: &[Arc], flows: Vec<u64>, excess: Vec<i128>) -> Vec<u64> {
    let nodes = excess.iter().map(|&excess| Node { wants: excess < 0, ..Node::default() }).collect();
    let mut paths = Paths {
        arcs,
        steps: Steps::new(excess.len(), arcs, &flows),
        flows,
        excess,
        nodes,
        seen: Vec::new(),
        way: Vec::new(),
        level: VecDeque::new(),
        heap: BinaryHeap::new(),
    };
    for source in 0..paths.nodes.len() as u32 {
        while paths.excess[source as usize] > 0 {
            let sink = paths.search(source).expect("what arrived can go back to where it came from");
            paths.raise_prices(sink);
            paths.carry(source, sink);
            paths.forget();
        }
    }
    paths.flows
}

/// One arc as seen from one of its ends. What a search asks of it is in one place: searches do little else.
#[derive(Clone, Copy, Default)]
struct Step {
    /// What a unit costs now; [`CLOSED`] if none can go.
    cost: i64,
    to: u32,
    arc: u32,
    /// The same arc as seen from its other end.
    twin: u32,
    /// Flow is taken back, not added.
    back: bool,
}

/// The cost of what cannot be.
const CLOSED: i64 = i64::MAX;

/// What one unit more costs on an arc, or one `back`, and how many can go before that changes.
fn offer(arc: &Arc, flow: u64, back: bool) -> (i64, u64) {
    let Arc { evidence, more, less, .. } = *arc;
    let (more, less) = (i64::from(more), i64::from(less));
    match back {
        false if flow < evidence => (-less, evidence - flow),
        false => (more, u64::MAX - flow),
        true if flow > evidence => (-more, flow - evidence),
        true => (less, flow),
    }
}

/// The steps from each node, in compressed rows.
struct Steps {
    starts: Vec<u32>,
    steps: Vec<Step>,
}

impl Steps {
    fn new(nodes: usize, arcs: &[Arc], flows: &[u64]) -> Self {
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
        let mut this = Self { starts, steps: vec![Step::default(); sum as usize] };
        // Filled from the back, so that each start ends up where its row begins and steps are in the order of arcs.
        for (index, arc) in ends.rev() {
            let mut place = |at: u32| {
                this.starts[at as usize] -= 1;
                this.starts[at as usize]
            };
            let (back, on) = (place(arc.to), place(arc.from));
            let index = index as u32;
            this.steps[back as usize] = Step { to: arc.from, arc: index, twin: on, back: true, cost: 0 };
            this.steps[on as usize] = Step { to: arc.to, arc: index, twin: back, back: false, cost: 0 };
            this.reprice(on, arc, flows[index as usize]);
        }
        this
    }

    fn of(&self, node: u32) -> std::ops::Range<u32> {
        self.starts[node as usize]..self.starts[node as usize + 1]
    }

    /// Sets what a step and its twin cost, now that their arc has that flow.
    fn reprice(&mut self, step: u32, arc: &Arc, flow: u64) {
        for step in [step, self.steps[step as usize].twin] {
            let step = &mut self.steps[step as usize];
            let (cost, room) = offer(arc, flow, step.back);
            step.cost = if room == 0 { CLOSED } else { cost };
        }
    }
}

#[derive(Clone, Copy)]
struct Node {
    price: i64,
    /// From the source of the search under way. Between searches, all is unreached.
    distance: u64,
    /// The step that led here, by its index.
    by: u32,
    /// It has too little.
    wants: bool,
}

/// The distance of what was not reached.
const UNREACHED: u64 = u64::MAX;

impl Default for Node {
    fn default() -> Self {
        Self { price: 0, distance: UNREACHED, by: u32::MAX, wants: false }
    }
}

struct Paths<'a> {
    arcs: &'a [Arc],
    steps: Steps,
    flows: Vec<u64>,
    excess: Vec<i128>,
    nodes: Vec<Node>,
    /// Nodes that the search under way reached.
    seen: Vec<u32>,
    /// The steps of the way found, last first.
    way: Vec<u32>,
    /// Nodes to go on from at the distance under way, and those further away. Two of them because most steps between
    /// nodes with prices cost nothing, and a heap is slow.
    level: VecDeque<u32>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Paths<'_> {
    /// Finds the node with too little that is the cheapest to carry to.
    fn search(&mut self, source: u32) -> Option<u32> {
        let mut sink = None;
        let mut limit = u64::MAX;
        let mut distance = 0;
        self.nodes[source as usize].distance = distance;
        self.seen.push(source);
        self.level.push_back(source);
        while distance < limit {
            let Some(node) = self.level.pop_front() else {
                let Some(Reverse((further, node))) = self.heap.pop() else { break };
                distance = further;
                if self.nodes[node as usize].distance == further {
                    self.level.push_back(node);
                }
                continue;
            };
            let price = self.nodes[node as usize].price;
            for by in self.steps.of(node) {
                let Step { cost, to, .. } = self.steps.steps[by as usize];
                if cost == CLOSED {
                    continue;
                }
                let there = &mut self.nodes[to as usize];
                let cost = cost - price + there.price;
                debug_assert!(cost >= 0, "a step cheaper than nothing");
                let further = distance.saturating_add_signed(cost);
                if further >= limit.min(there.distance) {
                    continue;
                }
                if there.distance == UNREACHED {
                    self.seen.push(to);
                }
                (there.distance, there.by) = (further, by);
                if there.wants {
                    (sink, limit) = (Some(to), further);
                } else if further == distance {
                    self.level.push_back(to);
                } else {
                    self.heap.push(Reverse((further, to)));
                }
                if limit == distance {
                    break;
                }
            }
        }
        sink
    }

    /// Sets prices so that, measured against them, the way to `sink` costs nothing and no step less.
    fn raise_prices(&mut self, sink: u32) {
        let limit = self.nodes[sink as usize].distance;
        for &node in &self.seen {
            let node = &mut self.nodes[node as usize];
            node.price += limit.saturating_sub(node.distance) as i64;
        }
    }

    /// Carries all that is too much at `source`, too little at `sink` and possible on the way found.
    fn carry(&mut self, source: u32, sink: u32) {
        let mut amount = self.excess[source as usize].min(-self.excess[sink as usize]);
        let mut way = std::mem::take(&mut self.way);
        let mut node = sink;
        while node != source {
            let by = self.nodes[node as usize].by;
            let step = self.steps.steps[by as usize];
            let (_, room) = offer(&self.arcs[step.arc as usize], self.flows[step.arc as usize], step.back);
            amount = amount.min(i128::from(room));
            node = self.steps.steps[step.twin as usize].to;
            way.push(by);
        }
        self.excess[source as usize] -= amount;
        self.excess[sink as usize] += amount;
        self.nodes[sink as usize].wants = self.excess[sink as usize] < 0;
        let amount = amount as u64;
        for by in way.drain(..) {
            let Step { arc, back, .. } = self.steps.steps[by as usize];
            let flow = &mut self.flows[arc as usize];
            *flow = if back { *flow - amount } else { *flow + amount };
            self.steps.reprice(by, &self.arcs[arc as usize], *flow);
        }
        self.way = way;
    }

    fn forget(&mut self) {
        for node in self.seen.drain(..) {
            self.nodes[node as usize].distance = UNREACHED;
        }
        self.level.clear();
        self.heap.clear();
    }
}
