//! Prepared binaries: relive's runtime was linked in, but nothing uses it yet.
//!
//! A note says where it is. It begins with [`HEADER`]; behind it are four words of eight bytes:
//!
//! | word | |
//! |---|---|
//! | 0 | the runtime's code, as a distance from this word |
//! | 1 | how many bytes of code |
//! | 2 | the runtime's data, as a distance from this word |
//! | 3 | how many bytes of data there are in the file |
//!
//! The code is no part of the program: it is not in [`Elf::text`](crate::elf::Elf::text), and no analysis
//! sees it. The data begins with what the rewriter tells the runtime
//! (`relive_abi::parameters::Parameters`): first the flag that the program is rewritten, then where its counters and its
//! profile are; zeros as long as it is not.

use crate::elf::Segment;
use relive_code::addr::{AddrRange, LinkAddr};

/// How the note begins: the lengths of its name and of what it says, its type, and its name.
pub const HEADER: [u8; 20] = *b"\x07\0\0\0\x20\0\0\0\x01\0\0\0relive\0\0";

/// The length of the flag.
const FLAG: usize = 8;

/// Where the runtime is that was linked in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prepared {
    /// Its code, and constants behind it.
    pub code: AddrRange,
    /// Its data, as far as there are bytes in the file.
    pub data: AddrRange,
    /// Whether a rewriter has set it to work.
    pub in_use: bool,
}

impl Prepared {
    /// Looks for the note in notes that are loaded at `at`.
    pub(crate) fn find(at: LinkAddr, notes: &[u8], segments: &[Segment<'_>]) -> Option<Self> {
        let found = notes.windows(HEADER.len()).position(|bytes| bytes == HEADER)? + HEADER.len();
        let word = |n: usize| {
            let bytes = notes.get(found + 8 * n..)?.first_chunk()?;
            Some((at.offset((found + 8 * n) as u64), u64::from_le_bytes(*bytes)))
        };
        // What cannot be true is not believed.
        let part = |n: usize, fits: &dyn Fn(&Segment<'_>) -> bool| {
            let ((here, distance), (_, len)) = (word(n)?, word(n + 1)?);
            let start = LinkAddr(here.0.wrapping_add(distance));
            let segment = segments.iter().find(|s| s.range.contains(start))?;
            let bytes = segment.data.get(start.since(segment.range.start) as usize..)?;
            let bytes = bytes.get(..usize::try_from(len).ok()?)?;
            fits(segment).then_some((AddrRange::sized(start, len), bytes))
        };
        let (code, _) = part(0, &|s| s.executable)?;
        let (data, bytes) = part(2, &|s| s.writable)?;
        Some(Self { code, data, in_use: bytes.iter().take(FLAG).any(|&b| b != 0) })
    }
}
