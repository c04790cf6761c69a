//! The entries of a profile by behaviour: what each construct of a function counted.

use super::behaviour::About;
use relive_profile::model::{CalledBy, Count, Function};

/// One entry: a block, or an edge, whose count it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    /// How often a block ran.
    Block(u32),
    /// How often an edge was taken.
    Edge(u32),
    /// How often the function was entered.
    Function,
}

impl Entry {
    /// The block by which it is known: of an edge, where it leads from.
    #[must_use]
    pub fn block(self, function: &Function) -> Option<u32> {
        match self {
            Self::Block(block) => Some(block),
            Self::Edge(edge) => function.edges.get(edge as usize)?.from.as_block(),
            Self::Function => (!function.blocks.is_empty()).then_some(0),
        }
    }

    /// Its count, if that is known.
    #[must_use]
    pub fn count(self, function: &Function) -> Option<u64> {
        match self {
            Self::Block(block) => function.blocks.get(block as usize)?.count,
            Self::Edge(edge) => function.edges.get(edge as usize)?.count,
            Self::Function => function.entries(),
        }
        .map(Count::value)
    }
}

/// The entries of a function that a behaviour is about.
#[must_use]
pub fn of(function: &Function, about: About) -> Vec<Entry> {
    match about {
        About::Blocks => (0..function.blocks.len() as u32).map(Entry::Block).collect(),
        About::Loops => {
            let mut headers: Vec<u32> = function.loops.iter().map(|looped| looped.header).collect();
            headers.sort_unstable();
            headers.dedup();
            headers.into_iter().map(Entry::Block).collect()
        }
        About::Calls => {
            let mut ways = vec![0u32; function.blocks.len()];
            for from in function.edges.iter().filter_map(|edge| edge.from.as_block()) {
                ways[from as usize] += 1;
            }
            // A block with one way out runs as often as that is taken, and is easier to count.
            let only = |edge: u32| {
                let from = function.edges.get(edge as usize)?.from.as_block()?;
                (ways[from as usize] == 1).then_some(from)
            };
            let by = function.calls.iter().map(|call| match call.by {
                CalledBy::Block(block) => Entry::Block(block),
                CalledBy::Edge(edge) => only(edge).map_or(Entry::Edge(edge), Entry::Block),
            });
            let mut all: Vec<Entry> = by.collect();
            all.sort_unstable();
            all.dedup();
            all
        }
        About::Entries => vec![Entry::Function],
    }
}
