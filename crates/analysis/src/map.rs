//! Hash tables whose keys are numbers: addresses and the like, which nobody chooses to do harm.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A hash table.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Multiply>>;

/// Multiplies by a large odd number, and lets the upper half of the product count.
#[derive(Clone, Copy, Default)]
pub struct Multiply(u64);

impl Hasher for Multiply {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = mixed(self.0.rotate_left(5) ^ number);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A number whose bits all depend on all bits of another, more or less.
#[inline]
#[must_use]
pub(crate) fn mixed(number: u64) -> u64 {
    let product = u128::from(number) * 0x9e37_79b9_7f4a_7c15;
    product as u64 ^ (product >> 64) as u64
}
