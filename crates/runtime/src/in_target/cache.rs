//! Counters of calls by site and address, as `relive_call` looks for them without saving all registers.
//!
//! A table where each pair has one place. Changed only with signals blocked.

use relive_abi::page_up;

use super::syscall;

/// The module's first area, once the module has started.
pub(crate) static mut AREA: u64 = 0;

/// Sites above have no place: their number does not fit above an address.
pub(crate) const SITES: u32 = 1 << 17;
/// A power of two.
pub(crate) const ENTRIES: u32 = 1 << 12;
/// Spreads sites that have the same target.
pub(crate) const SPREAD: u32 = 0x2545;

#[repr(C)]
struct Entry {
    tag: u64,
    counter: u64,
}

/// The place of a pair.
fn place(cache: u64, site: u32, address: u64) -> *mut Entry {
    let low = address as u32;
    let place = ((low >> 4) ^ low).wrapping_add(site.wrapping_mul(SPREAD)) & (ENTRIES - 1);
    (cache + u64::from(place) * size_of::<Entry>() as u64) as *mut Entry
}

fn tag(site: u32, address: u64) -> u64 {
    u64::from(site) << 47 ^ address
}

/// Puts in a counter in place of what is there.
pub(crate) fn put(cache: &mut u64, site: u32, address: u64, counter: *mut u64) {
    if *cache == 0 {
        *cache =
            syscall::allocate_wiped(page_up(u64::from(ENTRIES) * size_of::<Entry>() as u64)).unwrap_or(0);
    }
    if *cache != 0 && site < SITES && address >> 47 == 0 {
        // SAFETY: a place in the table.
        unsafe { *place(*cache, site, address) = Entry { tag: tag(site, address), counter: counter as u64 } };
    }
}

/// Takes out what is there for a pair.
pub(crate) fn remove(cache: u64, site: u32, address: u64) {
    if cache != 0 {
        // SAFETY: a place in the table. No address is so high.
        unsafe { (*place(cache, site, address)).tag = u64::MAX };
    }
}
