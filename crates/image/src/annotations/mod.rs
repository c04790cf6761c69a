//! What the compiler says of its code: the model of section `.annotate`.
//!
//! Addresses are those of the image that is described. In an object file, code has none yet: there they are where
//! `relive-annotate` places its sections while it looks at them.

mod describe;
mod stated;

pub use describe::describe;
pub use stated::Stated;

use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::isa::RegSet;

/// Everything one file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// Who made the code, each compilation once.
    pub units: Vec<Unit>,
    /// Pieces of functions by address; they do not overlap.
    pub pieces: Vec<Piece>,
}

/// Who made some of the code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Of its instructions, as far as linkers leave them alone.
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

/// A jump to a computed place: everywhere it can lead inside the function is in a table or a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The instruction.
    pub site: LinkAddr,
    /// The tables it goes through.
    pub tables: Vec<Table>,
    /// Where it leads without a table: the labels of a computed goto. By address.
    pub targets: Vec<LinkAddr>,
    /// Whether it may leave the function, for a place that only the run shows.
    pub leaves: bool,
}

/// A jump table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Behind which instruction.
    pub behind: LinkAddr,
    /// Which.
    pub registers: RegSet,
}
