//! What the rewriter tells the runtime inside a rewritten module.

/// Says that the block was filled in.
pub const MAGIC: u64 = u64::from_le_bytes(*b"RELIVE01");

/// The module is a shared library: it starts by its initialiser, not by the entry of the process.
pub const LIBRARY: u32 = 1;
/// Code of the module may run before the runtime starts (resolvers of indirect functions): what is in the
/// first area by then is to be kept.
pub const EARLY: u32 = 2;

/// The block at the symbol `relive_parameters`. All addresses are as linked.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`LIBRARY`], [`EARLY`].
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
    /// Where this block is: the difference to where it finds itself is the load bias.
    pub here: u64,
    /// Where the module's own initialiser or entry is; zero if it has none.
    pub next: u64,
    /// The first thread's area.
    pub area: u64,
    /// The first bytes of a new profile, ready to be written: header, description, fill up to the first slot.
    pub file: u64,
    /// Their number.
    pub file_len: u64,
    /// Where the profile goes unless the environment says otherwise: a pattern that ends with zero,
    /// and behind it the name of the module, which ends with zero too.
    pub pattern: u64,
    /// The first address of the module.
    pub module_start: u64,
    /// The address behind the module.
    pub module_end: u64,
    /// Which targets places of call sites are for, zeros at first; see [`crate::counters`].
    pub settled: u64,
    /// The first address of old code.
    pub text_start: u64,
    /// The address behind old code; the same as its start if it cannot be read.
    pub text_end: u64,
    /// The first address of new code.
    pub code_start: u64,
    /// The address behind new code.
    pub code_end: u64,
}

const _: () = assert!(size_of::<Parameters>() == 120);
