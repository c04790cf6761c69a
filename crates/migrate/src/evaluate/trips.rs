//! How often loops go round.

use super::pair::Pair;
use super::share;
use relive_profile::model::LoopCounts;

/// By how much a mean trip count may be off.
pub const CLOSE: f64 = 0.1;

/// Loops by whether their mean trip count (how often the header runs each time the loop is entered) is [`CLOSE`] to the
/// fresh one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trips {
    /// Loops that ran by the fresh profile.
    pub loops: u64,
    /// How often their headers ran.
    pub iterations: u64,
    /// How often those ran whose trip count is close.
    pub close: u64,
}

impl Trips {
    pub(super) fn of(pair: &Pair<'_>) -> Self {
        let mut found = Self::default();
        if pair.fresh.loops.is_empty() {
            return found;
        }
        let mean = |counts: &LoopCounts| share(counts.iterations.value(), counts.entries.value());
        for (carried, fresh) in pair.carried.loop_counts().iter().zip(pair.fresh.loop_counts()) {
            let Some((fresh, trips)) = fresh.and_then(|fresh| Some((fresh, mean(&fresh)?))) else { continue };
            let is_close = |other: f64| (other - trips).abs() <= CLOSE * trips;
            let iterations = fresh.iterations.value();
            found.add(Self {
                loops: 1,
                iterations,
                close: if carried.as_ref().and_then(mean).is_some_and(is_close) { iterations } else { 0 },
            });
        }
        found
    }

    pub(super) fn add(&mut self, more: Self) {
        self.loops += more.loops;
        self.iterations = self.iterations.saturating_add(more.iterations);
        self.close = self.close.saturating_add(more.close);
    }

    /// The share of iterations in loops whose trip count is close. Unknown if no loop ran.
    #[must_use]
    pub fn metric(&self) -> Option<f64> {
        share(self.close, self.iterations)
    }
}

#[cfg(test)]
mod tests {
    use super::super::evaluate;
    use super::super::sample::{profile, set_edges};
    use super::*;

    #[test]
    fn within_a_tenth() {
        let fresh = profile();
        // Entered 10 times, 90 times round again: 10 trips each.
        let judged = |entered: u64, again: u64| {
            let mut carried = profile();
            set_edges(&mut carried, 0, &[entered, entered, again, entered, entered]);
            evaluate(&carried, &fresh).expect("comparable").trips
        };
        assert_eq!(judged(10, 90), Trips { loops: 1, iterations: 100, close: 100 });
        assert_eq!(judged(1, 10).metric(), Some(1.0));
        assert_eq!(judged(1, 8).metric(), Some(1.0));
        assert_eq!(judged(100, 1001).metric(), Some(0.0));
        assert_eq!(judged(0, 0).metric(), Some(0.0));
        let mut idle = profile();
        set_edges(&mut idle, 0, &[0, 0, 0, 0, 0]);
        assert_eq!(evaluate(&fresh, &idle).expect("comparable").trips.metric(), None);
    }
}
