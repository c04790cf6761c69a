//! gold refuses to leave out code that a section refers to, unless that section is one of debug information, by its name.

use object::elf;
use object::read::archive::ArchiveFile;
use object::read::elf::{FileHeader as _, SectionHeader as _};
use std::io;
use std::ops::Range;
use std::path::Path;

/// As long as the name of the section, so that nothing has to move.
const HIDDEN: &[u8; 10] = b".debug_an\0";
const SHOWN: &[u8; 10] = b".annotate\0";

/// The object file or library with annotations by another name; nothing if there are none.
pub(crate) fn hide(_: &Path, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut changed = bytes.to_vec();
    let mut any = false;
    match ArchiveFile::parse(bytes) {
        Ok(archive) => {
            for member in archive.members().flatten().filter(|_| !archive.is_thin()) {
                let (start, len) = member.file_range();
                let range = start as usize..(start + len) as usize;
                any |= changed.get_mut(range).is_some_and(|member| rename(member, SHOWN, HIDDEN));
            }
        }
        Err(_) => any = rename(&mut changed, SHOWN, HIDDEN),
    }
    any.then_some(changed)
}

/// Gives annotations their name again.
pub(crate) fn show(output: &Path) -> io::Result<()> {
    let mut bytes = std::fs::read(output)?;
    if rename(&mut bytes, HIDDEN, SHOWN) {
        crate::object::replace(output, &bytes)?;
    }
    Ok(())
}

/// Renames sections in an ELF file; whether there were any.
fn rename(file: &mut [u8], from: &[u8; 10], to: &[u8; 10]) -> bool {
    let Some(range) = names(file) else { return false };
    let names = &mut file[range];
    let mut any = false;
    for at in 0..names.len().saturating_sub(from.len() - 1) {
        if names[at..].starts_with(from) {
            names[at..at + to.len()].copy_from_slice(to);
            any = true;
        }
    }
    any
}

/// Where the names of sections are.
fn names(file: &[u8]) -> Option<Range<usize>> {
    let header = elf::FileHeader64::<object::LittleEndian>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, file).ok()?;
    let index = object::SectionIndex(header.shstrndx(endian, file).ok()? as usize);
    let (start, len) = sections.section(index).ok()?.file_range(endian)?;
    let range = start as usize..start.checked_add(len)? as usize;
    (range.end <= file.len()).then_some(range)
}
