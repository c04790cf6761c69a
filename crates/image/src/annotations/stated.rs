//! What is stated of code, by place: what analysis asks for.

use super::{Annotations, Piece};
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::isa::RegSet;
use relive_code::source::{StatedJump, StatedTable};
use std::collections::{BTreeMap, BTreeSet};

/// What somebody who knows says of code. Where it says nothing of a call or a jump in a range that it describes, there
/// is nothing special about it.
#[derive(Clone, Debug, Default)]
pub struct Stated {
    /// The code that is described, by address.
    pub ranges: Vec<AddrRange>,
    /// Where blocks begin, by address.
    pub blocks: Vec<LinkAddr>,
    /// Behind calls that do not come back.
    pub no_return: BTreeSet<LinkAddr>,
    /// Data among code, by address.
    pub data: Vec<AddrRange>,
    /// Where jumps to computed places lead, by their address.
    pub jumps: BTreeMap<LinkAddr, StatedJump>,
    /// What is free behind instructions, by their address.
    pub free: BTreeMap<LinkAddr, RegSet>,
}

impl Stated {
    /// Whether the code at `at` is described.
    #[must_use]
    pub fn covers(&self, at: LinkAddr) -> bool {
        let behind = self.ranges.partition_point(|range| range.start <= at);
        self.ranges[..behind].last().is_some_and(|range| range.contains(at))
    }

    /// Whether the call that ends at `next` comes back.
    #[must_use]
    pub fn returns(&self, next: LinkAddr) -> Option<bool> {
        self.covers(LinkAddr(next.0.wrapping_sub(1))).then(|| !self.no_return.contains(&next))
    }

    /// Blocks that begin in `range`.
    #[must_use]
    pub fn blocks_in(&self, range: AddrRange) -> &[LinkAddr] {
        let from = self.blocks.partition_point(|&at| at < range.start);
        let to = self.blocks.partition_point(|&at| at < range.end);
        &self.blocks[from..to]
    }
}

impl From<&Annotations> for Stated {
    fn from(annotations: &Annotations) -> Self {
        let mut stated = Self::default();
        annotations.pieces.iter().for_each(|piece| stated.add(piece));
        stated
    }
}

impl Stated {
    /// Adds a piece, which lies behind all others.
    fn add(&mut self, piece: &Piece) {
        self.ranges.push(piece.range);
        self.blocks.extend(piece.blocks.iter().map(|block| block.start));
        self.no_return.extend(&piece.no_return);
        self.data.extend(&piece.data);
        self.free.extend(piece.free.iter().map(|free| (free.behind, free.registers)));
        self.jumps.extend(piece.jumps.iter().map(|jump| {
            let tables = jump.tables.iter().map(|t| StatedTable {
                at: t.at,
                entry_size: t.entry_size,
                base: t.base,
                count: t.count,
            });
            let (targets, leaves) = (jump.targets.clone(), jump.leaves);
            (jump.site, StatedJump { tables: tables.collect(), targets, leaves })
        }));
    }
}
