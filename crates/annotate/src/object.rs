//! Annotates an object file.

use crate::facts::{self, Facts, FactsError, Place};
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
use relive_code::cfg::{Block, End};
use relive_code::isa::{Decode, fill_len};
use relive_image::annotations::writer::{self, Chunk, Misfit};
use relive_image::annotations::{Piece, Unit, checksum, describe, free};
use relive_image::bb_addr_map;
use relive_image::error::ImageError;
use relive_image::image::Image;
use relive_image::program::{Program, analyze};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::slice;

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

/// Makes the same object once more, with labels: asked for if something is not understood without.
pub type Again<'a> = &'a dyn Fn() -> Option<Vec<u8>>;

/// Annotates the file at `path` in its place, unless it is, or is no object file. What goes wrong is said and does no harm.
pub(crate) fn annotate_file(path: &Path, optimisation: &str, keep_map: bool, again: Again<'_>) {
    let Ok(bytes) = std::fs::read(path) else { return };
    let result = match annotate(&bytes, optimisation, keep_map, again) {
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
pub fn annotate(
    bytes: &[u8],
    optimisation: &str,
    keep_map: bool,
    again: Again<'_>,
) -> Result<Option<Vec<u8>>, AnnotateError> {
    let mut object = ObjectFile::parse(bytes)?;
    let has = |name: &str| object.sections.iter().any(|s| *s.name == *name.as_bytes());
    let code: Vec<usize> = (0..object.sections.len())
        .filter(|&i| object.sections[i].is_code() && !object.sections[i].is_empty())
        .collect();
    if has(SECTION) || code.is_empty() && !has(facts::SECTION) {
        return Ok(None);
    }
    let told = facts::read(&object)?;
    let placed = Placed::new(&object)?;
    let mut image = placed.image()?;
    let is_told = !told.blocks.is_empty() || !image.block_maps.is_empty();
    // Without optimisation registers are free nearly everywhere, and nobody counts on more than the convention.
    let states_free = is_told && optimisation != "-O0";
    let pieces = match pieces(&mut image, &told, &placed, states_free) {
        (pieces, true) => pieces,
        (pieces, false) => match again().and_then(|other| facts_of_same(&object, &other)) {
            Some(told) => self::pieces(&mut image, &told, &placed, states_free).0,
            None => pieces,
        },
    };
    let unit = unit(&object, optimisation, !is_told);
    let mut chunks: Vec<(usize, Chunk)> = Vec::new();
    for &section in &code {
        let range = placed.range(section as u32);
        let first = pieces.partition_point(|piece| piece.range.start < range.start);
        let behind = pieces.partition_point(|piece| piece.range.start < range.end);
        // Once for each file; what goes with a group may be dropped.
        let units = if chunks.is_empty() { slice::from_ref(&unit) } else { &[] };
        if !units.is_empty() || first < behind {
            chunks.push((section, writer::write(range, units, &pieces[first..behind])?));
        }
    }
    drop(image);
    let rooms = make_room(&mut object, keep_map);
    attach(&mut object, &chunks, &placed, rooms)?;
    Ok(Some(object.write()))
}

/// What was said of the same code in another object.
fn facts_of_same(object: &ObjectFile<'_>, other: &[u8]) -> Option<Facts> {
    let other = ObjectFile::parse(other).ok()?;
    let (here, there) = (code_of(object), code_of(&other));
    let is_same = here.len() == there.len()
        && here
            .iter()
            .zip(&there)
            .all(|((_, one), (_, two))| one.name == two.name && is_same_code(&one.data, &two.data));
    let numbers: HashMap<u32, u32> =
        there.iter().zip(&here).map(|((there, _), (here, _))| (*there as u32, *here as u32)).collect();
    let moved = |place: Place| numbers.get(&place.section).map(|&section| Place { section, ..place });
    let facts = facts::read(&other).ok().filter(|_| is_same)?;
    let ranges = |all: Vec<(Place, Place)>| -> Option<Vec<(Place, Place)>> {
        all.into_iter().map(|(from, to)| Some((moved(from)?, moved(to)?))).collect()
    };
    // Blocks and jumps are in the map.
    // Rows among the code; sections of data are not compared.
    let rows = facts.rows.into_iter().filter_map(|(at, count)| Some((moved(at)?, count))).collect();
    Some(Facts { bytes: ranges(facts.bytes)?, inline: ranges(facts.inline)?, rows, ..Facts::default() })
}

/// Whether two sections hold the same instructions at the same places. clang fills up with other ones when it reads its text
/// than when it writes an object.
fn is_same_code(one: &[u8], two: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len().min(two.len()) {
        let [len, other] = [one, two].map(|bytes| match Decode::new(&bytes[at..], LinkAddr(0)).next() {
            Some(insn) => insn.len() as usize,
            None => 1,
        });
        if len == other && one[at..at + len] == two[at..at + len] {
            at += len;
            continue;
        }
        let [fill, other] = [one, two].map(|bytes| fill_len(&bytes[at..], LinkAddr(0)));
        if fill == 0 || fill != other {
            return false;
        }
        at += fill;
    }
    one.len() == two.len()
}

/// Sections of code with their numbers.
fn code_of<'o, 'd>(object: &'o ObjectFile<'d>) -> Vec<(usize, &'o Section<'d>)> {
    object.sections.iter().enumerate().filter(|(_, section)| section.is_code()).collect()
}

/// What is found out about all functions, by address, and whether everything is understood.
fn pieces(image: &mut Image<'_>, told: &Facts, placed: &Placed, states_free: bool) -> (Vec<Piece>, bool) {
    image.stated = match told.blocks.is_empty() {
        false => said::by_facts(told, placed, image),
        true => said::by_block_map(image),
    };
    image.table_sizes.extend(told.rows.iter().map(|&(at, count)| (placed.address(at), u64::from(count))));
    let mut program = analyze(image);
    // What is written as numbers may be data, and change what everything around it is.
    if !told.bytes.is_empty() {
        let bytes = Numbers::of(told, placed);
        image.stated.no_return.extend(bytes.jumped_over(&program));
        program = analyze(image);
        image.stated.data = bytes.unreached(&program);
        program = analyze(image);
    }
    let mut pieces: Vec<Piece> = program.functions.iter().flat_map(describe).collect();
    pieces.sort_by_key(|piece| piece.range);
    if states_free {
        let naked = returns_written_by_hand(told, placed, &program);
        let is_compiled = |entry| image.stated.covers(entry) && !naked.contains(&entry);
        free::state(&mut pieces, image, &program, &is_compiled);
    }
    checksum::seal(&mut pieces, &*image);
    (pieces, program.functions.iter().all(|function| function.cfg.is_understood()))
}

/// Functions that return by an instruction of the programmer's: how, and with what in which register, is a matter of theirs.
fn returns_written_by_hand(told: &Facts, placed: &Placed, program: &Program<'_>) -> HashSet<LinkAddr> {
    let inline: Vec<AddrRange> = told
        .inline
        .iter()
        .map(|&(from, to)| (placed.address(from), placed.address(to)))
        .map(|(from, to)| AddrRange::new(from, to.max(from)))
        .collect();
    if inline.is_empty() {
        return HashSet::new();
    }
    let by_hand = |block: &Block| {
        block.end == End::Return && inline.iter().any(|range| range.contains(block.last_insn()))
    };
    let functions = program.functions.iter().filter(|function| function.cfg.blocks.iter().any(by_hand));
    functions.map(|function| function.entry).collect()
}

/// Bytes written as numbers among code.
struct Numbers(Vec<AddrRange>);

impl Numbers {
    fn of(facts: &Facts, placed: &Placed) -> Self {
        let mut ranges: Vec<AddrRange> = Vec::new();
        for &(from, to) in &facts.bytes {
            let start = placed.address(from);
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = placed.address(to).max(start),
                _ => ranges.push(AddrRange::new(start, placed.address(to).max(start))),
            }
        }
        ranges.retain(|range| !range.is_empty());
        ranges.sort_unstable();
        Self(ranges)
    }

    /// Behind calls that lead right behind the numbers that follow them: who wants to know where these are calls that way,
    /// and does not come back.
    fn jumped_over(&self, program: &Program<'_>) -> Vec<LinkAddr> {
        let blocks = program.functions.iter().flat_map(|function| &function.cfg.blocks);
        let over = blocks.filter(|block| {
            let behind = self.0.iter().find(|range| range.start == block.end_addr());
            matches!(block.end, End::Call(to) if behind.is_some_and(|range| range.end == to))
        });
        over.map(Block::end_addr).collect()
    }

    /// Those that control does not reach: data.
    fn unreached(&self, program: &Program<'_>) -> Vec<AddrRange> {
        let is_reached = |range: &AddrRange| {
            let function = program.function_holding(range.start).map(|id| &program.function(id).cfg);
            let overlaps = |block: &Block| block.reached && block.range().overlaps(range);
            function.is_some_and(|cfg| cfg.blocks.iter().any(overlaps))
        };
        self.0.iter().filter(|range| !is_reached(range)).copied().collect()
    }
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
        // Who links does not know how others compiled.
        optimisation: if is_derived { String::new() } else { optimisation.to_string() },
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
    let all = object.sections.iter().enumerate();
    let relocated = all.filter(|(_, s)| s.kind() == elf::SHT_RELA);
    let relocations: HashMap<usize, usize> =
        relocated.map(|(index, s)| (s.header.sh_info(LE) as usize, index)).collect();
    for section in 0..object.sections.len() {
        let told = &object.sections[section];
        let is_map = bb_addr_map::is_map(told.kind().0);
        if !(is_map && !keep_map || *told.name == *facts::SECTION.as_bytes()) {
            continue;
        }
        let code = is_map.then_some(told.header.sh_link(LE) as usize);
        let relocations = relocations.get(&section).copied();
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
    rooms: Vec<Room>,
) -> Result<(), ObjectError> {
    let place = |to: LinkAddr| placed.place(to).ok_or(ObjectError::Damaged { what: "what refers to code" });
    let mut needed = Vec::new();
    for relocation in chunks.iter().flat_map(|(_, chunk)| &chunk.relocations) {
        needed.push(place(relocation.to)?.section as usize);
    }
    let symbols = section_symbols::provide(object, &needed)?;
    let groups = groups(object);
    // There may be as many as there are functions.
    let (mut maps, mut others): (HashMap<usize, Room>, Vec<Room>) = Default::default();
    for room in rooms {
        match room.code {
            Some(code) => drop(maps.insert(code, room)),
            None => others.push(room),
        }
    }
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
        let room = maps
            .remove(code)
            .or_else(|| if group == elf::SectionFlags::default() { others.pop() } else { None });
        let room = room.unwrap_or_else(|| append(object, groups.get(code).copied()));
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

/// The group of each section that is in one.
fn groups(object: &ObjectFile<'_>) -> HashMap<usize, usize> {
    let mut groups = HashMap::new();
    for (index, group) in object.sections.iter().enumerate().filter(|(_, s)| s.kind() == elf::SHT_GROUP) {
        let (words, _) = group.data.as_chunks::<4>();
        for word in words.iter().skip(1) {
            groups.entry(u32::from_le_bytes(*word) as usize).or_insert(index);
        }
    }
    groups
}

/// Room behind all others, in that group.
fn append(object: &mut ObjectFile<'_>, group: Option<usize>) -> Room {
    let section = object.sections.len();
    let empty = object.sections[0].clone();
    object.sections.extend([empty.clone(), empty]);
    if let Some(group) = group {
        let members = [section as u32, section as u32 + 1];
        let group = object.sections[group].data.to_mut();
        group.extend(members.iter().flat_map(|member| member.to_le_bytes()));
    }
    Room { section, relocations: section + 1, code: None }
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
