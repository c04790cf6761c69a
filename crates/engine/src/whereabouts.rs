//! Which unit lies where: in the cache, and by what it was made from. Asked for at every signal and every change of
//! code, when there may be hundreds of thousands.

use crate::translate::Piece;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use hashbrown::HashMap;
use relive_abi::PAGE;

/// Units by their numbers.
#[derive(Default)]
pub struct Whereabouts {
    /// Parts of units, by where they begin in the cache.
    parts: BTreeMap<u64, u32>,
    /// Units that have code in a page of the program.
    pages: HashMap<u64, Vec<u32>>,
}

fn pages(start: u64, end: u64) -> Range<u64> {
    start / PAGE..end.div_ceil(PAGE)
}

impl Whereabouts {
    /// Learns of a unit: where its parts begin, and what code is in it.
    pub fn insert(&mut self, unit: u32, parts: [u64; 2], pieces: &[Piece]) {
        self.parts.extend(parts.map(|at| (at, unit)));
        for page in pieces.iter().flat_map(|piece| pages(piece.start, piece.end)) {
            let units = self.pages.entry(page).or_default();
            if units.last() != Some(&unit) {
                units.push(unit);
            }
        }
    }

    /// The last unit with a part that begins at or before a place in the cache.
    pub fn at(&self, at: u64) -> Option<u32> {
        self.parts.range(..=at).next_back().map(|(_, &unit)| unit)
    }

    /// Takes out all units with code in the pages of a range, each once or more often.
    pub fn take(&mut self, start: u64, end: u64) -> Vec<u32> {
        let mut found = Vec::new();
        if (end - start) / PAGE > self.pages.len() as u64 {
            self.pages.retain(|page, units| {
                let is_in = pages(start, end).contains(page);
                if is_in {
                    found.append(units);
                }
                !is_in
            });
        } else {
            found.extend(pages(start, end).filter_map(|page| self.pages.remove(&page)).flatten());
        }
        found
    }
}
