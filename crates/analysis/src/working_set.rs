//! How much memory is in use: distinct lines and pages touched in each window of instructions of a thread, and by a process
//! altogether.
//!
//! Windows begin at multiples of their length, counted in instructions of the thread, wherever segments are cut. What a segment
//! has of its first and its last window is added to what other segments have of them.

mod touched;

use crate::map::Map;
use crate::{Analysis, Code, Locate, Segment};
use relive_trace::units::Unit;
use relive_trace::visit::{Ran, Visitor};
use serde::Serialize;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use touched::{Lines, Touched};

/// The length of a page.
pub const PAGE: u64 = 4096;

/// The length of a line: a power of two from here up to [`PAGE`].
pub const SHORTEST_LINE: u64 = PAGE / 64;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many instructions a window has.
    pub window: NonZeroU64,
    /// As a power of two, how many bytes a line has.
    pub line_bits: u32,
}

impl Settings {
    /// Windows of so many instructions, lines of so many bytes. None if that is no length of a line.
    #[must_use]
    pub fn new(window: NonZeroU64, line: u64) -> Option<Self> {
        let fits = line.is_power_of_two() && (SHORTEST_LINE..=PAGE).contains(&line);
        fits.then(|| Self { window, line_bits: line.trailing_zeros() })
    }
}

/// The question.
pub struct WorkingSet {
    settings: Settings,
    threads: BTreeMap<(u32, u32), Thread>,
    processes: BTreeMap<u32, [Lines; 2]>,
}

#[derive(Default)]
struct Thread {
    windows: Vec<Window>,
    /// The lines of the last window, as the next segment may touch more.
    last: Option<(u64, u64, [Lines; 2])>,
}

/// What was touched in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Window {
    /// Where it begins: how many instructions of the thread came before it.
    pub instruction: u64,
    /// How many of its instructions were executed.
    pub instructions: u64,
    /// Data.
    pub data: Amount,
    /// Code.
    pub code: Amount,
}

/// So much memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// Lines of the length that was asked for.
    pub lines: u64,
    /// Pages.
    pub pages: u64,
}

/// What a segment tells.
pub struct Part {
    settings: Settings,
    instruction: u64,
    window: u64,
    executed: u64,
    data: Touched,
    code: Touched,
    /// By unit: the window, plus one, for which so many of its instructions have been touched.
    seen: Vec<(u64, usize)>,
    windows: Vec<Window>,
    /// The lines of the first window.
    first: Option<[Lines; 2]>,
}

impl Part {
    #[cold]
    fn end_window(&mut self) {
        if self.first.is_none() {
            self.first = Some([self.data.lines(), self.code.lines()]);
        }
        self.windows.push(Window {
            instruction: self.window * self.settings.window.get(),
            instructions: self.executed,
            data: self.data.amount(),
            code: self.code.amount(),
        });
        self.data.next_window();
        self.code.next_window();
        self.executed = 0;
    }

    #[cold]
    fn touch_code(&mut self, unit: &Unit, steps: usize) {
        for step in &unit.steps[..steps.min(unit.steps.len())] {
            self.code.touch(step.pc, step.len.into());
        }
    }
}

impl Visitor for Part {
    fn ran(&mut self, ran: &Ran<'_>) {
        // A unit belongs to the window in which it begins.
        let window = self.instruction / self.settings.window.get();
        if window != self.window {
            if self.executed > 0 {
                self.end_window();
            }
            self.window = window;
        }
        let number = ran.unit.number as usize;
        if self.seen.len() <= number {
            self.seen.resize(number + 1, (0, 0));
        }
        let (seen, steps) = self.seen[number];
        if seen != window + 1 || steps < ran.steps {
            self.seen[number] = (window + 1, ran.steps);
            self.touch_code(ran.unit, ran.steps);
        }
        for reference in ran.references {
            self.data.touch(reference.address, reference.size.into());
        }
        self.instruction += ran.steps.saturating_sub(ran.from) as u64;
        self.executed += ran.steps.saturating_sub(ran.from) as u64;
    }
}

impl WorkingSet {
    /// Asks for it.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, threads: BTreeMap::new(), processes: BTreeMap::new() }
    }
}

impl Analysis for WorkingSet {
    type Part = Part;
    type Report = Report;

    fn part(&self, segment: &Segment) -> Part {
        let window = self.settings.window.get();
        Part {
            settings: self.settings,
            instruction: segment.instruction,
            window: segment.instruction / window,
            executed: 0,
            data: Touched::new(self.settings.line_bits),
            code: Touched::new(self.settings.line_bits),
            seen: Vec::new(),
            windows: Vec::new(),
            first: None,
        }
    }

    fn combine(&mut self, segment: &Segment, mut part: Part) {
        let thread = self.threads.entry((segment.process, segment.thread)).or_default();
        let last =
            (part.executed > 0).then(|| (part.window, part.executed, [part.data.lines(), part.code.lines()]));
        let first = part.first.take();
        let mut windows = part.windows.into_iter();
        if let (Some(lines), Some(window)) = (first, windows.next()) {
            thread.add(&self.settings, window.instruction / self.settings.window, window.instructions, lines);
            thread.end(&self.settings);
        }
        thread.windows.extend(windows);
        if let Some((window, executed, lines)) = last {
            thread.add(&self.settings, window, executed, lines);
        }
        let totals = self.processes.entry(segment.process).or_default();
        for (total, touched) in totals.iter_mut().zip([part.data, part.code]) {
            touched::add(total, &touched.all());
        }
    }

    fn finish(mut self, _: &dyn Code, _: &dyn Locate) -> Report {
        let settings = self.settings;
        self.threads.values_mut().for_each(|thread| thread.end(&settings));
        let total = |(process, [data, code]): (u32, [Lines; 2])| Total {
            process,
            data: touched::amount(&data),
            code: touched::amount(&code),
        };
        let threads = self.threads.into_iter().map(|((process, thread), windows)| ThreadReport {
            process,
            thread,
            windows: windows.windows,
        });
        Report {
            line: 1 << settings.line_bits,
            window: settings.window.get(),
            processes: self.processes.into_iter().map(total).collect(),
            threads: threads.collect(),
        }
    }
}

impl Thread {
    /// Adds what a segment has of a window.
    fn add(&mut self, settings: &Settings, window: u64, executed: u64, lines: [Lines; 2]) {
        match &mut self.last {
            Some((last, sum, [data, code])) if *last == window => {
                *sum += executed;
                touched::add(data, &lines[0]);
                touched::add(code, &lines[1]);
            }
            _ => {
                self.end(settings);
                self.last = Some((window, executed, lines));
            }
        }
    }

    fn end(&mut self, settings: &Settings) {
        if let Some((window, instructions, [data, code])) = self.last.take() {
            self.windows.push(Window {
                instruction: window * settings.window.get(),
                instructions,
                data: touched::amount(&data),
                code: touched::amount(&code),
            });
        }
    }
}

/// What a process touched altogether.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Total {
    /// Which process, in the trace.
    pub process: u32,
    /// Data.
    pub data: Amount,
    /// Code.
    pub code: Amount,
}

/// What a thread touched over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadReport {
    /// Which process, in the trace.
    pub process: u32,
    /// Which thread, as the kernel numbers it.
    pub thread: u32,
    /// Its windows, in order.
    pub windows: Vec<Window>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The length of a line.
    pub line: u64,
    /// How many instructions a window has.
    pub window: u64,
    /// By process.
    pub processes: Vec<Total>,
    /// By thread.
    pub threads: Vec<ThreadReport>,
}

/// The lines touched on each page, as bits, in no order.
type Pages = Map<u64, u64>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Program, run_cut};
    use proptest::prelude::*;
    use relive_code::isa::AccessKind;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn as_sets_tell(
            addresses in prop::collection::vec((0u64..1 << 16, 1u32..200), 1..300),
            cut in 1usize..50,
            window in 1u64..100,
        ) {
            // mov eax, [rdi]; nop; nop
            let program = Program::new(&[(0x1fff, &[0x8b, 0x07, 0x90, 0x90])]);
            let mut thread = program.thread();
            for &(address, size) in &addresses {
                thread.run(0, &[(0, address, size, AccessKind::Read)]);
            }
            let window = NonZeroU64::new(window).expect("not 0");
            let settings = Settings::new(window, 128).expect("a line");
            let report = run_cut(WorkingSet::new(settings), &program, &[thread], cut);
            let mut windows: BTreeMap<u64, [BTreeSet<u64>; 2]> = BTreeMap::new();
            let mut total: [BTreeSet<u64>; 2] = Default::default();
            for (&(address, size), i) in addresses.iter().zip(0..) {
                let window = windows.entry(i * 3 / window).or_default();
                for byte in address..address + u64::from(size) {
                    for (sets, bits) in [(0, 7), (1, 12)] {
                        window[sets].insert(byte >> bits);
                        total[sets].insert(byte >> bits);
                    }
                }
            }
            let amount = |sets: &[BTreeSet<u64>; 2]| Amount { lines: sets[0].len() as u64, pages: sets[1].len() as u64 };
            let expected: Vec<_> = windows.iter().map(|(w, sets)| (w * window.get(), amount(sets))).collect();
            let found: Vec<_> = report.threads[0].windows.iter().map(|w| (w.instruction, w.data)).collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(report.processes[0].data, amount(&total));
            let two = Amount { lines: 2, pages: 2 };
            prop_assert!(report.threads[0].windows.iter().all(|w| w.code == two));
            let executed: u64 = report.threads[0].windows.iter().map(|w| w.instructions).sum();
            prop_assert_eq!(executed, 3 * addresses.len() as u64);
        }
    }
}
