//! Adds one slot to another: what was counted before there was a file.

use relive_abi::rprof::{ForeignModule, LOST_TARGETS, Overflow, Site, SlotHeader, SlotLayout, target};

use super::foreign;
use super::slot::mark_lost;

/// Adds the counts of the slot at `from` to the slot at `to`.
pub(crate) fn merge(layout: &SlotLayout, from: u64, to: u64) {
    // SAFETY: both are slots of this layout, and nobody else uses them now.
    unsafe {
        for n in 0..u64::from(layout.counters) {
            let at = layout.counters_offset() + n * 8;
            let count = *((from + at) as *const u64);
            if count != 0 {
                *((to + at) as *mut u64) += count;
            }
        }
        let sites = (from + layout.sites_offset()) as *const Site;
        for n in 0..layout.sites {
            let site = &*sites.add(n as usize);
            if site.count != 0 {
                add(layout, from, to, n, site.target, site.count);
            }
        }
        let overflows = (from + layout.overflows_offset()) as *const Overflow;
        let shared = layout.shared_overflows();
        let used = (*(from as *const SlotHeader)).overflows.min(shared);
        for n in (0..used).chain(shared..layout.overflows) {
            let entry = &*overflows.add(n as usize);
            if entry.count != 0 {
                add(layout, from, to, entry.site, entry.target, entry.count);
            }
        }
    }
}

/// Adds calls of one target. Looks through all entries: few calls are that early.
unsafe fn add(layout: &SlotLayout, from: u64, to: u64, site: u32, early: u64, count: u64) {
    // SAFETY: as above.
    unsafe {
        let (module, address) = target::split(early);
        let stable = if module == target::SELF || module == target::GENERATED {
            early
        } else {
            let table = (from + layout.modules_offset()) as *const ForeignModule;
            match foreign::number(layout, to, &*table.add(module as usize - 1)) {
                Some(number) => target::new(number, address),
                None => target::new(target::GENERATED, 0),
            }
        };
        let usual = &mut *((to + layout.sites_offset()) as *mut Site).add(site as usize);
        if usual.target == stable || usual.target == 0 {
            usual.target = stable;
            usual.count += count;
            return;
        }
        let overflows = (to + layout.overflows_offset()) as *mut Overflow;
        let used = &mut (*(to as *mut SlotHeader)).overflows;
        let shared = layout.shared_overflows();
        for n in (0..(*used).min(shared)).chain([shared + site]) {
            let entry = &mut *overflows.add(n as usize);
            if entry.site == site && entry.target == stable {
                entry.count += count;
                return;
            }
        }
        if *used >= shared {
            mark_lost(to, LOST_TARGETS);
            return;
        }
        *overflows.add(*used as usize) = Overflow { site, reserved: 0, target: stable, count };
        *used += 1;
    }
}
