//! What a compiler said of its code, as it is found in an object file.

/// A place in an object file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The section's index.
    pub section: u32,
    /// The byte in it.
    pub offset: u64,
}

/// What a compiler said of its code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Where its blocks begin.
    pub blocks: Vec<Place>,
    /// Behind calls that do not come back.
    pub no_return: Vec<Place>,
    /// Directives among code that make bytes rather than instructions: from where to where. Control may run through them,
    /// then they are instructions written in numbers.
    pub bytes: Vec<(Place, Place)>,
    /// Jumps to computed places.
    pub jumps: Vec<Jump>,
}

/// A jump to a computed place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The instruction.
    pub site: Place,
    /// All blocks of the function that it can lead to.
    pub targets: Vec<Place>,
    /// The table that the compiler wrote down for it.
    pub table: Option<Table>,
    /// Whether it can leave the function: a call in disguise.
    pub leaves: bool,
}

/// A jump table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its first entry.
    pub at: Place,
    /// Bytes of an entry.
    pub entry_size: u8,
    /// Whether entries are relative to its first.
    pub is_relative: bool,
    /// How many entries there are.
    pub count: u32,
}
