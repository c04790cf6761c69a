//! Go's `.gopclntab`: name and extent of every Go function, there even in a fully stripped file
//! because the runtime itself needs it.
//!
//! There are four formats, told apart by their magic number (`debug/gosym/pclntab.go`,
//! `runtime/symtab.go`):
//!
//! | magic | since | function table |
//! |---|---|---|
//! | `0xfffffffb` | Go 1.2 | absolute addresses; names lie anywhere in the table |
//! | `0xfffffffa` | Go 1.16 | absolute addresses; names in a part of their own |
//! | `0xfffffff0` | Go 1.18 | offsets from the start of the text, which the header names |
//! | `0xfffffff1` | Go 1.20 | the same; since Go 1.26 the header's text start is zero |
//!
//! Absolute addresses, and the header's text start, are relocated in a position-independent file:
//! apply the relative relocations to the bytes first. Where a header has no text start the caller
//! has to know it, from the symbol `runtime.text` or by [`text_start_from_moduledata`]; the start
//! of `.text` is a guess that is wrong in programs with C code in front.
//!
//! Everything inside is relative to the table's first byte, so its link address is not needed to
//! read it.

use relive_code::addr::{AddrRange, LinkAddr};

use crate::cursor::{Cursor, FieldError};

/// The Go release that introduced a table format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Go 1.2 to 1.15.
    Go1_2,
    /// Go 1.16 and 1.17.
    Go1_16,
    /// Go 1.18 and 1.19.
    Go1_18,
    /// Go 1.20 and later.
    Go1_20,
}

impl Version {
    fn from_magic(magic: u32) -> Option<Self> {
        match magic {
            0xffff_fffb => Some(Self::Go1_2),
            0xffff_fffa => Some(Self::Go1_16),
            0xffff_fff0 => Some(Self::Go1_18),
            0xffff_fff1 => Some(Self::Go1_20),
            _ => None,
        }
    }
}

/// All functions of a Go program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pclntab<'a> {
    /// The table's format.
    pub version: Version,
    /// The functions, by rising address.
    pub functions: Vec<Function<'a>>,
}

/// One Go function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// From the entry to the entry of the next function, so padding at the end is included.
    pub range: AddrRange,
    /// Package path and name, `main.main`. Borrowed, because hostile tables can share one long name
    /// among many functions; bytes, because nothing checks that it is UTF-8.
    pub name: &'a [u8],
}

/// Why a table could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A field is cut short.
    #[error(".gopclntab: {0}")]
    Field(#[from] FieldError),
    /// The first four bytes are none of the known magic numbers.
    #[error(".gopclntab: at byte 0x0: {0:#x} is not the magic number of a known format")]
    Magic(u32),
    /// The header is not that of a little-endian 64-bit program.
    #[error(".gopclntab: at byte 0x4: {0:02x?} where a 64-bit x86 program has [00, 00, 01, 08]")]
    Machine([u8; 4]),
    /// Function entries are relative to an address that is neither in the header nor given.
    #[error(".gopclntab: at byte 0x18: the header has no text start and none was given")]
    NoTextStart,
    /// Functions are not in the order of their addresses.
    #[error(".gopclntab: at byte {at:#x}: the function here begins behind the next one")]
    Unsorted {
        /// Offset of the function's entry in the table of functions.
        at: usize,
    },
    /// All addresses are zero.
    #[error(".gopclntab: at byte {at:#x}: the last address is zero: relocations have not been applied")]
    Unrelocated {
        /// Offset of the last address in the table of functions.
        at: usize,
    },
    /// A function's name does not end.
    #[error(".gopclntab: at byte {at:#x}: the function name runs past the end of the section")]
    EndlessName {
        /// Offset of the name.
        at: usize,
    },
}

/// The bytes every table of a 64-bit x86 program has behind its magic number: two zeros, the
/// smallest instruction's size, the pointer's size.
const MACHINE: [u8; 4] = [0, 0, 1, 8];

/// Reads the table that begins with the first of `table`'s bytes; there may be more bytes than it
/// needs.
///
/// `text_start` is used where the header has none, and only there.
pub fn parse(table: &[u8], text_start: Option<LinkAddr>) -> Result<Pclntab<'_>, Error> {
    let layout = Layout::read(table)?;
    let base = layout.base(text_start)?;
    // The end of the last function stands behind all entries: if it is there, the count is no lie.
    let end = layout.entry(table, layout.functions)?;
    if layout.absolute() && layout.functions > 0 && end == 0 {
        return Err(Error::Unrelocated { at: layout.slot(layout.functions) });
    }
    let mut functions = Vec::with_capacity(layout.functions);
    let mut name_offsets = Vec::with_capacity(layout.functions);
    let mut entry = layout.entry(table, 0)?;
    for index in 0..layout.functions {
        let next = layout.entry(table, index + 1)?;
        if next < entry {
            return Err(Error::Unsorted { at: layout.slot(index) });
        }
        let range = AddrRange::new(base.offset(entry), base.offset(next));
        functions.push(Function { range, name: &[] });
        name_offsets.push(layout.name_offset(table, index)?);
        entry = next;
    }
    name_functions(table, &mut functions, &name_offsets)?;
    Ok(Pclntab { version: layout.version, functions })
}

/// Fills in the names by rising offset, so that each byte is searched for an end of name only once
/// however the table shares names.
fn name_functions<'a>(
    table: &'a [u8],
    functions: &mut [Function<'a>],
    offsets: &[usize],
) -> Result<(), Error> {
    let mut order: Vec<usize> = (0..offsets.len()).collect();
    order.sort_unstable_by_key(|&function| offsets[function]);
    let mut last_end = None;
    for function in order {
        let at = offsets[function];
        let end = match last_end {
            Some(end) if at <= end => end,
            _ => at + name_length(table, at).ok_or(Error::EndlessName { at })?,
        };
        functions[function].name = &table[at..end];
        last_end = Some(end);
    }
    Ok(())
}

fn name_length(table: &[u8], at: usize) -> Option<usize> {
    table.get(at..)?.iter().position(|&byte| byte == 0)
}

/// Finds a table by its magic number in the bytes of a read-only segment, for files without section
/// headers.
///
/// The eight bytes that every header begins with also occur in programs that read such tables; a
/// candidate must have a first function that agrees with itself.
#[must_use]
pub fn locate(segment: &[u8]) -> Option<usize> {
    segment
        .windows(8)
        .enumerate()
        .filter(|(_, header)| header[4..] == MACHINE && header[1..4] == [0xff; 3])
        .map(|(offset, _)| offset)
        .find(|&offset| is_plausible(&segment[offset..]))
}

fn is_plausible(table: &[u8]) -> bool {
    let first_function = || -> Result<bool, Error> {
        let layout = Layout::read(table)?;
        layout.entry(table, layout.functions)?;
        let info = layout.info(table, 0)?;
        let entry = layout.word(&mut Cursor::at(table, info, "function entry")?, "function entry")?;
        let name = layout.name_offset(table, 0)?;
        Ok(layout.functions > 0 && entry == layout.entry(table, 0)? && name < table.len())
    };
    first_function().unwrap_or(false)
}

/// Finds the text start in the module data, the runtime's description of the program, which begins
/// with the address of the table and names the text start (since Go 1.16 and unchanged in Go 1.26).
///
/// `data` is `.go.module` (since Go 1.26), `.noptrdata` or `.data`, with relative relocations
/// applied; it begins at an eight-byte boundary. `pclntab` is the link address of the table.
#[must_use]
pub fn text_start_from_moduledata(data: &[u8], pclntab: LinkAddr) -> Option<LinkAddr> {
    // One pointer, six slices of three words, one pointer; then these four.
    const MIN_PC: usize = 20;
    let word = |index: usize| {
        let bytes = data.get(index.checked_mul(8)?..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    };
    (0..data.len() / 8).filter(|&start| word(start) == Some(pclntab.0)).find_map(|start| {
        let [min_pc, max_pc, text, text_end] = [
            word(start + MIN_PC)?,
            word(start + MIN_PC + 1)?,
            word(start + MIN_PC + 2)?,
            word(start + MIN_PC + 3)?,
        ];
        // Other pointers to the table exist; only in the module data do these four fit together.
        (text != 0 && text <= min_pc && min_pc < max_pc && max_pc <= text_end).then_some(LinkAddr(text))
    })
}

/// Where the parts of a table lie, all relative to its first byte.
struct Layout {
    version: Version,
    functions: usize,
    /// What the header says of the text start; zero if nothing.
    text_start: u64,
    /// Base of the name offsets.
    names: usize,
    /// The table of functions: for each its entry and its information's offset, then the end of the
    /// last.
    slots: usize,
    /// Base of the information's offsets.
    infos: usize,
}

impl Layout {
    fn read(table: &[u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(table);
        let magic = cursor.u32("magic number")?;
        let version = Version::from_magic(magic).ok_or(Error::Magic(magic))?;
        let machine = cursor.u32("machine description")?.to_le_bytes();
        if machine != MACHINE {
            return Err(Error::Machine(machine));
        }
        let functions = offset(&mut cursor, "number of functions")?;
        if version == Version::Go1_2 {
            let slots = cursor.position();
            return Ok(Self { version, functions, text_start: 0, names: 0, slots, infos: 0 });
        }
        cursor.u64("number of files")?;
        let text_start = if version >= Version::Go1_18 { cursor.u64("text start")? } else { 0 };
        let names = offset(&mut cursor, "offset of the function names")?;
        cursor.u64("offset of the compilation units")?;
        cursor.u64("offset of the file names")?;
        cursor.u64("offset of the line tables")?;
        let slots = offset(&mut cursor, "offset of the function table")?;
        Ok(Self { version, functions, text_start, names, slots, infos: slots })
    }

    /// Whether function entries are addresses, not offsets from the text start.
    fn absolute(&self) -> bool {
        self.version < Version::Go1_18
    }

    /// What function entries are relative to.
    fn base(&self, given: Option<LinkAddr>) -> Result<LinkAddr, Error> {
        match self.text_start {
            0 if self.absolute() => Ok(LinkAddr(0)),
            0 => given.ok_or(Error::NoTextStart),
            text_start => Ok(LinkAddr(text_start)),
        }
    }

    /// A number of the width that the function table uses.
    fn word(&self, cursor: &mut Cursor<'_>, field: &'static str) -> Result<u64, FieldError> {
        if self.absolute() { cursor.u64(field) } else { cursor.u32(field).map(u64::from) }
    }

    fn word_size(&self) -> usize {
        if self.absolute() { 8 } else { 4 }
    }

    /// Where a function's entry stands in the function table.
    fn slot(&self, function: usize) -> usize {
        function.saturating_mul(2 * self.word_size()).saturating_add(self.slots)
    }

    /// A function's entry, or behind the last function the end of the text.
    fn entry(&self, table: &[u8], function: usize) -> Result<u64, FieldError> {
        self.word(&mut Cursor::at(table, self.slot(function), "function entry")?, "function entry")
    }

    /// Where the information about a function stands.
    fn info(&self, table: &[u8], function: usize) -> Result<usize, FieldError> {
        const FIELD: &str = "offset of the function information";
        let at = self.slot(function).saturating_add(self.word_size());
        let offset = self.word(&mut Cursor::at(table, at, FIELD)?, FIELD)?;
        Ok(self.infos.saturating_add(usize::try_from(offset).unwrap_or(usize::MAX)))
    }

    /// Where a function's name stands: the information begins with the entry, and then the name's
    /// offset.
    fn name_offset(&self, table: &[u8], function: usize) -> Result<usize, FieldError> {
        const FIELD: &str = "offset of the function name";
        let at = self.info(table, function)?.saturating_add(self.word_size());
        let offset = Cursor::at(table, at, FIELD)?.u32(FIELD)?;
        Ok(self.names.saturating_add(offset as usize))
    }
}

/// A 64-bit offset. One that does not fit the address space will not fit the section either.
fn offset(cursor: &mut Cursor<'_>, field: &'static str) -> Result<usize, FieldError> {
    Ok(usize::try_from(cursor.u64(field)?).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cursor::FieldFault;

    const TEXT: LinkAddr = LinkAddr(0x40_1000);

    /// A table in any of the formats. `functions` are (entry, name) with entries relative to
    /// [`TEXT`]; two functions of the same name share it.
    fn table(magic: u32, header_text_start: u64, functions: &[(u32, &str)], end: u32) -> Vec<u8> {
        let version = Version::from_magic(magic).unwrap();
        let word = |offset: u32| -> Vec<u8> {
            if version < Version::Go1_18 {
                TEXT.offset(offset.into()).0.to_le_bytes().to_vec()
            } else {
                offset.to_le_bytes().to_vec()
            }
        };
        let plain =
            |value: usize| -> Vec<u8> { word(0).iter().zip(value.to_le_bytes()).map(|(_, b)| b).collect() };

        let mut names = vec![0]; // The unnamed function.
        let name_offsets: Vec<usize> = functions
            .iter()
            .map(|(_, name)| {
                let terminated = [name.as_bytes(), b"\0"].concat();
                names.windows(terminated.len()).position(|known| known == terminated).unwrap_or_else(|| {
                    names.extend(&terminated);
                    names.len() - terminated.len()
                })
            })
            .collect();

        let words = match version {
            Version::Go1_2 => 1,
            Version::Go1_16 => 7,
            Version::Go1_18 | Version::Go1_20 => 8,
        };
        let header_size = 8 + 8 * words;
        let slots_size = (2 * functions.len() + 1) * word(0).len();
        let info_size = word(0).len() + 4;
        let infos_size = functions.len() * info_size;
        // Go 1.2: slots, infos, names; later: names, slots, infos. Offsets count from the table in
        // the one, from the part in the other.
        let old = version == Version::Go1_2;
        let name_base = if old { header_size + slots_size + infos_size } else { 0 };
        let info_base = if old { header_size + slots_size } else { slots_size };

        let mut slots = Vec::new();
        let mut infos = Vec::new();
        for (index, (entry, _)) in functions.iter().enumerate() {
            slots.extend(word(*entry));
            slots.extend(plain(info_base + index * info_size));
            infos.extend(word(*entry));
            infos.extend(u32::try_from(name_base + name_offsets[index]).unwrap().to_le_bytes());
        }
        slots.extend(word(end));

        let mut header = vec![functions.len() as u64];
        if !old {
            header.push(77); // files
            if version >= Version::Go1_18 {
                header.push(header_text_start);
            }
            header.extend([header_size as u64, 0, 0, 0, (header_size + names.len()) as u64]);
        }
        let header: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
        let parts = if old { [slots, infos, names] } else { [names, slots, infos] };
        [magic.to_le_bytes().to_vec(), MACHINE.to_vec(), header, parts.concat()].concat()
    }

    const MAGICS: [u32; 4] = [0xffff_fffb, 0xffff_fffa, 0xffff_fff0, 0xffff_fff1];
    const FUNCTIONS: [(u32, &str); 4] =
        [(0, "runtime.text"), (0x40, "main.main"), (0x90, ""), (0xa0, "main.main")];

    fn expected() -> Vec<Function<'static>> {
        let range = |start, end| AddrRange::new(TEXT.offset(start), TEXT.offset(end));
        vec![
            Function { range: range(0, 0x40), name: b"runtime.text" },
            Function { range: range(0x40, 0x90), name: b"main.main" },
            Function { range: range(0x90, 0xa0), name: b"" },
            Function { range: range(0xa0, 0x123), name: b"main.main" },
        ]
    }

    #[test]
    fn every_format_tells_the_same_functions() {
        for magic in MAGICS {
            let bytes = table(magic, TEXT.0, &FUNCTIONS, 0x123);
            // The header wins over the caller.
            let parsed = parse(&bytes, Some(LinkAddr(0x999))).unwrap();
            assert_eq!(Some(parsed.version), Version::from_magic(magic));
            assert_eq!(parsed.functions, expected(), "{magic:#x}");
        }
    }

    #[test]
    fn a_header_without_text_start_asks_the_caller() {
        let bytes = table(0xffff_fff1, 0, &FUNCTIONS, 0x123);
        assert_eq!(parse(&bytes, Some(TEXT)).unwrap().functions, expected());
        assert_eq!(parse(&bytes, None), Err(Error::NoTextStart));
    }

    #[test]
    fn a_table_is_found_behind_lookalikes() {
        for magic in MAGICS {
            // A bare header as in the constants of a debugger, then the table at an odd place.
            let mut segment = [&magic.to_le_bytes()[..], &MACHINE, &[0xff; 13]].concat();
            let at = segment.len();
            segment.extend(table(magic, TEXT.0, &FUNCTIONS, 0x123));
            segment.extend([0xcc; 100]);
            assert_eq!(locate(&segment), Some(at), "{magic:#x}");
        }
        assert_eq!(locate(&[0; 100]), None);
        assert_eq!(locate(&[]), None);
    }

    #[test]
    fn the_text_start_is_read_from_module_data() {
        let pclntab = LinkAddr(0x50_0000);
        let mut words = vec![pclntab.0, 1, 2, 3]; // some other pointer to the table
        words.push(pclntab.0);
        words.extend([9; 19]);
        words.extend([TEXT.0 + 0x20, TEXT.0 + 0x123, TEXT.0, TEXT.0 + 0x200]);
        let data: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(text_start_from_moduledata(&data, pclntab), Some(TEXT));
        assert_eq!(text_start_from_moduledata(&data, LinkAddr(0x1234)), None);
        assert_eq!(text_start_from_moduledata(&data[..data.len() - 8], pclntab), None);
    }

    #[test]
    fn faults_have_a_place() {
        assert_eq!(parse(&[0; 8], None), Err(Error::Magic(0)));
        assert_eq!(parse(&[0xf1, 0xff, 0xff, 0xff, 0, 0, 4, 4], None), Err(Error::Machine([0, 0, 4, 4])));

        let swapped = [(0x40, "b"), (0, "a")];
        let bytes = table(0xffff_fffb, 0, &swapped, 0x123);
        assert_eq!(parse(&bytes, None), Err(Error::Unsorted { at: 16 }));

        let mut unrelocated = table(0xffff_fffb, 0, &[(0, "a")], 0x123);
        unrelocated[16..24].fill(0);
        unrelocated[32..40].fill(0);
        assert_eq!(parse(&unrelocated, None), Err(Error::Unrelocated { at: 32 }));

        let mut endless = table(0xffff_fffb, 0, &[(0, "endless")], 0x123);
        endless.pop();
        assert_eq!(parse(&endless, None), Err(Error::EndlessName { at: endless.len() - 7 }));

        let mut too_many = table(0xffff_fff0, TEXT.0, &FUNCTIONS, 0x123);
        too_many[8..16].fill(0xff);
        let Err(Error::Field(fault)) = parse(&too_many, None) else { panic!("a table of 2^64 functions") };
        assert_eq!(fault.fault, FieldFault::CutShort);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            magic in prop::sample::select(&MAGICS[..]),
            patches in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = table(magic, TEXT.0, &FUNCTIONS, 0x123);
            for (at, byte) in patches {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(cut.index(bytes.len() + 1));
            let _ = parse(&bytes, Some(TEXT));
            let _ = locate(&bytes);
        }
    }
}
