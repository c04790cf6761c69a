//! What the processor can do.

use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::sync::atomic::{AtomicU32, Ordering};

/// 0 if nobody has asked yet, otherwise 1 and the abilities.
static KNOWN: AtomicU32 = AtomicU32::new(0);

const ROTATES: u32 = 2;
const TRANSACTIONS: u32 = 4;
const WIDE_FAR_JUMPS: u32 = 8;
const EXTRACTS: u32 = 16;

fn can(what: u32) -> bool {
    let mut known = KNOWN.load(Ordering::Relaxed);
    if known == 0 {
        let abilities = __cpuid_count(7, 0).ebx;
        let maker = __cpuid(0).ecx;
        let is_intel = maker == u32::from_le_bytes(*b"ntel");
        let model = __cpuid(1).eax;
        let family = (model >> 8 & 15) + (model >> 20 & 255);
        // Before Zen 3 it takes many steps.
        let is_quick = is_intel || maker == u32::from_le_bytes(*b"cAMD") && family >= 0x19;
        known = 1
            | if abilities & 1 << 8 != 0 { ROTATES } else { 0 }
            | if abilities & 1 << 8 != 0 && is_quick { EXTRACTS } else { 0 }
            | if abilities & 1 << 11 != 0 { TRANSACTIONS } else { 0 }
            | if is_intel { WIDE_FAR_JUMPS } else { 0 };
        KNOWN.store(known, Ordering::Relaxed);
    }
    known & what != 0
}

/// Whether it can rotate without changing flags (BMI2).
pub fn can_rotate() -> bool {
    can(ROTATES)
}

/// Whether it can gather bits without changing flags, at once (BMI2).
pub fn can_extract() -> bool {
    can(EXTRACTS)
}

/// Whether it knows transactions (RTM).
pub fn has_transactions() -> bool {
    can(TRANSACTIONS)
}

/// Whether the address of a far jump can have 64 bits.
pub fn has_wide_far_jumps() -> bool {
    can(WIDE_FAR_JUMPS)
}
