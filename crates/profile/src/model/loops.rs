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
