//! What a run has shown of a program's code, for whoever wants to know of no more than that.

use crate::elf::Elf;
use rayon::prelude::*;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::isa::{Decode, Flow};
use std::collections::{BTreeSet, HashMap};

/// Code that was executed.
#[derive(Debug, Default)]
pub struct Executed {
    /// By address, none touching the next.
    ranges: Vec<AddrRange>,
    /// Where functions were entered by a call, or from another module.
    entries: Vec<LinkAddr>,
    /// Computed jumps to places that nobody calls: where from and where to.
    jumps: Vec<(LinkAddr, LinkAddr)>,
}

impl Executed {
    /// From instructions that were executed one after the other, from where computed jumps and calls led, by
    /// their own address, and from where other modules entered this one.
    #[must_use]
    pub fn new(
        elf: &Elf<'_>,
        straight: impl IntoIterator<Item = AddrRange>,
        computed: &HashMap<LinkAddr, Vec<LinkAddr>>,
        entered: impl IntoIterator<Item = LinkAddr>,
    ) -> Self {
        let ranges = united(straight.into_iter().collect());
        let called = ranges.par_iter().flat_map_iter(|&range| {
            let bytes = elf.bytes_in(range.start, range.len()).unwrap_or_default();
            Decode::new(bytes, range.start).flat_map(|insn| {
                let computed = computed.get(&insn.addr()).filter(|_| insn.flow() == Flow::IndirectCall);
                insn.call_target().into_iter().chain(computed.into_iter().flatten().copied())
            })
        });
        let mut this = Self { entries: called.collect(), ranges, jumps: Vec::new() };
        this.entries.extend(entered);
        this.entries.sort_unstable();
        this.entries.dedup();
        this.entries = this.entries.iter().copied().filter(|&at| this.holds(at)).collect();
        let all = computed.iter().flat_map(|(&site, targets)| targets.iter().map(move |&to| (site, to)));
        this.jumps = all.filter(|(_, to)| this.entries.binary_search(to).is_err()).collect();
        this
    }

    /// Whether the instruction at `at` was executed.
    #[must_use]
    pub fn holds(&self, at: LinkAddr) -> bool {
        self.touches(AddrRange::sized(at, 1))
    }

    /// Whether anything in `range` was.
    #[must_use]
    pub fn touches(&self, range: AddrRange) -> bool {
        let behind = self.ranges.partition_point(|r| r.end <= range.start);
        self.ranges.get(behind).is_some_and(|r| r.start < range.end)
    }

    /// Where functions were entered, by address.
    pub(super) fn entries(&self) -> &[LinkAddr] {
        &self.entries
    }

    /// Where computed jumps led that are no calls: from where and to where.
    pub(super) fn jumps(&self) -> &[(LinkAddr, LinkAddr)] {
        &self.jumps
    }

    /// The first place that was executed in each stretch between the given pieces, which are by address.
    pub(super) fn outside(&self, pieces: impl Iterator<Item = AddrRange>) -> BTreeSet<LinkAddr> {
        let mut found = BTreeSet::new();
        let mut ranges = self.ranges.iter().copied().peekable();
        let end = AddrRange { start: LinkAddr(u64::MAX), end: LinkAddr(u64::MAX) };
        let mut at = LinkAddr(0);
        for piece in pieces.chain([end]) {
            let mut first = None;
            while let Some(range) = ranges.peek().copied().filter(|r| r.start < piece.start) {
                let start = range.start.max(at);
                if start < range.end.min(piece.start) {
                    first.get_or_insert(start);
                }
                if range.end > piece.start {
                    break;
                }
                ranges.next();
            }
            found.extend(first);
            at = at.max(piece.end);
        }
        found
    }
}

/// Ranges that overlap or touch, as one.
fn united(mut ranges: Vec<AddrRange>) -> Vec<AddrRange> {
    ranges.par_sort_unstable();
    ranges.dedup_by(|next, before| {
        let joins = next.start <= before.end;
        if joins {
            before.end = before.end.max(next.end);
        }
        joins
    });
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> AddrRange {
        AddrRange::new(LinkAddr(start), LinkAddr(end))
    }

    #[test]
    fn ranges_are_united() {
        let ranges = united(vec![range(0x20, 0x30), range(0x10, 0x18), range(0x18, 0x1c), range(0x22, 0x24)]);
        assert_eq!(ranges, [range(0x10, 0x1c), range(0x20, 0x30)]);
        let executed = Executed { ranges, ..Executed::default() };
        assert!(executed.holds(LinkAddr(0x1b)) && !executed.holds(LinkAddr(0x1c)));
        assert!(executed.touches(range(0x1c, 0x21)) && !executed.touches(range(0x1c, 0x20)));
    }

    #[test]
    fn code_between_pieces() {
        let ranges = vec![range(0x10, 0x20), range(0x28, 0x30), range(0x40, 0x50), range(0x60, 0x61)];
        let executed = Executed { ranges, ..Executed::default() };
        let outside = |pieces: &[AddrRange]| -> Vec<u64> {
            executed.outside(pieces.iter().copied()).into_iter().map(|at| at.0).collect()
        };
        assert_eq!(outside(&[]), [0x10]);
        assert_eq!(outside(&[range(0x08, 0x18), range(0x40, 0x48)]), [0x18, 0x48]);
        assert_eq!(outside(&[range(0x10, 0x60), range(0x60, 0x70)]), []);
        assert_eq!(outside(&[range(0x12, 0x14), range(0x2c, 0x62)]), [0x10, 0x14]);
    }
}
