//! Targets of indirect calls.
//!
//! The rewritten code compares the target with the *key* of the site and counts itself if they are equal.
//! All other calls come here, unless the thread's cache knows their counter. The usual target of a site (the one with the key) is in its `Site`, all others are
//! `Overflow` entries, which two private tables find: by the address of the target in this run, and by the
//! target as the profile names it.
//!
//! A signal handler may come here while its thread is here too. Counting is one instruction; everything else
//! happens with signals blocked. What remains: if a handler exchanges the usual target of a site at the very
//! moment between the comparison and the count, that one call counts for the new usual target.

use core::arch::asm;

use relive_abi::rprof::{LOST_TARGETS, Overflow, Site, SlotHeader, SlotLayout, target};

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

/// Number in the table by address: counts for the usual target, whose address is another one.
const USUAL: u32 = 0x7fff_fffe;
/// Number in the table by address: there was no room.
const LOST: u32 = 0x7fff_fffd;
/// Added to a number in the table by target whose address in this run is known.
const SEEN: u32 = 1 << 30;

/// By how much a target must be more frequent to become the usual one.
const MARGIN: u64 = 256;

/// Every how many calls of a target it is put into the cache anew.
const REFRESH: u64 = 64;

/// Counts a call whose target is not the usual one of its site.
pub(crate) extern "C" fn call(site: u32, address: u64) {
    let Some(facts) = facts() else { return };
    if area::current_owner(&facts) != area::thread_pointer() {
        threads::enter();
    }
    let place = Place::new(&facts);
    if site >= place.layout.sites {
        return;
    }
    let counter = match place.find(site, address) {
        // SAFETY: only computes an address.
        Some(LOST) => unsafe { &raw mut (*place.local).dropped },
        Some(USUAL) => place.site_count(site),
        Some(index) => place.overflow_count(index),
        None => {
            locked(|| place.learn(&facts, site, address));
            return;
        }
    };
    count(counter);
    // SAFETY: a counter of this thread.
    if unsafe { *counter } % REFRESH == 0 {
        review(site, address);
    }
}

/// Called now and then for a target that is not the usual one: maybe it should be.
pub(crate) extern "C" fn review(site: u32, address: u64) {
    let Some(facts) = facts() else { return };
    let place = Place::new(&facts);
    locked(|| {
        // SAFETY: the private part of the area of this thread.
        let local = unsafe { &mut *place.local };
        match place.find(site, address) {
            None => {}
            Some(LOST) => cache::put(&mut local.cache, site, address, &raw mut local.dropped),
            Some(USUAL) => cache::put(&mut local.cache, site, address, place.site_count(site)),
            Some(index) => {
                let counter = place.overflow_count(index);
                // SAFETY: parts of the slot.
                let much = unsafe { *counter / 2 > *place.site_count(site) + MARGIN };
                if !much || local.pinned != 0 || !place.exchange(&facts, site, address, index) {
                    cache::put(&mut local.cache, site, address, counter);
                }
            }
        }
    });
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

    fn site(&self, site: u32) -> *mut Site {
        (self.slot + self.layout.sites_offset() + u64::from(site) * size_of::<Site>() as u64) as *mut Site
    }

    fn site_count(&self, site: u32) -> *mut u64 {
        (self.site(site) as u64 + 8) as *mut u64
    }

    /// The number in the table by address.
    fn find(&self, site: u32, address: u64) -> Option<u32> {
        // SAFETY: the private part of an area, only read.
        let by_address = unsafe { (*self.local).by_address };
        table::find(heap::entries(by_address), site, address)
    }

    /// An overflow entry; the last one for a number that is too large.
    fn overflow(&self, index: u32) -> *mut Overflow {
        let index = index.min(self.layout.overflows.saturating_sub(1));
        let size = size_of::<Overflow>() as u64;
        (self.slot + self.layout.overflows_offset() + u64::from(index) * size) as *mut Overflow
    }

    fn overflow_count(&self, index: u32) -> *mut u64 {
        (self.overflow(index) as u64 + 16) as *mut u64
    }

    /// Counts a call of a target that the site was not seen to call in this run.
    fn learn(&self, facts: &Facts, site: u32, address: u64) {
        let stable = self.translate(facts, address);
        self.index_targets();
        // SAFETY: parts of the area of this thread; signals are blocked.
        unsafe {
            let local = &mut *self.local;
            let key = facts.key(self.area, site);
            let usual = &mut *self.site(site);
            if *key == 0 {
                if usual.target != stable && usual.target != 0 && !self.make_room(site, usual, stable) {
                    mark_lost(self.slot, LOST_TARGETS);
                    heap::put(&mut local.by_address, site, address, LOST);
                    return;
                }
                usual.target = stable;
                *key = address;
                usual.count += 1;
                return;
            }
            if usual.target == stable {
                // The same code at two addresses, or all code that was generated.
                local.pinned = 1;
                heap::put(&mut local.by_address, site, address, USUAL);
                usual.count += 1;
                return;
            }
            let index = match table::find(heap::entries(local.by_target), site, stable) {
                Some(index) => {
                    if index & SEEN != 0 {
                        local.pinned = 1;
                    }
                    index & !SEEN
                }
                None => match self.append(Overflow { site, reserved: 0, target: stable, count: 0 }) {
                    Some(index) => index,
                    None => {
                        mark_lost(self.slot, LOST_TARGETS);
                        heap::put(&mut local.by_address, site, address, LOST);
                        return;
                    }
                },
            };
            heap::put(&mut local.by_target, site, stable, index | SEEN);
            heap::put(&mut local.by_address, site, address, index);
            *self.overflow_count(index) += 1;
        }
    }

    /// Moves what an earlier run left as the usual target away, or exchanges it with what is known of the
    /// new one. Returns whether there was room.
    unsafe fn make_room(&self, site: u32, usual: &mut Site, stable: u64) -> bool {
        // SAFETY: parts of the area of this thread; signals are blocked.
        unsafe {
            let local = &mut *self.local;
            let before = *usual;
            let moved = Overflow { site, reserved: 0, target: before.target, count: before.count };
            let index = match table::find(heap::entries(local.by_target), site, stable) {
                Some(index) => {
                    let overflow = self.overflow(index & !SEEN);
                    usual.count = (*overflow).count;
                    *overflow = moved;
                    index & !SEEN
                }
                None => {
                    let Some(index) = self.append(moved) else { return false };
                    usual.count = 0;
                    index
                }
            };
            heap::put(&mut local.by_target, site, before.target, index);
            true
        }
    }

    /// Makes a further target the usual one, if that may be.
    fn exchange(&self, facts: &Facts, site: u32, address: u64, index: u32) -> bool {
        // SAFETY: parts of the area of this thread; signals are blocked.
        unsafe {
            let local = &mut *self.local;
            let key = facts.key(self.area, site);
            let usual = &mut *self.site(site);
            let further = &mut *self.overflow(index);
            let is_generated = |at: u64| target::split(at).0 == target::GENERATED;
            // A handler may have been faster.
            if *key == 0
                || *key == address
                || further.site != site
                || is_generated(usual.target)
                || is_generated(further.target)
            {
                return false;
            }
            heap::put(&mut local.by_address, site, *key, index);
            heap::put(&mut local.by_target, site, usual.target, index | SEEN);
            core::mem::swap(&mut usual.target, &mut further.target);
            core::mem::swap(&mut usual.count, &mut further.count);
            *key = address;
            cache::remove(local.cache, site, address);
            true
        }
    }

    /// Takes an overflow entry into use.
    unsafe fn append(&self, entry: Overflow) -> Option<u32> {
        // SAFETY: the header of the slot and an entry that exists.
        unsafe {
            let used = &mut (*(self.slot as *mut SlotHeader)).overflows;
            let index = *used;
            if index >= self.layout.overflows {
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
            let used = (*(self.slot as *const SlotHeader)).overflows.min(self.layout.overflows);
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
