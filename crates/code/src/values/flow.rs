//! The control flow that values are followed along.

use crate::cfg::{Block, BlockId, Edge, Target};
use alloc::vec;
use alloc::vec::Vec;

/// The control flow the analysis runs over.
pub(crate) struct Flowing<'a> {
    pub(super) blocks: &'a [Block],
    pub(super) edges: &'a [Edge],
    pub(super) entries: &'a [BlockId],
    /// Where the edges out of each block begin.
    first_edge: Vec<u32>,
}

impl<'a> Flowing<'a> {
    /// `edges` are sorted by the block they leave.
    pub(crate) fn new(blocks: &'a [Block], edges: &'a [Edge], entries: &'a [BlockId]) -> Self {
        let mut first_edge = vec![0; blocks.len() + 1];
        for edge in edges {
            first_edge[edge.from.index() + 1] += 1;
        }
        for i in 0..blocks.len() {
            first_edge[i + 1] += first_edge[i];
        }
        Self { blocks, edges, entries, first_edge }
    }

    pub(super) fn edges_from(&self, block: u32) -> &'a [Edge] {
        &self.edges[self.first_edge[block as usize] as usize..self.first_edge[block as usize + 1] as usize]
    }
}

/// For each block, the edges into it.
pub(super) fn incoming_edges(flow: &Flowing<'_>) -> (Vec<u32>, Vec<u32>) {
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for (edge, index) in flow.edges.iter().zip(0..) {
        if let Target::Block(to) = edge.to {
            pairs.push((to.0, index));
        }
    }
    pairs.sort_unstable();
    let starts = (0..=flow.blocks.len() as u32).map(|b| pairs.partition_point(|p| p.0 < b) as u32).collect();
    (starts, pairs.into_iter().map(|p| p.1).collect())
}
