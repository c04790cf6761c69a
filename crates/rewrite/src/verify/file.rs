//! What must not change in the file, and what must have been added.

use super::World;
use crate::redirect::distance_between;
use object::elf;
use relive_abi::parameters::MAGIC;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_image::elf::Kind;
use relive_image::program::StretchKind;
use relive_probe::describe::Fate;

/// The length of the header of an ELF file.
const HEADER: u64 = 64;

/// What is wrong outside of functions.
pub(super) fn check(world: &World<'_, '_>, start: LinkAddr, init: LinkAddr) -> Vec<(LinkAddr, String)> {
    let mut wrong = Vec::new();
    let free = free_to_change(world);
    let words = table_words(world);
    let mut hooks: Vec<AddrRange> = Vec::new();
    for segment in &world.old.elf.segments {
        let at = segment.range.start;
        let Some(new) = world.new.elf.bytes_in(at, segment.data.len() as u64) else {
            wrong.push((at, "an old segment is not where it was".to_string()));
            continue;
        };
        if new == segment.data {
            continue;
        }
        for changed in differences(segment.data, new) {
            let range = AddrRange::sized(at.offset(changed.0 as u64), (changed.1 - changed.0) as u64);
            let header = at.offset(HEADER);
            let is_header = world.old.elf.data.as_ptr() == segment.data.as_ptr() && range.end <= header;
            let known = free[..free.partition_point(|f| f.start <= range.start)].last();
            let last = words[..words.partition_point(|w| w.start <= range.start)].last();
            if last.is_some_and(|w| range.end <= w.end) {
                continue;
            }
            let is_told = world.told.is_some_and(|told| told.start <= range.start && range.end <= told.end);
            if is_header || is_told || known.is_some_and(|f| range.end <= f.end) {
                continue;
            }
            match hooks.last_mut() {
                Some(last) if range.end.since(last.start) <= 16 => last.end = range.end,
                _ => hooks.push(range),
            }
        }
    }
    let is_library = world.old.elf.kind == Kind::SharedObject;
    if is_library {
        // One word, or one entry of the dynamic section, has the address of the runtime's start.
        for hook in &hooks {
            let near = (hook.start.0.saturating_sub(15)..=hook.start.0).map(LinkAddr);
            let holds = |at: LinkAddr| {
                let word = world.bytes(at).first_chunk().map(|w| u64::from_le_bytes(*w));
                word == Some(init.0) && at.0 <= hook.end.0
            };
            let mut near = near.chain((1..16).map(|i| hook.start.offset(i)));
            if hooks.len() > 1 || !near.any(holds) {
                wrong.push((hook.start, "bytes that have nothing to do with it were changed".to_string()));
            }
        }
        if hooks.is_empty() {
            wrong.push((LinkAddr(0), "nothing starts the runtime".to_string()));
        }
    } else {
        for hook in &hooks {
            wrong.push((hook.start, "bytes that have nothing to do with it were changed".to_string()));
        }
        if world.new.elf.entry != start {
            wrong.push((world.new.elf.entry, "the program does not start with the runtime".to_string()));
        }
    }
    if let Some(told) = world.told
        && world.bytes(told.start).first_chunk() != Some(&MAGIC.to_le_bytes())
    {
        wrong.push((told.start, "the runtime is not told that it is to work".to_string()));
    }
    for (at, name) in [(world.code.start, "the new code"), (world.enter, "the runtime")] {
        if !world.new.elf.segment_holding(at).is_some_and(|s| s.executable && !s.writable) {
            wrong.push((at, format!("{name} is not executable, or is writable")));
        }
    }
    if !world.new.elf.segment_holding(world.area.start).is_some_and(|s| s.writable && !s.executable) {
        wrong.push((world.area.start, "counters cannot be written".to_string()));
    }
    wrong
}

/// Stretches of `a` that differ from `b`.
fn differences(a: &[u8], b: &[u8]) -> Vec<(usize, usize)> {
    const STRIDE: usize = 4096;
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (page, (a, b)) in a.chunks(STRIDE).zip(b.chunks(STRIDE)).enumerate() {
        if a == b {
            continue;
        }
        for (i, _) in a.iter().zip(b).enumerate().filter(|(_, (a, b))| a != b) {
            let i = page * STRIDE + i;
            match found.last_mut() {
                Some(last) if last.1 == i => last.1 = i + 1,
                _ => found.push((i, i + 1)),
            }
        }
    }
    found
}

/// The old code of moved functions and the fill behind it.
fn free_to_change(world: &World<'_, '_>) -> Vec<AddrRange> {
    let mut free = Vec::new();
    for (function, fate) in world.program.functions.iter().zip(&world.outline.fates) {
        if matches!(fate, Fate::Measured(_)) {
            free.extend(&function.cfg.pieces);
        }
    }
    let fill = world.program.stretches.iter().filter(|s| s.kind == StretchKind::Padding);
    free.extend(fill.map(|s| s.range));
    // What lies behind a section of code, up to the next section or the end of what is loaded, is nobody's.
    let elf = &world.old.elf;
    for text in &elf.text {
        let Some(segment) = elf.segment_holding(text.start) else { continue };
        let next = elf.sections.iter().filter(|s| s.loaded && s.range.start >= text.end);
        let next = next.map(|s| s.range.start).min().unwrap_or(text.end);
        free.push(AddrRange::new(text.end, next.min(segment.range.start.offset(segment.data.len() as u64))));
    }
    free.sort_unstable();
    // A jump may run from the code into the fill.
    let mut joined: Vec<AddrRange> = Vec::new();
    for range in free {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Words of jump tables that may lead to new code now, and where relocations say what is in them. That they
/// lead to the right place shows when the jumps are followed.
fn table_words(world: &World<'_, '_>) -> Vec<AddrRange> {
    let mut words = Vec::new();
    for (function, fate) in world.program.functions.iter().zip(&world.outline.fates) {
        let tables = function.cfg.tables.iter().filter(|t| t.entry_size == 8 && t.table.0 != 0);
        if matches!(fate, Fate::Measured(_)) {
            let entries = tables.flat_map(|t| {
                let stride = distance_between(world.old, t, 128).unwrap_or(8);
                (0..t.targets.len()).map(move |i| t.table.offset(stride * i as u64))
            });
            words.extend(entries.map(|at| AddrRange::sized(at, 8)));
        }
    }
    words.sort_unstable();
    words.dedup();
    let value = |tag| world.old.elf.dynamic_value(tag);
    if let (Some(table), Some(len)) = (value(elf::DT_RELA), value(elf::DT_RELASZ)) {
        let entries = world.old.elf.bytes_in(LinkAddr(table), len).unwrap_or_default().chunks_exact(24);
        let is_word = |entry: &[u8]| {
            let at = entry.first_chunk().map(|at| LinkAddr(u64::from_le_bytes(*at)));
            at.is_some_and(|at| words.binary_search_by_key(&at, |w| w.start).is_ok())
        };
        let named = entries.enumerate().filter(|(_, entry)| is_word(entry));
        let addends: Vec<AddrRange> =
            named.map(|(i, _)| AddrRange::sized(LinkAddr(table + 24 * i as u64 + 16), 8)).collect();
        words.extend(addends);
        words.sort_unstable();
    }
    words
}
