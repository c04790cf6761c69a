//! Which module, function, block and edge of one profile is which of the other: they are of the same build, so by
//! build-id and address.

use super::Strangers;
use relive_profile::model::{Count, Edge, EdgeKind, Function, Module, Node, Profile};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// A function of the fresh profile, and the same with the counts of the carried one.
pub(super) struct Pair<'p> {
    /// Where the fresh one is.
    pub(super) module: &'p Module,
    pub(super) fresh: &'p Function,
    /// Its blocks, edges and loops are those of `fresh`.
    pub(super) carried: Cow<'p, Function>,
}

impl Pair<'_> {
    /// What both say of each thing that the fresh one knows the count of: the carried count first, zero if it is
    /// not known.
    pub(super) fn block_counts(&self) -> impl Iterator<Item = (u128, u128)> {
        self.blocks().map(|(carried, fresh, _)| (value(carried), value(Some(fresh))))
    }

    /// The same for edges.
    pub(super) fn edge_counts(&self) -> impl Iterator<Item = (u128, u128)> {
        let both = self.carried.edges.iter().zip(&self.fresh.edges);
        both.filter(|(_, fresh)| fresh.count.is_some())
            .map(|(carried, fresh)| (value(carried.count), value(fresh.count)))
    }

    /// The same for the instructions that each block executed.
    pub(super) fn instructions(&self) -> impl Iterator<Item = (u128, u128)> {
        self.blocks().map(|(carried, fresh, insns)| {
            (value(carried) * u128::from(insns), value(Some(fresh)) * u128::from(insns))
        })
    }

    /// The carried count, the fresh count and the instructions of each block that the fresh one knows the count of.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (Option<Count>, Count, u32)> {
        let both = self.carried.blocks.iter().zip(&self.fresh.blocks);
        both.filter_map(|(carried, fresh)| Some((carried.count, fresh.count?, fresh.insns)))
    }
}

fn value(count: Option<Count>) -> u128 {
    count.map_or(0, Count::value).into()
}

/// Modules that both profiles have. Of several that the fresh one has of the same build, the one with the most
/// detail.
pub(super) fn pair_modules<'p>(carried: &'p Profile, fresh: &'p Profile) -> Vec<(&'p Module, &'p Module)> {
    let best = |profile: &'p Profile, build_id: &[u8]| {
        let same = profile.modules.iter().filter(|module| module.build_id == build_id);
        same.max_by_key(|module| module.mode)
    };
    let mut seen = HashSet::new();
    let builds = fresh.modules.iter().map(|module| &module.build_id).filter(|id| seen.insert(*id));
    builds.filter_map(|id| Some((best(carried, id)?, best(fresh, id)?))).collect()
}

/// The functions of the fresh module, each with its partner, and the blocks that have none.
pub(super) fn pair_functions<'p>(carried: &'p Module, fresh: &'p Module) -> (Vec<Pair<'p>>, Strangers) {
    let by_address: HashMap<u64, &Function> = carried.functions.iter().map(|f| (f.address, f)).collect();
    let mut found = 0;
    let pair = |(i, function): (usize, &'p Function)| {
        // Several may begin at one address: then the one of the same number.
        let same = carried.functions.get(i).filter(|other| other.address == function.address);
        let (carried, blocks) = match same.or_else(|| by_address.get(&function.address).copied()) {
            Some(carried) if has_same_shape(carried, function) => {
                (Cow::Borrowed(carried), carried.blocks.len())
            }
            Some(carried) => in_shape_of(function, carried),
            None => (Cow::Owned(without_counts(function)), 0),
        };
        found += blocks;
        Pair { module: fresh, fresh: function, carried }
    };
    let pairs = fresh.functions.iter().enumerate().map(pair).collect();
    let without = |module: &Module| {
        let blocks: usize = module.functions.iter().map(|function| function.blocks.len()).sum();
        blocks.saturating_sub(found) as u64
    };
    (pairs, Strangers { carried: without(carried), fresh: without(fresh) })
}

fn has_same_shape(a: &Function, b: &Function) -> bool {
    let ends = |edge: &Edge| (edge.from, edge.to, edge.kind);
    a.blocks.iter().map(|block| block.address).eq(b.blocks.iter().map(|block| block.address))
        && a.edges.iter().map(ends).eq(b.edges.iter().map(ends))
        && a.hubs == b.hubs
        && a.loops.iter().map(|l| (l.header, &l.blocks)).eq(b.loops.iter().map(|l| (l.header, &l.blocks)))
}

fn without_counts(function: &Function) -> Function {
    let mut bare = function.clone();
    bare.blocks.iter_mut().for_each(|block| block.count = None);
    bare.edges.iter_mut().for_each(|edge| edge.count = None);
    bare
}

/// The fresh function with the counts of another that begins at the same place, and how many blocks have a partner.
fn in_shape_of<'p>(fresh: &Function, carried: &Function) -> (Cow<'p, Function>, usize) {
    let mut shaped = without_counts(fresh);
    let numbers: HashMap<u64, u32> = fresh.blocks.iter().map(|block| block.address).zip(0..).collect();
    let mut found = 0;
    for block in &carried.blocks {
        if let Some(&number) = numbers.get(&block.address) {
            shaped.blocks[number as usize].count = block.count;
            found += 1;
        }
    }
    let place = |node: Node| match node.as_block() {
        Some(block) => Some(Node::block(*numbers.get(&carried.blocks.get(block as usize)?.address)?)),
        // With other hubs, numbers of hubs mean something else.
        None => (node.is_outside() || carried.hubs == fresh.hubs).then_some(node),
    };
    let edges: HashMap<(Node, Node, EdgeKind), Option<Count>> = carried
        .edges
        .iter()
        .filter_map(|edge| Some(((place(edge.from)?, place(edge.to)?, edge.kind), edge.count)))
        .collect();
    for edge in &mut shaped.edges {
        edge.count = edges.get(&(edge.from, edge.to, edge.kind)).copied().flatten();
    }
    (Cow::Owned(shaped), found.min(fresh.blocks.len()))
}

#[cfg(test)]
mod tests {
    use super::super::sample::{block, profile};
    use super::*;
    use relive_profile::model::Mode;

    #[test]
    fn blocks_and_edges_have_partners_by_address() {
        let (mut carried, fresh) = (profile(), profile());
        // In the carried one, the first function has a block more in front, and the second is not there.
        let function = &mut carried.modules[0].functions[0];
        function.blocks.insert(0, block(0xff0, 1));
        for edge in &mut function.edges {
            for end in [&mut edge.from, &mut edge.to] {
                if let Some(index) = end.as_block() {
                    *end = Node::block(index + 1);
                }
            }
        }
        carried.modules[0].functions.remove(1);
        let (pairs, strangers) = pair_functions(&carried.modules[0], &fresh.modules[0]);
        assert_eq!(strangers, Strangers { carried: 1, fresh: 1 });
        let counts = |function: &Function| function.blocks.iter().map(|b| b.count).collect::<Vec<_>>();
        assert_eq!(counts(&pairs[0].carried), counts(pairs[0].fresh));
        let counts = |function: &Function| function.edges.iter().map(|e| e.count).collect::<Vec<_>>();
        assert_eq!(counts(&pairs[0].carried), counts(pairs[0].fresh));
        assert_eq!(counts(&pairs[1].carried), [None, None]);
    }

    #[test]
    fn the_most_detailed_module_is_taken() {
        let mut both = profile();
        let mut coarse = both.modules[0].clone();
        coarse.mode = Mode::Functions;
        both.modules.insert(0, coarse);
        let carried = profile();
        let pairs = pair_modules(&carried, &both);
        assert_eq!(pairs.len(), 1);
        assert_eq!(pairs[0].1.mode, Mode::Edges);
    }
}
