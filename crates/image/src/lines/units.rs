//! Which compilation unit an address belongs to.
//!
//! Only the first entry of each unit is read to find out. Line tables and inlined calls of a unit
//! are read when an address in it is first asked for.

use super::calls::Calls;
use super::extent::{Budget, Extent};
use super::reading::{DwarfUnit, Reading, Slice};
use super::table::LineTable;
use gimli::{AbbreviationsCacheStrategy, DebugInfoOffset, UnitRef, UnitType};
use relive_code::addr::{AddrRange, LinkAddr};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::OnceLock;

/// All compilation units with code.
#[derive(Default)]
pub(super) struct Units {
    units: Vec<Unit>,
    /// Line tables; units may share one.
    tables: Vec<Table>,
    /// By start.
    spans: Vec<Span>,
    /// Where each unit begins, also those without code.
    headers: Vec<usize>,
}

/// A compilation unit.
pub(super) struct Unit {
    header: DebugInfoOffset,
    table: Option<usize>,
    calls: OnceLock<Calls>,
}

struct Table {
    /// A unit that uses it.
    header: DebugInfoOffset,
    lines: OnceLock<LineTable>,
}

struct Span {
    range: AddrRange,
    unit: usize,
    /// The highest end of this span and all before it.
    reach: LinkAddr,
}

impl Units {
    /// Finds out which unit covers what. Units behind a damaged header are out of reach.
    pub(super) fn read(mut reading: Reading<'_>) -> Self {
        reading.dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        let mut found = Self::default();
        let mut tables = HashMap::new();
        let mut budget = Budget::new(reading.size);
        let mut split = 0usize;
        let mut headers = reading.dwarf.units();
        while let Some(header) = headers.next().unwrap_or_else(|why| {
            reading.complaints.add(".debug_info", why);
            None
        }) {
            let Some(at) = header.debug_info_offset() else { continue };
            found.headers.push(at.0);
            if !matches!(header.type_(), UnitType::Compilation | UnitType::Skeleton(_)) {
                continue;
            }
            let unit = match reading.dwarf.unit(header) {
                Ok(unit) => unit,
                Err(why) => {
                    reading.complaints.add(".debug_info", why);
                    continue;
                }
            };
            split += usize::from(unit.dwo_id.is_some());
            if let Err(why) = found.add(&reading, &unit, at, &mut tables, &mut budget) {
                reading.complaints.add(".debug_info", why);
            }
        }
        if split > 0 {
            reading.complaints.add(
                "split debug information",
                format!("functions and inlined calls of {split} units are in .dwo files, which are not read"),
            );
        }
        found.sort_spans();
        found
    }

    fn add(
        &mut self,
        reading: &Reading<'_>,
        unit: &DwarfUnit<'_>,
        header: DebugInfoOffset,
        tables: &mut HashMap<usize, usize>,
        budget: &mut Budget,
    ) -> gimli::Result<()> {
        let unit = UnitRef::new(&reading.dwarf, unit);
        let index = self.units.len();
        let Some(extent) = extent_of_code(unit)? else { return Ok(()) };
        let mut ranges = Vec::new();
        extent.ranges(unit, reading.text, budget, |range| ranges.push(range))?;
        let mut is_new = false;
        let table =
            unit.line_program.as_ref().map(|program| match tables.entry(program.header().offset().0) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    is_new = true;
                    self.tables.push(Table { header, lines: OnceLock::new() });
                    *new.insert(self.tables.len() - 1)
                }
            });
        // Some assemblers and old compilers leave it to the line table to say what a unit covers.
        if let Some(table) = table.filter(|_| is_new && ranges.is_empty()) {
            let lines = LineTable::read(unit, reading.text, reading.complaints);
            ranges.extend(lines.covered());
            let _ = self.tables[table].lines.set(lines);
        }
        self.spans.extend(ranges.into_iter().map(|range| Span { range, unit: index, reach: range.end }));
        self.units.push(Unit { header, table, calls: OnceLock::new() });
        Ok(())
    }

    fn sort_spans(&mut self) {
        // Looked at from behind: of spans that begin together the shorter, more exact one comes last.
        self.spans.sort_by_key(|s| (s.range.start, Reverse(s.range.end)));
        let mut reach = LinkAddr(0);
        for span in &mut self.spans {
            reach = reach.max(span.range.end);
            span.reach = reach;
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.units.len()
    }

    /// Units that may have something to say about `range`, the most exact first, and which part of
    /// the address space they speak of.
    pub(super) fn overlapping(&self, range: AddrRange) -> impl Iterator<Item = (&Unit, AddrRange)> {
        let behind = self.spans.partition_point(|s| s.range.start < range.end);
        self.spans[..behind]
            .iter()
            .rev()
            .take_while(move |s| s.reach > range.start)
            .filter(move |s| s.range.end > range.start)
            .map(|s| (&self.units[s.unit], s.range))
    }

    /// Units that may have something to say about `at`, the most exact first.
    pub(super) fn holding(&self, at: LinkAddr) -> impl Iterator<Item = &Unit> {
        self.overlapping(AddrRange::sized(at, 1)).map(|(unit, _)| unit)
    }

    /// The line table of `unit`.
    pub(super) fn lines<'a>(&self, unit: &Unit, reading: impl FnOnce() -> Reading<'a>) -> Option<&LineTable> {
        let table = &self.tables[unit.table?];
        Some(table.lines.get_or_init(|| {
            let reading = reading();
            match reading.unit(table.header) {
                Ok(unit) => {
                    LineTable::read(UnitRef::new(&reading.dwarf, &unit), reading.text, reading.complaints)
                }
                Err(why) => {
                    reading.complaints.add(".debug_info", why);
                    LineTable::default()
                }
            }
        }))
    }

    /// Functions of `unit`, and what was inlined into them.
    pub(super) fn calls<'u, 'a>(&self, unit: &'u Unit, reading: impl FnOnce() -> Reading<'a>) -> &'u Calls {
        unit.calls.get_or_init(|| Calls::read(&reading(), unit.header, &self.headers))
    }
}

/// What the first entry says the unit covers; nothing if it is only a collection of entries for
/// other units.
fn extent_of_code(unit: UnitRef<'_, Slice<'_>>) -> gimli::Result<Option<Extent>> {
    let mut entries = unit.entries_raw(None)?;
    let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(None) };
    if !matches!(abbreviation.tag(), gimli::DW_TAG_compile_unit | gimli::DW_TAG_skeleton_unit) {
        return Ok(None);
    }
    let mut extent = Extent::default();
    for specification in abbreviation.attributes() {
        extent.see(unit, &entries.read_attribute(*specification)?)?;
    }
    Ok(Some(extent))
}
