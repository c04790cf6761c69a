//! Which arcs enter and leave each node, and an order in which control comes by.

use super::Arc;

/// The shape of a graph.
pub(super) struct Shape {
    entering: Rows,
    leaving: Rows,
    /// Every node, before those it leads to unless that closes a cycle.
    order: Vec<u32>,
    /// Where each node is in that.
    positions: Vec<u32>,
}

impl Shape {
    pub(super) fn new(nodes: usize, arcs: &[Arc]) -> Self {
        let leaving = Rows::new(nodes, arcs.iter().map(|arc| arc.from));
        let order = order(nodes, arcs, &leaving);
        let mut positions = vec![0; nodes];
        (0..).zip(&order).for_each(|(position, &node)| positions[node as usize] = position);
        Self { entering: Rows::new(nodes, arcs.iter().map(|arc| arc.to)), leaving, order, positions }
    }

    pub(super) fn entering(&self, node: u32) -> &[u32] {
        self.entering.row(node)
    }

    pub(super) fn leaving(&self, node: u32) -> &[u32] {
        self.leaving.row(node)
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn at(&self, position: usize) -> u32 {
        self.order[position]
    }

    /// Whether an arc leads back in the order, as the last of every cycle does.
    pub(super) fn retreats(&self, arc: &Arc) -> bool {
        self.positions[arc.to as usize] <= self.positions[arc.from as usize]
    }

    /// Whether a node comes before another.
    pub(super) fn before(&self, node: u32, other: u32) -> bool {
        self.positions[node as usize] < self.positions[other as usize]
    }
}

/// Reverse postorder, from the first node and then from whatever that does not lead to.
fn order(nodes: usize, arcs: &[Arc], leaving: &Rows) -> Vec<u32> {
    let mut order = Vec::with_capacity(nodes);
    let mut seen = vec![false; nodes];
    let mut path: Vec<(u32, usize)> = Vec::new();
    for root in 0..nodes as u32 {
        // Later roots come before the others in the end: they may lead to them but not the other way round.
        if std::mem::replace(&mut seen[root as usize], true) {
            continue;
        }
        path.push((root, 0));
        while let Some((node, next)) = path.last_mut() {
            let Some(&arc) = leaving.row(*node).get(*next) else {
                order.push(*node);
                path.pop();
                continue;
            };
            *next += 1;
            let to = arcs[arc as usize].to;
            if !std::mem::replace(&mut seen[to as usize], true) {
                path.push((to, 0));
            }
        }
    }
    order.reverse();
    order
}

/// The arcs of each node, in compressed rows.
struct Rows {
    starts: Vec<u32>,
    arcs: Vec<u32>,
}

impl Rows {
    fn new(nodes: usize, ends: impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + Clone) -> Self {
        let mut starts = vec![0u32; nodes + 1];
        ends.clone().for_each(|node| starts[node as usize] += 1);
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        // Filled from the back, so that each start ends up where its row begins.
        let mut arcs = vec![0; ends.len()];
        for (arc, node) in ends.enumerate().rev() {
            starts[node as usize] -= 1;
            arcs[starts[node as usize] as usize] = arc as u32;
        }
        Self { starts, arcs }
    }

    fn row(&self, node: u32) -> &[u32] {
        &self.arcs[self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize]
    }
}
