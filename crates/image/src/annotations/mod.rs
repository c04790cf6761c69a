//! What the compiler says of its code: the model of section `.annotate`.
//!
//! Addresses are those of the image that is described. In an object file, code has none yet: there they are where
//! `relive-annotate` places its sections while it looks at them.

pub mod check;
pub mod checksum;
mod describe;
pub mod format;
pub mod free;
pub mod gains;
mod memory;
pub mod reader;
#[cfg(test)]
mod round_trip;
pub mod side_file;
mod stated;
pub mod writer;

pub use describe::describe;
pub use memory::Memory;
pub use stated::Stated;

use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::isa::RegSet;
use std::collections::HashSet;
use std::sync::Arc;

/// Everything one file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// Who made the code; those of whom the same is said, once.
    pub units: Vec<Unit>,
    /// Pieces of functions by address; they do not overlap.
    pub pieces: Vec<Piece>,
}

impl Annotations {
    /// How many blocks are described.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.pieces.iter().map(|piece| piece.blocks.len()).sum()
    }

    /// How many jump tables there are; several jumps may go through one.
    #[must_use]
    pub fn table_count(&self) -> usize {
        let tables = self.pieces.iter().flat_map(|piece| &piece.jumps).flat_map(|jump| &jump.tables);
        tables.map(|table| table.at).collect::<HashSet<_>>().len()
    }

    /// How many of those who made the code are not compilers, but were found out by looking at it.
    #[must_use]
    pub fn derived_count(&self) -> usize {
        self.units.iter().filter(|unit| unit.is_derived).count()
    }
}

/// Who made some of the code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Unit {
    /// The compiler and its version, in its own words.
    pub producer: String,
    /// The language.
    pub language: String,
    /// How much it was told to optimise: `-O2`.
    pub optimisation: String,
    /// Whether this was found out by looking at the code, not said by a compiler.
    pub is_derived: bool,
}

/// A function, or a piece of one that lies apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its code, and data among it.
    pub range: AddrRange,
    /// The entry of the function that it was split off from, if it was.
    pub parent: Option<LinkAddr>,
    /// Of its instructions, as far as linkers leave them alone, and of all that is said here of them ([`checksum::seal`]).
    pub checksum: u32,
    /// Blocks by address. A call does not end one unless it does not come back. What lies between is fill or data.
    pub blocks: Vec<AddrRange>,
    /// Where control comes in other than at its start.
    pub entries: Vec<LinkAddr>,
    /// Where exceptions land.
    pub landing_pads: Vec<LinkAddr>,
    /// Behind calls that do not come back.
    pub no_return: Vec<LinkAddr>,
    /// Data among the code.
    pub data: Vec<AddrRange>,
    /// Jumps to computed places, by address.
    pub jumps: Vec<Jump>,
    /// Behind which instructions registers are free, by address.
    pub free: Vec<Free>,
}

impl Piece {
    /// Where the function that it belongs to begins.
    #[must_use]
    pub fn function(&self) -> LinkAddr {
        self.parent.unwrap_or(self.range.start)
    }

    /// Whether a block of it begins at `at`.
    #[must_use]
    pub fn has_block_at(&self, at: LinkAddr) -> bool {
        self.blocks.binary_search_by_key(&at, |block| block.start).is_ok()
    }
}

/// The piece that holds `at`, of pieces by address.
#[must_use]
pub fn holding(pieces: &[Piece], at: LinkAddr) -> Option<&Piece> {
    let behind = pieces.partition_point(|piece| piece.range.start <= at);
    pieces[..behind].last().filter(|piece| piece.range.contains(at))
}

/// A jump to a computed place: everywhere it can lead inside the function is in a table or a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The instruction.
    pub site: LinkAddr,
    /// The tables it goes through.
    pub tables: Vec<Table>,
    /// Where it leads without a table: the labels of a computed goto. By address. Jumps of one function often have them in
    /// common, and then share them.
    pub targets: Arc<[LinkAddr]>,
    /// Whether it may leave the function, for a place that only the run shows.
    pub leaves: bool,
}

/// A jump table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    /// Its first entry.
    pub at: LinkAddr,
    /// Bytes of an entry: 4 or 8.
    pub entry_size: u8,
    /// What entries are relative to; nothing if they are addresses.
    pub base: Option<LinkAddr>,
    /// How many entries there are.
    pub count: u32,
}

/// Registers whose values nobody reads any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Free {
    /// Behind which instruction: where that begins.
    pub behind: LinkAddr,
    /// Which.
    pub registers: RegSet,
}
