//! Which unit lies where: in the cache, and by what it was made from. Asked for at every signal and every change of
//! code, when there may be hundreds of thousands.

use crate::places::NONE;
use crate::translate::Piece;
use alloc::vec::Vec;
use core::ops::Range;
use hashbrown::HashMap;
use relive_abi::PAGE;

/// Units by their numbers.
#[derive(Default)]
pub struct Whereabouts {
    /// Where parts of units begin in the cache, each row in order. Code is put one behind the other, in a few places, so that
    /// there are few rows.
    rows: Vec<Vec<(u64, u32)>>,
    /// For pages of the program, the last of [`Self::members`].
    pages: HashMap<u64, u32>,
    members: Vec<Member>,
}

/// A unit that has code in a page.
struct Member {
    unit: u32,
    /// Another one.
    next: u32,
}

fn pages(start: u64, end: u64) -> Range<u64> {
    start / PAGE..end.div_ceil(PAGE)
}

impl Whereabouts {
    /// Learns of a unit: where its parts begin, and what code is in it.
    pub fn insert(&mut self, unit: u32, parts: [u64; 2], pieces: &[Piece]) {
        for at in parts {
            let end = |row: &Vec<(u64, u32)>| row.last().map_or(0, |part| part.0);
            match self.rows.iter_mut().filter(|row| end(row) <= at).max_by_key(|row| end(row)) {
                Some(row) => row.push((at, unit)),
                None => self.rows.push(alloc::vec![(at, unit)]),
            }
        }
        let mut last_page = None;
        for page in pieces.iter().flat_map(|piece| pages(piece.start, piece.end)) {
            if last_page.replace(page) == Some(page) {
                continue;
            }
            let last = self.pages.entry(page).or_insert(NONE);
            if *last == NONE || self.members[*last as usize].unit != unit {
                let next = core::mem::replace(last, self.members.len() as u32);
                self.members.push(Member { unit, next });
            }
        }
    }

    /// The last unit with a part that begins at or before a place in the cache.
    pub fn at(&self, at: u64) -> Option<u32> {
        let last = |row: &Vec<(u64, u32)>| {
            let after = row.partition_point(|part| part.0 <= at);
            row[..after].last().copied()
        };
        self.rows.iter().filter_map(last).max_by_key(|part| part.0).map(|part| part.1)
    }

    /// Takes out all units with code in the pages of a range, each once or more often.
    pub fn take(&mut self, start: u64, end: u64) -> Vec<u32> {
        let mut taken = Vec::new();
        if (end - start) / PAGE > self.pages.len() as u64 {
            self.pages.retain(|page, last| {
                let is_in = pages(start, end).contains(page);
                if is_in {
                    taken.push(*last);
                }
                !is_in
            });
        } else {
            taken.extend(pages(start, end).filter_map(|page| self.pages.remove(&page)));
        }
        let mut found = Vec::new();
        for last in taken {
            let mut next = last;
            while let Some(member) = self.members.get(next as usize) {
                found.push(member.unit);
                next = member.next;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_at_a_place() {
        let mut whereabouts = Whereabouts::default();
        assert_eq!(whereabouts.at(0x1000), None);
        // Two regions, each with a part for what is rare.
        let places = (0..100).map(|n| [0x1000 + n * 16, 0x9000 + n * 8]);
        let others = (0..100).map(|n| [0x5000 + n * 16, 0xd000 + n * 8]);
        let all: Vec<[u64; 2]> = others.zip(places).flat_map(|(a, b)| [a, b]).collect();
        for (unit, &parts) in all.iter().enumerate() {
            whereabouts.insert(unit as u32, parts, &[]);
        }
        assert_eq!(whereabouts.rows.len(), 4);
        for (unit, parts) in all.iter().enumerate() {
            assert!(parts.iter().all(|at| whereabouts.at(at + 7) == Some(unit as u32)));
        }
        assert_eq!(whereabouts.at(0xfff), None);
    }

    #[test]
    fn units_of_pages() {
        let mut whereabouts = Whereabouts::default();
        let piece = |page: u64, end: u64| Piece { start: page * PAGE + 8, end: end * PAGE + 16 };
        whereabouts.insert(0, [0, 0], &[piece(1, 1), piece(1, 1), piece(2, 3)]);
        whereabouts.insert(1, [0, 0], &[piece(3, 3)]);
        assert_eq!(whereabouts.take(PAGE, 2 * PAGE), [0]);
        assert_eq!(whereabouts.take(3 * PAGE, 4 * PAGE), [1, 0]);
        assert_eq!(whereabouts.take(3 * PAGE, 4 * PAGE), []);
        assert_eq!(whereabouts.take(0, u64::MAX), [0]);
    }
}
