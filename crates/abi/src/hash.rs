//! The hash that stands for code in profiles: FNV-1a, 64 bits. It only has to tell builds apart that differ
//! by accident, and to be easy to write again in any language.

/// The hash of nothing.
pub const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// The hash of what `hash` stands for, followed by `bytes`.
#[must_use]
pub fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The hash of `bytes`.
#[must_use]
pub fn of(bytes: &[u8]) -> u64 {
    fnv1a(EMPTY, bytes)
}
