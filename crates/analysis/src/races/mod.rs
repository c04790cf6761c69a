//! Accesses of different threads to the same memory, one of them a write, that nothing brings in order.
//!
//! A trace is looked at twice. First, which memory serves to bring threads in order ([`FindVariables`]); then, what each access
//! knows of those before ([`Races`]: vector clocks, as in FastTrack). See `docs/analyses.md` for what brings threads in order, and for what
//! cannot be seen in a binary.
//!
//! | module | |
//! |---|---|
//! | `variables` | memory that serves to bring threads in order |
//! | `spin` | loops that wait |
//! | `atomic` | plain accesses that are meant for other threads |
//! | `kernel` | calls of the kernel that bring threads in order |
//! | `runtime` | what the C library does for itself, and what for the program |
//! | `part` | what matters of a segment |
//! | `order` | all threads, in the order of time |
//! | `clock` | what a thread knows of the others |
//! | `shadow` | who has accessed memory last |
//! | `found` | what was found |
//! | `stacks` | the calls that threads were in then |
//! | [`discipline`] | another question: whether data is accessed without its lock |

mod atomic;
mod clock;
pub mod discipline;
mod found;
mod kernel;
mod order;
mod part;
mod runtime;
mod shadow;
mod spin;
mod stacks;
mod variables;

pub use part::Part;
pub use runtime::{Function, Kind, NoRuntime, Runtime};
pub use stacks::Stacks;
pub use variables::{FindVariables, Variables};

use crate::{Analysis, Code, Locate, Location, Place, Segment};
use found::Pair;
use order::Order;
use relive_trace::units::Unit;
use runtime::Spot;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use variables::Segments;

/// The question.
pub struct Races {
    variables: BTreeMap<u32, Arc<Variables>>,
    runtime: Arc<dyn Runtime>,
    /// The first threads of all processes.
    first: BTreeMap<u32, u32>,
    processes: BTreeMap<u32, Order>,
}

impl Races {
    /// Asks, knowing what [`FindVariables`] has found, and the first thread of each process, which has the process' number.
    #[must_use]
    pub fn new(
        variables: BTreeMap<u32, Arc<Variables>>,
        first: BTreeMap<u32, u32>,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        Self { variables, runtime, first, processes: BTreeMap::new() }
    }

    /// When segments begin, by the time stamp counter: those of each thread one after the other. In this order, least has to be kept.
    pub fn beginnings(&self) -> impl FnMut(&Segment) -> u64 + use<> {
        let segments = |(&process, variables): (&u32, &Arc<Variables>)| (process, variables.segments.clone());
        let mut all: BTreeMap<u32, Segments> = self.variables.iter().map(segments).collect();
        move |segment| {
            let of_thread = all.get_mut(&segment.process).and_then(|all| all.get_mut(&segment.thread));
            of_thread.and_then(VecDeque::pop_front).map_or(0, |beginning| beginning.time)
        }
    }
}

impl Analysis for Races {
    type Part = Part;
    type Report = Report;

    fn part(&self, segment: &Segment) -> Part {
        let variables = self.variables.get(&segment.process).cloned();
        let thread = (segment.process, segment.thread);
        Part::new(thread, segment.number == 0, variables, Arc::clone(&self.runtime))
    }

    fn combine(&mut self, segment: &Segment, part: Part) {
        let order = self.processes.entry(segment.process).or_insert_with(|| {
            let variables = self.variables.get(&segment.process);
            let coming = variables.map(|variables| variables.segments.clone()).unwrap_or_default();
            Order::new(self.first.get(&segment.process).copied(), coming)
        });
        order.push(segment, part.items, &part.meanings);
        order.run(false);
    }

    fn finish(mut self, code: &dyn Code, locate: &dyn Locate) -> Report {
        let mut report = Report::default();
        for (&process, order) in &mut self.processes {
            order.run(true);
            report.is_hurried |= order.is_hurried;
            report.forgotten_pages += order.shadow.given_up;
            // The same instructions in different units are the same.
            let mut races: BTreeMap<[Sited; 2], Pair> = BTreeMap::new();
            for (&(first, second), &pair) in &order.found.races {
                let sited = |spot: u32| Sited::new(order.found.at(spot), code.units(process));
                let (mut sites, mut pair) = ([sited(first), sited(second)], pair);
                if sites[1] < sites[0] {
                    sites.reverse();
                    pair.threads.reverse();
                    pair.numbers.reverse();
                    pair.are_writes.reverse();
                }
                races.entry(sites).and_modify(|sum| sum.times += pair.times).or_insert(pair);
            }
            report.races.extend(races.into_iter().map(|(sites, pair)| {
                let side = |i: usize| {
                    let at = |pc| Place { process, pc };
                    Side {
                        thread: pair.threads[i],
                        access: if pair.are_writes[i] { Access::Write } else { Access::Read },
                        place: at(sites[i].pc),
                        location: locate.locate(at(sites[i].pc)),
                        caller: sites[i].caller.map(|pc| locate.locate(at(pc))),
                        stack: Vec::new(),
                        moment: order.moment(pair.threads[i], pair.numbers[i]),
                    }
                };
                let Pair { address, times, .. } = pair;
                let variable = locate.variable(process, address);
                Race { process, address, variable, times, sides: [side(0), side(1)] }
            }));
        }
        report.races.sort_by_key(|race| (race.process, race.address, Reverse(race.times)));
        report
    }
}

/// The addresses of an instruction and of the call that has led there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sited {
    pc: u64,
    caller: Option<u64>,
}

impl Sited {
    fn new(spot: Spot, units: &[Arc<Unit>]) -> Self {
        let pc = |unit: u32, step: u16| {
            let steps = units.get(unit as usize).map(|unit| &unit.steps);
            steps.and_then(|steps| steps.get(usize::from(step))).map_or(0, |step| step.pc)
        };
        Self { pc: pc(spot.unit, spot.step), caller: spot.caller().map(|(unit, step)| pc(unit, step)) }
    }
}

/// Whether memory is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Read.
    Read,
    /// Written.
    Write,
}

/// One of two accesses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Side {
    /// The thread, as the kernel numbers it.
    pub thread: u32,
    /// What it does.
    pub access: Access,
    /// The instruction.
    #[serde(flatten)]
    pub place: Place,
    /// The same in words.
    #[serde(flatten)]
    pub location: Location,
    /// Where the program has called the C library, if the access is in there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<Location>,
    /// The calls that the thread was in, the innermost first, if somebody has asked [`Stacks`].
    pub stack: Vec<Location>,
    /// When it happened, the first time.
    #[serde(skip)]
    pub moment: Option<Moment>,
}

/// An access that a part of the question tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// The part's segment.
    pub segment: Segment,
    /// Which of the accesses that it tells.
    pub access: u32,
}

/// Two accesses that nothing brings in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Race {
    /// The process, in the trace.
    pub process: u32,
    /// Where in memory, the first time.
    pub address: u64,
    /// What that is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variable: Option<Arc<str>>,
    /// How often the two instructions met.
    pub times: u64,
    /// The two accesses.
    pub sides: [Side; 2],
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Pairs of instructions that race, by address.
    pub races: Vec<Race>,
    /// Whether the order may be wrong, as threads were too far apart.
    pub is_hurried: bool,
    /// Pages of memory whose past was forgotten, as there was too much of it. Races there may be missing.
    pub forgotten_pages: u64,
}

#[cfg(test)]
mod tests;
