//! `.symtab` and `.dynsym`.

use crate::elf::{Elf, LE};
use crate::error::Complaint;
use crate::provenance::Provenance;
use object::elf as raw;
use object::read::StringTable;
use object::read::elf::Sym as _;
use object::{LittleEndian, pod};
use relive_code::addr::LinkAddr;
use std::borrow::Cow;

/// What a symbol names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SymbolKind {
    /// A function.
    Function,
    /// A function that chooses which function to use.
    Resolver,
    /// A variable or table.
    Object,
    /// A label of no declared kind, usually from assembler.
    Label,
    /// Anything else: sections, files, thread-local variables.
    Other,
}

/// A symbol.
#[derive(Clone, Debug)]
pub struct Symbol<'d> {
    /// Its name; the version follows an `@` in `version`.
    pub name: Cow<'d, str>,
    /// Its version, if it has one.
    pub version: Option<Cow<'d, str>>,
    /// Where it is; zero if undefined.
    pub addr: LinkAddr,
    /// Its size; zero if not stated.
    pub size: u64,
    /// What it names.
    pub kind: SymbolKind,
    /// Whether this module defines it.
    pub defined: bool,
    /// Whether other modules can see it.
    pub global: bool,
    /// Which table it comes from.
    pub from: Provenance,
}

impl Symbol<'_> {
    /// Whether it names code.
    #[must_use]
    pub fn is_function(&self) -> bool {
        matches!(self.kind, SymbolKind::Function | SymbolKind::Resolver)
    }
}

/// Reads the full symbol table of `elf`.
pub(crate) fn read_symtab<'d>(elf: &Elf<'d>, complaints: &mut Vec<Complaint>) -> Vec<Symbol<'d>> {
    let Some(section) = elf.sections.iter().find(|s| s.kind == raw::SHT_SYMTAB.0) else { return Vec::new() };
    let strings = elf.sections.get(section.link as usize).map_or(&[][..], |s| s.data);
    read_table(section.data, strings, Provenance::Symbol, complaints)
}

/// Reads the dynamic symbol table, in its own order, so that relocations can refer to it.
pub(crate) fn read_dynsym<'d>(elf: &Elf<'d>, complaints: &mut Vec<Complaint>) -> Vec<Symbol<'d>> {
    let mut symbols = match elf.sections.iter().find(|s| s.kind == raw::SHT_DYNSYM.0) {
        Some(section) => {
            let strings = elf.sections.get(section.link as usize).map_or(&[][..], |s| s.data);
            read_table(section.data, strings, Provenance::DynamicSymbol, complaints)
        }
        None => dynsym_without_sections(elf, complaints),
    };
    read_versions(elf, &mut symbols);
    symbols
}

/// Without section headers nothing states how many dynamic symbols there are; the table usually ends
/// where the string table begins.
fn dynsym_without_sections<'d>(elf: &Elf<'d>, complaints: &mut Vec<Complaint>) -> Vec<Symbol<'d>> {
    let value = |tag: raw::DynamicTag| elf.dynamic_value(tag);
    let (Some(table), Some(strings)) = (value(raw::DT_SYMTAB), value(raw::DT_STRTAB)) else {
        return Vec::new();
    };
    let size = value(raw::DT_STRSZ).unwrap_or(0);
    let len = strings.saturating_sub(table);
    let (Some(table), Some(strings)) =
        (elf.bytes_in(LinkAddr(table), len), elf.bytes_in(LinkAddr(strings), size))
    else {
        return Vec::new();
    };
    read_table(table, strings, Provenance::DynamicSymbol, complaints)
}

fn read_table<'d>(
    table: &'d [u8],
    strings: &'d [u8],
    from: Provenance,
    complaints: &mut Vec<Complaint>,
) -> Vec<Symbol<'d>> {
    let count = table.len() / size_of::<raw::Sym64<LittleEndian>>();
    let Ok((entries, _)) = pod::slice_from_bytes::<raw::Sym64<LittleEndian>>(table, count) else {
        complaints.push(Complaint::new(from.name(), "the table is not aligned"));
        return Vec::new();
    };
    let strings = StringTable::new(strings, 0, strings.len() as u64);
    let mut nameless = 0usize;
    let symbols = entries
        .iter()
        .map(|entry| {
            let name = entry.name(LE, strings).unwrap_or_else(|_| {
                nameless += 1;
                b""
            });
            let kind = match entry.st_type() {
                raw::STT_FUNC => SymbolKind::Function,
                raw::STT_GNU_IFUNC => SymbolKind::Resolver,
                raw::STT_OBJECT => SymbolKind::Object,
                raw::STT_NOTYPE => SymbolKind::Label,
                _ => SymbolKind::Other,
            };
            Symbol {
                name: String::from_utf8_lossy(name),
                version: None,
                addr: LinkAddr(entry.st_value(LE)),
                size: entry.st_size(LE),
                kind,
                defined: !entry.is_undefined(LE) && !entry.is_absolute(LE),
                global: !entry.is_local(),
                from,
            }
        })
        .collect();
    if nameless > 0 {
        complaints.push(Complaint::new(
            from.name(),
            format!("{nameless} symbols have names outside the string table"),
        ));
    }
    symbols
}

/// Adds the versions of `.gnu.version`; a damaged table only costs the versions.
fn read_versions(elf: &Elf<'_>, symbols: &mut [Symbol<'_>]) {
    use object::read::elf::FileHeader as _;
    let Ok(header) = crate::elf::Header::parse(elf.data) else { return };
    let Ok(sections) = header.sections(LE, elf.data) else { return };
    let Ok(Some(versions)) = sections.versions(LE, elf.data) else { return };
    for (index, symbol) in symbols.iter_mut().enumerate() {
        let version = versions.version_index(LE, object::SymbolIndex(index));
        if let Ok(Some(version)) = versions.version(version.index()) {
            symbol.version = Some(Cow::Owned(String::from_utf8_lossy(version.name()).into_owned()));
        }
    }
}
