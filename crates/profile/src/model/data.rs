//! Data that code speaks of: what is needed to recognise code by what it uses.

use super::text::TextId;

/// A variable, a constant, a string, a table: from one address that is spoken of to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataBlock {
    /// Its first address, as linked.
    pub address: u64,
    /// Up to the next block or the end of the section.
    pub size: u64,
    /// What it is called, if anyone says so.
    pub name: Option<TextId>,
    /// What it is.
    pub kind: DataKind,
    /// Stands for its content without pointers, which change whenever code or data move; of a string, for
    /// the string alone. Zero if there is no content to speak of.
    pub hash: u64,
}

/// What data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataKind {
    /// Never written.
    Constant,
    /// Text that ends with a zero, and nothing behind it.
    Text,
    /// The same, in a file with symbols, none of which is about it: part of nothing else.
    Literal,
    /// Written, and not zero in the beginning.
    Variable,
    /// Written, and zero in the beginning.
    Zeroed,
    /// Where a computed jump finds its targets.
    JumpTable,
    /// Where the loader puts the address of something in another module.
    Import,
}

impl DataKind {
    /// Whether it is text.
    #[must_use]
    pub fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Literal)
    }
}

/// A word in data that holds an address in the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Where it is.
    pub at: u64,
    /// What it points to.
    pub to: u64,
}
