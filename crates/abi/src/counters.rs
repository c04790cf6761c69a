//! Where a thread counts: its *area*.
//!
//! The first thread's area is part of the rewritten module, so that code reaches it relative to the
//! instruction pointer. Every other thread has an area of the same shape elsewhere, and its `gs` base is
//! the distance between the two: one instruction, `inc qword gs:[rip + counter]`, counts for whichever
//! thread runs it.
//!
//! An area is a private part, then a slot of the profile:
//!
//! ```text
//! 0                    Private, wiped in the child of a fork
//! keys_offset()        u64 per indirect call site: the address at which Site::target is loaded in this run
//! slot_offset(sites)   SlotHeader, counters, sites, ... (rprof::SlotLayout), a shared mapping of the file
//! ```

use crate::rprof::SlotLayout;
use crate::{PAGE, page_up};

/// The head of the private part of an area. Zero in a process that has just been forked.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Private {
    /// What `fs:0` reads in the thread that owns the area. Code that may run on a new thread, or in a new
    /// process, compares the two and calls `relive_enter` if they differ.
    pub owner: u64,
}

/// Where the keys begin, from the start of the area.
#[must_use]
pub const fn keys_offset() -> u64 {
    64
}

/// Where the slot begins, from the start of the area.
#[must_use]
pub const fn slot_offset(sites: u32) -> u64 {
    page_up(keys_offset() + sites as u64 * 8)
}

/// The length of an area.
#[must_use]
pub const fn area_len(slot: &SlotLayout) -> u64 {
    slot_offset(slot.sites) + slot.len()
}

const _: () = assert!(size_of::<Private>() as u64 <= keys_offset() && keys_offset() < PAGE);
