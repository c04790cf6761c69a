//! Columns of bytes, each packed by itself: what control flow is made of.
//!
//! A stream is a fixed number of columns. It begins with the length of each but the last, as a
//! [number](put_number); then they follow each other. A column is a sequence of *chunks*:
//!
//! | | |
//! |---|---|
//! | number | how many bytes of the chunk follow |
//! | bytes | one zstd frame, which unpacks to at least one byte and at most [`CHUNK`] |
//!
//! Chunks keep both sides within a fixed memory, however well something packs. The bytes of a column lie in
//! the order in which they are read; how those of several columns belong together, the reader knows.

use crate::error::StreamError;
use zstd::bulk::{Compressor, Decompressor};

/// How much a chunk holds before it is packed. Eight times as much would save 0.5 %.
pub(crate) const CHUNK: usize = 1 << 15;

/// How much [`zstd`] tries. Level 3 saves 1 % and takes 7 % more time, 6 saves 4 % and takes a third more; -1
/// takes 27 % more room, and no less time.
const LEVEL: i32 = 1;

/// Appends a number: seven bits in each byte, the lowest first, and the highest bit set in all but the last.
pub(crate) fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number away from the front.
pub(crate) fn take_number(bytes: &mut &[u8]) -> Result<u64, StreamError> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(StreamError::CutShort)?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(StreamError::EndlessNumber)
}

/// Takes that many bytes away from the front.
fn take<'a>(bytes: &mut &'a [u8], len: u64) -> Result<&'a [u8], StreamError> {
    let len = usize::try_from(len).map_err(|_| StreamError::CutShort)?;
    let (front, rest) = bytes.split_at_checked(len).ok_or(StreamError::CutShort)?;
    *bytes = rest;
    Ok(front)
}

/// Packs `N` columns.
pub(crate) struct ColumnWriters<const N: usize> {
    open: [Vec<u8>; N],
    packed: [Vec<u8>; N],
    compressor: Compressor<'static>,
    frame: Vec<u8>,
}

impl<const N: usize> ColumnWriters<N> {
    pub(crate) fn new() -> Self {
        Self {
            open: std::array::from_fn(|_| Vec::with_capacity(CHUNK)),
            packed: std::array::from_fn(|_| Vec::new()),
            compressor: Compressor::new(LEVEL).expect("a level that zstd has"),
            frame: Vec::with_capacity(zstd::zstd_safe::compress_bound(CHUNK)),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, column: usize, byte: u8) {
        self.open[column].push(byte);
        if self.open[column].len() == CHUNK {
            self.close(column);
        }
    }

    #[cold]
    fn close(&mut self, column: usize) {
        self.compressor.compress_to_buffer(&self.open[column], &mut self.frame).expect("room for a chunk");
        put_number(&mut self.packed[column], self.frame.len() as u64);
        self.packed[column].extend_from_slice(&self.frame);
        self.open[column].clear();
    }

    /// All columns, behind what is there already. From here on, they are empty.
    pub(crate) fn finish(&mut self, stream: &mut Vec<u8>) {
        for column in 0..N {
            if !self.open[column].is_empty() {
                self.close(column);
            }
        }
        for packed in &self.packed[..N - 1] {
            put_number(stream, packed.len() as u64);
        }
        stream.reserve_exact(self.packed.iter().map(Vec::len).sum());
        for packed in &mut self.packed {
            stream.extend_from_slice(packed);
            packed.clear();
        }
    }
}

/// One column while it is read.
struct Column<'a> {
    /// Chunks not yet unpacked.
    rest: &'a [u8],
    /// The chunk that is being read.
    chunk: Vec<u8>,
    /// How much of it was read.
    at: usize,
}

/// Reads `N` columns.
pub(crate) struct ColumnReaders<'a, const N: usize> {
    columns: [Column<'a>; N],
    decompressor: Decompressor<'static>,
}

impl<'a, const N: usize> ColumnReaders<'a, N> {
    pub(crate) fn new(mut stream: &'a [u8]) -> Result<Self, StreamError> {
        let mut lens = [0; N];
        for len in &mut lens[..N - 1] {
            *len = take_number(&mut stream)?;
        }
        let mut columns = std::array::from_fn(|_| Column { rest: &[], chunk: Vec::new(), at: 0 });
        for (column, len) in columns[..N - 1].iter_mut().zip(lens) {
            column.rest = take(&mut stream, len)?;
        }
        columns[N - 1].rest = stream;
        Ok(Self { columns, decompressor: Decompressor::new().map_err(|_| StreamError::Compression)? })
    }

    /// The next byte of a column.
    #[inline]
    pub(crate) fn next(&mut self, column: usize) -> Result<u8, StreamError> {
        let open = &mut self.columns[column];
        if let Some(&byte) = open.chunk.get(open.at) {
            open.at += 1;
            return Ok(byte);
        }
        self.first_of_next_chunk(column)
    }

    #[cold]
    fn first_of_next_chunk(&mut self, column: usize) -> Result<u8, StreamError> {
        let Column { rest, chunk, at } = &mut self.columns[column];
        let len = take_number(rest)?;
        let frame = take(rest, len)?;
        chunk.clear();
        chunk.reserve_exact(CHUNK);
        self.decompressor.decompress_to_buffer(frame, chunk).map_err(|_| StreamError::Compression)?;
        *at = 1;
        chunk.first().copied().ok_or(StreamError::Compression)
    }

    /// Whether every byte of every column was read, as it should be at the end.
    pub(crate) fn finish(&self) -> Result<(), StreamError> {
        let read =
            self.columns.iter().all(|column| column.rest.is_empty() && column.at == column.chunk.len());
        if read { Ok(()) } else { Err(StreamError::TooLong) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers(numbers: Vec<u64>) {
            let mut bytes = Vec::new();
            numbers.iter().for_each(|&number| put_number(&mut bytes, number));
            let mut rest = &*bytes;
            for number in numbers {
                prop_assert_eq!(take_number(&mut rest).expect("a number"), number);
            }
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn chunks_that_are_just_full() {
        for len in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            let mut writers = ColumnWriters::<2>::new();
            for i in 0..len {
                writers.push(0, i as u8);
                writers.push(1, 7);
            }
            let mut stream = Vec::new();
            writers.finish(&mut stream);
            let mut readers = ColumnReaders::<2>::new(&stream).expect("columns");
            for i in 0..len {
                readers.finish().expect_err("there is more");
                assert_eq!([0, 1].map(|column| readers.next(column).expect("a byte")), [i as u8, 7]);
            }
            readers.finish().expect("all was read");
            readers.next(0).expect_err("nothing is left");
        }
    }
}
