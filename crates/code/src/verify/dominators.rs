//! Dominators by their definition: `a` dominates `b` if nothing reaches `b` once `a` is removed.
//!
//! One flood per node, so O(nodes · edges).

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::{dominated_by, reached};
use crate::dominators::DominatorTree;
use crate::graph::Graph;

/// Checks every answer of a tree made by [`DominatorTree::new`].
///
/// # Errors
///
/// Says which answer is wrong.
pub fn check(graph: &Graph, roots: &[u32], tree: &DominatorTree) -> Result<(), String> {
    if tree.roots() != roots {
        return Err(format!("the roots are {roots:?}, the tree has {:?}", tree.roots()));
    }
    let reachable = reached(graph, roots.iter().copied(), |_, _| true);
    check_order(graph, &reachable, tree)?;
    for node in 0..graph.len() as u32 {
        if tree.is_reachable(node) != reachable[node as usize] {
            return Err(format!("wrong about node {node} being reachable: {}", tree.is_reachable(node)));
        }
        if reachable[node as usize] {
            check_below(&dominated_by(graph, roots, &reachable, node), node, tree)?;
        } else {
            check_unreachable(graph, node, tree)?;
        }
    }
    Ok(())
}

/// Checks every answer of a tree made by [`DominatorTree::post`], and its choice of added exits.
///
/// # Errors
///
/// Says which answer is wrong.
pub fn check_post(graph: &Graph, exits: &[u32], tree: &DominatorTree) -> Result<(), String> {
    let expected = [exits, &lowest_of_bottom_regions(graph, exits)].concat();
    if tree.roots() != expected {
        return Err(format!("the exits are {expected:?}, the tree has {:?}", tree.roots()));
    }
    if let Some(node) = (0..graph.len() as u32).find(|&node| !tree.is_reachable(node)) {
        return Err(format!("node {node} is not in the post-dominator tree"));
    }
    check(&graph.reversed(), &expected, tree)
}

/// The nodes that reach only what reaches them back, no lower node, and no exit.
fn lowest_of_bottom_regions(graph: &Graph, exits: &[u32]) -> Vec<u32> {
    let reversed = graph.reversed();
    let is_lowest_of_bottom = |&node: &u32| {
        let ahead = reached(graph, [node], |_, _| true);
        let behind = reached(&reversed, [node], |_, _| true);
        (0..graph.len() as u32)
            .filter(|&other| ahead[other as usize])
            .all(|other| behind[other as usize] && other >= node && !exits.contains(&other))
    };
    (0..graph.len() as u32).filter(is_lowest_of_bottom).collect()
}

/// What the tree says of `node`, given what it truly dominates.
///
/// That `d` is the immediate dominator of `b` means: `d` strictly dominates `b`, and whatever else
/// does dominates `d`. Over all nodes, the checks below amount to just that.
fn check_below(dominated: &[bool], node: u32, tree: &DominatorTree) -> Result<(), String> {
    for (below, &truth) in (0u32..).zip(dominated) {
        if tree.dominates(node, below) != truth {
            return Err(format!("wrong about {node} dominating {below}: {}", !truth));
        }
        let strictly = truth && below != node;
        match tree.immediate(below) {
            Some(above) if above == node && !strictly => {
                return Err(format!("{node} does not strictly dominate {below}, yet stands above it"));
            }
            Some(above) if strictly && !dominated[above as usize] => {
                return Err(format!("{node} dominates {below}, but not {above} above it"));
            }
            None if strictly => {
                return Err(format!("{node} dominates {below}, yet nothing stands above it"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_unreachable(graph: &Graph, node: u32, tree: &DominatorTree) -> Result<(), String> {
    if let Some(above) = tree.immediate(node) {
        return Err(format!("{above} stands above the unreachable {node}"));
    }
    for other in 0..graph.len() as u32 {
        if tree.dominates(node, other) || tree.immediate(other) == Some(node) {
            return Err(format!("the unreachable {node} stands above {other}"));
        }
    }
    Ok(())
}

/// The order must hold each reachable node once, and an edge may lead back in it only if there is a
/// way forth: from the edge's target, along edges that lead forward, to its source.
fn check_order(graph: &Graph, reachable: &[bool], tree: &DominatorTree) -> Result<(), String> {
    let mut position = vec![None; graph.len()];
    for (index, &node) in tree.reverse_postorder().iter().enumerate() {
        if !reachable[node as usize] || position[node as usize].replace(index).is_some() {
            return Err(format!("{node} is twice in the order, or unreachable"));
        }
    }
    if let Some(node) = (0..graph.len()).find(|&node| reachable[node] && position[node].is_none()) {
        return Err(format!("{node} is reachable, but not in the order"));
    }
    let leads_forward = |from: u32, to: u32| position[from as usize] < position[to as usize];
    for &to in tree.reverse_postorder() {
        let leads_back = |&&from: &&u32| reachable[from as usize] && !leads_forward(from, to);
        let mut sources = graph.predecessors(to).iter().filter(leads_back).peekable();
        if sources.peek().is_some() {
            let ahead = reached(graph, [to], leads_forward);
            if let Some(from) = sources.find(|&&from| !ahead[from as usize]) {
                return Err(format!("{to} stands before {from} in the order, against an edge"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree of a graph with one edge more is wrong in a small way: it must be noticed.
    #[test]
    fn notices_a_wrong_tree() {
        let graph = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3)]);
        let other = Graph::from_edges(4, &[(0, 1), (1, 2), (2, 3), (1, 3)]);
        let wrong = DominatorTree::new(&other, &[0]);
        assert_eq!(check(&graph, &[0], &wrong).unwrap_err(), "wrong about 2 dominating 3: false");
        let wrong = DominatorTree::new(&graph, &[0]);
        assert_eq!(check(&other, &[0], &wrong).unwrap_err(), "wrong about 2 dominating 3: true");
    }

    #[test]
    fn notices_wrong_roots_and_reach() {
        let graph = Graph::from_edges(3, &[(0, 1)]);
        let tree = DominatorTree::new(&graph, &[0]);
        assert!(check(&graph, &[0, 2], &tree).unwrap_err().contains("roots"));
        let more = Graph::from_edges(3, &[(0, 1), (1, 2)]);
        assert!(check(&more, &[0], &tree).unwrap_err().contains("not in the order"));
        assert!(check(&graph, &[0], &DominatorTree::new(&more, &[0])).unwrap_err().contains("unreachable"));
    }

    #[test]
    fn notices_a_wrong_order() {
        // Equal dominators, but 2 must come before 1.
        let graph = Graph::from_edges(3, &[(0, 1), (0, 2), (2, 1)]);
        let other = Graph::from_edges(3, &[(0, 1), (0, 2), (1, 2)]);
        let wrong = DominatorTree::new(&other, &[0]);
        assert!(check(&graph, &[0], &wrong).unwrap_err().contains("against an edge"));
    }

    #[test]
    fn notices_a_missing_or_needless_exit() {
        let graph = Graph::from_edges(3, &[(0, 1), (0, 2), (2, 2)]);
        assert_eq!(check_post(&graph, &[1], &DominatorTree::post(&graph, &[1])), Ok(()));
        let reversed = graph.reversed();
        for wrong in [&[1][..], &[1, 0], &[1, 2, 0]] {
            let wrong = DominatorTree::new(&reversed, wrong);
            assert!(check_post(&graph, &[1], &wrong).unwrap_err().contains("exits"));
        }
    }
}
