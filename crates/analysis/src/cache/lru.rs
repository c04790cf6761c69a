//! A cache in which the line that was not used for longest has to go.

use super::Geometry;

/// What an access finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The line is there.
    Hit,
    /// It is not there, and has taken the place of another.
    Miss,
    /// It is not there, and has taken a place where nothing was.
    Fresh,
}

/// A cache.
#[derive(Clone)]
pub(super) struct Lru {
    line_bits: u32,
    sets: u64,
    ways: usize,
    /// Set by set, the line used last comes first. 0 is nothing, otherwise the number of the line plus one.
    lines: Vec<u64>,
}

impl Lru {
    pub(super) fn new(geometry: Geometry) -> Self {
        let (sets, ways) = (geometry.sets(), geometry.ways as usize);
        Self { line_bits: geometry.line.trailing_zeros(), sets, ways, lines: vec![0; sets as usize * ways] }
    }

    /// The line that a byte is in.
    #[inline]
    pub(super) fn line(&self, address: u64) -> u64 {
        address >> self.line_bits
    }

    /// Uses a line.
    #[inline]
    pub(super) fn touch(&mut self, line: u64) -> Found {
        let start = (line & (self.sets - 1)) as usize * self.ways;
        let set = &mut self.lines[start..start + self.ways];
        let wanted = line + 1;
        if set[0] == wanted {
            return Found::Hit;
        }
        move_up(set, wanted)
    }

    /// What this is when all has happened that has happened to another, which began with nothing.
    pub(super) fn follow(&mut self, other: &Self) {
        for (set, newer) in self.lines.chunks_mut(self.ways).zip(other.lines.chunks(self.ways)) {
            for &line in newer.iter().rev().filter(|line| **line != 0) {
                move_up(set, line);
            }
        }
    }
}

fn move_up(set: &mut [u64], wanted: u64) -> Found {
    let last = set.len() - 1;
    let (at, found) = match set.iter().position(|&line| line == wanted || line == 0) {
        Some(at) if set[at] == wanted => (at, Found::Hit),
        Some(at) => (at, Found::Fresh),
        None => (last, Found::Miss),
    };
    set.copy_within(..at, 1);
    set[0] = wanted;
    found
}
