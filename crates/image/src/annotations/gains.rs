//! What annotations tell that analysis does not find out by itself.

use crate::program::{Function, FunctionId, Program};
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::cfg::{BlockId, Cfg, EdgeKind, Problem};
use relive_code::jump_table::TableBound;
use std::collections::{BTreeMap, BTreeSet};

/// The difference, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gains {
    /// Functions that are understood, and would not be.
    pub understood: Vec<Understood>,
    /// Functions that would not be found.
    pub found: Vec<Found>,
    /// Where a function would be found, and there is none.
    pub denied: Vec<LinkAddr>,
    /// Jump tables of which it is known where they end, and would not be.
    pub tables: Vec<Table>,
    /// Calls of which it would be said wrongly that they come back, or that they do not.
    pub calls: Vec<Call>,
    /// Functions, understood in any case, that would consist of other blocks.
    pub blocks: Vec<Blocks>,
}

/// A function that would not be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Understood {
    /// The function.
    pub function: FunctionId,
    /// Why not, and where that shows.
    pub problem: Problem,
}

/// A function that would not be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The function.
    pub function: FunctionId,
    /// The entry of the function that it would be taken for a part of.
    pub part_of: Option<LinkAddr>,
}

/// A jump through a table, or several, whose size would not be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// The function.
    pub function: FunctionId,
    /// The jump.
    pub site: LinkAddr,
    /// How many entries there are.
    pub entries: usize,
    /// How many would be found, and how; none if none.
    pub without: Option<(usize, TableBound)>,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function it is in.
    pub function: FunctionId,
    /// The call.
    pub site: LinkAddr,
    /// Whether it comes back.
    pub returns: bool,
}

/// A function that would consist of other blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The function.
    pub function: FunctionId,
    /// How many blocks would not be found.
    pub missed: usize,
    /// How many that are none would be.
    pub wrong: usize,
}

impl Gains {
    /// Compares what is known of a program `with` annotations with what would be `without`.
    #[must_use]
    pub fn new(with: &Program<'_>, without: &Program<'_>) -> Self {
        let mut gains = Self::default();
        for (id, function) in with.numbered() {
            match without.function_at(function.entry).map(|id| without.function(id)) {
                Some(other) => gains.compare(id, function, other),
                None => gains.found.push(Found {
                    function: id,
                    part_of: without.function_holding(function.entry).map(|id| without.function(id).entry),
                }),
            }
            gains.compare_calls(id, function, without);
        }
        let is_denied = |f: &&Function<'_>| with.function_at(f.entry).is_none();
        gains.denied = without.functions.iter().filter(is_denied).map(|f| f.entry).collect();
        gains
    }

    /// Whether there is no difference.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn compare(&mut self, id: FunctionId, with: &Function<'_>, without: &Function<'_>) {
        self.compare_tables(id, &with.cfg, &without.cfg);
        if !with.cfg.is_understood() {
            return;
        }
        match without.cfg.problems.first() {
            Some(&problem) => self.understood.push(Understood { function: id, problem }),
            None => self.compare_blocks(id, &with.cfg, &without.cfg),
        }
    }

    fn compare_tables(&mut self, id: FunctionId, with: &Cfg, without: &Cfg) {
        let without = tables(without);
        for (site, (entries, bound)) in tables(with) {
            // Analysis found it.
            if bound == TableBound::Confirmed {
                continue;
            }
            let without = without.get(&site).copied();
            let is_known = without.is_some_and(|(found, by)| {
                found == entries && (!by.is_guess() || bound != TableBound::Stated)
            });
            if !is_known {
                self.tables.push(Table { function: id, site, entries, without });
            }
        }
    }

    fn compare_blocks(&mut self, id: FunctionId, with: &Cfg, without: &Cfg) {
        let ranges = |cfg: &Cfg| -> BTreeSet<AddrRange> { cfg.blocks.iter().map(|b| b.range()).collect() };
        let (with, without) = (ranges(with), ranges(without));
        let (missed, wrong) = (with.difference(&without).count(), without.difference(&with).count());
        if (missed, wrong) != (0, 0) {
            self.blocks.push(Blocks { function: id, missed, wrong });
        }
    }

    fn compare_calls(&mut self, id: FunctionId, function: &Function<'_>, without: &Program<'_>) {
        for (block, site) in calls(&function.cfg) {
            let other = without.function_holding(site).map(|id| &without.function(id).cfg);
            let same = other.and_then(|cfg| {
                let block = cfg.block_holding(site)?;
                let is_same = cfg.block(block).end.is_call() && cfg.block(block).last_insn() == site;
                is_same.then(|| comes_back(cfg, block))
            });
            let returns = comes_back(&function.cfg, block);
            if same.is_some_and(|same| same != returns) {
                self.calls.push(Call { function: id, site, returns });
            }
        }
    }
}

/// How many entries the tables of a jump have together, and who says so: the least sure of those who do.
fn tables(cfg: &Cfg) -> BTreeMap<LinkAddr, (usize, TableBound)> {
    let mut tables: BTreeMap<LinkAddr, (usize, TableBound)> = BTreeMap::new();
    for table in &cfg.tables {
        let (entries, bound) = tables.entry(table.site).or_insert((0, table.bound));
        *entries += table.targets.len();
        *bound = table.bound.max(*bound);
    }
    tables
}

/// Blocks that end with a call, and that call.
fn calls(cfg: &Cfg) -> impl Iterator<Item = (BlockId, LinkAddr)> {
    cfg.numbered_blocks().filter(|(_, block)| block.end.is_call()).map(|(id, block)| (id, block.last_insn()))
}

fn comes_back(cfg: &Cfg, block: BlockId) -> bool {
    cfg.edges_from(block).iter().any(|edge| edge.kind == EdgeKind::CallReturn)
}
