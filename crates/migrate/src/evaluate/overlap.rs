//! How much of the fresh counts is where the carried profile says.
//!
//! Each count is a share of the sum of its profile, and what both have in common is the smaller of the two shares:
//! Σ min(carried, fresh), which is one less Σ max(0, fresh - carried). The latter tells function by function what was
//! lost, and is exactly zero if nothing was.

use super::pair::Pair;

/// What two profiles have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlap {
    /// What is lost in each function; empty if the fresh profile counts nothing.
    pub(super) losses: Vec<f64>,
}

impl Overlap {
    /// `counts` gives what the carried and the fresh profile say of each thing.
    pub(super) fn of<'a, 'p: 'a, I>(pairs: &'a [Pair<'p>], counts: impl Fn(&'a Pair<'p>) -> I) -> Self
    where
        I: Iterator<Item = (u128, u128)>,
    {
        let (mut all_carried, mut all_fresh) = (0u128, 0u128);
        for (carried, fresh) in pairs.iter().flat_map(&counts) {
            all_carried += carried;
            all_fresh += fresh;
        }
        if all_fresh == 0 {
            return Self::default();
        }
        let part = |count: u128, all: u128| if all == 0 { 0.0 } else { count as f64 / all as f64 };
        let lost = |(carried, fresh)| (part(fresh, all_fresh) - part(carried, all_carried)).max(0.0);
        // Not `sum`, which begins at -0.
        Self {
            losses: pairs.iter().map(|pair| counts(pair).map(lost).fold(0.0, |sum, one| sum + one)).collect(),
        }
    }

    /// The overlap, at most one. Unknown if the fresh profile counts nothing.
    #[must_use]
    pub fn metric(&self) -> Option<f64> {
        let lost: f64 = self.losses.iter().sum();
        (!self.losses.is_empty()).then_some((1.0 - lost).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::evaluate;
    use super::super::sample::{profile, set_blocks, set_edges};

    #[test]
    fn the_smaller_share_counts() {
        let (mut carried, fresh) = (profile(), profile());
        // Fresh blocks: 10, 100, 10 and 40 of 160. How often it ran in all does not matter.
        set_blocks(&mut carried, 0, &[40, 80, 40]);
        set_blocks(&mut carried, 1, &[160]);
        let found = evaluate(&carried, &fresh).expect("comparable");
        let expected = (10.0 + 40.0 + 10.0 + 40.0) / 160.0;
        assert!((found.blocks.metric().expect("known") - expected).abs() < 1e-12);
        // Of 2, 5, 1 and 3 instructions: 20, 500, 10, 120 of 650 and 80, 400, 40, 480 of 1000.
        let expected = 20.0 / 650.0 + 0.4 + 10.0 / 650.0 + 120.0 / 650.0;
        assert!((found.instructions.metric().expect("known") - expected).abs() < 1e-12);
        // Fresh edges: 10, 10, 90, 10, 10, 40, 40 of 210.
        set_edges(&mut carried, 0, &[10, 10, 0, 10, 10]);
        set_edges(&mut carried, 1, &[30, 30]);
        let found = evaluate(&carried, &fresh).expect("comparable");
        let expected = 4.0 * 10.0 / 210.0 + 2.0 * 40.0 / 210.0;
        assert!((found.edges.metric().expect("known") - expected).abs() < 1e-12);
    }

    #[test]
    fn nothing_carried_is_nothing_in_common() {
        let (mut carried, mut fresh) = (profile(), profile());
        carried.modules[0].functions.iter_mut().flat_map(|f| &mut f.edges).for_each(|e| e.count = None);
        assert_eq!(evaluate(&carried, &fresh).expect("comparable").edges.metric(), Some(0.0));
        fresh.modules[0].functions.iter_mut().flat_map(|f| &mut f.edges).for_each(|e| e.count = None);
        assert_eq!(evaluate(&carried, &fresh).expect("comparable").edges.metric(), None);
    }
}
