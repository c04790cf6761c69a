//! Which ways between units have to be counted.
//!
//! It is counted how often each unit is entered. As it is left as often, that gives two sums for each unit: over the ways
//! that lead to it, and over those that lead away. From these, whoever reads the counters finds out how often each way
//! was taken, as long as the ways that are not counted make no circle between the ends of units. So a way is counted if
//! it would close one, which few do.
//!
//! What comes from outside or goes there, as returns do, adds up to nothing known: "outside" is an end without a sum.

use crate::translate::Exit;
use alloc::vec::Vec;
use hashbrown::HashMap;
use relive_abi::engine as abi;

/// Where a way comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// An exit of a unit: both by their numbers, in the log and in the unit.
    Exit(u32, u32),
    /// A call, by its number.
    Call(u32),
    /// A computed jump or call that has found its target, by the target's counter.
    Target(u32),
    /// A return, or the engine by itself.
    Outside,
}

/// One end of a unit, or something else at which as much arrives as leaves.
type End = u32;

/// What is not part of any sum.
const OUTSIDE: End = 0;

/// All ends, and which of them hang together by ways that are not counted.
pub struct Flow {
    /// For each, another that it hangs together with; itself if it stands for all of them.
    parents: Vec<End>,
    /// Where units are entered. Where they are left is the next.
    units: Vec<End>,
    calls: Vec<End>,
    /// The numbers of calls by where they are.
    call_numbers: HashMap<u64, u32>,
    targets: HashMap<u32, End>,
    /// The ways that were taken, each to a unit or outside, with their counters.
    ways: HashMap<Way, u32>,
}

/// A way as a key: where it comes from, and the unit it leads to.
type Way = (u64, u32);

fn key(from: Source, to: Option<u32>) -> Way {
    let from = match from {
        Source::Exit(unit, exit) => u64::from(unit) << 32 | u64::from(exit) << 2,
        Source::Call(number) => u64::from(number) << 32 | 1,
        Source::Target(counter) => u64::from(counter) << 32 | 2,
        Source::Outside => 3,
    };
    (from, to.unwrap_or(abi::OUTSIDE))
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            parents: alloc::vec![OUTSIDE],
            units: Vec::new(),
            calls: Vec::new(),
            call_numbers: HashMap::new(),
            targets: HashMap::new(),
            ways: HashMap::new(),
        }
    }
}

impl Flow {
    /// The next unit.
    pub fn add_unit(&mut self, exits: &[Exit], is_counted: bool) {
        if !is_counted {
            self.units.push(OUTSIDE);
            return;
        }
        let entered = self.fresh();
        let left = self.fresh();
        self.units.push(entered);
        let end = match exits.last() {
            Some(Exit { source: Source::Call(number), .. }) => Some(self.calls[*number as usize]),
            // A call in code that need not be counted.
            Some(exit) if is_call(exit) => Some(OUTSIDE),
            // Most calls of the kernel come back. But the engine may have led the program elsewhere.
            _ if exits.iter().any(|e| matches!(e.kind, abi::RETURN | abi::NOWHERE | abi::KERNEL)) => {
                Some(OUTSIDE)
            }
            _ => None,
        };
        if let Some(end) = end {
            self.join(left, end);
        }
    }

    /// The number of the call at an address.
    pub fn call(&mut self, at: u64) -> u32 {
        if let Some(&number) = self.call_numbers.get(&at) {
            return number;
        }
        let (number, end) = (self.calls.len() as u32, self.fresh());
        self.calls.push(end);
        self.call_numbers.insert(at, number);
        number
    }

    /// The counter of a way to a unit, or outside, if it has one and has been taken before.
    pub fn known(&self, from: Source, to: Option<u32>) -> Option<Option<u32>> {
        let counter = *self.ways.get(&key(from, to))?;
        Some((counter != abi::NO_COUNTER).then_some(counter))
    }

    /// Learns of a way that is taken for the first time. Whether it has to be counted.
    pub fn closes(&mut self, from: Source, to: Option<u32>) -> bool {
        let to = to.map_or(OUTSIDE, |unit| self.units[unit as usize]);
        let from = self.left(from);
        !self.join(from, to)
    }

    /// Remembers the counter of a way.
    pub fn insert(&mut self, from: Source, to: Option<u32>, counter: Option<u32>) {
        self.ways.insert(key(from, to), counter.unwrap_or(abi::NO_COUNTER));
    }

    fn left(&mut self, from: Source) -> End {
        match from {
            Source::Exit(unit, _) => match self.units[unit as usize] {
                OUTSIDE => OUTSIDE,
                entered => entered + 1,
            },
            Source::Call(number) => self.calls[number as usize],
            Source::Target(counter) => match self.targets.get(&counter) {
                Some(&end) => end,
                None => {
                    let end = self.fresh();
                    self.targets.insert(counter, end);
                    end
                }
            },
            Source::Outside => OUTSIDE,
        }
    }

    fn fresh(&mut self) -> End {
        let end = self.parents.len() as End;
        self.parents.push(end);
        end
    }

    fn root(&mut self, mut end: End) -> End {
        loop {
            let parent = self.parents[end as usize];
            if parent == end {
                return end;
            }
            // The next time it is shorter.
            self.parents[end as usize] = self.parents[parent as usize];
            end = parent;
        }
    }

    /// Lets two ends hang together; whether they did not before.
    fn join(&mut self, a: End, b: End) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a.max(b) as usize] = a.min(b);
        a != b
    }
}

/// Whether an exit is a call that others may end with as well.
pub fn is_call(exit: &Exit) -> bool {
    matches!(exit.kind, abi::CALL | abi::INDIRECT_CALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(units: usize) -> Flow {
        let mut flow = Flow::default();
        (0..units).for_each(|_| flow.add_unit(&[], true));
        flow
    }

    #[test]
    fn a_diamond_needs_no_counter() {
        let mut flow = flow(4);
        for (from, exit, to) in [(0, 0, 1), (0, 1, 2), (1, 0, 3), (2, 0, 3)] {
            assert!(!flow.closes(Source::Exit(from, exit), Some(to)));
        }
    }

    #[test]
    fn two_ways_between_the_same_units_need_one() {
        let mut flow = flow(2);
        assert!(!flow.closes(Source::Exit(0, 0), Some(1)));
        assert!(flow.closes(Source::Exit(0, 1), Some(1)));
    }

    #[test]
    fn what_comes_from_outside_is_told_from_what_goes_there() {
        let mut flow = flow(2);
        assert!(!flow.closes(Source::Outside, Some(1)));
        assert!(!flow.closes(Source::Exit(0, 0), Some(1)));
        assert!(flow.closes(Source::Exit(0, 1), None));
    }

    #[test]
    fn calls_are_shared() {
        let mut flow = Flow::default();
        let number = flow.call(0x1000);
        let call = Exit { kind: abi::CALL, source: Source::Call(number), ..Exit::NONE };
        (0..2).for_each(|_| flow.add_unit(&[call], true));
        flow.add_unit(&[], true);
        assert!(!flow.closes(Source::Call(number), Some(2)));
        assert!(flow.closes(Source::Exit(0, 0), Some(2)));
    }
}
