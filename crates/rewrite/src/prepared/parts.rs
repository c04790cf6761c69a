//! The runtime taken apart: its sections, and where they refer to each other.
//!
//! References inside a section need nothing. Those between sections are kept by the link of the
//! runtime (`--emit-relocs`) and are left open here, so that linkers may put the pieces wherever they like.

use object::elf::{
    R_X86_64_GOTPCRELX, R_X86_64_PC32, R_X86_64_PLT32, R_X86_64_REX_GOTPCRELX, SHF_ALLOC, SHF_WRITE,
    SHT_NOBITS, SHT_PROGBITS,
};
use object::read::elf::ElfFile64;
use object::{
    LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationFlags, RelocationTarget,
    SectionFlags, SectionIndex,
};
use relive_code::addr::{AddrRange, LinkAddr};

/// What sections are joined in the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    /// Code and constants.
    Code,
    /// Data with bytes in the file.
    Data,
    /// Data that is zero at first.
    Zero,
}

/// A field of four bytes that holds the distance to another section.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    pub(super) from: Piece,
    /// Where it is in its piece.
    pub(super) at: u64,
    pub(super) to: Piece,
    /// What to add to the distance between the other piece and the field.
    pub(super) addend: i64,
}

/// A section of the runtime.
struct Part {
    index: SectionIndex,
    /// Where it is in the runtime.
    range: AddrRange,
    piece: Piece,
    /// Where it is in its piece.
    offset: u64,
}

/// The pieces. Fields that refer to other sections are zero.
pub(super) struct Parts {
    pub(super) code: Vec<u8>,
    pub(super) data: Vec<u8>,
    pub(super) zeros: u64,
    /// How the pieces are to be aligned.
    aligns: [u64; 3],
    pub(super) references: Vec<Reference>,
    parts: Vec<Part>,
}

impl Parts {
    /// Takes the linked runtime apart.
    pub(super) fn of(runtime: &[u8]) -> Result<Self, String> {
        let file = ElfFile64::<LittleEndian>::parse(runtime).map_err(|e| e.to_string())?;
        let (code, data, references, parts) = Default::default();
        let mut this = Self { code, data, zeros: 0, aligns: [1; 3], references, parts };
        for section in file.sections() {
            let SectionFlags::Elf { sh_type, sh_flags } = section.flags() else { continue };
            let is_unwind = section.name().is_ok_and(|name| name.starts_with(".eh_frame"));
            if sh_flags.0 & SHF_ALLOC.0 == 0 || is_unwind {
                continue;
            }
            let piece = match sh_type {
                SHT_NOBITS => Piece::Zero,
                SHT_PROGBITS if sh_flags.0 & SHF_WRITE.0 != 0 => Piece::Data,
                SHT_PROGBITS => Piece::Code,
                // What a dynamic linker would read.
                _ => continue,
            };
            let align = section.align().max(1);
            this.aligns[piece as usize] = this.aligns[piece as usize].max(align);
            let offset = this.len(piece).next_multiple_of(align);
            let bytes = section.data().map_err(|e| e.to_string())?;
            match this.bytes(piece) {
                Some(joined) => {
                    joined.resize(offset as usize, 0);
                    joined.extend(bytes);
                }
                None => this.zeros = offset + section.size(),
            }
            let range = AddrRange::sized(LinkAddr(section.address()), section.size());
            this.parts.push(Part { index: section.index(), range, piece, offset });
        }
        this.open_references(&file)?;
        Ok(this)
    }

    fn open_references(&mut self, file: &ElfFile64<'_, LittleEndian>) -> Result<(), String> {
        for from in 0..self.parts.len() {
            let section = file.section_by_index(self.parts[from].index).map_err(|e| e.to_string())?;
            for (at, relocation) in section.relocations() {
                let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
                let symbol = file.symbol_by_index(symbol).map_err(|e| e.to_string())?;
                if symbol.section_index() == Some(section.index()) {
                    continue;
                }
                let bad = || format!("what it refers to at {at:#x} cannot be moved apart");
                // The linker has made distances of the last two, or there would be a table it refers to.
                let RelocationFlags::Elf {
                    r_type: R_X86_64_PC32 | R_X86_64_PLT32 | R_X86_64_GOTPCRELX | R_X86_64_REX_GOTPCRELX,
                } = relocation.flags()
                else {
                    return Err(bad());
                };
                let to =
                    self.parts.iter().find(|p| Some(p.index) == symbol.section_index()).ok_or_else(bad)?;
                let (start, offset, to) = (to.range.start, to.offset, to.piece);
                let Part { range, piece, offset: base, .. } = self.parts[from];
                let place = base + LinkAddr(at).since(range.start);
                let field = self.bytes(piece).and_then(|b| b.get_mut(place as usize..)?.first_chunk_mut());
                let field: &mut [u8; 4] = field.ok_or_else(bad)?;
                let target = at.wrapping_add(i64::from(i32::from_le_bytes(*field)) as u64);
                *field = [0; 4];
                let addend = target.wrapping_sub(start.0).wrapping_add(offset) as i64;
                self.references.push(Reference { from: piece, at: place, to, addend });
            }
        }
        Ok(())
    }

    fn bytes(&mut self, piece: Piece) -> Option<&mut Vec<u8>> {
        match piece {
            Piece::Code => Some(&mut self.code),
            Piece::Data => Some(&mut self.data),
            Piece::Zero => None,
        }
    }

    /// The length of a piece.
    pub(super) fn len(&self, piece: Piece) -> u64 {
        match piece {
            Piece::Code => self.code.len() as u64,
            Piece::Data => self.data.len() as u64,
            Piece::Zero => self.zeros,
        }
    }

    /// How a piece is to be aligned.
    pub(super) fn align(&self, piece: Piece) -> u64 {
        self.aligns[piece as usize]
    }

    /// Where an address of the runtime is now: the piece, and how far into it.
    pub(super) fn place(&self, at: LinkAddr) -> Option<(Piece, u64)> {
        let part = self.parts.iter().find(|p| p.range.contains(at))?;
        Some((part.piece, part.offset + at.since(part.range.start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_code::isa::Insn;
    use relive_image::image::Image;

    /// The decoder finds the same references as the linker.
    #[test]
    fn no_reference_is_missing() {
        let image = Image::parse(relive_runtime::IMAGE, None).expect("an ELF file");
        let parts = Parts::of(relive_runtime::IMAGE).expect("the runtime");
        let text = image.elf.section(".text").expect("code").range;
        let mut references: Vec<_> = parts.references.iter().map(|r| (r.at, r.to, r.addend)).collect();
        references.sort_by_key(|(at, ..)| *at);
        let mut references = references.into_iter();
        let mut at = text.start;
        while at < text.end {
            let insn = Insn::decode(image.elf.bytes_at(at), at).expect("code");
            let end = parts.place(at).expect("code").1 + insn.next_addr().since(at);
            for to in insn.address_constants(false).filter(|to| !text.contains(*to)) {
                let (place, piece, addend) =
                    references.next().unwrap_or_else(|| panic!("{at} refers to {to}"));
                assert!(place < end, "{at} refers to {to}");
                // The processor counts distances from behind the instruction, linkers from the field.
                assert_eq!(parts.place(to), Some((piece, (addend + (end - place) as i64) as u64)), "{at}");
            }
            at = insn.next_addr();
        }
        assert_eq!(references.next(), None);
        assert!(parts.references.len() > 50);
    }

    #[test]
    fn damaged_runtimes_are_refused() {
        let runtime = relive_runtime::IMAGE;
        assert!(Parts::of(&runtime[..runtime.len() / 2]).is_err());
        assert!(Parts::of(b"no ELF file").is_err());
    }
}
