//! Data, cut up by how it is spoken of: every address that a symbol names, code mentions or a pointer holds begins a
//! block, which ends where the next one begins.

use crate::elf::{Elf, Kind};
use crate::image::Image;
use crate::program::Program;
use crate::relocations::Filled;
use crate::symbols::SymbolKind;
use rayon::prelude::*;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::cfg::Block;
use relive_code::isa::Insn;
use relive_code::source::Pointer;
use std::borrow::Cow;
use std::collections::HashMap;

/// A variable, a constant, a string, a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataBlock<'d> {
    /// Where it lies.
    pub range: AddrRange,
    /// What a symbol calls it, or the import whose address is put here.
    pub name: Option<Cow<'d, str>>,
    /// What it is.
    pub kind: DataKind,
}

/// What data is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataKind {
    /// Never written.
    Constant,
    /// Text that ends with a zero, and nothing behind it.
    Text,
    /// The same, in a file with symbols, none of which is about it: part of nothing else.
    Literal,
    /// Written, and not zero in the beginning.
    Variable,
    /// Written, and zero in the beginning.
    Zeroed,
    /// Where a computed jump finds its targets.
    JumpTable,
    /// Where the loader puts the address of something in another module.
    Import,
}

/// All data of a program.
#[derive(Debug, Default)]
pub struct Data<'d> {
    /// By address.
    pub blocks: Vec<DataBlock<'d>>,
    /// Words that hold an address in the module, and which, by place.
    pub pointers: Vec<(LinkAddr, LinkAddr)>,
}

impl<'d> Data<'d> {
    /// Looks at everything that speaks of data.
    #[must_use]
    pub fn new(image: &Image<'d>, program: &Program<'d>) -> Self {
        let places = places(&image.elf);
        let pointers = pointers(image, &places);
        let tables: HashMap<LinkAddr, u64> = program
            .functions
            .iter()
            .flat_map(|f| &f.cfg.tables)
            .map(|t| (t.table, t.targets.len() as u64 * u64::from(t.entry_size)))
            .collect();
        let imports: HashMap<LinkAddr, &str> = image
            .relocations
            .iter()
            .filter_map(|r| {
                match r.filled {
                    Filled::Symbol(index, _) => image.dynamic_symbols.get(index as usize),
                    _ => None,
                }
                .filter(|symbol| !symbol.defined)
                .map(|symbol| (r.at, &*symbol.name))
            })
            .collect();
        let mut starts: Vec<LinkAddr> = spoken_of(image, program);
        starts.extend(pointers.iter().map(|&(_, to)| to));
        starts.extend(tables.iter().flat_map(|(&at, &len)| [at, at.offset(len)]));
        starts.extend(imports.keys().flat_map(|&at| [at, at.offset(8)]));
        let named = names(image);
        starts.extend(named.keys());
        starts.extend(places.iter().map(|(range, _)| range.start));
        starts.par_sort_unstable();
        starts.dedup();
        let named_places = NamedPlaces::new(image);
        let mut blocks = Vec::new();
        for &(place, writable) in &places {
            let first = starts.partition_point(|&s| s < place.start);
            let behind = starts.partition_point(|&s| s < place.end);
            for i in first..behind {
                let end = starts.get(i + 1).copied().unwrap_or(place.end).min(place.end);
                let range = AddrRange::new(starts[i], end);
                let import = imports.get(&range.start);
                blocks.push(DataBlock {
                    range,
                    name: named
                        .get(&range.start)
                        .cloned()
                        .or_else(|| import.map(|name| Cow::Owned((*name).to_string()))),
                    kind: match (import, tables.contains_key(&range.start)) {
                        (Some(_), _) => DataKind::Import,
                        (None, true) => DataKind::JumpTable,
                        _ => match kind(&image.elf, range, writable) {
                            DataKind::Text if named_places.are_beside(range.start) => DataKind::Literal,
                            kind => kind,
                        },
                    },
                });
            }
        }
        Self { blocks, pointers }
    }
}

/// Where data lies, and whether it is written: sections, or segments if there are none.
fn places(elf: &Elf<'_>) -> Vec<(AddrRange, bool)> {
    let writable = |range: AddrRange| {
        elf.segment_holding(range.start).is_some_and(|s| s.writable)
            && !elf.relro.is_some_and(|relro| relro.contains(range.start))
    };
    // What the linker and the loader keep for themselves says nothing about the program.
    let own = [".interp", ".hash", ".gnu.", ".dyn", ".rel", ".eh_frame", ".gcc_except", ".note", ".annotate"];
    let sections = elf.sections.iter().filter(|s| s.loaded && !s.executable && !s.range.is_empty());
    let mut places: Vec<(AddrRange, bool)> = sections
        .filter(|s| !own.iter().any(|own| s.name.starts_with(own)))
        .map(|s| (s.range, writable(s.range)))
        .collect();
    if elf.sections.is_empty() {
        let segments = elf.segments.iter().filter(|s| !s.executable && !s.range.is_empty());
        places = segments.map(|s| (s.range, s.writable)).collect();
    }
    places.sort_unstable_by_key(|(range, _)| range.start);
    // Thread-local sections that are zero share their addresses with what follows.
    places.dedup_by(|b, a| a.0.end > b.0.start);
    places
}

/// Addresses outside text that instructions mention.
fn spoken_of(image: &Image<'_>, program: &Program<'_>) -> Vec<LinkAddr> {
    let absolute = image.elf.kind == Kind::Executable;
    program
        .functions
        .par_iter()
        .flat_map_iter(|function| {
            let mut found = Vec::new();
            let speaks =
                |block: &&Block| absolute || Insn::may_hold_relative_operand(block.bytes(&image.elf));
            for block in function.cfg.blocks.iter().filter(speaks) {
                for insn in block.insns(&image.elf) {
                    found.extend(insn.address_constants(absolute).filter(|&to| !image.elf.is_text(to)));
                }
            }
            found.sort_unstable();
            found.dedup();
            found
        })
        .collect()
}

/// What symbols call data.
fn names<'d>(image: &Image<'d>) -> HashMap<LinkAddr, Cow<'d, str>> {
    let mut named: HashMap<LinkAddr, Cow<'d, str>> = HashMap::new();
    for symbol in image.symbols.iter().chain(&image.dynamic_symbols) {
        if symbol.defined && matches!(symbol.kind, SymbolKind::Object) {
            // Of several names the first in order, so that two builds agree.
            let name = named.entry(symbol.addr).or_insert_with(|| symbol.name.clone());
            if symbol.name < *name {
                *name = symbol.name.clone();
            }
        }
    }
    named
}

/// What symbols say they are about.
struct NamedPlaces {
    /// Where each begins, and where all up to it have ended.
    ends: Vec<(LinkAddr, LinkAddr)>,
}

impl NamedPlaces {
    fn new(image: &Image<'_>) -> Self {
        let objects = image.symbols.iter().filter(|s| s.defined && matches!(s.kind, SymbolKind::Object));
        let mut ends: Vec<(LinkAddr, LinkAddr)> =
            objects.map(|symbol| (symbol.addr, symbol.addr.offset(symbol.size.max(1)))).collect();
        ends.sort_unstable();
        let mut last = LinkAddr(0);
        for (_, end) in &mut ends {
            last = last.max(*end);
            *end = last;
        }
        Self { ends }
    }

    /// Whether symbols tell of other places, and not of this one.
    fn are_beside(&self, at: LinkAddr) -> bool {
        let before = self.ends.partition_point(|&(start, _)| start <= at);
        !self.ends.is_empty() && before.checked_sub(1).is_none_or(|i| self.ends[i].1 <= at)
    }
}

fn pointers(image: &Image<'_>, places: &[(AddrRange, bool)]) -> Vec<(LinkAddr, LinkAddr)> {
    let here = |at: LinkAddr| match image.pointer(at) {
        Pointer::Here(to) => Some((at, to)),
        _ => None,
    };
    if image.elf.kind == Kind::Executable {
        // As many words as are worth the trouble of handing them to another thread.
        const CHUNK: usize = 1 << 13;
        let chunks = places.iter().flat_map(|(range, _)| {
            let (first, end) = (range.start.0.next_multiple_of(8), range.end.0.saturating_sub(7));
            (first..end).step_by(8 * CHUNK).map(move |at| (at, end))
        });
        let chunks: Vec<(u64, u64)> = chunks.collect();
        let words = |&(first, end): &(u64, u64)| (first..end).step_by(8).take(CHUNK);
        return chunks.par_iter().flat_map_iter(words).filter_map(|at| here(LinkAddr(at))).collect();
    }
    image.relocations.iter().filter_map(|r| here(r.at)).collect()
}

fn kind(elf: &Elf<'_>, range: AddrRange, writable: bool) -> DataKind {
    match (elf.bytes_in(range.start, range.len()), writable) {
        (None, _) => DataKind::Zeroed,
        (Some(bytes), true) if bytes.iter().all(|&b| b == 0) => DataKind::Zeroed,
        (Some(_), true) => DataKind::Variable,
        (Some(bytes), false) if text_len(bytes).is_some() => DataKind::Text,
        (Some(_), false) => DataKind::Constant,
    }
}

/// The length of the text that `bytes` are, if there is nothing but zeros behind it: numbers may begin like a text.
#[must_use]
pub fn text_len(bytes: &[u8]) -> Option<usize> {
    let len = bytes.iter().position(|&b| b == 0)?;
    let is_text = |b: u8| b >= 0x20 && b != 0x7f || matches!(b, b'\t' | b'\n' | b'\r' | 0x1b);
    (len > 0 && bytes[..len].iter().all(|&b| is_text(b)) && bytes[len..].iter().all(|&b| b == 0))
        .then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        assert_eq!(text_len(b"abc\0"), Some(3));
        assert_eq!(text_len(b"abc\0\0\0\0\0"), Some(3));
        assert_eq!(text_len(b" \0\0\0\x01\0\0\0"), None);
        assert_eq!(text_len(b"abc"), None);
        assert_eq!(text_len(b"\0abc"), None);
    }

    #[test]
    fn beside_what_symbols_tell_of() {
        let at = LinkAddr;
        let places = NamedPlaces { ends: vec![(at(10), at(30)), (at(12), at(30)), (at(40), at(44))] };
        let beside = [5, 10, 15, 29, 30, 39, 40, 44].map(|place| places.are_beside(at(place)));
        assert_eq!(beside, [true, false, false, false, true, true, false, true]);
        assert!(!NamedPlaces { ends: Vec::new() }.are_beside(at(5)));
    }
}
