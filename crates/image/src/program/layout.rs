//! Which function has which bytes, while functions are still being found.

use relive_code::addr::{AddrRange, LinkAddr};
use std::collections::BTreeMap;

/// Pieces of functions by address, and whose they are.
#[derive(Default)]
pub(super) struct Layout {
    pieces: BTreeMap<LinkAddr, (LinkAddr, usize)>,
}

impl Layout {
    /// Gives `range` to `owner`, and takes it from whoever had a piece with the same start.
    pub(super) fn insert(&mut self, range: AddrRange, owner: usize) {
        self.pieces.insert(range.start, (range.end, owner));
    }

    /// Takes the piece that starts at `start` from `owner`.
    pub(super) fn remove(&mut self, start: LinkAddr, owner: usize) {
        if self.pieces.get(&start).is_some_and(|&(_, who)| who == owner) {
            self.pieces.remove(&start);
        }
    }

    /// Gives the piece that starts at `start` to another owner.
    pub(super) fn hand_over(&mut self, start: LinkAddr, to: usize) {
        if let Some((_, owner)) = self.pieces.get_mut(&start) {
            *owner = to;
        }
    }

    /// The owner of the last piece that starts at `at` or before.
    pub(super) fn up_to(&self, at: LinkAddr) -> Option<(AddrRange, usize)> {
        self.pieces.range(..=at).next_back().map(|(&start, &(end, owner))| (AddrRange { start, end }, owner))
    }

    /// Where the first piece behind `at` starts.
    pub(super) fn next_start(&self, at: LinkAddr) -> Option<LinkAddr> {
        self.pieces.range(at.offset(1)..).next().map(|(&start, _)| start)
    }

    /// The function that covers `at`.
    pub(super) fn holding(&self, at: LinkAddr) -> Option<usize> {
        self.up_to(at).filter(|(range, _)| range.contains(at)).map(|(_, owner)| owner)
    }

    /// All pieces by address.
    pub(super) fn pieces(&self) -> impl Iterator<Item = AddrRange> {
        self.pieces.iter().map(|(&start, &(end, _))| AddrRange { start, end })
    }
}
