//! Writes the new file: the old one with patches, then new segments, then sections and symbols for them.
//!
//! Data never moves. New segments lie behind everything old, in memory and in the file at the same distance
//! from the start, because the kernel tells a program where its program headers are by that distance.

use object::LittleEndian as LE;
use object::elf;
use object::pod;
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _};
use relive_code::addr::LinkAddr;
use std::borrow::Cow;

type Header = elf::FileHeader64<LE>;
type Segment = elf::ProgramHeader64<LE>;
type Section = elf::SectionHeader64<LE>;
type Symbol = elf::Sym64<LE>;

/// A segment to be added.
pub struct NewSegment {
    /// Where it is loaded, a multiple of the page size.
    pub at: LinkAddr,
    /// Its bytes; what is missing up to `len` is zero.
    pub bytes: Vec<u8>,
    /// Its length in memory.
    pub len: u64,
    /// `PF_R`, `PF_W`, `PF_X`.
    pub flags: u32,
}

/// A section to be added.
pub struct NewSection {
    /// Its name.
    pub name: &'static str,
    /// Where it is.
    pub at: LinkAddr,
    /// How long.
    pub len: u64,
    /// Whether it holds code.
    pub code: bool,
    /// Whether it can be written.
    pub writable: bool,
    /// Whether it has no bytes in the file.
    pub zero: bool,
}

impl NewSection {
    /// A section that is only read.
    #[must_use]
    pub fn new(name: &'static str, at: LinkAddr, len: u64) -> Self {
        Self { name, at, len, code: false, writable: false, zero: false }
    }

    /// That holds code.
    #[must_use]
    pub fn code(self) -> Self {
        Self { code: true, ..self }
    }

    /// That can be written.
    #[must_use]
    pub fn writable(self) -> Self {
        Self { writable: true, ..self }
    }

    /// That can be written, and has no bytes in the file.
    #[must_use]
    pub fn zero(self) -> Self {
        Self { zero: true, writable: true, ..self }
    }
}

/// A function symbol to be added.
pub struct NewSymbol<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// What comes behind the name.
    pub suffix: &'static str,
    /// Where it is.
    pub at: LinkAddr,
    /// How long.
    pub len: u64,
}

/// Why a file cannot be rewritten.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Unwritable {
    /// The old file is not laid out as it must be.
    #[error("{0}")]
    Layout(&'static str),
}

/// The old file, taken apart.
pub struct Old<'d> {
    bytes: &'d [u8],
    header: &'d Header,
    segments: &'d [Segment],
    sections: &'d [Section],
    /// The distance between addresses and places in the file, for the first segment.
    base: u64,
    /// The first address that is free for new segments.
    pub free: LinkAddr,
}

impl<'d> Old<'d> {
    /// Takes the file apart.
    ///
    /// # Errors
    /// If it is not laid out as it must be.
    pub fn parse(bytes: &'d [u8]) -> Result<Self, Unwritable> {
        let layout = |_| Unwritable::Layout("its headers are damaged");
        let header = Header::parse(bytes).map_err(layout)?;
        let segments = header.program_headers(LE, bytes).map_err(layout)?;
        // Section headers are a help, not a need.
        let sections = header.section_headers(LE, bytes).unwrap_or_default();
        let loaded = || segments.iter().filter(|s| s.p_type(LE) == elf::PT_LOAD);
        let first = loaded().next().ok_or(Unwritable::Layout("it has no segment to load"))?;
        let base = first
            .p_vaddr(LE)
            .checked_sub(first.p_offset(LE))
            .ok_or(Unwritable::Layout("its first segment lies too low"))?;
        let end = loaded().map(|s| s.p_vaddr(LE) + s.p_memsz(LE)).max().unwrap_or(0);
        let free = relive_abi::page_up(end.max(base + bytes.len() as u64)) + relive_abi::PAGE;
        Ok(Self { bytes, header, segments, sections, base, free: LinkAddr(free) })
    }

    /// How much room the program headers take once `added` have been added.
    #[must_use]
    pub fn headers_len(&self, added: usize) -> u64 {
        // One for the search table of a static program that had none.
        ((self.segments.len() + added + 1) * size_of::<Segment>()) as u64
    }

    /// Where an address lies in the file.
    #[must_use]
    pub fn offset(&self, at: LinkAddr) -> Option<usize> {
        let loaded = self.segments.iter().filter(|s| s.p_type(LE) == elf::PT_LOAD);
        loaded
            .filter(|s| s.p_vaddr(LE) <= at.0 && at.0 < s.p_vaddr(LE) + s.p_filesz(LE))
            .map(|s| (at.0 - s.p_vaddr(LE) + s.p_offset(LE)) as usize)
            .next()
    }
}

/// Everything that changes.
#[derive(Default)]
pub struct Changes<'a> {
    /// Bytes to write over old ones, by address.
    pub patches: Vec<(LinkAddr, Vec<u8>)>,
    /// New segments by address; the program headers go to the start of one of them.
    pub segments: Vec<NewSegment>,
    /// Which of them.
    pub headers_in: usize,
    /// New sections.
    pub sections: Vec<NewSection>,
    /// New symbols; all are in the section with this index among the new ones.
    pub symbols: Vec<NewSymbol<'a>>,
    /// Which.
    pub symbols_in: usize,
    /// The entry, if it changes.
    pub entry: Option<LinkAddr>,
    /// The search table of the new unwind section.
    pub eh_frame_hdr: Option<(LinkAddr, u64)>,
}

/// Old sections that are replaced keep their bytes under another name.
const REPLACED: &[(&str, &str)] = &[
    (".eh_frame", ".relive.org.eh_frame"),
    (".eh_frame_hdr", ".relive.org.eh_frame_hdr"),
    (".annotate", ".relive.org.annotate"),
];

/// Writes the new file.
#[must_use]
pub fn write(old: &Old<'_>, mut changes: Changes<'_>) -> Vec<u8> {
    let end = changes
        .segments
        .iter()
        .filter(|new| !new.bytes.is_empty())
        .map(|new| (new.at.0 - old.base) as usize + new.bytes.len());
    // Symbols and section headers come behind: about as many as there were.
    let mut out = Vec::with_capacity(end.max().unwrap_or(0) + old.bytes.len() / 4);
    out.extend(old.bytes);
    for (at, bytes) in &changes.patches {
        if let Some(place) = old.offset(*at) {
            out[place..place + bytes.len()].copy_from_slice(bytes);
        }
    }
    let mut header = *old.header;
    let segments = program_headers(old, &changes);
    for new in changes.segments.iter_mut().filter(|new| !new.bytes.is_empty()) {
        let place = (new.at.0 - old.base) as usize;
        out.resize(out.len().max(place), 0);
        debug_assert!(out.len() == place, "segments are written in order");
        out.extend(std::mem::take(&mut new.bytes));
    }
    let headers_at = changes.segments[changes.headers_in].at.0 - old.base;
    let bytes = pod::bytes_of_slice(&segments);
    out[headers_at as usize..][..bytes.len()].copy_from_slice(bytes);
    header.e_phoff.set(LE, headers_at);
    header.e_phnum.set(LE, segments.len() as u16);
    if let Some(entry) = changes.entry {
        header.e_entry.set(LE, entry.0);
    }
    sections(old, &changes, &mut header, &mut out);
    out[..size_of::<Header>()].copy_from_slice(pod::bytes_of(&header));
    out
}

fn program_headers(old: &Old<'_>, changes: &Changes<'_>) -> Vec<Segment> {
    let mut segments = Vec::new();
    let headers = &changes.segments[changes.headers_in];
    let mut has_search_table = false;
    let last = old.segments.iter().rposition(|s| s.p_type(LE) == elf::PT_LOAD).unwrap_or(0);
    let len = old.headers_len(changes.segments.len());
    for (i, segment) in old.segments.iter().enumerate() {
        let (kind, mut segment) = (segment.p_type(LE), *segment);
        let mut place = |at: LinkAddr, len: u64| {
            segment.p_vaddr.set(LE, at.0);
            segment.p_paddr.set(LE, at.0);
            segment.p_offset.set(LE, at.0 - old.base);
            segment.p_filesz.set(LE, len);
            segment.p_memsz.set(LE, len);
        };
        match kind {
            elf::PT_PHDR => place(headers.at, len),
            elf::PT_GNU_EH_FRAME => {
                has_search_table = true;
                if let Some((at, len)) = changes.eh_frame_hdr {
                    place(at, len);
                }
            }
            _ => {}
        }
        segments.push(segment);
        if i == last {
            segments.extend(changes.segments.iter().map(|new| load(old, new)));
        }
    }
    // The table's length was announced before it was known whether this one is needed.
    let spare = match changes.eh_frame_hdr {
        Some((at, len)) if !has_search_table => segment(elf::PT_GNU_EH_FRAME, old, at, len),
        _ => segment(elf::PT_NULL, old, LinkAddr(old.base), 0),
    };
    segments.push(spare);
    segments
}

/// A header for memory that is only read.
fn segment(kind: elf::ProgramType, old: &Old<'_>, at: LinkAddr, len: u64) -> Segment {
    let mut segment: Segment = zeroed();
    segment.p_type.set(LE, kind);
    segment.p_flags.set(LE, elf::PF_R);
    segment.p_offset.set(LE, at.0 - old.base);
    segment.p_vaddr.set(LE, at.0);
    segment.p_paddr.set(LE, at.0);
    segment.p_filesz.set(LE, len);
    segment.p_memsz.set(LE, len);
    segment.p_align.set(LE, 4);
    segment
}

fn zeroed<T: pod::Pod + Copy>() -> T {
    let zeros = [0; 64];
    // Every structure of the format is made of bytes and no longer than that.
    *pod::from_bytes::<T>(&zeros).expect("plain bytes").0
}

fn null_section() -> Section {
    zeroed()
}

fn null_symbol() -> Symbol {
    zeroed()
}

fn load(old: &Old<'_>, new: &NewSegment) -> Segment {
    let mut segment = segment(elf::PT_LOAD, old, new.at, new.len);
    segment.p_filesz.set(LE, new.bytes.len() as u64);
    segment.p_flags.set(LE, elf::ProgramFlags(new.flags));
    segment.p_align.set(LE, relive_abi::PAGE);
    if new.bytes.is_empty() {
        // Where nothing is read from is not checked, but what is there should be in step with the address.
        segment.p_offset.set(LE, 0);
    }
    segment
}

fn sections(old: &Old<'_>, changes: &Changes<'_>, header: &mut Header, out: &mut Vec<u8>) {
    let names_at = usize::from(header.e_shstrndx.get(LE).0);
    let old_names: &[u8] =
        old.sections.get(names_at).and_then(|s| s.data(LE, old.bytes).ok()).unwrap_or_default();
    let mut names = if old_names.is_empty() { vec![0] } else { old_names.to_vec() };
    let mut name = |text: &str| {
        let at = names.len() as u32;
        names.extend(text.as_bytes());
        names.push(0);
        at
    };
    let mut sections: Vec<Section> = old.sections.to_vec();
    if sections.is_empty() {
        sections.push(null_section());
    }
    for section in &mut sections {
        let old_name = old_names.get(section.sh_name.get(LE) as usize..).unwrap_or_default();
        for (from, to) in REPLACED {
            if old_name.starts_with(from.as_bytes()) && old_name.get(from.len()) == Some(&0) {
                section.sh_name.set(LE, name(to));
            }
        }
        // Link relocations speak of old places and old symbols.
        if section.sh_type(LE) == elf::SHT_RELA && section.sh_flags(LE).0 & elf::SHF_ALLOC.0 == 0 {
            section.sh_type.set(LE, elf::SHT_PROGBITS);
        }
    }
    let first_new = sections.len();
    for new in &changes.sections {
        let mut section = null_section();
        section.sh_name.set(LE, name(new.name));
        section.sh_type.set(LE, if new.zero { elf::SHT_NOBITS } else { elf::SHT_PROGBITS });
        let mut flags = elf::SHF_ALLOC.0;
        if new.code {
            flags |= elf::SHF_EXECINSTR.0;
        }
        if new.writable {
            flags |= elf::SHF_WRITE.0;
        }
        section.sh_flags.set(LE, elf::SectionFlags(flags));
        section.sh_addr.set(LE, new.at.0);
        section.sh_offset.set(LE, new.at.0 - old.base);
        section.sh_size.set(LE, new.len);
        section.sh_addralign.set(LE, 16);
        sections.push(section);
    }
    symbols(old, changes, (first_new + changes.symbols_in) as u16, &mut sections, &mut name, out);
    let mut section = null_section();
    section.sh_name.set(LE, name(".shstrtab"));
    section.sh_type.set(LE, elf::SHT_STRTAB);
    section.sh_offset.set(LE, out.len() as u64);
    section.sh_size.set(LE, names.len() as u64);
    section.sh_addralign.set(LE, 1);
    out.extend(&names);
    if old.sections.is_empty() {
        header.e_shstrndx.set(LE, elf::SymbolSection(sections.len() as u16));
        sections.push(section);
    } else {
        let mut replaced = section;
        replaced.sh_name = sections[names_at].sh_name;
        sections[names_at] = replaced;
    }
    out.resize(out.len().next_multiple_of(8), 0);
    header.e_shoff.set(LE, out.len() as u64);
    header.e_shnum.set(LE, sections.len() as u16);
    header.e_shentsize.set(LE, size_of::<Section>() as u16);
    out.extend(pod::bytes_of_slice(&sections));
}

/// Adds symbols to the old table, or makes one. Local symbols come first, as they must.
fn symbols(
    old: &Old<'_>,
    changes: &Changes<'_>,
    section: u16,
    sections: &mut Vec<Section>,
    name: &mut impl FnMut(&str) -> u32,
    out: &mut Vec<u8>,
) {
    let table = sections.iter().position(|s| s.sh_type(LE) == elf::SHT_SYMTAB);
    let (mut locals, mut globals, mut strings) = (Vec::new(), Vec::new(), vec![0]);
    if let Some(table) = table {
        let old_table = &sections[table];
        let data = old_table.data(LE, old.bytes).unwrap_or_default();
        let count = data.len() / size_of::<Symbol>();
        if let Ok((all, _)) = pod::slice_from_bytes::<Symbol>(data, count) {
            let first_global = (old_table.sh_info(LE) as usize).min(all.len());
            locals = all[..first_global].to_vec();
            globals = all[first_global..].to_vec();
        }
        if let Some(old_strings) = sections.get(old_table.sh_link(LE) as usize) {
            strings = old_strings.data(LE, old.bytes).unwrap_or(&[0]).to_vec();
        }
    }
    if locals.is_empty() {
        locals.push(null_symbol());
    }
    for new in &changes.symbols {
        let mut symbol = null_symbol();
        symbol.st_name.set(LE, strings.len() as u32);
        strings.extend(new.name.as_bytes());
        strings.extend(new.suffix.as_bytes());
        strings.push(0);
        symbol.st_info = elf::SymbolInfo(elf::STT_FUNC.0); // local
        symbol.st_shndx.set(LE, elf::SymbolSection(section));
        symbol.st_value.set(LE, new.at.0);
        symbol.st_size.set(LE, new.len);
        locals.push(symbol);
    }
    let mut new_table = null_section();
    new_table.sh_type.set(LE, elf::SHT_SYMTAB);
    new_table.sh_info.set(LE, locals.len() as u32);
    new_table.sh_entsize.set(LE, size_of::<Symbol>() as u64);
    new_table.sh_addralign.set(LE, 8);
    out.resize(out.len().next_multiple_of(8), 0);
    new_table.sh_offset.set(LE, out.len() as u64);
    new_table.sh_size.set(LE, ((locals.len() + globals.len()) * size_of::<Symbol>()) as u64);
    out.extend(pod::bytes_of_slice(&locals));
    out.extend(pod::bytes_of_slice(&globals));
    let mut new_strings = null_section();
    new_strings.sh_type.set(LE, elf::SHT_STRTAB);
    new_strings.sh_offset.set(LE, out.len() as u64);
    new_strings.sh_size.set(LE, strings.len() as u64);
    new_strings.sh_addralign.set(LE, 1);
    out.extend(&strings);
    match table {
        Some(table) => {
            let link = sections[table].sh_link(LE) as usize;
            new_table.sh_name = sections[table].sh_name;
            new_table.sh_link.set(LE, link as u32);
            sections[table] = new_table;
            if let Some(section) = sections.get_mut(link) {
                new_strings.sh_name = section.sh_name;
                *section = new_strings;
            }
        }
        None => {
            new_strings.sh_name.set(LE, name(".strtab"));
            new_table.sh_name.set(LE, name(".symtab"));
            new_table.sh_link.set(LE, sections.len() as u32);
            sections.push(new_strings);
            sections.push(new_table);
        }
    }
}
