//! What places of the program there are in units, for those who ask often.

use crate::translate::Mark;
use alloc::vec::Vec;

/// Of the units that were asked for last. Traced threads ask each time a buffer is full, several times in a row, and mostly in the
/// same units; to translate these again takes longer than all else that is done then.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) all: Vec<(u32, Vec<Mark>)>,
    /// The oldest.
    next: usize,
}

impl Asked {
    const MOST: usize = 64;

    /// Those of a unit, if they were asked for not long ago.
    pub(crate) fn of(&self, unit: u32) -> Option<usize> {
        self.all.iter().position(|(of, _)| *of == unit)
    }

    /// Keeps those of a unit.
    pub(crate) fn keep(&mut self, unit: u32, marks: Vec<Mark>) -> &[Mark] {
        let at = if self.all.len() < Self::MOST { self.all.len() } else { self.next };
        match self.all.get_mut(at) {
            Some(place) => *place = (unit, marks),
            None => self.all.push((unit, marks)),
        }
        self.next = (at + 1) % Self::MOST;
        &self.all[at].1
    }
}
