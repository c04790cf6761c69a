//! Describes a program that is understood.

use super::{Jump, Piece, Table};
use crate::program::Function;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::cfg::{BlockId, Cfg, Edge, EdgeKind, End, GapKind, Target};
use relive_code::jump_table::{JumpTable, TableBound};
use std::collections::BTreeSet;

/// Describes the pieces of a function, in the order of their addresses; none if it is not understood, or a guess: what only looks
/// like code may be data, and would be taken for code from then on. Nobody has looked at check sums and free registers yet.
#[must_use]
pub fn describe(function: &Function<'_>) -> Vec<Piece> {
    let cfg = &function.cfg;
    if !cfg.is_understood() || cfg.blocks.is_empty() || function.is_guess() {
        return Vec::new();
    }
    let blocks = joined(cfg);
    let described = Described { function, cfg, blocks };
    cfg.pieces.iter().filter(|piece| !piece.is_empty()).map(|&piece| described.piece(piece)).collect()
}

/// Blocks, those joined again that only a call separates.
fn joined(cfg: &Cfg) -> Vec<AddrRange> {
    let mut entered = vec![0u32; cfg.blocks.len()];
    for to in cfg.edges.iter().filter_map(Edge::inner_target) {
        entered[to.index()] += 1;
    }
    let from_outside: BTreeSet<BlockId> = cfg.entries.iter().chain(&cfg.landing_pads).copied().collect();
    let mut joined: Vec<AddrRange> = Vec::new();
    for (id, block) in cfg.numbered_blocks() {
        let before = id.0.checked_sub(1).map(BlockId);
        let goes_on = before.is_some_and(|before| {
            let only = matches!(cfg.edges_from(before), [edge] if edge.kind == EdgeKind::CallReturn && edge.to == Target::Block(id));
            only && entered[id.index()] == 1 && !from_outside.contains(&id)
        });
        match joined.last_mut() {
            Some(last) if goes_on && last.end == block.start => last.end = block.end_addr(),
            _ => joined.push(block.range()),
        }
    }
    joined
}

struct Described<'a> {
    function: &'a Function<'a>,
    cfg: &'a Cfg,
    blocks: Vec<AddrRange>,
}

impl Described<'_> {
    fn piece(&self, range: AddrRange) -> Piece {
        let (cfg, entry) = (self.cfg, self.function.entry);
        let starts = |ids: &[BlockId]| -> Vec<LinkAddr> {
            let inside = ids.iter().map(|&id| cfg.block(id).start).filter(|&at| range.contains(at));
            inside.collect::<BTreeSet<_>>().into_iter().collect()
        };
        let mut entries = starts(&cfg.entries);
        entries.retain(|&at| at != entry);
        let ends = || cfg.numbered_blocks().filter(|(_, block)| range.contains(block.start));
        let comes_back = |id| cfg.edges_from(id).iter().any(|edge| edge.kind == EdgeKind::CallReturn);
        let lost = ends().filter(|&(id, block)| block.end.is_call() && !comes_back(id));
        let jumps = ends().filter(|(_, block)| block.end == End::IndirectJump);
        let data = cfg.gaps.iter().filter(|gap| gap.kind == GapKind::Data && range.contains(gap.range.start));
        Piece {
            range,
            parent: (!range.contains(entry)).then_some(entry),
            checksum: 0,
            blocks: self.blocks.iter().filter(|block| range.contains(block.start)).copied().collect(),
            entries,
            landing_pads: starts(&cfg.landing_pads),
            no_return: lost.map(|(_, block)| block.end_addr()).collect(),
            data: data.map(|gap| gap.range).collect(),
            jumps: jumps.map(|(id, block)| self.jump(id, block.last_insn())).collect(),
            free: Vec::new(),
        }
    }

    fn jump(&self, block: BlockId, site: LinkAddr) -> Jump {
        // Where a computed goto leads is known without its table, and how long that is was not said.
        let is_known = |table: &&JumpTable| table.table.0 != 0 && table.bound != TableBound::Confirmed;
        let tables = || self.cfg.tables.iter().filter(|table| table.site == site).filter(is_known);
        let listed: BTreeSet<LinkAddr> = tables().flat_map(|table| &table.targets).copied().collect();
        let mut targets = BTreeSet::new();
        let mut leaves = false;
        for edge in self.cfg.edges_from(block) {
            match edge.to {
                Target::Block(to) => {
                    targets.insert(self.cfg.block(to).start);
                }
                Target::Outside(to) => {
                    targets.insert(to);
                }
                Target::Elsewhere => leaves = true,
            }
        }
        let tables = tables().map(|table| Table {
            at: table.table,
            entry_size: table.entry_size,
            base: table.base,
            count: table.targets.len() as u32,
        });
        Jump {
            site,
            tables: tables.collect(),
            targets: targets.difference(&listed).copied().collect(),
            leaves,
        }
    }
}
