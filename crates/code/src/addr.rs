//! Addresses as the linker assigned them.

use core::fmt;

/// An address as linked: what `objdump` and `readelf` print, before any load bias is added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LinkAddr(pub u64);

impl LinkAddr {
    /// The address `by` bytes further, wrapping as the processor does.
    #[must_use]
    pub const fn offset(self, by: u64) -> Self {
        Self(self.0.wrapping_add(by))
    }

    /// How far `self` lies behind `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.wrapping_sub(earlier.0)
    }
}

impl fmt::Display for LinkAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for LinkAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A half-open range of addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AddrRange {
    /// First address inside.
    pub start: LinkAddr,
    /// First address behind.
    pub end: LinkAddr,
}

impl AddrRange {
    /// The range from `start` up to, not including, `end`; empty if they are the wrong way round.
    #[must_use]
    pub fn new(start: LinkAddr, end: LinkAddr) -> Self {
        Self { start, end: end.max(start) }
    }

    /// The range of `len` bytes at `start`, cut short where it would wrap.
    #[must_use]
    pub fn sized(start: LinkAddr, len: u64) -> Self {
        Self { start, end: LinkAddr(start.0.saturating_add(len)) }
    }

    /// Number of bytes inside.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.end.since(self.start)
    }

    /// Whether nothing is inside.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether `at` is inside.
    #[must_use]
    pub fn contains(&self, at: LinkAddr) -> bool {
        self.start <= at && at < self.end
    }

    /// Whether the two share an address.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

impl fmt::Display for AddrRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

impl fmt::Debug for AddrRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
