//! Races that were found, each pair of instructions once.

use super::runtime::Spot;
use super::shadow::{Access, Conflict};
use crate::map::Map;

/// What was found.
#[derive(Default)]
pub(super) struct Found {
    spots: Vec<Spot>,
    by_spot: Map<Spot, u32>,
    pub(super) races: Map<(u32, u32), Pair>,
}

/// Two instructions that race.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    /// Where, the first time.
    pub(super) address: u64,
    /// By which threads, then.
    pub(super) threads: [u32; 2],
    /// Which accesses of theirs.
    pub(super) numbers: [u32; 2],
    /// Whether they write.
    pub(super) are_writes: [bool; 2],
    pub(super) times: u64,
}

impl Found {
    /// The number of a spot.
    #[inline]
    pub(super) fn spot(&mut self, spot: Spot) -> u32 {
        let spots = &mut self.spots;
        *self.by_spot.entry(spot).or_insert_with(|| {
            spots.push(spot);
            spots.len() as u32 - 1
        })
    }

    /// The spot with a number.
    pub(super) fn at(&self, number: u32) -> Spot {
        self.spots[number as usize]
    }

    /// An access races with one before.
    #[cold]
    pub(super) fn add(
        &mut self,
        address: u64,
        before: &Conflict,
        (now, is_write): (Access, bool),
        threads: [u32; 2],
    ) {
        if !self.at(before.access.spot).owner.may_race(self.at(now.spot).owner) {
            return;
        }
        let pair = self.races.entry((before.access.spot, now.spot)).or_insert(Pair {
            address,
            threads,
            numbers: [before.access.number, now.number],
            are_writes: [before.is_write, is_write],
            times: 0,
        });
        pair.times += 1;
    }
}
