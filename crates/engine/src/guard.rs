//! Code that the program can write to: pages that something was translated from are write-protected, so that the
//! engine learns of changes.

use crate::maps::Maps;
use crate::translate::Piece;
use hashbrown::HashSet;
use relive_abi::PAGE;
use relive_abi::kernel;

const MPROTECT: usize = 10;
const READ_EXECUTE: usize = 5;
const ALL: usize = 7;

/// Pages that are protected though the program did not ask for it.
#[derive(Default)]
pub struct Guard {
    pages: HashSet<u64>,
}

fn protect(page: u64, rights: usize) -> bool {
    // SAFETY: only what can be done with the page changes, and the engine sees to it that the program does not notice.
    unsafe { kernel::call6(MPROTECT, [page as usize, PAGE as usize, rights, 0, 0, 0]) }.is_ok()
}

impl Guard {
    /// Protects the pages of some code, where the program could change it. Whether anything had to be done: then the
    /// code may have changed before.
    pub fn watch(&mut self, pieces: &[Piece], maps: &Maps) -> bool {
        let mut any = false;
        for piece in pieces.iter().filter(|p| p.start < p.end) {
            for page in (piece.start & !(PAGE - 1)..piece.end).step_by(PAGE as usize) {
                let can_change = maps.find(page.max(piece.start)).is_some_and(|m| m.is_writable);
                if can_change && !self.pages.contains(&page) && protect(page, READ_EXECUTE) {
                    self.pages.insert(page);
                    any = true;
                }
            }
        }
        any
    }

    /// Whether any page is protected.
    pub fn is_used(&self) -> bool {
        !self.pages.is_empty()
    }

    /// Whether a page is protected though the program can write to it.
    pub fn holds(&self, at: u64) -> bool {
        self.pages.contains(&(at & !(PAGE - 1)))
    }

    /// Lets the program write to a page again.
    pub fn open(&mut self, at: u64) -> (u64, u64) {
        let page = at & !(PAGE - 1);
        self.pages.remove(&page);
        protect(page, ALL);
        (page, page + PAGE)
    }

    /// Lets the program write to all of them again.
    pub fn open_all(&mut self) {
        for page in self.pages.drain() {
            protect(page, ALL);
        }
    }

    /// The program has said itself what can be done with a range.
    pub fn forget(&mut self, start: u64, end: u64) {
        self.pages.retain(|&page| page + PAGE <= start || end <= page);
    }
}
