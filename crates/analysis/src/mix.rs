//! Which instructions are executed: by sort, by name, and by where they are.
//!
//! Nothing but how often units are executed is counted while segments are replayed: all else is in their code. So a
//! trace of control flow alone will do. An instruction that repeats itself (`rep`) counts once.

use crate::executions::Executions;
use crate::place::group;
use crate::{Analysis, Code, Level, Locate, Location, Place, Segment};
use relive_code::isa::{AccessKind, Category, EffectsReader, Insn};
use relive_trace::units::Unit;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The question.
#[derive(Default)]
pub struct Mix {
    processes: BTreeMap<u32, Executions>,
}

/// How often what was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Instructions.
    pub instructions: u64,
    /// Reads of memory.
    pub loads: u64,
    /// Writes to memory.
    pub stores: u64,
    /// Conditional jumps.
    pub branches: u64,
    /// Calls.
    pub calls: u64,
}

/// The same for some part of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Which.
    #[serde(flatten)]
    pub location: Location,
    /// What it did.
    #[serde(flatten)]
    pub counts: Counts,
}

/// How often one sort of instruction was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sort {
    /// Its name.
    pub name: String,
    /// How often.
    pub instructions: u64,
}

/// The answer. All lists begin with what is most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Everything together.
    pub total: Counts,
    /// By sort.
    pub categories: Vec<Sort>,
    /// By name.
    pub mnemonics: Vec<Sort>,
    /// By module.
    pub modules: Vec<Part>,
    /// By function.
    pub functions: Vec<Part>,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.loads += other.loads;
        self.stores += other.stores;
        self.branches += other.branches;
        self.calls += other.calls;
    }
}

impl Analysis for Mix {
    type Part = Executions;
    type Report = Report;

    fn wants_memory(&self) -> bool {
        false
    }

    fn part(&self, _: &Segment) -> Executions {
        Executions::default()
    }

    fn combine(&mut self, segment: &Segment, part: Executions) {
        self.processes.entry(segment.process).or_default().merge(&part);
    }

    fn finish(self, code: &dyn Code, locate: &dyn Locate) -> Report {
        let mut tally = Tally::default();
        for (&process, executions) in &self.processes {
            for (unit, counts) in executions.steps(code.units(process)) {
                tally.add(process, unit, &counts);
            }
        }
        tally.report(locate)
    }
}

#[derive(Default)]
struct Tally {
    total: Counts,
    categories: BTreeMap<Category, u64>,
    mnemonics: BTreeMap<u16, (Option<Insn>, u64)>,
    places: BTreeMap<Place, Counts>,
    effects: EffectsReader,
}

impl Tally {
    fn add(&mut self, process: u32, unit: &Unit, counts: &[u64]) {
        for (step, &times) in counts.iter().enumerate().filter(|(_, times)| **times > 0) {
            let Some(insn) = unit.decode(step) else { continue };
            let (mut loads, mut stores) = (0, 0);
            for access in self.effects.accesses(&insn) {
                loads += u64::from(access.kind != AccessKind::Write);
                stores += u64::from(access.kind != AccessKind::Read);
            }
            let category = insn.category();
            let counts = Counts {
                instructions: times,
                loads: loads * times,
                stores: stores * times,
                branches: u64::from(category == Category::Branch) * times,
                calls: u64::from(category == Category::Call) * times,
            };
            self.total.add(counts);
            *self.categories.entry(category).or_default() += times;
            let (example, sum) = self.mnemonics.entry(insn.opcode()).or_default();
            (*example, *sum) = (Some(insn), *sum + times);
            self.places.entry(Place { process, pc: unit.steps[step].pc }).or_default().add(counts);
        }
    }

    fn report(self, locate: &dyn Locate) -> Report {
        let parts = |level| {
            let places = self.places.iter().map(|(place, counts)| (*place, *counts));
            let groups = group(places, locate, level, Counts::add);
            let mut parts: Vec<_> =
                groups.into_iter().map(|(location, counts)| Part { location, counts }).collect();
            parts.sort_by_key(|part| Reverse(part.counts.instructions));
            parts
        };
        let sorted = |mut sorts: Vec<Sort>| {
            sorts.sort_by_key(|sort| Reverse(sort.instructions));
            sorts
        };
        let categories = self.categories.iter();
        let mnemonics = self.mnemonics.values();
        Report {
            total: self.total,
            categories: sorted(
                categories.map(|(c, &instructions)| Sort { name: c.to_string(), instructions }).collect(),
            ),
            mnemonics: sorted(
                mnemonics
                    .filter_map(|(insn, instructions)| {
                        Some(Sort { name: insn.as_ref()?.mnemonic(), instructions: *instructions })
                    })
                    .collect(),
            ),
            modules: parts(Level::Module),
            functions: parts(Level::Function),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Program, run};

    #[test]
    fn of_a_loop() {
        // mov eax, [rdi]; add [rsi], eax; dec ecx; jne: the third exit of the time is another way.
        let program = Program::new(&[(0x1000, &[0x8b, 0x07, 0x01, 0x06, 0xff, 0xc9, 0x75, 0xf8])]);
        let mut thread = program.thread();
        for _ in 0..10 {
            thread.run(0, &[(0, 0x2000, 4, AccessKind::Read), (1, 0x3000, 4, AccessKind::Update)]);
        }
        thread.stop(0, 1, &[(0, 0x2000, 4, AccessKind::Read)]);
        let report = run(Mix::default(), &program, &[thread]);
        let total = Counts { instructions: 41, loads: 21, stores: 10, branches: 10, calls: 0 };
        assert_eq!(report.total, total);
        let sorts: Vec<_> = report.categories.iter().map(|s| (s.name.as_str(), s.instructions)).collect();
        assert_eq!(sorts, [("arithmetic", 20), ("move", 11), ("branch", 10)]);
        let names: Vec<_> = report.mnemonics.iter().map(|s| (s.name.as_str(), s.instructions)).collect();
        assert_eq!(names, [("mov", 11), ("add", 10), ("dec", 10), ("jne", 10)]);
    }
}
