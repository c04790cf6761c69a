//! Everything one ELF file says of its code.

use crate::annotations::{self, Annotations, Stated, format};
use crate::bb_addr_map::{self, FunctionMap};
use crate::elf::{Elf, Kind};
use crate::error::{Complaint, ImageError};
use crate::gopclntab::{self, Pclntab};
use crate::identity::{Identity, Language};
use crate::jump_table_sizes;
use crate::plt::{self, Stub};
use crate::relocations::{self, Filled, LinkReference, Relocation};
use crate::symbols::{self, Symbol};
use crate::unwind::Unwind;
use relive_code::addr::LinkAddr;
use relive_code::source::Pointer;
use std::collections::HashMap;

/// SHT_LLVM_JT_SIZES.
const JUMP_TABLE_SIZES: u32 = 0x6fff_4c0d;

/// One ELF file and everything in it that speaks of code.
pub struct Image<'d> {
    /// Segments and sections.
    pub elf: Elf<'d>,
    /// Which build it is.
    pub identity: Identity,
    /// `.symtab`, of the separate debug file if the file has none of its own.
    pub symbols: Vec<Symbol<'d>>,
    /// `.dynsym`.
    pub dynamic_symbols: Vec<Symbol<'d>>,
    /// What the loader will fill in, by address.
    pub relocations: Vec<Relocation>,
    /// What the linker filled in and still tells of, by address.
    pub link_references: Vec<LinkReference>,
    /// Unwind information.
    pub unwind: Unwind<'d>,
    /// Stubs of imported functions, by address.
    pub stubs: Vec<Stub>,
    /// What `.annotate` says, as far as it holds.
    pub annotations: Annotations,
    /// The same by place; or what a compiler says while annotations are made of it.
    pub stated: Stated,
    /// Block maps clang left.
    pub block_maps: Vec<FunctionMap>,
    /// Jump-table sizes clang left: address to number of entries.
    pub table_sizes: HashMap<LinkAddr, u64>,
    /// Go's function table.
    pub go: Option<Pclntab<'d>>,
    /// Whether the symbols come from a separate debug file.
    pub has_debug_file: bool,
    /// What could not be read.
    pub complaints: Vec<Complaint>,
}

impl<'d> Image<'d> {
    /// Reads everything in `data`; `debug` is the separate debug file, if there is one.
    ///
    /// # Errors
    /// If it is not an x86-64 executable or shared object, or its headers are damaged.
    pub fn parse(data: &'d [u8], debug: Option<&'d [u8]>) -> Result<Self, ImageError> {
        let mut image = Self::parse_unannotated(data, debug)?;
        if let Some(section) = image.elf.section(format::SECTION) {
            image.annotate(section.data);
        }
        Ok(image)
    }

    /// The same without what the file says in section `.annotate`.
    ///
    /// # Errors
    /// As for [`Image::parse`].
    pub fn parse_unannotated(data: &'d [u8], debug: Option<&'d [u8]>) -> Result<Self, ImageError> {
        let mut elf = Elf::parse(data)?;
        let mut complaints = std::mem::take(&mut elf.complaints);
        let identity = Identity::read(&elf);
        let mut symbols = symbols::read_symtab(&elf, &mut complaints);
        let link_references = relocations::read_link(&elf, &symbols);
        let mut has_debug_file = false;
        if let Some(debug) = debug {
            match Elf::parse_debug(debug) {
                Ok(debug) => {
                    has_debug_file = true;
                    if symbols.is_empty() {
                        symbols = symbols::read_symtab(&debug, &mut complaints);
                    }
                }
                Err(why) => complaints.push(Complaint::new("debug file", why)),
            }
        }
        let dynamic_symbols = symbols::read_dynsym(&elf, &mut complaints);
        let relocations = relocations::read_dynamic(&elf, &mut complaints);
        let unwind = Unwind::read(&elf, &mut complaints);
        let stubs = plt::find_stubs(&elf);
        let block_maps = read_block_maps(&elf, &mut complaints);
        let table_sizes = read_table_sizes(&elf, &mut complaints);
        let go = read_go_table(&elf, &mut complaints);
        Ok(Self {
            elf,
            identity,
            symbols,
            dynamic_symbols,
            relocations,
            link_references,
            unwind,
            stubs,
            annotations: Annotations::default(),
            stated: Stated::default(),
            block_maps,
            table_sizes,
            go,
            has_debug_file,
            complaints,
        })
    }

    /// Reads what a section `.annotate` says of a file that nothing is said of yet, and keeps what holds.
    pub fn annotate(&mut self, section: &[u8]) {
        let found = annotations::reader::read(section, &self.elf.text);
        let (kept, refused) = annotations::check::sift(found.annotations, &*self);
        self.stated = Stated::from(&kept);
        self.annotations = kept;
        let complain = |why: &dyn std::fmt::Display| Complaint::new(format::SECTION, why);
        self.complaints.extend(found.faults.iter().map(|fault| complain(fault)));
        self.complaints.extend(
            refused.iter().map(|r| complain(&format_args!("of the code at {}: {}", r.piece.start, r.why))),
        );
    }

    /// What the loader will put at `at`.
    #[must_use]
    pub fn relocation(&self, at: LinkAddr) -> Option<&Relocation> {
        self.relocations.binary_search_by_key(&at, |r| r.at).ok().map(|i| &self.relocations[i])
    }

    /// What the eight bytes at `at` will hold.
    #[must_use]
    pub fn pointer(&self, at: LinkAddr) -> Pointer {
        match self.relocation(at).map(|r| r.filled) {
            Some(Filled::Here(to)) => Pointer::Here(to),
            Some(Filled::Symbol(index, addend)) => match self.dynamic_symbols.get(index as usize) {
                Some(symbol) if symbol.defined => Pointer::Here(symbol.addr.offset(addend as u64)),
                _ => Pointer::Import,
            },
            Some(Filled::Resolved(_)) => Pointer::Import,
            Some(Filled::Other) => Pointer::None,
            // Code linked for a fixed address needs no relocation; all other code does.
            None if self.elf.kind == Kind::Executable => match self.elf.bytes_at(at).first_chunk() {
                Some(word) => {
                    let to = LinkAddr(u64::from_le_bytes(*word));
                    if self.elf.segment_holding(to).is_some() { Pointer::Here(to) } else { Pointer::None }
                }
                None => Pointer::None,
            },
            None => Pointer::None,
        }
    }

    /// The name of the imported symbol whose address the loader puts at `slot`.
    #[must_use]
    pub fn import_at(&self, slot: LinkAddr) -> Option<&str> {
        match self.relocation(slot)?.filled {
            Filled::Symbol(index, _) => self.dynamic_symbols.get(index as usize).map(|s| s.name.as_ref()),
            _ => None,
        }
    }

    /// The stub that covers `at`.
    #[must_use]
    pub fn stub_holding(&self, at: LinkAddr) -> Option<&Stub> {
        let behind = self.stubs.partition_point(|s| s.range.start <= at);
        self.stubs[..behind].last().filter(|s| s.range.contains(at))
    }

    /// The name of the function that `stub` calls.
    #[must_use]
    pub fn stub_name(&self, stub: &Stub) -> Option<String> {
        if let Some(name) = self.import_at(stub.slot) {
            return Some(format!("{name}@plt"));
        }
        match self.relocation(stub.slot)?.filled {
            Filled::Resolved(resolver) => {
                let symbol = self.symbols.iter().find(|s| s.addr == resolver && s.is_function())?;
                Some(format!("*ABS*+{}@plt", symbol.name))
            }
            _ => None,
        }
    }

    /// The language most of it was written in, as far as the file shows.
    #[must_use]
    pub fn language(&self) -> Language {
        let any = |wanted: &dyn Fn(&str) -> bool| {
            self.symbols.iter().chain(&self.dynamic_symbols).any(|s| wanted(&s.name))
        };
        if self.go.is_some() {
            Language::Go
        } else if self.identity.producers.iter().any(|p| p.starts_with("rustc "))
            || any(&|name| name == "rust_eh_personality" || name == "rust_begin_unwind")
        {
            Language::Rust
        } else if any(&|name| name.starts_with("__gxx_personality") || name.starts_with("_ZNS")) {
            Language::Cpp
        } else if !self.identity.producers.is_empty() || any(&|name| name == "__libc_start_main") {
            Language::C
        } else {
            Language::Unknown
        }
    }
}

fn read_block_maps(elf: &Elf<'_>, complaints: &mut Vec<Complaint>) -> Vec<FunctionMap> {
    let mut maps = Vec::new();
    for section in elf.sections.iter().filter(|s| bb_addr_map::is_map(s.kind)) {
        match bb_addr_map::parse_typed(section.kind, section.data) {
            Ok(found) => maps.extend(found),
            Err(why) => complaints.push(Complaint::new(section.name.as_ref(), why)),
        }
    }
    maps
}

fn read_table_sizes(elf: &Elf<'_>, complaints: &mut Vec<Complaint>) -> HashMap<LinkAddr, u64> {
    let mut sizes = HashMap::new();
    for section in
        elf.sections.iter().filter(|s| s.kind == JUMP_TABLE_SIZES || s.name == ".llvm_jump_table_sizes")
    {
        match jump_table_sizes::parse(section.data) {
            Ok(found) => sizes.extend(found.into_iter().map(|t| (t.start, t.entries))),
            Err(why) => complaints.push(Complaint::new(section.name.as_ref(), why)),
        }
    }
    sizes
}

fn read_go_table<'d>(elf: &Elf<'d>, complaints: &mut Vec<Complaint>) -> Option<Pclntab<'d>> {
    let named = elf
        .sections
        .iter()
        .find(|s| s.name == ".gopclntab" || s.name == ".data.rel.ro.gopclntab")
        .map(|s| (s.range.start, s.data));
    let (at, table) = named.or_else(|| {
        // Stripped of section headers: the table begins with a magic number.
        if !elf.sections.is_empty() {
            return None;
        }
        elf.segments.iter().filter(|s| !s.executable).find_map(|segment| {
            let offset = gopclntab::locate(segment.data)?;
            Some((segment.range.start.offset(offset as u64), &segment.data[offset..]))
        })
    })?;
    let text = elf
        .segments
        .iter()
        .find_map(|s| gopclntab::text_start_from_moduledata(s.data, at))
        .or_else(|| elf.section(".text").map(|s| s.range.start));
    match gopclntab::parse(table, text) {
        Ok(table) => Some(table),
        Err(why) => {
            complaints.push(Complaint::new(".gopclntab", why));
            None
        }
    }
}
