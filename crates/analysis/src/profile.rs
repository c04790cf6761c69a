//! How often each unit was executed, by which exits it was left, and where computed ones led.

use crate::executions::Executions;
use crate::map::Map;
use crate::{Analysis, Code, Locate, Segment};
use relive_trace::units::State;
use relive_trace::visit::{Event, Ran, Visitor};
use std::collections::BTreeMap;

/// The question.
#[derive(Default)]
pub struct Profile {
    processes: BTreeMap<u32, Counts>,
    threads: BTreeMap<(u32, u32), Thread>,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum From {
    /// Nothing has happened yet.
    #[default]
    Before,
    /// An exit to where it is computed to.
    Exit(Left),
    /// An exit that says itself where it leads.
    Known,
    /// Outside.
    Outside,
    /// Outside, where an instruction failed: whatever the handler does, it counts as executed, unless it is executed again.
    Failed(Stop),
    /// A handler, which a signal led to before this segment.
    Back,
}

/// Where a unit was left in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stop {
    unit: u32,
    /// How many instructions had been executed.
    steps: u32,
    /// The next.
    pc: u64,
}

/// A call of the kernel that goes on where a signal came: `rt_sigreturn`.
const RETURN_FROM_HANDLER: u64 = 15;
/// Signals by which instructions fail: `SIGILL`, `SIGBUS`, `SIGFPE` and `SIGSEGV`. A handler is given the number in `rdi`.
const FAILURES: [u64; 4] = [4, 7, 8, 11];
/// So many handlers may be at work in each other. One that is left by `longjmp` seems to go on for ever.
const MOST_HELD: usize = 64;

/// What a segment tells.
#[derive(Default)]
pub struct Part {
    executions: Executions,
    /// By exit: the unit that came next the last time, and how often in a row.
    runs: Map<Left, (u32, u64)>,
    computed: Map<(Left, u32), u64>,
    entered: Map<u32, u64>,
    from: From,
    has_begun: bool,
    /// The first thing is that the thread goes on from outside: whether a handler ends there, only the segment before tells.
    begins_outside: Option<State>,
    /// Where the last unit was left in the middle.
    stop: Option<Stop>,
    /// The exit by which the last unit was left, and how many instructions it has up to there.
    left: Option<(Left, u32)>,
    /// The call of the kernel that was not made at the end of the segment before.
    is_not_called: bool,
    /// Where the thread came from when signals led it away, the last one last.
    held: Vec<From>,
    is_returning: bool,
    /// The first unit, if nothing says where the thread came from.
    first: Option<u32>,
    /// Where it went on behind handlers that had begun before, in order: with which unit, if one was executed.
    back: Vec<(u64, Option<u32>)>,
}

impl Part {
    /// A unit is entered.
    fn enter(&mut self, number: u32) {
        match self.from {
            From::Known => {}
            From::Before => self.first = Some(number),
            From::Back => self.back.last_mut().into_iter().for_each(|(_, unit)| *unit = Some(number)),
            From::Outside | From::Failed(_) => *self.entered.entry(number).or_default() += 1,
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

    /// The thread goes on from outside.
    fn go_on(&mut self, state: &State) {
        let stop = self.stop.take();
        if !self.has_begun {
            self.begins_outside = Some(*state);
        } else if !self.is_returning {
            hold(&mut self.held, led_away(self.from, stop, state, &mut self.executions));
            self.from = From::Outside;
        } else if let Some(from) = self.held.pop() {
            self.from = come_back(from, state.pc, &mut self.executions);
        } else {
            self.from = From::Back;
            self.back.push((state.pc, None));
        }
    }
}

/// Where a thread comes from that a signal leads away.
fn led_away(from: From, stop: Option<Stop>, state: &State, executions: &mut Executions) -> From {
    let Some(stop) = stop.filter(|_| FAILURES.contains(&state.registers[7])) else { return from };
    executions.move_stop(stop.unit, stop.steps, stop.steps + 1);
    From::Failed(stop)
}

/// The same for one that comes back.
fn come_back(from: From, pc: u64, executions: &mut Executions) -> From {
    let From::Failed(stop) = from else { return from };
    if stop.pc == pc {
        executions.move_stop(stop.unit, stop.steps + 1, stop.steps);
    }
    From::Outside
}

fn hold(held: &mut Vec<From>, from: From) {
    if held.len() == MOST_HELD {
        held.remove(0);
    }
    held.push(from);
}

impl Visitor for Part {
    fn ran(&mut self, ran: &Ran<'_>) {
        self.has_begun = true;
        self.executions.ran(ran);
        let number = ran.unit.number;
        if ran.from == 0 {
            self.enter(number);
        }
        self.from = From::Outside;
        let next = ran.unit.steps.get(ran.steps).filter(|_| ran.exit.is_none());
        self.stop = next.map(|step| Stop { unit: number, steps: ran.steps as u32, pc: step.pc });
        self.left = None;
        if let Some(exit) = ran.exit {
            let left = Left { unit: number, exit: exit as u32 };
            self.from = if ran.unit.exits[exit].to == 0 { From::Exit(left) } else { From::Known };
            self.left = Some((left, ran.steps as u32));
        }
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::State(state) => self.go_on(state),
            Event::NotCalled => match self.left.take() {
                Some((left, steps)) => self.executions.stop_before(left, steps),
                None => self.is_not_called = true,
            },
            Event::Call { .. } | Event::Result { .. } => {}
        }
        self.has_begun = true;
        self.is_returning = matches!(event, Event::Call { number: RETURN_FROM_HANDLER, .. });
    }
}

impl Counts {
    /// A unit is entered, if it is known by now where from.
    fn enter(&mut self, from: From, unit: Option<u32>) {
        match (from, unit) {
            (From::Exit(left), Some(unit)) => *self.computed.entry((left, unit)).or_default() += 1,
            (From::Outside, Some(unit)) => *self.entered.entry(unit).or_default() += 1,
            _ => {}
        }
    }
}

/// What is known of a thread where a segment ends.
#[derive(Default)]
struct Thread {
    from: From,
    left: Option<(Left, u32)>,
    stop: Option<Stop>,
    held: Vec<From>,
    is_returning: bool,
}

impl Analysis for Profile {
    type Part = Part;
    type Report = BTreeMap<u32, Counts>;

    fn wants_memory(&self) -> bool {
        false
    }

    fn part(&self, _: &Segment) -> Part {
        Part::default()
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
        let thread = self.threads.entry((segment.process, segment.thread)).or_default();
        if let (true, Some((left, steps))) = (part.is_not_called, thread.left.take()) {
            sum.executions.stop_before(left, steps);
        }
        let executions = &mut sum.executions;
        match part.begins_outside {
            Some(state) if thread.is_returning => {
                let from = thread.held.pop().unwrap_or(From::Outside);
                thread.from = come_back(from, state.pc, executions);
            }
            Some(state) => {
                let from = led_away(thread.from, thread.stop, &state, executions);
                hold(&mut thread.held, from);
                thread.from = From::Outside;
            }
            None => {}
        }
        let before = thread.from;
        sum.enter(before, part.first);
        let mut from = before;
        for (pc, unit) in part.back {
            from = come_back(thread.held.pop().unwrap_or(From::Outside), pc, &mut sum.executions);
            sum.enter(from, unit);
        }
        for held in part.held {
            hold(&mut thread.held, if held == From::Before { before } else { held });
        }
        match part.from {
            From::Before => {}
            From::Back => thread.from = from,
            from => thread.from = from,
        }
        (thread.left, thread.stop, thread.is_returning) = (part.left, part.stop, part.is_returning);
    }

    fn finish(self, _: &dyn Code, _: &dyn Locate) -> BTreeMap<u32, Counts> {
        self.processes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Program, run_cut};

    /// A handler comes between a computed jump and where that leads, and before a call of the kernel that is made again.
    #[test]
    fn signals_change_nothing() {
        let program = Program::new(&[(0x1000, &[0x0f, 0x05]), (0x2000, &[0xc3]), (0x3000, &[0x0f, 0x05])]);
        let state = State { registers: [0; 16], flags: 0, pc: 0, fs: 0, gs: 0 };
        let mut thread = program.thread();
        thread.event(Event::State(state));
        for _ in 0..10 {
            thread.run_to(1, 1);
            thread.event(Event::State(state));
            thread.run_to(2, 0);
            thread.event(Event::Call { number: RETURN_FROM_HANDLER, arguments: [0; 6], time: 0 });
            thread.event(Event::State(state));
            thread.run_to(0, 0);
            thread.event(Event::NotCalled);
            thread.event(Event::State(state));
        }
        for len in [1, 2, 3, 5, 100] {
            let counts = run_cut(Profile::default(), &program, std::slice::from_ref(&thread), len);
            let counts = &counts[&7];
            assert_eq!(counts.computed, BTreeMap::from([((Left { unit: 1, exit: 1 }, 0), 10)]), "{len}");
            assert_eq!(counts.entered, BTreeMap::from([(1, 10), (2, 10)]), "{len}");
            let units = program.units(0);
            assert_eq!(counts.executions.exit(&units[0], 0), 0, "{len}");
            let steps: Vec<_> =
                counts.executions.steps(units).map(|(unit, steps)| (unit.number, steps)).collect();
            assert_eq!(steps, [(0, vec![0]), (1, vec![10]), (2, vec![10])], "{len}");
        }
    }

    /// An instruction that fails counts, once.
    #[test]
    fn failures() {
        let program =
            Program::new(&[(0x1000, &[0x90, 0x8b, 0x07]), (0x2000, &[0xc3]), (0x3000, &[0x0f, 0x05])]);
        let mut state = State { registers: [0; 16], flags: 0, pc: 0x1001, fs: 0, gs: 0 };
        state.registers[7] = FAILURES[3];
        let mut thread = program.thread();
        for i in 0..10 {
            thread.stop(0, 1, &[]);
            thread.event(Event::State(state));
            if i % 2 == 0 {
                // Goes on where it was.
                thread.run_to(2, 0);
                thread.event(Event::Call { number: RETURN_FROM_HANDLER, arguments: [0; 6], time: 0 });
                thread.event(Event::State(state));
            }
            thread.run_to(1, 0);
        }
        for len in [1, 2, 3, 5, 100] {
            let counts = run_cut(Profile::default(), &program, std::slice::from_ref(&thread), len);
            let steps: Vec<_> =
                counts[&7].executions.steps(program.units(0)).map(|(_, steps)| steps).collect();
            assert_eq!(steps, [vec![10, 5], vec![10], vec![5]], "{len}");
        }
    }

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
