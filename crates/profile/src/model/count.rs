//! Counts and where they come from.

use super::level::Level;
use std::fmt;
use std::num::NonZeroU32;

/// The number of a counter in a slot. `Option<Counter>` takes four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Counter(NonZeroU32);

impl Counter {
    /// The counter of that number. There are at most 2³²-1.
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(index))
    }

    /// Its number.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0.get() - 1
    }
}

/// Where a count comes from, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// A counter of its own.
    Measured,
    /// It follows from other counts: what enters a block leaves it.
    Derived,
    /// Another tool watched some of what happened: only its share of the whole means something.
    Sampled,
    /// Another build was measured, and the block, or both ends of the edge, matched one of its at that level.
    Matched(Level),
    /// The same, but only the control flow around it matched.
    ControlFlow,
    /// Nobody measured it: it is what fits best to the counts that were matched.
    Inferred,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Measured => f.write_str("measured"),
            Self::Derived => f.write_str("derived"),
            Self::Sampled => f.write_str("sampled"),
            Self::Matched(level) => write!(f, "matched-{}", level.name()),
            Self::ControlFlow => f.write_str("control-flow"),
            Self::Inferred => f.write_str("inferred"),
        }
    }
}

/// How likely a count is right, in per cent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Confidence(u8);

impl Confidence {
    /// What was measured, and what follows from it.
    pub const FULL: Self = Self(100);

    /// That many per cent; more than 100 are 100.
    #[must_use]
    pub const fn new(percent: u8) -> Self {
        Self(if percent > 100 { 100 } else { percent })
    }

    /// In per cent.
    #[must_use]
    pub const fn percent(self) -> u8 {
        self.0
    }
}

/// How often something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The number, wrapped around where derivation went below zero: so profiles add up in any order.
    pub raw: u64,
    /// Where it comes from.
    pub origin: Origin,
    /// How likely it is right.
    pub confidence: Confidence,
}

impl Count {
    /// A count that a counter holds.
    #[must_use]
    pub const fn measured(raw: u64) -> Self {
        Self { raw, origin: Origin::Measured, confidence: Confidence::FULL }
    }

    /// A count that follows from others.
    #[must_use]
    pub const fn derived(raw: u64) -> Self {
        Self { raw, origin: Origin::Derived, confidence: Confidence::FULL }
    }

    /// The number: zero where it came out negative, which [`crate::flow::check`] reports.
    #[must_use]
    pub const fn value(self) -> u64 {
        if self.is_negative() { 0 } else { self.raw }
    }

    /// Whether derivation went below zero.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.raw.cast_signed() < 0
    }

    /// A count that another tool estimated by what it saw.
    #[must_use]
    pub const fn sampled(raw: u64, confidence: Confidence) -> Self {
        Self { raw, origin: Origin::Sampled, confidence }
    }

    /// Both, as sure as the less sure of them.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            raw: self.raw.wrapping_add(other.raw),
            origin: self.origin.max(other.origin),
            confidence: self.confidence.min(other.confidence),
        }
    }

    /// All of them; unknown if one of them is.
    #[must_use]
    pub fn sum(counts: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        counts.into_iter().try_fold(Self::measured(0), |sum, count| Some(sum.plus(count?)))
    }
}

const _: () = assert!(size_of::<Option<Count>>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_as_sure_as_the_least_sure() {
        let count = |origin, percent| Some(Count { raw: 2, origin, confidence: Confidence::new(percent) });
        let sum = Count::sum([
            Some(Count::measured(1)),
            count(Origin::Matched(Level::Three), 60),
            count(Origin::Matched(Level::One), 90),
        ]);
        let expected =
            Count { raw: 5, origin: Origin::Matched(Level::Three), confidence: Confidence::new(60) };
        assert_eq!(sum, Some(expected));
        let sum = Count::sum([sum, count(Origin::Inferred, 70), count(Origin::ControlFlow, 80)]);
        assert_eq!(sum.map(|sum| (sum.origin, sum.confidence.percent())), Some((Origin::Inferred, 60)));
        assert_eq!(Count::sum([Some(Count::measured(1)), None]), None);
        assert_eq!(Confidence::new(200), Confidence::FULL);
    }
}
