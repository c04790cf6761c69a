//! Counts and where they come from.

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
}

/// How often something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The number, wrapped around where derivation went below zero: so profiles add up in any order.
    pub raw: u64,
    /// Where it comes from.
    pub origin: Origin,
}

impl Count {
    /// A count that a counter holds.
    #[must_use]
    pub const fn measured(raw: u64) -> Self {
        Self { raw, origin: Origin::Measured }
    }

    /// A count that follows from others.
    #[must_use]
    pub const fn derived(raw: u64) -> Self {
        Self { raw, origin: Origin::Derived }
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

    /// Both, as sure as the less sure of them.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { raw: self.raw.wrapping_add(other.raw), origin: self.origin.max(other.origin) }
    }

    /// All of them; unknown if one of them is.
    #[must_use]
    pub fn sum(counts: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        counts.into_iter().try_fold(Self::measured(0), |sum, count| Some(sum.plus(count?)))
    }
}
