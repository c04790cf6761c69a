//! Annotations of linked files: derived from their code, added, taken out.

use crate::object::{AnnotateError, SECTION, replace};
use crate::object_file::ObjectError;
use crate::said;
use object::elf::{self, FileHeader64, SectionHeader64};
use object::pod::bytes_of;
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::{LittleEndian as LE, U16, U32, U64};
use relive_image::annotations::{Annotations, Piece, Unit, checksum, describe};
use relive_image::annotations::{reader, writer};
use relive_image::elf::Elf;
use relive_image::image::Image;
use relive_image::program::analyze;
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::path::Path;

/// Describes a linked file by its code. Where a compiler left a map of its blocks, it is taken at its word.
///
/// # Errors
/// If what was found out makes no sense.
pub fn derive(image: &mut Image<'_>) -> Result<Annotations, AnnotateError> {
    let is_derived = image.block_maps.is_empty();
    if image.stated.ranges.is_empty() {
        image.stated = said::by_block_map(image);
    }
    let program = analyze(image);
    let mut pieces: Vec<Piece> = program.functions.iter().flat_map(describe).collect();
    pieces.sort_by_key(|piece| piece.range);
    checksum::seal(&mut pieces, &*image);
    let unit = Unit {
        producer: image.identity.producers.join(", "),
        language: image.language().name().to_string(),
        optimisation: String::new(),
        is_derived,
    };
    Ok(Annotations { units: vec![unit], pieces })
}

/// The section that says this, of a linked file.
///
/// # Errors
/// If something lies where it cannot be.
pub fn section(image: &Image<'_>, annotations: &Annotations) -> Result<Vec<u8>, AnnotateError> {
    Ok(writer::write_all(annotations, &image.elf.text)?)
}

/// Gives a file that the linker made of code it compiled itself the annotations that follow from its map of blocks. What
/// goes wrong is said and does no harm.
pub(crate) fn translate_map(path: &Path) {
    let Ok(file) = std::fs::read(path) else { return };
    let Ok(mut image) = Image::parse(&file, None) else { return };
    if image.block_maps.is_empty() {
        return;
    }
    let result = derive(&mut image)
        .and_then(|annotations| section(&image, &annotations))
        .and_then(|bytes| with_section(&file, &bytes))
        .map_err(|why| why.to_string())
        .and_then(|file| replace(path, &file).map_err(|why| why.to_string()));
    if let Err(why) = result {
        eprintln!("relive cc: {} is not annotated: {why}", path.display());
    }
}

/// Makes what the linker put together of many sections shorter, in its place. What cannot be read stays as it is.
pub(crate) fn condense(path: &Path) -> io::Result<()> {
    let mut file = std::fs::read(path)?;
    let Some((header, range, bytes)) = condensed(&file) else { return Ok(()) };
    let (kept, rest) = file[range].split_at_mut(bytes.len());
    kept.copy_from_slice(&bytes);
    rest.fill(0);
    let size = header + offset_of!(SectionHeader64<LE>, sh_size);
    file[size..size + 8].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    replace(path, &file)
}

/// Where the header of the section is, where its bytes are, and what could be in their place.
fn condensed(file: &[u8]) -> Option<(usize, Range<usize>, Vec<u8>)> {
    let elf = Elf::parse(file).ok()?;
    let index = elf.sections.iter().position(|section| section.name == SECTION)?;
    let data = elf.sections[index].data;
    let found = reader::read(data, &elf.text);
    let bytes = writer::write_all(&found.annotations, &elf.text).ok()?;
    if !found.faults.is_empty() || bytes.len() >= data.len() {
        return None;
    }
    let header = FileHeader64::<LE>::parse(file).ok()?;
    let start = header.sections(LE, file).ok()?.iter().nth(index)?.sh_offset(LE) as usize;
    let header = header.e_shoff(LE) as usize + index * size_of::<SectionHeader64<LE>>();
    Some((header, start..start + data.len(), bytes))
}

/// The file with this as its section `.annotate`; nothing that is loaded moves.
///
/// # Errors
/// If the file is damaged.
pub fn with_section(file: &[u8], annotations: &[u8]) -> Result<Vec<u8>, AnnotateError> {
    let damaged = |what| move |_: object::read::Error| ObjectError::Damaged { what };
    let mut header = *FileHeader64::<LE>::parse(file).map_err(|_| ObjectError::NotAnObject)?;
    let table = header.sections(LE, file).map_err(damaged("the section table"))?;
    let mut sections: Vec<SectionHeader64<LE>> = table.iter().copied().collect();
    let is_ours =
        |s: &SectionHeader64<LE>| table.section_name(LE, s).is_ok_and(|name| name == SECTION.as_bytes());
    let ours = sections.iter().position(is_ours);
    let names_at = header.shstrndx(LE, file).map_err(damaged("the section table"))? as usize;
    let mut names = match sections.get(names_at).filter(|_| names_at != 0) {
        Some(names) => names.data(LE, file).map_err(damaged("the names of sections"))?.to_vec(),
        None => return Err(ObjectError::Damaged { what: "the section table" }.into()),
    };
    let mut out = file.to_vec();
    let ours = ours.unwrap_or_else(|| {
        let zero = U64::new(LE, 0);
        sections.push(SectionHeader64 {
            sh_name: U32::new(LE, names.len() as u32),
            sh_type: U32::new(LE, elf::SHT_PROGBITS),
            sh_flags: U64::new(LE, elf::SectionFlags::default()),
            sh_addr: zero,
            sh_offset: zero,
            sh_size: zero,
            sh_link: U32::new(LE, 0),
            sh_info: U32::new(LE, 0),
            sh_addralign: U64::new(LE, 1),
            sh_entsize: zero,
        });
        names.extend_from_slice(SECTION.as_bytes());
        names.push(0);
        sections.len() - 1
    });
    for (index, data) in [(ours, annotations), (names_at, &names)] {
        sections[index].sh_offset = U64::new(LE, out.len() as u64);
        sections[index].sh_size = U64::new(LE, data.len() as u64);
        out.extend_from_slice(data);
    }
    out.resize(out.len().next_multiple_of(8), 0);
    header.e_shoff = U64::new(LE, out.len() as u64);
    if sections.len() >= usize::from(elf::SHN_LORESERVE) {
        return Err(ObjectError::Damaged { what: "the section table, which is full," }.into());
    }
    header.e_shnum = U16::new(LE, sections.len() as u16);
    sections.iter().for_each(|section| out.extend_from_slice(bytes_of(section)));
    out[..size_of::<FileHeader64<LE>>()].copy_from_slice(bytes_of(&header));
    Ok(out)
}
