//! Streams as a program would leave them.

#![allow(dead_code, reason = "not every test needs all of it")]

use relive_trace::{ControlDecoder, ControlEncoder, StreamError, ValueDecoder, ValueEncoder};

/// Numbers that look random and are the same every time.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// Tags of nested loops with branches that depend on data: at least that many.
pub(crate) fn tags(dice: &mut Dice, len: usize) -> Vec<u32> {
    let mut tags = Vec::new();
    let base = dice.roll(5_000_000) as u32;
    while tags.len() < len {
        let body = base + dice.roll(50) as u32 * 20;
        let branches = dice.roll(8);
        for _ in 0..dice.roll(60) {
            for block in 0..branches {
                let taken = dice.roll(1 << block) == 0;
                tags.push(body + block as u32 * 2 + u32::from(taken));
            }
        }
        tags.push(body.wrapping_sub(1));
    }
    tags
}

/// Values for slots: arrays, lists that are walked through again, pointers that are passed on, and what is
/// anywhere.
pub(crate) fn values(dice: &mut Dice, len: usize) -> Vec<(u32, u64)> {
    let list: Vec<u64> = (0..200).map(|_| 0x5555_0000_0000 + dice.roll(1 << 20) * 16).collect();
    let mut values = Vec::new();
    while values.len() < len {
        let slot = dice.roll(40_000) as u32;
        let start = 0x7fff_0000_0000 + dice.roll(1 << 30);
        let step = dice.roll(256).wrapping_sub(100);
        match dice.roll(5) {
            0 => values.extend((0..dice.roll(300)).map(|i| (slot, start.wrapping_add(i.wrapping_mul(step))))),
            1 => values.extend(list.iter().map(|&node| (slot % 4, node))),
            2 => values
                .extend(list.iter().flat_map(|&node| [(slot, node), (slot + 1, node), (slot + 2, node + 8)])),
            3 => {
                for row in 0..dice.roll(20) {
                    let row = start + row * 4096;
                    values.extend((0..5).flat_map(|i| [(slot, row + i * 8), (slot + 1, start + i * 8)]));
                }
            }
            _ => values.extend((0..dice.roll(50)).map(|_| (slot, dice.roll(u64::MAX) >> dice.roll(64)))),
        }
    }
    values
}

pub(crate) fn write_tags(tags: &[u32]) -> Vec<u8> {
    let mut encoder = ControlEncoder::new();
    for &tag in tags {
        encoder.push(tag);
    }
    encoder.finish()
}

/// The tags of a stream, unless there are more than that.
pub(crate) fn read_tags(stream: &[u8], most: usize) -> Result<Vec<u32>, StreamError> {
    let mut decoder = ControlDecoder::new(stream)?;
    let mut tags = Vec::new();
    while let Some((tag, _)) = decoder.next()?
        && tags.len() < most
    {
        tags.push(tag);
    }
    Ok(tags)
}

/// If each value belongs to a tag of its own: whether that is not expected, and where it leads.
pub(crate) fn places(slots: impl IntoIterator<Item = u32>) -> impl Iterator<Item = Option<usize>> {
    let mut control = ControlEncoder::new();
    slots.into_iter().map(move |slot| control.push(slot + 1))
}

pub(crate) fn write_values(values: &[(u32, u64)]) -> Vec<u8> {
    let mut encoder = ValueEncoder::new();
    encoder.make_room(SLOTS as usize);
    for ((slot, value), place) in values.iter().zip(places(values.iter().map(|(slot, _)| *slot))) {
        let values = [value.to_le_bytes()];
        match place {
            Some(place) => encoder.push_new(*slot, &values, place),
            None => encoder.push(*slot, &values),
        }
    }
    encoder.finish()
}

/// More than any of the streams here has.
pub(crate) const SLOTS: u32 = 1 << 16;

/// The values of a stream, for these slots.
pub(crate) fn read_values(
    stream: &[u8],
    slots: impl IntoIterator<Item = u32, IntoIter: Clone>,
) -> Result<Vec<u64>, StreamError> {
    let mut decoder = ValueDecoder::new(stream, SLOTS)?;
    let mut values = Vec::new();
    let slots = slots.into_iter();
    for (slot, place) in slots.clone().zip(places(slots)) {
        values.push(decoder.next(slot, place.is_some())?);
        if let Some(place) = place {
            decoder.follow(place);
        }
    }
    decoder.finish()?;
    Ok(values)
}
