//! The skeleton of an ELF file: segments, sections, the dynamic table.

use crate::error::{Complaint, ImageError};
use crate::prepared::Prepared;
use object::LittleEndian;
use object::elf;
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _, SectionHeader as _};
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::source::CodeSource;
use std::borrow::Cow;

pub(crate) type Header = elf::FileHeader64<LittleEndian>;
pub(crate) const LE: LittleEndian = LittleEndian;

/// What kind of file it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Linked for fixed addresses.
    Executable,
    /// An executable that can be loaded anywhere.
    Pie,
    /// A shared library.
    SharedObject,
}

impl Kind {
    /// A short name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Executable => "executable",
            Self::Pie => "PIE executable",
            Self::SharedObject => "shared object",
        }
    }
}

/// A loaded segment.
#[derive(Clone, Debug)]
pub struct Segment<'d> {
    /// Addresses it takes up in memory.
    pub range: AddrRange,
    /// The part of it that is in the file.
    pub data: &'d [u8],
    /// Where that part is in the file.
    pub offset: u64,
    /// Whether it can be read.
    pub readable: bool,
    /// Whether it can be executed.
    pub executable: bool,
    /// Whether it can be written.
    pub writable: bool,
}

/// A section, as the section headers describe it.
#[derive(Clone, Debug)]
pub struct Section<'d> {
    /// Its name.
    pub name: Cow<'d, str>,
    /// Its type.
    pub kind: u32,
    /// Addresses it takes up; empty if it is not loaded.
    pub range: AddrRange,
    /// Its bytes in the file.
    pub data: &'d [u8],
    /// Whether it is loaded.
    pub loaded: bool,
    /// Whether it holds code.
    pub executable: bool,
    /// Whether its bytes are compressed.
    pub compressed: bool,
    /// Another section it goes with.
    pub link: u32,
    /// More of the same.
    pub info: u32,
}

/// The skeleton of an ELF file.
pub struct Elf<'d> {
    /// The whole file.
    pub data: &'d [u8],
    /// What kind of file it is.
    pub kind: Kind,
    /// Where execution begins.
    pub entry: LinkAddr,
    /// The dynamic loader it asks for.
    pub interpreter: Option<String>,
    /// Loaded segments by address.
    pub segments: Vec<Segment<'d>>,
    /// Sections in file order, the null section included, so that indices fit; empty if stripped away.
    pub sections: Vec<Section<'d>>,
    /// Executable ranges: sections where there are any, else segments. By address, not overlapping, and without
    /// relive's runtime if that was linked in.
    pub text: Vec<AddrRange>,
    /// Entries of the dynamic table.
    pub dynamic: Vec<(elf::DynamicTag, u64)>,
    /// Made read-only once relocated.
    pub relro: Option<AddrRange>,
    /// The table that finds unwind information.
    pub eh_frame_hdr: Option<AddrRange>,
    /// Segments of notes: the bytes, and their alignment.
    pub notes: Vec<(&'d [u8], u64)>,
    /// Relive's runtime, if it was linked in.
    pub prepared: Option<Prepared>,
    /// What could not be read.
    pub complaints: Vec<Complaint>,
}

fn damaged(what: &'static str, at: u64) -> impl Fn(object::read::Error) -> ImageError {
    move |why| ImageError::Damaged { what, at, why: why.to_string() }
}

impl<'d> Elf<'d> {
    /// Reads the skeleton of the file in `data`.
    ///
    /// # Errors
    /// If it is not an x86-64 executable or shared object, or its headers are damaged.
    pub fn parse(data: &'d [u8]) -> Result<Self, ImageError> {
        let header = check_identity(data)?;
        let mut complaints = Vec::new();
        let headers_at = header.e_phoff(LE);
        let program_headers =
            header.program_headers(LE, data).map_err(damaged("program headers", headers_at))?;
        let segments = read_segments(data, program_headers, headers_at)?;
        let sections = match read_sections(header, data) {
            Ok(sections) => sections,
            Err(why) => {
                complaints.push(Complaint::new("section headers", why));
                Vec::new()
            }
        };
        let mut this = Self {
            data,
            kind: Kind::Executable,
            entry: LinkAddr(header.e_entry(LE)),
            interpreter: None,
            segments,
            sections,
            text: Vec::new(),
            dynamic: Vec::new(),
            relro: None,
            eh_frame_hdr: None,
            notes: Vec::new(),
            prepared: None,
            complaints,
        };
        this.read_special_segments(program_headers);
        this.kind = match header.e_type(LE) {
            elf::ET_EXEC => Kind::Executable,
            _ if this.interpreter.is_some()
                || this.dynamic_value(elf::DT_FLAGS_1).is_some_and(|f| f & DF_1_PIE != 0) =>
            {
                Kind::Pie
            }
            _ => Kind::SharedObject,
        };
        this.text = this.find_text();
        if this.text.is_empty() {
            return Err(ImageError::NoCode);
        }
        Ok(this)
    }

    /// Reads a separate debug file: sections only, whose loaded parts are empty.
    ///
    /// # Errors
    /// If it is not an x86-64 ELF file or has no readable section headers.
    pub fn parse_debug(data: &'d [u8]) -> Result<Self, ImageError> {
        let header = check_identity(data)?;
        let sections = read_sections(header, data).map_err(damaged("section headers", header.e_shoff(LE)))?;
        Ok(Self {
            data,
            kind: Kind::Executable,
            entry: LinkAddr(0),
            interpreter: None,
            segments: Vec::new(),
            sections,
            text: Vec::new(),
            dynamic: Vec::new(),
            relro: None,
            eh_frame_hdr: None,
            notes: Vec::new(),
            prepared: None,
            complaints: Vec::new(),
        })
    }

    fn read_special_segments(&mut self, headers: &[elf::ProgramHeader64<LittleEndian>]) {
        for header in headers {
            let range = AddrRange::sized(LinkAddr(header.p_vaddr(LE)), header.p_memsz(LE));
            match header.p_type(LE) {
                elf::PT_INTERP => {
                    if let Ok(Some(path)) = header.interpreter(LE, self.data) {
                        self.interpreter = Some(String::from_utf8_lossy(path).into_owned());
                    }
                }
                elf::PT_DYNAMIC => match header.dynamic(LE, self.data) {
                    Ok(Some(entries)) => {
                        self.dynamic = entries
                            .iter()
                            .map(|d| (d.d_tag(LE), d.d_val(LE)))
                            .take_while(|&(tag, _)| tag != elf::DT_NULL)
                            .collect();
                    }
                    Ok(None) => {}
                    Err(why) => self.complaints.push(Complaint::new("dynamic segment", why)),
                },
                elf::PT_GNU_RELRO => self.relro = Some(range),
                elf::PT_GNU_EH_FRAME => self.eh_frame_hdr = Some(range),
                elf::PT_NOTE => {
                    if let Ok(bytes) = header.data(LE, self.data) {
                        self.notes.push((bytes, header.p_align(LE)));
                        let found = Prepared::find(range.start, bytes, &self.segments);
                        self.prepared = self.prepared.or(found);
                    }
                }
                _ => {}
            }
        }
    }

    /// The executable ranges; a section header that contradicts the segments is not believed.
    fn find_text(&self) -> Vec<AddrRange> {
        // All of it must be in the file: what is only in memory can be of any size, and is no code.
        let executable = |range: &AddrRange| {
            self.segments.iter().any(|s| {
                let in_file = AddrRange::sized(s.range.start, s.data.len() as u64);
                s.executable && in_file.start <= range.start && range.end <= in_file.end
            })
        };
        let mut text: Vec<AddrRange> = self
            .sections
            .iter()
            .filter(|s| s.executable && s.loaded && s.kind != elf::SHT_NOBITS.0 && !s.range.is_empty())
            .map(|s| s.range)
            .filter(executable)
            .collect();
        if text.is_empty() {
            text = self
                .segments
                .iter()
                .filter(|s| s.executable && !s.data.is_empty())
                .map(|s| AddrRange::sized(s.range.start, s.data.len() as u64))
                .collect();
        }
        if let Some(prepared) = &self.prepared {
            let own = prepared.code;
            let before = |t: &AddrRange| AddrRange::new(t.start, t.end.min(own.start));
            let behind = |t: &AddrRange| AddrRange::new(t.start.max(own.end), t.end);
            text = text.iter().flat_map(|t| [before(t), behind(t)]).filter(|t| !t.is_empty()).collect();
        }
        text.sort_unstable();
        let mut apart: Vec<AddrRange> = Vec::new();
        for range in text {
            match apart.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => apart.push(range),
            }
        }
        apart
    }

    /// The value of a dynamic entry.
    #[must_use]
    pub fn dynamic_value(&self, tag: elf::DynamicTag) -> Option<u64> {
        self.dynamic.iter().find(|&&(t, _)| t == tag).map(|&(_, value)| value)
    }

    /// The first section of that name.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<&Section<'d>> {
        self.sections.iter().find(|s| s.name == name)
    }

    /// The section that holds `at`.
    #[must_use]
    pub fn section_holding(&self, at: LinkAddr) -> Option<&Section<'d>> {
        self.sections.iter().find(|s| s.loaded && s.range.contains(at))
    }

    /// The segment that holds `at`.
    #[must_use]
    pub fn segment_holding(&self, at: LinkAddr) -> Option<&Segment<'d>> {
        let behind = self.segments.partition_point(|s| s.range.start <= at);
        self.segments[..behind].iter().rev().find(|s| s.range.contains(at))
    }

    /// The bytes of the file that are loaded at `at`, up to the end of their segment.
    #[must_use]
    pub fn bytes_at(&self, at: LinkAddr) -> &'d [u8] {
        self.segment_holding(at).and_then(|s| s.data.get(at.since(s.range.start) as usize..)).unwrap_or(&[])
    }

    /// `len` bytes at `at`.
    #[must_use]
    pub fn bytes_in(&self, at: LinkAddr, len: u64) -> Option<&'d [u8]> {
        self.bytes_at(at).get(..usize::try_from(len).ok()?)
    }

    /// Whether `at` is in an executable range.
    #[must_use]
    pub fn is_text(&self, at: LinkAddr) -> bool {
        let behind = self.text.partition_point(|r| r.start <= at);
        behind > 0 && self.text[behind - 1].contains(at)
    }

    /// Whether memory at `at` does not change once the program has been loaded and relocated.
    #[must_use]
    pub fn is_constant(&self, at: LinkAddr) -> bool {
        self.segment_holding(at).is_some_and(|s| !s.writable || self.relro.is_some_and(|r| r.contains(at)))
            // Without relro, the compiler's own promise.
            || self.section_holding(at).is_some_and(|s| s.name.starts_with(".data.rel.ro") || s.name.starts_with(".rodata"))
    }
}

impl CodeSource for Elf<'_> {
    fn bytes(&self, at: LinkAddr) -> &[u8] {
        self.bytes_at(at)
    }
}

const DF_1_PIE: u64 = 0x0800_0000;

fn check_identity(data: &[u8]) -> Result<&Header, ImageError> {
    if data.get(..4) != Some(b"\x7fELF") {
        return Err(ImageError::NotElf);
    }
    match (data.get(4), data.get(5)) {
        (Some(2), Some(1)) => {}
        (Some(1), _) => return Err(ImageError::WrongClass("32-bit")),
        (Some(2), Some(2)) => return Err(ImageError::WrongClass("big-endian")),
        _ => return Err(ImageError::WrongClass("unknown")),
    }
    let header = Header::parse(data).map_err(damaged("ELF header", 0))?;
    let machine = header.e_machine(LE);
    if machine != elf::EM_X86_64 {
        return Err(ImageError::WrongMachine(format!("machine number {}", machine.0)));
    }
    match header.e_type(LE) {
        elf::ET_EXEC | elf::ET_DYN => Ok(header),
        elf::ET_REL => Err(ImageError::WrongType("a relocatable object")),
        elf::ET_CORE => Err(ImageError::WrongType("a core dump")),
        _ => Err(ImageError::WrongType("an ELF file of unknown type")),
    }
}

fn read_segments<'d>(
    data: &'d [u8],
    headers: &[elf::ProgramHeader64<LittleEndian>],
    headers_at: u64,
) -> Result<Vec<Segment<'d>>, ImageError> {
    let mut segments = Vec::new();
    for (index, header) in headers.iter().enumerate() {
        if header.p_type(LE) != elf::PT_LOAD {
            continue;
        }
        let at = headers_at + index as u64 * size_of::<elf::ProgramHeader64<LittleEndian>>() as u64;
        let bad = |why: &str| ImageError::Damaged { what: "a program header", at, why: why.to_string() };
        let start = header.p_vaddr(LE);
        if start.checked_add(header.p_memsz(LE)).is_none() {
            return Err(bad("the segment wraps around the address space"));
        }
        if header.p_filesz(LE) > header.p_memsz(LE) {
            return Err(bad("the segment is larger in the file than in memory"));
        }
        let bytes =
            header.data(LE, data).map_err(|()| bad("the segment reaches beyond the end of the file"))?;
        let flags = header.p_flags(LE);
        segments.push(Segment {
            range: AddrRange::sized(LinkAddr(start), header.p_memsz(LE)),
            data: bytes,
            offset: header.p_offset(LE),
            readable: flags.0 & elf::PF_R.0 != 0,
            executable: flags.0 & elf::PF_X.0 != 0,
            writable: flags.0 & elf::PF_W.0 != 0,
        });
    }
    segments.sort_by_key(|s| s.range);
    if let Some(pair) = segments.windows(2).find(|pair| pair[0].range.overlaps(&pair[1].range)) {
        let why = format!("the segments at {} and {} overlap", pair[0].range.start, pair[1].range.start);
        return Err(ImageError::Damaged { what: "the program headers", at: headers_at, why });
    }
    Ok(segments)
}

fn read_sections<'d>(header: &Header, data: &'d [u8]) -> Result<Vec<Section<'d>>, object::read::Error> {
    let table = header.sections(LE, data)?;
    let mut sections = Vec::with_capacity(table.len());
    for section in table.iter() {
        let name = table.section_name(LE, section).unwrap_or(b"?");
        let flags = section.sh_flags(LE).0;
        let loaded = flags & elf::SHF_ALLOC.0 != 0;
        let len = if loaded { section.sh_size(LE) } else { 0 };
        sections.push(Section {
            name: String::from_utf8_lossy(name),
            kind: section.sh_type(LE).0,
            range: AddrRange::sized(LinkAddr(section.sh_addr(LE)), len),
            data: section.data(LE, data).unwrap_or(&[]),
            loaded,
            executable: flags & elf::SHF_EXECINSTR.0 != 0,
            compressed: flags & elf::SHF_COMPRESSED.0 != 0,
            link: section.sh_link(LE),
            info: section.sh_info(LE),
        });
    }
    Ok(sections)
}
