//! Annotations of linked files: derived from their code, and added.

use crate::linked_file::with_section;
use crate::object::{AnnotateError, replace};
use crate::said;
use object::LittleEndian as LE;
use object::elf::{FileHeader64, SectionHeader64};
use object::read::elf::{FileHeader as _, SectionHeader as _};
use relive_code::addr::{AddrRange, LinkAddr};
use relive_image::annotations::check::{self, Refused};
use relive_image::annotations::format::SECTION;
use relive_image::annotations::{Annotations, Piece, Unit, checksum, describe, reader, writer};
use relive_image::elf::Elf;
use relive_image::image::Image;
use relive_image::program::{Program, analyze};
use std::collections::HashSet;
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::path::Path;

/// What follows from the code of a linked file.
#[derive(Clone, Debug, Default)]
pub struct Derived {
    /// Of functions that are understood and that the file says nothing of yet.
    pub annotations: Annotations,
    /// How many functions those are.
    pub described: usize,
    /// How many the file speaks of already.
    pub annotated: usize,
    /// How many are not understood.
    pub not_understood: usize,
    /// How many have jump tables whose size is a guess, which would look like a fact from then on.
    pub guessed: usize,
    /// How many look like functions, and nothing leads to them.
    pub seeming: usize,
    /// How many share code with another one, which cannot be described.
    pub overlapping: usize,
    /// What would not be believed.
    pub refused: Vec<Refused>,
}

/// Describes a linked file by its code. Where a compiler left a map of its blocks, it is taken at its word.
pub fn derive(image: &mut Image<'_>) -> Derived {
    let is_derived = image.block_maps.is_empty();
    if image.stated.ranges.is_empty() {
        image.stated = said::by_block_map(image);
    }
    let mut derived = Derived::default();
    let mut pieces = missing(&analyze(image), &image.annotations.pieces, !is_derived, &mut derived);
    derived.overlapping = leave_out_overlaps(&mut pieces);
    checksum::seal(&mut pieces, &*image);
    let unit = Unit {
        producer: image.identity.producers.join(", "),
        language: image.language().name().to_string(),
        optimisation: String::new(),
        is_derived,
    };
    (derived.annotations, derived.refused) = check::sift(Annotations { units: vec![unit], pieces }, &*image);
    derived.described = derived.annotations.pieces.iter().filter(|piece| piece.parent.is_none()).count();
    derived
}

/// The pieces of functions of which nothing is said yet, by address. Guesses are left out, unless a compiler told where blocks are.
fn missing(program: &Program<'_>, said: &[Piece], is_told: bool, derived: &mut Derived) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for function in &program.functions {
        if function.cfg.pieces.iter().any(|&piece| is_touched(said, piece)) {
            derived.annotated += 1;
        } else if !function.cfg.is_understood() {
            derived.not_understood += 1;
        } else if function.is_guess() {
            derived.seeming += 1;
        } else if !is_told && function.cfg.tables.iter().any(|table| table.bound.is_guess()) {
            derived.guessed += 1;
        } else {
            pieces.extend(describe(function));
        }
    }
    pieces.sort_by_key(|piece| piece.range);
    pieces
}

/// Whether one of these pieces, which are by address, overlaps `range`.
fn is_touched(pieces: &[Piece], range: AddrRange) -> bool {
    let first = pieces.partition_point(|piece| piece.range.end <= range.start);
    pieces.get(first).is_some_and(|piece| piece.range.start < range.end)
}

/// Leaves out functions of which a piece overlaps one that begins before it, and says how many.
fn leave_out_overlaps(pieces: &mut Vec<Piece>) -> usize {
    let mut overlapping: HashSet<LinkAddr> = HashSet::new();
    let mut end = LinkAddr(0);
    for piece in &*pieces {
        if piece.range.start < end {
            overlapping.insert(piece.function());
        } else {
            end = piece.range.end;
        }
    }
    pieces.retain(|piece| !overlapping.contains(&piece.function()));
    overlapping.len()
}

/// The file with these annotations too. They come first: whatever else is in the section cannot keep them from being read, and stays.
///
/// # Errors
/// If something lies where it cannot be, or the file is damaged.
pub fn add(image: &Image<'_>, annotations: &Annotations) -> Result<Vec<u8>, AnnotateError> {
    let mut bytes = writer::write_all(annotations, &image.elf.text)?;
    bytes.extend(image.elf.section(SECTION).map_or(&[][..], |section| section.data));
    Ok(with_section(image.elf.data, &bytes)?)
}

/// Gives a file that the linker made of code it compiled itself the annotations that follow from its map of blocks. What
/// goes wrong is said and does no harm.
pub(crate) fn translate_map(path: &Path) {
    let Ok(file) = std::fs::read(path) else { return };
    let Ok(mut image) = Image::parse(&file, None) else { return };
    if image.block_maps.is_empty() {
        return;
    }
    let annotations = derive(&mut image).annotations;
    let result = add(&image, &annotations)
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
