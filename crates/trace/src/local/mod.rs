//! Segments packed without looking back further than to what came last in the same place: see [`control`] and [`values`].

pub(crate) mod columns;
pub(crate) mod control;
pub(crate) mod values;

#[cfg(test)]
mod tests {
    use super::columns::Packer;
    use super::control::{AT_ONCE, ControlDecoder, ControlEncoder, Pen};
    use super::values::{Spot, ValueDecoder, ValueEncoder};
    use crate::error::StreamError;
    use crate::units::{Exits, Out};
    use proptest::prelude::*;
    use relive_abi::trace::{FIRST_TAG, SPECIAL, Tag};

    /// Units with so many exits each, and whether these lead to one place.
    const UNITS: [(usize, bool); 9] = [
        (1, true),
        (2, true),
        (3, true),
        (4, false),
        (1, false),
        (9, true),
        (2, false),
        (5, true),
        (3000, true),
    ];
    const SLOTS: u32 = 40;

    fn outs() -> Vec<Out> {
        UNITS
            .iter()
            .flat_map(|&(count, one)| (0..count).map(move |number| Out::new(number, count, one)))
            .collect()
    }

    /// Tags in which much comes again.
    fn tags() -> impl Strategy<Value = Vec<Tag>> {
        let end = FIRST_TAG + outs().len() as Tag;
        let one =
            prop_oneof![20 => FIRST_TAG..40, 1 => FIRST_TAG..end, 1 => (1_u32..7).prop_map(|n| SPECIAL | n)];
        (prop::collection::vec(one, 0..300), prop::collection::vec(0..300_usize, 0..20)).prop_map(
            |(some, starts)| {
                let parts = starts.iter().filter_map(|&start| some.get(start..));
                [&some[..]].into_iter().chain(parts).flatten().copied().collect()
            },
        )
    }

    fn write_tags(encoder: &mut ControlEncoder, tags: &[Tag], outs: &[Out]) -> Vec<u8> {
        encoder.make_room(outs.len() + FIRST_TAG as usize);
        let mut pen = Pen::default();
        for some in tags.chunks(AT_ONCE) {
            encoder.prepare(&pen);
            for &tag in some {
                let out = if tag & SPECIAL == 0 { outs[(tag - FIRST_TAG) as usize] } else { Out::default() };
                if tag & SPECIAL != 0 || !encoder.push(&mut pen, tag, out) {
                    pen = encoder.push_new(pen, tag, out);
                }
            }
        }
        encoder.finish(&mut pen, &mut Packer::default())
    }

    fn read_tags(stream: &[u8], outs: &[Out], most: usize) -> Result<Vec<Tag>, StreamError> {
        let mut decoder = ControlDecoder::new(stream, Exits(outs))?;
        let mut tags = Vec::new();
        while let Some(tag) = decoder.next()? {
            tags.push(tag);
            if tags.len() > most {
                break;
            }
        }
        Ok(tags)
    }

    fn values() -> impl Strategy<Value = Vec<(u32, u64)>> {
        let value =
            prop_oneof![Just(8_u64), 0_u64..300, 0x7fff_0000_0000..0x7fff_0010_0000_u64, any::<u64>()];
        prop::collection::vec((0..SLOTS, value), 0..2000)
    }

    fn write_values(encoder: &mut ValueEncoder, values: &[(u32, u64)]) -> Vec<u8> {
        encoder.make_room(SLOTS as usize);
        encoder.forget(0, SLOTS as usize);
        let bytes: Vec<u8> = values.iter().flat_map(|(_, value)| value.to_le_bytes()).collect();
        let spots: Vec<Spot> =
            values.iter().enumerate().map(|(n, &(slot, _))| Spot { slot, at: n as u32 * 8 }).collect();
        spots.chunks(50).for_each(|some| encoder.push(&bytes, some));
        encoder.finish(&mut Packer::default())
    }

    proptest! {
        #[test]
        fn tags_come_back(tags in prop::collection::vec(tags(), 1..3)) {
            let outs = outs();
            let mut encoder = ControlEncoder::default();
            for tags in tags {
                // Whoever packs forgets what is executed for the first time in a segment; here, that is everything.
                encoder.make_room(outs.len() + FIRST_TAG as usize);
                encoder.forget(FIRST_TAG, outs.len());
                let stream = write_tags(&mut encoder, &tags, &outs);
                prop_assert_eq!(read_tags(&stream, &outs, usize::MAX).expect("what was written"), tags);
            }
        }

        #[test]
        fn values_come_back(values in prop::collection::vec(values(), 1..3)) {
            let mut encoder = ValueEncoder::default();
            for values in values {
                let stream = write_values(&mut encoder, &values);
                let mut decoder = ValueDecoder::new(&stream, SLOTS).expect("what was written");
                for (slot, value) in values {
                    prop_assert_eq!(decoder.next(slot).expect("a value"), value);
                }
                decoder.finish().expect("all was read");
            }
        }

        /// An error or something else, but no panic.
        #[test]
        fn damaged(tags in tags(), values in values(), at: prop::sample::Index, byte: u8, cut: bool) {
            let outs = outs();
            let mut streams = [
                write_tags(&mut ControlEncoder::default(), &tags, &outs),
                write_values(&mut ValueEncoder::default(), &values),
            ];
            for stream in &mut streams {
                let at = at.index(stream.len());
                if cut { stream.truncate(at) } else { stream[at] ^= byte }
            }
            drop(read_tags(&streams[0], &outs, 10_000));
            if let Ok(mut decoder) = ValueDecoder::new(&streams[1], SLOTS) {
                let _ = (0..10_000).try_for_each(|n| decoder.next(n % (SLOTS + 1)).map(drop));
            }
        }
    }
}
