//! Which lines were touched, in the window at hand and ever.

use super::{Amount, PAGE, Pages};

/// The lines touched on each page, as bits.
pub(super) type Lines = Pages;

/// As many lines as this are remembered as touched in the window at hand, so that most accesses are over at once.
const REMEMBERED: usize = 1 << 12;

/// Lines that were touched.
pub(super) struct Touched {
    line_bits: u32,
    pages: crate::map::Map<u64, Page>,
    /// The number of the window, from 1.
    window: u32,
    now: Amount,
    /// Lines touched in this window, by their lowest bits.
    recent: Vec<(u64, u32)>,
}

#[derive(Clone, Copy, Default)]
struct Page {
    /// The window in which it was last touched, and what of it was in that.
    window: u32,
    now: u64,
    ever: u64,
}

impl Touched {
    pub(super) fn new(line_bits: u32) -> Self {
        let (pages, now) = (crate::map::Map::default(), Amount::default());
        Self { line_bits, pages, window: 1, now, recent: vec![(0, 0); REMEMBERED] }
    }

    #[inline]
    pub(super) fn touch(&mut self, address: u64, size: u64) {
        let first = address >> self.line_bits;
        let last = address.saturating_add(size.max(1) - 1) >> self.line_bits;
        for line in first..=last {
            let recent = &mut self.recent[line as usize % REMEMBERED];
            if *recent != (line, self.window) {
                *recent = (line, self.window);
                self.add(line);
            }
        }
    }

    fn add(&mut self, line: u64) {
        let bits = PAGE.trailing_zeros() - self.line_bits;
        let page = self.pages.entry(line >> bits).or_default();
        if page.window != self.window {
            (page.window, page.now) = (self.window, 0);
            self.now.pages += 1;
        }
        let bit = 1 << (line & ((1 << bits) - 1));
        self.now.lines += u64::from(page.now & bit == 0);
        page.now |= bit;
        page.ever |= bit;
    }

    pub(super) fn next_window(&mut self) {
        self.window += 1;
        self.now = Amount::default();
    }

    /// How much was touched in the window.
    pub(super) fn amount(&self) -> Amount {
        self.now
    }

    /// What was touched in the window.
    pub(super) fn lines(&self) -> Lines {
        let now = self.pages.iter().filter(|(_, page)| page.window == self.window);
        now.map(|(&page, touched)| (page, touched.now)).collect()
    }

    /// What was ever touched.
    pub(super) fn all(&self) -> Lines {
        self.pages.iter().map(|(&page, touched)| (page, touched.ever)).collect()
    }
}

/// Adds lines to others.
pub(super) fn add(to: &mut Lines, from: &Lines) {
    for (&page, lines) in from {
        *to.entry(page).or_default() |= lines;
    }
}

/// How much they are.
pub(super) fn amount(lines: &Lines) -> Amount {
    Amount { lines: lines.values().map(|bits| u64::from(bits.count_ones())).sum(), pages: lines.len() as u64 }
}
