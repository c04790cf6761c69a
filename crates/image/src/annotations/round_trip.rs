//! What is written is read again.

use super::reader::read;
use super::writer::{Chunk, write, write_all};
use super::{Annotations, Free, Jump, Piece, Table, Unit};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::isa::RegSet;

const CODE: AddrRange = AddrRange { start: LinkAddr(0x1000), end: LinkAddr(0x5000) };
const TEXT: [AddrRange; 2] = [CODE, AddrRange { start: LinkAddr(0x8000), end: LinkAddr(0x9000) }];

/// The cuts and other places in a piece that is some bytes long.
fn places(len: u64) -> impl Strategy<Value = Vec<LinkAddr>> {
    btree_set(0..=len, 0..6).prop_map(|offsets| offsets.into_iter().map(LinkAddr).collect())
}

/// Some of the stretches between cuts.
fn ranges(len: u64) -> impl Strategy<Value = Vec<AddrRange>> {
    (btree_set(0..=len, 0..12), vec(any::<bool>(), 12)).prop_map(|(cuts, kept)| {
        let cuts: Vec<LinkAddr> = cuts.into_iter().map(LinkAddr).collect();
        let all = cuts.windows(2).map(|pair| AddrRange::new(pair[0], pair[1]));
        all.zip(kept).filter(|(_, kept)| *kept).map(|(range, _)| range).collect()
    })
}

fn anywhere() -> impl Strategy<Value = LinkAddr> {
    prop_oneof![0x1000..0x5000u64, any::<u64>()].prop_map(LinkAddr)
}

fn table() -> impl Strategy<Value = Table> {
    let base = prop_oneof![Just(None), Just(Some(None)), anywhere().prop_map(|at| Some(Some(at)))];
    (anywhere(), prop_oneof![Just(4), Just(8)], base, any::<u32>()).prop_map(
        |(at, entry_size, base, count)| Table {
            at,
            entry_size,
            base: base.map(|base| base.unwrap_or(at)),
            count,
        },
    )
}

fn jumps(len: u64) -> impl Strategy<Value = Vec<Jump>> {
    let targets = prop_oneof![places(len.saturating_sub(1)), Just(vec![LinkAddr(0)])];
    let elsewhere = btree_set(anywhere().prop_filter("elsewhere", |at| at.0 >= 0x5000), 0..3);
    let jump = (vec(table(), 0..3), targets, elsewhere, any::<bool>());
    btree_map(0..=len, jump, 0..4).prop_map(|jumps| {
        let jump = |(site, (tables, targets, elsewhere, leaves))| {
            let elsewhere: std::collections::BTreeSet<LinkAddr> = elsewhere;
            let targets: Vec<LinkAddr> = targets;
            let all = targets.into_iter().chain(elsewhere);
            Jump { site: LinkAddr(site), tables, targets: all.collect(), leaves }
        };
        jumps.into_iter().map(jump).collect()
    })
}

/// A piece at address zero.
fn piece() -> impl Strategy<Value = Piece> {
    (1..700u64).prop_flat_map(|len| {
        let free = btree_map(0..=len, any::<u64>(), 0..4);
        (
            any::<u32>(),
            prop::option::of(anywhere()),
            prop_oneof![ranges(len), Just(vec![AddrRange::sized(LinkAddr(0), len)])],
            (places(len), places(len), places(len)),
            ranges(len),
            jumps(len),
            free,
        )
            .prop_map(move |(checksum, parent, blocks, places, data, jumps, free)| Piece {
                range: AddrRange::sized(LinkAddr(0), len),
                parent,
                checksum,
                blocks,
                entries: places.0,
                landing_pads: places.1,
                no_return: places.2,
                data,
                jumps,
                free: free
                    .into_iter()
                    .map(|(at, bits)| Free { behind: LinkAddr(at), registers: RegSet::from_bits(bits) })
                    .collect(),
            })
    })
}

/// The same, so many bytes further. Targets elsewhere stay.
fn moved(piece: &Piece, by: u64) -> Piece {
    let range = |r: &AddrRange| AddrRange::new(r.start.offset(by), r.end.offset(by));
    let all = |places: &[LinkAddr]| places.iter().map(|at| at.offset(by)).collect::<Vec<_>>();
    let target = |at: &LinkAddr| if piece.range.contains(*at) { at.offset(by) } else { *at };
    Piece {
        range: range(&piece.range),
        blocks: piece.blocks.iter().map(range).collect(),
        data: piece.data.iter().map(range).collect(),
        entries: all(&piece.entries),
        landing_pads: all(&piece.landing_pads),
        no_return: all(&piece.no_return),
        jumps: piece
            .jumps
            .iter()
            .map(|jump| Jump {
                site: jump.site.offset(by),
                targets: jump.targets.iter().map(target).collect(),
                ..jump.clone()
            })
            .collect(),
        free: piece.free.iter().map(|f| Free { behind: f.behind.offset(by), ..*f }).collect(),
        ..piece.clone()
    }
}

/// The same when linked.
fn linked(piece: &Piece, to: impl Fn(LinkAddr) -> LinkAddr) -> Piece {
    let by = to(piece.range.start).since(piece.range.start);
    let mut linked = moved(piece, by);
    linked.parent = piece.parent.map(&to);
    for (linked, jump) in linked.jumps.iter_mut().zip(&piece.jumps) {
        let mut targets: Vec<LinkAddr> = jump.targets.iter().map(|&at| to(at)).collect();
        targets.sort_unstable();
        linked.targets = targets.into();
        for (linked, table) in linked.tables.iter_mut().zip(&jump.tables) {
            (linked.at, linked.base) = (to(table.at), table.base.map(&to));
        }
    }
    linked
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    vec((0..300u64, piece()), 0..8).prop_map(|list| {
        let mut end = CODE.start;
        let place = |(gap, piece): &(u64, Piece)| {
            let placed = moved(piece, end.0 + gap);
            end = placed.range.end;
            placed
        };
        list.iter().map(place).collect()
    })
}

fn unit() -> impl Strategy<Value = Unit> {
    (".{0,20}", "[A-Z]{0,3}", "-O.", any::<bool>()).prop_map(
        |(producer, language, optimisation, is_derived)| Unit {
            producer,
            language,
            optimisation,
            is_derived,
        },
    )
}

proptest! {
    #[test]
    fn what_was_written_is_read(pieces in pieces(), unit in prop::option::of(unit()), fill in 0..=16usize) {
        let chunk = write(CODE, unit.as_slice(), &pieces).unwrap();
        let other = write(TEXT[1], unit.as_slice(), &[]).unwrap();
        let section = [&chunk.bytes[..], &vec![0; fill], &other.bytes].concat();
        let found = read(&section, &TEXT);
        prop_assert_eq!(found.annotations, Annotations { units: unit.into_iter().collect(), pieces });
        prop_assert!(found.faults.is_empty() && found.dropped == 0, "{:?}", found.faults);
    }

    /// As a linker does it: the code moves, and whatever is elsewhere moves somewhere else.
    #[test]
    fn a_linker_can_move_everything(pieces in pieces()) {
        let to = |at: LinkAddr| if CODE.contains(at) { at.offset(0x20_0000) } else { at.offset(0x100_0000) };
        let Chunk { mut bytes, relocations } = write(CODE, &[], &pieces).unwrap();
        for relocation in &relocations {
            let place = &mut bytes[relocation.offset as usize..][..8];
            prop_assert_eq!(&place, &relocation.to.0.to_le_bytes());
            place.copy_from_slice(&to(relocation.to).0.to_le_bytes());
        }
        let linked: Vec<Piece> = pieces.iter().map(|piece| linked(piece, to)).collect();
        let found = read(&bytes, &[AddrRange::new(to(CODE.start), to(CODE.start).offset(CODE.len()))]);
        prop_assert_eq!(found.annotations.pieces, linked);
    }

    #[test]
    fn a_linked_file_has_one_chunk_for_all(pieces in pieces(), units in vec(unit(), 0..3)) {
        let elsewhere = pieces.first().map(|piece| moved(piece, 0x7000));
        let mut all = Annotations { units, pieces };
        all.units.dedup();
        all.pieces.extend(elsewhere.filter(|piece| piece.range.end <= TEXT[1].end));
        let section = write_all(&all, &TEXT).unwrap();
        prop_assert!(write_all(&all, &TEXT[1..]).is_err() || all.pieces.is_empty());
        if all.pieces.is_empty() {
            prop_assert!(section.is_empty());
        } else {
            prop_assert_eq!(read(&section, &TEXT).annotations, all);
        }
    }

    /// What a linker dropped is passed over; an address that is simply wrong is not.
    #[test]
    fn code_that_is_not_there(pieces in pieces(), low in 0..0x1000u64, high in any::<bool>(), wrong in 0x20_0000..u64::MAX / 2) {
        let Chunk { mut bytes, .. } = write(CODE, &[], &pieces).unwrap();
        let address = if bytes[3] < 0x80 { 4 } else { 5 };
        for (at, is_dropped) in [(if high { u64::MAX - low } else { low }, true), (wrong, false)] {
            bytes[address..][..8].copy_from_slice(&at.to_le_bytes());
            let found = read(&bytes, &TEXT);
            prop_assert_eq!((found.dropped, found.faults.len()), if is_dropped { (1, 0) } else { (0, 1) });
            prop_assert!(found.annotations.pieces.is_empty());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        let header = [0x41, 0x6e, 1, 0xff, 1, 0, 0x10, 0, 0, 0, 0, 0, 0];
        for section in [&bytes[..], &[&header[..], &bytes].concat()] {
            let found = read(section, &TEXT);
            found.faults.iter().for_each(|fault| assert!(!fault.to_string().is_empty()));
        }
    }
}
