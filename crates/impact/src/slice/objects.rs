//! What data there is, and how far a pointer to it reaches.
//!
//! The profile cuts data wherever somebody speaks of it, so a structure may be in several blocks. A pointer to its first
//! field reaches all of them. Objects are runs of blocks from one that has a name to the next. Compilers also take
//! addresses a bit before an object and right behind it; so an address leads to the object before if it is the
//! beginning of one, and to the one behind if it is not.
//!
//! Texts of which no symbol tells, jump tables and imports stand apart, each an object by itself.
//!
//! Constants are never written, so nobody has to be told that they are other than they were but who got their address where it is spoken of, by code or
//! by other data: the address leads to something else now. Of what has no name and does not stand apart that is not believed.

use relive_profile::model::{DataKind, Module};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Some objects, by number, in order.
pub(super) type Reached = SmallVec<[u32; 2]>;

/// The objects of a module.
pub(super) struct Objects {
    /// Data blocks: first address, the one behind, and the object.
    blocks: Vec<(u64, u64, u32)>,
    /// Whether a block is never written.
    constant: Vec<bool>,
    /// The blocks of each object: the first, and the one behind the last.
    spans: Vec<(u32, u32)>,
    /// Whether a block is only reached by its address or that of what it begins.
    told: Vec<bool>,
    /// Code was linked for fixed addresses: numbers in it may be addresses.
    pub(super) absolute: bool,
}

/// The lowest address of code in programs that are linked for a fixed address is far above; in others it is in the first
/// pages.
const FIXED: u64 = 0x1_0000;

impl Objects {
    pub(super) fn new(module: &Module) -> Self {
        let mut spans: Vec<(u32, u32)> = Vec::new();
        let mut blocks = Vec::with_capacity(module.data.len());
        let (mut before, mut was_apart) = (None, false);
        for (block, i) in module.data.iter().zip(0..) {
            let end = block.address.saturating_add(block.size);
            let is_apart = stands_apart(block.kind);
            let begins = block.name.is_some() || is_apart || was_apart;
            // What is never written and what is are never one object, nor is what has a gap in it.
            if begins || before != Some((block.address, is_constant(block.kind))) {
                spans.push((i, i));
            }
            if let Some(span) = spans.last_mut() {
                span.1 = i + 1;
            }
            blocks.push((block.address, end, spans.len() as u32 - 1));
            was_apart = is_apart;
            before = (block.kind != DataKind::Import).then(|| (end, is_constant(block.kind)));
        }
        let lowest = module.functions.iter().flat_map(|f| &f.pieces).map(|piece| piece.start).min();
        Self {
            blocks,
            constant: module.data.iter().map(|block| is_constant(block.kind)).collect(),
            spans,
            told: module
                .data
                .iter()
                .map(|data| is_constant(data.kind) && (data.name.is_some() || stands_apart(data.kind)))
                .collect(),
            absolute: lowest.is_some_and(|at| at >= FIXED),
        }
    }

    /// How many objects there are.
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// How many data blocks there are.
    pub(super) fn blocks(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// The block that holds an address.
    fn holding(&self, at: u64) -> Option<u32> {
        let behind = self.blocks.partition_point(|&(start, ..)| start <= at);
        let &(start, end, _) = self.blocks.get(behind.checked_sub(1)?)?;
        (at < end || at == start).then(|| behind as u32 - 1)
    }

    /// The blocks that some bytes at a fixed place are in: the first, and the one behind the last.
    pub(super) fn direct(&self, at: u64, size: u64) -> Option<(u32, u32)> {
        let first = self.holding(at)?;
        let end = at.saturating_add(size.max(1));
        let more = self.blocks[first as usize + 1..].iter().take_while(|&&(start, ..)| start < end).count();
        Some((first, first + 1 + more as u32))
    }

    /// The objects that a pointer with this value may lead to.
    pub(super) fn reached(&self, at: u64) -> Reached {
        let Some(block) = self.holding(at) else {
            // Right behind the last of them.
            let last = self.blocks.iter().rfind(|&&(_, end, _)| end == at);
            return last.map(|&(.., object)| object).into_iter().collect();
        };
        let object = self.of_block(block);
        let begins = self.blocks[self.spans[object as usize].0 as usize].0 == at;
        let other = if begins { object.checked_sub(1) } else { Some(object + 1) };
        let mut all: Reached = other.filter(|&o| (o as usize) < self.len()).into_iter().collect();
        all.push(object);
        all.sort_unstable();
        all
    }

    /// Whether an address may be one of data, if it is an address at all.
    pub(super) fn holds(&self, at: u64) -> bool {
        self.holding(at).is_some()
    }

    /// The blocks of an object: the first, and the one behind the last.
    pub(super) fn span(&self, object: u32) -> (u32, u32) {
        self.spans[object as usize]
    }

    /// The object that a block is in.
    pub(super) fn of_block(&self, block: u32) -> u32 {
        self.blocks[block as usize].2
    }

    /// Whether only those read a block who got its address, or that of what it begins, where it is spoken of.
    pub(super) fn is_told(&self, block: u32) -> bool {
        self.told[block as usize]
    }

    /// Blocks of constants that somebody may read who nobody sees take their address: of tables of distances, for one.
    pub(super) fn untold(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.blocks()).filter(|&block| self.is_constant(block) && !self.is_told(block))
    }

    /// Adds to data that is other than it was all that has pointers to constants of it, as far as it is read.
    pub(super) fn with_holders(
        &self,
        module: &Module,
        mut data: BTreeSet<u32>,
        read: &BTreeSet<u32>,
    ) -> BTreeSet<u32> {
        loop {
            let changed = |object: u32| {
                let (first, behind) = self.span(object);
                self.is_constant(first) && data.range(first..behind).next().is_some()
            };
            let lead =
                module.pointers.iter().filter(|pointer| self.reached(pointer.to).into_iter().any(changed));
            let holders = lead.filter_map(|pointer| self.holding(pointer.at));
            let holders: Vec<u32> = holders.filter(|block| read.contains(block)).collect();
            let before = data.len();
            data.extend(holders);
            if data.len() == before {
                return data;
            }
        }
    }

    /// Whether a block is never written.
    pub(super) fn is_constant(&self, block: u32) -> bool {
        self.constant[block as usize]
    }
}

fn stands_apart(kind: DataKind) -> bool {
    matches!(kind, DataKind::Literal | DataKind::JumpTable | DataKind::Import)
}

fn is_constant(kind: DataKind) -> bool {
    match kind {
        DataKind::Constant | DataKind::Text | DataKind::Literal | DataKind::JumpTable | DataKind::Import => {
            true
        }
        DataKind::Variable | DataKind::Zeroed => false,
    }
}
