//! Paths and messages, put together in a fixed buffer.

use core::ffi::CStr;

/// Bytes that end with a zero, in a buffer of the caller. What does not fit is dropped and remembered.
pub(crate) struct Text<'a> {
    buffer: &'a mut [u8],
    len: usize,
    cut: bool,
}

impl<'a> Text<'a> {
    pub(crate) fn new(buffer: &'a mut [u8]) -> Self {
        let cut = buffer.is_empty();
        if let Some(first) = buffer.first_mut() {
            *first = 0;
        }
        Text { buffer, len: 0, cut }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.len + 1 >= self.buffer.len() {
                self.cut = true;
                return;
            }
            if let Some(at) = self.buffer.get_mut(self.len) {
                *at = byte;
            }
            self.len += 1;
            if let Some(end) = self.buffer.get_mut(self.len) {
                *end = 0;
            }
        }
    }

    pub(crate) fn push_decimal(&mut self, mut number: u64) {
        let mut digits = [0u8; 20];
        let mut used = 0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
            used += 1;
            if number == 0 {
                break;
            }
        }
        self.push(digits.get(20 - used..).unwrap_or(&[]));
    }

    /// The highest `digits` hexadecimal digits.
    pub(crate) fn push_hex(&mut self, number: u64, digits: u32) {
        for n in 0..digits.min(16) {
            let digit = (number >> (60 - 4 * n)) as u8 & 15;
            self.push(&[if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }]);
        }
    }

    /// How many bytes there are, without the zero; `None` if some did not fit.
    pub(crate) fn finish(self) -> Option<usize> {
        if self.cut { None } else { Some(self.len) }
    }
}

/// The bytes up to the first zero.
pub(crate) fn as_c(buffer: &[u8]) -> &CStr {
    match buffer.iter().position(|&byte| byte == 0).and_then(|len| buffer.get(..=len)) {
        // SAFETY: the first zero is the last byte.
        Some(bytes) => unsafe { CStr::from_bytes_with_nul_unchecked(bytes) },
        None => c"",
    }
}

/// The part behind the last slash.
pub(crate) fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}
