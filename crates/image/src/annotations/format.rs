//! Section `.annotate`, version 1: what its bytes mean. `docs/annotate-format.md` has the whole of it.
//!
//! A section is a row of chunks, one for each section of code, as the linker put them together:
//!
//! | bytes | what |
//! |---|---|
//! | 2 | [`SIGNATURE`] |
//! | 1 | [`VERSION`] |
//! | 1–3 | how many bytes follow, as LEB128 |
//! | 8 | where the section of code lies; relocated |
//! | … | records: what it is (1 byte, [`id`]), how many bytes follow (LEB128), those bytes |
//!
//! A *place* is either in the chunk's section of code: its offset from the start plus one, as LEB128; or elsewhere: a zero
//! and its address in 8 bytes, relocated. *Offsets* are from the start of the piece, each as LEB128 and as the difference to
//! the one before.

/// The section's name.
pub const SECTION: &str = ".annotate";

/// What a chunk begins with. Its first byte is not zero, so that it differs from what linkers fill with.
pub const SIGNATURE: [u8; 2] = *b"An";

/// The version that is written. Signature, version and size stay where they are in all versions, so that chunks of others can be
/// skipped.
pub const VERSION: u8 = 1;

/// How many zeros may lie before a chunk: what a linker or a tool puts there to align it.
pub const MAX_FILL: usize = 16;

/// What records are. Readers skip those they do not know.
pub mod id {
    /// Who made the code. Three texts, each with its length (LEB128) before it: producer, language, optimisation; then
    /// flags (1 byte): bit 0 derived.
    pub const UNIT: u8 = 1;
    /// Pieces, one or more. Each: distance from the end of the piece before, or from the start of the section of code (LEB128);
    /// length (LEB128); checksum (4 bytes). All records below belong to the last piece before them.
    pub const FUNCTIONS: u8 = 2;
    /// Blocks from the start of the piece on. Each is a LEB128 of twice its length, plus one if another LEB128 follows: how many
    /// bytes behind it are in no block. A block of length zero is none. What is left of the piece is the last block.
    pub const BLOCKS: u8 = 3;
    /// The place of the function that the piece was split off from.
    pub const PARENT: u8 = 4;
    /// Offsets of where control comes in other than at the start.
    pub const ENTRIES: u8 = 5;
    /// Offsets of where exceptions land.
    pub const PADS: u8 = 6;
    /// Offsets behind calls that do not come back.
    pub const NO_RETURN: u8 = 7;
    /// Data among the code: pairs of how far behind the one before it begins, and its length (LEB128 each).
    pub const DATA: u8 = 8;
    /// A jump to a computed place: how far behind the one before it lies (LEB128); then a LEB128: bit 0 it may leave the function,
    /// bit 1 its targets are those of the jump before, above that the number of tables. Then tables, each a place, its shape
    /// (1 byte, [`shape`](super::shape)), the place of its base if it has another one, and how many entries it has (LEB128).
    /// Then, unless bit 1 is set, how many targets lie in other pieces (LEB128), their places, and offsets of all targets
    /// in this piece.
    pub const JUMP: u8 = 9;
    /// Pairs: how far behind the one before an instruction begins, and a set of registers that are free behind it
    /// (LEB128 each; bits as in [`RegSet::bits`](relive_code::isa::RegSet::bits)).
    pub const FREE: u8 = 10;
}

/// What the byte says that describes a table: bits 0 to 3 how many bytes an entry has, bits 4 and 5 what it is relative to.
pub mod shape {
    /// How many bytes an entry has.
    pub const ENTRY_SIZE: u8 = 0x0f;
    /// What entries are relative to.
    pub const BASE: u8 = 0x30;
    /// To nothing: they are addresses.
    pub const ABSOLUTE: u8 = 0x00;
    /// To the table's first entry.
    pub const ITSELF: u8 = 0x10;
    /// To a place that is said.
    pub const OTHER: u8 = 0x20;
}

/// What the number says that follows the site of a jump.
pub mod jump {
    /// It may leave the function.
    pub const LEAVES: u64 = 1;
    /// Its targets are those of the jump before.
    pub const SAME_TARGETS: u64 = 2;
    /// How far up the number of tables is.
    pub const TABLES: u32 = 2;
}
