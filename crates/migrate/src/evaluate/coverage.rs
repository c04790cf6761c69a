//! C.C.: of which blocks the carried profile knows whether they run.

use super::pair::Pair;
use super::share;
use relive_profile::model::Count;

/// Blocks by whether both profiles say that they run. A block without a count in the carried profile does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// How many were judged.
    pub blocks: u64,
    /// How many ran only by the carried profile.
    pub only_carried: u64,
    /// How many ran only by the fresh profile.
    pub only_fresh: u64,
    /// How many have no count in the fresh profile, so that nobody knows: their functions were not measured.
    pub not_judged: u64,
}

impl Coverage {
    pub(super) fn of(pair: &Pair<'_>) -> Self {
        let mut found = Self::default();
        for (carried, fresh, _) in pair.blocks() {
            found.blocks += 1;
            match (carried.map_or(0, Count::value) > 0, fresh.value() > 0) {
                (true, false) => found.only_carried += 1,
                (false, true) => found.only_fresh += 1,
                _ => {}
            }
        }
        found.not_judged = pair.fresh.blocks.len() as u64 - found.blocks;
        found
    }

    pub(super) fn add(&mut self, more: Self) {
        self.blocks += more.blocks;
        self.only_carried += more.only_carried;
        self.only_fresh += more.only_fresh;
        self.not_judged += more.not_judged;
    }

    /// Blocks of which both say the same.
    #[must_use]
    pub fn agreed(&self) -> u64 {
        self.blocks - self.only_carried - self.only_fresh
    }

    /// C.C.: the share of these. Unknown if no block was judged.
    #[must_use]
    pub fn metric(&self) -> Option<f64> {
        share(self.agreed(), self.blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::super::evaluate;
    use super::super::sample::{profile, set_blocks};
    use super::*;

    #[test]
    fn bits() {
        let (mut carried, mut fresh) = (profile(), profile());
        set_blocks(&mut fresh, 0, &[10, 0, 10]);
        set_blocks(&mut carried, 0, &[1, 1, 1]);
        carried.modules[0].functions[1].blocks[0].count = None;
        let found = evaluate(&carried, &fresh).expect("comparable").coverage;
        assert_eq!(found, Coverage { blocks: 4, only_carried: 1, only_fresh: 1, not_judged: 0 });
        assert_eq!((found.agreed(), found.metric()), (2, Some(0.5)));
        fresh.modules[0].functions[0].blocks[1].count = None;
        let found = evaluate(&carried, &fresh).expect("comparable").coverage;
        assert_eq!(found, Coverage { blocks: 3, only_carried: 0, only_fresh: 1, not_judged: 1 });
        assert_eq!(found.metric(), Some(2.0 / 3.0));
    }
}
