//! Hands known counts on by likelihood, from each node to those it leads to.
//!
//! Nodes are visited in an order in which only cycles lead back, again and again until nothing changes. Going round a
//! loop that way would take as many visits as the loop has rounds. But if nothing in it is known, what comes back to
//! its head is a fixed share of what the head had, and the sum of all rounds is known in closed form
//! (Wu and Larus 1994). Inner loops are right after two visits and each that surrounds them one later.

use super::{Flow, differs};

/// Visits of everything. Code nests less deeply.
const VISITS: usize = 24;

/// No loop is believed to go round more often.
const MOST_ROUNDS: f64 = 1000.0;

/// Loops of which nothing is known but that are larger go round one visit at a time: there are hardly any, and each is
/// looked at in whole, with those inside it.
const LARGEST_LOOP: usize = 1000;

pub(super) fn spread(flow: &mut Flow) {
    let closed = flow.closed_loops();
    let mut nodes = vec![0.0; flow.shape.len()];
    for _ in 0..VISITS {
        let mut changed = false;
        for position in 0..flow.shape.len() {
            let node = flow.shape.at(position);
            let old = nodes[node as usize];
            let new = flow.known(node).unwrap_or_else(|| flow.arriving(node, old, &closed));
            changed |= differs(new, old);
            nodes[node as usize] = new;
            flow.hand_on(node, new);
        }
        if !changed {
            break;
        }
    }
}

impl Flow<'_> {
    /// How often control arrives at a node where it was `before` times so far.
    fn arriving(&self, node: u32, before: f64, closed: &[bool]) -> f64 {
        let (mut enters, mut back) = (0.0, 0.0);
        for &arc in self.shape.entering(node) {
            *(if closed[arc as usize] { &mut back } else { &mut enters }) += self.counts[arc as usize];
        }
        let share = if before > 0.0 { back / before } else { 0.0 };
        enters / (1.0 - share).max(1.0 / MOST_ROUNDS)
    }

    /// Gives the arcs out of a node what known ones among them leave, by likelihood.
    fn hand_on(&mut self, node: u32, count: f64) {
        let unknown = |&&arc: &&u32| self.arcs[arc as usize].count.is_none();
        let likelihood = |&arc: &u32| f64::from(self.arcs[arc as usize].likelihood).max(0.0);
        let arcs = self.shape.leaving(node);
        let known: f64 = arcs.iter().filter(|arc| !unknown(arc)).map(|&arc| self.counts[arc as usize]).sum();
        let rest = (count - known).max(0.0);
        let total: f64 = arcs.iter().filter(unknown).map(likelihood).sum();
        let number = arcs.iter().filter(unknown).count() as f64;
        for arc in arcs.iter().filter(unknown) {
            let share = if total > 0.0 && total.is_finite() { likelihood(arc) / total } else { 1.0 / number };
            self.counts[*arc as usize] = rest * share;
        }
    }

    /// For each arc, whether it closes a loop that only its head leads into and of which nothing is known.
    fn closed_loops(&self) -> Vec<bool> {
        let mut loop_of = vec![u32::MAX; self.shape.len()];
        let mut closes = vec![false; self.arcs.len()];
        let mut waiting = Vec::new();
        for (index, arc) in (0u32..).zip(self.arcs) {
            if self.known[arc.to as usize].is_some() || !self.shape.retreats(arc) {
                continue;
            }
            // Backward from the arc's start, to the head. Marks are by arc: they need no clearing.
            let is_open = |index: u32, node: u32| {
                self.is_known(index) || self.known[node as usize].is_some() || self.shape.before(node, arc.to)
            };
            loop_of[arc.to as usize] = index;
            waiting.clear();
            waiting.push(index);
            let mut nodes = 0;
            closes[index as usize] = loop {
                let Some(into) = waiting.pop() else { break true };
                let from = self.arcs[into as usize].from;
                if is_open(into, from) || nodes > LARGEST_LOOP {
                    break false;
                }
                if std::mem::replace(&mut loop_of[from as usize], index) != index {
                    nodes += 1;
                    waiting.extend(self.shape.entering(from));
                }
            };
        }
        closes
    }
}
