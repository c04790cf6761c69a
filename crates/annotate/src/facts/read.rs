//! Facts out of an object file.

use super::{Facts, Jump, Place, SECTION, Table};
use crate::object_file::{ObjectError, ObjectFile};
use object::LittleEndian as LE;
use object::elf::{self, Rela64, Sym64};
use object::read::elf::{Rela as _, SectionHeader as _, Sym as _};
use thiserror::Error;

/// Why facts cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FactsError {
    /// The file is damaged.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The section is not as it was written.
    #[error("section {SECTION} at byte {at:#x}: {why}")]
    Wrong {
        /// The byte in the section.
        at: u64,
        /// What is wrong there.
        why: &'static str,
    },
}

/// What the compiler said of the code in `object`; nothing if there is no section of facts.
///
/// Places are in order. What is not about code, or about the code of two sections at once, is left out: there the reader of
/// the text had lost its way.
///
/// # Errors
/// If the symbol table, the section or its relocations are damaged.
pub fn read(object: &ObjectFile<'_>) -> Result<Facts, FactsError> {
    let Some(index) = object.sections.iter().position(|s| *s.name == *SECTION.as_bytes()) else {
        return Ok(Facts::default());
    };
    let mut words = Words {
        data: &object.sections[index].data,
        at: 0,
        relocations: relocations(object, index)?.iter(),
        symbols: object.symbols()?,
        object,
    };
    let facts = words.facts()?;
    words.end()?;
    Ok(facts)
}

/// The relocations of a section.
fn relocations<'o>(object: &'o ObjectFile<'_>, of: usize) -> Result<&'o [Rela64<LE>], ObjectError> {
    let is_it = |header: &elf::SectionHeader64<LE>| {
        header.sh_type(LE) == elf::SHT_RELA && header.sh_info(LE) as usize == of
    };
    match object.sections.iter().find(|section| is_it(&section.header)) {
        Some(section) => section.relocations(),
        None => Ok(&[]),
    }
}

struct Words<'o, 'd> {
    data: &'o [u8],
    at: usize,
    /// In order of the words that they fill: assemblers write them so.
    relocations: std::slice::Iter<'o, Rela64<LE>>,
    symbols: &'o [Sym64<LE>],
    object: &'o ObjectFile<'d>,
}

impl Words<'_, '_> {
    fn facts(&mut self) -> Result<Facts, FactsError> {
        Ok(Facts {
            blocks: self.code_places()?,
            no_return: self.code_places()?,
            bytes: self.ranges()?,
            inline: self.ranges()?,
            rows: self.rows()?,
            jumps: self.jumps()?,
        })
    }

    fn places(&mut self) -> Result<Vec<Place>, FactsError> {
        (0..self.number()?).map(|_| self.place()).collect()
    }

    fn code_places(&mut self) -> Result<Vec<Place>, FactsError> {
        let mut places = self.places()?;
        places.retain(|&place| self.is_code(place));
        places.sort_unstable();
        places.dedup();
        Ok(places)
    }

    fn ranges(&mut self) -> Result<Vec<(Place, Place)>, FactsError> {
        let mut ranges = Vec::new();
        for _ in 0..self.number()? {
            let (from, to) = (self.place()?, self.place()?);
            if self.is_code(from) && from.section == to.section && from.offset < to.offset {
                ranges.push((from, to));
            }
        }
        ranges.sort_unstable();
        Ok(ranges)
    }

    /// In any section: tables need not be among the code.
    fn rows(&mut self) -> Result<Vec<(Place, u32)>, FactsError> {
        (0..self.number()?).map(|_| Ok((self.place()?, self.count()?))).collect()
    }

    fn jumps(&mut self) -> Result<Vec<Jump>, FactsError> {
        let mut jumps = Vec::new();
        for _ in 0..self.number()? {
            let (site, leaves) = (self.place()?, self.flag()?);
            let targets = self.code_places()?;
            let mut table = None;
            for _ in 0..self.number()? {
                table = Some(self.table()?);
            }
            if self.is_code(site) {
                jumps.push(Jump { site, targets, table, leaves });
            }
        }
        jumps.sort_unstable_by_key(|jump| jump.site);
        Ok(jumps)
    }

    fn table(&mut self) -> Result<Table, FactsError> {
        let at = self.place()?;
        let entry_size = u8::try_from(self.number()?).map_err(|_| self.wrong("a very large entry"))?;
        let is_relative = self.flag()?;
        let count = self.count()?;
        Ok(Table { at, entry_size, is_relative, count })
    }

    fn count(&mut self) -> Result<u32, FactsError> {
        u32::try_from(self.number()?).map_err(|_| self.wrong("a very large table"))
    }

    fn is_code(&self, place: Place) -> bool {
        self.object.sections[place.section as usize].is_code()
    }

    fn flag(&mut self) -> Result<bool, FactsError> {
        Ok(self.number()? != 0)
    }

    fn number(&mut self) -> Result<u64, FactsError> {
        if self.relocations.as_slice().first().is_some_and(|r| r.r_offset(LE) == self.at as u64) {
            return Err(self.wrong("a place, not a number"));
        }
        self.word()
    }

    fn place(&mut self) -> Result<Place, FactsError> {
        let relocation = self.relocations.next().filter(|r| r.r_offset(LE) == self.at as u64);
        let relocation = relocation.ok_or_else(|| self.wrong("a number, not a place"))?;
        self.word()?;
        let index = relocation.r_sym(LE, false) as usize;
        let place = self.symbols.get(index).and_then(|symbol| {
            let section = self.object.section_of(index, symbol)? as u32;
            let offset = symbol.st_value(LE).wrapping_add_signed(relocation.r_addend(LE));
            Some(Place { section, offset })
        });
        place.ok_or_else(|| self.wrong("a place that is nowhere"))
    }

    fn word(&mut self) -> Result<u64, FactsError> {
        let bytes = self.data.get(self.at..).and_then(|rest| rest.first_chunk());
        let word = u64::from_le_bytes(*bytes.ok_or_else(|| self.wrong("ends too early"))?);
        self.at += size_of::<u64>();
        Ok(word)
    }

    fn end(&self) -> Result<(), FactsError> {
        if self.at == self.data.len() { Ok(()) } else { Err(self.wrong("more than was written")) }
    }

    fn wrong(&self, why: &'static str) -> FactsError {
        FactsError::Wrong { at: self.at as u64, why }
    }
}
