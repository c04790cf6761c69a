//! What one function's analysis can ask about all the others.

use super::references::References;
use crate::image::Image;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::source::{CodeSource, Pointer, Returns, StatedJump, Surroundings};
use std::collections::{HashMap, HashSet};

/// The image, and what has been found out about it so far.
pub(super) struct World<'a, 'd> {
    pub(super) image: &'a Image<'d>,
    pub(super) references: &'a References,
    /// Entries of all functions, sorted.
    pub(super) starts: Vec<LinkAddr>,
    /// Functions and stubs that do not come back: declared so, or their code shows no way back.
    pub(super) noreturn: HashMap<LinkAddr, Returns>,
    /// Slots that lead to functions that are declared never to come back.
    pub(super) noreturn_slots: HashSet<LinkAddr>,
}

impl CodeSource for World<'_, '_> {
    fn bytes(&self, at: LinkAddr) -> &[u8] {
        self.image.elf.bytes_at(at)
    }
}

impl Surroundings for World<'_, '_> {
    fn returns(&self, callee: LinkAddr) -> Returns {
        self.noreturn.get(&callee).copied().unwrap_or(Returns::Yes)
    }

    fn returns_through(&self, slot: LinkAddr) -> Returns {
        if self.noreturn_slots.contains(&slot) { Returns::Never } else { Returns::Yes }
    }

    fn is_function_start(&self, at: LinkAddr) -> bool {
        self.starts.binary_search(&at).is_ok()
            || self.image.stub_holding(at).is_some_and(|s| s.range.start == at)
    }

    fn is_code(&self, at: LinkAddr) -> bool {
        self.image.elf.is_text(at)
    }

    fn pointer(&self, at: LinkAddr) -> Pointer {
        self.image.pointer(at)
    }

    fn is_constant(&self, at: LinkAddr) -> bool {
        self.image.elf.is_constant(at)
    }

    fn next_reference(&self, at: LinkAddr) -> Option<LinkAddr> {
        self.references.next_data(at)
    }

    fn stated_table_len(&self, at: LinkAddr) -> Option<u64> {
        self.image.table_sizes.get(&at).copied()
    }

    fn stated_return(&self, next: LinkAddr) -> Option<bool> {
        self.image.stated.returns(next)
    }

    fn stated_jump(&self, site: LinkAddr) -> Option<&StatedJump> {
        self.image.stated.jumps.get(&site)
    }

    fn labels(&self, range: AddrRange, found: &mut dyn FnMut(LinkAddr)) {
        self.references.code_in(range).iter().copied().for_each(found);
    }
}
