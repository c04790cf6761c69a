//! What to assume of blocks and edges nobody knows anything of.
//!
//! New code lies between old code: what enters it and what leaves it is known from around it, and how likely each way
//! is from a static estimate. Counts are found in two steps.
//!
//! 1. **Forward** (`spread`): what reaches a node is handed on by likelihood. A known count is not
//!    changed, and from a node with known arcs only the rest is handed on. This alone says how often new loops go
//!    round.
//! 2. **Both ways** (`fit`): unknown arcs are scaled until they agree with what is known, in turn those that
//!    enter each node and those that leave it. So a new arc into a known block gets what is missing there, and the
//!    other ways out share what that leaves. This is iterative proportional fitting (Deming and Stephan 1940): of
//!    all flows that agree with the known counts it tends to the one nearest, in relative entropy, to where it began,
//!    so likelihoods decide whatever counts do not.
//!
//! Known counts are believed here even when they do not add up: by how much each can be trusted is for
//! [`balance`](crate::balance) to weigh. It makes these estimates add up as well, so they need not be exact, and both steps
//! end after a fixed number of rounds.

mod fit;
mod shape;
mod spread;
#[cfg(test)]
mod tests;

use shape::Shape;

/// A way from node to node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arc {
    /// Where it begins.
    pub from: u32,
    /// Where it ends.
    pub to: u32,
    /// How often it was taken, if that is known.
    pub count: Option<u64>,
    /// How likely it is among the ways out of where it begins. Only the ratios matter.
    pub likelihood: f32,
}

/// How often everything ran: as known, or as is to be expected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of each node.
    pub nodes: Vec<u64>,
    /// Of each arc.
    pub arcs: Vec<u64>,
}

/// Expected counts of whatever is not known. `nodes` has the known counts of nodes; the outside of a function is one of
/// them, best the first, its count that of calls.
///
/// # Panics
/// If an arc ends at a node that is not there.
#[must_use]
pub fn estimate(nodes: &[Option<u64>], arcs: &[Arc]) -> Counts {
    let mut flow = Flow {
        known: nodes,
        arcs,
        shape: Shape::new(nodes.len(), arcs),
        counts: arcs.iter().map(|arc| arc.count.map_or(0.0, |count| count as f64)).collect(),
    };
    if arcs.iter().any(|arc| arc.count.is_none()) {
        spread::spread(&mut flow);
        fit::fit(&mut flow);
    }
    // Conversion saturates.
    let whole = |count: f64| count.round() as u64;
    let node = |(node, known): (u32, &Option<u64>)| {
        known.unwrap_or_else(|| whole(flow.entering(node).max(flow.leaving(node))))
    };
    Counts {
        nodes: (0..).zip(nodes).map(node).collect(),
        arcs: flow
            .counts
            .iter()
            .zip(arcs)
            .map(|(&count, arc)| arc.count.unwrap_or_else(|| whole(count)))
            .collect(),
    }
}

/// Counts under way.
struct Flow<'a> {
    /// The known counts of nodes.
    known: &'a [Option<u64>],
    arcs: &'a [Arc],
    shape: Shape,
    /// The count of each arc so far.
    counts: Vec<f64>,
}

impl Flow<'_> {
    fn entering(&self, node: u32) -> f64 {
        self.sum(self.shape.entering(node))
    }

    fn leaving(&self, node: u32) -> f64 {
        self.sum(self.shape.leaving(node))
    }

    fn sum(&self, arcs: &[u32]) -> f64 {
        arcs.iter().map(|&arc| self.counts[arc as usize]).sum()
    }

    fn known(&self, node: u32) -> Option<f64> {
        self.known[node as usize].map(|count| count as f64)
    }

    fn is_known(&self, arc: u32) -> bool {
        self.arcs[arc as usize].count.is_some()
    }
}

/// Whether a count is no longer what it was, as far as that matters.
fn differs(new: f64, old: f64) -> bool {
    (new - old).abs() > 1e-4 * new.max(old) + 0.1
}
