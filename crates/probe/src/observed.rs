//! Fills in a description of a module with what was seen of it while it ran.
//!
//! Everything is known of each instruction: how often it was executed, and where branches led. Counts of blocks and of
//! the edges between them are read off that; what remains (calls that came back, entries, returns) follows.

use rayon::prelude::*;
use relive_profile::flow;
use relive_profile::model::{
    Count, Edge, EdgeKind, Foreign, Function, Module, Piece, State, Target, TargetCount,
};
use std::collections::{BTreeMap, HashMap};

/// What was executed of a module, by link addresses.
#[derive(Default)]
pub struct Observed {
    /// By address: how often instructions from there on were executed, up to the next entry.
    executed: Vec<(u64, u64)>,
    /// Branches that were taken, by where the branch ends: where it led, and how often.
    taken: HashMap<u64, Vec<(u64, u64)>>,
    /// Computed jumps and calls, by their own address: where they led, and how often.
    targets: BTreeMap<u64, Vec<(To, u64)>>,
    /// How many processes executed it.
    pub processes: u64,
    /// Code that ran when there were no counters any more: from where to where.
    pub uncounted: Vec<(u64, u64)>,
}

/// Where a computed jump or call led.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum To {
    /// A place in the same module.
    Own(u64),
    /// A place in another module, as linked.
    Foreign(Foreign, u64),
    /// Code in no file that is not known.
    Generated,
}

impl Observed {
    /// What was executed: from where to where, and how often.
    pub fn set_straight(&mut self, straight: impl IntoIterator<Item = (u64, u64, u64)>) {
        let mut steps: Vec<(u64, i128)> = Vec::new();
        for (start, end, count) in straight {
            steps.extend([(start, i128::from(count)), (end, -i128::from(count))]);
        }
        steps.par_sort_unstable();
        let mut sum = 0i128;
        self.executed.clear();
        for same in steps.chunk_by(|a, b| a.0 == b.0) {
            sum += same.iter().map(|(_, step)| step).sum::<i128>();
            self.executed.push((same[0].0, u64::try_from(sum).unwrap_or(u64::MAX)));
        }
    }

    /// A branch that was taken: where its instruction ends, where it led, and how often.
    pub fn add_taken(&mut self, end: u64, to: u64, count: u64) {
        self.taken.entry(end).or_default().push((to, count));
    }

    /// A computed jump or call: its own address, where it led, and how often.
    pub fn add_target(&mut self, site: u64, to: To, count: u64) {
        self.targets.entry(site).or_default().push((to, count));
    }

    /// How often the branch that ends at an address was taken.
    #[must_use]
    pub fn left(&self, end: u64) -> u64 {
        self.taken.get(&end).into_iter().flatten().map(|t| t.1).sum()
    }

    /// Where a computed jump or call led.
    pub fn targets_of(&self, site: u64) -> impl Iterator<Item = &To> {
        self.targets.get(&site).into_iter().flatten().map(|(to, _)| to)
    }

    /// Where all of them led, in the same module.
    pub fn own_targets(&self) -> impl Iterator<Item = u64> {
        self.targets.values().flatten().filter_map(|(to, _)| match to {
            To::Own(to) => Some(*to),
            _ => None,
        })
    }

    /// How often the instruction at an address, or around it, was executed.
    #[must_use]
    pub fn executed(&self, at: u64) -> u64 {
        let behind = self.executed.partition_point(|&(start, _)| start <= at);
        behind.checked_sub(1).map_or(0, |i| self.executed[i].1)
    }

    /// Whether anything in a piece of code was.
    fn touches(&self, piece: &Piece) -> bool {
        let end = piece.start.saturating_add(piece.len);
        let inside = self.executed.partition_point(|&(start, _)| start <= piece.start);
        let inside = self.executed[inside..].iter().take_while(|&&(start, _)| start < end);
        self.executed(piece.start) > 0 || inside.into_iter().any(|&(_, count)| count > 0)
    }

    /// Fills in the counts of a module that has none.
    pub fn fill(&self, module: &mut Module) {
        let reason = (!self.uncounted.is_empty())
            .then(|| module.texts.intern("counters were used up: some of its executions are not counted"));
        module.functions.par_iter_mut().filter(|f| f.state == State::Measured).for_each(|function| {
            self.fill_function(function);
            let holds = |&(start, end): &(u64, u64)| {
                function.pieces.iter().any(|piece| start < piece.start + piece.len && piece.start < end)
            };
            if self.uncounted.iter().any(holds) {
                function.approximate = reason;
            }
        });
        self.fill_sites(module);
        module.runs = self.processes;
    }

    fn fill_function(&self, function: &mut Function) {
        if function.pieces.iter().any(|piece| self.touches(piece)) {
            self.measure(function);
        } else {
            // What does not run is not taken either.
            let inside = |edge: &&mut Edge| edge.from.as_block().is_some() && edge.to.as_block().is_some();
            function.blocks.iter_mut().for_each(|block| block.count = Some(Count::measured(0)));
            function.edges.iter_mut().filter(inside).for_each(|edge| edge.count = Some(Count::measured(0)));
        }
        // Where several ways that nobody saw lead to one block, they stay unknown.
        flow::solve(function);
    }

    /// Fills in what was seen.
    pub(crate) fn measure(&self, function: &mut Function) {
        for block in &mut function.blocks {
            block.count = Some(Count::measured(self.executed(block.address)));
        }
        let blocks = &function.blocks;
        for edge in &mut function.edges {
            let Some(from) = edge.from.as_block().map(|b| &blocks[b as usize]) else { continue };
            let Some(to) = edge.to.as_block().map(|b| blocks[b as usize].address) else { continue };
            let end = from.address + u64::from(from.size);
            let at_end = self.executed(end - 1);
            let taken = self.taken.get(&end).map_or(&[][..], Vec::as_slice);
            let count = match edge.kind {
                EdgeKind::Taken => taken.iter().filter(|t| t.0 == to).map(|t| t.1).sum(),
                EdgeKind::FallThrough => at_end.saturating_sub(taken.iter().map(|t| t.1).sum()),
                EdgeKind::Jump => at_end,
                EdgeKind::Case => {
                    let there = self.targets.range(from.address..end).flat_map(|(_, targets)| targets);
                    there.filter(|t| t.0 == To::Own(to)).map(|t| t.1).sum()
                }
                // What does not run is not come to either.
                _ if from.count.is_some_and(|c| c.raw == 0) || self.executed(to) == 0 => 0,
                // What enters and leaves follows from the rest.
                _ => continue,
            };
            edge.count = Some(Count::measured(count));
        }
    }

    fn fill_sites(&self, module: &mut Module) {
        let mut numbers: HashMap<&Foreign, u32> = HashMap::new();
        let mut found: Vec<Foreign> = Vec::new();
        for site in &mut module.sites {
            let mut targets: Vec<_> = self.targets.get(&site.address).into_iter().flatten().collect();
            // So that equal runs leave equal profiles.
            targets.sort_unstable();
            for (to, count) in targets {
                let target = match to {
                    To::Own(address) => Target::Own(*address),
                    To::Generated => Target::Generated,
                    To::Foreign(foreign, address) => {
                        let module = *numbers.entry(foreign).or_insert_with(|| {
                            found.push(foreign.clone());
                            found.len() as u32 - 1
                        });
                        Target::Foreign { module, address: *address }
                    }
                };
                site.targets.push(TargetCount { target, count: *count });
            }
            site.targets.sort_unstable_by_key(|t| t.target);
        }
        module.foreign = found;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_profile::model::{Block, Edge, Node, TextId};

    #[test]
    fn a_loop_is_filled_in() {
        // bb0 falls into bb1, which branches back to itself or falls into bb2, which returns.
        let mut function = Function::new(TextId::default(), 0x10, 0x30, State::Measured);
        let block = |address, size| Block {
            address,
            size,
            insns: 1,
            line: None,
            is_entry: address == 0x10,
            is_landing_pad: false,
            counter: None,
            count: None,
        };
        function.blocks = vec![block(0x10, 8), block(0x18, 8), block(0x20, 8)];
        function.pieces = vec![Piece { start: 0x10, len: 0x18 }];
        let (out, b) = (Node::OUTSIDE, Node::block);
        let edge = |from, to, kind| Edge { from, to, kind, counter: None, count: None };
        function.edges = vec![
            edge(out, b(0), EdgeKind::Enter),
            edge(b(0), b(1), EdgeKind::FallThrough),
            edge(b(1), b(1), EdgeKind::Taken),
            edge(b(1), b(2), EdgeKind::FallThrough),
            edge(b(2), out, EdgeKind::Return),
        ];
        let mut observed = Observed::default();
        // One unit from the entry on, one that is the loop, one behind it.
        observed.set_straight([(0x10, 0x20, 3), (0x18, 0x20, 12), (0x20, 0x28, 3)]);
        observed.add_taken(0x20, 0x18, 12);
        observed.fill_function(&mut function);
        let counts: Vec<_> = function.blocks.iter().map(|b| b.count.unwrap().value()).collect();
        assert_eq!(counts, [3, 15, 3]);
        let counts: Vec<_> = function.edges.iter().map(|e| e.count.unwrap().value()).collect();
        assert_eq!(counts, [3, 3, 12, 3, 3]);
        assert_eq!(flow::check(&function), []);
        // Nothing of it ran.
        function.edges.iter_mut().for_each(|edge| edge.count = None);
        let mut observed = Observed::default();
        observed.set_straight([(0x08, 0x10, 3), (0x28, 0x30, 3)]);
        observed.fill_function(&mut function);
        assert!(function.blocks.iter().all(|b| b.count == Some(Count::measured(0))));
        assert!(function.edges.iter().all(|e| e.count.is_some_and(|c| c.value() == 0)));
    }
}
