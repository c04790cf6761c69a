//! How often each way between units was taken. Few are counted: the rest follows from how often each unit was entered, as it
//! was left as often.
//!
//! Every unit gives two sums: over the ways in, and over the ways out. The ways that are not counted make no circle between
//! them ([`abi::Edge`]), so that there is always a sum with only one of them left.

use crate::arena::Process;
use relive_abi::engine as abi;
use std::collections::HashMap;

/// One of the sums, by its number: as much comes to such a place as leaves it. The entry of a unit, with all its exits the
/// next; a call in which units end; a target of a computed jump or call.
type End = u32;

/// A way between two ends; `None` is outside, which has no sum.
#[derive(Clone, Copy)]
struct Way {
    from: Option<End>,
    to: Option<End>,
    /// The exit it is, if it is one: where in [`Taken::counts`].
    exit: Option<u32>,
}

/// A sum, as far as its ways are not known yet.
#[derive(Clone, Copy, Default)]
struct Sum {
    /// What the ways away from it must make up, less those to it. Processes that were killed may be off by one.
    rest: i64,
    /// How many ways.
    open: u32,
    /// Their numbers, all combined by exclusive or: the number itself if it is only one.
    ways: u32,
}

/// The ways of a process, while its log is read.
#[derive(Default)]
pub(crate) struct Flow {
    ways: Vec<Way>,
    sums: Vec<Sum>,
    /// The entries of units; `None` for those that are not counted.
    units: Vec<Option<End>>,
    calls: HashMap<u32, End>,
    /// By their counters.
    targets: HashMap<u32, End>,
    taken: Taken,
}

/// How often exits were taken.
#[derive(Default)]
pub(crate) struct Taken {
    /// For each unit, where its exits begin.
    first: Vec<u32>,
    counts: Vec<u64>,
}

impl Taken {
    /// How often an exit of a unit was taken, by their numbers.
    pub(crate) fn of(&self, unit: u32, exit: u32) -> u64 {
        self.place(unit, exit).map_or(0, |place| self.counts[place as usize])
    }

    fn place(&self, unit: u32, exit: u32) -> Option<u32> {
        let unit = unit as usize;
        let end = self.first.get(unit + 1).copied().unwrap_or(self.counts.len() as u32);
        self.first.get(unit)?.checked_add(exit).filter(|&place| place < end)
    }
}

impl Flow {
    /// The next unit, which was entered so often, and left in the middle so often.
    pub(crate) fn unit(&mut self, unit: &abi::Unit, exits: &[abi::Exit], entered: u64, cut: u64) {
        self.taken.first.push(self.taken.counts.len() as u32);
        self.taken.counts.resize(self.taken.counts.len() + exits.len(), 0);
        if unit.entries == abi::NO_COUNTER {
            self.units.push(None);
            return;
        }
        let entry = self.fresh(-(entered as i64));
        let left = self.fresh(entered as i64 - cut as i64);
        self.units.push(Some(entry));
        let end = match exits.last() {
            Some(exit) if matches!(exit.kind.into(), abi::CALL | abi::INDIRECT_CALL) => {
                // One in code that need not be counted has no sum.
                Some((exit.number != abi::NO_CALL).then(|| self.call(exit.number)))
            }
            _ if exits.iter().any(|e| matches!(e.kind.into(), abi::RETURN | abi::NOWHERE | abi::KERNEL)) => {
                Some(None)
            }
            _ => None,
        };
        if let Some(to) = end {
            self.way(Way { from: Some(left), to, exit: None });
        }
    }

    /// A unit of which the log says nothing.
    pub(crate) fn lost_unit(&mut self) {
        self.taken.first.push(self.taken.counts.len() as u32);
        self.units.push(None);
    }

    /// A computed jump or call has found its target so often.
    pub(crate) fn target(&mut self, target: &abi::Target, count: u64) {
        let from =
            if target.call == abi::NO_CALL { self.out(target.unit) } else { Some(self.call(target.call)) };
        let found = self.found(target.counter);
        self.add(from, -(count as i64));
        self.add(Some(found), count as i64);
    }

    /// A way that was taken.
    pub(crate) fn edge(&mut self, edge: &abi::Edge, process: &Process<'_>) {
        let from = match edge.kind {
            abi::FROM_EXIT => self.out(edge.from),
            abi::FROM_CALL => Some(self.call(edge.from)),
            abi::FROM_TARGET => Some(self.found(edge.from)),
            _ => None,
        };
        let to = self.units.get(edge.to as usize).copied().flatten();
        let is_exit = edge.kind == abi::FROM_EXIT;
        let exit = if is_exit { self.taken.place(edge.from, edge.exit) } else { None };
        let way = Way { from, to, exit };
        if edge.counter == abi::NO_COUNTER {
            self.way(way);
        } else {
            self.settle(way, process.count(edge.counter) as i64);
        }
    }

    /// All exits of a unit.
    fn out(&self, unit: u32) -> Option<End> {
        self.units.get(unit as usize).copied().flatten().map(|entry| entry + 1)
    }

    fn call(&mut self, number: u32) -> End {
        *self.calls.entry(number).or_insert_with(|| fresh(&mut self.sums, 0))
    }

    fn found(&mut self, counter: u32) -> End {
        *self.targets.entry(counter).or_insert_with(|| fresh(&mut self.sums, 0))
    }

    fn fresh(&mut self, rest: i64) -> End {
        fresh(&mut self.sums, rest)
    }

    fn add(&mut self, end: Option<End>, count: i64) {
        if let Some(end) = end {
            self.sums[end as usize].rest += count;
        }
    }

    fn way(&mut self, way: Way) {
        let number = self.ways.len() as u32;
        for end in [way.from, way.to].into_iter().flatten() {
            let sum = &mut self.sums[end as usize];
            sum.open += 1;
            sum.ways ^= number;
        }
        self.ways.push(way);
    }

    /// Takes what a way carries out of both its sums.
    fn settle(&mut self, way: Way, count: i64) {
        self.add(way.from, -count);
        self.add(way.to, count);
        if let Some(exit) = way.exit.filter(|_| way.from.is_some()) {
            self.taken.counts[exit as usize] += u64::try_from(count).unwrap_or(0);
        }
    }

    /// Finds out the rest.
    pub(crate) fn solve(mut self) -> Taken {
        let mut ready: Vec<End> = (0..self.sums.len() as End).collect();
        while let Some(end) = ready.pop() {
            let Sum { rest, open: 1, ways: number } = self.sums[end as usize] else { continue };
            let way = self.ways[number as usize];
            self.settle(way, if way.from == Some(end) { rest } else { -rest });
            for end in [way.from, way.to].into_iter().flatten() {
                let sum = &mut self.sums[end as usize];
                sum.open -= 1;
                sum.ways ^= number;
                if sum.open == 1 {
                    ready.push(end);
                }
            }
        }
        self.taken
    }
}

fn fresh(sums: &mut Vec<Sum>, rest: i64) -> End {
    sums.push(Sum { rest, ..Sum::default() });
    (sums.len() - 1) as End
}
