//! Which blocks run or not by the decision of which: control dependence, from post-dominators (Ferrante, Ottenstein, Warren
//! 1987).

use relive_code::dominators::DominatorTree;
use relive_code::graph::Graph;

/// Who depends on whom.
pub(super) struct Dependents {
    /// By who decides: those whose running depends on it.
    pairs: Vec<(u32, u32)>,
    /// Too many to list: everyone may depend on everyone.
    all: bool,
}

/// More dependents per node than this, on average, are not listed. Of `cc1`'s functions none comes near it.
const MOST: usize = 256;

impl Dependents {
    /// For a graph with nodes that leave it, which may have successors as well.
    pub(super) fn new(graph: &Graph, leaves: &[bool]) -> Self {
        let exits: Vec<u32> = (0..graph.len() as u32)
            .filter(|&node| leaves[node as usize] || graph.successors(node).is_empty())
            .collect();
        let tree = DominatorTree::post(graph, &exits);
        let mut pairs = Vec::new();
        for from in 0..graph.len() as u32 {
            let ways = graph.successors(from);
            if ways.len() + usize::from(leaves[from as usize]) < 2 {
                continue;
            }
            let meet = tree.immediate(from);
            for &way in ways {
                let mut at = Some(way);
                while at != meet
                    && let Some(node) = at
                {
                    pairs.push((from, node));
                    at = tree.immediate(node);
                }
            }
            if pairs.len() > MOST * (graph.len() + 64) {
                return Self { pairs: Vec::new(), all: true };
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        Self { pairs, all: false }
    }

    /// Calls `then` for all that run or not as `node`, one of `count`, decides.
    pub(super) fn each(&self, node: u32, count: usize, mut then: impl FnMut(u32)) {
        if self.all {
            (0..count as u32).for_each(then);
            return;
        }
        let first = self.pairs.partition_point(|&(from, _)| from < node);
        self.pairs[first..].iter().take_while(|(from, _)| *from == node).for_each(|&(_, to)| then(to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependents(len: usize, edges: &[(u32, u32)], leaves: &[u32]) -> Vec<(u32, u32)> {
        let mut marks = vec![false; len];
        leaves.iter().for_each(|&node| marks[node as usize] = true);
        Dependents::new(&Graph::from_edges(len, edges), &marks).pairs
    }

    #[test]
    fn arms_depend_and_the_join_does_not() {
        assert_eq!(dependents(4, &[(0, 1), (0, 2), (1, 3), (2, 3)], &[3]), [(0, 1), (0, 2)]);
    }

    #[test]
    fn a_loop_depends_on_its_own_exit() {
        // 1 is the body and decides; 0 comes before, 2 behind.
        assert_eq!(dependents(3, &[(0, 1), (1, 1), (1, 2)], &[2]), [(1, 1)]);
    }

    #[test]
    fn what_follows_a_way_out_depends_on_it() {
        // 0 may leave; 1 follows else.
        assert_eq!(dependents(2, &[(0, 1)], &[0, 1]), [(0, 1)]);
    }
}
