//! How often loops ran: it follows from the edges that lead to their headers.

use super::count::Count;
use super::function::{Edge, Function, Loop, Node};
use std::collections::HashMap;

/// How often a loop ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopCounts {
    /// How often it was entered.
    pub entries: Count,
    /// How often its header ran.
    pub iterations: Count,
}

impl Function {
    /// How often each loop was entered and its header ran, loop by loop; `None` where counts are not
    /// known.
    ///
    /// A hub belongs to a loop if one of the jumps that lead to it does.
    #[must_use]
    pub fn loop_counts(&self) -> Vec<Option<LoopCounts>> {
        let mut into: HashMap<u32, Vec<&Edge>> =
            self.loops.iter().map(|looped| (looped.header, Vec::new())).collect();
        let mut into_hubs = Vec::new();
        for edge in &self.edges {
            if let Some(edges) = edge.to.as_block().and_then(|block| into.get_mut(&block)) {
                edges.push(edge);
            } else if edge.to.as_hub().is_some() {
                into_hubs.push(edge);
            }
        }
        self.loops.iter().map(|looped| counts(looped, &into[&looped.header], &into_hubs)).collect()
    }
}

fn counts(looped: &Loop, into_header: &[&Edge], into_hubs: &[&Edge]) -> Option<LoopCounts> {
    let holds = |block: u32| looped.blocks.binary_search(&block).is_ok();
    let is_inside = |node: Node| match node.as_block() {
        Some(block) => holds(block),
        None => into_hubs.iter().any(|edge| edge.to == node && edge.from.as_block().is_some_and(holds)),
    };
    let entering = into_header.iter().filter(|edge| !is_inside(edge.from));
    Some(LoopCounts {
        entries: Count::sum(entering.map(|edge| edge.count))?,
        iterations: Count::sum(into_header.iter().map(|edge| edge.count))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Block, EdgeKind, State, TextId};

    fn looped(header: u32, parent: Option<u32>, blocks: &[u32]) -> Loop {
        Loop { header, parent, depth: parent.map_or(0, |_| 1), line: None, blocks: blocks.to_vec() }
    }

    #[test]
    fn nested_loops_and_hubs() {
        let mut function = Function::new(TextId(0), 0, 4, State::Measured);
        let block = |address| Block {
            address,
            size: 1,
            insns: 1,
            line: None,
            is_entry: address == 0,
            is_landing_pad: false,
            counter: None,
            count: None,
        };
        function.blocks = (0..4).map(block).collect();
        function.hubs = 1;
        let (out, b, hub) = (Node::OUTSIDE, Node::block, Node::hub(0));
        // The outer loop is 1 2 3, the inner one 2 3; 3 jumps back to either through a table.
        function.edges = [
            (out, b(0), 5),
            (b(0), b(1), 5),
            (b(1), b(2), 20),
            (b(2), b(3), 100),
            (b(3), hub, 95),
            (hub, b(1), 15),
            (hub, b(2), 80),
            (b(3), out, 5),
        ]
        .map(|(from, to, count)| Edge {
            from,
            to,
            kind: EdgeKind::Jump,
            counter: None,
            count: Some(Count::measured(count)),
        })
        .to_vec();
        function.loops = vec![looped(1, None, &[1, 2, 3]), looped(2, Some(0), &[2, 3])];
        let counts: Vec<_> = function.loop_counts().into_iter().flatten().collect();
        let numbers = |i: usize| (counts[i].entries.value(), counts[i].iterations.value());
        assert_eq!([numbers(0), numbers(1)], [(5, 20), (20, 100)]);
        assert_eq!(crate::flow::check(&function), []);
        function.edges[1].count = None;
        assert_eq!(function.loop_counts()[0], None);
    }
}
