//! What is true of a program, in one shape for every source of truth, so that `compare` knows nothing of compilers.

pub(crate) mod clang;
mod flow;
pub(crate) mod gcc;
mod labels;

use crate::oracle::listing::Listing;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Why a block must begin at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    Entry,
    BranchTarget,
    TableEntry,
    LandingPad,
}

/// What kind of step control takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A direct jump, taken.
    Taken,
    /// A conditional jump, not taken.
    NotTaken,
    /// A call that returns.
    Return,
    /// An instruction that is no jump, into a block's start.
    Into,
    /// A direct jump that leaves the function.
    Tail,
}

/// A step from an instruction to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) step: Step,
}

/// One function.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) entry: u64,
    /// Where its code lies; the first piece begins with the entry.
    pub(crate) pieces: Vec<Range<u64>>,
    /// Where the compiler begins a block (or sets a label).
    pub(crate) starts: BTreeSet<u64>,
    /// Where a block has to begin, because control comes from elsewhere.
    pub(crate) required: BTreeMap<u64, Why>,
    /// Where its jump tables and computed gotos lead.
    pub(crate) table_targets: BTreeSet<u64>,
    pub(crate) edges: Vec<Edge>,
}

impl Function {
    pub(crate) fn contains(&self, address: u64) -> bool {
        self.pieces.iter().any(|piece| piece.contains(&address))
    }
}

/// One program.
pub(crate) struct Truth {
    pub(crate) listing: Listing,
    pub(crate) functions: Vec<Function>,
}

/// Everywhere control can come from elsewhere.
fn required(
    entry: u64,
    edges: &[Edge],
    table_targets: &BTreeSet<u64>,
    landing_pads: &BTreeSet<u64>,
) -> BTreeMap<u64, Why> {
    let mut required = BTreeMap::from([(entry, Why::Entry)]);
    // A pad that is also jumped to stays a pad: calls may have an edge to it.
    let pads = landing_pads.iter().map(|&address| (address, Why::LandingPad));
    let tables = table_targets.iter().map(|&address| (address, Why::TableEntry));
    let taken = edges.iter().filter(|edge| edge.step == Step::Taken).map(|edge| (edge.to, Why::BranchTarget));
    for (address, why) in pads.chain(tables).chain(taken) {
        required.entry(address).or_insert(why);
    }
    required
}

/// A table entry for a case that cannot happen may lead to an empty block at the end of a function: the address of
/// the next function, which is no target of a table of *that* one (seen in lua, clang -O2 -no-pie: `luaC_fix`).
fn drop_entry(table_targets: &mut BTreeSet<u64>, entry: u64) {
    table_targets.remove(&entry);
}
