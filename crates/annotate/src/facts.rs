//! What a compiler said of its code, and how it gets from its text into the object file.
//!
//! While the text is read, places in it are labels; the assembler knows where they come to lie. So `write` puts the
//! facts into a section of their own, [`SECTION`], and [`read()`] takes them out again. The section holds words of eight
//! bytes, a word being a number or, through a relocation, a place. Five lists follow each other, each behind its length:
//!
//! | list | an item |
//! |---|---|
//! | blocks | place |
//! | calls that do not come back | place behind |
//! | bytes | from, to |
//! | inline assembler | from, to |
//! | rows | place, number |
//! | jumps | site, whether it leaves (0 or 1), targets behind their number, tables (none or one) behind their number |
//!
//! A table is its place, bytes of an entry, whether it is relative (0 or 1), number of entries.

mod read;
mod write;

pub use read::{FactsError, read};
pub(crate) use write::{LABEL, write};

/// The section that facts are in on their way. Linkers leave it out.
pub const SECTION: &str = ".relive.facts";

/// A place in an object file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The section's index.
    pub section: u32,
    /// The byte in it.
    pub offset: u64,
}

/// A place in assembler text: a label that was added there, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label(pub u32);

/// What a compiler said of its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts<P = Place> {
    /// Where its blocks begin.
    pub blocks: Vec<P>,
    /// Behind calls that do not come back.
    pub no_return: Vec<P>,
    /// Directives that a programmer put among code and that make bytes rather than instructions: from where to where.
    /// Control may run through them, then they are instructions written in numbers, or the prefixes of what is behind.
    pub bytes: Vec<(P, P)>,
    /// Assembler that the programmer wrote: from where to where. Calls in it need not follow any convention.
    pub inline: Vec<(P, P)>,
    /// Rows of places that a programmer wrote down, which may be tables to jump through: where, and how many.
    pub rows: Vec<(P, u32)>,
    /// Jumps to computed places.
    pub jumps: Vec<Jump<P>>,
}

impl<P> Facts<P> {
    /// Whether nothing was said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
            && self.no_return.is_empty()
            && self.bytes.is_empty()
            && self.inline.is_empty()
            && self.rows.is_empty()
            && self.jumps.is_empty()
    }
}

impl<P> Default for Facts<P> {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            no_return: Vec::new(),
            bytes: Vec::new(),
            inline: Vec::new(),
            rows: Vec::new(),
            jumps: Vec::new(),
        }
    }
}

/// A jump to a computed place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jump<P = Place> {
    /// The instruction. Where indirect jumps are avoided (`-mindirect-branch`), it is a jump to the thunk or a `ret`.
    pub site: P,
    /// All blocks of the function that it can lead to.
    pub targets: Vec<P>,
    /// The table that the compiler wrote down for it.
    pub table: Option<Table<P>>,
    /// Whether it can leave the function: a call in disguise.
    pub leaves: bool,
}

/// A jump table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table<P = Place> {
    /// Its first entry.
    pub at: P,
    /// Bytes of an entry.
    pub entry_size: u8,
    /// Whether entries are relative to its first.
    pub is_relative: bool,
    /// How many entries there are.
    pub count: u32,
}
