//! Numbers about a whole program.

use super::{Program, StretchKind};
use crate::image::Image;
use crate::provenance::Provenance;
use rayon::prelude::*;
use relive_code::cfg::{Cfg, EdgeKind, End, GapKind, Reason};
use relive_code::dominators::DominatorTree;
use relive_code::isa::RegSet;
use relive_code::jump_table::TableBound;
use relive_code::liveness::{Convention, Liveness};
use relive_code::loops::LoopForest;
use std::collections::BTreeMap;

/// How many of a kind, and how many of their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many.
    pub count: u64,
    /// Bytes in them.
    pub bytes: u64,
}

/// Numbers about a program.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// All functions.
    pub functions: Amount,
    /// Those in which every byte is explained and every jump resolved.
    pub understood: Amount,
    /// Functions with a name.
    pub named: u64,
    /// Functions no table mentions, found because something calls or jumps there, or by their looks.
    pub hidden: u64,
    /// Functions with more than one entry.
    pub several_entries: u64,
    /// Functions in more than one piece.
    pub several_pieces: u64,
    /// Functions that never return.
    pub never_return: u64,
    /// Functions by the best source that vouches for them.
    pub vouched: BTreeMap<Provenance, u64>,
    /// Basic blocks.
    pub blocks: u64,
    /// Blocks nothing leads to.
    pub unreached_blocks: u64,
    /// Instructions.
    pub instructions: u64,
    /// Edges by kind.
    pub edges: BTreeMap<EdgeKind, u64>,
    /// Blocks at whose start the arithmetic flags are dead.
    pub flags_free: u64,
    /// Blocks at whose start some general-purpose register is dead.
    pub register_free: u64,
    /// Natural loops.
    pub loops: u64,
    /// The deepest nesting.
    pub deepest_loop: u32,
    /// Functions with loops that have several entries.
    pub irreducible: u64,
    /// Jump tables by who says how long they are.
    pub tables: BTreeMap<TableBound, u64>,
    /// Entries in them.
    pub table_entries: u64,
    /// Direct calls.
    pub direct_calls: u64,
    /// Calls through a pointer.
    pub indirect_calls: u64,
    /// Landing pads.
    pub landing_pads: u64,
    /// Reasons why functions are not understood; a function with several counts under each.
    pub reasons: BTreeMap<Reason, Amount>,
    /// Text bytes, and how many are understood.
    pub text: (u64, u64),
    /// Text outside functions.
    pub outside: BTreeMap<&'static str, u64>,
    /// Fill inside functions.
    pub padding_inside: u64,
    /// Data inside functions.
    pub data_inside: u64,
}

impl Statistics {
    /// Counts everything; finds loops and live registers on the way.
    #[must_use]
    pub fn new(image: &Image<'_>, program: &Program<'_>) -> Self {
        let convention = Convention::system_v();
        let mut total = program
            .functions
            .par_iter()
            .map(|f| Self::of_code(&f.cfg, image, &convention))
            .reduce(Self::default, Self::plus);
        for function in &program.functions {
            let size = function.size();
            total.functions.add(size);
            if function.cfg.is_understood() {
                total.understood.add(size);
            }
            total.named += u64::from(!function.names.is_empty());
            total.several_entries += u64::from(function.cfg.entries.len() > 1);
            total.several_pieces += u64::from(function.cfg.pieces.len() > 1);
            total.never_return += u64::from(!function.returns);
            if let Some(best) = function.vouchers.best() {
                *total.vouched.entry(best).or_default() += 1;
                total.hidden += u64::from(matches!(best, Provenance::DataFlow | Provenance::Heuristic));
            }
            let mut reasons: Vec<Reason> = function.cfg.problems.iter().map(|p| p.reason).collect();
            reasons.dedup();
            for reason in reasons {
                total.reasons.entry(reason).or_default().add(size);
            }
        }
        for stretch in &program.stretches {
            let kind = match stretch.kind {
                StretchKind::Stubs => "stubs",
                StretchKind::Padding => "padding",
                StretchKind::Data => "data",
                StretchKind::Unknown => "unknown",
            };
            *total.outside.entry(kind).or_default() += stretch.range.len();
        }
        total.text = program.text_bytes();
        total
    }

    fn of_code(cfg: &Cfg, image: &Image<'_>, convention: &Convention) -> Self {
        let mut this = Self::default();
        for block in &cfg.blocks {
            this.blocks += 1;
            this.unreached_blocks += u64::from(!block.reached);
            this.instructions += u64::from(block.insns);
            match block.end {
                End::Call(_) => this.direct_calls += 1,
                End::IndirectCall(_) => this.indirect_calls += 1,
                _ => {}
            }
        }
        for edge in &cfg.edges {
            *this.edges.entry(edge.kind).or_default() += 1;
        }
        for table in &cfg.tables {
            *this.tables.entry(table.bound).or_default() += 1;
            this.table_entries += table.targets.len() as u64;
        }
        for gap in &cfg.gaps {
            match gap.kind {
                GapKind::Padding => this.padding_inside += gap.range.len(),
                GapKind::Data => this.data_inside += gap.range.len(),
                GapKind::Unexplained => {}
            }
        }
        let liveness = Liveness::new(cfg, &image.elf, convention);
        for (id, _) in cfg.numbered_blocks() {
            let live = liveness.live_in(id);
            this.flags_free += u64::from(!live.intersects(RegSet::ARITHMETIC_FLAGS));
            this.register_free += u64::from(!live.contains(RegSet::GPRS));
        }
        this.landing_pads = cfg.landing_pads.len() as u64;
        let graph = cfg.graph();
        let loops = LoopForest::new(&graph, &DominatorTree::new(&graph, &cfg.roots()));
        this.loops = loops.loops().len() as u64;
        this.deepest_loop = loops.loops().iter().map(|l| l.depth).max().unwrap_or(0);
        this.irreducible = u64::from(!loops.irreducible().is_empty());
        this
    }

    fn plus(mut self, other: Self) -> Self {
        self.blocks += other.blocks;
        self.unreached_blocks += other.unreached_blocks;
        self.instructions += other.instructions;
        self.direct_calls += other.direct_calls;
        self.indirect_calls += other.indirect_calls;
        self.landing_pads += other.landing_pads;
        self.loops += other.loops;
        self.flags_free += other.flags_free;
        self.register_free += other.register_free;
        self.deepest_loop = self.deepest_loop.max(other.deepest_loop);
        self.irreducible += other.irreducible;
        self.table_entries += other.table_entries;
        self.padding_inside += other.padding_inside;
        self.data_inside += other.data_inside;
        for (kind, count) in other.edges {
            *self.edges.entry(kind).or_default() += count;
        }
        for (bound, count) in other.tables {
            *self.tables.entry(bound).or_default() += count;
        }
        self
    }
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }
}
