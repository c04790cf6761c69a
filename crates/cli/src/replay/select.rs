//! Which part of a trace is asked for.

use super::Args;
use super::seek::{Place, Point};
use crate::functions::Functions;
use anyhow::Result;
use relive_trace::units::Step;
use relive_trace::visit::{Ran, Reference};
use relive_trace::{Segment, Trace};
use std::collections::HashMap;

/// Threads, and from where to where each.
pub(super) struct Selected {
    threads: Vec<u32>,
    processes: Vec<u32>,
    /// By process and thread, if that differs.
    ranges: HashMap<(u32, u32), Range>,
    /// For all others.
    range: Range,
    pub(super) memory: bool,
}

/// From where to where a thread is asked for: how many instructions it has executed there.
#[derive(Clone, Copy)]
pub(super) struct Range {
    from: u64,
    to: u64,
}

impl Selected {
    pub(super) fn new(trace: &Trace, args: &Args) -> Result<Self> {
        let by_pid = |number: &u32| trace.pid(*number).is_some_and(|pid| args.processes.contains(&pid));
        let processes = trace.processes().filter(|number| args.processes.contains(number) || by_pid(number));
        let number = |point: &Option<Point>| match point {
            Some(Point::Instruction(number)) => Some(*number),
            Some(Point::Function(_)) | None => None,
        };
        let mut selected = Self {
            threads: args.threads.clone(),
            processes: if args.processes.is_empty() {
                trace.processes().collect()
            } else {
                processes.collect()
            },
            ranges: HashMap::new(),
            range: Range { from: number(&args.from).unwrap_or(0), to: number(&args.to).unwrap_or(u64::MAX) },
            memory: !(args.blocks || args.instructions || args.calls),
        };
        selected.seek(trace, args)?;
        Ok(selected)
    }

    /// Finds the functions from which or to which threads are asked for.
    fn seek(&mut self, trace: &Trace, args: &Args) -> Result<()> {
        let mut functions = Functions::of(trace.modules());
        let mut place = |point: &Option<Point>| match point {
            Some(Point::Function(name)) => Place::of(trace, name, &mut functions).map(Some),
            Some(Point::Instruction(_)) | None => Ok(None),
        };
        let (from, to) = (place(&args.from)?, place(&args.to)?);
        if from.is_none() && to.is_none() {
            return Ok(());
        }
        let segments = self.segments(trace);
        for of_thread in
            segments.chunk_by(|one, next| (one.process, one.thread) == (next.process, next.thread))
        {
            let mut range = self.range;
            if let Some(from) = &from {
                range.from = from.next(trace, of_thread, 0)?.unwrap_or(u64::MAX);
            }
            if let Some(to) = to.as_ref().filter(|_| range.from < u64::MAX) {
                // Where a function is entered to begin with, it does not end.
                let begun = range.from.saturating_add(from.is_some().into());
                range.to = to.next(trace, of_thread, begun)?.unwrap_or(u64::MAX);
            }
            self.ranges.insert((of_thread[0].process, of_thread[0].thread), range);
        }
        Ok(())
    }

    /// From where to where the thread of a segment is asked for.
    pub(super) fn range(&self, segment: &Segment) -> Range {
        self.ranges.get(&(segment.process, segment.thread)).copied().unwrap_or(self.range)
    }

    /// The segments of it: those of a thread one behind the other.
    pub(super) fn segments<'a>(&self, trace: &'a Trace) -> Vec<&'a Segment> {
        let is_in = |segment: &&Segment| {
            let (end, range) = (segment.first_instruction + segment.instructions, self.range(segment));
            self.processes.contains(&segment.process)
                && (self.threads.is_empty() || self.threads.contains(&segment.thread))
                && segment.first_instruction < range.to
                && (end > range.from || segment.instructions == 0 && range.from < u64::MAX)
        };
        let mut all: Vec<&Segment> = trace.segments().iter().filter(is_in).collect();
        all.sort_by_key(|segment| (segment.process, segment.thread, segment.number));
        all
    }
}

impl Range {
    /// Whether an instruction is in it, before which the thread has executed so many.
    pub(super) fn has(&self, before: u64) -> bool {
        (self.from..self.to).contains(&before)
    }

    /// Which of a unit's instructions and references are in it, if the thread has executed so many instructions before.
    #[inline]
    pub(super) fn part<'a>(&self, before: u64, ran: &Ran<'a>) -> Part<'a> {
        // All of it, and one more instruction of which something may have been executed.
        if self.from <= before && before.saturating_add((ran.steps - ran.from) as u64) < self.to {
            return Part { from: ran.from, to: ran.steps, references: ran.references };
        }
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
