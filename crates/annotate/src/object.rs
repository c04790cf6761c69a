//! Annotates an object file.

use crate::facts::{self, Facts, FactsError};
use crate::linked_file::LinkedFileError;
use crate::object_file::{ObjectError, ObjectFile, Section};
use crate::placed::Placed;
use crate::{said, section_symbols};
use object::LittleEndian as LE;
use object::elf::{self, Rela64, SectionHeader64};
use object::pod::bytes_of;
use object::read::elf::SectionHeader as _;
use object::{I64, U32, U64};
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::cfg::Block;
use relive_image::annotations::writer::{self, Chunk, Misfit};
use relive_image::annotations::{Piece, Unit, checksum, describe};
use relive_image::bb_addr_map;
use relive_image::error::ImageError;
use relive_image::image::Image;
use relive_image::program::{Program, analyze};
use std::borrow::Cow;
use std::path::Path;

/// The section's name.
pub const SECTION: &str = ".annotate";

/// Why an object file was not annotated.
#[derive(Debug, thiserror::Error)]
pub enum AnnotateError {
    /// It is not one, or damaged.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A linked file that cannot be changed.
    #[error(transparent)]
    Linked(#[from] LinkedFileError),
    /// What the compiler said does not make sense.
    #[error(transparent)]
    Facts(#[from] FactsError),
    /// It cannot be read as if it were linked.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// What was found out about it makes no sense.
    #[error(transparent)]
    Misfit(#[from] Misfit),
}

/// Annotates the file at `path` in its place, unless it is, or is no object file. What goes wrong is said and does no harm.
pub(crate) fn annotate_file(path: &Path, optimisation: &str, keep_map: bool) {
    let Ok(bytes) = std::fs::read(path) else { return };
    let result = match annotate(&bytes, optimisation, keep_map) {
        Ok(None) | Err(AnnotateError::Object(ObjectError::NotAnObject)) => return,
        Ok(Some(annotated)) => replace(path, &annotated).map_err(|why| why.to_string()),
        Err(why) => Err(why.to_string()),
    };
    if let Err(why) = result {
        eprintln!("relive cc: {} is not annotated: {why}", path.display());
    }
}

/// Writes beside, then renames: nobody sees half a file.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut beside = tempfile::Builder::new().prefix(".relive-").tempfile_in(dir)?;
    std::io::Write::write_all(&mut beside, bytes)?;
    beside.as_file().set_permissions(std::fs::metadata(path)?.permissions())?;
    beside.persist(path).map_err(|failed| failed.error)?;
    Ok(())
}

/// The annotated object file; nothing if it is annotated already or holds no code.
///
/// # Errors
/// If it is damaged.
pub fn annotate(bytes: &[u8], optimisation: &str, keep_map: bool) -> Result<Option<Vec<u8>>, AnnotateError> {
    let mut object = ObjectFile::parse(bytes)?;
    let has = |name: &str| object.sections.iter().any(|s| *s.name == *name.as_bytes());
    let code: Vec<usize> = (0..object.sections.len())
        .filter(|&i| object.sections[i].is_code() && !object.sections[i].is_empty())
        .collect();
    if has(SECTION) || code.is_empty() && !has(facts::SECTION) {
        return Ok(None);
    }
    let told = Some(facts::read(&object)?).filter(|facts| !facts.is_empty());
    let placed = Placed::new(&object)?;
    let mut image = placed.image()?;
    let is_told = told.is_some() || !image.block_maps.is_empty();
    let pieces = pieces(&mut image, told.as_ref(), &placed);
    let unit = unit(&object, optimisation, !is_told);
    let mut chunks: Vec<(usize, Chunk)> = Vec::new();
    for &section in &code {
        let range = placed.range(section as u32);
        let first = pieces.partition_point(|piece| piece.range.start < range.start);
        let behind = pieces.partition_point(|piece| piece.range.start < range.end);
        // Once for each file; what goes with a group may be dropped.
        let unit = chunks.is_empty().then_some(&unit);
        if unit.is_some() || first < behind {
            chunks.push((section, writer::write(range, unit, &pieces[first..behind])?));
        }
    }
    drop(image);
    let rooms = make_room(&mut object, keep_map);
    attach(&mut object, &chunks, &placed, rooms)?;
    Ok(Some(object.write()))
}

/// What is found out about all functions, by address.
fn pieces(image: &mut Image<'_>, told: Option<&Facts>, placed: &Placed) -> Vec<Piece> {
    image.stated = match told {
        Some(facts) => said::by_facts(facts, placed, image),
        None => said::by_block_map(image),
    };
    let mut program = analyze(image);
    if let Some(facts) = told {
        image.stated.data = unreached(&program, facts, placed);
        if !image.stated.data.is_empty() {
            program = analyze(image);
        }
    }
    let mut pieces: Vec<Piece> = program.functions.iter().flat_map(describe).collect();
    pieces.sort_by_key(|piece| piece.range);
    checksum::seal(&mut pieces, image);
    pieces
}

/// Bytes written as numbers that control does not reach: data.
fn unreached(program: &Program<'_>, facts: &Facts, placed: &Placed) -> Vec<AddrRange> {
    let ranges = facts.bytes.iter().map(|&(from, to)| {
        let start = placed.address(from);
        AddrRange::new(start, placed.address(to).max(start))
    });
    let is_reached = |range: &AddrRange| {
        let function = program.function_holding(range.start).map(|id| &program.function(id).cfg);
        let overlaps = |block: &Block| block.reached && block.range().overlaps(range);
        function.is_some_and(|cfg| cfg.blocks.iter().any(overlaps))
    };
    let mut data: Vec<AddrRange> = ranges.filter(|range| !range.is_empty() && !is_reached(range)).collect();
    data.sort_unstable();
    data
}

/// Who made it.
fn unit(object: &ObjectFile<'_>, optimisation: &str, is_derived: bool) -> Unit {
    let comment = object.sections.iter().find(|s| *s.name == *b".comment");
    let texts = comment.into_iter().flat_map(|s| s.data.split(|&byte| byte == 0));
    let producer = texts.map(String::from_utf8_lossy).find(|text| !text.is_empty()).unwrap_or_default();
    let file = object.symbols().unwrap_or_default().iter().find(|s| s.st_type() == elf::STT_FILE);
    let name = file.map(|symbol| String::from_utf8_lossy(object.symbol_name(symbol))).unwrap_or_default();
    Unit {
        producer: producer.into_owned(),
        language: language(&name).to_string(),
        optimisation: optimisation.to_string(),
        is_derived,
    }
}

/// The language of a source file.
fn language(name: &str) -> &'static str {
    match Path::new(name).extension().and_then(|extension| extension.to_str()) {
        Some("c" | "i") => "C",
        Some("cc" | "cpp" | "cxx" | "C" | "c++" | "ii") => "C++",
        Some("s" | "S" | "asm") => "assembler",
        Some("f" | "F" | "f90" | "F90" | "f95" | "f03" | "f08" | "for") => "Fortran",
        Some("rs") => "Rust",
        Some("go") => "Go",
        Some("d") => "D",
        Some("adb" | "ads") => "Ada",
        Some("m") => "Objective-C",
        Some("mm") => "Objective-C++",
        _ => "",
    }
}

/// Where annotations go: in place of what the compiler said, so that sections keep their numbers and groups their members.
struct Room {
    section: usize,
    relocations: usize,
    /// The code it goes with, if that is said.
    code: Option<usize>,
}

/// Empties what compilers said, now that it is not needed any more.
fn make_room(object: &mut ObjectFile<'_>, keep_map: bool) -> Vec<Room> {
    let mut rooms = Vec::new();
    for section in 0..object.sections.len() {
        let told = &object.sections[section];
        let is_map = told.kind().0 == bb_addr_map::SECTION_TYPE;
        if !(is_map && !keep_map || *told.name == *facts::SECTION.as_bytes()) {
            continue;
        }
        let code = is_map.then_some(told.header.sh_link(LE) as usize);
        let is_for_it =
            |s: &Section<'_>| s.kind() == elf::SHT_RELA && s.header.sh_info(LE) as usize == section;
        let relocations = object.sections.iter().position(is_for_it);
        for gone in relocations.into_iter().chain([section]) {
            object.sections[gone].data = Cow::Borrowed(&[]);
        }
        rooms.extend(relocations.map(|relocations| Room { section, relocations, code }));
    }
    rooms
}

/// Adds the sections.
fn attach(
    object: &mut ObjectFile<'_>,
    chunks: &[(usize, Chunk)],
    placed: &Placed,
    mut rooms: Vec<Room>,
) -> Result<(), ObjectError> {
    let place = |to: LinkAddr| placed.place(to).ok_or(ObjectError::Damaged { what: "what refers to code" });
    let mut needed = Vec::new();
    for relocation in chunks.iter().flat_map(|(_, chunk)| &chunk.relocations) {
        needed.push(place(relocation.to)?.section as usize);
    }
    let symbols = section_symbols::provide(object, &needed)?;
    for (code, chunk) in chunks {
        let mut relocations = Vec::new();
        for relocation in &chunk.relocations {
            let to = place(relocation.to)?;
            relocations.extend_from_slice(bytes_of(&Rela64 {
                r_offset: U64::new(LE, relocation.offset),
                r_info: Rela64::r_info(LE, false, symbols[&(to.section as usize)], elf::R_X86_64_64),
                r_addend: I64::new(LE, to.offset as i64),
            }));
        }
        let group = object.sections[*code].header.sh_flags(LE) & elf::SHF_GROUP;
        let suits = |room: &Room| match room.code {
            Some(of) => of == *code,
            None => group == elf::SectionFlags::default(),
        };
        let room = rooms.iter().position(suits).map(|free| rooms.swap_remove(free));
        let room = room.unwrap_or_else(|| append(object, *code));
        let table = object.symbol_table as u32;
        let of = room.section as u32;
        object.sections[room.section] = Section {
            name: Cow::Borrowed(SECTION.as_bytes()),
            header: header(elf::SHT_PROGBITS, elf::SHF_LINK_ORDER | group, *code as u32, 0, 1, 0),
            data: Cow::Owned(chunk.bytes.clone()),
        };
        object.sections[room.relocations] = Section {
            name: Cow::Borrowed(b".rela.annotate"),
            header: header(elf::SHT_RELA, elf::SHF_INFO_LINK | group, table, of, 8, RELA),
            data: Cow::Owned(relocations),
        };
    }
    Ok(())
}

/// Room behind all others, in the group that `code` is in.
fn append(object: &mut ObjectFile<'_>, code: usize) -> Room {
    let section = object.sections.len();
    let empty = object.sections[0].clone();
    object.sections.extend([empty.clone(), empty]);
    let is_member = |section: &Section<'_>| {
        let (words, _) = section.data.as_chunks::<4>();
        let mut members = words.iter().skip(1).map(|word| u32::from_le_bytes(*word));
        section.kind() == elf::SHT_GROUP && members.any(|member| member as usize == code)
    };
    if let Some(group) = object.sections.iter_mut().find(|section| is_member(section)) {
        let members = [section as u32, section as u32 + 1];
        group.data.to_mut().extend(members.iter().flat_map(|member| member.to_le_bytes()));
    }
    Room { section, relocations: section + 1, code: Some(code) }
}

/// Bytes of a relocation.
const RELA: u64 = size_of::<Rela64<LE>>() as u64;

fn header(
    kind: elf::SectionType,
    flags: elf::SectionFlags,
    link: u32,
    info: u32,
    align: u64,
    entry: u64,
) -> SectionHeader64<LE> {
    let zero = U64::new(LE, 0);
    SectionHeader64 {
        sh_name: U32::new(LE, 0),
        sh_type: U32::new(LE, kind),
        sh_flags: U64::new(LE, flags),
        sh_addr: zero,
        sh_offset: zero,
        sh_size: zero,
        sh_link: U32::new(LE, link),
        sh_info: U32::new(LE, info),
        sh_addralign: U64::new(LE, align),
        sh_entsize: U64::new(LE, entry),
    }
}
