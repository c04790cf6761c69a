//! How often each way between units was taken. Few are counted: the rest follows from how often each unit was entered, as it
//! was left as often.
//!
//! Every unit gives two sums: over the ways in, and over the ways out. The ways that are not counted make no circle between
//! them ([`abi::Edge`]), so that there is always a sum with only one of them left.

use crate::arena::Process;
use relive_abi::engine as abi;
use std::collections::HashMap;

/// One of the sums: as much comes to such a place as leaves it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum End {
    /// The entry of a unit.
    In(u32),
    /// All its exits.
    Out(u32),
    /// A call in which units end.
    Call(u32),
    /// A target of a computed jump or call, by its counter.
    Target(u32),
}

/// A way between two ends; `None` is outside, which has no sum.
struct Way {
    from: Option<End>,
    to: Option<End>,
    /// The exit of the unit, if it is one.
    exit: Option<u32>,
}

/// A sum, as far as its ways are not known yet.
#[derive(Default)]
struct Sum {
    /// What the ways away from it must make up, less those to it. Processes that were killed may be off by one.
    rest: i64,
    /// Which ways.
    ways: Vec<usize>,
    open: usize,
}

/// The ways of a process, while its log is read.
#[derive(Default)]
pub(crate) struct Flow {
    ways: Vec<Way>,
    sums: HashMap<End, Sum>,
    uncounted: std::collections::HashSet<u32>,
}

/// How often exits were taken, by their unit and their number there.
pub(crate) type Taken = HashMap<(u32, u32), u64>;

impl Flow {
    /// A unit that was entered so often, and left in the middle so often.
    pub(crate) fn unit(
        &mut self,
        number: u32,
        unit: &abi::Unit,
        exits: &[abi::Exit],
        entered: u64,
        cut: u64,
    ) {
        if unit.entries == abi::NO_COUNTER {
            self.uncounted.insert(number);
            return;
        }
        self.add(End::In(number), -(entered as i64));
        self.add(End::Out(number), entered as i64 - cut as i64);
        let end = match exits.last() {
            Some(exit) if matches!(exit.kind.into(), abi::CALL | abi::INDIRECT_CALL) => {
                Some(Some(End::Call(exit.number)))
            }
            _ if exits.iter().any(|e| matches!(e.kind.into(), abi::RETURN | abi::NOWHERE | abi::KERNEL)) => {
                Some(None)
            }
            _ => None,
        };
        if let Some(to) = end {
            self.way(Way { from: Some(End::Out(number)), to, exit: None });
        }
    }

    /// A computed jump or call has found its target so often.
    pub(crate) fn target(&mut self, target: &abi::Target, count: u64) {
        let from =
            if target.call == abi::NO_CALL { self.out(target.unit) } else { Some(End::Call(target.call)) };
        if let Some(from) = from {
            self.add(from, -(count as i64));
        }
        self.add(End::Target(target.counter), count as i64);
    }

    /// A way that was taken.
    pub(crate) fn edge(&mut self, edge: &abi::Edge, process: &Process<'_>, taken: &mut Taken) {
        let from = match edge.kind {
            abi::FROM_EXIT => self.out(edge.from),
            abi::FROM_CALL => Some(End::Call(edge.from)),
            abi::FROM_TARGET => Some(End::Target(edge.from)),
            _ => None,
        };
        let to = (edge.to != abi::OUTSIDE && !self.uncounted.contains(&edge.to)).then_some(End::In(edge.to));
        let exit = (edge.kind == abi::FROM_EXIT).then_some(edge.exit);
        if edge.counter == abi::NO_COUNTER {
            return self.way(Way { from, to, exit });
        }
        let count = process.count(edge.counter);
        if let Some(exit) = exit {
            *taken.entry((edge.from, exit)).or_default() += count;
        }
        self.settle(from, to, count as i64);
    }

    fn out(&self, unit: u32) -> Option<End> {
        (!self.uncounted.contains(&unit)).then_some(End::Out(unit))
    }

    fn add(&mut self, end: End, count: i64) {
        self.sums.entry(end).or_default().rest += count;
    }

    fn way(&mut self, way: Way) {
        let number = self.ways.len();
        for end in [way.from, way.to].into_iter().flatten() {
            let sum = self.sums.entry(end).or_default();
            sum.ways.push(number);
            sum.open += 1;
        }
        self.ways.push(way);
    }

    /// Takes what a way carries out of both its sums.
    fn settle(&mut self, from: Option<End>, to: Option<End>, count: i64) {
        if let Some(from) = from {
            self.add(from, -count);
        }
        if let Some(to) = to {
            self.add(to, count);
        }
    }

    /// Finds out the rest.
    pub(crate) fn solve(mut self, taken: &mut Taken) {
        let mut known = vec![false; self.ways.len()];
        let mut ready: Vec<End> =
            self.sums.iter().filter(|(_, sum)| sum.open == 1).map(|(end, _)| *end).collect();
        while let Some(end) = ready.pop() {
            let sum = &self.sums[&end];
            let Some(&number) = sum.ways.iter().find(|way| !known[**way]) else { continue };
            let Way { from, to, exit } = self.ways[number];
            let count = if from == Some(end) { sum.rest } else { -sum.rest };
            known[number] = true;
            if let (Some(End::Out(unit)), Some(exit)) = (from, exit) {
                *taken.entry((unit, exit)).or_default() += u64::try_from(count).unwrap_or(0);
            }
            self.settle(from, to, count);
            for end in [from, to].into_iter().flatten() {
                if let Some(sum) = self.sums.get_mut(&end) {
                    sum.open -= 1;
                    if sum.open == 1 {
                        ready.push(end);
                    }
                }
            }
        }
    }
}
