//! Goes through the records of a segment that is not stored: as when it is packed, but nothing comes of it but where the thread gets.

use super::Traced;
use super::records::{APART, Packed};
use crate::replay::Wrong;
use crate::units::Words;
use relive_abi::trace::{STATE, Tag, payload, stopped_values};
use std::sync::{PoisonError, RwLock};

/// Goes through records, as far as they make sense.
pub(super) fn scan(records: &[Vec<u8>], traced: &RwLock<Traced>) -> Packed {
    let mut packed = Packed::default();
    for (number, bytes) in records.iter().enumerate() {
        let traced = traced.read().unwrap_or_else(PoisonError::into_inner);
        if let Err(wrong) = scan_one(number, bytes, &traced, &mut packed) {
            packed.wrong = Some(wrong);
            break;
        }
    }
    packed
}

fn scan_one(number: usize, bytes: &[u8], traced: &Traced, packed: &mut Packed) -> Result<(), Wrong> {
    let Traced { process, shapes } = traced;
    let units = &process.units;
    let memory = units.is_of_memory();
    let (mut rest, mut since) = (bytes, APART);
    while let Some((word, behind)) = rest.split_first_chunk() {
        let tag = Tag::from_le_bytes(*word);
        if memory && since >= APART {
            packed.way.mark(number, bytes.len() - rest.len());
            since = 0;
        }
        match shapes.get(tag) {
            // What is begun here was not finished.
            _ if tag == 0 => break,
            Some(shape) => {
                let len = if memory { shape.values() * 8 } else { 0 };
                let (values, behind) = behind.split_at_checked(len).ok_or(Wrong::CutShort)?;
                rest = behind;
                packed.instructions += shape.gone().steps();
                packed.way.passed(&shape, values.as_chunks().0, units);
            }
            None => {
                let values = usize::from(stopped_values(tag).unwrap_or(0)) * 8;
                let len = values + payload(tag).ok_or(Wrong::UnknownTag(tag))?;
                let (own, behind) = behind.split_at_checked(len).ok_or(Wrong::CutShort)?;
                rest = behind;
                if tag == STATE {
                    packed.way.go_on_with(Words(own).state());
                } else if stopped_values(tag).is_some() {
                    let stop = Words(&own[values..]).stop().ok_or(Wrong::CutShort)?;
                    let (unit, _) = units.find(stop.unit).ok_or(Wrong::UnknownTag(stop.unit))?;
                    packed.instructions += unit.steps_before(&stop) as u64;
                }
            }
        }
        packed.records += 1;
        since += 1;
    }
    Ok(())
}
