//! Scales unknown arcs until what enters and what leaves each node agree with what is known of it.

use super::{Flow, differs};

/// Times everything is scaled. Where it is slow, each time takes off a tenth of what is left to do.
const ROUNDS: usize = 64;

pub(super) fn fit(flow: &mut Flow) {
    for _ in 0..ROUNDS {
        let mut changed = false;
        for position in (0..flow.shape.len()).rev() {
            let node = flow.shape.at(position);
            let count = flow.known(node).unwrap_or_else(|| flow.leaving(node));
            changed |= flow.scale(node, count, Side::Entering);
        }
        for position in 0..flow.shape.len() {
            let node = flow.shape.at(position);
            let count = flow.known(node).unwrap_or_else(|| flow.entering(node));
            changed |= flow.scale(node, count, Side::Leaving);
        }
        if !changed {
            break;
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Entering,
    Leaving,
}

impl Flow<'_> {
    /// Scales the unknown arcs on one side of a node so that with the known ones they make `count`. If there was
    /// nothing to scale, they get equal parts. Says whether that changed much.
    fn scale(&mut self, node: u32, count: f64, side: Side) -> bool {
        let arcs = if side == Side::Entering { self.shape.entering(node) } else { self.shape.leaving(node) };
        let (mut known, mut unknown, mut number) = (0.0, 0.0, 0);
        for &arc in arcs {
            if self.is_known(arc) {
                known += self.counts[arc as usize];
            } else {
                unknown += self.counts[arc as usize];
                number += 1;
            }
        }
        let rest = (count - known).max(0.0);
        // A node nobody is known to pass says nothing of its other side.
        if number == 0 || !differs(rest, unknown) || (self.known(node).is_none() && count == 0.0) {
            return false;
        }
        for &arc in arcs {
            if self.arcs[arc as usize].count.is_none() {
                let count = &mut self.counts[arc as usize];
                *count = rest * if unknown > 0.0 { *count / unknown } else { 1.0 / f64::from(number) };
            }
        }
        true
    }
}
