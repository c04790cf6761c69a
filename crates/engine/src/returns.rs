//! Where returns go: for all of them at once, and for what finds no place in the small tables of the threads.
//!
//! Code looks into it without a lock (`entry::unknown_return`): it reads the key, the rest, and the key again, and a
//! slot has no key while it is being filled.

use crate::zone;
use relive_abi::kernel;

/// How many slots there are.
pub const SLOTS: u64 = 1 << 18;

/// A return target.
#[repr(C)]
pub struct Slot {
    /// The address in the program; 0 for none.
    pub key: u64,
    /// Where it is in the cache.
    pub body: u64,
    /// Its landing.
    pub landing: u64,
    unused: u64,
}

/// All of them.
pub struct Returns {
    /// Where the slots are.
    pub at: u64,
}

impl Returns {
    /// None yet.
    pub fn reserve() -> Self {
        Self { at: zone::map(SLOTS * size_of::<Slot>() as u64).unwrap_or(0) }
    }

    /// The slot for an address, as [`crate::entry`] finds it.
    fn slot(&mut self, pc: u64) -> Option<*mut Slot> {
        let index = (pc >> 16 ^ pc) & (SLOTS - 1);
        (self.at != 0).then(|| (self.at as *mut Slot).wrapping_add(index as usize))
    }

    /// Nobody looks into it any more.
    pub fn give_back(&mut self) {
        if self.at != 0 {
            // SAFETY: mapped by `reserve`.
            unsafe { kernel::munmap(self.at, SLOTS * size_of::<Slot>() as u64) };
            self.at = 0;
        }
    }

    /// Learns where an address is in the cache.
    pub fn put(&mut self, pc: u64, body: u64, landing: u64) {
        let Some(slot) = self.slot(pc) else { return };
        // SAFETY: a slot of the table; the engine's lock is held. Volatile, and the processor keeps the order.
        unsafe {
            (&raw mut (*slot).key).write_volatile(0);
            (&raw mut (*slot).body).write_volatile(body);
            (&raw mut (*slot).landing).write_volatile(landing);
            (&raw mut (*slot).key).write_volatile(pc);
        }
    }

    /// Forgets an address.
    pub fn remove(&mut self, pc: u64) {
        let Some(slot) = self.slot(pc) else { return };
        // SAFETY: as above.
        unsafe {
            if (*slot).key == pc {
                (&raw mut (*slot).key).write_volatile(0);
            }
        }
    }
}
