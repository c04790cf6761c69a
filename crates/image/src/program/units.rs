//! Where functions are, before any code is read: what symbols, unwind tables and headers say.

use crate::elf::Elf;
use crate::image::Image;
use crate::names::cold_parent;
use crate::plt::is_plt_section;
use crate::provenance::{Provenance, Vouchers};
use crate::symbols::{Symbol, SymbolKind};
use object::elf as raw;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::source::Pointer;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Two sources that cannot both be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// Where.
    pub at: LinkAddr,
    /// What one says, and who.
    pub one: (Provenance, String),
    /// What the other says, and who.
    pub other: (Provenance, String),
}

/// A stretch of code that somebody says is a function or a piece of one.
#[derive(Clone, Debug)]
pub(super) struct Unit<'d> {
    pub(super) range: AddrRange,
    pub(super) names: Vec<Cow<'d, str>>,
    pub(super) vouchers: Vouchers,
    /// Whether somebody says where it ends; otherwise it ends where its code does.
    pub(super) sized: bool,
    /// Split off a function: never called, only jumped to.
    pub(super) fragment: bool,
    /// Entries besides its start.
    pub(super) more_entries: Vec<LinkAddr>,
}

/// What is claimed of one address.
#[derive(Default)]
struct Claims<'d> {
    /// Ends, by who claims them.
    ends: Vec<(Provenance, LinkAddr)>,
    names: Vec<(bool, Cow<'d, str>)>,
    vouchers: Vouchers,
    fragment: bool,
}

/// Everything units are made from, and where it disagrees.
pub(super) struct Units<'d> {
    pub(super) units: Vec<Unit<'d>>,
    pub(super) data: Vec<AddrRange>,
    pub(super) contradictions: Vec<Contradiction>,
}

/// Collects what all sources say, and settles who has which bytes.
pub(super) fn collect<'d>(image: &Image<'d>) -> Units<'d> {
    let mut claims: BTreeMap<LinkAddr, Claims<'d>> = BTreeMap::new();
    let elf = &image.elf;
    let plts: Vec<AddrRange> =
        elf.sections.iter().filter(|s| is_plt_section(&s.name)).map(|s| s.range).collect();
    let is_code = |at: LinkAddr| elf.is_text(at) && !plts.iter().any(|r| r.contains(at));
    let mut data = Vec::new();

    for symbol in image.symbols.iter().chain(&image.dynamic_symbols).filter(|s| s.defined && is_code(s.addr))
    {
        match symbol.kind {
            SymbolKind::Function | SymbolKind::Resolver => claim_symbol(&mut claims, symbol),
            SymbolKind::Object if symbol.size > 0 => data.push(AddrRange::sized(symbol.addr, symbol.size)),
            _ => {}
        }
    }
    for frame in image.unwind.frames.iter().filter(|f| is_code(f.range.start)) {
        let claim = claims.entry(frame.range.start).or_default();
        claim.vouchers.add(Provenance::EhFrame);
        claim.ends.push((Provenance::EhFrame, frame.range.end));
        claim.fragment |= !frame.starts_like_a_function;
    }
    for function in image.go.iter().flat_map(|go| &go.functions).filter(|f| is_code(f.range.start)) {
        let claim = claims.entry(function.range.start).or_default();
        claim.vouchers.add(Provenance::GoTable);
        claim.ends.push((Provenance::GoTable, function.range.end));
        claim.names.push((true, String::from_utf8_lossy(function.name)));
    }
    for piece in image.annotations.pieces.iter().filter(|p| is_code(p.range.start)) {
        let claim = claims.entry(piece.range.start).or_default();
        claim.vouchers.add(Provenance::Annotation);
        claim.ends.push((Provenance::Annotation, piece.range.end));
        claim.fragment |= piece.parent.is_some();
    }
    data.extend(&image.stated.data);
    for map in &image.block_maps {
        for (index, range) in map.ranges.iter().enumerate().filter(|(_, r)| is_code(r.start)) {
            let claim = claims.entry(range.start).or_default();
            claim.vouchers.add(Provenance::BbAddrMap);
            claim.fragment |= index > 0;
        }
    }
    for at in named_by_headers(image).into_iter().filter(|&at| is_code(at)) {
        claims.entry(at).or_default().vouchers.add(Provenance::Header);
    }
    data.sort_unstable();
    let mut contradictions = Vec::new();
    let units = settle(elf, claims, &data, &mut contradictions);
    let mut units = Units { units, data, contradictions };
    add_labels(image, &mut units, &is_code);
    units
}

fn claim_symbol<'d>(claims: &mut BTreeMap<LinkAddr, Claims<'d>>, symbol: &Symbol<'d>) {
    let claim = claims.entry(symbol.addr).or_default();
    claim.vouchers.add(symbol.from);
    if symbol.size > 0 {
        claim.ends.push((symbol.from, LinkAddr(symbol.addr.0.saturating_add(symbol.size))));
    }
    claim.fragment |= cold_parent(&symbol.name).is_some();
    if !symbol.name.is_empty() && !claim.names.iter().any(|(_, have)| *have == symbol.name) {
        claim.names.push((symbol.global, symbol.name.clone()));
    }
}

/// Addresses the headers and tables of the file call at start and end.
fn named_by_headers(image: &Image<'_>) -> Vec<LinkAddr> {
    let elf = &image.elf;
    let mut found = Vec::new();
    if elf.entry != LinkAddr(0) {
        found.push(elf.entry);
    }
    for tag in [raw::DT_INIT, raw::DT_FINI] {
        found.extend(elf.dynamic_value(tag).map(LinkAddr));
    }
    for name in [".init", ".fini"] {
        found.extend(elf.section(name).map(|s| s.range.start));
    }
    for kind in [raw::SHT_INIT_ARRAY, raw::SHT_FINI_ARRAY, raw::SHT_PREINIT_ARRAY] {
        for section in elf.sections.iter().filter(|s| s.kind == kind.0) {
            for word in 0..section.data.len() as u64 / 8 {
                if let Pointer::Here(to) = image.pointer(section.range.start.offset(word * 8)) {
                    found.push(to);
                }
            }
        }
    }
    found
}

/// Gives every byte to one claimant.
fn settle<'d>(
    elf: &Elf<'d>,
    claims: BTreeMap<LinkAddr, Claims<'d>>,
    data: &[AddrRange],
    contradictions: &mut Vec<Contradiction>,
) -> Vec<Unit<'d>> {
    let starts: Vec<LinkAddr> = claims.keys().copied().collect();
    let mut units: Vec<Unit<'d>> = Vec::with_capacity(claims.len());
    for (index, (start, mut claim)) in claims.into_iter().enumerate() {
        if data.iter().any(|d| d.contains(start)) && !claim.vouchers.has(Provenance::Symbol) {
            continue;
        }
        note_disagreement(start, &claim, contradictions);
        let text_end = elf.text.iter().find(|t| t.contains(start)).map_or(start, |t| t.end);
        let next = starts.get(index + 1).copied().unwrap_or(text_end).min(text_end);
        // The names to show first: global ones, then in the order of the table.
        claim.names.sort_by_key(|(global, name)| (!*global, name.starts_with('_')));
        let names = claim.names.into_iter().map(|(_, name)| name);
        if let Some(outer) = units.last_mut().filter(|u| u.range.contains(start)) {
            let symbols_say =
                outer.vouchers.has(Provenance::Symbol) || outer.vouchers.has(Provenance::DynamicSymbol);
            if symbols_say && outer.sized {
                // Inside a function of stated size: another way in.
                outer.more_entries.push(start);
                outer.names.extend(names);
                outer.vouchers.add_all(claim.vouchers);
                continue;
            }
            outer.range.end = start;
        }
        let end =
            claim.ends.iter().map(|e| e.1).max().map(|end| end.min(text_end)).filter(|&end| end > start);
        units.push(Unit {
            range: AddrRange::new(start, end.unwrap_or(next)),
            names: names.collect(),
            vouchers: claim.vouchers,
            sized: end.is_some(),
            fragment: claim.fragment,
            more_entries: Vec::new(),
        });
    }
    units
}

/// Notes where symbols and unwind tables state different sizes.
fn note_disagreement(start: LinkAddr, claim: &Claims<'_>, contradictions: &mut Vec<Contradiction>) {
    let mut ends = claim.ends.clone();
    ends.sort_unstable();
    ends.dedup_by_key(|e| e.1);
    if let Some(pair) = ends.windows(2).find(|pair| pair[0].0 != pair[1].0 && pair[0].1 != pair[1].1) {
        let say = |(who, end): (Provenance, LinkAddr)| (who, format!("{} bytes", end.since(start)));
        contradictions.push(Contradiction { at: start, one: say(pair[0]), other: say(pair[1]) });
    }
}

/// Labels of hand-written assembler, where no sized function covers them.
fn add_labels<'d>(image: &Image<'d>, units: &mut Units<'d>, is_code: &dyn Fn(LinkAddr) -> bool) {
    let labels = image
        .symbols
        .iter()
        .filter(|s| s.defined && s.global && s.kind == SymbolKind::Label && is_code(s.addr));
    let mut added = Vec::new();
    for label in labels {
        let behind = units.units.partition_point(|u| u.range.start <= label.addr);
        match behind.checked_sub(1).map(|i| &mut units.units[i]) {
            Some(unit) if unit.range.start == label.addr => {
                if !unit.names.contains(&label.name) {
                    unit.names.push(label.name.clone());
                }
            }
            Some(unit) if unit.range.contains(label.addr) && unit.sized => {}
            _ => added.push((label.addr, label.name.clone())),
        }
    }
    added.sort();
    added.dedup_by_key(|(at, _)| *at);
    for (at, name) in added {
        if let Some(unit) = insert(&mut units.units, &image.elf, at, Vouchers::one(Provenance::Symbol)) {
            unit.names.push(name);
        }
    }
}

/// Adds a unit at `at` that ends where the next begins, and cuts short the one it was part of.
pub(super) fn insert<'a, 'd>(
    units: &'a mut Vec<Unit<'d>>,
    elf: &Elf<'d>,
    at: LinkAddr,
    vouchers: Vouchers,
) -> Option<&'a mut Unit<'d>> {
    let text_end = elf.text.iter().find(|t| t.contains(at))?.end;
    let index = units.partition_point(|u| u.range.start < at);
    if units.get(index).is_some_and(|u| u.range.start == at) {
        units[index].vouchers.add_all(vouchers);
        return None;
    }
    let end = units.get(index).map_or(text_end, |next| next.range.start.min(text_end));
    if let Some(before) = index.checked_sub(1).map(|i| &mut units[i]) {
        before.range.end = before.range.end.min(at);
    }
    units.insert(
        index,
        Unit {
            range: AddrRange::new(at, end),
            names: Vec::new(),
            vouchers,
            sized: false,
            fragment: false,
            more_entries: Vec::new(),
        },
    );
    Some(&mut units[index])
}
