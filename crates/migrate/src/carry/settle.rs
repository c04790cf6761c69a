//! Counts that obey conservation and follow the evidence as closely as they can.

use super::Counts;
use super::evidence::{Evidence, Seen};
use crate::balance::{Arc, balance};
use crate::estimate::{self, estimate};
use relive_profile::model::{Confidence, Count, Function, Node, Origin};

/// What is known of nothing but its surroundings is right about that often.
const GUESSED: Confidence = Confidence::new(40);

/// Finds the counts of `function`. What is `likely` is only asked where evidence does not tell everything: for most functions of the next release it does.
pub(super) fn settle(function: &Function, evidence: &Evidence, likely: &dyn Fn() -> Vec<f64>) -> Counts {
    let graph = Graph::new(function);
    let is_open = evidence.blocks.iter().chain(&evidence.edges).any(|seen| believed(*seen).is_none());
    let arcs = match is_open {
        true => graph.arcs(function, evidence, &graph.expected(function, evidence, &likely())),
        false => graph.arcs(function, evidence, &estimate::Counts::default()),
    };
    let flows = balance(graph.nodes, &arcs);
    let blocks = function.blocks.len();
    let (own, between) = flows.split_at(blocks);
    Counts {
        blocks: evidence.blocks.iter().zip(own).map(|(seen, &flow)| count(*seen, flow)).collect(),
        edges: evidence.edges.iter().zip(between).map(|(seen, &flow)| count(*seen, flow)).collect(),
    }
}

/// A count that was settled on, and how far it is what the evidence said.
fn count(seen: Option<Seen>, flow: u64) -> Count {
    let Some(seen) = seen else { return Count { raw: flow, origin: Origin::Inferred, confidence: GUESSED } };
    let (less, more) = (seen.count.min(flow), seen.count.max(flow));
    let kept = if more == 0 { 1.0 } else { less as f64 / more as f64 };
    // Where more than half of it is due to its surroundings, they tell more about it than its partner.
    let origin = if kept >= 0.5 { seen.origin } else { Origin::Inferred };
    let percent = f64::from(seen.confidence.percent()) * kept;
    Count { raw: flow, origin, confidence: Confidence::new(percent.round() as u8) }
}

/// A function as a circulation: a block is an arc from where it begins to where it ends, and there is one node for
/// everything outside.
pub(crate) struct Graph {
    blocks: u32,
    /// How many nodes there are.
    pub(crate) nodes: u32,
}

impl Graph {
    pub(crate) fn new(function: &Function) -> Self {
        let blocks = function.blocks.len() as u32;
        Self { blocks, nodes: 2 * blocks + function.hubs + 1 }
    }

    /// Where what leads to a node ends.
    pub(crate) fn begin(&self, node: Node) -> u32 {
        match (node.as_block(), node.as_hub()) {
            (Some(block), _) => 2 * block,
            (_, Some(hub)) => 2 * self.blocks + hub,
            _ => self.nodes - 1,
        }
    }

    /// Where what leaves a node begins.
    pub(crate) fn end(&self, node: Node) -> u32 {
        match node.as_block() {
            Some(block) => 2 * block + 1,
            None => self.begin(node),
        }
    }

    /// Blocks, then edges. What is `expected` counts where evidence says nothing.
    fn arcs(&self, function: &Function, evidence: &Evidence, expected: &estimate::Counts) -> Vec<Arc> {
        let at = |expected: &[u64], i: usize| expected.get(i).copied().unwrap_or(0);
        let blocks = (0..self.blocks).zip(&evidence.blocks).map(|(block, seen)| {
            let node = Node::block(block);
            arc(self.begin(node), self.end(node), *seen, at(&expected.nodes, block as usize))
        });
        let edges = function.edges.iter().zip(&evidence.edges).enumerate().map(|(i, (edge, seen))| {
            arc(self.end(edge.from), self.begin(edge.to), *seen, at(&expected.arcs, i))
        });
        blocks.chain(edges).collect()
    }

    /// The evidence, changed until it adds up if what nobody knows is whatever it takes. Estimates are made from this:
    /// where more enters new code than may leave it, there is no other answer than a loop that goes round for ever.
    fn agreed(&self, function: &Function, evidence: &Evidence) -> Vec<u64> {
        let free = |from, to, seen: &Option<Seen>| {
            let arc = arc(from, to, *seen, 0);
            if believed(*seen).is_some() { arc } else { Arc { more: 0, less: 0, ..arc } }
        };
        let blocks = (0..self.blocks).map(Node::block).zip(&evidence.blocks);
        let blocks = blocks.map(|(node, seen)| free(self.begin(node), self.end(node), seen));
        let edges = function.edges.iter().zip(&evidence.edges);
        let edges = edges.map(|(edge, seen)| free(self.end(edge.from), self.begin(edge.to), seen));
        let arcs: Vec<Arc> = blocks.chain(edges).collect();
        balance(self.nodes, &arcs)
    }

    /// What to expect where there is no evidence.
    fn expected(&self, function: &Function, evidence: &Evidence, likely: &[f64]) -> estimate::Counts {
        let number = |node: Node| match (node.as_block(), node.as_hub()) {
            (Some(block), _) => block,
            (_, Some(hub)) => self.blocks + hub,
            _ => self.blocks + function.hubs,
        };
        let agreed = self.agreed(function, evidence);
        let (blocks, edges) = agreed.split_at(function.blocks.len());
        let sure = |(seen, &count): (&Option<Seen>, &u64)| believed(*seen).map(|_| count);
        let mut nodes: Vec<Option<u64>> = evidence.blocks.iter().zip(blocks).map(sure).collect();
        nodes.resize((self.blocks + function.hubs + 1) as usize, None);
        let arcs: Vec<estimate::Arc> = function
            .edges
            .iter()
            .zip(evidence.edges.iter().zip(edges))
            .enumerate()
            .map(|(i, (edge, seen))| estimate::Arc {
                from: number(edge.from),
                to: number(edge.to),
                count: sure(seen),
                likelihood: evidence.odds[i]
                    .unwrap_or_else(|| likely.get(i).copied().unwrap_or(1.0).powf(DAMPED))
                    as f32,
            })
            .collect();
        estimate(&nodes, &arcs)
    }
}

/// Evidence that is sure enough to be one.
fn believed(seen: Option<Seen>) -> Option<Seen> {
    seen.filter(|seen| seen.confidence >= BELIEVED)
}

/// What code lets expect is taken with a grain of salt: the rounds of a loop nobody has seen are overestimated more often
/// than not, and cost more then. Measured on the development corpus (`relive-benchmarks carry`).
const DAMPED: f64 = 0.5;

/// Evidence that is less sure than this is no better than what its surroundings let expect. Measured on the development
/// corpus (`relive-benchmarks carry`): below 80 wrong matches cost branches, above 90 right ones are missing.
pub(super) const BELIEVED: Confidence = Confidence::new(85);

/// The price of leaving the evidence grows steeply with how sure it is: ten unsure counts should not move a sure one.
fn arc(from: u32, to: u32, seen: Option<Seen>, expected: u64) -> Arc {
    let Some(seen) = believed(seen) else {
        return Arc { from, to, evidence: expected, more: 1, less: 1 };
    };
    let sure = u32::from(seen.confidence.percent());
    let price = (sure.pow(4) / 400_000).max(2);
    // What never ran is seldom wrong, and worth more to be right: coverage depends on it.
    let more = if seen.count == 0 { 2 * price } else { price };
    Arc { from, to, evidence: seen.count, more, less: price }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_profile::model::{Block, Edge, EdgeKind, Level, State, TextId};

    /// More enters a new loop than its exit was ever reached: one of the two is wrong, and the loop need not make up
    /// for it by going round.
    #[test]
    fn a_contradiction_around_a_new_loop_is_no_reason_for_rounds() {
        let mut function = Function::new(TextId::default(), 0x1000, 16, State::Measured);
        let block = |address| Block {
            address,
            size: 4,
            insns: 1,
            line: None,
            is_entry: false,
            is_landing_pad: false,
            counter: None,
            count: None,
        };
        function.blocks = (0..4).map(|i| block(0x1000 + 4 * i)).collect();
        let (out, b) = (Node::OUTSIDE, Node::block);
        function.edges = [
            (out, b(0), EdgeKind::Enter),
            (b(0), b(1), EdgeKind::FallThrough),
            (b(1), b(2), EdgeKind::FallThrough),
            (b(2), b(1), EdgeKind::Taken),
            (b(2), b(3), EdgeKind::FallThrough),
            (b(3), out, EdgeKind::Return),
        ]
        .map(|(from, to, kind)| Edge { from, to, kind, counter: None, count: None })
        .to_vec();
        let mut evidence = Evidence::nothing(&function);
        let sure =
            |count| Seen { count, origin: Origin::Matched(Level::One), confidence: Confidence::new(99) };
        (evidence.blocks[0], evidence.blocks[3]) = (Some(sure(1000)), Some(sure(10)));
        let counts = settle(&function, &evidence, &|| vec![1.0; 6]);
        let rounds = counts.blocks[1].value();
        assert!((10..=4000).contains(&rounds), "{rounds}");
    }
}
