//! The calls that threads were in when they raced.
//!
//! Accesses are too many to keep the calls of each, and few of them race. So a trace is looked at once more when it is known which do.

use super::part::Item;
use super::{Moment, Report, Runtime, Variables};
use crate::calls::{self, Functions};
use crate::{Analysis, Code, Locate, Place, Segment};
use relive_trace::visit::{Event, Ran, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The question.
pub struct Stacks {
    report: Report,
    variables: BTreeMap<u32, Arc<Variables>>,
    runtime: Arc<dyn Runtime>,
    /// By segment: which accesses.
    wanted: BTreeMap<Segment, BTreeSet<u32>>,
    /// By thread: the last segment with such accesses.
    until: BTreeMap<(u32, u32), Segment>,
    calls: calls::stacks::Stacks,
    taken: BTreeMap<Moment, Vec<u64>>,
}

/// What a segment tells.
#[derive(Default)]
pub struct Part {
    /// The calls of a thread that matters, as long as it does.
    calls: Option<calls::Part>,
    /// The accesses of a segment that has some that matter.
    accesses: Option<super::Part>,
    wanted: BTreeSet<u32>,
    number: u32,
}

impl Stacks {
    /// Asks for the calls of what was found, knowing what [`super::Races`] has known.
    #[must_use]
    pub fn new(
        report: Report,
        variables: BTreeMap<u32, Arc<Variables>>,
        runtime: Arc<dyn Runtime>,
        code: &dyn Code,
        functions: &dyn Functions,
    ) -> Self {
        let mut wanted: BTreeMap<Segment, BTreeSet<u32>> = BTreeMap::new();
        for moment in report.races.iter().flat_map(|race| &race.sides).filter_map(|side| side.moment) {
            wanted.entry(moment.segment).or_default().insert(moment.access);
        }
        let until: BTreeMap<_, _> = wanted.keys().map(|of| ((of.process, of.thread), *of)).collect();
        let processes: BTreeSet<u32> = until.keys().map(|thread| thread.0).collect();
        let calls = calls::stacks::Stacks::new(processes.into_iter(), code, functions);
        Self { report, variables, runtime, wanted, until, calls, taken: BTreeMap::new() }
    }
}

impl Analysis for Stacks {
    type Part = Part;
    type Report = Report;

    fn part(&self, segment: &Segment) -> Part {
        if self.until.get(&(segment.process, segment.thread)).is_none_or(|last| last < segment) {
            return Part::default();
        }
        let wanted = self.wanted.get(segment).cloned().unwrap_or_default();
        let accesses = (!wanted.is_empty()).then(|| {
            let variables = self.variables.get(&segment.process).cloned();
            let thread = (segment.process, segment.thread);
            super::Part::new(thread, segment.number == 0, variables, Arc::clone(&self.runtime))
        });
        Part { calls: Some(self.calls.part(segment)), accesses, wanted, number: 0 }
    }

    fn combine(&mut self, segment: &Segment, part: Part) {
        let Some(calls) = part.calls else { return };
        let taken = &mut self.taken;
        self.calls.combine(segment, calls, &mut |access, stack| {
            taken.insert(Moment { segment: *segment, access }, stack);
        });
    }

    fn finish(mut self, _: &dyn Code, locate: &dyn Locate) -> Report {
        for race in &mut self.report.races {
            for side in &mut race.sides {
                let stack = side.moment.and_then(|moment| self.taken.get(&moment));
                let process = race.process;
                let at = |&pc: &u64| locate.locate(Place { process, pc });
                side.stack = stack.map(|stack| stack.iter().map(at).collect()).unwrap_or_default();
            }
        }
        self.report
    }
}

impl Visitor for Part {
    fn ran(&mut self, ran: &Ran<'_>) {
        let Some(calls) = &mut self.calls else { return };
        let since = calls.told();
        calls.ran(ran);
        let Some(accesses) = &mut self.accesses else { return };
        accesses.ran(ran);
        for item in accesses.items.drain(..) {
            let Item::Access { spot, .. } = item else { continue };
            if self.wanted.contains(&self.number) {
                calls.mark(since, spot.step, self.number);
            }
            self.number += 1;
        }
    }

    fn event(&mut self, event: &Event) {
        if let Some(calls) = &mut self.calls {
            calls.event(event);
        }
        if let Some(accesses) = &mut self.accesses {
            accesses.event(event);
        }
    }
}
