//! Loops by their definition: the bodies by backward reachability, the nesting by comparing sets.
//!
//! One flood per node, then each loop's body against those around it: O(nodes · edges), and more
//! only where loops nest deeper than code does (2500 deep takes the better part of a minute).

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::{dominated_by, reached};
use crate::graph::Graph;
use crate::loops::{LoopForest, LoopId};

/// Checks every answer of a forest made for the loops of what `roots` reach in `graph`.
///
/// # Errors
///
/// Says which answer is wrong.
pub fn check(graph: &Graph, roots: &[u32], forest: &LoopForest) -> Result<(), String> {
    let reachable = reached(graph, roots.iter().copied(), |_, _| true);
    let natural = natural_loops(graph, roots, &reachable);
    let bodies = check_loops(&natural, forest)?;
    check_nesting(&bodies, forest)?;
    check_blocks(graph, &bodies, forest)?;
    check_irreducible(graph, &reachable, &natural, forest)
}

/// A loop as it must be.
struct Natural {
    header: u32,
    latches: BTreeSet<u32>,
    body: BTreeSet<u32>,
}

/// A back edge's source is dominated by its target. The loop is the header and all from which a
/// latch can be reached without passing through the header.
fn natural_loops(graph: &Graph, roots: &[u32], reachable: &[bool]) -> Vec<Natural> {
    let reversed = graph.reversed();
    let mut loops = Vec::new();
    for header in (0..graph.len() as u32).filter(|&node| reachable[node as usize]) {
        let dominated = dominated_by(graph, roots, reachable, header);
        let before = graph.predecessors(header).iter().copied();
        let latches: BTreeSet<u32> = before.filter(|&from| dominated[from as usize]).collect();
        if !latches.is_empty() {
            let inside = |from: u32, to: u32| from != header && reachable[to as usize];
            let in_body = reached(&reversed, latches.iter().copied().chain([header]), inside);
            let body = (0u32..).zip(in_body).filter(|&(_, inside)| inside).map(|(node, _)| node).collect();
            loops.push(Natural { header, latches, body });
        }
    }
    loops
}

/// Compares the loops one by one, without their nesting. Returns the bodies by id.
fn check_loops(natural: &[Natural], forest: &LoopForest) -> Result<Vec<BTreeSet<u32>>, String> {
    if forest.loops().len() != natural.len() {
        return Err(format!("there are {} loops, not {}", natural.len(), forest.loops().len()));
    }
    let mut headers = BTreeSet::new();
    let mut bodies = Vec::new();
    for id in forest.ids() {
        let header = forest[id].header;
        if !headers.insert(header) {
            return Err(format!("{id} is not the only loop with header {header}"));
        }
        let Some(natural) = natural.iter().find(|natural| natural.header == header) else {
            return Err(format!("{id}: {header} is not the header of a loop"));
        };
        if !forest.latches_of(id).iter().eq(&natural.latches) {
            let (latches, said) = (&natural.latches, forest.latches_of(id));
            return Err(format!("{id}: the latches are {latches:?}, not {said:?}"));
        }
        let said = forest.blocks_of(id);
        let body: BTreeSet<u32> = said.iter().copied().collect();
        if body != natural.body || body.len() != said.len() || said[0] != header {
            return Err(format!(
                "{id}: the header is {header}, the blocks are {:?}, not {said:?}",
                natural.body
            ));
        }
        bodies.push(body);
    }
    Ok(bodies)
}

/// The loops around a loop are the proper supersets of its body; the parent is the smallest.
fn check_nesting(bodies: &[BTreeSet<u32>], forest: &LoopForest) -> Result<(), String> {
    for id in forest.ids() {
        let body = &bodies[id.0 as usize];
        let around = |other: &LoopId| {
            let other = &bodies[other.0 as usize];
            other.len() > body.len() && other.contains(&forest[id].header) && other.is_superset(body)
        };
        let around: Vec<LoopId> = forest.ids().filter(around).collect();
        let parent = around.iter().copied().min_by_key(|other| bodies[other.0 as usize].len());
        if forest[id].parent != parent {
            return Err(format!("{id}: the parent is {parent:?}, not {:?}", forest[id].parent));
        }
        if forest[id].depth as usize != around.len() + 1 {
            return Err(format!("{id}: the depth is {}, not {}", around.len() + 1, forest[id].depth));
        }
        if around.iter().any(|&other| other > id) {
            return Err(format!("{id} has a lower id than a loop around it"));
        }
    }
    Ok(())
}

/// A block's innermost loop is the smallest that holds it; its depth is how many do.
fn check_blocks(graph: &Graph, bodies: &[BTreeSet<u32>], forest: &LoopForest) -> Result<(), String> {
    for block in 0..graph.len() as u32 {
        let holding = || forest.ids().filter(|id| bodies[id.0 as usize].contains(&block));
        let innermost = holding().min_by_key(|id| bodies[id.0 as usize].len());
        if forest.innermost(block) != innermost {
            let said = forest.innermost(block);
            return Err(format!("the innermost loop of {block} is {innermost:?}, not {said:?}"));
        }
        if forest.depth(block) as usize != holding().count() {
            return Err(format!(
                "the depth of {block} is {}, not {}",
                holding().count(),
                forest.depth(block)
            ));
        }
        if !forest.ids().filter(|&id| forest.contains(id, block)).eq(holding()) {
            return Err(format!("wrong about which loops contain {block}"));
        }
    }
    Ok(())
}

/// Without the back edges and the irreducible ones nothing may be left of any cycle, and each of the
/// irreducible ones must be needed for that.
fn check_irreducible(
    graph: &Graph,
    reachable: &[bool],
    natural: &[Natural],
    forest: &LoopForest,
) -> Result<(), String> {
    let edges = |of: u32| graph.successors(of).iter().map(move |&to| (of, to));
    let mut removed: BTreeSet<(u32, u32)> = BTreeSet::new();
    for natural in natural {
        removed.extend(natural.latches.iter().map(|&latch| (latch, natural.header)));
    }
    for edge in forest.irreducible() {
        if !reachable[edge.from as usize] || !graph.successors(edge.from).contains(&edge.to) {
            return Err(format!("there is no edge {} -> {} to be irreducible", edge.from, edge.to));
        }
        if !removed.insert((edge.from, edge.to)) {
            return Err(format!("{} -> {} is a back edge, or irreducible twice", edge.from, edge.to));
        }
    }

    let remains = |from: u32, to: u32| !removed.contains(&(from, to));
    for edge in forest.irreducible() {
        if !reached(graph, [edge.to], remains)[edge.from as usize] {
            return Err(format!("{} -> {} closes no cycle", edge.from, edge.to));
        }
    }

    // Taking away what nothing remaining leads to, again and again, must leave nothing.
    let nodes = || (0..graph.len() as u32).filter(|&node| reachable[node as usize]);
    let mut incoming = vec![0u32; graph.len()];
    for (_, to) in nodes().flat_map(edges).filter(|&(from, to)| remains(from, to)) {
        incoming[to as usize] += 1;
    }
    let mut free: Vec<u32> = nodes().filter(|&node| incoming[node as usize] == 0).collect();
    while let Some(node) = free.pop() {
        for (_, to) in edges(node).filter(|&(from, to)| remains(from, to)) {
            incoming[to as usize] -= 1;
            if incoming[to as usize] == 0 {
                free.push(to);
            }
        }
    }
    match nodes().find(|&node| incoming[node as usize] != 0) {
        Some(node) => Err(format!("{node} is on, or behind, a cycle of which no edge is named")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dominators::DominatorTree;

    fn forest(graph: &Graph) -> LoopForest {
        LoopForest::new(graph, &DominatorTree::new(graph, &[0]))
    }

    /// What is said of the loops of `other` if they are taken for those of `edges`.
    fn complaint(len: usize, edges: &[(u32, u32)], other: &[(u32, u32)]) -> String {
        let graph = Graph::from_edges(len, edges);
        assert_eq!(check(&graph, &[0], &forest(&graph)), Ok(()));
        check(&graph, &[0], &forest(&Graph::from_edges(len, other))).unwrap_err()
    }

    #[test]
    fn notices_wrong_loops() {
        let cycle = [(0, 1), (1, 2), (2, 1)];
        assert_eq!(complaint(3, &cycle, &cycle[..2]), "there are 1 loops, not 0");
        assert_eq!(complaint(3, &cycle, &[(0, 1), (1, 2), (2, 0)]), "loop0: 0 is not the header of a loop");
        assert_eq!(
            complaint(3, &cycle, &[(0, 1), (1, 2), (2, 1), (1, 1)]),
            "loop0: the latches are {2}, not [1, 2]"
        );
    }

    #[test]
    fn notices_a_wrong_body() {
        // In the first graph 3 is beside the loop, in the second inside it.
        let edges = [(0, 1), (1, 2), (2, 1), (1, 3)];
        let other = [(0, 1), (1, 2), (2, 1), (1, 3), (3, 2)];
        assert_eq!(
            complaint(4, &edges, &other),
            "loop0: the header is 1, the blocks are {1, 2}, not [1, 3, 2]"
        );
    }

    #[test]
    fn notices_wrong_irreducible_edges() {
        let cycle = [(0, 1), (0, 2), (1, 2), (2, 1)];
        assert!(complaint(3, &cycle, &cycle[..3]).contains("on, or behind, a cycle"));
        assert_eq!(complaint(3, &cycle[..3], &cycle), "1 -> 2 closes no cycle");
        assert!(complaint(3, &[(0, 1), (0, 2), (2, 1)], &cycle).contains("no edge 1 -> 2"));
    }
}
