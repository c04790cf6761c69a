//! How alike the code of two procedures is, without matching their blocks.

use crate::fingerprint::{Fingerprint, Procedure};
use crate::levels::index;
use relive_profile::model::Level;
use std::collections::HashMap;

/// What a procedure consists of: hashes of its blocks at level 3 without what they refer to, and how many
/// instructions each has, by hash.
type Sketch = Vec<(u64, u32)>;

/// Sketches of procedures that were asked about.
#[derive(Default)]
pub(super) struct Sketches {
    old: HashMap<u32, Sketch>,
    new: HashMap<u32, Sketch>,
}

impl Sketches {
    /// How alike two procedures are: the share of instructions in blocks that both have.
    pub(super) fn alike(&mut self, old: &Fingerprint<'_>, new: &Fingerprint<'_>, a: u32, b: u32) -> f64 {
        let (p, q) = (&old.procedures[a as usize], &new.procedures[b as usize]);
        if p.insns == 0 || q.insns == 0 {
            return 0.0;
        }
        let x = self.old.entry(a).or_insert_with(|| sketch(p));
        let y = self.new.entry(b).or_insert_with(|| sketch(q));
        let (mut i, mut j, mut common) = (0, 0, 0u64);
        while i < x.len() && j < y.len() {
            match x[i].0.cmp(&y[j].0) {
                std::cmp::Ordering::Less => i += 1,
                std::cmp::Ordering::Greater => j += 1,
                std::cmp::Ordering::Equal => {
                    common += u64::from(x[i].1.min(y[j].1));
                    (i, j) = (i + 1, j + 1);
                }
            }
        }
        2.0 * common as f64 / (f64::from(p.insns) + f64::from(q.insns))
    }
}

/// The sketch of a procedure.
pub(super) fn sketch(procedure: &Procedure) -> Sketch {
    let mut sketch: Sketch =
        procedure.blocks.iter().map(|b| (b.hashes[index(Level::Three)], b.insns)).collect();
    sketch.sort_unstable();
    sketch
}
