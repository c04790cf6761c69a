//! Which part of a trace is asked for.

use super::Args;
use relive_trace::units::Step;
use relive_trace::visit::{Ran, Reference};
use relive_trace::{Segment, Trace};

/// Threads, and from where to where.
pub(super) struct Selected {
    threads: Vec<u32>,
    processes: Vec<u32>,
    from: u64,
    to: u64,
    pub(super) memory: bool,
}

impl Selected {
    pub(super) fn new(trace: &Trace, args: &Args) -> Self {
        let by_pid = |number: &u32| trace.pid(*number).is_some_and(|pid| args.processes.contains(&pid));
        let processes = trace.processes().filter(|number| args.processes.contains(number) || by_pid(number));
        Self {
            threads: args.threads.clone(),
            processes: if args.processes.is_empty() {
                trace.processes().collect()
            } else {
                processes.collect()
            },
            from: args.from,
            to: args.to.unwrap_or(u64::MAX),
            memory: !(args.blocks || args.instructions || args.calls),
        }
    }

    /// The segments of it: those of a thread one behind the other.
    pub(super) fn segments<'a>(&self, trace: &'a Trace) -> Vec<&'a Segment> {
        let is_in = |segment: &&Segment| {
            let end = segment.first_instruction + segment.instructions;
            self.processes.contains(&segment.process)
                && (self.threads.is_empty() || self.threads.contains(&segment.thread))
                && segment.first_instruction < self.to
                && (end > self.from || segment.instructions == 0)
        };
        let mut all: Vec<&Segment> = trace.segments().iter().filter(is_in).collect();
        all.sort_by_key(|segment| (segment.process, segment.thread, segment.number));
        all
    }

    /// Whether an instruction is in it, before which the thread has executed so many.
    pub(super) fn has(&self, before: u64) -> bool {
        (self.from..self.to).contains(&before)
    }

    /// Which of a unit's instructions and references are in it, if the thread has executed so many instructions before.
    #[inline]
    pub(super) fn part<'a>(&self, before: u64, ran: &Ran<'a>) -> Part<'a> {
        let cut = |at: u64, end: usize| {
            (at.saturating_sub(before).min((end - ran.from) as u64) as usize) + ran.from
        };
        let at = |step: usize| ran.references.partition_point(|reference| usize::from(reference.step) < step);
        // Of one more instruction, something may have been executed.
        let most = ran.steps + usize::from(ran.exit.is_none());
        let (from, to) = (cut(self.from, ran.steps), cut(self.to, ran.steps));
        let references = &ran.references[at(cut(self.from, most))..at(cut(self.to, most))];
        Part { from, to, references }
    }
}

/// A part of what a unit did.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    /// The first instruction.
    pub(super) from: usize,
    /// Behind the last.
    pub(super) to: usize,
    /// The accesses to memory. They may end with some of an instruction that is told later, or was interrupted.
    pub(super) references: &'a [Reference],
}

/// What is told in order.
pub(super) enum Told<'a> {
    Instruction(&'a Step, usize),
    Reference(&'a Reference),
}

impl Part<'_> {
    /// Tells of each instruction, and behind it of its accesses.
    pub(super) fn in_order(&self, ran: &Ran<'_>, mut tell: impl FnMut(Told<'_>)) {
        let mut references = self.references.iter().peekable();
        for number in self.from..self.to {
            tell(Told::Instruction(&ran.unit.steps[number], number));
            while let Some(reference) = references.next_if(|r| usize::from(r.step) == number) {
                tell(Told::Reference(reference));
            }
        }
        references.for_each(|reference| tell(Told::Reference(reference)));
    }
}
