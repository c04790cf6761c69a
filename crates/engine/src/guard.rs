//! Code that the program can write to: pages that something was translated from are write-protected, so that the
//! engine learns of changes. Memory that is mapped several times is protected in all places.

use crate::kernel_writes;
use crate::maps::Maps;
use crate::thread::Thread;
use crate::translate::Piece;
use alloc::vec::Vec;
use hashbrown::{HashMap, HashSet};
use relive_abi::PAGE;
use relive_abi::kernel;

const READ: u32 = 1;
const WRITE: u32 = 2;
const EXECUTE: u32 = 4;

/// A page that is protected, or was.
#[derive(Clone, Copy)]
struct Page {
    /// Where its code is executed: the page itself, or another with the same memory.
    code: u64,
    is_closed: bool,
}

impl Page {
    /// What can be done with it, when it is closed or not.
    fn rights(&self, at: u64, is_closed: bool) -> u32 {
        READ | if is_closed { 0 } else { WRITE } | if self.code == at { EXECUTE } else { 0 }
    }
}

/// Pages that are protected though the program did not ask for it.
#[derive(Default)]
pub struct Guard {
    pages: HashMap<u64, Page>,
    /// Pages with code of which all views are closed.
    shared: HashSet<u64>,
    /// All threads.
    threads: Vec<u64>,
    is_used: bool,
}

fn protect(page: u64, rights: u32) -> bool {
    // SAFETY: only what can be done with the page changes, and the engine sees to it that the program does not notice.
    unsafe { kernel::mprotect(page, PAGE, rights) }.is_ok()
}

impl Guard {
    /// There is a new thread, whose calls of the kernel may write to pages.
    pub fn add(&mut self, thread: &mut Thread) {
        self.threads.push(thread.this);
        if self.is_used {
            kernel_writes::watch(&mut thread.kernel_calls);
        }
    }

    /// Protects the pages of some code, where the program could change it. Whether anything had to be done: then the
    /// code may have changed before.
    pub fn watch(&mut self, pieces: &[Piece], maps: &Maps) -> bool {
        let mut any = false;
        for piece in pieces.iter().filter(|p| p.start < p.end) {
            for page in (piece.start & !(PAGE - 1)..piece.end).step_by(PAGE as usize) {
                let Some(mapping) = maps.find(page.max(piece.start)) else { continue };
                if mapping.is_writable {
                    any |= self.close(page, page);
                }
                if mapping.is_shared && self.shared.insert(page) {
                    for view in mapping.views(page) {
                        any |= view != page && self.close(view, page);
                    }
                }
            }
        }
        any
    }

    /// Protects a page. Whether it was not.
    fn close(&mut self, page: u64, code: u64) -> bool {
        let new = Page { code, is_closed: true };
        if self.holds(page) || !protect(page, new.rights(page, true)) {
            return false;
        }
        self.pages.insert(page, new);
        if !core::mem::replace(&mut self.is_used, true) {
            for &thread in &self.threads {
                // SAFETY: the memory of threads is never given back. That one looks at its table meanwhile does no harm.
                unsafe { kernel_writes::watch(&mut (*(thread as *mut Thread)).kernel_calls) };
            }
        }
        true
    }

    /// The protected pages in a range.
    pub fn within(&self, start: u64, len: u64) -> Vec<u64> {
        let (first, end) = (start & !(PAGE - 1), start.saturating_add(len));
        if len / PAGE < self.pages.len() as u64 {
            (first..end).step_by(PAGE as usize).filter(|&page| self.holds(page)).collect()
        } else {
            self.pages
                .keys()
                .copied()
                .filter(|page| (first..end).contains(page) && self.holds(*page))
                .collect()
        }
    }

    /// Pages with code that may have other views. They have to be found again.
    pub fn take_shared(&mut self) -> Vec<u64> {
        self.shared.drain().collect()
    }

    /// Whether nothing is or was protected.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Whether a page is protected though the program can write to it.
    pub fn holds(&self, at: u64) -> bool {
        self.pages.get(&(at & !(PAGE - 1))).is_some_and(|page| page.is_closed)
    }

    /// Whether a page was protected at some time.
    pub fn has_held(&self, at: u64) -> bool {
        self.pages.contains_key(&(at & !(PAGE - 1)))
    }

    /// Lets the program write to all of them again.
    pub fn open_all(&mut self) {
        for (at, page) in self.pages.drain().filter(|(_, page)| page.is_closed) {
            protect(at, page.rights(at, false));
        }
        self.shared.clear();
    }

    /// Lets the program write to a page again. Says where the code is.
    pub fn open(&mut self, at: u64) -> u64 {
        let at = at & !(PAGE - 1);
        let Some(page) = self.pages.get_mut(&at) else { return at };
        page.is_closed = false;
        let page = *page;
        protect(at, page.rights(at, false));
        // All views have to be closed again before there is code.
        self.shared.remove(&page.code);
        page.code
    }

    /// The program has said itself what can be done with a range. Says where code was made from it that is executed
    /// elsewhere.
    pub fn forget(&mut self, start: u64, end: u64) -> Vec<u64> {
        let mut elsewhere = Vec::new();
        self.pages.retain(|&at, page| {
            let stays = at + PAGE <= start || end <= at;
            if !stays && page.code != at {
                elsewhere.push(page.code);
            }
            stays
        });
        self.shared.retain(|&at| (at + PAGE <= start || end <= at) && !elsewhere.contains(&at));
        elsewhere
    }
}
