//! The runtime, to be copied into the rewritten file.

use object::elf;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{LittleEndian, Object as _, ObjectSymbol as _};
use relive_code::addr::LinkAddr;

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
