//! How much of the fresh counts lies in blocks that were matched.

use super::pair::Pair;
use super::share;
use relive_profile::model::Origin;

/// Fresh counts of blocks by the origin of the carried count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// All of them.
    pub counts: u64,
    /// Where the carried count was matched by content, at any level, or is measured, derived or sampled.
    pub matched: u64,
    /// Where it was matched by control flow only.
    pub control_flow: u64,
}

impl Matched {
    pub(super) fn of(pair: &Pair<'_>) -> Self {
        let mut found = Self::default();
        for (carried, fresh, _) in pair.blocks() {
            let by_content = |origin| {
                use Origin::{Derived, Matched, Measured, Sampled};
                matches!(origin, Measured | Derived | Sampled | Matched(_))
            };
            let origin = carried.map(|count| count.origin);
            found.add(Self {
                counts: fresh.value(),
                matched: if origin.is_some_and(by_content) { fresh.value() } else { 0 },
                control_flow: if origin == Some(Origin::ControlFlow) { fresh.value() } else { 0 },
            });
        }
        found
    }

    pub(super) fn add(&mut self, more: Self) {
        self.counts = self.counts.saturating_add(more.counts);
        self.matched = self.matched.saturating_add(more.matched);
        self.control_flow = self.control_flow.saturating_add(more.control_flow);
    }

    /// The share that was matched by content. Unknown if nothing ran.
    #[must_use]
    pub fn metric(&self) -> Option<f64> {
        share(self.matched, self.counts)
    }

    /// The share that was matched by content or by control flow.
    #[must_use]
    pub fn with_control_flow(&self) -> Option<f64> {
        share(self.matched.saturating_add(self.control_flow), self.counts)
    }
}
