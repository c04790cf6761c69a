//! Dominators and post-dominators: which nodes lie on every way to a node, or on every way out.
//!
//! Lengauer & Tarjan, "A fast algorithm for finding dominators in a flowgraph" (1979), the version
//! with simple path compression: O(edges · log nodes) for every input. Cooper-Harvey-Kennedy and
//! semi-NCA are a few lines shorter, but quadratic on shapes that a binary may hold. Nothing
//! recurses: straight-line functions make graphs that are one deep chain.

use alloc::vec;
use alloc::vec::Vec;
use core::{fmt, slice};

use crate::graph::Graph;

/// Stands for "no node": in the tree, that is the virtual root.
const NONE: u32 = u32::MAX;

/// The dominator tree of what a set of roots reaches.
///
/// Above the roots stands a virtual root with an edge to each of them, so a function with several
/// entries has one tree, in which no entry dominates what another one reaches without it.
#[derive(Clone, Debug)]
pub struct DominatorTree {
    roots: Vec<u32>,
    reverse_postorder: Vec<u32>,
    immediate: Vec<u32>,
    subtree: Vec<Subtree>,
}

/// The preorder numbers that a node and all it dominates have in the dominator tree.
///
/// The virtual root is number 0, so no reachable node has an `end` of 0.
#[derive(Clone, Copy, Debug)]
struct Subtree {
    first: u32,
    end: u32,
}

impl Subtree {
    /// Contains nothing and is contained in nothing.
    const UNREACHABLE: Self = Self { first: u32::MAX, end: 0 };
}

impl DominatorTree {
    /// The dominators of everything reachable from `roots`, each of which must be a node.
    #[must_use]
    pub fn new(graph: &Graph, roots: &[u32]) -> Self {
        let search = DepthFirst::new(graph, roots);
        let above = immediate_dominators(graph, roots, &search);
        let numbered = number_subtrees(&above);

        let mut immediate = vec![NONE; graph.len()];
        let mut subtree = vec![Subtree::UNREACHABLE; graph.len()];
        for (number, &node) in search.preorder.iter().enumerate().skip(1) {
            immediate[node as usize] = search.preorder[above[number] as usize];
            subtree[node as usize] = numbered[number];
        }
        let mut reverse_postorder = search.postorder;
        reverse_postorder.reverse();
        Self { roots: roots.to_vec(), reverse_postorder, immediate, subtree }
    }

    /// The post-dominators: the dominators of the reversed graph, with `exits` as roots.
    ///
    /// The tree covers every node. Where no exit can be reached, all ways end in regions that are
    /// never left: infinite loops, or a dead end that is not among `exits`. The lowest node of each
    /// such region (a strongly connected component without an edge out of it) is added to the
    /// roots, as if the program could stop there. No other node becomes an exit.
    #[must_use]
    pub fn post(graph: &Graph, exits: &[u32]) -> Self {
        let reversed = graph.reversed();
        let mut roots = exits.to_vec();
        roots.extend(pseudo_exits(&reversed, exits));
        Self::new(&reversed, &roots)
    }

    /// The closest node, other than `node` itself, that lies on every way to `node`.
    ///
    /// `None` if `node` is unreachable, or has only the virtual root above it.
    #[must_use]
    pub fn immediate(&self, node: u32) -> Option<u32> {
        let above = self.immediate[node as usize];
        (above != NONE).then_some(above)
    }

    /// Whether every way from a root to `below` leads through `above`; a node dominates itself.
    ///
    /// An unreachable node neither dominates nor is dominated, not even by itself.
    #[must_use]
    pub fn dominates(&self, above: u32, below: u32) -> bool {
        let (above, below) = (self.subtree[above as usize], self.subtree[below as usize]);
        above.first <= below.first && below.first < above.end
    }

    /// Whether some root reaches `node`.
    #[must_use]
    pub fn is_reachable(&self, node: u32) -> bool {
        self.subtree[node as usize].end != 0
    }

    /// The reachable nodes, each before its successors unless the edge closes a cycle.
    ///
    /// A node stands behind its dominators. In a post-dominator tree, read "predecessors" for
    /// "successors".
    #[must_use]
    pub fn reverse_postorder(&self) -> &[u32] {
        &self.reverse_postorder
    }

    /// The roots as they were given; in a post-dominator tree, the added ones follow in ascending
    /// order.
    #[must_use]
    pub fn roots(&self) -> &[u32] {
        &self.roots
    }
}

/// One line per reachable node, in reverse postorder: `3 under 1`, or `0 under root`.
impl fmt::Display for DominatorTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &node in &self.reverse_postorder {
            match self.immediate(node) {
                Some(above) => writeln!(f, "{node} under {above}")?,
                None => writeln!(f, "{node} under root")?,
            }
        }
        Ok(())
    }
}

/// A depth-first spanning tree. Nodes are numbered in preorder; number 0 is the virtual root.
struct DepthFirst {
    /// The node of each number.
    preorder: Vec<u32>,
    /// The number of each node, 0 if it is unreachable.
    number: Vec<u32>,
    /// The parent of each number, as a number.
    parent: Vec<u32>,
    postorder: Vec<u32>,
}

impl DepthFirst {
    /// Takes roots and successors from the back, so that the first ones come first in the
    /// *reversed* postorder: that keeps it close to the order of the code.
    fn new(graph: &Graph, roots: &[u32]) -> Self {
        let mut search = Self {
            preorder: vec![NONE],
            number: vec![0; graph.len()],
            parent: vec![0],
            postorder: Vec::new(),
        };
        let mut path: Vec<(u32, slice::Iter<'_, u32>)> = Vec::new();
        for &root in roots.iter().rev() {
            if search.enter(root, 0) {
                path.push((root, graph.successors(root).iter()));
            }
            while let Some((node, rest)) = path.last_mut() {
                let node = *node;
                match rest.next_back() {
                    Some(&next) => {
                        if search.enter(next, search.number[node as usize]) {
                            path.push((next, graph.successors(next).iter()));
                        }
                    }
                    None => {
                        search.postorder.push(node);
                        path.pop();
                    }
                }
            }
        }
        search
    }

    /// Numbers `node` if it is new.
    fn enter(&mut self, node: u32, parent: u32) -> bool {
        let number = &mut self.number[node as usize];
        let new = *number == 0;
        if new {
            *number = self.preorder.len() as u32;
            self.preorder.push(node);
            self.parent.push(parent);
        }
        new
    }
}

/// The immediate dominator of each number, as a number; always a smaller one.
fn immediate_dominators(graph: &Graph, roots: &[u32], search: &DepthFirst) -> Vec<u32> {
    let count = search.preorder.len();
    // The semidominator so far: the parent and the virtual root are predecessors known at once.
    let mut semi = search.parent.clone();
    for &root in roots {
        semi[search.number[root as usize] as usize] = 0;
    }
    let mut paths = Paths::new(&search.parent);
    let mut immediate = vec![0; count];
    // For each number, a linked list of those it is the semidominator of; 0 ends it.
    let (mut semidominated, mut next) = (vec![0; count], vec![0; count]);

    for at in (1..count as u32).rev() {
        let mut below = semidominated[at as usize];
        while below != 0 {
            // Either `at` dominates `below`, or both have the dominator that `best` has, which is
            // known only when all semidominators are.
            let best = paths.best(below, at, &semi);
            immediate[below as usize] = if semi[best as usize] < at { best } else { at };
            below = next[below as usize];
        }

        let mut lowest = semi[at as usize];
        for &from in graph.predecessors(search.preorder[at as usize]) {
            let from = search.number[from as usize];
            // The number 0 is no candidate: an unreachable predecessor is no way here.
            if from > at {
                lowest = lowest.min(semi[paths.best(from, at, &semi) as usize]);
            } else if from != 0 {
                lowest = lowest.min(from);
            }
        }
        semi[at as usize] = lowest;
        // What hangs under the virtual root needs no second look: `immediate` starts as 0.
        if lowest != 0 {
            next[at as usize] = semidominated[lowest as usize];
            semidominated[lowest as usize] = at;
        }
    }

    for at in 1..count {
        if immediate[at] != semi[at] {
            immediate[at] = immediate[immediate[at] as usize];
        }
    }
    immediate
}

/// Answers which number has the lowest semidominator on a path up the depth-first tree.
struct Paths {
    /// An ancestor; the path up to it, itself not included, is summed up in `best`.
    ancestor: Vec<u32>,
    best: Vec<u32>,
    pending: Vec<u32>,
}

impl Paths {
    fn new(parent: &[u32]) -> Self {
        Self { ancestor: parent.to_vec(), best: (0..parent.len() as u32).collect(), pending: Vec::new() }
    }

    /// The number with the lowest semidominator among `from` and its ancestors above `limit`.
    /// The limit may only fall from call to call, as paths are compressed up to it.
    fn best(&mut self, from: u32, limit: u32, semi: &[u32]) -> u32 {
        let mut at = from;
        while self.ancestor[at as usize] > limit {
            self.pending.push(at);
            at = self.ancestor[at as usize];
        }
        while let Some(at) = self.pending.pop() {
            let ancestor = self.ancestor[at as usize] as usize;
            let candidate = self.best[ancestor];
            if semi[candidate as usize] < semi[self.best[at as usize] as usize] {
                self.best[at as usize] = candidate;
            }
            self.ancestor[at as usize] = self.ancestor[ancestor];
        }
        self.best[from as usize]
    }
}

/// Preorder numbers in a tree given by parents that are smaller than their children.
///
/// With the sizes of the subtrees known, each node takes its share of its parent's range: no walk
/// of the tree, and no lists of children.
fn number_subtrees(parent: &[u32]) -> Vec<Subtree> {
    let mut size = vec![1; parent.len()];
    for at in (1..parent.len()).rev() {
        size[parent[at] as usize] += size[at];
    }
    let mut numbered = vec![Subtree { first: 0, end: size[0] }; parent.len()];
    let mut free = vec![1; parent.len()];
    for at in 1..parent.len() {
        let first = free[parent[at] as usize];
        free[parent[at] as usize] += size[at];
        free[at] = first + 1;
        numbered[at] = Subtree { first, end: first + size[at] };
    }
    numbered
}

/// The lowest node of each region that is never left and holds no exit, in ascending order.
///
/// Two floods against the edges do it, without strongly connected components. The first one starts
/// anew at the lowest node it has not seen: a region that is never left is only seen from within,
/// so its lowest node is a start. A start outside such regions leads into one which the first flood
/// entered later (else it would have been seen from there), so a second flood that takes the starts
/// from the back sees it before its turn comes.
fn pseudo_exits(reversed: &Graph, exits: &[u32]) -> Vec<u32> {
    let mut flood = Flood::new(reversed);
    for &exit in exits {
        flood.start(exit);
    }
    let mut second = flood.clone();
    let starts: Vec<u32> = (0..reversed.len() as u32).filter(|&node| flood.start(node)).collect();
    let mut found: Vec<u32> = starts.into_iter().rev().filter(|&node| second.start(node)).collect();
    found.reverse();
    found
}

/// What has been reached from the starts so far.
#[derive(Clone)]
struct Flood<'a> {
    graph: &'a Graph,
    seen: Vec<bool>,
    pending: Vec<u32>,
}

impl<'a> Flood<'a> {
    fn new(graph: &'a Graph) -> Self {
        Self { graph, seen: vec![false; graph.len()], pending: Vec::new() }
    }

    /// Adds all that `node` reaches; false if `node` had been reached before.
    fn start(&mut self, node: u32) -> bool {
        let new = !core::mem::replace(&mut self.seen[node as usize], true);
        if new {
            self.pending.push(node);
        }
        while let Some(node) = self.pending.pop() {
            for &next in self.graph.successors(node) {
                if !core::mem::replace(&mut self.seen[next as usize], true) {
                    self.pending.push(next);
                }
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use proptest::test_runner::TestRunner;

    use super::*;
    use crate::verify::dominators::{check, check_post};
    use crate::verify::random;

    /// The tree, checked, in its text form on one line.
    fn tree(len: usize, edges: &[(u32, u32)], roots: &[u32]) -> alloc::string::String {
        let graph = Graph::from_edges(len, edges);
        let tree = DominatorTree::new(&graph, roots);
        check(&graph, roots, &tree).unwrap();
        tree.to_string().trim_end().replace('\n', ", ")
    }

    /// As [`tree`], for post-dominators.
    fn post_tree(len: usize, edges: &[(u32, u32)], exits: &[u32]) -> alloc::string::String {
        let graph = Graph::from_edges(len, edges);
        let tree = DominatorTree::post(&graph, exits);
        check_post(&graph, exits, &tree).unwrap();
        tree.to_string().trim_end().replace('\n', ", ")
    }

    const DIAMOND: [(u32, u32); 4] = [(0, 1), (0, 2), (1, 3), (2, 3)];

    #[test]
    fn diamond() {
        assert_eq!(tree(4, &DIAMOND, &[0]), "0 under root, 1 under 0, 2 under 0, 3 under 0");
        assert_eq!(post_tree(4, &DIAMOND, &[3]), "3 under root, 1 under 3, 2 under 3, 0 under 3");
    }

    #[test]
    fn dominance_is_reflexive_and_follows_the_tree() {
        let tree = DominatorTree::new(&Graph::from_edges(4, &DIAMOND), &[0]);
        assert!(tree.dominates(3, 3) && tree.dominates(0, 3));
        assert!(!tree.dominates(3, 0) && !tree.dominates(1, 3) && !tree.dominates(1, 2));
    }

    #[test]
    fn nested_loops() {
        let edges = [(0, 1), (1, 2), (2, 3), (3, 2), (3, 4), (4, 1), (4, 5)];
        assert_eq!(
            tree(6, &edges, &[0]),
            "0 under root, 1 under 0, 2 under 1, 3 under 2, 4 under 3, 5 under 4"
        );
    }

    #[test]
    fn irreducible_cycle_is_dominated_from_outside() {
        let edges = [(0, 1), (0, 2), (1, 2), (2, 1)];
        assert_eq!(tree(3, &edges, &[0]), "0 under root, 2 under 0, 1 under 0");
    }

    #[test]
    fn unreachable_nodes_are_outside() {
        let edges = [(0, 1), (2, 1), (2, 3)];
        assert_eq!(tree(4, &edges, &[0]), "0 under root, 1 under 0");
        let tree = DominatorTree::new(&Graph::from_edges(4, &edges), &[0]);
        assert!(!tree.is_reachable(2) && tree.immediate(2).is_none());
        assert!(!tree.dominates(2, 2) && !tree.dominates(0, 2) && !tree.dominates(2, 1));
    }

    #[test]
    fn self_loop_and_parallel_edges_change_nothing() {
        assert_eq!(tree(2, &[(0, 0), (0, 1), (0, 1), (1, 1)], &[0]), "0 under root, 1 under 0");
    }

    #[test]
    fn entries_do_not_dominate_what_they_share() {
        let edges = [(0, 2), (1, 3), (3, 2), (2, 4)];
        assert_eq!(
            tree(5, &edges, &[0, 1]),
            "0 under root, 1 under root, 3 under 1, 2 under root, 4 under 2"
        );
        // An entry inside another entry's code, named last, first, and twice.
        for roots in [&[0, 1][..], &[1, 0], &[1, 0, 1]] {
            assert_eq!(tree(3, &[(0, 1), (1, 2)], roots), "0 under root, 1 under root, 2 under 1");
        }
    }

    #[test]
    fn nothing_at_all() {
        assert_eq!(tree(0, &[], &[]), "");
        assert_eq!(tree(2, &[(0, 1)], &[]), "");
        assert_eq!(post_tree(0, &[], &[]), "");
    }

    #[test]
    fn infinite_loop_ends_in_its_lowest_node() {
        // 0 branches to the exit 1, or into the loop 2 <-> 3, from which there is no way out.
        let edges = [(0, 1), (0, 3), (3, 2), (2, 3)];
        assert_eq!(post_tree(4, &edges, &[1]), "1 under root, 2 under root, 3 under 2, 0 under root");
        let tree = DominatorTree::post(&Graph::from_edges(4, &edges), &[1]);
        assert_eq!(tree.roots(), [1, 2]);
    }

    #[test]
    fn only_bottom_regions_become_exits() {
        // The loop 0 <-> 1 can be left, for the dead end 2 or the self loop 3.
        let edges = [(0, 1), (1, 0), (1, 2), (1, 3), (3, 3)];
        let tree = DominatorTree::post(&Graph::from_edges(4, &edges), &[]);
        assert_eq!(tree.roots(), [2, 3]);
        assert_eq!(post_tree(4, &edges, &[]), "2 under root, 3 under root, 1 under root, 0 under 1");
    }

    #[test]
    fn long_chain() {
        const LEN: u32 = 200_000;
        let edges: Vec<_> = (1..LEN).map(|node| (node - 1, node)).collect();
        let graph = Graph::from_edges(LEN as usize, &edges);
        let tree = DominatorTree::new(&graph, &[0]);
        assert!((1..LEN).all(|node| tree.immediate(node) == Some(node - 1)));
        assert!(tree.dominates(0, LEN - 1) && !tree.dominates(LEN - 1, 0));
        let post = DominatorTree::post(&graph, &[]);
        assert_eq!(post.roots(), [LEN - 1]);
        assert!((1..LEN).all(|node| post.immediate(node - 1) == Some(node)));
    }

    #[test]
    fn agrees_with_the_definition() {
        TestRunner::default()
            .run(&random::graph_and_roots(), |(graph, roots)| {
                let tree = DominatorTree::new(&graph, &roots);
                check(&graph, &roots, &tree).map_err(random::fail)?;
                let post = DominatorTree::post(&graph, &roots);
                check_post(&graph, &roots, &post).map_err(random::fail)
            })
            .unwrap();
    }
}
