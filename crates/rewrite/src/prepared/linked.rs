//! Finds the runtime in a prepared binary.

use super::parts::{Parts, Piece};
use relive_code::addr::LinkAddr;
use relive_image::image::Image;
use relive_image::prepared::Prepared;

/// Why the runtime that was linked in cannot be used. Another one is added then, as to any other program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unusable {
    /// It is not the one of this program.
    #[error("it is of another version of relive")]
    OtherVersion,
    /// The binary has been rewritten before.
    #[error("it is in use: the file is a rewritten one")]
    InUse,
}

/// The runtime in a prepared binary.
pub struct Linked {
    at: Prepared,
    parts: Parts,
}

impl Linked {
    /// Looks for `runtime` in `image`; `None` if the binary is not prepared.
    #[must_use]
    pub fn find(image: &Image<'_>, runtime: &[u8]) -> Option<Result<Self, Unusable>> {
        let at = image.elf.prepared?;
        if at.in_use {
            return Some(Err(Unusable::InUse));
        }
        let parts = Parts::of(runtime).ok().filter(|parts| is_here(image, &at, parts));
        Some(parts.map(|parts| Self { at, parts }).ok_or(Unusable::OtherVersion))
    }

    /// Where an address of the runtime is in the binary.
    #[must_use]
    pub(crate) fn address(&self, at: LinkAddr) -> Option<LinkAddr> {
        match self.parts.place(at)? {
            (Piece::Code, offset) => Some(self.at.code.start.offset(offset)),
            (Piece::Data, offset) => Some(self.at.data.start.offset(offset)),
            (Piece::Zero, _) => None,
        }
    }
}

/// Whether the binary has the same code and data, but for the distances that its linker filled in.
fn is_here(image: &Image<'_>, at: &Prepared, parts: &Parts) -> bool {
    let same = |start: LinkAddr, piece: Piece, expected: &[u8]| {
        let Some(bytes) = image.elf.bytes_in(start, expected.len() as u64) else { return false };
        let mut bytes = bytes.to_vec();
        for reference in parts.references.iter().filter(|r| r.from == piece) {
            bytes[reference.at as usize..][..4].fill(0);
        }
        bytes == expected
    };
    let lens = (at.code.len(), at.data.len()) == (parts.len(Piece::Code), parts.len(Piece::Data));
    lens && same(at.code.start, Piece::Code, &parts.code) && same(at.data.start, Piece::Data, &parts.data)
}
