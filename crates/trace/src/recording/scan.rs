//! Goes through the records of a segment that is not stored: nothing comes of it but how much there is.

use super::Traced;
use super::records::Packed;
use crate::replay::Wrong;
use crate::units::Words;
use relive_abi::trace::{Tag, payload, stopped_values};
use std::sync::{PoisonError, RwLock};

/// Goes through records, as far as they make sense.
pub(super) fn scan(records: &[Vec<u8>], traced: &RwLock<Traced>) -> Packed {
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
        let tag = Tag::from_le_bytes(*word);
        match shapes.get(tag) {
            // What is begun here was not finished.
            _ if tag == 0 => break,
            Some(shape) => {
                let len = if memory { shape.values() * 8 } else { 0 };
                rest = behind.get(len..).ok_or(Wrong::CutShort)?;
                packed.instructions += shape.steps();
            }
            None => {
                let values = usize::from(stopped_values(tag).unwrap_or(0)) * 8;
                let len = values + payload(tag).ok_or(Wrong::UnknownTag(tag))?;
                let (own, behind) = behind.split_at_checked(len).ok_or(Wrong::CutShort)?;
                rest = behind;
                if stopped_values(tag).is_some() {
                    let stop = Words(&own[values..]).stop().ok_or(Wrong::CutShort)?;
                    let (unit, _) = units.find(stop.unit).ok_or(Wrong::UnknownTag(stop.unit))?;
                    packed.instructions += unit.steps_before(&stop) as u64;
                }
            }
        }
        packed.records += 1;
    }
    Ok(())
}
