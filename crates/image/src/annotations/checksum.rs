//! A checksum of a piece: of its code, and of all that is said of it.
//!
//! It is written before the program is linked and must hold afterwards. So it takes in
//!
//! - the bytes of instructions in blocks, with where in the block they are, but only of those that `Insn::is_final`;
//! - everything inside the piece as an offset;
//! - what lies elsewhere only if it is inside another piece of the same function: as the length of that piece and an offset in it.
//!   Edges of pieces do not count, as what lies at the end of one may come to lie at the start of another;
//! - of jump tables not where they are but where their entries lead;
//! - of the function that a piece was split off from, the checksum.
//!
//! So a change of one bit in the section shows, be it in an address that the linker filled in.

use super::{Jump, Memory, Piece, Table, holding};
use crc32fast::Hasher;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::isa::Decode;
use relive_code::source::Pointer;
use std::collections::HashMap;

/// Gives all pieces their checksums, when everything else about them is known. They are by address.
pub fn seal<M: Memory + ?Sized>(pieces: &mut [Piece], memory: &M) {
    // The checksum of a function is part of those of its other pieces.
    for is_split_off in [false, true] {
        for index in 0..pieces.len() {
            if pieces[index].parent.is_some() == is_split_off {
                pieces[index].checksum = of(&pieces[index], pieces, memory);
            }
        }
    }
}

/// The checksum that `piece`, one of `all` pieces, should have.
pub fn of<M: Memory + ?Sized>(piece: &Piece, all: &[Piece], memory: &M) -> u32 {
    let mut sum = Sum { piece, all, memory, hasher: Hasher::new() };
    sum.number(piece.range.len());
    sum.parent();
    sum.ranges(&piece.blocks);
    sum.ranges(&piece.data);
    for places in [&piece.entries, &piece.landing_pads, &piece.no_return] {
        sum.number(places.len() as u64);
        places.iter().for_each(|&at| sum.offset(at));
    }
    sum.jumps();
    sum.number(piece.free.len() as u64);
    for free in &piece.free {
        sum.offset(free.behind);
        sum.number(free.registers.bits());
    }
    sum.code();
    sum.hasher.finalize()
}

struct Sum<'a, M: ?Sized> {
    piece: &'a Piece,
    all: &'a [Piece],
    memory: &'a M,
    hasher: Hasher,
}

impl<M: Memory + ?Sized> Sum<'_, M> {
    fn number(&mut self, number: u64) {
        self.hasher.update(&number.to_le_bytes());
    }

    fn offset(&mut self, at: LinkAddr) {
        self.number(at.since(self.piece.range.start));
    }

    fn ranges(&mut self, ranges: &[AddrRange]) {
        self.number(ranges.len() as u64);
        for range in ranges {
            self.offset(range.start);
            self.offset(range.end);
        }
    }

    fn parent(&mut self) {
        let parent = self.piece.parent.and_then(|parent| holding(self.all, parent));
        self.number(self.piece.parent.is_some().into());
        self.number(parent.map_or(0, |parent| parent.checksum.into()));
    }

    /// A place that may be anywhere.
    fn place(&mut self, at: LinkAddr) {
        let inside = |piece: &&Piece| {
            piece.range.start < at && at < piece.range.end && piece.function() == self.piece.function()
        };
        let piece = Some(self.piece).filter(inside).or_else(|| holding(self.all, at).filter(inside));
        let (len, offset) = piece.map_or((0, 0), |piece| (piece.range.len(), at.since(piece.range.start)));
        self.number(len);
        self.number(offset);
    }

    fn jumps(&mut self) {
        let piece = self.piece;
        self.number(piece.jumps.len() as u64);
        let mut before: Option<&Jump> = None;
        // Several jumps may go through one table, which need not be read each time.
        let mut tables: HashMap<Table, u32> = HashMap::new();
        for jump in &piece.jumps {
            self.offset(jump.site);
            self.number(jump.leaves.into());
            self.number(jump.tables.len() as u64);
            for table in &jump.tables {
                let sum = *tables.entry(*table).or_insert_with(|| self.table(table));
                self.number(sum.into());
            }
            let same = before.is_some_and(|before| before.targets == jump.targets);
            self.number(same.into());
            if !same {
                self.number(jump.targets.len() as u64);
                jump.targets.iter().for_each(|&target| self.place(target));
            }
            before = Some(jump);
        }
    }

    /// Of where the entries of a table lead, as far as it can be read.
    fn table(&self, table: &Table) -> u32 {
        let Self { piece, all, memory, .. } = *self;
        let mut sum = Sum { piece, all, memory, hasher: Hasher::new() };
        sum.number(table.entry_size.into());
        sum.number(table.base.is_some().into());
        sum.number(table.count.into());
        for target in targets(table, memory).map_while(|target| target) {
            sum.place(target);
        }
        sum.hasher.finalize()
    }

    fn code(&mut self) {
        for block in &self.piece.blocks {
            let Some(bytes) = bytes_in(self.memory, *block) else { return };
            for insn in Decode::new(bytes, block.start) {
                if insn.is_final() {
                    let start = insn.addr().since(block.start) as usize;
                    self.number(start as u64);
                    self.hasher.update(&bytes[start..start + insn.len() as usize]);
                }
            }
        }
    }
}

/// The bytes in `range`, if all of them are there.
pub(super) fn bytes_in<M: Memory + ?Sized>(memory: &M, range: AddrRange) -> Option<&[u8]> {
    memory.bytes(range.start).get(..usize::try_from(range.len()).ok()?)
}

/// Where the entries of a table lead; nothing for those that cannot be read or do not lead into this program.
pub(super) fn targets<M: Memory + ?Sized>(
    table: &Table,
    memory: &M,
) -> impl Iterator<Item = Option<LinkAddr>> {
    (0..u64::from(table.count)).map(move |index| {
        let at = table.at.offset(index * u64::from(table.entry_size));
        match (table.entry_size, table.base) {
            (8, None) => match memory.pointer(at) {
                Pointer::Here(to) => Some(to),
                Pointer::Import | Pointer::None => None,
            },
            (8, Some(base)) => Some(base.offset(memory.read_u64(at)?)),
            (_, None) => Some(LinkAddr(memory.read_u32(at)?.into())),
            (_, Some(base)) => {
                Some(base.offset(i64::from(memory.read_u32(at)?.cast_signed()).cast_unsigned()))
            }
        }
    })
}
