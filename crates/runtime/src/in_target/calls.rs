//! Targets of indirect calls.
//!
//! A site has places for two *usual* targets: rewritten code compares with their addresses (*keys*), counts by itself, and goes on
//! by the *way* that belongs to the key. All other calls come here, unless the thread's cache knows their counter.
//! The count of a usual target is in its `Site`, or in the `Overflow` that is reserved for the second; all further targets
//! have other `Overflow` entries, which two private tables find: by the address of the target in this run,
//! and by the target as the profile names it.
//!
//! A target becomes usual when it was called some hundred times, and remains so: its place is *settled*. Up to then the key of a
//! place that is taken has all its bits inverted, which no target is equal to.
//!
//! A thread may be interrupted anywhere between the comparison and the call, and much can happen until it goes on: its
//! handler may make these very calls, get the thread another area, or fork. So the way it then adds must be the one for its
//! target or zero, which leads to the target too, if not as fast. Hence a place is for the same target in all threads, and in
//! children; and the way is set once, before the key.
//!
//! A signal handler may come here while its thread is here too. Counting is one instruction; everything else
//! happens with signals blocked. What remains: if a handler makes a target usual between the moment its thread finds a
//! counter in here and the count, that one call may count for another target of the site.

use core::arch::asm;
use core::ptr;

use relive_abi::counters::PLACES;
use relive_abi::rprof::{LOST_TARGETS, Overflow, SlotHeader, SlotLayout, target};

use super::area::{self, Local};
use super::cache;
use super::facts::{Facts, facts};
use super::foreign;
use super::heap;
use super::registry;
use super::slot::mark_lost;
use super::state::state;
use super::syscall;
use super::table;
use super::threads;
use super::ways;

/// Where a target is counted: from here on in a place of its site, below in an overflow entry.
const IN_PLACE: u32 = 0x7fff_fff0;
/// There was no room for it.
const LOST: u32 = IN_PLACE - 1;
/// Added to a number in the table by target whose address in this run is known.
const SEEN: u32 = 1 << 30;

/// Every how many calls that come all the way here a target is put into the cache anew.
const REFRESH: u64 = 64;

/// Counts a call whose target is none of the usual ones of its site.
pub(crate) extern "C" fn call(site: u32, address: u64) {
    let Some(facts) = facts() else { return };
    if area::current_owner(&facts) != area::thread_pointer() {
        threads::enter();
    }
    let place = Place::new(&facts);
    if site >= place.layout.sites {
        return;
    }
    let Some(number) = place.find(&facts, site, address) else {
        locked(|| place.learn(&facts, site, address));
        return;
    };
    let counter = place.count(site, number);
    count(counter);
    // SAFETY: a counter of this thread.
    if unsafe { *counter } % REFRESH == 0 {
        locked(|| place.review(&facts, site, address));
    }
}

/// Called every 256 calls of a target that is in the cache: maybe it should be a usual one.
pub(crate) extern "C" fn review(site: u32, address: u64) {
    let Some(facts) = facts() else { return };
    let place = Place::new(&facts);
    if !(0..PLACES).all(|n| place.is_settled(&facts, site, n)) {
        locked(|| place.review(&facts, site, address));
    }
}

/// Does something with signals blocked and, if the module has started, the lock held.
fn locked(action: impl FnOnce()) {
    let lock = registry::lock();
    let signals = syscall::block_signals();
    action();
    syscall::restore_signals(signals);
    drop(lock);
}

fn count(counter: *mut u64) {
    // SAFETY: a counter of this thread. One instruction: a signal comes before or after it.
    unsafe { asm!("inc qword ptr [{}]", in(reg) counter, options(nostack)) };
}

/// Whether a key can stand for the address: the upper bit says that it does not yet.
fn is_plain(address: u64) -> bool {
    address >> 63 == 0
}

/// Where the calls of a thread are counted.
#[derive(Clone, Copy)]
struct Place {
    area: u64,
    local: *mut Local,
    slot: u64,
    layout: &'static SlotLayout,
}

impl Place {
    fn new(facts: &Facts) -> Self {
        let area = area::current(facts);
        let layout = &facts.header().slot;
        Place { area, local: area::local(area), slot: area + facts.slot_offset(), layout }
    }

    /// The key of a place: zero, a target, or the inversion of one.
    fn key(&self, facts: &Facts, site: u32, place: u32) -> u64 {
        // SAFETY: the private part of an area. Volatile, since a signal handler may set it.
        unsafe { ptr::read_volatile(facts.key(self.area, site, place)) }
    }

    fn set_key(&self, facts: &Facts, site: u32, place: u32, key: u64) {
        // SAFETY: as above. Volatile, so that it comes after what was written before.
        unsafe { ptr::write_volatile(facts.key(self.area, site, place), key) };
    }

    /// Whether rewritten code counts the target in a place.
    fn is_settled(&self, facts: &Facts, site: u32, place: u32) -> bool {
        let key = self.key(facts, site, place);
        key != 0 && is_plain(key)
    }

    /// Where a target is counted that was called before.
    fn find(&self, facts: &Facts, site: u32, address: u64) -> Option<u32> {
        for place in 0..PLACES {
            let key = self.key(facts, site, place);
            if is_plain(address) && (key == address || key == !address) {
                return Some(IN_PLACE + place);
            }
        }
        // SAFETY: the private part of an area, only read.
        let by_address = unsafe { (*self.local).by_address };
        table::find(heap::entries(by_address), site, address)
    }

    /// The count of a target that is counted at `number`.
    fn count(&self, site: u32, number: u32) -> *mut u64 {
        match number {
            // SAFETY: only computes an address.
            LOST => unsafe { &raw mut (*self.local).dropped },
            IN_PLACE.. => (self.slot + self.layout.count_offset(site, number - IN_PLACE)) as *mut u64,
            // SAFETY: as above.
            _ => unsafe { &raw mut (*self.overflow(number)).count },
        }
    }

    /// The target that is counted at `number`: everywhere right in front of its count.
    fn target(&self, site: u32, number: u32) -> *mut u64 {
        self.count(site, number).wrapping_sub(1)
    }

    /// An overflow entry; the last one for a number that is too large.
    fn overflow(&self, index: u32) -> *mut Overflow {
        let index = index.min(self.layout.overflows.saturating_sub(1));
        let size = size_of::<Overflow>() as u64;
        (self.slot + self.layout.overflows_offset() + u64::from(index) * size) as *mut Overflow
    }

    /// Counts a call of a target that the site was not seen to call in this run.
    fn learn(&self, facts: &Facts, site: u32, address: u64) {
        let stable = self.translate(facts, address);
        self.index_targets();
        let number = self.number_for(facts, site, address, stable);
        if number == LOST {
            mark_lost(self.slot, LOST_TARGETS);
        }
        let counter = self.count(site, number);
        count(counter);
        // Another thread may have settled this; a child of a fork finds what its parent has.
        let is_known = (0..PLACES).any(|place| self.settled(facts, site, place) == address);
        if !is_known || !self.settle(facts, site, address, number) {
            // SAFETY: the private part of the area of this thread; signals are blocked.
            cache::put(unsafe { &mut (*self.local).cache }, site, address, counter);
        }
    }

    /// Finds where to count a target, in front of its first call in this run.
    fn number_for(&self, facts: &Facts, site: u32, address: u64, stable: u64) -> u32 {
        // SAFETY: parts of the area of this thread; signals are blocked.
        unsafe {
            let local = &mut *self.local;
            for place in 0..PLACES {
                if *self.target(site, IN_PLACE + place) != stable {
                    continue;
                }
                if self.key(facts, site, place) == 0 && is_plain(address) {
                    self.set_key(facts, site, place, !address);
                } else {
                    // The same code at two addresses, or all code that was generated.
                    local.pinned = 1;
                    heap::put(&mut local.by_address, site, address, IN_PLACE + place);
                }
                return IN_PLACE + place;
            }
            let known = table::find(heap::entries(local.by_target), site, stable);
            if let Some(index) = known {
                if index & SEEN != 0 {
                    local.pinned = 1;
                }
            } else if is_plain(address) {
                // What an earlier run left in a place stays there until there is reason to move it.
                for place in 0..PLACES {
                    if *self.target(site, IN_PLACE + place) == 0 {
                        self.put_in_place(site, place, stable);
                        self.set_key(facts, site, place, !address);
                        return IN_PLACE + place;
                    }
                }
            }
            let new = || self.append(Overflow { site, reserved: 0, target: stable, count: 0 });
            let number = known.map(|index| index & !SEEN).or_else(new);
            if let Some(index) = number {
                heap::put(&mut local.by_target, site, stable, index | SEEN);
            }
            let number = number.unwrap_or(LOST);
            heap::put(&mut local.by_address, site, address, number);
            number
        }
    }

    unsafe fn put_in_place(&self, site: u32, place: u32, stable: u64) {
        // SAFETY: parts of the slot.
        unsafe {
            if place != 0 {
                (*self.overflow(self.layout.shared_overflows() + site)).site = site;
            }
            *self.target(site, IN_PLACE + place) = stable;
        }
    }

    /// Makes a target that is called often a usual one if that may be, or sees to it that the cache knows it.
    fn review(&self, facts: &Facts, site: u32, address: u64) {
        let Some(number) = self.find(facts, site, address) else { return };
        if !self.settle(facts, site, address, number) {
            // SAFETY: the private part of the area of this thread; signals are blocked.
            cache::put(unsafe { &mut (*self.local).cache }, site, address, self.count(site, number));
        }
    }

    /// Which target a place is for in this process.
    fn settled(&self, facts: &Facts, site: u32, place: u32) -> u64 {
        // SAFETY: part of the module. Only changed by who holds the lock.
        unsafe { *facts.settled(site, place) }
    }

    /// Has rewritten code count a target by itself. Returns whether it does.
    fn settle(&self, facts: &Facts, site: u32, address: u64, number: u32) -> bool {
        if !is_plain(address) || number == LOST {
            return false;
        }
        if (0..PLACES).any(|place| self.key(facts, site, place) == address) {
            return true;
        }
        let is_for = |place: u32, target: u64| {
            !self.is_settled(facts, site, place) && self.settled(facts, site, place) == target
        };
        let find = |target: u64| (0..PLACES).find(|&place| is_for(place, target));
        let here = number.checked_sub(IN_PLACE);
        let comes = |to: &u32| here == Some(*to) || self.bring(facts, site, address, number, *to);
        let known = find(address);
        // The first place is the fastest.
        let free = || find(0).filter(comes).or(here.filter(|&place| is_for(place, 0)));
        let Some(to) = (if known.is_some() { known.filter(comes) } else { free() }) else { return false };
        let way = ways::way_to(facts, address).wrapping_sub(address);
        // SAFETY: parts of the module and of the area. Volatile, since the order matters: see above.
        unsafe {
            ptr::write_volatile(facts.settled(site, to), address);
            ptr::write_volatile(facts.way(self.area, site, to), way);
        }
        self.set_key(facts, site, to, address);
        true
    }

    /// Has a target and what is in a place that is not settled change places, if that may be.
    fn bring(&self, facts: &Facts, site: u32, address: u64, number: u32, place: u32) -> bool {
        // SAFETY: parts of the area of this thread; signals are blocked.
        unsafe {
            let local = &mut *self.local;
            let is_generated = |at: u64| target::split(at).0 == target::GENERATED;
            let (target, there) = (*self.target(site, number), *self.target(site, IN_PLACE + place));
            if local.pinned != 0 || is_generated(target) || is_generated(there) {
                return false;
            }
            let key = self.key(facts, site, place);
            self.set_key(facts, site, place, 0);
            self.put_in_place(site, place, target);
            *self.target(site, number) = there;
            ptr::swap(self.count(site, number), self.count(site, IN_PLACE + place));
            if number >= IN_PLACE {
                self.set_key(facts, site, number - IN_PLACE, key);
            } else if there != 0 {
                let seen = if key == 0 { 0 } else { SEEN };
                heap::put(&mut local.by_target, site, there, number | seen);
                if key != 0 {
                    heap::put(&mut local.by_address, site, !key, number);
                }
            }
            cache::remove(local.cache, site, address);
            cache::remove(local.cache, site, !key);
            true
        }
    }

    /// Takes an overflow entry into use.
    unsafe fn append(&self, entry: Overflow) -> Option<u32> {
        // SAFETY: the header of the slot and an entry that exists.
        unsafe {
            let used = &mut (*(self.slot as *mut SlotHeader)).overflows;
            let index = *used;
            if index >= self.layout.shared_overflows() {
                return None;
            }
            *self.overflow(index) = entry;
            *used = index + 1;
            Some(index)
        }
    }

    /// Makes the table by target, of what earlier runs left.
    fn index_targets(&self) {
        // SAFETY: parts of the area of this thread; signals are blocked.
        unsafe {
            let local = &mut *self.local;
            if local.by_target != 0 {
                return;
            }
            let used = (*(self.slot as *const SlotHeader)).overflows.min(self.layout.shared_overflows());
            for index in 0..used {
                let entry = *self.overflow(index);
                heap::put(&mut local.by_target, entry.site, entry.target, index);
            }
        }
    }

    /// The target at an address, as profiles name it.
    fn translate(&self, facts: &Facts, address: u64) -> u64 {
        if facts.is_inside(address) {
            return target::new(target::SELF, address.wrapping_sub(facts.bias));
        }
        let known = foreign::identify(address, &mut state().scratch);
        if !known.from_file {
            return target::new(target::GENERATED, 0);
        }
        match foreign::number(self.layout, self.slot, &known.module) {
            Some(number) => target::new(number, address.wrapping_sub(known.bias)),
            None => {
                mark_lost(self.slot, LOST_TARGETS);
                target::new(target::GENERATED, 0)
            }
        }
    }
}
