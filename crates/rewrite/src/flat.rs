//! New code in the form it waits in until everything has its place.
//!
//! All of it is held at once, so each chunk keeps no more than is still needed: its bytes, which of them hold
//! a distance that is not known yet, and tables that are the same wherever the code comes to lie.

use crate::assembler::{Dest, Fix, Routine};
use crate::eh_frame;
use crate::emit::Chunk;
use crate::frames::Frames;
use relive_code::addr::LinkAddr;
use relive_image::lsda::Lsda;
use relive_image::unwind_rows::{Cfa, Row, Treatment};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// New code for one piece of a function.
pub(crate) struct Flat {
    /// The index of the function.
    pub(crate) function: usize,
    /// Where the piece lay.
    pub(crate) old: LinkAddr,
    /// The code, with [`Field`]s in it.
    pub(crate) bytes: Box<[u8]>,
    fields: Box<[Field]>,
    /// Its start must be a multiple of this.
    pub(crate) align: u32,
    /// Where calls from new code enter, by the old address.
    pub(crate) entries: Box<[(LinkAddr, u32)]>,
    /// Where calls to the old address are led.
    pub(crate) gates: Box<[(LinkAddr, u32)]>,
    /// Where computed jumps to an old address are led.
    pub(crate) labels: Box<[(LinkAddr, u32)]>,
    /// Where blocks begin that other chunks jump to, by the old address.
    pub(crate) blocks: Box<[(LinkAddr, u32)]>,
    /// Cases of redirected tables: the table, the old target, and where it leads.
    pub(crate) cases: Box<[(u32, LinkAddr, u32)]>,
    /// How it is unwound, if the old code was.
    pub(crate) unwound: Option<Unwound>,
    /// How many counters were emitted in each way.
    pub(crate) ways: [u32; 3],
}

/// How code is unwound.
pub(crate) struct Unwound {
    pub(crate) treatment: Treatment,
    /// See [`eh_frame::program`].
    pub(crate) program: Box<[u8]>,
    /// The old exception table without its call sites, and the new ones: see [`eh_frame::call_sites`].
    pub(crate) throws: Option<Box<(Lsda, Vec<u8>)>>,
}

/// Four bytes that are to hold a distance. Until then they hold what it leads to: the lower half of an address
/// or of an offset, or a number. No more is needed, since a module takes up less than two gigabytes.
struct Field {
    /// Where they are, from the start of the chunk.
    at: u32,
    /// How far behind that the instruction ends, which the distance is counted from.
    tail: u8,
    kind: FieldKind,
}

#[derive(Clone, Copy)]
enum FieldKind {
    Entry,
    Block,
    Fixed,
    Area,
    Enter,
    Call,
    Table,
}

/// Flattens all chunks of a function.
pub(crate) fn flatten(function: usize, chunks: Vec<Chunk>, frames: &Frames) -> Vec<Flat> {
    let fixes = chunks.iter().flat_map(|chunk| &chunk.code.fixes);
    let wanted: HashSet<LinkAddr> = fixes
        .filter_map(|fix| match fix.to {
            Dest::Block(at) => Some(at),
            _ => None,
        })
        .collect();
    chunks.into_iter().map(|chunk| flat(function, chunk, frames, &wanted)).collect()
}

fn flat(function: usize, chunk: Chunk, frames: &Frames, wanted: &HashSet<LinkAddr>) -> Flat {
    let unwound = unwound(&chunk, frames);
    let mut bytes = chunk.code.bytes.into_boxed_slice();
    let fields = chunk.code.fixes.iter().map(|fix| field(&mut bytes, fix)).collect();
    Flat {
        function,
        old: chunk.piece.start,
        align: chunk.code.align,
        bytes,
        fields,
        entries: chunk.entries.into(),
        gates: chunk.gates.into(),
        labels: chunk.labels.into(),
        blocks: chunk.blocks.into_iter().filter(|(at, _)| wanted.contains(at)).collect(),
        cases: chunk.cases.into(),
        unwound,
        ways: chunk.ways,
    }
}

fn field(bytes: &mut [u8], fix: &Fix) -> Field {
    let (kind, value) = match fix.to {
        Dest::Entry(at) => (FieldKind::Entry, at.0),
        Dest::Block(at) => (FieldKind::Block, at.0),
        Dest::Fixed(at) => (FieldKind::Fixed, at.0),
        Dest::Area(offset) => (FieldKind::Area, offset),
        Dest::Runtime(Routine::Enter) => (FieldKind::Enter, 0),
        Dest::Runtime(Routine::Call) => (FieldKind::Call, 0),
        Dest::Table(number) => (FieldKind::Table, u64::from(number)),
        Dest::Label(_) => unreachable!("settled before"),
    };
    bytes[fix.at as usize..][..4].copy_from_slice(&low(value).to_le_bytes());
    Field { at: fix.at, tail: (fix.from - fix.at) as u8, kind }
}

fn unwound(chunk: &Chunk, frames: &Frames) -> Option<Unwound> {
    let (_, treatment, lsda) = frames.frame_at(chunk.blocks[0].0)?;
    let entry_row = Row::at_entry();
    let rows = chunk.unwind.iter().map(|&(offset, row, depth)| {
        let row = row.map_or(&entry_row, |i| &frames.rows[i].1);
        (u64::from(offset), deeper(row, depth))
    });
    let throws = lsda.as_ref().map(|old| {
        let without_sites = Lsda { call_sites: Vec::new(), ..old.clone() };
        Box::new((without_sites, eh_frame::call_sites(&chunk.throws)))
    });
    Some(Unwound { treatment: *treatment, program: eh_frame::program(rows).into(), throws })
}

/// The row where the stack is deeper by `depth` than it says.
fn deeper(row: &Row, depth: i64) -> Cow<'_, Row> {
    match &row.cfa {
        Cfa::Register(7, offset) if depth != 0 => {
            Cow::Owned(Row { cfa: Cfa::Register(7, offset + depth), ..row.clone() })
        }
        _ => Cow::Borrowed(row),
    }
}

/// Where everything came to lie.
pub(crate) struct Map {
    entries: HashMap<u32, u32>,
    blocks: HashMap<u32, u32>,
    /// The first thread's area.
    pub(crate) area: LinkAddr,
    /// `relive_enter`.
    pub(crate) enter: LinkAddr,
    /// `relive_call`.
    pub(crate) call: LinkAddr,
}

impl Map {
    /// With chunks at `places`.
    pub(crate) fn new(
        flats: &[Flat],
        places: &[LinkAddr],
        area: LinkAddr,
        [enter, call]: [LinkAddr; 2],
    ) -> Self {
        let short = |(old, new): (LinkAddr, LinkAddr)| (low(old.0), low(new.0));
        let entries = collect(flats, places, |flat| &flat.entries).map(short).collect();
        let blocks = collect(flats, places, |flat| &flat.blocks).map(short).collect();
        Self { entries, blocks, area, enter, call }
    }
}

/// Places in chunks: the old address of each, and the new one.
pub(crate) fn collect<'f>(
    flats: &'f [Flat],
    places: &'f [LinkAddr],
    what: impl Fn(&'f Flat) -> &'f [(LinkAddr, u32)] + 'f,
) -> impl Iterator<Item = (LinkAddr, LinkAddr)> + 'f {
    flats.iter().zip(places).flat_map(move |(flat, &place)| {
        what(flat).iter().map(move |&(at, offset)| (at, place.offset(u64::from(offset))))
    })
}

impl Flat {
    /// Writes the code to `out`, to lie at `place`. `table` says where copies of tables are.
    pub(crate) fn write(&self, out: &mut [u8], place: LinkAddr, map: &Map, table: impl Fn(u32) -> LinkAddr) {
        out.copy_from_slice(&self.bytes);
        for field in &self.fields {
            let bytes = out[field.at as usize..].first_chunk_mut::<4>().expect("inside the chunk");
            let value = u32::from_le_bytes(*bytes);
            let to = match field.kind {
                FieldKind::Entry => map.entries.get(&value).copied().unwrap_or(value),
                FieldKind::Block => map.blocks[&value],
                FieldKind::Fixed => value,
                FieldKind::Area => low(map.area.0).wrapping_add(value),
                FieldKind::Enter => low(map.enter.0),
                FieldKind::Call => low(map.call.0),
                FieldKind::Table => low(table(value).0),
            };
            let end = low(place.0).wrapping_add(field.at).wrapping_add(u32::from(field.tail));
            *bytes = to.wrapping_sub(end).to_le_bytes();
        }
    }
}

fn low(value: u64) -> u32 {
    value as u32
}
