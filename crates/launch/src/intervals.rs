//! What belongs to which addresses, when what comes later replaces what was there.

use std::collections::BTreeMap;

/// Values of ranges that do not overlap.
#[derive(Debug)]
pub(crate) struct Intervals<T> {
    /// By start: the end, and the value.
    all: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for Intervals<T> {
    fn default() -> Self {
        Self { all: BTreeMap::new() }
    }
}

impl<T: Copy> Intervals<T> {
    /// Sets the value of a range, whatever was there.
    pub(crate) fn insert(&mut self, start: u64, end: u64, value: T) {
        if start >= end {
            return;
        }
        let before = self.all.range(..start).next_back().map(|(&from, &(to, value))| (from, to, value));
        if let Some((from, to, old)) = before.filter(|b| b.1 > start) {
            self.all.insert(from, (start, old));
            if to > end {
                self.all.insert(end, (to, old));
            }
        }
        let inside: Vec<_> =
            self.all.range(start..end).map(|(&from, &(to, value))| (from, to, value)).collect();
        for (from, to, old) in inside {
            self.all.remove(&from);
            if to > end {
                self.all.insert(end, (to, old));
            }
        }
        self.all.insert(start, (end, value));
    }

    /// The value at an address.
    pub(crate) fn at(&self, at: u64) -> Option<T> {
        let (_, &(end, value)) = self.all.range(..=at).next_back()?;
        (at < end).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_later_replaces() {
        let mut ranges = Intervals::default();
        ranges.insert(10, 20, 'a');
        ranges.insert(30, 40, 'b');
        ranges.insert(12, 14, 'c');
        let at = |ranges: &Intervals<char>| (9..42).map(|i| ranges.at(i).unwrap_or('.')).collect::<String>();
        assert_eq!(at(&ranges), ".aaccaaaaaa..........bbbbbbbbbb..");
        ranges.insert(18, 35, 'd');
        assert_eq!(at(&ranges), ".aaccaaaadddddddddddddddddbbbbb..");
        ranges.insert(0, 50, 'e');
        assert_eq!(ranges.at(49), Some('e'));
        assert_eq!(ranges.at(50), None);
    }
}
