//! B.P.: static branch prediction by the carried profile, next to the same by the fresh one.

use super::pair::Pair;
use super::share;
use relive_profile::model::{Count, EdgeKind, Function};

/// What became of predictions: each conditional branch always goes the way it went more often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Branches {
    /// How many branches were judged.
    pub branches: u64,
    /// How many of these the carried profile does not cover: it has no count of them, or none above zero. They are
    /// predicted to be taken.
    pub uncovered: u64,
    /// How often they were executed.
    pub executed: u64,
    /// How often the prediction by the carried profile was right.
    pub right_carried: u64,
    /// How often the prediction by the fresh profile was right, the best there is.
    pub right_fresh: u64,
    /// Branches that the fresh profile cannot judge.
    pub not_judged: u64,
}

/// The edges of a conditional branch, by index.
struct Branch {
    taken: usize,
    fall_through: usize,
}

impl Branches {
    pub(super) fn of(pair: &Pair<'_>) -> Self {
        let mut found = Self::default();
        let counts = |function: &Function, branch: &Branch| -> Option<(u64, u64)> {
            let count = |edge: usize| function.edges[edge].count.map(Count::value);
            Some((count(branch.taken)?, count(branch.fall_through)?))
        };
        for branch in branches(pair.fresh) {
            let Some((taken, fall_through)) = counts(pair.fresh, &branch) else {
                found.not_judged += 1;
                continue;
            };
            let carried = counts(&pair.carried, &branch).filter(|&counts| counts != (0, 0));
            let predicted_taken = carried.is_none_or(|(taken, fall_through)| taken >= fall_through);
            let right = if predicted_taken { taken } else { fall_through };
            found.add(Self {
                branches: 1,
                uncovered: carried.is_none().into(),
                executed: taken.saturating_add(fall_through),
                right_carried: right,
                right_fresh: taken.max(fall_through),
                not_judged: 0,
            });
        }
        found
    }

    pub(super) fn add(&mut self, more: Self) {
        let sums = [
            (&mut self.branches, more.branches),
            (&mut self.uncovered, more.uncovered),
            (&mut self.executed, more.executed),
            (&mut self.right_carried, more.right_carried),
            (&mut self.right_fresh, more.right_fresh),
            (&mut self.not_judged, more.not_judged),
        ];
        sums.into_iter().for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }

    /// B.P.: the success of the carried profile divided by that of the fresh one. Unknown if no branch was executed.
    #[must_use]
    pub fn metric(&self) -> Option<f64> {
        share(self.right_carried, self.right_fresh)
    }

    /// How often the carried profile is right.
    #[must_use]
    pub fn rate_carried(&self) -> Option<f64> {
        share(self.right_carried, self.executed)
    }

    /// How often the fresh profile is right.
    #[must_use]
    pub fn rate_fresh(&self) -> Option<f64> {
        share(self.right_fresh, self.executed)
    }
}

/// All conditional branches: where the next block may follow, or a jump be taken, which is a tail call if it leaves the
/// function.
fn branches(function: &Function) -> impl Iterator<Item = Branch> {
    let mut ways = vec![(None, None); function.blocks.len()];
    for (i, edge) in function.edges.iter().enumerate() {
        let Some(ways) = edge.from.as_block().and_then(|block| ways.get_mut(block as usize)) else {
            continue;
        };
        match edge.kind {
            EdgeKind::Taken | EdgeKind::TailCall => ways.0 = Some(i),
            EdgeKind::FallThrough => ways.1 = Some(i),
            _ => {}
        }
    }
    ways.into_iter()
        .filter_map(|(taken, fall_through)| Some(Branch { taken: taken?, fall_through: fall_through? }))
}

#[cfg(test)]
mod tests {
    use super::super::evaluate;
    use super::super::sample::{profile, set_edges};
    use super::*;

    /// The only branch is taken 90 times and 10 times not.
    #[test]
    fn predictions() {
        let fresh = profile();
        let judged = |edges: &[u64]| {
            let mut carried = profile();
            set_edges(&mut carried, 0, edges);
            evaluate(&carried, &fresh).expect("comparable").branches
        };
        let good = judged(&[1, 1, 5, 5, 1]);
        assert_eq!((good.branches, good.uncovered, good.executed), (1, 0, 100));
        assert_eq!((good.right_carried, good.right_fresh), (90, 90));
        let bad = judged(&[7, 7, 3, 4, 7]);
        assert_eq!(bad.right_carried, 10);
        assert_eq!(bad.metric(), Some(10.0 / 90.0));
        assert_eq!((bad.rate_carried(), bad.rate_fresh()), (Some(0.1), Some(0.9)));
        // Nothing above zero: predicted to be taken.
        let uncovered = judged(&[7, 7, 0, 0, 7]);
        assert_eq!((uncovered.uncovered, uncovered.metric()), (1, Some(1.0)));
    }

    #[test]
    fn what_is_not_covered_is_predicted_taken() {
        let (mut carried, mut fresh) = (profile(), profile());
        carried.modules[0].functions[0].edges[2].count = None;
        set_edges(&mut fresh, 0, &[90, 90, 10, 90, 90]);
        let found = evaluate(&carried, &fresh).expect("comparable").branches;
        assert_eq!((found.uncovered, found.right_carried, found.right_fresh), (1, 10, 90));
    }

    #[test]
    fn what_fresh_does_not_know_is_not_judged() {
        let (carried, mut fresh) = (profile(), profile());
        fresh.modules[0].functions[0].edges[3].count = None;
        let found = evaluate(&carried, &fresh).expect("comparable").branches;
        assert_eq!(found, Branches { not_judged: 1, ..Branches::default() });
        assert_eq!(found.metric(), None);
    }

    #[test]
    fn a_conditional_tail_call_is_a_branch() {
        let mut fresh = profile();
        fresh.modules[0].functions[0].edges[2].kind = EdgeKind::TailCall;
        let found = evaluate(&fresh, &fresh).expect("comparable").branches;
        assert_eq!((found.branches, found.executed), (1, 100));
    }
}
