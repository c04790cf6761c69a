//! What can be wrong with a file.

use thiserror::Error;

/// Why a file cannot be looked at. Says what is wrong; the command line adds which file and what to do.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ImageError {
    /// No ELF magic.
    #[error("not an ELF file")]
    NotElf,
    /// 32-bit, or big-endian.
    #[error("an ELF file of another class or byte order ({0}), only 64-bit little-endian is supported")]
    WrongClass(&'static str),
    /// Another processor.
    #[error("an ELF file for another machine ({0}), only x86-64 is supported")]
    WrongMachine(String),
    /// Objects and core dumps.
    #[error("{0}, only linked executables and shared objects are supported")]
    WrongType(&'static str),
    /// The headers lie.
    #[error("damaged: {what} at offset {at:#x}: {why}")]
    Damaged {
        /// Which part.
        what: &'static str,
        /// File offset of that part.
        at: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A file of headers only.
    #[error("no executable code in it")]
    NoCode,
}

/// Something in the file that could not be read; the rest could.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Which part, usually a section's name.
    pub part: String,
    /// What is wrong with it.
    pub why: String,
}

impl Complaint {
    pub(crate) fn new(part: impl Into<String>, why: impl ToString) -> Self {
        Self { part: part.into(), why: why.to_string() }
    }
}

impl core::fmt::Display for Complaint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}", self.part, self.why)
    }
}
