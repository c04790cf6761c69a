//! Layouts of memory and files that code inside a measured program shares with the tools outside.
//!
//! Everything is little-endian and `repr(C)` without implicit padding, so that the same bytes mean the
//! same thing in the program, in the file and in a reader written in another language.

#![no_std]

pub mod counters;
pub mod engine;
pub mod gate;
pub mod hash;
pub mod kernel;
mod memory;
pub mod parameters;
pub mod rprof;
pub mod trace;

/// Everything that is mapped begins and ends at multiples of this.
pub const PAGE: u64 = 4096;

/// The next multiple of [`PAGE`].
#[must_use]
pub const fn page_up(len: u64) -> u64 {
    len.next_multiple_of(PAGE)
}
