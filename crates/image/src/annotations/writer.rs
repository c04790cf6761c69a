//! Writes what is said of one section of code as a chunk of section `.annotate` ([`format`](super::format)).

use super::format::{SIGNATURE, VERSION, id, jump, shape};
use super::{Annotations, Jump, Piece, Table, Unit};
use relive_code::addr::{AddrRange, LinkAddr};

/// A chunk. In a linked file its bytes are what they have to be; in an object file, relocations have to fill in addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Addresses in it, in order.
    pub relocations: Vec<Relocation>,
}

/// Eight bytes of a chunk that hold an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Where they are in the chunk.
    pub offset: u64,
    /// The address they hold.
    pub to: LinkAddr,
}

/// Something about a piece that cannot be written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the piece at {piece}: {what}")]
pub struct Misfit {
    /// The piece.
    pub piece: AddrRange,
    /// What is wrong with it.
    pub what: &'static str,
}

/// Writes `pieces`, which are by address and lie in the section of `code`, and who made them if that is to be said here.
/// See [`write_all`] for linked files.
///
/// Places outside of `code` get relocations of their own. In an object, no other section may begin right at its end.
///
/// # Errors
/// If something lies outside of its piece, overlaps, or is not in order.
pub fn write(code: AddrRange, units: &[Unit], pieces: &[Piece]) -> Result<Chunk, Misfit> {
    let mut body = Chunk::default();
    body.address(code.start);
    for unit in units {
        body.record(id::UNIT, write_unit(unit));
    }
    let mut end = code.start;
    let mut functions = Chunk::default();
    for piece in pieces {
        let misfit = |what| Misfit { piece: piece.range, what };
        if piece.range.start < end || code.end < piece.range.end {
            return Err(misfit("it is outside of its section, or before the end of another one"));
        }
        if piece.range.is_empty() {
            return Err(misfit("it is empty"));
        }
        functions.number(piece.range.start.since(end));
        functions.number(piece.range.len());
        functions.bytes.extend(piece.checksum.to_le_bytes());
        end = piece.range.end;
        // Functions of which there is no more to say share a record.
        let more = write_piece(code, piece).map_err(misfit)?;
        if !more.bytes.is_empty() {
            body.record(id::FUNCTIONS, std::mem::take(&mut functions));
            body.append(more);
        }
    }
    body.record_unless_empty(id::FUNCTIONS, functions);
    let mut chunk = Chunk::default();
    chunk.bytes.extend(SIGNATURE);
    chunk.bytes.push(VERSION);
    chunk.number(body.bytes.len() as u64);
    chunk.append(body);
    Ok(chunk)
}

/// Writes the section for a linked file whose code is in `text`, by address: a single chunk for each range of it. A linker
/// leaves one for each function that had a section of its own; in C++ at `-O0` the same without their headers is less than half as long.
///
/// # Errors
/// If a piece is not in the text, or as with [`write()`].
pub fn write_all(annotations: &Annotations, text: &[AddrRange]) -> Result<Vec<u8>, Misfit> {
    let mut section = Vec::new();
    let mut pieces = &annotations.pieces[..];
    let mut units = &annotations.units[..];
    for &range in text {
        let (here, rest) = pieces.split_at(pieces.partition_point(|piece| piece.range.start < range.end));
        if !here.is_empty() {
            section.extend(write(range, units, here)?.bytes);
            units = &[];
        }
        pieces = rest;
    }
    match pieces.first() {
        Some(piece) => Err(Misfit { piece: piece.range, what: "it is not in the code of the program" }),
        None => Ok(section),
    }
}

/// What is wrong with a piece.
type Written<T = ()> = Result<T, &'static str>;

fn write_unit(unit: &Unit) -> Chunk {
    let mut payload = Chunk::default();
    for text in [&unit.producer, &unit.language, &unit.optimisation] {
        payload.number(text.len() as u64);
        payload.bytes.extend(text.as_bytes());
    }
    payload.bytes.push(u8::from(unit.is_derived));
    payload
}

/// The records that belong to a piece.
fn write_piece(code: AddrRange, piece: &Piece) -> Written<Chunk> {
    let range = piece.range;
    let mut chunk = Chunk::default();
    // What says nothing is left out.
    chunk.record_unless_empty(id::BLOCKS, write_blocks(range, &piece.blocks)?);
    if let Some(parent) = piece.parent {
        let mut payload = Chunk::default();
        payload.place(code, parent);
        chunk.record(id::PARENT, payload);
    }
    for (id, places) in
        [(id::ENTRIES, &piece.entries), (id::PADS, &piece.landing_pads), (id::NO_RETURN, &piece.no_return)]
    {
        let mut payload = Chunk::default();
        payload.offsets(range, places)?;
        chunk.record_unless_empty(id, payload);
    }
    chunk.record_unless_empty(id::DATA, write_data(range, &piece.data)?);
    let mut before = None;
    for jump in &piece.jumps {
        chunk.record(id::JUMP, write_jump(code, range, jump, before)?);
        before = Some(jump);
    }
    let mut payload = Chunk::default();
    let mut last = None;
    for free in &piece.free {
        payload.offset(range, &mut last, free.behind)?;
        payload.number(free.registers.bits());
    }
    chunk.record_unless_empty(id::FREE, payload);
    Ok(chunk)
}

fn write_blocks(range: AddrRange, blocks: &[AddrRange]) -> Written<Chunk> {
    if blocks.iter().any(AddrRange::is_empty) {
        return Err("a block is empty");
    }
    if !blocks.is_sorted_by(|a, b| a.end <= b.start) {
        return Err("blocks overlap or are not in order");
    }
    let outside = |block: &AddrRange| block.start < range.start || range.end < block.end;
    if blocks.iter().any(outside) {
        return Err("a block is outside of it");
    }
    let mut payload = Chunk::default();
    // No block, which is there to say what is before the first one.
    let none = AddrRange::new(range.start, range.start);
    let first = blocks.first().map_or(range.end, |block| block.start);
    let before = (first > range.start).then_some(none);
    let listed: Vec<AddrRange> = before.into_iter().chain(blocks.iter().copied()).collect();
    for (index, block) in listed.iter().enumerate() {
        let next = listed.get(index + 1).map_or(range.end, |next| next.start);
        let gap = next.since(block.end);
        // What is left is the last block.
        if gap > 0 {
            payload.number(block.len() << 1 | 1);
            payload.number(gap);
        } else if block.end < range.end {
            payload.number(block.len() << 1);
        }
    }
    Ok(payload)
}

fn write_data(range: AddrRange, data: &[AddrRange]) -> Written<Chunk> {
    let mut payload = Chunk::default();
    let mut end = range.start;
    for part in data {
        if part.start < end || range.end < part.end || part.is_empty() {
            return Err("data is empty, not in order, overlaps or is outside of it");
        }
        payload.number(part.start.since(end));
        payload.number(part.len());
        end = part.end;
    }
    Ok(payload)
}

fn write_jump(code: AddrRange, range: AddrRange, jump: &Jump, before: Option<&Jump>) -> Written<Chunk> {
    let mut payload = Chunk::default();
    payload.offset(range, &mut before.map(|before| before.site), jump.site)?;
    let same = !jump.targets.is_empty() && before.is_some_and(|before| before.targets == jump.targets);
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    payload.number(
        flag(jump.leaves, jump::LEAVES)
            | flag(same, jump::SAME_TARGETS)
            | (jump.tables.len() as u64) << jump::TABLES,
    );
    for table in &jump.tables {
        write_table(&mut payload, code, table)?;
    }
    if !same {
        if !jump.targets.is_sorted_by(|a, b| a < b) {
            return Err("targets of a jump are not in order");
        }
        let (here, elsewhere): (Vec<LinkAddr>, Vec<LinkAddr>) =
            jump.targets.iter().partition(|&&target| range.contains(target));
        payload.number(elsewhere.len() as u64);
        for target in elsewhere {
            payload.place(code, target);
        }
        payload.offsets(range, &here)?;
    }
    Ok(payload)
}

fn write_table(payload: &mut Chunk, code: AddrRange, table: &Table) -> Written {
    if !matches!(table.entry_size, 4 | 8) {
        return Err("entries of a jump table have neither 4 nor 8 bytes");
    }
    payload.place(code, table.at);
    let base = match table.base {
        None => shape::ABSOLUTE,
        Some(base) if base == table.at => shape::ITSELF,
        Some(_) => shape::OTHER,
    };
    payload.bytes.push(table.entry_size | base);
    if let (shape::OTHER, Some(place)) = (base, table.base) {
        payload.place(code, place);
    }
    payload.number(table.count.into());
    Ok(())
}

impl Chunk {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    fn address(&mut self, to: LinkAddr) {
        self.relocations.push(Relocation { offset: self.bytes.len() as u64, to });
        self.bytes.extend(to.0.to_le_bytes());
    }

    fn place(&mut self, code: AddrRange, at: LinkAddr) {
        if code.contains(at) {
            self.number(at.since(code.start) + 1);
        } else {
            self.number(0);
            self.address(at);
        }
    }

    /// How far `at` is behind the last one, if there is one, or behind the start of the piece.
    fn offset(&mut self, range: AddrRange, last: &mut Option<LinkAddr>, at: LinkAddr) -> Written {
        if at < range.start || range.end < at {
            return Err("a place is outside of it");
        }
        if last.is_some_and(|last| at <= last) {
            return Err("places are not in order");
        }
        self.number(at.since(last.unwrap_or(range.start)));
        *last = Some(at);
        Ok(())
    }

    fn offsets(&mut self, range: AddrRange, places: &[LinkAddr]) -> Written {
        let mut last = None;
        places.iter().try_for_each(|&at| self.offset(range, &mut last, at))
    }

    fn record(&mut self, id: u8, payload: Self) {
        self.bytes.push(id);
        self.number(payload.bytes.len() as u64);
        self.append(payload);
    }

    fn record_unless_empty(&mut self, id: u8, payload: Self) {
        if !payload.bytes.is_empty() {
            self.record(id, payload);
        }
    }

    fn append(&mut self, other: Self) {
        let start = self.bytes.len() as u64;
        self.bytes.extend(other.bytes);
        let moved = other.relocations.into_iter().map(|r| Relocation { offset: start + r.offset, ..r });
        self.relocations.extend(moved);
    }
}
