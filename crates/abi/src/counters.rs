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
//! keys_offset()        per indirect call site, PLACES times: u64 key, u64 way
//! slot_offset(sites)   SlotHeader, counters, sites, ... (rprof::SlotLayout), a shared mapping of the file
//! ```
//!
//! A *key* is the address of a usual target in this run. Code whose target is equal to it counts by itself, adds the *way* to the
//! target, and goes there: to where the target has moved. All ways for a place are zero or the same, in all areas, as long as the
//! process and its children live, so that code may be interrupted at any time between the comparison and the call.
//! Which target a place is for is noted in words behind the first area: see [`settled_offset`].

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

/// How many targets of a call site rewritten code counts itself.
pub const PLACES: u32 = 2;

/// Where the keys begin, from the start of the area.
#[must_use]
pub const fn keys_offset() -> u64 {
    64
}

/// Where a key is, from the start of the area. The upper bit of one that is not to be found equal is set.
#[must_use]
pub const fn key_offset(site: u32, place: u32) -> u64 {
    keys_offset() + settled_offset(site, place) * 2
}

/// Where the way is that belongs to a key.
#[must_use]
pub const fn way_offset(site: u32, place: u32) -> u64 {
    key_offset(site, place) + 8
}

/// Where the slot begins, from the start of the area.
#[must_use]
pub const fn slot_offset(sites: u32) -> u64 {
    page_up(key_offset(sites, 0))
}

/// The length of an area.
#[must_use]
pub const fn area_len(slot: &SlotLayout) -> u64 {
    slot_offset(slot.sites) + slot.len()
}

/// Where it is noted which target a place is for, from the first such word.
#[must_use]
pub const fn settled_offset(site: u32, place: u32) -> u64 {
    (site as u64 * PLACES as u64 + place as u64) * 8
}

/// The length of all these words.
#[must_use]
pub const fn settled_len(sites: u32) -> u64 {
    page_up(settled_offset(sites, 0))
}

const _: () = assert!(size_of::<Private>() as u64 <= keys_offset() && keys_offset() < PAGE);
