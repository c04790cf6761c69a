//! Numbers that nothing foretold, as differences to something near.
//!
//! A difference is turned into a number that is small if it is near zero on either side (0, -1, 1, -2, … become
//! 0, 1, 2, 3, …). Of that, as many bytes are kept as it needs, at least one; the lowest go to one column, the next higher to
//! the next column, and so on: bytes of the same weight are more like each other than neighbours are.
//! How many there are is part of the event's code.

use crate::columns::{ColumnReaders, ColumnWriters};
use crate::error::StreamError;

/// Small for what is near zero on either side.
#[inline]
pub(crate) fn fold(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// What [`fold`] made this of.
#[inline]
pub(crate) fn unfold(folded: u64) -> i64 {
    (folded >> 1) as i64 ^ -((folded & 1) as i64)
}

/// How many bytes it takes: 1 to 8.
#[inline]
pub(crate) fn len(folded: u64) -> u8 {
    8 - ((folded | 0x100).leading_zeros() / 8) as u8
}

/// Appends the bytes of a difference to columns from this one on.
#[inline]
pub(crate) fn put<const N: usize>(columns: &mut ColumnWriters<N>, first: usize, folded: u64) {
    for (i, byte) in folded.to_le_bytes().into_iter().take(len(folded).into()).enumerate() {
        columns.push(first + i, byte);
    }
}

/// The next difference, of that many bytes, from columns from this one on.
#[inline]
pub(crate) fn next<const N: usize>(
    columns: &mut ColumnReaders<'_, N>,
    first: usize,
    len: u8,
) -> Result<u64, StreamError> {
    let mut folded = 0;
    for i in 0..usize::from(len) {
        folded |= u64::from(columns.next(first + i)?) << (8 * i);
    }
    Ok(folded)
}
