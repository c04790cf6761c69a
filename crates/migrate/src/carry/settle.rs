//! Counts that obey conservation and follow the evidence as closely as they can.

use super::Counts;
use super::evidence::{Evidence, Seen};
use crate::balance::{Arc, balance};
use relive_profile::model::{Confidence, Count, Function, Node, Origin};

/// What is known of nothing but its surroundings is right about that often.
const GUESSED: Confidence = Confidence::new(40);

/// Finds the counts of `function`.
pub(super) fn settle(function: &Function, evidence: &Evidence, likely: &[f64]) -> Counts {
    let graph = Graph::new(function);
    let arcs = graph.arcs(function, evidence, likely);
    let flows = balance(graph.nodes, &arcs);
    let blocks = function.blocks.len();
    let count = |seen: &Option<Seen>, flow: u64| match seen {
        Some(seen) if seen.count == flow => {
            Count { raw: flow, origin: seen.origin, confidence: seen.confidence }
        }
        // It had to be changed: something around it is wrong, or it is.
        Some(seen) => Count {
            raw: flow,
            origin: Origin::Inferred,
            confidence: Confidence::new(seen.confidence.percent() / 2),
        },
        None => Count { raw: flow, origin: Origin::Inferred, confidence: GUESSED },
    };
    let (own, between) = flows.split_at(blocks);
    Counts {
        blocks: evidence.blocks.iter().zip(own).map(|(seen, &flow)| count(seen, flow)).collect(),
        edges: evidence.edges.iter().zip(between).map(|(seen, &flow)| count(seen, flow)).collect(),
    }
}

/// A function as a circulation: a block is an arc from where it begins to where it ends, and there is one node for
/// everything outside.
struct Graph {
    blocks: u32,
    nodes: u32,
}

impl Graph {
    fn new(function: &Function) -> Self {
        let blocks = function.blocks.len() as u32;
        Self { blocks, nodes: 2 * blocks + function.hubs + 1 }
    }

    fn begin(&self, node: Node) -> u32 {
        match (node.as_block(), node.as_hub()) {
            (Some(block), _) => 2 * block,
            (_, Some(hub)) => 2 * self.blocks + hub,
            _ => self.nodes - 1,
        }
    }

    fn end(&self, node: Node) -> u32 {
        match node.as_block() {
            Some(block) => 2 * block + 1,
            None => self.begin(node),
        }
    }

    /// Blocks, then edges.
    fn arcs(&self, function: &Function, evidence: &Evidence, _likely: &[f64]) -> Vec<Arc> {
        let blocks = (0..self.blocks).zip(&evidence.blocks).map(|(block, seen)| {
            let node = Node::block(block);
            arc(self.begin(node), self.end(node), *seen)
        });
        let edges = function
            .edges
            .iter()
            .zip(&evidence.edges)
            .map(|(edge, seen)| arc(self.end(edge.from), self.begin(edge.to), *seen));
        blocks.chain(edges).collect()
    }
}

/// The price of leaving the evidence grows steeply with how sure it is: ten unsure counts should not move a sure one.
fn arc(from: u32, to: u32, seen: Option<Seen>) -> Arc {
    let Some(seen) = seen else { return Arc { from, to, evidence: 0, more: 1, less: 1 } };
    let sure = u32::from(seen.confidence.percent());
    let price = (sure * sure * sure / 4000).max(2);
    // What never ran is seldom wrong, and worth more to be right: coverage depends on it.
    let more = if seen.count == 0 { 2 * price } else { price };
    Arc { from, to, evidence: seen.count, more, less: price }
}
