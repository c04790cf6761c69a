//! The control flow that values are followed along.

use crate::cfg::{Block, BlockId, Edge, EdgeKind, Target};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use smallvec::SmallVec;

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

/// Indirect jumps that lead to the same places. In an interpreter hundreds of them lead to hundreds of
/// places each: what is known is brought together once for all jumps, not once for every place.
pub(super) struct Hub {
    /// The blocks that end in the jumps.
    pub(super) from: Vec<u32>,
    /// Where each of them leads.
    pub(super) to: Vec<u32>,
}

/// All hubs of a function, and which one each block leads to.
pub(super) struct Hubs {
    pub(super) hubs: Vec<Hub>,
    of_block: Vec<Option<u32>>,
    /// For each block, the hubs that lead to it.
    into_block: Vec<SmallVec<[u32; 1]>>,
}

/// With fewer places a hub is not worth its while.
const MIN_PLACES: usize = 8;

impl Hubs {
    pub(super) fn new(flow: &Flowing<'_>) -> Self {
        // Dead code has nothing to say to code that runs, so it has hubs of its own.
        let mut groups: BTreeMap<(bool, Vec<u32>), Vec<u32>> = BTreeMap::new();
        for (block, id) in flow.blocks.iter().zip(0..) {
            let edges = flow.edges_from(id);
            if edges.len() >= MIN_PLACES && edges.iter().any(|e| e.kind == EdgeKind::Case) {
                let places = edges.iter().filter_map(Edge::inner_target).map(|to| to.0).collect();
                groups.entry((block.reached, places)).or_default().push(id);
            }
        }
        let groups = groups.into_iter().filter(|(_, from)| from.len() > 1);
        let hubs: Vec<Hub> = groups.map(|((_, to), from)| Hub { from, to }).collect();
        let mut of_block = vec![None; flow.blocks.len()];
        let mut into_block = vec![SmallVec::new(); flow.blocks.len()];
        for (hub, id) in hubs.iter().zip(0..) {
            hub.from.iter().for_each(|&block| of_block[block as usize] = Some(id));
            for &block in &hub.to {
                // Code that runs learns nothing from code that does not.
                if flow.blocks[hub.from[0] as usize].reached || !flow.blocks[block as usize].reached {
                    into_block[block as usize].push(id);
                }
            }
        }
        Self { hubs, of_block, into_block }
    }

    /// The hub that `block` leads to.
    pub(super) fn of(&self, block: u32) -> Option<u32> {
        self.of_block[block as usize]
    }

    /// The hubs that lead to `block`.
    pub(super) fn into(&self, block: u32) -> &[u32] {
        &self.into_block[block as usize]
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
