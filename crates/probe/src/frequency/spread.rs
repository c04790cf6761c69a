//! How often everything happens, given how likely each way out of a node is.
//!
//! After Wu and Larus, "Static branch frequency and program profile analysis" (1994): loops are walked from the
//! innermost out. How much of one visit to the header comes back to it says how often the loop goes
//! round, and from then on that is a property of the header, and the loop part of the straight way.

use super::shape::{Shape, number};
use crate::graph::{ArcKind, Flow};

/// No loop is believed to go round more often.
const MOST_TRIPS: f64 = 1000.0;

/// Walks over a function with cycles of several entries, which are no natural loops: enough to see that they
/// are cycles.
const WALKS: usize = 4;

/// How often control appears in other ways than by entering.
const SURPRISE: f64 = 0.01;

/// The frequency of each node and arc, for one call. `chances` of the arcs out of a node add up to one.
#[must_use]
pub(super) fn spread(flow: &Flow, shape: &Shape, chances: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let mut walk = Walk {
        flow,
        shape,
        chances,
        trips: vec![1.0; shape.len()],
        nodes: vec![0.0; shape.len()],
        arcs: vec![0.0; flow.arcs.len()],
    };
    let mut body = Vec::new();
    for id in shape.loops.ids().rev() {
        body.clear();
        body.extend_from_slice(shape.loops.blocks_of(id));
        body.sort_unstable_by_key(|&node| shape.position(node));
        body.iter().for_each(|&node| walk.nodes[node as usize] = 0.0);
        let header = shape.loops[id].header;
        walk.nodes[header as usize] = 1.0;
        let mut back = 0.0;
        for &node in &body {
            walk.step(node, |to, often| back += if to == header { often } else { 0.0 });
        }
        walk.trips[header as usize] = (1.0 / (1.0 - back).max(0.0)).min(MOST_TRIPS);
    }
    let walks = if shape.loops.irreducible().is_empty() { 1 } else { WALKS };
    let mut again = vec![0.0; shape.len()];
    for _ in 0..walks {
        walk.nodes.copy_from_slice(&again);
        again.fill(0.0);
        for (arc, often) in flow.arcs.iter().zip(&mut walk.arcs) {
            if let (None, Some(to)) = (number(flow, arc.from), number(flow, arc.to)) {
                *often = if arc.kind == ArcKind::Enter { 1.0 } else { SURPRISE };
                walk.nodes[to as usize] += *often;
            }
        }
        for &node in shape.order() {
            walk.step(node, |to, often| {
                if shape.is_irreducible(node, to) {
                    again[to as usize] += often;
                }
            });
        }
    }
    (walk.nodes, walk.arcs)
}

struct Walk<'a> {
    flow: &'a Flow,
    shape: &'a Shape,
    chances: &'a [f64],
    /// How often the loop of each header goes round, one until that is known.
    trips: Vec<f64>,
    nodes: Vec<f64>,
    arcs: Vec<f64>,
}

impl Walk<'_> {
    /// Hands what reached `node` on to what it leads to; what leads back goes to `back`.
    fn step(&mut self, node: u32, mut back: impl FnMut(u32, f64)) {
        self.nodes[node as usize] *= self.trips[node as usize];
        let often = self.nodes[node as usize];
        for &arc in self.shape.leaving(node) {
            let share = often * self.chances[arc as usize];
            self.arcs[arc as usize] = share;
            match number(self.flow, self.flow.arcs[arc as usize].to) {
                Some(to) if self.shape.retreats(node, to) => back(to, share),
                Some(to) => self.nodes[to as usize] += share,
                None => {}
            }
        }
    }
}
