//! Truth of a gcc build: its code labels (`.L12`), the jump and exception tables of the assembler source, and the
//! disassembly.

use super::flow::{self, Knowledge};
use super::labels::{self, NamedAddresses};
use super::{Function, Truth};
use crate::oracle::assembler;
use crate::oracle::listing::{Flow, Instruction, Listing};
use crate::oracle::symbols::{FunctionSymbol, Symbols};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

/// `binary` is the plain file, `labelled` has the local labels; `assembler_folder` is the source of both.
pub(crate) fn truth(binary: &Path, labelled: &Path, assembler_folder: &Path) -> Result<Truth> {
    let listing = Listing::of(binary)?;
    let symbols = Symbols::of(labelled)?;
    let sources = assembler::read_folder(assembler_folder)?;
    let named = labels::resolve(&sources, &symbols);
    let labels: BTreeSet<u64> =
        symbols.labels().filter(|(name, _)| is_code_label(name)).map(|(_, at)| at).collect();
    let defined: BTreeSet<&str> =
        sources.iter().flat_map(|s| s.functions.iter().map(String::as_str)).collect();
    let functions = pieces_by_function(&symbols.functions, &defined)
        .into_iter()
        .map(|(name, pieces)| function(name, pieces, &labels, &named, &listing))
        .collect();
    Ok(Truth { listing, functions })
}

/// Functions of a file that has neither map nor labels: pieces only. Good for executed jumps.
pub(crate) fn bare_truth(binary: &Path) -> Result<Truth> {
    let symbols = Symbols::of(binary)?;
    let defined = symbols.functions.iter().map(|symbol| symbol.name.as_str()).collect();
    let bare = |(name, pieces): (String, Vec<Range<u64>>)| Function {
        name,
        entry: pieces[0].start,
        pieces,
        starts: BTreeSet::new(),
        required: BTreeMap::new(),
        table_targets: BTreeSet::new(),
        edges: Vec::new(),
    };
    let functions = pieces_by_function(&symbols.functions, &defined).into_iter().map(bare).collect();
    Ok(Truth { listing: Listing::of(binary)?, functions })
}

/// `.L12`; every other `.L` name (`.LVL3`, `.LBB4`, `.LC5`, `.LEHB0`, …) marks debug information, data or a range.
fn is_code_label(name: &str) -> bool {
    name.strip_prefix(".L").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
}

/// The pieces of every function that the assembler source defines: `f` and `f.cold` are one. Two static functions
/// may share a name; then a cold piece cannot be given to one of them, and each piece stands for itself.
fn pieces_by_function(
    symbols: &[FunctionSymbol],
    defined: &BTreeSet<&str>,
) -> Vec<(String, Vec<Range<u64>>)> {
    let mut by_address: BTreeMap<u64, &FunctionSymbol> = BTreeMap::new();
    for symbol in symbols.iter().filter(|symbol| defined.contains(symbol.name.as_str())) {
        by_address.entry(symbol.address).or_insert(symbol);
    }
    let mut same_name: BTreeMap<&str, usize> = BTreeMap::new();
    for symbol in by_address.values() {
        *same_name.entry(&symbol.name).or_default() += 1;
    }
    let range = |symbol: &FunctionSymbol| symbol.address..symbol.address + symbol.size;
    let mut cold: BTreeMap<&str, Range<u64>> = BTreeMap::new();
    let mut functions = Vec::new();
    for symbol in by_address.values() {
        match symbol.name.strip_suffix(".cold") {
            Some(hot) if same_name.get(hot) == Some(&1) && same_name[symbol.name.as_str()] == 1 => {
                cold.insert(hot, range(symbol));
            }
            _ => functions.push((symbol.name.clone(), vec![range(symbol)])),
        }
    }
    for (name, pieces) in &mut functions {
        pieces.extend(cold.remove(name.as_str()));
    }
    functions
}

fn function(
    name: String,
    pieces: Vec<Range<u64>>,
    labels: &BTreeSet<u64>,
    named: &NamedAddresses,
    listing: &Listing,
) -> Function {
    let entry = pieces[0].start;
    let within = |set: &BTreeSet<u64>| -> BTreeSet<u64> {
        pieces.iter().flat_map(|piece| set.range(piece.clone())).copied().collect()
    };
    let mut starts = within(labels);
    starts.extend(pieces.iter().map(|piece| piece.start));
    // Only a code label can be a landing pad; the other labels of an exception table bound call sites.
    let pads: BTreeSet<u64> = within(&named.in_exception_tables).intersection(labels).copied().collect();
    let mut table_targets = within(&named.in_tables);
    super::drop_entry(&mut table_targets, entry);
    // gcc does not say which calls return. It sets a label (or padding and a label) behind one that does not,
    // unless other code comes next by falling into it: so whatever follows without either is reached by returning.
    let goes_on = |i: &Instruction| {
        let next_is_padding = listing.at(i.end()).is_some_and(|next| next.flow == Flow::Nop);
        i.flow != Flow::Call || !(starts.contains(&i.end()) || next_is_padding)
    };
    let edges = flow::edges(listing, &pieces, &Knowledge { starts: &starts, goes_on: &goes_on });

    let required = super::required(entry, &edges, &table_targets, &pads);
    Function { name, entry, pieces, starts, required, table_targets, edges }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_labels() {
        assert!(is_code_label(".L12"));
        for other in [".LVL12", ".LC0", ".LBB2", ".L", ".LEHB0", "L3", ".L1a"] {
            assert!(!is_code_label(other), "{other}");
        }
    }

    #[test]
    fn a_cold_piece_belongs_to_its_function() {
        let symbol = |name: &str, address| FunctionSymbol { name: name.to_owned(), address, size: 16 };
        let symbols =
            [symbol("f", 0x100), symbol("f.cold", 0x10), symbol("g", 0x200), symbol("_start", 0x300)];
        let defined = BTreeSet::from(["f", "f.cold", "g"]);
        assert_eq!(
            pieces_by_function(&symbols, &defined),
            [("f".to_owned(), vec![0x100..0x110, 0x10..0x20]), ("g".to_owned(), vec![0x200..0x210])]
        );
    }

    #[test]
    fn cold_pieces_of_namesakes_stand_alone() {
        let symbol = |name: &str, address| FunctionSymbol { name: name.to_owned(), address, size: 16 };
        let symbols = [symbol("f", 0x100), symbol("f", 0x200), symbol("f.cold", 0x10)];
        assert_eq!(pieces_by_function(&symbols, &BTreeSet::from(["f", "f.cold"])).len(), 3);
    }
}
