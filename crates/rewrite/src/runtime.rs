//! The runtime in the rewritten file: copied into it, or linked in before.

use crate::elf_file::{Changes, NewSection, NewSegment};
use crate::prepared::Linked;
use object::elf::{self, PF_W, PF_X};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{LittleEndian, Object as _, ObjectSymbol as _};
use relive_code::addr::{AddrRange, LinkAddr};

/// The linked runtime, taken apart.
pub struct Runtime<'d> {
    bytes: &'d [u8],
    /// Its segments: address in the image, length in memory, bytes, and flags.
    pub segments: Vec<(u64, u64, &'d [u8], u32)>,
}

impl<'d> Runtime<'d> {
    /// Takes the image apart.
    ///
    /// # Errors
    /// If it is not what it should be; it is part of this program, so that does not happen.
    pub fn parse(bytes: &'d [u8]) -> object::read::Result<Self> {
        let header = elf::FileHeader64::<LittleEndian>::parse(bytes)?;
        let endian = header.endian()?;
        let mut segments = Vec::new();
        for segment in header.program_headers(endian, bytes)? {
            if segment.p_type(endian) == elf::PT_LOAD {
                let data = segment.data(endian, bytes).unwrap_or_default();
                let flags = segment.p_flags(endian).0;
                segments.push((segment.p_vaddr(endian), segment.p_memsz(endian), data, flags));
            }
        }
        Ok(Self { bytes, segments })
    }

    /// How much room it takes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.segments.iter().map(|(at, len, ..)| relive_abi::page_up(at + len)).max().unwrap_or(0)
    }

    /// Whether it is nothing at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The address of a symbol in the image.
    #[must_use]
    pub fn symbol(&self, name: &str) -> Option<LinkAddr> {
        let file = object::File::parse(self.bytes).ok()?;
        file.symbol_by_name(name).map(|symbol| LinkAddr(symbol.address()))
    }

    /// The image itself.
    #[must_use]
    pub fn bytes(&self) -> &'d [u8] {
        self.bytes
    }
}

/// Where the runtime is in the rewritten file.
pub(crate) enum Home<'l> {
    /// All of it was copied there.
    Copied(LinkAddr),
    /// It was linked in before.
    Linked(&'l Linked),
}

impl Home<'_> {
    /// Where an address of the runtime is, unless that is of no use to anybody else.
    pub(crate) fn address(&self, at: LinkAddr) -> Option<LinkAddr> {
        match self {
            Self::Copied(base) => Some(base.offset(at.0)),
            Self::Linked(linked) => linked.address(at),
        }
    }

    /// How much room must be made for `runtime`.
    pub(crate) fn added_len(&self, runtime: &Runtime<'_>) -> u64 {
        if matches!(self, Self::Copied(_)) { runtime.len() } else { 0 }
    }

    /// How many segments are added for `runtime`.
    pub(crate) fn added_segments(&self, runtime: &Runtime<'_>) -> usize {
        if matches!(self, Self::Copied(_)) { runtime.segments.len() } else { 0 }
    }

    /// Puts `runtime` into the file, if it is not there, and `parameters` into the runtime.
    pub(crate) fn settle(
        &self,
        runtime: &Runtime<'_>,
        parameters_at: LinkAddr,
        parameters: Vec<u8>,
        changes: &mut Changes<'_>,
    ) {
        let Self::Copied(base) = self else {
            changes.patches.push((parameters_at, parameters));
            return;
        };
        for &(at, len, bytes, flags) in &runtime.segments {
            let at = base.offset(at);
            // What is zero at the start has no bytes in the file.
            let shown = if flags & PF_W.0 != 0 { bytes.len() as u64 } else { len };
            changes.sections.push(match (flags & PF_X.0 != 0, flags & PF_W.0 != 0) {
                (true, _) => NewSection::new(".relive.runtime.text", at, shown).code(),
                (_, true) => NewSection::new(".relive.runtime.data", at, shown).writable(),
                _ => NewSection::new(".relive.runtime.rodata", at, shown),
            });
            let mut bytes = bytes.to_vec();
            if AddrRange::sized(at, len).contains(parameters_at) {
                let field = parameters_at.since(at) as usize;
                bytes.resize(bytes.len().max(field + parameters.len()), 0);
                bytes[field..][..parameters.len()].copy_from_slice(&parameters);
            }
            changes.segments.push(NewSegment { at, len, bytes, flags });
        }
    }
}
