//! The memory that annotations speak of.

use crate::image::Image;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::source::{CodeSource, Pointer};

/// Memory, and what is known of it: a linked file, or an object whose sections were given addresses.
pub trait Memory: CodeSource + Sync {
    /// What the eight bytes at `at` will hold at run time.
    fn pointer(&self, at: LinkAddr) -> Pointer;

    /// Whether all of `range` is code.
    fn is_text(&self, range: AddrRange) -> bool;
}

impl CodeSource for Image<'_> {
    fn bytes(&self, at: LinkAddr) -> &[u8] {
        self.elf.bytes_at(at)
    }
}

impl Memory for Image<'_> {
    fn pointer(&self, at: LinkAddr) -> Pointer {
        Image::pointer(self, at)
    }

    fn is_text(&self, range: AddrRange) -> bool {
        lies_in(&self.elf.text, range)
    }
}

/// Whether one of `ranges`, which are by address and do not overlap, holds all of `range`.
pub(crate) fn lies_in(ranges: &[AddrRange], range: AddrRange) -> bool {
    let behind = ranges.partition_point(|r| r.start <= range.start);
    ranges[..behind].last().is_some_and(|r| range.end <= r.end && range.start < r.end)
}
