//! Numbers that nothing foretold, as differences to something near.
//!
//! A difference is *folded*, so that what is near zero on either side becomes small: 0, -1, 1, -2, … become
//! 0, 1, 2, 3, … Of that, as many bytes are kept as it needs, and two at least: the lowest goes to one
//! column, the next higher one to the next column, and so on. Bytes of the same weight are more like each
//! other than neighbours are. How many there are is part of the code before it.

use crate::columns::{ColumnReaders, ColumnWriters};
use crate::error::StreamError;

/// The least number of bytes. One would do for many: that saves 2 % of the room that values take, and costs 5
/// to 10 % of their time, as there is one more case that cannot be foreseen.
pub(crate) const LEAST: u8 = 2;

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

/// How many bytes are kept: [`LEAST`] to 8.
#[inline]
pub(crate) fn len(folded: u64) -> u8 {
    (8 - (folded | 1).leading_zeros() as u8 / 8).max(LEAST)
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn folds_and_unfolds(difference: i64) {
            prop_assert_eq!(unfold(fold(difference)), difference);
        }
    }

    #[test]
    fn takes_as_many_bytes_as_it_needs() {
        assert_eq!([0, -1, 1, -2].map(fold), [0, 1, 2, 3]);
        assert_eq!([0, 0xff, 0x100, 0xffff].map(len), [2; 4]);
        assert_eq!([0x1_0000, 0xff_ffff, 0x100_0000, u64::MAX].map(len), [3, 3, 4, 8]);
        // The farthest that two tags can be apart.
        assert_eq!([i32::MIN, i32::MAX].map(|far| len(fold(far.into()))), [4; 2]);
    }
}
