//! Which part of a trace is asked for.

use super::Args;
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

    /// Which of the instructions of a unit are in it, if the thread has executed so many before.
    #[inline]
    pub(super) fn steps(&self, before: u64, steps: usize) -> (usize, usize) {
        let cut = |at: u64| at.saturating_sub(before).min(steps as u64) as usize;
        (cut(self.from), cut(self.to))
    }
}

/// The references of some of the instructions of a unit.
pub(super) fn references_of<'a>(ran: &Ran<'a>, from: usize, to: usize) -> &'a [Reference] {
    let at = |step: usize| ran.references.partition_point(|reference| usize::from(reference.step) < step);
    &ran.references[at(from)..at(to)]
}
