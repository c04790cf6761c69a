//! Whether flows are what [`balance`](super::balance()) promises, found in another way.
//!
//! A flow that is conserved is the cheapest if and only if no cycle of changes to it makes it cheaper (Klein 1967).
//! Bellman and Ford's relaxation finds such a cycle or comes to rest.

use super::Arc;

/// What is wrong with a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// There are more or fewer flows than arcs.
    Length,
    /// More enters this node than leaves it, or less.
    Imbalance(u32),
    /// Another flow is cheaper.
    Dear,
}

/// Checks that flows are conserved and none are cheaper.
///
/// # Errors
/// The first flaw found.
pub fn check(nodes: u32, arcs: &[Arc], flows: &[u64]) -> Result<(), Flaw> {
    if arcs.len() != flows.len() {
        return Err(Flaw::Length);
    }
    let (mut enters, mut leaves) = (vec![0u128; nodes as usize], vec![0u128; nodes as usize]);
    for (arc, &flow) in arcs.iter().zip(flows) {
        leaves[arc.from as usize] += u128::from(flow);
        enters[arc.to as usize] += u128::from(flow);
    }
    match (0..nodes).find(|&node| enters[node as usize] != leaves[node as usize]) {
        Some(node) => Err(Flaw::Imbalance(node)),
        None if can_be_cheaper(nodes, arcs, flows) => Err(Flaw::Dear),
        None => Ok(()),
    }
}

/// Whether changing the flow by one unit along some cycle makes it cheaper.
fn can_be_cheaper(nodes: u32, arcs: &[Arc], flows: &[u64]) -> bool {
    let mut changes = Vec::new();
    for (arc, &flow) in arcs.iter().zip(flows) {
        if flow < u64::MAX {
            changes.push((arc.from, arc.to, price(arc, flow + 1) - price(arc, flow)));
        }
        if flow > 0 {
            changes.push((arc.to, arc.from, price(arc, flow - 1) - price(arc, flow)));
        }
    }
    let mut distances = vec![0i128; nodes as usize];
    let mut relax = || {
        let mut changed = false;
        for &(from, to, price) in &changes {
            let distance = distances[from as usize] + price;
            changed |= distance < distances[to as usize];
            distances[to as usize] = distances[to as usize].min(distance);
        }
        changed
    };
    // Without such a cycle the shortest paths have fewer steps than there are nodes.
    (0..=nodes).all(|_| relax())
}

fn price(arc: &Arc, flow: u64) -> i128 {
    let rate = if flow > arc.evidence { arc.more } else { arc.less };
    i128::from(flow.abs_diff(arc.evidence)) * i128::from(rate)
}
