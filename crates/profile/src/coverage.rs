//! Coverage: which lines, functions and branches of the source ran, and how often.
//!
//! A line is part of several blocks, and code of a line may be there several times: inlined, or in several functions made of one
//! template. Each of these copies ran as often as the most frequent of its blocks, and the line as often as all copies together.
//! Lines of functions that were not measured, and of those of which nothing but the place is known, are not there at all.

use crate::callees::FunctionId;
use crate::model::{Block, Count, Edge, EdgeKind, Function, Node, Profile};
use std::collections::BTreeMap;

/// A piece of a block that comes from one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin<'l> {
    /// The path.
    pub file: &'l str,
    /// The line; zero is none in particular.
    pub line: u32,
    /// The same for code of the line that was inlined by the same calls; zero if it was not inlined.
    pub copy: u64,
}

/// What knows where code comes from.
pub trait Origins {
    /// Where the code of a block comes from, in the order of its addresses.
    fn of(&self, function: FunctionId, block: &Block) -> Vec<Origin<'_>>;
}

/// What of a program's source ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// By path.
    pub files: BTreeMap<String, File>,
    /// How many functions were measured but come from no line that is known.
    pub without_lines: u64,
    /// How many functions were not measured: nothing is said about their lines.
    pub not_measured: u64,
    /// How many functions never ran and are not described: nor about theirs.
    pub not_described: u64,
}

/// A source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// How often each line ran.
    pub lines: BTreeMap<u32, u64>,
    /// How often each function was entered: by the line it begins in, and its name as in the symbol table.
    pub functions: BTreeMap<(u32, String), u64>,
    /// Choices that are made in each line.
    pub branches: BTreeMap<u32, Vec<Choice>>,
}

/// The ways a choice can go, and how often each was taken; nothing if the choice was never made.
pub type Choice = Vec<Option<u64>>;

impl File {
    /// How many lines ran.
    #[must_use]
    pub fn lines_hit(&self) -> usize {
        self.lines.values().filter(|&&count| count > 0).count()
    }

    /// How many functions ran.
    #[must_use]
    pub fn functions_hit(&self) -> usize {
        self.functions.values().filter(|&&count| count > 0).count()
    }

    /// Of all ways of all choices, how many there are and how many were taken.
    #[must_use]
    pub fn ways(&self) -> (usize, usize) {
        let ways = self.branches.values().flatten().flatten();
        ways.fold((0, 0), |(all, hit), way| (all + 1, hit + usize::from(way.is_some_and(|count| count > 0))))
    }
}

impl Coverage {
    /// Of all functions of `profile`.
    #[must_use]
    pub fn new(profile: &Profile, origins: &impl Origins) -> Self {
        let mut coverage = Self::default();
        for id in profile.ids() {
            let (module, function) = profile.function(id);
            if function.is_idle() {
                coverage.not_described += 1;
            } else if function.blocks.iter().all(|block| block.count.is_none()) {
                coverage.not_measured += 1;
            } else if !coverage.add(id, module.name(function), function, origins) {
                coverage.without_lines += 1;
            }
        }
        coverage
    }

    /// Adds a function; says whether any line of it is known.
    fn add(&mut self, id: FunctionId, name: &str, function: &Function, origins: &impl Origins) -> bool {
        let mut copies: BTreeMap<Origin<'_>, u64> = BTreeMap::new();
        // The line that each block ends with.
        let mut ends: Vec<Option<Origin<'_>>> = Vec::with_capacity(function.blocks.len());
        let mut begins = None;
        for block in &function.blocks {
            let mut all = origins.of(id, block);
            all.retain(|origin| origin.line > 0);
            ends.push(all.last().copied());
            begins = begins.or(all.first().copied());
            let Some(count) = block.count.map(Count::value) else { continue };
            for origin in all {
                let most = copies.entry(origin).or_default();
                *most = count.max(*most);
            }
        }
        let Some(begins) = begins else { return false };
        for (origin, count) in copies {
            let line = self.file(origin.file).lines.entry(origin.line).or_default();
            *line = line.saturating_add(count);
        }
        if let Some(entries) = function.entries().or_else(|| function.blocks.first()?.count) {
            let key = (begins.line, name.to_string());
            let sum = self.file(begins.file).functions.entry(key).or_default();
            *sum = sum.saturating_add(entries.value());
        }
        for (node, ways) in choices(function) {
            let Some(origin) = deciding_block(function, node).and_then(|block| *ends.get(block as usize)?)
            else {
                continue;
            };
            let counts: Option<Vec<u64>> = ways.iter().map(|edge| Some(edge.count?.value())).collect();
            let Some(counts) = counts else { continue };
            let is_made = counts.iter().any(|&count| count > 0);
            let choice = counts.into_iter().map(|count| is_made.then_some(count)).collect();
            self.file(origin.file).branches.entry(origin.line).or_default().push(choice);
        }
        true
    }

    fn file(&mut self, path: &str) -> &mut File {
        if !self.files.contains_key(path) {
            self.files.insert(path.to_string(), File::default());
        }
        self.files.get_mut(path).expect("just inserted")
    }
}

/// Blocks and hubs with several ways to go on, and those ways. That a call may throw is no choice.
fn choices(function: &Function) -> BTreeMap<Node, Vec<&Edge>> {
    let mut choices: BTreeMap<Node, Vec<&Edge>> = BTreeMap::new();
    for edge in &function.edges {
        let is_way = matches!(
            edge.kind,
            EdgeKind::FallThrough | EdgeKind::Taken | EdgeKind::Jump | EdgeKind::Case | EdgeKind::TailCall
        );
        if is_way && !edge.from.is_outside() {
            choices.entry(edge.from).or_default().push(edge);
        }
    }
    choices.retain(|_, ways| ways.len() > 1);
    choices
}

/// The block that ends with a choice; of a hub, the first that leads to it.
fn deciding_block(function: &Function, node: Node) -> Option<u32> {
    node.as_block().or_else(|| function.edges.iter().find(|edge| edge.to == node)?.from.as_block())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_graph::tests::profile;

    struct Made;

    impl Origins for Made {
        fn of(&self, function: FunctionId, block: &Block) -> Vec<Origin<'_>> {
            let origin = |line, copy| Origin { file: "a.c", line, copy };
            match (function.function, block.address & 0xff) {
                (0, 0) => vec![origin(1, 0), origin(7, 1)],
                (0, _) => vec![origin(2, 0), origin(7, 2), origin(0, 0)],
                (1, _) => vec![origin(7, 0)],
                _ => Vec::new(),
            }
        }
    }

    #[test]
    fn copies_add_up_and_blocks_do_not() {
        let mut profile = profile(&[("main", 5, &[(1, 3), (1, 4)]), ("f", 7, &[]), ("asm", 1, &[])]);
        let main = &mut profile.modules[0].functions[0];
        let way = |to, kind, count| Edge {
            from: Node::block(0),
            to,
            counter: None,
            kind,
            count: Some(Count::measured(count)),
        };
        main.edges.push(way(Node::block(1), EdgeKind::Taken, 5));
        main.edges.push(way(Node::block(2), EdgeKind::FallThrough, 0));
        main.edges.push(way(Node::OUTSIDE, EdgeKind::NoReturn, 0));
        let coverage = Coverage::new(&profile, &Made);
        assert_eq!(coverage.without_lines, 1);
        let file = &coverage.files["a.c"];
        // Line 7: five times inlined in the first block, four in one of the others, seven in f.
        assert_eq!(file.lines, BTreeMap::from([(1, 5), (2, 4), (7, 16)]));
        let functions = [((1, "main".to_string()), 5), ((7, "f".to_string()), 7)];
        assert_eq!(file.functions, BTreeMap::from(functions));
        assert_eq!(file.branches, BTreeMap::from([(7, vec![vec![Some(5), Some(0)]])]));
        assert_eq!((file.lines_hit(), file.functions_hit(), file.ways()), (3, 2, (2, 1)));
    }
}
