//! Where the runtime is started from.

use crate::elf_file::Changes;
use crate::redirect::Addends;
use object::elf;
use relive_code::addr::LinkAddr;
use relive_image::elf::Kind;
use relive_image::image::Image;
use relive_image::relocations::Filled;

/// Makes the module start at `start`; returns what it started with before, zero if nothing.
///
/// # Errors
/// If there is no place for it.
pub(crate) fn hook(
    image: &Image<'_>,
    start: LinkAddr,
    changes: &mut Changes,
) -> Result<LinkAddr, &'static str> {
    if image.elf.kind != Kind::SharedObject {
        changes.entry = Some(start);
        return Ok(image.elf.entry);
    }
    let dynamic = dynamic_section(image).ok_or("it has no dynamic section")?;
    let entries = &image.elf.dynamic;
    let value_at = |i: usize| dynamic.offset(16 * i as u64 + 8);
    if let Some(i) = entries.iter().position(|(tag, _)| *tag == elf::DT_INIT) {
        changes.patches.push((value_at(i), start.0.to_le_bytes().to_vec()));
        return Ok(LinkAddr(entries[i].1));
    }
    // Without an initialiser, in place of the first of the array of them.
    if let Some(&(_, array)) = entries.iter().find(|(tag, _)| *tag == elf::DT_INIT_ARRAY)
        && let Some(relocation) = image.relocation(LinkAddr(array))
        && let Filled::Here(next) = relocation.filled
        && let Some(addend) = Addends::new(image).place_of(image, LinkAddr(array))
    {
        changes.patches.push((addend, start.0.to_le_bytes().to_vec()));
        return Ok(next);
    }
    // Or in a spare entry of the dynamic section: it ends with the first empty one.
    let bytes = image.elf.bytes_at(dynamic);
    let spare = entries.iter().position(|(tag, _)| *tag == elf::DT_NULL).unwrap_or(entries.len());
    let empty = |i: usize| bytes.get(16 * i..16 * i + 16).is_some_and(|e| e.iter().all(|&b| b == 0));
    if empty(spare) && empty(spare + 1) {
        let mut entry = elf::DT_INIT.0.to_le_bytes().to_vec();
        entry.extend(start.0.to_le_bytes());
        changes.patches.push((dynamic.offset(16 * spare as u64), entry));
        return Ok(LinkAddr(0));
    }
    Err("it has no initialiser, and no room to add one")
}

fn dynamic_section(image: &Image<'_>) -> Option<LinkAddr> {
    image.elf.section(".dynamic").map(|s| s.range.start)
}
