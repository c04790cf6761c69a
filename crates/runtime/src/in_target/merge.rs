//! Adds one slot to another: what was counted before there was a file.

use relive_abi::rprof::SlotLayout;

/// Adds the counts of the slot at `from` to the slot at `to`.
pub(crate) fn merge(layout: &SlotLayout, from: u64, to: u64) {
    for n in 0..u64::from(layout.counters) {
        let at = layout.counters_offset() + n * 8;
        // SAFETY: both are slots of this layout.
        unsafe {
            let count = *((from + at) as *const u64);
            if count != 0 {
                *((to + at) as *mut u64) += count;
            }
        }
    }
}
