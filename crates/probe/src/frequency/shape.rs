//! The flow as a graph, with its loops.

use crate::graph::{Flow, Node};
use relive_code::dominators::DominatorTree;
use relive_code::graph::Graph;
use relive_code::loops::LoopForest;

/// The blocks of a function, numbered as they are, and behind them its hubs.
pub struct Shape {
    graph: Graph,
    tree: DominatorTree,
    /// The loops.
    pub loops: LoopForest,
    /// The place of each node in the order.
    position: Vec<u32>,
    /// The arcs out of each node, in rows.
    leaving: Vec<u32>,
    starts: Vec<u32>,
}

impl Shape {
    /// The shape of `flow`.
    #[must_use]
    pub fn new(flow: &Flow) -> Self {
        let len = flow.blocks + flow.hubs.len();
        let ends = || flow.arcs.iter().map(|arc| (number(flow, arc.from), number(flow, arc.to)));
        let inner: Vec<(u32, u32)> = ends().filter_map(|(from, to)| from.zip(to)).collect();
        let roots: Vec<u32> = ends().filter(|(from, _)| from.is_none()).filter_map(|(_, to)| to).collect();
        let graph = Graph::from_edges(len, &inner);
        let tree = DominatorTree::new(&graph, &roots);
        let loops = LoopForest::new(&graph, &tree);
        let mut position = vec![0; len];
        tree.reverse_postorder().iter().zip(0..).for_each(|(&node, at)| position[node as usize] = at);

        let mut starts = vec![0; len + 1];
        ends().filter_map(|(from, _)| from).for_each(|from| starts[from as usize + 1] += 1);
        for node in 0..len {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut leaving = vec![0; starts[len] as usize];
        for (arc, (from, _)) in (0..).zip(ends()) {
            if let Some(from) = from {
                leaving[next[from as usize] as usize] = arc;
                next[from as usize] += 1;
            }
        }
        Self { graph, tree, loops, position, leaving, starts }
    }

    /// Number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.graph.len()
    }

    /// Whether there is no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.graph.is_empty()
    }

    /// The nodes and the ways between them.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// What is reached, each before what it leads to, but for ways back.
    #[must_use]
    pub fn order(&self) -> &[u32] {
        self.tree.reverse_postorder()
    }

    /// The place of `node` in the order.
    #[must_use]
    pub fn position(&self, node: u32) -> u32 {
        self.position[node as usize]
    }

    /// The arcs that leave `node`.
    #[must_use]
    pub fn leaving(&self, node: u32) -> &[u32] {
        &self.leaving[self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize]
    }

    /// Whether the way from one to the other leads back in the order.
    #[must_use]
    pub fn retreats(&self, from: u32, to: u32) -> bool {
        self.position(from) >= self.position(to)
    }

    /// Whether a way back from one to the other closes no natural loop.
    #[must_use]
    pub fn is_irreducible(&self, from: u32, to: u32) -> bool {
        self.retreats(from, to) && !self.tree.dominates(to, from)
    }
}

/// The number of a node, unless it is the outside.
#[must_use]
pub fn number(flow: &Flow, node: Node) -> Option<u32> {
    match node {
        Node::Outside => None,
        Node::Block(block) => Some(block.0),
        Node::Hub(hub) => Some(flow.blocks as u32 + hub),
    }
}
