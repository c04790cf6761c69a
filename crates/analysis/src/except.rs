//! Code that is not looked at, because what it does is known already.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Such code, in every process.
#[derive(Clone, Debug, Default)]
pub struct Except(BTreeMap<u32, Arc<Ranges>>);

/// Such code of one process: from where to where, in order, none overlapping another.
#[derive(Clone, Debug, Default)]
pub struct Ranges(Vec<(u64, u64)>);

impl Except {
    /// Leaves out code of a process, from one address to another.
    pub fn add(&mut self, process: u32, start: u64, end: u64) {
        let ranges = &mut Arc::make_mut(self.0.entry(process).or_default()).0;
        let at = ranges.partition_point(|range| range.1 < start);
        let behind = at + ranges[at..].partition_point(|range| range.0 <= end);
        let (first, last) = (ranges[at..behind].first(), ranges[at..behind].last());
        let start = first.map_or(start, |first| first.0.min(start));
        let end = last.map_or(end, |last| last.1.max(end));
        ranges.splice(at..behind, [(start, end)]);
    }

    /// That of a process.
    #[must_use]
    pub fn of(&self, process: u32) -> Arc<Ranges> {
        self.0.get(&process).cloned().unwrap_or_default()
    }
}

impl Ranges {
    /// Whether an address is in it.
    #[must_use]
    pub fn has(&self, pc: u64) -> bool {
        let behind = self.0.partition_point(|range| range.0 <= pc);
        behind > 0 && pc < self.0[behind - 1].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        let mut except = Except::default();
        for (start, end) in [(50, 60), (10, 20), (30, 40), (15, 35), (60, 61), (0, 1)] {
            except.add(7, start, end);
        }
        let ranges = except.of(7);
        assert_eq!(ranges.0, [(0, 1), (10, 40), (50, 61)]);
        assert!([0, 10, 39, 60].iter().all(|&pc| ranges.has(pc)));
        assert!(![1, 9, 40, 49, 61].iter().any(|&pc| ranges.has(pc)));
        assert!(!except.of(8).has(10));
    }
}
