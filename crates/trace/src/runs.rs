//! How often predictions were right, one after the other, and what was instead when they were not.
//!
//! Control flow is alternately a *run* and an *event*: so many times what was expected, then once something
//! else. It ends with a run. A run is the sum of its bytes in the column of runs, of which all but the last
//! are 255. An event begins with a byte in the column of codes.

use crate::columns::{ColumnReaders, ColumnWriters};
use crate::error::StreamError;

/// The column of runs.
pub(crate) const RUNS: usize = 0;
/// The column of codes.
pub(crate) const CODES: usize = 1;

const MORE: u8 = 255;

/// Appends a run.
#[inline]
pub(crate) fn put_run<const N: usize>(columns: &mut ColumnWriters<N>, mut run: u64) {
    while run >= u64::from(MORE) {
        columns.push(RUNS, MORE);
        run -= u64::from(MORE);
    }
    columns.push(RUNS, run as u8);
}

/// The next run.
#[inline]
pub(crate) fn next_run<const N: usize>(columns: &mut ColumnReaders<'_, N>) -> Result<u64, StreamError> {
    let mut run = 0;
    loop {
        let byte = columns.next(RUNS)?;
        // A sum of bytes that were read one by one does not overflow.
        run += u64::from(byte);
        if byte != MORE {
            return Ok(run);
        }
    }
}
