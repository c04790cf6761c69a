//! Relocations: those the loader applies, and those a linker left behind with `--emit-relocs`.

use crate::elf::{Elf, Header, LE};
use crate::error::Complaint;
use crate::symbols::Symbol;
use object::elf as raw;
use object::read::elf::{Rela as _, RelrIterator};
use object::{LittleEndian, pod};
use relive_code::addr::LinkAddr;

/// What a word will hold once the loader is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filled {
    /// An address in this module.
    Here(LinkAddr),
    /// The address of a dynamic symbol, by its index, and an offset.
    Symbol(u32, i64),
    /// What the function at that address returns.
    Resolved(LinkAddr),
    /// Something that is no pointer to code: thread-local offsets, copies.
    Other,
}

/// A relocation the loader applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relocation {
    /// The word it fills.
    pub at: LinkAddr,
    /// What with.
    pub filled: Filled,
}

/// A place the linker filled in, and what it refers to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LinkReference {
    /// The field.
    pub at: LinkAddr,
    /// What it refers to; for program-counter-relative fields the address they stand for.
    pub to: LinkAddr,
    /// Bytes of the field.
    pub size: u8,
    /// Whether the field is relative to its own place.
    pub relative: bool,
}

type Rela64 = raw::Rela64<LittleEndian>;

/// Reads what the loader will do, sorted by address.
pub(crate) fn read_dynamic(elf: &Elf<'_>, complaints: &mut Vec<Complaint>) -> Vec<Relocation> {
    let mut found = Vec::new();
    for (table, size) in [(raw::DT_RELA, raw::DT_RELASZ), (raw::DT_JMPREL, raw::DT_PLTRELSZ)] {
        let (Some(at), Some(len)) = (elf.dynamic_value(table), elf.dynamic_value(size)) else {
            continue;
        };
        match elf.bytes_in(LinkAddr(at), len) {
            Some(bytes) => read_rela(bytes, &mut found),
            None => complaints.push(Complaint::new(
                "dynamic relocations",
                format!("{len} bytes at {at:#x} are not in the file"),
            )),
        }
    }
    if let (Some(at), Some(len)) = (elf.dynamic_value(raw::DT_RELR), elf.dynamic_value(raw::DT_RELRSZ)) {
        match elf.bytes_in(LinkAddr(at), len) {
            Some(bytes) => read_relr(elf, bytes, &mut found),
            None => complaints.push(Complaint::new(
                "relative relocations",
                format!("{len} bytes at {at:#x} are not in the file"),
            )),
        }
    }
    // Static executables have no dynamic table but still relocate their indirect functions.
    for section in elf.sections.iter().filter(|s| s.loaded && s.kind == raw::SHT_RELA.0) {
        read_rela(section.data, &mut found);
    }
    found.sort_by_key(|r| r.at);
    found.dedup();
    found
}

fn rela_entries(bytes: &[u8]) -> &[Rela64] {
    pod::slice_from_bytes(bytes, bytes.len() / size_of::<Rela64>()).map_or(&[], |(entries, _)| entries)
}

fn read_rela(bytes: &[u8], found: &mut Vec<Relocation>) {
    for entry in rela_entries(bytes) {
        let addend = entry.r_addend(LE);
        let filled = match raw::RelocationType(entry.r_type(LE, false).0) {
            raw::R_X86_64_RELATIVE | raw::R_X86_64_RELATIVE64 => Filled::Here(LinkAddr(addend as u64)),
            raw::R_X86_64_IRELATIVE => Filled::Resolved(LinkAddr(addend as u64)),
            raw::R_X86_64_64 | raw::R_X86_64_GLOB_DAT => Filled::Symbol(entry.r_sym(LE, false), addend),
            raw::R_X86_64_JUMP_SLOT => Filled::Symbol(entry.r_sym(LE, false), 0),
            _ => Filled::Other,
        };
        found.push(Relocation { at: LinkAddr(entry.r_offset(LE)), filled });
    }
}

/// Compact relative relocations: the addend is the word itself.
fn read_relr(elf: &Elf<'_>, bytes: &[u8], found: &mut Vec<Relocation>) {
    let words = pod::slice_from_bytes(bytes, bytes.len() / 8).map_or(&[][..], |(words, _)| words);
    // A bitmap word stands for up to 63 relocations: still proportional to the table.
    for at in RelrIterator::<Header>::new(LE, words) {
        let at = LinkAddr(at);
        if let Some(word) = elf.bytes_at(at).first_chunk() {
            found.push(Relocation { at, filled: Filled::Here(LinkAddr(u64::from_le_bytes(*word))) });
        }
    }
}

/// Reads the relocations a linker kept, sorted by address. `symbols` is the whole `.symtab`.
pub(crate) fn read_link(elf: &Elf<'_>, symbols: &[Symbol<'_>]) -> Vec<LinkReference> {
    let mut found = Vec::new();
    for section in elf.sections.iter().filter(|s| !s.loaded && s.kind == raw::SHT_RELA.0) {
        // Only those that describe loaded sections; debug information has its own.
        if !elf.sections.get(section.info as usize).is_some_and(|s| s.loaded) {
            continue;
        }
        for entry in rela_entries(section.data) {
            let Some(symbol) = symbols.get(entry.r_sym(LE, false) as usize) else { continue };
            let value = symbol.addr.0.wrapping_add(entry.r_addend(LE) as u64);
            let at = LinkAddr(entry.r_offset(LE));
            let (size, relative) = match raw::RelocationType(entry.r_type(LE, false).0) {
                raw::R_X86_64_64 => (8, false),
                raw::R_X86_64_32 | raw::R_X86_64_32S => (4, false),
                raw::R_X86_64_PC32 | raw::R_X86_64_PLT32 => (4, true),
                raw::R_X86_64_PC64 => (8, true),
                _ => continue,
            };
            if !symbol.defined {
                continue;
            }
            found.push(LinkReference { at, to: LinkAddr(value), size, relative });
        }
    }
    found.sort_unstable();
    found
}
