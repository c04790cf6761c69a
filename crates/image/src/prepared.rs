//! Prepared binaries: relive's runtime was linked in, but nothing uses it yet.
//!
//! A note says where it is. It begins with [`header`]; behind it are four words of eight bytes, and as many zeros as
//! linkers are to leave between what comes before it and what comes behind it:
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

/// The length of what comes before the words.
pub const HEADER: usize = 20;

/// The length of the words.
pub const WORDS: usize = 32;

/// The length of the note's name; its type and the name.
const NAME: ([u8; 4], [u8; 12]) = (*b"\x07\0\0\0", *b"\x01\0\0\0relive\0\0");

/// How the note begins if there are `zeros` behind its words: the lengths of its name and of what it says, its type, and its name.
#[must_use]
pub fn header(zeros: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&NAME.0);
    header[4..8].copy_from_slice(&(WORDS as u32 + zeros).to_le_bytes());
    header[8..].copy_from_slice(&NAME.1);
    header
}

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
        let is_header = |bytes: &[u8]| bytes.starts_with(&NAME.0) && bytes.ends_with(&NAME.1);
        let found = notes.windows(HEADER).position(is_header)? + HEADER;
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

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: LinkAddr = LinkAddr(0x1000);
    const DATA: LinkAddr = LinkAddr(0x2000);
    const NOTES: LinkAddr = LinkAddr(0x500);

    fn segments(data: &[u8]) -> [Segment<'_>; 2] {
        let segment = |start, bytes, executable| Segment {
            range: AddrRange::sized(start, 0x100),
            data: bytes,
            offset: 0,
            readable: true,
            executable,
            writable: !executable,
        };
        [segment(CODE, &[0xcc; 0x80], true), segment(DATA, data, false)]
    }

    /// Another note, and the one looked for.
    fn notes(code: LinkAddr, code_len: u64, data: LinkAddr, data_len: u64) -> Vec<u8> {
        let mut notes = b"\x04\0\0\0\x04\0\0\0\x01\0\0\0GNU\0some".to_vec();
        notes.extend(header(0));
        for (to, len) in [(code, code_len), (data, data_len)] {
            let here = NOTES.offset(notes.len() as u64);
            notes.extend(to.since(here).to_le_bytes());
            notes.extend(len.to_le_bytes());
        }
        notes
    }

    #[test]
    fn the_note_is_found() {
        let found = |data: &[u8], notes: &[u8]| Prepared::find(NOTES, notes, &segments(data));
        let right = notes(CODE.offset(0x10), 0x70, DATA, 0x20);
        let code = AddrRange::sized(CODE.offset(0x10), 0x70);
        let data = AddrRange::sized(DATA, 0x20);
        assert_eq!(found(&[0; 0x20], &right), Some(Prepared { code, data, in_use: false }));
        assert!(found(&[1; 0x20], &right).is_some_and(|p| p.in_use));
        for cut in 0..right.len() {
            assert_eq!(found(&[0; 0x20], &right[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        for wrong in [
            notes(CODE, 0x81, DATA, 0x20),
            notes(CODE, u64::MAX, DATA, 0x20),
            notes(CODE.offset(0x100), 1, DATA, 0x20),
            notes(DATA, 0x20, CODE, 0x20),
            notes(CODE, 0x80, DATA, 0x21),
            notes(LinkAddr(u64::MAX), 0x80, DATA, 0x20),
        ] {
            assert_eq!(Prepared::find(NOTES, &wrong, &segments(&[0; 0x20])), None);
        }
    }
}
