//! The debug sections of a file, unpacked.
//!
//! Three ways to store them are in use: as they are, compressed with zlib or zstd behind an ELF
//! compression header (`SHF_COMPRESSED`, `-gz`), and zlib behind the letters `ZLIB` in a section
//! named `.zdebug_…`, which older GNU tools and Go wrote.

use super::complaints::Complaints;
use super::reading::Dwarf;
use crate::cursor::{Cursor, FieldError};
use crate::elf::{Elf, Section};
use gimli::{DwarfSections, EndianSlice, LittleEndian, SectionId};
use object::elf as raw;
use object::read::elf::ElfFile64;
use object::read::{CompressedData, CompressionFormat, Object as _, ObjectSection as _};
use std::borrow::Cow;
use std::convert::Infallible;

/// The sections that lines and inlined calls are read from.
const WANTED: [SectionId; 9] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// How much larger than its packed form a section may claim to be: what zlib reaches at its best.
/// The claim decides how much memory is set aside, so a damaged one must not be believed.
const MOST_PACKED: u64 = 1032;

/// A file that `dwz` made: a relocatable object of debug sections and nothing else, so no [`Elf`].
pub(crate) type Supplement<'d> = ElfFile64<'d, object::LittleEndian>;

/// The sections of one file.
#[derive(Default)]
pub(super) struct Sections<'d> {
    all: DwarfSections<Cow<'d, [u8]>>,
    /// Bytes in all of them.
    pub(super) size: usize,
}

impl<'d> Sections<'d> {
    /// Reads the sections of a program or of its debug file; a missing or damaged one is empty.
    pub(super) fn load(elf: &Elf<'d>, complaints: &Complaints) -> Self {
        Self::load_with(|id| find(elf, id).map(packed).transpose(), complaints)
    }

    /// Reads the sections of a supplement.
    pub(super) fn load_supplement(file: &Supplement<'d>, complaints: &Complaints) -> Self {
        let packed = |id: SectionId| {
            let section = file.section_by_name(id.name());
            section.map(|s| s.compressed_data().map_err(|why| why.to_string())).transpose()
        };
        Self::load_with(packed, complaints)
    }

    fn load_with(
        packed: impl Fn(SectionId) -> Result<Option<CompressedData<'d>>, String>,
        complaints: &Complaints,
    ) -> Self {
        let mut size = 0;
        let read = |id: SectionId| {
            let packed = if WANTED.contains(&id) { packed(id) } else { Ok(None) };
            let bytes = match packed.and_then(|packed| packed.map(unpack).transpose()) {
                Ok(bytes) => bytes.unwrap_or_default(),
                Err(why) => {
                    complaints.add(id.name(), why);
                    Cow::default()
                }
            };
            size += bytes.len();
            Ok::<_, Infallible>(bytes)
        };
        let Ok(all) = DwarfSections::load(read);
        Self { all, size }
    }

    /// The sections as gimli reads them.
    pub(super) fn dwarf(&self) -> Dwarf<'_> {
        self.all.borrow(|bytes| EndianSlice::new(bytes, LittleEndian))
    }
}

/// Whether the file holds debug information of its own.
pub(crate) fn has_dwarf(elf: &Elf<'_>) -> bool {
    find(elf, SectionId::DebugInfo).is_some_and(|s| !s.data.is_empty())
}

fn find<'e, 'd>(elf: &'e Elf<'d>, id: SectionId) -> Option<&'e Section<'d>> {
    let name = id.name();
    elf.section(name).or_else(|| {
        let packed = format!(".z{}", name.strip_prefix('.')?);
        elf.section(&packed)
    })
}

/// How the section is packed.
fn packed<'d>(section: &Section<'d>) -> Result<CompressedData<'d>, String> {
    if section.compressed {
        let (kind, uncompressed_size, data) =
            compression_header(section.data).map_err(|why| why.to_string())?;
        let format = match raw::CompressionType(kind) {
            raw::ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
            raw::ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
            _ => return Err(format!("compressed in an unknown way, number {kind}")),
        };
        return Ok(CompressedData { format, data, uncompressed_size });
    }
    if section.name.starts_with(".z")
        && let Some((b"ZLIB", rest)) = section.data.split_first_chunk()
        && let Some((size, data)) = rest.split_first_chunk()
    {
        let uncompressed_size = u64::from_be_bytes(*size);
        return Ok(CompressedData { format: CompressionFormat::Zlib, data, uncompressed_size });
    }
    Ok(CompressedData::none(section.data))
}

/// An `Elf64_Chdr`: the kind of compression, the size before, and the bytes behind it.
fn compression_header(data: &[u8]) -> Result<(u32, u64, &[u8]), FieldError> {
    let mut header = Cursor::new(data);
    let kind = header.u32("the compression type")?;
    header.u32("padding")?;
    let size = header.u64("the size")?;
    header.u64("the alignment")?;
    Ok((kind, size, &data[header.position()..]))
}

fn unpack(packed: CompressedData<'_>) -> Result<Cow<'_, [u8]>, String> {
    let (claim, len) = (packed.uncompressed_size, packed.data.len());
    if packed.format != CompressionFormat::None && claim > (len as u64).saturating_mul(MOST_PACKED) {
        return Err(format!("claims to hold {claim} bytes in {len} compressed ones"));
    }
    packed.decompress().map_err(|why| why.to_string())
}
