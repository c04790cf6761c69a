//! The engine as a file, and how it looks in memory.

use object::LittleEndian;
use object::elf::{PT_LOAD, R_X86_64_RELATIVE, SHT_RELA};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, Rela, SectionHeader};

const FILE: &[u8] = include_bytes!(env!("RELIVE_ENGINE_IMAGE"));

/// The engine's memory, as if it lay at address 0.
pub(crate) struct Image {
    bytes: Vec<u8>,
    /// Words that hold an address, and which.
    addresses: Vec<(u64, u64)>,
    /// Where it is entered.
    pub(crate) entry: u64,
}

impl Image {
    /// Reads the engine.
    pub(crate) fn new() -> Self {
        let file = ElfFile64::<LittleEndian>::parse(FILE).expect("built with this program");
        let (endian, header) = (LittleEndian, file.elf_header());
        let mut bytes = Vec::new();
        for segment in file.elf_program_headers().iter().filter(|s| s.p_type(endian) == PT_LOAD) {
            let (at, len) = (segment.p_vaddr(endian) as usize, segment.p_memsz(endian) as usize);
            bytes.resize(bytes.len().max(at + len), 0);
            let data = segment.data(endian, FILE).expect("built with this program");
            bytes[at..at + data.len()].copy_from_slice(data);
        }
        let mut addresses = Vec::new();
        for section in file.elf_section_table().iter().filter(|s| s.sh_type(endian) == SHT_RELA) {
            let Ok(Some((entries, _))) = section.rela(endian, FILE) else { continue };
            for entry in entries {
                assert_eq!(entry.r_type(endian, false), R_X86_64_RELATIVE, "the engine needs nothing else");
                addresses.push((entry.r_offset(endian), entry.r_addend(endian) as u64));
            }
        }
        Self { bytes, addresses, entry: header.e_entry(endian) }
    }

    /// How much memory it takes.
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Its memory at an address.
    pub(crate) fn at(&self, base: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for &(at, to) in &self.addresses {
            bytes[at as usize..][..8].copy_from_slice(&(base + to).to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_can_be_read() {
        let image = Image::new();
        assert!(image.entry > 0 && image.entry < image.len());
        assert!(!image.addresses.is_empty());
        let at = image.at(0x10_0000);
        let (word, to) = image.addresses[0];
        assert_eq!(at[word as usize..][..8], (0x10_0000 + to).to_le_bytes());
    }
}
