//! What the rewriter said of this module.

use core::ops::Range;
use core::ptr;

use relive_abi::counters::{area_len, key_offset, settled_offset, slot_offset, way_offset};
use relive_abi::parameters::{MAGIC, Parameters};
use relive_abi::rprof::FileHeader;

// Filled in by the rewriter. In `.data`, so that there are bytes to fill in. All in one page: who can read
// one word can read the rest.
#[cfg(relive_in_target)]
core::arch::global_asm!(
    ".section .data.relive_parameters, \"aw\", @progbits",
    ".globl relive_parameters",
    ".hidden relive_parameters",
    ".type relive_parameters, @object",
    ".p2align 7",
    "relive_parameters:",
    ".zero {size}",
    ".size relive_parameters, {size}",
    ".text",
    size = const size_of::<Parameters>(),
);

/// The parameters as loaded.
#[derive(Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) given: Parameters,
    /// What is added to an address as linked.
    pub(crate) bias: u64,
}

/// Where the parameters are.
#[cfg(relive_in_target)]
pub(crate) fn parameters_address() -> u64 {
    let address: u64;
    // SAFETY: only computes an address.
    unsafe {
        core::arch::asm!("lea {}, [rip + relive_parameters]", out(reg) address,
            options(nostack, nomem, preserves_flags, pure));
    }
    address
}

/// Nowhere, where this is only checked and tested.
#[cfg(not(relive_in_target))]
pub(crate) fn parameters_address() -> u64 {
    0
}

/// The parameters; `None` if nobody filled them in.
pub(crate) fn facts() -> Option<Facts> {
    // SAFETY: nobody writes them while the program runs.
    let given = unsafe { ptr::read(parameters_address() as *const Parameters) };
    let bias = parameters_address().wrapping_sub(given.here);
    if given.magic == MAGIC { Some(Facts { given, bias }) } else { None }
}

impl Facts {
    /// Where an address as linked is loaded.
    pub(crate) fn loaded(&self, address: u64) -> u64 {
        address.wrapping_add(self.bias)
    }

    /// The first thread's area.
    pub(crate) fn area(&self) -> u64 {
        self.loaded(self.given.area)
    }

    /// The first bytes of a new profile.
    pub(crate) fn file(&self) -> &'static [u8] {
        // SAFETY: the rewriter put them there.
        unsafe {
            core::slice::from_raw_parts(
                self.loaded(self.given.file) as *const u8,
                self.given.file_len as usize,
            )
        }
    }

    /// The header of a new profile.
    pub(crate) fn header(&self) -> &'static FileHeader {
        // SAFETY: a profile begins with its header.
        unsafe { &*(self.loaded(self.given.file) as *const FileHeader) }
    }

    /// The length of an area.
    pub(crate) fn area_len(&self) -> u64 {
        area_len(&self.header().slot)
    }

    /// Where the slot begins in an area.
    pub(crate) fn slot_offset(&self) -> u64 {
        slot_offset(self.header().slot.sites)
    }

    /// The length of a slot.
    pub(crate) fn slot_len(&self) -> u64 {
        self.header().slot.len()
    }

    /// A key of a call site in an area.
    pub(crate) fn key(&self, area: u64, site: u32, place: u32) -> *mut u64 {
        (area + key_offset(site, place)) as *mut u64
    }

    /// The way that belongs to a key.
    pub(crate) fn way(&self, area: u64, site: u32, place: u32) -> *mut u64 {
        (area + way_offset(site, place)) as *mut u64
    }

    /// Which target a place is for in this process.
    pub(crate) fn settled(&self, site: u32, place: u32) -> *mut u64 {
        (self.loaded(self.given.settled) + settled_offset(site, place)) as *mut u64
    }

    /// Old code as loaded.
    pub(crate) fn text(&self) -> Range<u64> {
        self.loaded(self.given.text_start)..self.loaded(self.given.text_end)
    }

    /// New code as loaded.
    pub(crate) fn code(&self) -> Range<u64> {
        self.loaded(self.given.code_start)..self.loaded(self.given.code_end)
    }

    /// Whether a loaded address belongs to this module.
    pub(crate) fn is_inside(&self, address: u64) -> bool {
        (self.loaded(self.given.module_start)..self.loaded(self.given.module_end)).contains(&address)
    }
}
