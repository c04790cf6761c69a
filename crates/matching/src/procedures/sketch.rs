//! How alike two procedures are, without matching their blocks.

use crate::fingerprint::{Fingerprint, Procedure};
use crate::identity::{Both, Identities};
use crate::levels::{index, mix};
use relive_profile::model::Level;

/// What a procedure consists of, in order: hashes, and how much each counts.
type Sketch = Box<[(u64, u32)]>;

/// Sketches of procedures that were asked about.
#[derive(Default)]
struct Cache {
    old: Vec<Option<Sketch>>,
    new: Vec<Option<Sketch>>,
}

impl Cache {
    fn new(old: usize, new: usize) -> Self {
        Self { old: vec![None; old], new: vec![None; new] }
    }
}

/// What is known of how alike procedures are.
pub(super) struct Likeness {
    /// Blocks: their hashes at levels 3 and 5 without what they refer to, and how many instructions they have.
    code: Cache,
    /// What is known of what they refer to.
    references: Cache,
}

impl Likeness {
    pub(super) fn new(old: &Fingerprint<'_>, new: &Fingerprint<'_>) -> Self {
        let cache = || Cache::new(old.procedures.len(), new.procedures.len());
        Self { code: cache(), references: cache() }
    }

    /// What references mean has changed.
    pub(super) fn forget_references(&mut self) {
        self.references.old.fill(None);
        self.references.new.fill(None);
    }

    /// How alike the code of two procedures is, from 0 to 1: the share of instructions in blocks that both have, on
    /// average of both levels.
    pub(super) fn of_code(&mut self, old: (u32, &Procedure), new: (u32, &Procedure)) -> f64 {
        let all = f64::from(old.1.insns) + f64::from(new.1.insns);
        if old.1.insns == 0 || new.1.insns == 0 {
            return 0.0;
        }
        let x = self.code.old[old.0 as usize].get_or_insert_with(|| code(old.1));
        let y = self.code.new[new.0 as usize].get_or_insert_with(|| code(new.1));
        common(x, y) as f64 / all
    }

    /// The share of what two procedures refer to that is the same; `None` if that is not known.
    pub(super) fn of_references(
        &mut self,
        old: (u32, &Procedure),
        new: (u32, &Procedure),
        ids: &Both,
    ) -> Option<f64> {
        let x = self.references.old[old.0 as usize].get_or_insert_with(|| references(old.1, &ids.old));
        let y = self.references.new[new.0 as usize].get_or_insert_with(|| references(new.1, &ids.new));
        let most = x.len().max(y.len());
        (!x.is_empty() && !y.is_empty()).then(|| common(x, y) as f64 / most as f64)
    }
}

/// How much two sketches have in common.
fn common(x: &[(u64, u32)], y: &[(u64, u32)]) -> u64 {
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
    common
}

/// The blocks of a procedure.
pub(super) fn code(procedure: &Procedure) -> Sketch {
    let at = |level: Level| {
        procedure.blocks.iter().map(move |b| (mix(level as u64, b.hashes[index(level)]), b.insns))
    };
    let mut sketch: Sketch = at(Level::Three).chain(at(Level::Five)).collect();
    sketch.sort_unstable();
    sketch
}

/// What a procedure refers to, as far as that is known.
fn references(procedure: &Procedure, ids: &Identities) -> Sketch {
    let mut sketch: Sketch =
        procedure.references.iter().map(|&r| (ids.of(r), 1)).filter(|&(id, _)| id != 0).collect();
    sketch.sort_unstable();
    sketch
}
