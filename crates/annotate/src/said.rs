//! What compilers said of their code, as analysis asks for it.

use crate::facts::{Facts, Jump, Place};
use crate::placed::Placed;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::isa::{Decode, Flow};
use relive_code::source::{CodeSource as _, StatedJump, StatedTable};
use relive_image::annotations::Stated;
use relive_image::bb_addr_map::BlockRange;
use relive_image::image::Image;
use relive_image::symbols::SymbolKind;
use std::collections::{BTreeMap, BTreeSet};

/// What gcc said in the text of its assembler.
#[must_use]
pub fn by_facts(facts: &Facts, placed: &Placed, image: &Image<'_>) -> Stated {
    let addresses = |places: &[Place]| -> BTreeSet<LinkAddr> {
        places.iter().map(|&place| placed.address(place)).collect()
    };
    let blocks = addresses(&facts.blocks);
    // A function that has blocks is one that gcc made, and speaks of all.
    let made = |range: &AddrRange| blocks.range(range.start..range.end).next().is_some();
    let functions = image.symbols.iter().filter(|s| s.defined && s.kind == SymbolKind::Function);
    let ranges: BTreeSet<AddrRange> =
        functions.map(|s| AddrRange::sized(s.addr, s.size)).filter(made).collect();
    Stated {
        ranges: ranges.into_iter().collect(),
        blocks: blocks.into_iter().collect(),
        no_return: addresses(&facts.no_return),
        data: Vec::new(),
        jumps: facts.jumps.iter().map(|fact| jump(fact, placed, image)).collect(),
        free: BTreeMap::new(),
    }
}

fn jump(fact: &Jump, placed: &Placed, image: &Image<'_>) -> (LinkAddr, StatedJump) {
    let mut targets: BTreeSet<LinkAddr> = fact.targets.iter().map(|&place| placed.address(place)).collect();
    let tables = fact.table.iter().map(|table| {
        let at = placed.address(table.at);
        let base = table.is_relative.then_some(at);
        StatedTable { at, entry_size: table.entry_size, base, count: table.count }
    });
    let tables: Vec<StatedTable> = tables.collect();
    for table in &tables {
        for index in 0..table.count {
            if let Some(target) = entry(table, index, image) {
                targets.remove(&target);
            }
        }
    }
    let (targets, leaves) = (targets.into_iter().collect(), fact.leaves);
    (placed.address(fact.site), StatedJump { tables, targets, leaves })
}

/// Where a table entry leads.
fn entry(table: &StatedTable, index: u32, image: &Image<'_>) -> Option<LinkAddr> {
    let at = table.at.offset(u64::from(index) * u64::from(table.entry_size));
    Some(match table.base {
        Some(base) => base.offset(image.elf.read_u32(at)? as i32 as u64),
        None => LinkAddr(image.elf.read_u64(at)?),
    })
}

/// What clang said in its map of blocks.
#[must_use]
pub fn by_block_map(image: &Image<'_>) -> Stated {
    let mut stated = Stated::default();
    for range in image.block_maps.iter().flat_map(|map| &map.ranges) {
        stated.ranges.push(range.extent());
        let dead_end = dead_end(range);
        for block in range.blocks.iter().filter(|block| !block.range.is_empty()) {
            stated.blocks.push(block.range.start);
            if !block.flags.can_fall_through() {
                stated.no_return.extend(behind_last_call(block.range, dead_end, image));
            }
        }
    }
    stated.ranges.sort_unstable();
    stated.blocks.sort_unstable();
    stated
}

/// The end of a range if a block without instructions is there that control does not leave: what clang knows to be never
/// reached, when it does not optimise.
fn dead_end(range: &BlockRange) -> Option<LinkAddr> {
    let last = range.blocks.last()?;
    (last.range.is_empty() && !last.flags.can_fall_through()).then_some(last.range.start)
}

/// Behind the call that a block ends with, which does not come back if control does not go on from there; nor if it jumps
/// from there to where it never gets.
fn behind_last_call(block: AddrRange, dead_end: Option<LinkAddr>, image: &Image<'_>) -> Option<LinkAddr> {
    let bytes = image.elf.bytes_at(block.start);
    let bytes = &bytes[..bytes.len().min(block.len() as usize)];
    let mut calls = None;
    let mut behind = None;
    for insn in Decode::new(bytes, block.start) {
        (behind, calls) = match insn.flow() {
            Flow::Call(_) | Flow::IndirectCall => (None, Some(insn.next_addr())),
            Flow::Jump(to) if Some(to) == dead_end => (calls, None),
            _ => (None, None),
        };
    }
    calls.or(behind)
}
