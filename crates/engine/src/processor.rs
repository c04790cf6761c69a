//! What the processor can do.

use core::sync::atomic::{AtomicU32, Ordering};

/// 0 if nobody has asked yet, 1 for no, 2 for yes.
static ROTATES: AtomicU32 = AtomicU32::new(0);

/// Whether it can rotate without changing flags (BMI2).
pub fn can_rotate() -> bool {
    match ROTATES.load(Ordering::Relaxed) {
        0 => {
            let yes = core::arch::x86_64::__cpuid_count(7, 0).ebx & 1 << 8 != 0;
            ROTATES.store(1 + u32::from(yes), Ordering::Relaxed);
            yes
        }
        known => known == 2,
    }
}
