//! Where what a thread has written down can be cut, so that what comes behind can be understood without what comes before: where it says what
//! it goes on with, soon after the beginning of each buffer.

use super::buffer::Buffer;
use super::shapes::Shapes;
use super::{Nobody, Traced};
use crate::machine::Machine;
use crate::replay::{Raw, Replay, Wrong};
use relive_abi::trace::{SAME_STATE, Tag, tag_of};

/// A thread says where it is behind a few records, if it does.
const FAR: usize = 1 << 14;

/// Where a buffer can be cut.
pub(super) fn seam(bytes: &[u8], shapes: &Shapes, memory: bool) -> Option<usize> {
    let mut at = 0;
    while at < FAR {
        let (word, _) = bytes.get(at..)?.split_first_chunk()?;
        let tag = tag_of(u32::from_le_bytes(*word));
        if tag == SAME_STATE {
            return Some(at);
        }
        at += size_of::<Tag>() + shapes.len_behind(tag, memory).ok()?;
    }
    None
}

/// What is known of a thread at the end of buffers, if they were not cut at a seam.
pub(super) fn end(
    before: Option<Machine>,
    traced: &Traced,
    records: &[Buffer],
) -> Result<Option<Machine>, Wrong> {
    let Traced { process, shapes } = traced;
    if !process.units.is_of_memory() {
        // Nobody asks.
        return Ok(before);
    }
    let seams = records.iter().map(|bytes| seam(bytes, shapes, true)).enumerate().rev();
    let last = seams.filter_map(|(buffer, at)| Some((buffer, at?))).next();
    let (buffer, mut at) = last.unwrap_or((0, 0));
    let mut replay = Replay::on(before);
    for bytes in &records[buffer..] {
        replay.run(&process.units, &mut Raw::new(&bytes[at..]), &mut Nobody)?;
        at = 0;
    }
    Ok(replay.machine)
}
