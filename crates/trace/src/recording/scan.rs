//! Goes through the records of a segment that is not stored: nothing comes of it but how much there is.

use super::Traced;
use super::buffer::Buffer;
use super::records::Packed;
use crate::replay::Wrong;
use crate::units::Words;
use relive_abi::trace::{stopped_values, tag_of};
use std::sync::{PoisonError, RwLock};

/// Goes through records, as far as they make sense.
pub(super) fn scan(records: &[Buffer], traced: &RwLock<Traced>) -> Packed {
    let mut packed = Packed::default();
    for bytes in records {
        let traced = traced.read().unwrap_or_else(PoisonError::into_inner);
        if let Err(wrong) = scan_one(bytes, &traced, &mut packed) {
            packed.wrong = Some(wrong);
            break;
        }
    }
    packed
}

fn scan_one(bytes: &[u8], traced: &Traced, packed: &mut Packed) -> Result<(), Wrong> {
    let Traced { process, shapes } = traced;
    let units = &process.units;
    let memory = units.is_of_memory();
    let mut rest = bytes;
    while let Some((word, behind)) = rest.split_first_chunk() {
        let tag = tag_of(u32::from_le_bytes(*word));
        if tag == 0 {
            // What is begun here was not finished.
            break;
        }
        let len = shapes.len_behind(tag, memory)?;
        let (own, behind) = behind.split_at_checked(len).ok_or(Wrong::CutShort)?;
        rest = behind;
        if let Some(shape) = shapes.get(tag) {
            packed.instructions += shape.steps();
        } else if let Some(values) = stopped_values(tag) {
            let stop = Words(&own[usize::from(values) * 8..]).stop().ok_or(Wrong::CutShort)?;
            packed.instructions += units.steps_before(&stop) as u64;
        }
        packed.records += 1;
    }
    Ok(())
}
