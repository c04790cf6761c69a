//! Truth of a clang build: the block map, the jump tables of the assembler source, and the disassembly.

use super::flow::{self, Knowledge};
use super::labels::{self, NamedAddresses};
use super::{Function, Truth};
use crate::oracle::assembler;
use crate::oracle::block_map::{self, MappedBlock, MappedFunction};
use crate::oracle::listing::{Instruction, Listing};
use crate::oracle::symbols::Symbols;
use anyhow::Result;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

/// `binary` has the map, `labelled` the local labels; `assembler_folder` is the source of both.
pub(crate) fn truth(binary: &Path, labelled: &Path, assembler_folder: &Path) -> Result<Truth> {
    let listing = Listing::of(binary)?;
    let named = labels::resolve(&assembler::read_folder(assembler_folder)?, &Symbols::of(labelled)?);
    let functions =
        block_map::read(binary)?.iter().map(|mapped| function(mapped, &named, &listing)).collect();
    Ok(Truth { listing, functions })
}

fn function(mapped: &MappedFunction, named: &NamedAddresses, listing: &Listing) -> Function {
    let pieces: Vec<Range<u64>> = mapped.ranges.iter().filter_map(|blocks| extent(blocks)).collect();
    // An empty block is no place: it shares its address with the next one, or with the next function.
    let blocks: Vec<&MappedBlock> = mapped.ranges.iter().flatten().filter(|block| block.size > 0).collect();
    let starts: BTreeSet<u64> = blocks.iter().map(|block| block.address).collect();
    // A landing pad that needs no code of its own is an empty block: exceptions still land there.
    let pads: BTreeSet<u64> =
        mapped.ranges.iter().flatten().filter(|b| b.is_landing_pad).map(|b| b.address).collect();
    let dead_ends: BTreeSet<u64> =
        mapped.ranges.iter().flatten().filter(|b| !b.can_fall_through).map(|b| b.address + b.size).collect();
    // A block in front of its own landing pad is marked as falling through even if its call never returns.
    let goes_on = |i: &Instruction| !dead_ends.contains(&i.end()) && !pads.contains(&i.end());
    let edges = flow::edges(listing, &pieces, &Knowledge { starts: &starts, goes_on: &goes_on });
    let inside = |address: &&u64| pieces.iter().any(|piece| piece.contains(address));
    let mut table_targets: BTreeSet<u64> = named.in_tables.iter().filter(inside).copied().collect();
    super::drop_entry(&mut table_targets, mapped.address);

    let required = super::required(mapped.address, &edges, &table_targets, &pads);
    Function {
        name: mapped.name.clone(),
        entry: mapped.address,
        pieces,
        starts,
        required,
        table_targets,
        edges,
    }
}

fn extent(blocks: &[MappedBlock]) -> Option<Range<u64>> {
    let first = blocks.iter().map(|block| block.address).min()?;
    let end = blocks.iter().map(|block| block.address + block.size).max()?;
    Some(first..end)
}
