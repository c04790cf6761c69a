//! A directed graph in compressed rows: the shape every graph algorithm here works on.

use alloc::vec;
use alloc::vec::Vec;
use core::{mem, slice};

/// A fixed directed graph over nodes `0..len`, with successors and predecessors at hand.
///
/// Parallel edges are kept: two cases of a switch that lead to one block are two edges.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    successors: Rows,
    predecessors: Rows,
}

#[derive(Clone, Debug, Default)]
struct Rows {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Rows {
    fn new(len: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut starts = vec![0u32; len + 1];
        for (row, _) in pairs.clone() {
            starts[row as usize + 1] += 1;
        }
        for i in 0..len {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut items = vec![0u32; starts[len] as usize];
        for (row, item) in pairs {
            items[next[row as usize] as usize] = item;
            next[row as usize] += 1;
        }
        Self { starts, items }
    }

    fn row(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.items[self.starts[node] as usize..self.starts[node + 1] as usize]
    }
}

impl Graph {
    /// Builds the graph; every end of an edge must be below `len`.
    #[must_use]
    pub fn from_edges(len: usize, edges: &[(u32, u32)]) -> Self {
        Self {
            successors: Rows::new(len, edges.iter().copied()),
            predecessors: Rows::new(len, edges.iter().map(|&(from, to)| (to, from))),
        }
    }

    /// Number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.successors.starts.len().saturating_sub(1)
    }

    /// Whether there is no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where edges out of `node` lead, in the order they were given.
    #[must_use]
    pub fn successors(&self, node: u32) -> &[u32] {
        self.successors.row(node)
    }

    /// Where edges into `node` come from.
    #[must_use]
    pub fn predecessors(&self, node: u32) -> &[u32] {
        self.predecessors.row(node)
    }

    /// Every node, behind its successors unless the edge closes a cycle: the order in which a backward
    /// analysis settles fastest, and from the back, a forward one. Lower nodes are started from first.
    #[must_use]
    pub fn postorder(&self) -> Vec<u32> {
        let mut order = Vec::with_capacity(self.len());
        let mut seen = vec![false; self.len()];
        let mut path: Vec<(u32, slice::Iter<'_, u32>)> = Vec::new();
        for root in 0..self.len() as u32 {
            if !mem::replace(&mut seen[root as usize], true) {
                path.push((root, self.successors(root).iter()));
            }
            while let Some((node, rest)) = path.last_mut() {
                match rest.next() {
                    Some(&next) if !mem::replace(&mut seen[next as usize], true) => {
                        path.push((next, self.successors(next).iter()));
                    }
                    Some(_) => {}
                    None => {
                        order.push(*node);
                        path.pop();
                    }
                }
            }
        }
        order
    }

    /// The same graph with every edge turned round.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self { successors: self.predecessors.clone(), predecessors: self.successors.clone() }
    }
}
