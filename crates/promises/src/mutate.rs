//! Damages an ELF file where it hurts: in headers, sizes, offsets and tables.
//!
//! Bytes changed blindly hit code and strings most of the time. This reads just enough of the headers to
//! find the fields that everything else depends on. It believes nothing: the file may have been damaged
//! many times before.

use crate::dice::Dice;
use std::ops::Range;

/// Changes one to four things in `file`, which stays within `limit` bytes.
pub fn mutate(file: &mut Vec<u8>, limit: usize, dice: &mut Dice) {
    for _ in 0..=dice.roll(4) {
        mutate_once(file, dice);
    }
    file.truncate(limit);
}

fn mutate_once(file: &mut Vec<u8>, dice: &mut Dice) {
    if file.len() < HEADER {
        file.resize(HEADER + dice.roll(64), 0);
    }
    let map = Map::new(file);
    match dice.roll(32) {
        0 => change_field(file, dice.pick(&HEADER_FIELDS).clone(), dice),
        1..=5 => record(file, &map.program_headers, &PROGRAM_HEADER_FIELDS, dice),
        6..=11 => record(file, &map.section_headers, &SECTION_HEADER_FIELDS, dice),
        12..=15 => in_section(file, &map, &[SYMTAB, DYNSYM], &SYMBOL_FIELDS, dice),
        16..=17 => in_section(file, &map, &[RELA], &RELA_FIELDS, dice),
        18..=19 => in_section(file, &map, &[DYNAMIC], &DYNAMIC_FIELDS, dice),
        20..=27 => {
            // Tables of bytes: unwind information, exception tables, notes, block maps, debug information.
            if let Some(at) = map.some_table(dice).filter(|range| !range.is_empty()) {
                smear(file, at, dice);
            }
        }
        28..=29 => {
            if let Some(at) = map.some_code(dice).filter(|range| !range.is_empty()) {
                write_code(file, at, dice);
            }
        }
        30 => swap_records(file, &map, dice),
        _ if dice.once_in(4) => {
            let len = dice.roll(file.len());
            file.truncate(len);
        }
        _ => {
            let whole = 0..file.len();
            smear(file, whole, dice);
        }
    }
}

const HEADER: usize = 64;
const SYMTAB: u32 = 2;
const RELA: u32 = 4;
const DYNAMIC: u32 = 6;
const DYNSYM: u32 = 11;
const STRTAB: u32 = 3;
const NOBITS: u32 = 8;
const EXECUTABLE: u64 = 4;

const HEADER_FIELDS: [Range<usize>; 13] =
    [4..5, 5..6, 16..18, 18..20, 24..32, 32..40, 40..48, 52..54, 54..56, 56..58, 58..60, 60..62, 62..64];
const PROGRAM_HEADER_FIELDS: [Range<usize>; 7] = [0..4, 4..8, 8..16, 16..24, 32..40, 40..48, 48..56];
const SECTION_HEADER_FIELDS: [Range<usize>; 10] =
    [0..4, 4..8, 8..16, 16..24, 24..32, 32..40, 40..44, 44..48, 48..56, 56..64];
const SYMBOL_FIELDS: [Range<usize>; 5] = [0..4, 4..5, 6..8, 8..16, 16..24];
const RELA_FIELDS: [Range<usize>; 4] = [0..8, 8..12, 12..16, 16..24];
const DYNAMIC_FIELDS: [Range<usize>; 2] = [0..8, 8..16];

/// Where things are, as far as the headers can be believed.
#[derive(Default)]
struct Map {
    program_headers: Vec<Range<usize>>,
    section_headers: Vec<Range<usize>>,
    /// Type, flags and place in the file.
    sections: Vec<(u32, u64, Range<usize>)>,
}

impl Map {
    fn new(file: &[u8]) -> Self {
        let records = |offset: usize, count: usize, size: usize| -> Vec<Range<usize>> {
            let start = number(file, offset..offset + 8);
            let count = number(file, count..count + 2);
            let place = |i: u64| {
                let start = usize::try_from(start.checked_add(i * size as u64)?).ok()?;
                Some(start..start.checked_add(size)?).filter(|range| range.end <= file.len())
            };
            (0..count).map_while(place).collect()
        };
        let section_headers = records(40, 60, 64);
        let sections = section_headers.iter().filter_map(|header| {
            let field = |from: usize, to: usize| number(file, header.start + from..header.start + to);
            let start = usize::try_from(field(24, 32)).ok()?;
            let end = start.checked_add(usize::try_from(field(32, 40)).ok()?)?.min(file.len());
            Some((field(4, 8) as u32, field(8, 16), start.min(end)..end))
        });
        Self { sections: sections.collect(), program_headers: records(32, 56, 56), section_headers }
    }

    fn some(&self, dice: &mut Dice, fits: impl Fn(u32, u64) -> bool) -> Option<Range<usize>> {
        let found: Vec<&Range<usize>> = self
            .sections
            .iter()
            .filter(|(kind, flags, _)| fits(*kind, *flags))
            .map(|(.., range)| range)
            .collect();
        (!found.is_empty()).then(|| (*dice.pick(&found)).clone())
    }

    fn some_table(&self, dice: &mut Dice) -> Option<Range<usize>> {
        self.some(dice, |kind, flags| !matches!(kind, 0 | STRTAB | NOBITS) && flags & EXECUTABLE == 0)
    }

    fn some_code(&self, dice: &mut Dice) -> Option<Range<usize>> {
        self.some(dice, |kind, flags| kind != NOBITS && flags & EXECUTABLE != 0)
    }
}

fn number(file: &[u8], at: Range<usize>) -> u64 {
    file.get(at).unwrap_or(&[]).iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn shifted(range: &Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}

/// Changes a field of one of the records.
fn record(file: &mut [u8], records: &[Range<usize>], fields: &[Range<usize>], dice: &mut Dice) {
    if !records.is_empty() {
        let start = dice.pick(records).start;
        change_field(file, shifted(dice.pick(fields), start), dice);
    }
}

/// Changes a field of an entry of a section of one of the `kinds`.
fn in_section(file: &mut [u8], map: &Map, kinds: &[u32], fields: &[Range<usize>], dice: &mut Dice) {
    let size = fields.iter().map(|field| field.end).max().unwrap_or(1);
    let Some(section) = map.some(dice, |kind, _| kinds.contains(&kind)) else { return };
    let count = section.len() / size;
    if count > 0 {
        let start = section.start + dice.roll(count) * size;
        change_field(file, shifted(dice.pick(fields), start), dice);
    }
}

/// Gives a field a value that is at the edge of something.
fn change_field(file: &mut [u8], at: Range<usize>, dice: &mut Dice) {
    if at.end > file.len() {
        return;
    }
    let old = number(file, at.clone());
    let value = match dice.roll(10) {
        0 => 0,
        1 => u64::MAX - dice.roll(3) as u64,
        2 => 1 << dice.roll(64),
        3 => (1u64 << dice.roll(64)).wrapping_sub(1),
        4 => old.wrapping_add(dice.roll(17) as u64).wrapping_sub(8),
        5 => file.len() as u64 + dice.roll(3) as u64 - 1,
        6 => old.wrapping_neg(),
        7 => dice.roll(256) as u64,
        // What some other field says.
        8 => {
            let from = dice.roll(file.len() / 4) * 4;
            number(file, from..from + 8)
        }
        _ => old ^ 1 << dice.roll(64),
    };
    let len = at.len();
    file[at].copy_from_slice(&value.to_le_bytes()[..len]);
}

/// Changes a few bytes somewhere in the range.
fn smear(file: &mut [u8], within: Range<usize>, dice: &mut Dice) {
    if within.end > file.len() || within.is_empty() {
        return;
    }
    // Damage near the start meets headers.
    let reach = if dice.once_in(2) { within.len() } else { within.len().min(64) };
    let at = within.start + dice.roll(reach);
    let end = within.end.min(at + 1 + dice.roll(16));
    match dice.roll(7) {
        0 => file[at] ^= 1 << dice.roll(8),
        1 | 2 => file[at] = dice.roll(256) as u8,
        3 => file[at..end].fill(*dice.pick(&[0x00, 0x01, 0x7f, 0x80, 0xff])),
        // Numbers of variable length: the smallest and the largest.
        4 => {
            let long = [[0x80; 9].as_slice(), &[*dice.pick(&[0x7f, 0x01, 0x00]); 8]].concat();
            let end = end.min(at + long.len());
            file[at..end].copy_from_slice(&long[..end - at]);
        }
        5 => {
            let from = within.start + dice.roll(within.len());
            let len = (within.end - from).min(within.end - at).min(1 + dice.roll(64));
            file.copy_within(from..from + len, at);
        }
        _ => {
            let width = *dice.pick(&[2, 4, 8]);
            let at = at - at % width.min(4);
            change_field(file, at..at + width, dice);
        }
    }
}

/// Writes an instruction that leads somewhere else.
fn write_code(file: &mut [u8], within: Range<usize>, dice: &mut Dice) {
    let near = |dice: &mut Dice| (dice.roll(256) as i32 - 128).to_le_bytes();
    let [a, b, c, d] = near(dice);
    let insn: &[u8] = match dice.roll(12) {
        0 => &[0xe8, a, b, c, d],
        1 => &[0xe9, a, b, c, d],
        2 => &[0x0f, 0x84, a, b, c, d],
        3 => &[0xeb, a],
        4 => &[0x75, a],
        5 => &[0xff, 0xe0],
        6 => &[0xff, 0x25, a, b, c, d],
        7 => &[0xff, 0xd0],
        8 => &[0xc3],
        9 => &[0x0f, 0x0b],
        10 => &[0x90],
        _ => &[0x06],
    };
    let at = within.start + dice.roll(within.len());
    let end = within.end.min(at + insn.len()).min(file.len());
    if at < end {
        file[at..end].copy_from_slice(&insn[..end - at]);
    }
}

/// Puts one header, or one symbol, in the place of another.
fn swap_records(file: &mut [u8], map: &Map, dice: &mut Dice) {
    let records = if dice.once_in(2) { &map.program_headers } else { &map.section_headers };
    if !records.is_empty() {
        let (from, to) = (dice.pick(records).clone(), dice.pick(records).start);
        file.copy_within(from, to);
    }
}
