//! Zstd frames that say nothing of how long they are when they are unpacked.

use crate::error::StreamError;
use std::io::Read as _;

/// None is longer when it is unpacked.
const MOST: u64 = 1 << 28;

/// What a frame holds, which is so long. It takes as much memory as there is, not as much as is said.
pub(crate) fn unpack(frame: &[u8], len: u64) -> Result<Vec<u8>, StreamError> {
    if len > MOST {
        return Err(StreamError::Compression);
    }
    let mut bytes = Vec::new();
    let unpacked = zstd::stream::read::Decoder::with_buffer(frame);
    let read = unpacked.and_then(|unpacked| unpacked.take(len + 1).read_to_end(&mut bytes));
    if read.ok() == Some(len as usize) { Ok(bytes) } else { Err(StreamError::Compression) }
}
