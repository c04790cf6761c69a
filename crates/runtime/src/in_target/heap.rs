//! Hash tables that grow, in private memory that is empty in the child of a fork.

use relive_abi::page_up;

use super::syscall;
use super::table::{self, Entry, Put};

/// The start of a table's memory; entries follow.
#[repr(C)]
struct Head {
    /// A power of two.
    capacity: u64,
    used: u64,
}

const FIRST_CAPACITY: u64 = 128;
const LARGEST_CAPACITY: u64 = 1 << 22;

/// The entries of the table at an address, none if that is zero.
pub(crate) fn entries(at: u64) -> &'static mut [Entry] {
    if at == 0 {
        return &mut [];
    }
    // SAFETY: made below and never freed; in the child of a fork it has no capacity.
    unsafe {
        let capacity = (*(at as *const Head)).capacity as usize;
        core::slice::from_raw_parts_mut((at as *mut Head).add(1).cast::<Entry>(), capacity)
    }
}

/// Puts an entry into the table at `*at`, which is made or replaced by a larger one where needed. Signals must
/// be blocked. A table that was replaced stays: a thread may have been interrupted while it looked at it.
pub(crate) fn put(at: &mut u64, site: u32, word: u64, number: u32) {
    // SAFETY: as above.
    let (capacity, used) = match unsafe { (*at as *const Head).as_ref() } {
        Some(head) => (head.capacity, head.used),
        None => (0, 0),
    };
    if used * 4 >= capacity * 3 && capacity < LARGEST_CAPACITY {
        let larger = if capacity == 0 { FIRST_CAPACITY } else { capacity * 2 };
        let len = page_up(size_of::<Head>() as u64 + larger * size_of::<Entry>() as u64);
        if let Ok(new) = syscall::allocate_wiped(len) {
            // SAFETY: there is room for the head and that many entries.
            unsafe { *(new as *mut Head) = Head { capacity: larger, used } };
            table::copy(entries(*at), entries(new));
            // SAFETY: a reference is valid. Volatile, so that the table is complete when it is seen.
            unsafe { core::ptr::write_volatile(at, new) };
        }
    }
    // An entry that finds no room is looked up the slow way each time.
    let table = entries(*at);
    if (used as usize) < table.len() / 8 * 7 && table::put(table, site, word, number) == Put::Added {
        // SAFETY: as above.
        if let Some(head) = unsafe { (*at as *mut Head).as_mut() } {
            head.used += 1;
        }
    }
}
