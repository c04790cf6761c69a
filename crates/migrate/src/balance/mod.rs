//! Counts that add up, as near as can be to ones that do not.
//!
//! Evidence comes from several places and is uncertain, so what it says enters a block is seldom what it says
//! leaves it. Each arc has a price for every unit its flow is above its evidence, and one for every unit
//! below; [`balance()`] finds the cheapest flow that is conserved at every node. That is a minimum-cost flow:
//! what is too much at one node goes, by arcs that then carry more or, backward, by arcs that then carry less, to nodes
//! where it is missing.
//!
//! The way is that of successive shortest paths (`paths`). It begins with the evidence, which costs nothing, and
//! takes the cheapest path from a node with too much to a node with too little until none is left. Most
//! evidence adds up, and what does not is mostly missing nearby: the work is then in proportion to what is wrong,
//! where a network simplex would first have to build a tree of all nodes.
//!
//! **There always is such a path.** Let the flow at hand be `f`. No flow at all is a circulation, and going from `f`
//! to it means taking back `f(a)` on every arc `a`. Taken apart into paths and cycles, that leads from the nodes where
//! too much arrives to the nodes where too little does, backward by arcs that carry flow: from each node of the
//! first kind one of the second can be reached, whatever the shape of the graph. So a dead end into which
//! evidence leads loses it, and no input is without a solution.
//!
//! **It ends.** Each path carries at least one unit, and usually all a node has too much or another too little, or all an
//! arc can take before its price changes. There is no good bound on how many that are. Measured (`tests/size.rs`): 20,000
//! blocks of nested statements with a tenth of the evidence wrong take a few milliseconds, with all of it wrong half a
//! second. Slow are graphs in which everything is near everything: a switch with 6000 cases, a tenth wrong, takes 50
//! milliseconds; 83 cases that each lead to all others by an arc of its own, a quarter of a second; 150 such cases, two to
//! three seconds. Programs do not come in that shape: computed gotos that share a table meet in one node (a hub of the
//! profile), and 300 of them that all lead to all take milliseconds.
//!
//! **Limits.** Flows are kept within `u64`: where evidence calls for more, the best flow that fits is found.
//! Excess is summed in 128 bits. Path costs fit into 63 bits for fewer than 2³⁰ nodes, which is more than
//! fit into memory.

pub mod check;
mod paths;
#[cfg(test)]
mod tests;

/// A way flow can take, and what is known of how much does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arc {
    /// The node flow leaves.
    pub from: u32,
    /// The node it enters.
    pub to: u32,
    /// How much there is, as far as is known.
    pub evidence: u64,
    /// The price of each unit above the evidence.
    pub more: u32,
    /// The price of each unit below it.
    pub less: u32,
}

/// The flow of each arc: conserved at each of the nodes `0..nodes`, and of all such flows one with the least total
/// price. The same input has the same answer; evidence that adds up is the answer.
///
/// # Panics
/// If an arc ends at a node that is not there.
#[must_use]
pub fn balance(nodes: u32, arcs: &[Arc]) -> Vec<u64> {
    let flows: Vec<u64> = arcs.iter().map(|arc| arc.evidence).collect();
    let excess = excess(nodes, arcs, &flows);
    if excess.iter().all(|&excess| excess == 0) {
        return flows;
    }
    paths::settle(arcs, flows, excess)
}

/// How much more enters each node than leaves it.
fn excess(nodes: u32, arcs: &[Arc], flows: &[u64]) -> Vec<i128> {
    let mut excess = vec![0; nodes as usize];
    for (arc, &flow) in arcs.iter().zip(flows) {
        excess[arc.to as usize] += i128::from(flow);
        excess[arc.from as usize] -= i128::from(flow);
    }
    excess
}
