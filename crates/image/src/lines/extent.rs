//! Which addresses an entry of the debug information covers.

use super::reading::Slice;
use gimli::{AttributeValue, Format, RangeListsOffset, Reader as _, Section as _, UnitRef};
use relive_code::addr::{AddrRange, LinkAddr};

/// The attributes of an entry that say so.
#[derive(Default)]
pub(super) struct Extent {
    low: Option<u64>,
    high: Option<u64>,
    size: Option<u64>,
    list: Option<RangeListsOffset<usize>>,
}

impl Extent {
    /// Takes note of an attribute, if it is one of them.
    pub(super) fn see<'a>(
        &mut self,
        unit: UnitRef<'_, Slice<'a>>,
        attribute: &gimli::Attribute<Slice<'a>>,
    ) -> gimli::Result<()> {
        match (attribute.name(), attribute.value()) {
            (gimli::DW_AT_low_pc, value) => self.low = unit.attr_address(value)?,
            (gimli::DW_AT_high_pc, AttributeValue::Udata(size)) => self.size = Some(size),
            (gimli::DW_AT_high_pc, value) => self.high = unit.attr_address(value)?,
            (gimli::DW_AT_ranges, value) => self.list = list_of(unit, value)?,
            _ => {}
        }
        Ok(())
    }

    /// Calls `each` with every range that is code.
    pub(super) fn ranges(
        &self,
        unit: UnitRef<'_, Slice<'_>>,
        text: &Text,
        budget: &mut Budget,
        mut each: impl FnMut(AddrRange),
    ) -> gimli::Result<()> {
        let mut add = |begin, end| {
            let range = AddrRange::new(LinkAddr(begin), LinkAddr(end));
            if !range.is_empty() && text.holds(range.start) {
                each(range);
            }
        };
        if let Some(list) = self.list {
            let mut list = unit.ranges(list)?;
            while budget.spend(1)
                && let Some(range) = list.next()?
            {
                add(range.begin, range.end);
            }
        } else if let Some(low) = self.low
            && let Some(end) = self.size.map(|size| low.wrapping_add(size)).or(self.high)
        {
            add(low, end);
        }
        Ok(())
    }
}

/// Where the list is that `value` refers to.
fn list_of<'a>(
    unit: UnitRef<'_, Slice<'a>>,
    value: AttributeValue<Slice<'a>>,
) -> gimli::Result<Option<RangeListsOffset<usize>>> {
    // In the wide form gimli 0.34 adds any 64-bit number that it finds to the base of the lists: a panic
    // where arithmetic is checked.
    if let (AttributeValue::DebugRngListsIndex(index), Format::Dwarf64) = (value, unit.header.format()) {
        let lists = unit.dwarf.ranges.debug_rnglists().reader();
        let mut entry = *lists;
        entry.skip(unit.rnglists_base.0)?;
        entry.skip(index.0.saturating_mul(8))?;
        let offset = entry.read_u64()?;
        if offset > lists.len() as u64 {
            return Err(gimli::Error::OffsetOutOfBounds(offset));
        }
    }
    unit.attr_ranges_offset(value)
}

/// Where code is.
///
/// The linker leaves the debug information of functions it discarded in place and moves them to
/// address zero. Taken at its word, a large enough discarded function covers the first real ones
/// of a position-independent file.
pub(super) struct Text(Vec<AddrRange>);

impl Text {
    /// `ranges` lie apart, by address.
    pub(super) fn new(ranges: &[AddrRange]) -> Self {
        Self(ranges.to_vec())
    }

    pub(super) fn holds(&self, at: LinkAddr) -> bool {
        let behind = self.0.partition_point(|r| r.start <= at);
        behind > 0 && self.0[behind - 1].contains(at)
    }
}

/// A bound on what is unfolded from the sections.
///
/// Entries refer to range lists and strings by offset. In what compilers write each is referred to
/// about once; in a damaged file thousands of entries may share one long list, and following each
/// reference takes the square of the file's size.
pub(super) struct Budget {
    left: usize,
}

impl Budget {
    pub(super) fn new(left: usize) -> Self {
        Self { left }
    }

    /// Whether `amount` more may be unfolded.
    pub(super) fn spend(&mut self, amount: usize) -> bool {
        match self.left.checked_sub(amount) {
            Some(left) => self.left = left,
            None => self.left = 0,
        }
        self.left > 0
    }

    pub(super) fn is_spent(&self) -> bool {
        self.left == 0
    }
}
