//! An object file as if it were linked: its sections have addresses, and what refers to something does.
//!
//! Nothing that is found out depends on which addresses these are. What other files provide is reached through stubs,
//! as a linker would make them.

use crate::facts::Place;
use crate::object_file::{ObjectError, ObjectFile, Section};
use object::LittleEndian as LE;
use object::elf::{self, Rela64, SectionHeader64, Sym64};
use object::pod::bytes_of;
use object::read::elf::{Rela as _, SectionHeader as _, Sym as _};
use object::{U32, U64};
use relive_code::addr::{AddrRange, LinkAddr};
use relive_image::bb_addr_map;
use relive_image::error::ImageError;
use relive_image::image::Image;
use relive_image::provenance::Provenance;
use relive_image::relocations::{Filled, Relocation};
use relive_image::symbols::{Symbol, SymbolKind};
use std::borrow::Cow;
use std::collections::HashMap;

/// Where the first section lies. Small enough that everything is reached by 32 bits.
const BASE: u64 = 0x40_0000;
/// Between sections, so that none is taken for the continuation of another.
const APART: u64 = 64;
const STUB: u64 = 16;
const SLOT: u64 = 8;

/// An object file with addresses.
pub struct Placed {
    bytes: Vec<u8>,
    /// Sections by address, and which they are.
    sections: Vec<(AddrRange, u32)>,
    /// Where each section lies; zero if it is not loaded.
    addresses: Vec<u64>,
    imports: Vec<Import>,
}

/// Something that another file provides.
struct Import {
    name: String,
    slot: LinkAddr,
}

impl Placed {
    /// Places the sections of `object`.
    ///
    /// # Errors
    /// If the object is damaged.
    pub fn new(object: &ObjectFile<'_>) -> Result<Self, ObjectError> {
        let mut next = BASE;
        let mut addresses: Vec<u64> = Vec::with_capacity(object.sections.len());
        let mut sections = Vec::new();
        for (index, section) in object.sections.iter().enumerate() {
            if index == 0 || !section.is_loaded() {
                addresses.push(0);
                continue;
            }
            next = align(next + APART, section.header.sh_addralign(LE));
            addresses.push(next);
            sections.push((AddrRange::sized(LinkAddr(next), section.len()), index as u32));
            next = next.checked_add(section.len()).ok_or(ObjectError::Damaged { what: "a section" })?;
        }
        let mut linker =
            Linker { object, addresses, common: align(next, 4096), targets: HashMap::new(), slots: 0 };
        let (stubs, slots) = linker.targets()?;
        let placed = linker.link(stubs, slots)?;
        let imports = linker.imports(slots);
        Ok(Self { bytes: placed, sections, addresses: linker.addresses, imports })
    }

    /// The image it makes.
    ///
    /// # Errors
    /// If the object was damaged.
    pub fn image(&self) -> Result<Image<'_>, ImageError> {
        let mut image = Image::parse(&self.bytes, None)?;
        for import in &self.imports {
            let index = image.dynamic_symbols.len() as u32;
            image.dynamic_symbols.push(Symbol {
                name: Cow::Borrowed(&import.name),
                version: None,
                addr: LinkAddr(0),
                size: 0,
                kind: SymbolKind::Function,
                defined: false,
                global: true,
                from: Provenance::DynamicSymbol,
            });
            image.relocations.push(Relocation { at: import.slot, filled: Filled::Symbol(index, 0) });
        }
        image.relocations.sort_by_key(|relocation| relocation.at);
        Ok(image)
    }

    /// The address of a place.
    #[must_use]
    pub fn address(&self, place: Place) -> LinkAddr {
        LinkAddr(self.addresses.get(place.section as usize).map_or(0, |at| at.wrapping_add(place.offset)))
    }

    /// The place of an address; also right behind a section.
    #[must_use]
    pub fn place(&self, at: LinkAddr) -> Option<Place> {
        let behind = self.sections.partition_point(|(range, _)| range.start <= at);
        let &(range, section) = self.sections[..behind].last()?;
        (at <= range.end).then(|| Place { section, offset: at.since(range.start) })
    }

    /// The addresses of a section; empty if it is not loaded.
    #[must_use]
    pub fn range(&self, section: u32) -> AddrRange {
        // They have addresses in their order.
        let found = self.sections.binary_search_by_key(&section, |(_, index)| *index);
        found.map_or(AddrRange::sized(LinkAddr(0), 0), |found| self.sections[found].0)
    }
}

fn align(at: u64, to: u64) -> u64 {
    let to = if to.is_power_of_two() { to.min(1 << 20) } else { 1 };
    at.next_multiple_of(to)
}

/// What a symbol turns out to be.
#[derive(Clone, Copy)]
struct Bound {
    /// Its address; of an import, that of its stub.
    addr: u64,
    /// Its slot, by number.
    slot: u64,
    is_import: bool,
}

struct Linker<'o, 'd> {
    object: &'o ObjectFile<'d>,
    addresses: Vec<u64>,
    /// Where common symbols go.
    common: u64,
    /// Symbols that are imported, or reached through a slot, by their number.
    targets: HashMap<u32, Bound>,
    slots: u64,
}

impl<'o, 'd> Linker<'o, 'd> {
    /// Finds out what needs a stub or a slot; where stubs and slots lie.
    fn targets(&mut self) -> Result<(u64, u64), ObjectError> {
        let symbols = self.object.symbols()?;
        let stubs = self.common;
        for (_, relocations) in self.relocated() {
            for relocation in relocations.relocations()? {
                let number = relocation.r_sym(LE, false);
                let Some(symbol) = symbols.get(number as usize) else { continue };
                let is_import = symbol.st_shndx(LE) == elf::SHN_UNDEF && number != 0;
                let wants_slot = uses_slot(relocation_type(relocation));
                if (is_import || wants_slot) && !self.targets.contains_key(&number) {
                    let addr = match is_import {
                        true => stubs + self.slots * STUB,
                        false => self.address_of(number as usize, symbol),
                    };
                    self.targets.insert(number, Bound { addr, slot: self.slots, is_import });
                    self.slots += 1;
                }
            }
        }
        Ok((stubs, align(stubs + self.slots * STUB, 4096)))
    }

    /// Sections of relocations of what is loaded, or is about blocks, with the section they are for.
    fn relocated(&self) -> Vec<(usize, &'o Section<'d>)> {
        let all = self.object.sections.iter().filter(|s| s.kind() == elf::SHT_RELA);
        let is_wanted = |section: &Section<'_>| section.is_loaded() || bb_addr_map::is_map(section.kind().0);
        all.map(|s| (s.header.sh_info(LE) as usize, s))
            .filter(|(target, _)| self.object.sections.get(*target).is_some_and(is_wanted))
            .collect()
    }

    fn address_of(&self, number: usize, symbol: &Sym64<LE>) -> u64 {
        let value = symbol.st_value(LE);
        match (symbol.st_shndx(LE), self.object.section_of(number, symbol)) {
            // All in one place: nobody looks at what they hold.
            (elf::SHN_COMMON, _) => self.common,
            (_, Some(section)) => self.addresses[section].wrapping_add(value),
            _ => value,
        }
    }

    fn imports(&self, slots: u64) -> Vec<Import> {
        let symbols = self.object.symbols().unwrap_or_default();
        let imported = self.targets.iter().filter(|(_, bound)| bound.is_import);
        let mut imports: Vec<Import> = imported
            .map(|(&number, bound)| Import {
                name: String::from_utf8_lossy(self.object.symbol_name(&symbols[number as usize]))
                    .into_owned(),
                slot: LinkAddr(slots + bound.slot * SLOT),
            })
            .collect();
        imports.sort_by_key(|import| import.slot);
        imports
    }

    /// The file that comes out.
    fn link(&mut self, stubs: u64, slots: u64) -> Result<Vec<u8>, ObjectError> {
        let mut object = self.object.clone();
        let symbols = self.object.symbols()?;
        // What refers to something does.
        for (target, relocations) in self.relocated() {
            let data = object.sections[target].data.to_mut();
            for relocation in relocations.relocations()? {
                self.apply(relocation, self.addresses[target], slots, symbols, data);
            }
        }
        // Relocations are kept, by address.
        for section in object.sections.iter_mut().filter(|s| s.kind() == elf::SHT_RELA) {
            let base = self.addresses.get(section.header.sh_info(LE) as usize).copied().unwrap_or(0);
            let moved: Vec<u8> = section
                .relocations()?
                .iter()
                .flat_map(|relocation| {
                    let r_offset = U64::new(LE, relocation.r_offset(LE).wrapping_add(base));
                    bytes_of(&Rela64 { r_offset, ..*relocation }).to_vec()
                })
                .collect();
            section.data = Cow::Owned(moved);
        }
        if object.symbol_table != 0 {
            let moved = symbols.iter().enumerate().flat_map(|(number, symbol)| {
                let st_value = U64::new(LE, self.address_of(number, symbol));
                bytes_of(&Sym64 { st_value, ..*symbol }).to_vec()
            });
            object.sections[object.symbol_table].data = Cow::Owned(moved.collect());
        }
        let mut addresses = self.addresses.clone();
        addresses.resize(object.sections.len(), 0);
        object.sections.push(section(".plt", elf::SHF_ALLOC | elf::SHF_EXECINSTR, self.stubs(stubs, slots)));
        object.sections.push(section(".got", elf::SHF_ALLOC | elf::SHF_WRITE, self.slots()));
        addresses.extend([stubs, slots]);
        Ok(object.write_as(elf::ET_EXEC, &addresses))
    }

    fn stubs(&self, stubs: u64, slots: u64) -> Vec<u8> {
        (0..self.slots)
            .flat_map(|number| {
                let behind = stubs + number * STUB + 6;
                let distance = (slots + number * SLOT).wrapping_sub(behind) as u32;
                let mut stub = vec![0xff, 0x25];
                stub.extend(distance.to_le_bytes());
                stub.resize(STUB as usize, 0xcc);
                stub
            })
            .collect()
    }

    fn slots(&self) -> Vec<u8> {
        let mut bytes = vec![0; (self.slots * SLOT) as usize];
        for bound in self.targets.values().filter(|bound| !bound.is_import) {
            let at = (bound.slot * SLOT) as usize;
            bytes[at..at + 8].copy_from_slice(&bound.addr.to_le_bytes());
        }
        bytes
    }

    /// Fills in what a relocation asks for. What is only known at run time stays zero.
    fn apply(
        &self,
        relocation: &Rela64<LE>,
        section: u64,
        slots: u64,
        symbols: &[Sym64<LE>],
        data: &mut [u8],
    ) {
        let number = relocation.r_sym(LE, false);
        let (offset, addend) = (relocation.r_offset(LE), relocation.r_addend(LE) as u64);
        let at = section.wrapping_add(offset);
        let bound = self.targets.get(&number);
        let value = match (bound, symbols.get(number as usize)) {
            (Some(bound), _) => bound.addr,
            (None, Some(symbol)) => self.address_of(number as usize, symbol),
            (None, None) => 0,
        };
        let slot = bound.map_or(0, |bound| slots + bound.slot * SLOT);
        let kind = relocation_type(relocation);
        let (filled, len) = match kind {
            elf::R_X86_64_64 => (value.wrapping_add(addend), 8),
            elf::R_X86_64_PC64 => (value.wrapping_add(addend).wrapping_sub(at), 8),
            elf::R_X86_64_32 | elf::R_X86_64_32S => (value.wrapping_add(addend), 4),
            elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => (value.wrapping_add(addend).wrapping_sub(at), 4),
            elf::R_X86_64_GOTOFF64 => (value.wrapping_add(addend).wrapping_sub(slots), 8),
            elf::R_X86_64_GOTPC32 => (slots.wrapping_add(addend).wrapping_sub(at), 4),
            elf::R_X86_64_GOTPC64 => (slots.wrapping_add(addend).wrapping_sub(at), 8),
            elf::R_X86_64_GOTPCREL64 => (slot.wrapping_add(addend).wrapping_sub(at), 8),
            kind if uses_slot(kind) => (slot.wrapping_add(addend).wrapping_sub(at), 4),
            elf::R_X86_64_16 => (value.wrapping_add(addend), 2),
            elf::R_X86_64_8 => (value.wrapping_add(addend), 1),
            elf::R_X86_64_PC16 => (value.wrapping_add(addend).wrapping_sub(at), 2),
            elf::R_X86_64_PC8 => (value.wrapping_add(addend).wrapping_sub(at), 1),
            _ => return,
        };
        let place = usize::try_from(offset).ok().and_then(|offset| data.get_mut(offset..)?.get_mut(..len));
        if let Some(place) = place {
            place.copy_from_slice(&filled.to_le_bytes()[..len]);
        }
    }
}

fn relocation_type(relocation: &Rela64<LE>) -> elf::RelocationType {
    elf::RelocationType(relocation.r_type(LE, false).0)
}

/// Whether it wants the address of a slot that holds the symbol's, relative to where it stands.
fn uses_slot(kind: elf::RelocationType) -> bool {
    matches!(
        kind,
        elf::R_X86_64_GOTPCREL
            | elf::R_X86_64_GOTPCRELX
            | elf::R_X86_64_REX_GOTPCRELX
            | elf::R_X86_64_GOTPCREL64
            | elf::R_X86_64_GOTTPOFF
            | elf::R_X86_64_TLSGD
            | elf::R_X86_64_TLSLD
            | elf::R_X86_64_GOTPC32_TLSDESC
    )
}

fn section(name: &'static str, flags: elf::SectionFlags, data: Vec<u8>) -> Section<'static> {
    let zero = U64::new(LE, 0);
    let header = SectionHeader64 {
        sh_name: U32::new(LE, 0),
        sh_type: U32::new(LE, elf::SHT_PROGBITS),
        sh_flags: U64::new(LE, flags),
        sh_addr: zero,
        sh_offset: zero,
        sh_size: zero,
        sh_link: U32::new(LE, 0),
        sh_info: U32::new(LE, 0),
        sh_addralign: U64::new(LE, 16),
        sh_entsize: zero,
    };
    Section { name: Cow::Borrowed(name.as_bytes()), header, data: Cow::Owned(data) }
}
