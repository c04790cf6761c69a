//! Linked files: section `.annotate` put in and taken out. Nothing that is loaded moves or changes.

use object::elf::{self, FileHeader64, SectionHeader64};
use object::pod::{bytes_of, bytes_of_slice};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _, SectionTable};
use object::{LittleEndian as LE, U16, U32, U64};
use relive_image::annotations::format::SECTION;

/// Why a file stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkedFileError {
    /// Something in it points to where nothing is.
    #[error("{0} cannot be read")]
    Damaged(&'static str),
    /// There is no section table, or sections have no names.
    #[error("it has no table of sections that annotations could be put into")]
    NoSections,
    /// The section table is full.
    #[error("it has too many sections already")]
    Full,
    /// There is something in it that nobody but the program itself knows of.
    #[error("it carries data behind its last section, which the program may look for at the end of the file")]
    Payload,
}

type Header = FileHeader64<LE>;
type Section = SectionHeader64<LE>;

/// The file with this as its section `.annotate`.
///
/// # Errors
/// If the file is damaged, has no names of sections, or carries something that has to stay at its end.
pub fn with_section(file: &[u8], annotations: &[u8]) -> Result<Vec<u8>, LinkedFileError> {
    let mut parts = Parts::read(file)?;
    if parts.has_payload(file) {
        return Err(LinkedFileError::Payload);
    }
    let names_at = parts.header.shstrndx(LE, file).map_err(|_| DAMAGED_TABLE)? as usize;
    let mut names = match parts.sections.get(names_at).filter(|_| names_at != 0) {
        Some(names) => names.data(LE, file).map_err(|_| LinkedFileError::Damaged("the names of sections"))?,
        None => return Err(LinkedFileError::NoSections),
    }
    .to_vec();
    let mut out = file.to_vec();
    let ours = parts.ours.unwrap_or_else(|| {
        parts.sections.push(Section {
            sh_name: U32::new(LE, names.len() as u32),
            sh_type: U32::new(LE, elf::SHT_PROGBITS),
            sh_addralign: U64::new(LE, 1),
            ..no_section()
        });
        names.extend_from_slice(SECTION.as_bytes());
        names.push(0);
        parts.sections.len() - 1
    });
    if parts.sections.len() >= usize::from(elf::SHN_LORESERVE) {
        return Err(LinkedFileError::Full);
    }
    for (index, data) in [(ours, annotations), (names_at, &names)] {
        parts.sections[index].sh_offset = U64::new(LE, out.len() as u64);
        parts.sections[index].sh_size = U64::new(LE, data.len() as u64);
        out.extend_from_slice(data);
    }
    out.resize(out.len().next_multiple_of(8), 0);
    parts.header.e_shoff = U64::new(LE, out.len() as u64);
    parts.header.e_shnum = U16::new(LE, parts.sections.len() as u16);
    out.resize(out.len() + size_of_val(&*parts.sections), 0);
    parts.write(&mut out);
    Ok(out)
}

/// The file without section `.annotate`, if it has one. Its place in the section table stays, and says that there is nothing: so all
/// that speaks of other sections by number still does.
///
/// # Errors
/// If the file is damaged.
pub fn without_section(file: &[u8]) -> Result<Vec<u8>, LinkedFileError> {
    let mut parts = Parts::read(file)?;
    let Some(ours) = parts.ours else { return Ok(file.to_vec()) };
    let (start, len) = parts.sections[ours].file_range(LE).unwrap_or((0, 0));
    let end = start.checked_add(len).filter(|&end| end <= file.len() as u64);
    let end = end.ok_or(LinkedFileError::Damaged("section .annotate"))?;
    parts.sections[ours] = no_section();
    let is_apart = |(from, to): (u64, u64)| to <= start || end <= from;
    if len > 0 && !parts.ranges().chain(parts.fixed.iter().copied()).all(is_apart) {
        return Err(LinkedFileError::Damaged("section .annotate, where something else lies too,"));
    }
    let mut out = file.to_vec();
    out[start as usize..end as usize].fill(0);
    // What lies behind moves up, unless it is loaded, or somebody may know where it is.
    if parts.fixed_end() <= start && !parts.has_payload(file) {
        let moving = parts.sections.iter().filter(|s| s.sh_offset(LE) >= end);
        let align = moving.map(|s| s.sh_addralign(LE)).max().unwrap_or(0).max(8);
        let gone = len - len % align;
        out.drain(start as usize..(start + gone) as usize);
        let moved = |at: U64<LE>| if at.get(LE) >= end { U64::new(LE, at.get(LE) - gone) } else { at };
        for section in &mut parts.sections {
            section.sh_offset = moved(section.sh_offset);
        }
        parts.header.e_shoff = moved(parts.header.e_shoff);
    }
    parts.write(&mut out);
    Ok(out)
}

const DAMAGED_TABLE: LinkedFileError = LinkedFileError::Damaged("its section table");

/// What says where everything is in a file.
struct Parts {
    header: Header,
    sections: Vec<Section>,
    /// Which of them is `.annotate`.
    ours: Option<usize>,
    /// What has to stay where it is: headers, and what is loaded.
    fixed: Vec<(u64, u64)>,
}

impl Parts {
    fn read(file: &[u8]) -> Result<Self, LinkedFileError> {
        let header = Header::parse(file).map_err(|_| LinkedFileError::Damaged("its header"))?;
        let table = header.sections(LE, file).map_err(|_| DAMAGED_TABLE)?;
        if table.is_empty() {
            return Err(LinkedFileError::NoSections);
        }
        let segments = header
            .program_headers(LE, file)
            .map_err(|_| LinkedFileError::Damaged("its table of segments"))?;
        let headers =
            [(0, size_of::<Header>() as u64), (header.e_phoff.get(LE), size_of_val(segments) as u64)];
        let loaded = segments.iter().map(|s| (s.p_offset(LE), s.p_filesz(LE)));
        let fixed = headers.into_iter().chain(loaded).filter(|&(_, len)| len > 0);
        Ok(Self {
            header: *header,
            sections: table.iter().copied().collect(),
            ours: position(&table),
            fixed: fixed.map(|(at, len)| (at, at.saturating_add(len))).collect(),
        })
    }

    /// Where sections and their table are in the file.
    fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        let table = (self.header.e_shoff.get(LE), size_of_val(&*self.sections) as u64);
        let sections = self.sections.iter().filter_map(|s| s.file_range(LE));
        let ranges = sections.filter(|&(_, len)| len > 0).chain([table]);
        ranges.map(|(at, len)| (at, at.saturating_add(len)))
    }

    /// Where all that has to stay ends.
    fn fixed_end(&self) -> u64 {
        self.fixed.iter().map(|&(_, end)| end).max().unwrap_or(0)
    }

    /// Whether there is more in the file than what it says of itself; zeros are fill.
    fn has_payload(&self, file: &[u8]) -> bool {
        let end = self.ranges().map(|(_, end)| end).max().unwrap_or(0).max(self.fixed_end());
        let rest = usize::try_from(end).ok().and_then(|end| file.get(end..)).unwrap_or(&[]);
        rest.iter().any(|&byte| byte != 0)
    }

    /// Puts header and section table into the file, which has room for them.
    fn write(&self, out: &mut [u8]) {
        let table = bytes_of_slice(&self.sections);
        out[self.header.e_shoff.get(LE) as usize..][..table.len()].copy_from_slice(table);
        out[..size_of::<Header>()].copy_from_slice(bytes_of(&self.header));
    }
}

/// Which section is `.annotate`.
fn position(table: &SectionTable<'_, Header>) -> Option<usize> {
    table.iter().position(|s| table.section_name(LE, s).is_ok_and(|name| name == SECTION.as_bytes()))
}

/// The header of a section that is none.
fn no_section() -> Section {
    let zero = U64::new(LE, 0);
    Section {
        sh_name: U32::new(LE, 0),
        sh_type: U32::new(LE, elf::SHT_NULL),
        sh_flags: U64::new(LE, elf::SectionFlags::default()),
        sh_addr: zero,
        sh_offset: zero,
        sh_size: zero,
        sh_link: U32::new(LE, 0),
        sh_info: U32::new(LE, 0),
        sh_addralign: zero,
        sh_entsize: zero,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Put in, found, and taken out again from a program of the system.
    #[test]
    fn what_is_put_in_is_taken_out() {
        let file = std::fs::read("/bin/true").expect("a program");
        let with = with_section(&file, b"something to say").expect("a sound file");
        let section = |file: &[u8]| {
            let parts = Parts::read(file).expect("a sound file");
            let ours = parts.ours.map(|ours| parts.sections[ours]);
            ours.map(|section| section.data(LE, file).expect("in the file").to_vec())
        };
        assert_eq!(section(&with).as_deref(), Some(&b"something to say"[..]));
        let more = with_section(&with, b"more of it").expect("a sound file");
        assert_eq!(section(&more).as_deref(), Some(&b"more of it"[..]));
        let without = without_section(&more).expect("a sound file");
        assert_eq!(section(&without), None);
        let end = Parts::read(&file).expect("a sound file").fixed_end() as usize;
        assert_eq!(without[size_of::<Header>()..end], file[size_of::<Header>()..end]);
        assert_eq!(without_section(&file).as_deref(), Ok(&file[..]));
    }

    #[test]
    fn nothing_else_is_taken_out() {
        let file = std::fs::read("/bin/true").expect("a program");
        let mut with = with_section(&file, b"something to say").expect("a sound file");
        let mut parts = Parts::read(&with).expect("a sound file");
        let ours = parts.ours.expect("put in");
        for at in [0, 0x40, 0x1000, with.len() as u64 - 64, u64::MAX - 4] {
            parts.sections[ours].sh_offset = U64::new(LE, at);
            parts.write(&mut with);
            assert!(matches!(without_section(&with), Err(LinkedFileError::Damaged(_))), "{at:#x}");
        }
    }

    #[test]
    fn what_a_program_carries_stays_at_its_end() {
        let mut file = std::fs::read("/bin/true").expect("a program");
        file.extend(b"archive");
        assert_eq!(with_section(&file, b"x"), Err(LinkedFileError::Payload));
    }
}
