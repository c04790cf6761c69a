//! How often each unit was executed, by which exits it was left, and where computed ones led.

use crate::executions::Executions;
use crate::map::Map;
use crate::{Analysis, Code, Locate, Segment};
use relive_trace::visit::{Event, Ran, Visitor};
use std::collections::BTreeMap;

/// The question.
#[derive(Default)]
pub struct Profile {
    processes: BTreeMap<u32, Counts>,
    /// The exit by which each thread left the last unit, if that leads to where it is computed to.
    last: BTreeMap<(u32, u32), Option<Left>>,
}

/// What a process did.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// How often units were left by which exits.
    pub executions: Executions,
    /// Where exits led that lead to computed places: the exit, the number of the unit that came next, how often.
    pub computed: BTreeMap<(Left, u32), u64>,
    /// How often a unit was entered from outside: at the start of a thread, in a handler of a signal, behind one.
    pub entered: BTreeMap<u32, u64>,
}

/// An exit of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Left {
    /// The number of the unit.
    pub unit: u32,
    /// Which of its exits.
    pub exit: u32,
}

/// Where a thread came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// Nothing has happened yet.
    Before,
    /// Such an exit.
    Exit(Left),
    /// An exit that says itself where it leads.
    Known,
    /// Outside.
    Outside,
}

/// What a segment tells.
pub struct Part {
    executions: Executions,
    /// By exit: the unit that came next the last time, and how often in a row.
    runs: Map<Left, (u32, u64)>,
    computed: Map<(Left, u32), u64>,
    entered: Map<u32, u64>,
    from: From,
    /// The first unit, if nothing says where the thread came from.
    first: Option<u32>,
}

impl Part {
    /// A unit is entered.
    fn enter(&mut self, number: u32) {
        match self.from {
            From::Known => {}
            From::Before => self.first = Some(number),
            From::Outside => *self.entered.entry(number).or_default() += 1,
            From::Exit(left) => {
                let (unit, times) = self.runs.entry(left).or_insert((number, 0));
                if *unit != number {
                    *self.computed.entry((left, *unit)).or_default() += *times;
                    (*unit, *times) = (number, 0);
                }
                *times += 1;
            }
        }
    }
}

impl Visitor for Part {
    fn ran(&mut self, ran: &Ran<'_>) {
        self.executions.ran(ran);
        let number = ran.unit.number;
        if ran.from == 0 {
            self.enter(number);
        }
        self.from = match ran.exit {
            Some(exit) if ran.unit.exits[exit].to == 0 => {
                From::Exit(Left { unit: number, exit: exit as u32 })
            }
            Some(_) => From::Known,
            None => From::Outside,
        };
    }

    fn event(&mut self, event: &Event) {
        if matches!(event, Event::State(_)) {
            self.from = From::Outside;
        }
    }
}

impl Analysis for Profile {
    type Part = Part;
    type Report = BTreeMap<u32, Counts>;

    fn part(&self, _: &Segment) -> Part {
        let executions = Executions::default();
        Part {
            executions,
            runs: Map::default(),
            computed: Map::default(),
            entered: Map::default(),
            from: From::Before,
            first: None,
        }
    }

    fn combine(&mut self, segment: &Segment, part: Part) {
        let sum = self.processes.entry(segment.process).or_default();
        sum.executions.merge(&part.executions);
        let runs = part.runs.into_iter().map(|(left, (unit, times))| ((left, unit), times));
        for (way, times) in part.computed.into_iter().chain(runs) {
            *sum.computed.entry(way).or_default() += times;
        }
        for (unit, times) in part.entered {
            *sum.entered.entry(unit).or_default() += times;
        }
        let last = self.last.entry((segment.process, segment.thread)).or_default();
        if let (Some(left), Some(unit)) = (*last, part.first) {
            *sum.computed.entry((left, unit)).or_default() += 1;
        }
        match part.from {
            From::Exit(left) => *last = Some(left),
            From::Known | From::Outside => *last = None,
            From::Before => {}
        }
    }

    fn finish(self, _: &dyn Code, _: &dyn Locate) -> BTreeMap<u32, Counts> {
        self.processes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Program, run_cut};

    #[test]
    fn ways_add_up_wherever_segments_end() {
        let program = Program::new(&[(0x1000, &[0x90]), (0x2000, &[0xc3]), (0x3000, &[0xc3])]);
        let mut thread = program.thread();
        for i in 0..30 {
            thread.run_to(1, 1);
            thread.run_to(if i % 3 == 0 { 0 } else { 2 }, 0);
        }
        for len in [1, 7, 100] {
            let counts = run_cut(Profile::default(), &program, std::slice::from_ref(&thread), len);
            let counts = &counts[&7];
            let left = Left { unit: 1, exit: 1 };
            assert_eq!(counts.computed, BTreeMap::from([((left, 0), 10), ((left, 2), 20)]));
            assert_eq!(counts.executions.exit(&program.units(0)[1], 1), 30);
            assert_eq!(counts.executions.exit(&program.units(0)[2], 0), 20);
        }
    }
}
