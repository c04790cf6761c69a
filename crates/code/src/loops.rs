//! Natural loops and how they nest.
//!
//! A back edge leads to a node that dominates its source. The natural loop of a header is the header
//! and all that reaches the source of a back edge to it without passing through it. Two such loops
//! are disjoint or nested, in any graph, so they form a forest.
//!
//! Loops are collected from the innermost out, by walking backwards from the latches. A loop that
//! was collected before is crossed in one step, from any of its blocks to its header; finding the
//! outermost loop collected around a block is a union-find, as in Tarjan, "Testing flow graph
//! reducibility" (1974). So the time is nearly linear, however deep the nesting.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Index, Range};

use crate::dominators::DominatorTree;
use crate::graph::Graph;

/// Stands for "no loop".
const NONE: u32 = u32::MAX;

/// A loop of a [`LoopForest`]; an outer loop has a lower id than those inside it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoopId(pub u32);

impl LoopId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for LoopId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "loop{}", self.0)
    }
}

impl fmt::Debug for LoopId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A natural loop. What it consists of is asked of the forest.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The one block through which the loop is entered.
    pub header: u32,
    /// The innermost loop around this one.
    pub parent: Option<LoopId>,
    /// Number of loops around the header, this one included: 1 for an outermost loop.
    pub depth: u32,
    latches: Range<u32>,
    blocks: Range<u32>,
}

/// An edge that closes a cycle without being a back edge: its target does not dominate its source,
/// so the cycle has more than one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IrreducibleEdge {
    /// Where the edge comes from.
    pub from: u32,
    /// Where it leads: the entry that a depth-first search happened to take first.
    pub to: u32,
}

/// All natural loops of a graph, as far as its roots reach.
///
/// A cycle with several entries is no natural loop: it adds nothing to any block's depth, and is
/// reported in [`irreducible`](Self::irreducible).
#[derive(Clone, Debug)]
pub struct LoopForest {
    loops: Vec<Loop>,
    innermost: Vec<u32>,
    /// The latches of all loops, each loop's in a row.
    latches: Vec<u32>,
    /// All blocks in loops, once: those of a nested loop lie within those of its parent.
    blocks: Vec<u32>,
    irreducible: Vec<IrreducibleEdge>,
}

impl LoopForest {
    /// The loops of `graph`, whose dominator tree is `tree`.
    #[must_use]
    pub fn new(graph: &Graph, tree: &DominatorTree) -> Self {
        let mut forest = Self {
            loops: Vec::new(),
            innermost: vec![NONE; graph.len()],
            latches: Vec::new(),
            blocks: Vec::new(),
            irreducible: Vec::new(),
        };
        forest.find_headers(graph, tree);
        forest.collect_bodies(graph, tree);
        forest.measure_depths();
        forest.lay_out_blocks(tree.reverse_postorder());
        forest
    }

    /// All loops, indexed by [`LoopId`], in reverse postorder of their headers.
    #[must_use]
    pub fn loops(&self) -> &[Loop] {
        &self.loops
    }

    /// The ids of all loops, outer ones before those inside them.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = LoopId> + ExactSizeIterator + use<> {
        (0..self.loops.len() as u32).map(LoopId)
    }

    /// The smallest loop that `block` is in.
    #[must_use]
    pub fn innermost(&self, block: u32) -> Option<LoopId> {
        let id = self.innermost[block as usize];
        (id != NONE).then_some(LoopId(id))
    }

    /// Number of loops that `block` is in.
    #[must_use]
    pub fn depth(&self, block: u32) -> u32 {
        self.innermost(block).map_or(0, |id| self[id].depth)
    }

    /// The sources of the back edges, ascending, each once.
    #[must_use]
    pub fn latches_of(&self, id: LoopId) -> &[u32] {
        let Range { start, end } = self[id].latches;
        &self.latches[start as usize..end as usize]
    }

    /// All blocks of the loop, nested loops included: the header, the others that are in no nested
    /// loop in reverse postorder, then loop by loop the nested ones.
    #[must_use]
    pub fn blocks_of(&self, id: LoopId) -> &[u32] {
        let Range { start, end } = self[id].blocks;
        &self.blocks[start as usize..end as usize]
    }

    /// Whether `block` is in the loop, at any depth.
    #[must_use]
    pub fn contains(&self, id: LoopId, block: u32) -> bool {
        // Nested loops have nested ranges, and every loop has a start of its own, for its header.
        self.innermost(block).is_some_and(|inner| self[id].blocks.contains(&self[inner].blocks.start))
    }

    /// The edges that close a cycle with several entries, each once.
    ///
    /// Which edges of such a cycle are named depends on the order of the search. That there are
    /// none does not: it means that every cycle is a natural loop.
    #[must_use]
    pub fn irreducible(&self) -> &[IrreducibleEdge] {
        &self.irreducible
    }

    /// Sorts out the edges that lead back in the order: a loop for each target of back edges.
    fn find_headers(&mut self, graph: &Graph, tree: &DominatorTree) {
        // Counted from 1: unreachable nodes stay at 0, and so never behind a header.
        let mut position = vec![0u32; graph.len()];
        for (&node, at) in tree.reverse_postorder().iter().zip(1..) {
            position[node as usize] = at;
        }
        let mut sources = Vec::new();
        for &header in tree.reverse_postorder() {
            let retreats = |from: &u32| position[*from as usize] >= position[header as usize];
            sources.clear();
            sources.extend(graph.predecessors(header).iter().copied().filter(retreats));
            sources.sort_unstable();
            sources.dedup();

            let first = self.latches.len() as u32;
            for &from in &sources {
                if tree.dominates(header, from) {
                    self.latches.push(from);
                } else {
                    self.irreducible.push(IrreducibleEdge { from, to: header });
                }
            }
            let latches = first..self.latches.len() as u32;
            if !latches.is_empty() {
                self.loops.push(Loop { header, parent: None, depth: 0, latches, blocks: 0..0 });
            }
        }
    }

    /// Finds each block's innermost loop and each loop's parent.
    ///
    /// A header of an inner loop is dominated by that of the outer one, so it stands behind it in
    /// reverse postorder: taking the loops from the back, inner ones come first.
    fn collect_bodies(&mut self, graph: &Graph, tree: &DominatorTree) {
        let mut collected = Nesting::new(self.loops.len());
        let mut pending = Vec::new();
        for id in self.ids().rev() {
            let header = self[id].header;
            self.innermost[header as usize] = id.0;
            pending.extend_from_slice(self.latches_of(id));
            while let Some(block) = pending.pop() {
                let entry = match self.innermost(block).map(|inner| collected.outermost(inner)) {
                    Some(outermost) if outermost == id => continue,
                    Some(outermost) => {
                        collected.put_into(outermost, id);
                        self.loops[outermost.index()].parent = Some(id);
                        self[outermost].header
                    }
                    None => {
                        self.innermost[block as usize] = id.0;
                        block
                    }
                };
                let before = graph.predecessors(entry).iter().copied();
                pending.extend(before.filter(|&from| tree.is_reachable(from)));
            }
        }
    }

    fn measure_depths(&mut self) {
        for id in self.ids() {
            self.loops[id.index()].depth = 1 + self[id].parent.map_or(0, |parent| self[parent].depth);
        }
    }

    /// Gives each loop its range of `blocks`, first its own, then those of the loops in it.
    fn lay_out_blocks(&mut self, order: &[u32]) {
        let mut own = vec![0; self.loops.len()];
        for &block in order {
            if let Some(id) = self.innermost(block) {
                own[id.index()] += 1;
            }
        }
        let mut size = own.clone();
        for id in self.ids().rev() {
            if let Some(parent) = self[id].parent {
                size[parent.index()] += size[id.index()];
            }
        }

        let mut total = 0;
        // Where in a loop's range the next nested loop goes, and the next own block.
        let (mut next_nested, mut next_own) = (own, vec![0; self.loops.len()]);
        for id in self.ids() {
            let next = self[id].parent.map_or(&mut total, |parent| &mut next_nested[parent.index()]);
            let start = *next;
            *next += size[id.index()];
            next_nested[id.index()] += start;
            next_own[id.index()] = start;
            self.loops[id.index()].blocks = start..start + size[id.index()];
        }

        self.blocks = vec![0; total as usize];
        for &block in order {
            if let Some(id) = self.innermost(block) {
                self.blocks[next_own[id.index()] as usize] = block;
                next_own[id.index()] += 1;
            }
        }
    }
}

impl Index<LoopId> for LoopForest {
    type Output = Loop;

    fn index(&self, id: LoopId) -> &Loop {
        &self.loops[id.index()]
    }
}

/// One line per loop, indented by its depth, with the header as first block; then one per
/// irreducible edge.
impl fmt::Display for LoopForest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for id in self.ids() {
            write!(f, "{:indent$}{id}: latches", "", indent = 2 * (self[id].depth as usize - 1))?;
            self.latches_of(id).iter().try_for_each(|latch| write!(f, " {latch}"))?;
            write!(f, ", blocks")?;
            self.blocks_of(id).iter().try_for_each(|block| write!(f, " {block}"))?;
            writeln!(f)?;
        }
        for edge in &self.irreducible {
            writeln!(f, "irreducible: {} -> {}", edge.from, edge.to)?;
        }
        Ok(())
    }
}

/// A union-find over the loops collected so far: which one has no loop around it yet.
struct Nesting {
    around: Vec<LoopId>,
}

impl Nesting {
    fn new(len: usize) -> Self {
        Self { around: (0..len as u32).map(LoopId).collect() }
    }

    /// Follows the loops outwards, halving the way for the next time.
    fn outermost(&mut self, mut id: LoopId) -> LoopId {
        while self.around[id.index()] != id {
            let around = self.around[id.index()];
            self.around[id.index()] = self.around[around.index()];
            id = self.around[id.index()];
        }
        id
    }

    fn put_into(&mut self, inner: LoopId, outer: LoopId) {
        self.around[inner.index()] = outer;
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};

    use proptest::test_runner::TestRunner;

    use super::*;
    use crate::verify::loops::check;
    use crate::verify::random;

    /// The loops, checked.
    fn forest(len: usize, edges: &[(u32, u32)], roots: &[u32]) -> LoopForest {
        let graph = Graph::from_edges(len, edges);
        let forest = LoopForest::new(&graph, &DominatorTree::new(&graph, roots));
        check(&graph, roots, &forest).unwrap();
        forest
    }

    fn text(len: usize, edges: &[(u32, u32)], roots: &[u32]) -> String {
        forest(len, edges, roots).to_string()
    }

    #[test]
    fn diamond_has_no_loop() {
        assert_eq!(text(4, &[(0, 1), (0, 2), (1, 3), (2, 3)], &[0]), "");
        assert_eq!(text(0, &[], &[]), "");
    }

    #[test]
    fn nested_loops() {
        let edges = [(0, 1), (1, 2), (2, 3), (3, 2), (3, 4), (4, 1), (4, 5)];
        let forest = forest(6, &edges, &[0]);
        assert_eq!(
            forest.to_string(),
            "loop0: latches 4, blocks 1 4 2 3\n  \
               loop1: latches 3, blocks 2 3\n"
        );
        assert_eq!(forest[LoopId(1)].parent, Some(LoopId(0)));
        assert_eq!([0, 1, 2, 3, 4, 5].map(|block| forest.depth(block)), [0, 1, 2, 2, 1, 0]);
        assert_eq!(forest.innermost(4), Some(LoopId(0)));
        assert!(forest.contains(LoopId(0), 3) && !forest.contains(LoopId(1), 4));
    }

    #[test]
    fn siblings_stay_within_their_parent() {
        // Two loops inside a third, and the exit loop 5 whose header comes between theirs.
        let edges = [(0, 1), (1, 2), (1, 5), (1, 3), (2, 2), (2, 4), (3, 3), (3, 4), (4, 1), (5, 5)];
        assert_eq!(
            text(6, &edges, &[0]),
            "loop0: latches 4, blocks 1 4 2 3\n  \
               loop1: latches 2, blocks 2\n\
             loop2: latches 5, blocks 5\n  \
               loop3: latches 3, blocks 3\n"
        );
    }

    #[test]
    fn loops_of_one_header_are_one() {
        let edges = [(0, 1), (1, 2), (2, 1), (2, 1), (1, 3), (3, 1)];
        assert_eq!(text(4, &edges, &[0]), "loop0: latches 2 3, blocks 1 2 3\n");
    }

    #[test]
    fn self_loop() {
        assert_eq!(text(2, &[(0, 1), (1, 1), (1, 1)], &[0]), "loop0: latches 1, blocks 1\n");
    }

    #[test]
    fn irreducible_cycle_is_reported_not_nested() {
        let edges = [(0, 1), (0, 2), (1, 2), (2, 1)];
        let forest = forest(3, &edges, &[0]);
        assert_eq!(forest.to_string(), "irreducible: 1 -> 2\n");
        assert_eq!(forest.depth(1), 0);
    }

    #[test]
    fn irreducible_cycle_inside_a_loop() {
        let edges = [(0, 1), (1, 2), (1, 3), (2, 3), (3, 2), (3, 1)];
        assert_eq!(text(4, &edges, &[0]), "loop0: latches 3, blocks 1 3 2\nirreducible: 2 -> 3\n");
    }

    #[test]
    fn second_entry_makes_a_loop_irreducible() {
        let edges = [(0, 1), (1, 2), (2, 1)];
        assert_eq!(text(3, &edges, &[0]), "loop0: latches 2, blocks 1 2\n");
        assert_eq!(text(3, &edges, &[0, 2]), "irreducible: 1 -> 2\n");
        // An entry at the header does no harm.
        assert_eq!(text(3, &edges, &[0, 1]), "loop0: latches 2, blocks 1 2\n");
    }

    #[test]
    fn unreachable_nodes_are_in_no_loop() {
        // 3 leads into the loop and 4 loops by itself, but neither can be reached.
        let edges = [(0, 1), (1, 2), (2, 1), (3, 2), (3, 1), (4, 4)];
        assert_eq!(text(5, &edges, &[0]), "loop0: latches 2, blocks 1 2\n");
    }

    #[test]
    fn ids_print_themselves() {
        assert_eq!(alloc::format!("{} {:?}", LoopId(3), LoopId(4)), "loop3 loop4");
    }

    #[test]
    fn deep_nest_on_a_long_chain() {
        const LEN: u32 = 200_000;
        let chain = (1..LEN).map(|node| (node - 1, node));
        let back = (0..LEN / 2).map(|node| (LEN - 1 - node, node));
        let edges: Vec<_> = chain.chain(back).collect();
        let graph = Graph::from_edges(LEN as usize, &edges);
        let forest = LoopForest::new(&graph, &DominatorTree::new(&graph, &[0]));
        assert_eq!(forest.loops().len(), LEN as usize / 2);
        assert_eq!(forest.depth(LEN / 2), LEN / 2);
        assert_eq!(forest.blocks_of(LoopId(0)).len(), LEN as usize);
        assert_eq!(forest.blocks_of(LoopId(LEN / 2 - 1)), [LEN / 2 - 1, LEN / 2]);
    }

    #[test]
    fn agrees_with_the_definition() {
        TestRunner::default()
            .run(&random::graph_and_roots(), |(graph, roots)| {
                let forest = LoopForest::new(&graph, &DominatorTree::new(&graph, &roots));
                check(&graph, &roots, &forest).map_err(random::fail)
            })
            .unwrap();
    }
}
