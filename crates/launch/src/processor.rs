//! What this processor is like.

use std::arch::x86_64::{__cpuid, _xgetbv};

/// The parts of the processor's state that the system has enabled: a bit for each, by number (XCR0). None where nobody can ask.
#[must_use]
pub fn enabled_state() -> u64 {
    const HAS_XGETBV: u32 = 1 << 27;
    #[target_feature(enable = "xsave")]
    fn ask() -> u64 {
        // SAFETY: there is a register with this number.
        unsafe { _xgetbv(0) }
    }
    if __cpuid(1).ecx & HAS_XGETBV == 0 {
        return 0;
    }
    // SAFETY: the processor has just said so.
    unsafe { ask() }
}
