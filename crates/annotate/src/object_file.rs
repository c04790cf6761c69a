//! Relocatable object files, taken apart and put together again.

use object::elf::{self, FileHeader64, ProgramHeader64, Rela64, SectionHeader64, Sym64};
use object::pod::{bytes_of, slice_from_all_bytes};
use object::read::elf::{FileHeader as _, SectionHeader as _, Sym as _};
use object::{LittleEndian as LE, U16, U32, U64};
use std::borrow::Cow;

/// Why a file is not one, or not sound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// Not a relocatable x86-64 file. Linkers take other things too.
    #[error("it is not a relocatable x86-64 object file")]
    NotAnObject,
    /// Something in it points to where nothing is.
    #[error("{what} of the object file is damaged")]
    Damaged {
        /// What.
        what: &'static str,
    },
}

fn damaged<T>(what: &'static str) -> impl FnOnce(T) -> ObjectError {
    move |_| ObjectError::Damaged { what }
}

/// A section.
#[derive(Clone, Debug)]
pub struct Section<'d> {
    /// Its name.
    pub name: Cow<'d, [u8]>,
    /// Its header. Name, offset and size in it mean nothing: they are made when the file is written.
    pub header: SectionHeader64<LE>,
    /// Its bytes; none if it has none in the file.
    pub data: Cow<'d, [u8]>,
}

impl Section<'_> {
    /// Its type.
    #[must_use]
    pub fn kind(&self) -> elf::SectionType {
        self.header.sh_type(LE)
    }

    /// Whether it has one of these flags.
    #[must_use]
    pub fn has(&self, flags: elf::SectionFlags) -> bool {
        self.header.sh_flags(LE).0 & flags.0 != 0
    }

    /// Whether it is loaded.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.has(elf::SHF_ALLOC)
    }

    /// Whether it holds code.
    #[must_use]
    pub fn is_code(&self) -> bool {
        self.is_loaded() && self.has(elf::SHF_EXECINSTR) && self.kind() == elf::SHT_PROGBITS
    }

    /// How much memory it takes.
    #[must_use]
    pub fn len(&self) -> u64 {
        if self.kind() == elf::SHT_NOBITS { self.header.sh_size(LE) } else { self.data.len() as u64 }
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its bytes as relocations.
    pub fn relocations(&self) -> Result<&[Rela64<LE>], ObjectError> {
        slice_from_all_bytes(&self.data).map_err(damaged("a section of relocations"))
    }
}

/// A relocatable object file.
#[derive(Clone, Debug)]
pub struct ObjectFile<'d> {
    header: FileHeader64<LE>,
    /// Its sections, the empty one at the start included.
    pub sections: Vec<Section<'d>>,
    /// The index of the symbol table; zero if there is none.
    pub symbol_table: usize,
    /// The index of the table of section names.
    names: usize,
}

impl<'d> ObjectFile<'d> {
    /// Takes `data` apart.
    ///
    /// # Errors
    /// If it is not an x86-64 relocatable object file, or damaged.
    pub fn parse(data: &'d [u8]) -> Result<Self, ObjectError> {
        let header = FileHeader64::<LE>::parse(data).map_err(|_| ObjectError::NotAnObject)?;
        if !header.is_little_endian()
            || header.e_machine(LE) != elf::EM_X86_64
            || header.e_type(LE) != elf::ET_REL
        {
            return Err(ObjectError::NotAnObject);
        }
        let table = header.sections(LE, data).map_err(damaged("the section table"))?;
        let mut sections = Vec::with_capacity(table.len());
        for section in table.iter() {
            let name = table.section_name(LE, section).map_err(damaged("the name of a section"))?;
            let bytes = section.data(LE, data).map_err(damaged("a section"))?;
            sections.push(Section {
                name: Cow::Borrowed(name),
                header: *section,
                data: Cow::Borrowed(bytes),
            });
        }
        let symbol_table = sections.iter().position(|s| s.kind() == elf::SHT_SYMTAB).unwrap_or(0);
        let names = header.shstrndx(LE, data).map_err(damaged("the section table"))? as usize;
        Ok(Self { header: *header, sections, symbol_table, names })
    }

    /// Its symbols, the empty one at the start included.
    pub fn symbols(&self) -> Result<&[Sym64<LE>], ObjectError> {
        match self.symbol_table {
            0 => Ok(&[]),
            table => slice_from_all_bytes(&self.sections[table].data).map_err(damaged("the symbol table")),
        }
    }

    /// The section that a symbol is defined in, if it is in any.
    #[must_use]
    pub fn section_of(&self, index: usize, symbol: &Sym64<LE>) -> Option<usize> {
        let section = match symbol.st_shndx(LE) {
            elf::SHN_UNDEF => return None,
            elf::SHN_XINDEX => {
                let long = self.sections.iter().find(|s| s.kind() == elf::SHT_SYMTAB_SHNDX)?;
                let word = long.data.get(index * 4..)?.first_chunk()?;
                u32::from_le_bytes(*word) as usize
            }
            elf::SymbolSection(reserved) if reserved >= elf::SHN_LORESERVE => return None,
            elf::SymbolSection(section) => section.into(),
        };
        (section < self.sections.len()).then_some(section)
    }

    /// The name of a symbol.
    #[must_use]
    pub fn symbol_name(&self, symbol: &Sym64<LE>) -> &[u8] {
        let strings = self.sections[self.symbol_table].header.sh_link(LE) as usize;
        let bytes = self.sections.get(strings).map_or(&[][..], |s| &s.data);
        let bytes = bytes.get(symbol.st_name(LE) as usize..).unwrap_or_default();
        &bytes[..bytes.iter().position(|&byte| byte == 0).unwrap_or(0)]
    }

    /// Puts it together.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        self.write_as(elf::ET_REL, &[])
    }

    /// Puts it together as a file of that type. If sections have addresses, those that are loaded get a segment each.
    #[must_use]
    pub(crate) fn write_as(&self, kind: elf::FileType, addresses: &[u64]) -> Vec<u8> {
        let is_loaded =
            |(index, section): &(usize, &Section<'_>)| *index < addresses.len() && section.is_loaded();
        let segment_count = self.sections.iter().enumerate().filter(is_loaded).count();
        let mut file =
            vec![0; size_of::<FileHeader64<LE>>() + segment_count * size_of::<ProgramHeader64<LE>>()];
        let (mut headers, mut segments): (Vec<SectionHeader64<LE>>, Vec<ProgramHeader64<LE>>) =
            Default::default();
        // Some assemblers have one table of strings for everything.
        let is_shared = self.sections[self.symbol_table].header.sh_link(LE) as usize == self.names;
        let mut names = match (self.sections.get(self.names), is_shared) {
            (Some(names), true) => names.data.to_vec(),
            _ => vec![0],
        };
        for (index, section) in self.sections.iter().enumerate() {
            let mut out = section.header;
            if index == 0 {
                headers.push(out);
                continue;
            }
            let align = section.header.sh_addralign(LE).clamp(1, MOST_ALIGNED) as usize;
            file.resize(file.len().next_multiple_of(align), 0);
            out.sh_name = U32::new(LE, names.len() as u32);
            names.extend_from_slice(&section.name);
            names.push(0);
            out.sh_offset = U64::new(LE, file.len() as u64);
            out.sh_addr = U64::new(LE, addresses.get(index).copied().unwrap_or(0));
            out.sh_size = U64::new(LE, section.len());
            if index != self.names {
                file.extend_from_slice(&section.data);
            }
            if is_loaded(&(index, section)) {
                segments.push(segment(&out, section));
            }
            headers.push(out);
        }
        if let Some(out) = headers.get_mut(self.names) {
            out.sh_offset = U64::new(LE, file.len() as u64);
            out.sh_size = U64::new(LE, names.len() as u64);
        }
        file.extend_from_slice(&names);
        file.resize(file.len().next_multiple_of(8), 0);
        let mut header = self.header;
        header.e_type = U16::new(LE, kind);
        header.e_shoff = U64::new(LE, file.len() as u64);
        // More than fit are counted in the first header.
        let fits = headers.len() < usize::from(elf::SHN_LORESERVE);
        header.e_shnum = U16::new(LE, if fits { headers.len() as u16 } else { 0 });
        headers[0].sh_size = U64::new(LE, if fits { 0 } else { headers.len() as u64 });
        if !segments.is_empty() {
            header.e_phoff = U64::new(LE, size_of::<FileHeader64<LE>>() as u64);
            header.e_phnum = U16::new(LE, segments.len() as u16);
            header.e_phentsize = U16::new(LE, size_of::<ProgramHeader64<LE>>() as u16);
        }
        headers.iter().for_each(|out| file.extend_from_slice(bytes_of(out)));
        let front = std::iter::once(bytes_of(&header)).chain(segments.iter().map(bytes_of)).flatten();
        file.iter_mut().zip(front).for_each(|(byte, &front)| *byte = front);
        file
    }
}

/// A section that wants to be aligned further lies at a multiple of this in the file.
const MOST_ALIGNED: u64 = 4096;

fn segment(out: &SectionHeader64<LE>, section: &Section<'_>) -> ProgramHeader64<LE> {
    let mut flags = elf::PF_R;
    if section.has(elf::SHF_EXECINSTR) {
        flags |= elf::PF_X;
    }
    if section.has(elf::SHF_WRITE) {
        flags |= elf::PF_W;
    }
    ProgramHeader64 {
        p_type: U32::new(LE, elf::PT_LOAD),
        p_flags: U32::new(LE, flags),
        p_offset: out.sh_offset,
        p_vaddr: out.sh_addr,
        p_paddr: out.sh_addr,
        p_filesz: U64::new(LE, section.data.len() as u64),
        p_memsz: out.sh_size,
        p_align: U64::new(LE, 1),
    }
}
