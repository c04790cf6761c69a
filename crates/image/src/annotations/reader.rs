//! Reads section `.annotate` ([`format`](super::format)).
//!
//! Nothing here is believed yet: what was read is in order and inside of the program's code, but whether it is true is for
//! [`check`](super::check) to say. A fault costs the piece it is in, or the rest of its chunk where it cannot be
//! told any more where pieces are.

use super::format::{MAX_FILL, SIGNATURE, VERSION, id, jump, shape};
use super::memory::lies_in;
use super::{Annotations, Free, Jump, Piece, Table, Unit};
use crate::cursor::{Cursor, FieldError, FieldFault};
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::isa::RegSet;
use std::collections::HashSet;
use std::sync::Arc;

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// What could be read.
    pub annotations: Annotations,
    /// What could not.
    pub faults: Vec<Fault>,
    /// How many chunks are of code that the linker dropped.
    pub dropped: usize,
}

/// Something that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Neither a chunk nor fill.
    #[error("at byte {at:#x}: no chunk begins here; what follows is not read")]
    Signature {
        /// Where in the section.
        at: usize,
    },
    /// A chunk of a version that is not known.
    #[error("at byte {at:#x}: a chunk of version {version}, only {VERSION} is supported")]
    Version {
        /// Where in the section.
        at: usize,
        /// Its version.
        version: u8,
    },
    /// A record that is cut short or has a number that is too large.
    #[error("{0}")]
    Field(FieldError),
    /// A record that belongs to a piece, before any piece.
    #[error("at byte {at:#x}: a record that belongs to a piece comes before any piece")]
    Orphan {
        /// Where in the section.
        at: usize,
    },
    /// Something that a piece has once only.
    #[error("at byte {at:#x}: the same is said twice of the piece at {piece}")]
    Twice {
        /// Where in the section.
        at: usize,
        /// The piece.
        piece: LinkAddr,
    },
    /// Something that a piece has no room for.
    #[error("at byte {at:#x}: {what} outside of the piece at {piece}, or out of order")]
    Outside {
        /// Where in the section.
        at: usize,
        /// What.
        what: &'static str,
        /// The piece.
        piece: LinkAddr,
    },
    /// A table whose entries are of a size, or relative to something, that is not known.
    #[error("at byte {at:#x}: a jump table of shape {shape:#x}, which is not known")]
    Shape {
        /// Where in the section.
        at: usize,
        /// Its shape.
        shape: u8,
    },
    /// A piece that is not code.
    #[error("at byte {at:#x}: the piece at {piece} is empty or not in the code of the program")]
    NotCode {
        /// Where in the section.
        at: usize,
        /// The piece.
        piece: LinkAddr,
    },
    /// A chunk of code that is not there, and that no linker dropped either.
    #[error("at byte {at:#x}: a chunk about code at {code}, where the program has none")]
    Elsewhere {
        /// Where in the section.
        at: usize,
        /// Where that code would be.
        code: LinkAddr,
    },
    /// Two pieces say different things of the same code.
    #[error("the piece at {piece} overlaps the one at {other}")]
    Overlap {
        /// The one that is left out.
        piece: AddrRange,
        /// The one that stays.
        other: AddrRange,
    },
}

impl From<FieldError> for Fault {
    fn from(error: FieldError) -> Self {
        Self::Field(error)
    }
}

/// Reads all of a section that describes a program whose code is in `text`, by address.
#[must_use]
pub fn read(section: &[u8], text: &[AddrRange]) -> Found {
    let mut reader = Reader { section, text, found: Found::default(), units: HashSet::new() };
    let mut at = 0;
    while at < section.len() {
        match reader.chunk(at) {
            Ok(end) => at = end,
            Err(fault) => {
                reader.found.faults.push(fault);
                break;
            }
        }
    }
    reader.leave_out_overlaps();
    reader.found
}

/// How far from either end of all addresses nothing is linked.
const DROPPED: u64 = 0x1000;

struct Reader<'a> {
    section: &'a [u8],
    text: &'a [AddrRange],
    found: Found,
    units: HashSet<Unit>,
}

/// A piece to which more records may belong.
struct Open {
    piece: Piece,
    has_blocks: bool,
}

impl Reader<'_> {
    /// Reads the chunk at `at`, or what is before it, and says where it ends; a fault if that cannot be told.
    fn chunk(&mut self, at: usize) -> Result<usize, Fault> {
        let rest = &self.section[at..];
        let fill = rest.iter().take_while(|&&byte| byte == 0).count();
        if fill > MAX_FILL {
            return Err(Fault::Signature { at });
        }
        if fill == rest.len() {
            return Ok(self.section.len());
        }
        let at = at + fill;
        let mut cursor = Cursor::at(self.section, at, "signature")?;
        if cursor.bytes(SIGNATURE.len() as u64, "signature")? != SIGNATURE {
            return Err(Fault::Signature { at });
        }
        let version = cursor.u8("version")?;
        let body = sized(&mut cursor, "size of a chunk")?;
        if version != VERSION {
            self.found.faults.push(Fault::Version { at, version });
        } else if let Err(fault) = self.body(body) {
            self.found.faults.push(fault);
        }
        Ok(cursor.position())
    }

    /// Reads a chunk behind its size.
    fn body(&mut self, mut body: Cursor<'_>) -> Result<(), Fault> {
        let at = body.position();
        let code = LinkAddr(body.u64("address of code")?);
        if !lies_in(self.text, AddrRange::sized(code, 1)) {
            // Linkers give code that they dropped an address near one end or the other.
            if code.0.wrapping_add(DROPPED) >= 2 * DROPPED {
                return Err(Fault::Elsewhere { at, code });
            }
            self.found.dropped += 1;
            return Ok(());
        }
        let mut end = code;
        let mut has_pieces = false;
        let mut open: Option<Open> = None;
        while !body.is_empty() {
            let at = body.position();
            let record = body.u8("id of a record")?;
            let mut payload = sized(&mut body, "size of a record")?;
            match record {
                id::UNIT => {
                    let unit = read_unit(payload)?;
                    if self.units.insert(unit.clone()) {
                        self.found.annotations.units.push(unit);
                    }
                }
                id::FUNCTIONS => {
                    has_pieces = true;
                    while !payload.is_empty() {
                        self.close(open.take());
                        let at = payload.position();
                        let piece = read_piece(&mut payload, end)?;
                        end = piece.range.end;
                        if lies_in(self.text, piece.range) && !piece.range.is_empty() {
                            open = Some(Open { piece, has_blocks: false });
                        } else {
                            self.found.faults.push(Fault::NotCode { at, piece: piece.range.start });
                        }
                    }
                }
                id::BLOCKS..=id::FREE if !has_pieces => return Err(Fault::Orphan { at }),
                id::BLOCKS..=id::FREE => {
                    let Some(piece) = &mut open else { continue };
                    if let Err(fault) = piece.add(record, payload, at, code) {
                        self.found.faults.push(fault);
                        open = None;
                    }
                }
                _ => {}
            }
        }
        self.close(open);
        Ok(())
    }

    fn close(&mut self, open: Option<Open>) {
        let Some(Open { mut piece, has_blocks }) = open else { return };
        if !has_blocks {
            piece.blocks.push(piece.range);
        }
        self.found.annotations.pieces.push(piece);
    }

    /// Of two pieces that overlap, the one that begins first stays; of two that begin at the same place, the one that comes first.
    fn leave_out_overlaps(&mut self) {
        let mut pieces = std::mem::take(&mut self.found.annotations.pieces);
        pieces.sort_by_key(|piece| piece.range.start);
        let kept = &mut self.found.annotations.pieces;
        for piece in pieces {
            match kept.last() {
                Some(last) if piece.range.start < last.range.end => {
                    // A linker that finds two functions to be the same keeps one, and what is said of both.
                    if *last != piece {
                        let fault = Fault::Overlap { piece: piece.range, other: last.range };
                        self.found.faults.push(fault);
                    }
                }
                _ => kept.push(piece),
            }
        }
    }
}

/// What follows a size, and is that long; `cursor` goes on behind it.
fn sized<'a>(cursor: &mut Cursor<'a>, field: &'static str) -> Result<Cursor<'a>, FieldError> {
    let at = cursor.position();
    let len = cursor.uleb(field)?;
    cursor.part(len, field).map_err(|error| FieldError { at, ..error })
}

fn read_unit(mut payload: Cursor<'_>) -> Result<Unit, FieldError> {
    let mut text = |field| {
        let len = payload.uleb(field)?;
        Ok(String::from_utf8_lossy(payload.bytes(len, field)?).into_owned())
    };
    let (producer, language, optimisation) = (text("producer")?, text("language")?, text("optimisation")?);
    Ok(Unit { producer, language, optimisation, is_derived: payload.u8("flags")? & 1 != 0 })
}

/// Reads the piece behind `end`.
fn read_piece(payload: &mut Cursor<'_>, end: LinkAddr) -> Result<Piece, FieldError> {
    let at = payload.position();
    let too_large = |field| FieldError { at, field, fault: FieldFault::TooLarge };
    let distance = payload.uleb("distance")?;
    let start = end.0.checked_add(distance).ok_or(too_large("distance"))?;
    let end = start.checked_add(payload.uleb("length")?).ok_or(too_large("length"))?;
    Ok(Piece {
        range: AddrRange::new(LinkAddr(start), LinkAddr(end)),
        parent: None,
        checksum: payload.u32("checksum")?,
        blocks: Vec::new(),
        entries: Vec::new(),
        landing_pads: Vec::new(),
        no_return: Vec::new(),
        data: Vec::new(),
        jumps: Vec::new(),
        free: Vec::new(),
    })
}

impl Open {
    /// Adds what the record at byte `at` says, in a chunk for the section of code at `code`.
    fn add(&mut self, record: u8, mut payload: Cursor<'_>, at: usize, code: LinkAddr) -> Result<(), Fault> {
        let piece = &mut self.piece;
        let is_said = match record {
            id::BLOCKS => self.has_blocks,
            id::PARENT => piece.parent.is_some(),
            id::ENTRIES => !piece.entries.is_empty(),
            id::PADS => !piece.landing_pads.is_empty(),
            id::NO_RETURN => !piece.no_return.is_empty(),
            id::DATA => !piece.data.is_empty(),
            id::FREE => !piece.free.is_empty(),
            _ => false,
        };
        if is_said {
            return Err(Fault::Twice { at, piece: piece.range.start });
        }
        let inside = Inside { range: piece.range, at };
        match record {
            id::BLOCKS => {
                piece.blocks = inside.blocks(payload)?;
                self.has_blocks = true;
            }
            id::PARENT => piece.parent = Some(read_place(&mut payload, code, "parent")?),
            id::ENTRIES => piece.entries = inside.offsets(payload, "an entry")?,
            id::PADS => piece.landing_pads = inside.offsets(payload, "a landing pad")?,
            id::NO_RETURN => {
                piece.no_return = inside.offsets(payload, "the end of a call that does not return")?;
            }
            id::DATA => piece.data = inside.data(payload)?,
            id::JUMP => {
                let jump = inside.jump(payload, code, piece.jumps.last())?;
                piece.jumps.push(jump);
            }
            id::FREE => piece.free = inside.free(payload)?,
            _ => {}
        }
        Ok(())
    }
}

fn read_place(payload: &mut Cursor<'_>, code: LinkAddr, field: &'static str) -> Result<LinkAddr, FieldError> {
    Ok(match payload.uleb(field)? {
        0 => LinkAddr(payload.u64(field)?),
        // One that is too far wraps to somewhere else, which is no worse than any wrong place.
        offset => code.offset(offset - 1),
    })
}

/// Reads what lies inside a piece, from the record at byte `at`.
#[derive(Clone, Copy)]
struct Inside {
    range: AddrRange,
    at: usize,
}

impl Inside {
    fn outside(self, what: &'static str) -> Fault {
        Fault::Outside { at: self.at, what, piece: self.range.start }
    }

    /// The address `distance` behind `from`, up to the very end of the piece.
    fn advance(self, from: LinkAddr, distance: u64, what: &'static str) -> Result<LinkAddr, Fault> {
        let to = from.0.checked_add(distance).map(LinkAddr).filter(|&to| to <= self.range.end);
        to.ok_or(self.outside(what))
    }

    /// The next of several places; only the first can be zero bytes away.
    fn next(
        self,
        payload: &mut Cursor<'_>,
        last: &mut Option<LinkAddr>,
        what: &'static str,
    ) -> Result<LinkAddr, Fault> {
        let distance = payload.uleb(what)?;
        if last.is_some() && distance == 0 {
            return Err(self.outside(what));
        }
        let at = self.advance(last.unwrap_or(self.range.start), distance, what)?;
        *last = Some(at);
        Ok(at)
    }

    fn offsets(self, mut payload: Cursor<'_>, what: &'static str) -> Result<Vec<LinkAddr>, Fault> {
        let (mut found, mut last) = (Vec::new(), None);
        while !payload.is_empty() {
            found.push(self.next(&mut payload, &mut last, what)?);
        }
        Ok(found)
    }

    fn blocks(self, mut payload: Cursor<'_>) -> Result<Vec<AddrRange>, Fault> {
        let mut found = Vec::new();
        let mut at = self.range.start;
        while !payload.is_empty() {
            let number = payload.uleb("length of a block")?;
            let end = self.advance(at, number >> 1, "a block")?;
            if end > at {
                found.push(AddrRange::new(at, end));
            }
            at = end;
            if number & 1 != 0 {
                at = self.advance(at, payload.uleb("gap behind a block")?, "a gap")?;
            }
        }
        if at < self.range.end {
            found.push(AddrRange::new(at, self.range.end));
        }
        Ok(found)
    }

    fn data(self, mut payload: Cursor<'_>) -> Result<Vec<AddrRange>, Fault> {
        let mut found = Vec::new();
        let mut end = self.range.start;
        while !payload.is_empty() {
            let start = self.advance(end, payload.uleb("distance of data")?, "data")?;
            end = self.advance(start, payload.uleb("length of data")?, "data")?;
            if start == end {
                return Err(self.outside("data"));
            }
            found.push(AddrRange::new(start, end));
        }
        Ok(found)
    }

    fn jump(self, mut payload: Cursor<'_>, code: LinkAddr, before: Option<&Jump>) -> Result<Jump, Fault> {
        let site = self.next(&mut payload, &mut before.map(|before| before.site), "a jump")?;
        let number = payload.uleb("flags of a jump")?;
        let mut tables = Vec::new();
        for _ in 0..number >> jump::TABLES {
            tables.push(read_table(&mut payload, code)?);
        }
        let targets = match before {
            Some(before) if number & jump::SAME_TARGETS != 0 => Arc::clone(&before.targets),
            _ if number & jump::SAME_TARGETS != 0 => return Err(self.outside("targets")),
            _ => self.targets(payload, code)?.into(),
        };
        Ok(Jump { site, tables, targets, leaves: number & jump::LEAVES != 0 })
    }

    fn targets(self, mut payload: Cursor<'_>, code: LinkAddr) -> Result<Vec<LinkAddr>, Fault> {
        let mut found = Vec::new();
        for _ in 0..payload.uleb("number of targets")? {
            found.push(read_place(&mut payload, code, "target")?);
        }
        found.extend(self.offsets(payload, "a target")?);
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn free(self, mut payload: Cursor<'_>) -> Result<Vec<Free>, Fault> {
        let (mut found, mut last) = (Vec::new(), None);
        while !payload.is_empty() {
            let behind = self.next(&mut payload, &mut last, "an instruction")?;
            let registers = RegSet::from_bits(payload.uleb("registers")?);
            found.push(Free { behind, registers });
        }
        Ok(found)
    }
}

fn read_table(payload: &mut Cursor<'_>, code: LinkAddr) -> Result<Table, Fault> {
    let at = read_place(payload, code, "table")?;
    let byte = payload.position();
    let shape = payload.u8("shape of a table")?;
    let base = match shape & !shape::ENTRY_SIZE {
        shape::ABSOLUTE => None,
        shape::ITSELF => Some(at),
        shape::OTHER => Some(read_place(payload, code, "base of a table")?),
        _ => return Err(Fault::Shape { at: byte, shape }),
    };
    let entry_size = shape & shape::ENTRY_SIZE;
    if !matches!(entry_size, 4 | 8) {
        return Err(Fault::Shape { at: byte, shape });
    }
    Ok(Table { at, entry_size, base, count: payload.uleb32("number of entries")? })
}
