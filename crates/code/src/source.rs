//! Where code comes from, and what its surroundings know.

use crate::addr::{AddrRange, LinkAddr};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Memory as the program finds it at start: a file's segments, or a live process.
pub trait CodeSource {
    /// The bytes from `at` to the end of the region that holds it; empty where nothing is mapped.
    fn bytes(&self, at: LinkAddr) -> &[u8];

    /// Four bytes at `at`.
    fn read_u32(&self, at: LinkAddr) -> Option<u32> {
        self.bytes(at).first_chunk().map(|&bytes| u32::from_le_bytes(bytes))
    }

    /// Eight bytes at `at`, as they lie there: no relocation applied.
    fn read_u64(&self, at: LinkAddr) -> Option<u64> {
        self.bytes(at).first_chunk().map(|&bytes| u64::from_le_bytes(bytes))
    }
}

/// What eight bytes of memory will hold once the program is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pointer {
    /// An address inside this module.
    Here(LinkAddr),
    /// Something another module provides.
    Import,
    /// Not a pointer as far as anyone can tell.
    None,
}

/// Whether a call comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returns {
    /// As far as anyone knows.
    Yes,
    /// Not as far as its code shows. Whoever compiled the call may not have known.
    SeeminglyNot,
    /// Never, and everybody knows: it is declared so.
    Never,
}

/// Where a jump to a computed place leads, in the words of whoever compiled it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatedJump {
    /// The tables it goes through.
    pub tables: Vec<StatedTable>,
    /// Where it leads without a table. All jumps of a function that computes them have the same.
    pub targets: Arc<[LinkAddr]>,
    /// Whether it may leave the function for a place that only the run shows.
    pub leaves: bool,
}

/// A jump table, in the words of whoever compiled it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatedTable {
    /// Its first entry.
    pub at: LinkAddr,
    /// Bytes of an entry: 4 or 8.
    pub entry_size: u8,
    /// What entries are relative to; nothing if they are addresses.
    pub base: Option<LinkAddr>,
    /// How many entries there are.
    pub count: u32,
}

/// What control-flow recovery asks about the world around one function.
pub trait Surroundings: CodeSource {
    /// Whether a call to `callee` can come back.
    fn returns(&self, callee: LinkAddr) -> Returns;

    /// Whether a call through the pointer stored at `slot` can come back.
    fn returns_through(&self, slot: LinkAddr) -> Returns;

    /// Whether somebody vouches that a function begins at `at`.
    fn is_function_start(&self, at: LinkAddr) -> bool;

    /// Whether `at` holds instructions rather than data.
    fn is_code(&self, at: LinkAddr) -> bool;

    /// What the eight bytes at `at` will hold at run time.
    fn pointer(&self, at: LinkAddr) -> Pointer;

    /// Whether the memory at `at` stays as it is once the program runs.
    fn is_constant(&self, at: LinkAddr) -> bool;

    /// The lowest address behind `at` that some instruction or symbol refers to: no table that starts
    /// at `at` reaches beyond it.
    fn next_reference(&self, at: LinkAddr) -> Option<LinkAddr>;

    /// How many entries the table at `at` has, where the binary says so itself.
    fn stated_table_len(&self, at: LinkAddr) -> Option<u64>;

    /// Addresses inside `range` that are stored somewhere as pointers or computed by an instruction.
    fn labels(&self, range: AddrRange, found: &mut dyn FnMut(LinkAddr));

    /// Whether the call that ends at `next` comes back, where whoever compiled it says so.
    fn stated_return(&self, next: LinkAddr) -> Option<bool> {
        let _ = next;
        None
    }

    /// Where the jump at `site` leads, where whoever compiled it says so.
    fn stated_jump(&self, site: LinkAddr) -> Option<&StatedJump> {
        let _ = site;
        None
    }
}
