//! Where returns go: for all of them at once, and for what finds no place in the small tables of the threads.
//!
//! Code looks into it without a lock (`entry::unknown_return`): it reads the key, the rest, and the key again, and a
//! slot has no key while it is being filled. A table that has become too small stays where it is, for threads that are
//! looking into it just then.

use crate::zone;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use relive_abi::kernel;

/// How many slots there are at first, and at most.
const FEWEST: u64 = 1 << 10;
const MOST: u64 = 1 << 18;

/// Spreads addresses over the slots: the product, without the lowest bits.
pub const FACTOR: u64 = 0x61c8_8647;
/// See above.
pub const SHIFT: u32 = 20;

/// A return target.
#[repr(C)]
pub struct Slot {
    /// The address in the program; 0 for none.
    pub key: u64,
    /// Its landing.
    pub landing: u64,
}

/// A table: the distance of its last slot from its first, and behind that the slots.
#[repr(C)]
pub struct Table {
    /// All bits of distances between slots.
    pub mask: u64,
    fill: u64,
    /// The first slot.
    pub slots: [Slot; 0],
}

/// A table for when there is no memory for one: its only slot is always empty.
static EMPTY: [u64; 4] = [0; 4];

fn empty() -> u64 {
    (&raw const EMPTY).expose_provenance() as u64
}

/// All of them.
pub struct Returns {
    /// Where the latest table is.
    table: Box<AtomicU64>,
    /// All tables, each with its length.
    tables: Vec<(u64, u64)>,
    /// How many slots of the latest have been filled.
    filled: u64,
}

const SLOT: u64 = size_of::<Slot>() as u64;

fn slot(table: u64, pc: u64) -> *mut Slot {
    // SAFETY: the caller has a table.
    let mask = unsafe { (*(table as *const Table)).mask };
    let distance = pc.wrapping_mul(FACTOR) >> SHIFT & mask;
    (table + size_of::<Table>() as u64 + distance) as *mut Slot
}

impl Returns {
    /// None yet.
    pub fn reserve() -> Self {
        let mut returns = Self { table: Box::new(AtomicU64::new(empty())), tables: Vec::new(), filled: 0 };
        returns.grow();
        returns
    }

    /// Where threads find out where the table is.
    pub fn at(&self) -> u64 {
        self.table.as_ptr().expose_provenance() as u64
    }

    fn table(&self) -> Option<u64> {
        Some(self.table.load(Ordering::Relaxed)).filter(|&table| table != empty())
    }

    fn slots(&self) -> u64 {
        // SAFETY: a table.
        self.table().map_or(0, |table| unsafe { (*(table as *const Table)).mask } / SLOT + 1)
    }

    /// Makes a larger table, if there is memory.
    fn grow(&mut self) {
        let slots = (self.slots() * 4).max(FEWEST);
        let len = size_of::<Table>() as u64 + slots * SLOT;
        let Ok(new) = zone::map(len) else { return };
        // SAFETY: fresh memory, which nobody knows yet.
        unsafe { (*(new as *mut Table)).mask = (slots - 1) * SLOT };
        if let Some(old) = self.table() {
            for index in 0..self.slots() {
                // SAFETY: slots of both tables.
                unsafe {
                    let from = ((old + size_of::<Table>() as u64) as *const Slot).add(index as usize);
                    if (*from).key != 0 {
                        slot(new, (*from).key).write(from.read());
                    }
                }
            }
        }
        self.tables.push((new, len));
        self.table.store(new, Ordering::Release);
    }

    /// Nobody looks into it any more.
    pub fn give_back(&mut self) {
        self.table.store(empty(), Ordering::Relaxed);
        for (at, len) in self.tables.drain(..) {
            // SAFETY: mapped by `grow`.
            unsafe { kernel::munmap(at, len) };
        }
    }

    /// Learns where an address is in the cache.
    pub fn put(&mut self, pc: u64, landing: u64) {
        // So that hardly any two want the same slot.
        if self.filled * 4 >= self.slots() && self.slots() < MOST {
            self.grow();
        }
        let Some(table) = self.table() else { return };
        let slot = slot(table, pc);
        // SAFETY: a slot of the table; the engine's lock is held. Volatile, and the processor keeps the order.
        unsafe {
            self.filled += u64::from((*slot).key == 0);
            (&raw mut (*slot).key).write_volatile(0);
            (&raw mut (*slot).landing).write_volatile(landing);
            (&raw mut (*slot).key).write_volatile(pc);
        }
    }

    /// Forgets an address.
    pub fn remove(&mut self, pc: u64) {
        let Some(table) = self.table() else { return };
        let slot = slot(table, pc);
        // SAFETY: as above.
        unsafe {
            if (*slot).key == pc {
                (&raw mut (*slot).key).write_volatile(0);
                self.filled -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(returns: &Returns, pc: u64) -> Option<u64> {
        // SAFETY: a slot of the table.
        let slot = unsafe { slot(returns.table()?, pc).read() };
        (slot.key == pc).then_some(slot.landing)
    }

    #[test]
    fn finds_most_however_many_there_are() {
        const N: u64 = 10_000;
        let mut returns = Returns::reserve();
        let pcs = || (0..N).map(|n| 0x7f00_1234_5678 + n * 13);
        for pc in pcs() {
            returns.put(pc, pc + 1);
            assert_eq!(find(&returns, pc), Some(pc + 1));
        }
        let found = pcs().filter(|&pc| find(&returns, pc) == Some(pc + 1)).count() as u64;
        assert!(found > N * 3 / 4 && returns.slots() >= N * 2, "{found} in {}", returns.slots());
        for pc in pcs() {
            returns.remove(pc);
            assert_eq!(find(&returns, pc), None);
        }
        assert_eq!(returns.filled, 0);
        returns.give_back();
    }
}
