//! Which sources of facts a file has, for the summary.

use crate::elf::{Elf, Header, LE};
use crate::identity::hex;
use crate::image::Image;
use crate::lines::Lines;
use crate::provenance::Provenance;
use crate::symbols::Symbol;
use object::elf as raw;
use object::pod;
use object::read::elf::RelrIterator;
use relive_code::addr::LinkAddr;

/// A source of facts and how much it has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSummary {
    /// Its name: [`Provenance::name`] for what vouches for facts.
    pub name: &'static str,
    /// How many entries it has; never zero.
    pub count: usize,
    /// What kind of entries, in words.
    pub detail: String,
}

/// The sources that are present in `image`, in the order of trust of [`Provenance`]; behind them
/// what vouches for no code: source lines, the build-id, the separate debug file.
#[must_use]
pub fn present(image: &Image<'_>, lines: &Lines<'_>) -> Vec<SourceSummary> {
    let packed = count_relr(&image.elf);
    let row = |name, count, detail| SourceSummary { name, count, detail };
    let mut rows = vec![
        row(Provenance::Annotation.name(), image.annotations.pieces.len(), annotations(image)),
        row(Provenance::BbAddrMap.name(), image.block_maps.len(), block_maps(image)),
        row(Provenance::JumpTableSizes.name(), image.table_sizes.len(), table_sizes(image)),
        row(Provenance::LinkRelocation.name(), image.link_references.len(), link_references(image)),
        row(
            Provenance::DynamicRelocation.name(),
            image.relocations.len().saturating_sub(packed),
            "relocations with their own entry".to_string(),
        ),
        row("relr", packed, "relative relocations in packed form".to_string()),
        row(Provenance::Symbol.name(), count(&image.symbols), symbols(image)),
        row(Provenance::DynamicSymbol.name(), count(&image.dynamic_symbols), dynamic_symbols(image)),
        row(
            Provenance::GoTable.name(),
            image.go.as_ref().map_or(0, |go| go.functions.len()),
            go_table(image),
        ),
        row(Provenance::EhFrame.name(), image.unwind.frames.len(), unwind(image)),
    ];
    let place = if lines.are_in_debug_file() { "in the debug file" } else { "in the file itself" };
    rows.push(row("dwarf-lines", lines.unit_count(), format!("compilation units, {place}")));
    let build_id = image.identity.build_id.as_deref().unwrap_or(&[]);
    rows.push(row("build-id", usize::from(!build_id.is_empty()), hex(build_id)));
    rows.push(row("debug-file", usize::from(image.has_debug_file), "separate".to_string()));
    rows.retain(|row| row.count > 0);
    rows
}

fn annotations(image: &Image<'_>) -> String {
    let said = &image.annotations;
    let (blocks, tables) = (said.block_count(), said.table_count());
    let derived = match (said.derived_count(), said.units.len()) {
        (0, _) => String::new(),
        (derived, units) => format!(", {derived} of {units} units derived"),
    };
    format!("pieces of functions, {blocks} blocks, {tables} jump tables{derived}")
}

fn block_maps(image: &Image<'_>) -> String {
    let blocks: usize = image.block_maps.iter().map(|map| map.blocks().count()).sum();
    format!("functions, {blocks} blocks")
}

fn table_sizes(image: &Image<'_>) -> String {
    let entries = image.table_sizes.values().fold(0u64, |sum, &entries| sum.saturating_add(entries));
    format!("tables, {entries} entries")
}

fn link_references(image: &Image<'_>) -> String {
    let relative = image.link_references.iter().filter(|r| r.relative).count();
    format!("references kept by the linker, {relative} of them relative")
}

/// The first symbol of every table stands for none.
fn count(table: &[Symbol<'_>]) -> usize {
    table.len().saturating_sub(1)
}

fn symbols(image: &Image<'_>) -> String {
    let functions = image.symbols.iter().filter(|s| s.defined && s.is_function()).count();
    let own = image.elf.sections.iter().any(|s| s.kind == raw::SHT_SYMTAB.0 && !s.data.is_empty());
    let place = if own { "" } else { ", in the debug file" };
    format!("symbols, {functions} of them functions{place}")
}

fn dynamic_symbols(image: &Image<'_>) -> String {
    let functions = || image.dynamic_symbols.iter().filter(|s| s.is_function());
    let exported = functions().filter(|s| s.defined).count();
    let imported = functions().filter(|s| !s.defined).count();
    format!("symbols, {exported} functions exported and {imported} imported")
}

fn go_table(image: &Image<'_>) -> String {
    image.go.as_ref().map_or(String::new(), |go| format!("functions, format {:?}", go.version))
}

fn unwind(image: &Image<'_>) -> String {
    let with_handlers = image.unwind.frames.iter().filter(|f| f.lsda.is_some()).count();
    format!("frames, {with_handlers} of them with exception tables")
}

fn count_relr(elf: &Elf<'_>) -> usize {
    let value = |tag| elf.dynamic_value(tag);
    let (Some(at), Some(len)) = (value(raw::DT_RELR), value(raw::DT_RELRSZ)) else { return 0 };
    let Some(bytes) = elf.bytes_in(LinkAddr(at), len) else { return 0 };
    let words = pod::slice_from_bytes(bytes, bytes.len() / 8).map_or(&[][..], |(words, _)| words);
    RelrIterator::<Header>::new(LE, words).count()
}
