//! Symbols that stand for sections: relocations need them, and assemblers leave out those that nobody uses.

use crate::object_file::{ObjectError, ObjectFile};
use object::elf::{self, Rel64, Rela64, Sym64};
use object::pod::{bytes_of, slice_from_all_bytes};
use object::read::elf::SectionHeader as _;
use object::{LittleEndian as LE, U16, U32, U64};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// `SHT_LLVM_ADDRSIG`: symbols whose address matters, by number.
const ADDRESS_TAKEN: elf::SectionType = elf::SectionType(0x6fff_4c03);

/// A table of symbols that nothing else is in may have an index for each, too.
const INDEX: usize = 4;

/// Makes sure that there are symbols for these sections; their numbers.
///
/// # Errors
/// If the object is damaged.
pub(crate) fn provide(
    object: &mut ObjectFile<'_>,
    sections: &[usize],
) -> Result<BTreeMap<usize, u32>, ObjectError> {
    let mut found = BTreeMap::new();
    for (number, symbol) in
        object.symbols()?.iter().enumerate().filter(|(_, s)| s.st_type() == elf::STT_SECTION)
    {
        if let Some(section) = object.section_of(number, symbol) {
            found.entry(section).or_insert(number as u32);
        }
    }
    let mut missing: Vec<usize> = sections.iter().copied().filter(|s| !found.contains_key(s)).collect();
    missing.sort_unstable();
    missing.dedup();
    if missing.is_empty() {
        return Ok(found);
    }
    let table = object.symbol_table;
    if table == 0 {
        return Err(ObjectError::Damaged { what: "the symbol table" });
    }
    // Behind all others that are local; those behind move on.
    let locals = object.sections[table].header.sh_info(LE);
    let count = missing.len() as u32;
    let moved = |number: u32| if number >= locals { number + count } else { number };
    for section in &mut object.sections {
        match section.kind() {
            elf::SHT_RELA => {
                let entries = section.relocations()?.iter().flat_map(|entry| {
                    let info =
                        Rela64::r_info(LE, false, moved(entry.r_sym(LE, false)), entry.r_type(LE, false));
                    bytes_of(&Rela64 { r_info: info, ..*entry }).to_vec()
                });
                section.data = Cow::Owned(entries.collect());
            }
            elf::SHT_REL => {
                let entries: &[Rel64<LE>] = slice_from_all_bytes(&section.data)
                    .map_err(|_| ObjectError::Damaged { what: "a section of relocations" })?;
                let entries = entries.iter().flat_map(|entry| {
                    let info = Rel64::r_info(LE, moved(entry.r_sym(LE)), entry.r_type(LE));
                    bytes_of(&Rel64 { r_info: info, ..*entry }).to_vec()
                });
                section.data = Cow::Owned(entries.collect());
            }
            elf::SHT_GROUP => section.header.sh_info = U32::new(LE, moved(section.header.sh_info(LE))),
            ADDRESS_TAKEN => section.data = Cow::Owned(renumbered(&section.data, moved)),
            _ => {}
        }
    }
    let at = locals as usize;
    let symbols: Vec<u8> = missing.iter().flat_map(|&section| bytes_of(&symbol(section)).to_vec()).collect();
    insert(object.sections[table].data.to_mut(), at * size_of::<Sym64<LE>>(), &symbols)?;
    object.sections[table].header.sh_info = U32::new(LE, locals + count);
    if let Some(long) = object.sections.iter_mut().find(|s| s.kind() == elf::SHT_SYMTAB_SHNDX) {
        let indices: Vec<u8> = missing.iter().flat_map(|&section| (section as u32).to_le_bytes()).collect();
        insert(long.data.to_mut(), at * INDEX, &indices)?;
    }
    found.extend(missing.into_iter().zip(locals..));
    Ok(found)
}

fn symbol(section: usize) -> Sym64<LE> {
    let index = u16::try_from(section).ok().filter(|&index| index < elf::SHN_LORESERVE);
    Sym64 {
        st_name: U32::new(LE, 0),
        st_info: elf::SymbolInfo::new(elf::STB_LOCAL, elf::STT_SECTION),
        st_other: Default::default(),
        st_shndx: U16::new(LE, index.map_or(elf::SHN_XINDEX, elf::SymbolSection)),
        st_value: U64::new(LE, 0),
        st_size: U64::new(LE, 0),
    }
}

fn insert(data: &mut Vec<u8>, at: usize, bytes: &[u8]) -> Result<(), ObjectError> {
    if at > data.len() {
        return Err(ObjectError::Damaged { what: "the symbol table" });
    }
    data.splice(at..at, bytes.iter().copied());
    Ok(())
}

/// Numbers of 7 bits in a byte.
fn renumbered(data: &[u8], moved: impl Fn(u32) -> u32) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut number, mut shift) = (0u64, 0);
    for &byte in data {
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 != 0 && shift < 32 {
            continue;
        }
        let mut rest = moved(number as u32);
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
        (number, shift) = (0, 0);
    }
    out
}
