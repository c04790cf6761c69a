//! Checkers: what a finished analysis claims, held against the definition itself.
//!
//! They share no code with the analyses and prefer the plain to the fast: each says at its head
//! what it costs. Tests run them on small graphs, `--verify` on real ones.

use alloc::vec;
use alloc::vec::Vec;

use crate::graph::Graph;

pub mod cfg;
pub mod dominators;
pub mod liveness;
pub mod loops;
pub mod stack_height;

/// For each node, whether `starts` reach it along edges `(from, to)` that `admits` lets through.
fn reached(
    graph: &Graph,
    starts: impl IntoIterator<Item = u32>,
    admits: impl Fn(u32, u32) -> bool,
) -> Vec<bool> {
    let mut seen = vec![false; graph.len()];
    let mut pending: Vec<u32> = starts.into_iter().collect();
    while let Some(node) = pending.pop() {
        if !seen[node as usize] {
            seen[node as usize] = true;
            pending.extend(graph.successors(node).iter().copied().filter(|&to| admits(node, to)));
        }
    }
    seen
}

/// For each node, whether it is `reachable` from `roots`, but not without passing through `node`.
fn dominated_by(graph: &Graph, roots: &[u32], reachable: &[bool], node: u32) -> Vec<bool> {
    let others = roots.iter().copied().filter(|&root| root != node);
    let avoiding = reached(graph, others, |_, to| to != node);
    reachable.iter().zip(avoiding).map(|(&reachable, avoids)| reachable && !avoids).collect()
}

/// Graphs for property tests.
#[cfg(test)]
pub(crate) mod random {
    use alloc::string::String;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::test_runner::TestCaseError;

    use super::*;

    /// A graph of up to 30 nodes and up to three roots.
    ///
    /// Plain random edges hardly ever make a natural loop, let alone nested ones, so most graphs
    /// get a broken chain with few edges across, as code has it.
    pub(crate) fn graph_and_roots() -> impl Strategy<Value = (Graph, Vec<u32>)> {
        (1..=30u32).prop_flat_map(|len| {
            let chain = vec(proptest::bool::weighted(0.8), len as usize - 1);
            let across = vec((0..len, 0..len), 0..=len as usize * 3 / 2);
            let roots = vec(0..len, 0..=2);
            (chain, across, roots).prop_map(move |(chain, mut edges, mut roots)| {
                let links = (1..len).zip(chain).filter(|&(_, linked)| linked);
                edges.extend(links.map(|(node, _)| (node - 1, node)));
                roots.insert(0, 0);
                (Graph::from_edges(len as usize, &edges), roots)
            })
        })
    }

    /// Makes a checker's complaint fail the case.
    pub(crate) fn fail(complaint: String) -> TestCaseError {
        TestCaseError::fail(complaint)
    }
}
