//! Programs and threads for the tests, made by hand.

use crate::{Analysis, Code, Segment, place::Addresses};
use relive_abi::engine::{CODE, TRACED};
use relive_abi::trace::FIRST_TAG;
use relive_code::isa::AccessKind;
use relive_trace::units::{Kind, Unit, Units};
use relive_trace::visit::{Event, Ran, Reference, Stamp, Visitor};
use std::sync::Arc;

/// A process with units of one piece each, which have two exits: both at the end.
pub(crate) struct Program(Units);

/// The number, address, size and kind of an access.
pub(crate) type Access = (u16, u64, u32, AccessKind);

/// What a thread does.
pub(crate) struct Thread<'p> {
    program: &'p Program,
    pub(crate) thread: u32,
    did: Vec<Did>,
}

#[derive(Clone)]
enum Did {
    Ran { unit: usize, steps: usize, exit: Option<usize>, references: Vec<Reference>, stamps: Vec<Stamp> },
    Event(Event),
}

impl Program {
    pub(crate) fn new(code: &[(u64, &[u8])]) -> Self {
        let mut units = Units::new(Kind { memory: true, order: true, ..Kind::default() });
        for (i, (start, bytes)) in code.iter().enumerate() {
            let mut body = Vec::new();
            let words = [FIRST_TAG + 2 * i as u32, 1 | 2 << 16, 0, 0];
            words.iter().for_each(|word: &u32| body.extend(word.to_le_bytes()));
            [*start, start + bytes.len() as u64].iter().for_each(|word| body.extend(word.to_le_bytes()));
            for to in [*start, 0] {
                body.extend(to.to_le_bytes());
                body.extend([0; 8]);
            }
            units.add(TRACED, &body);
            units.add(CODE, bytes);
        }
        Self(units)
    }

    pub(crate) fn thread(&self) -> Thread<'_> {
        self.numbered_thread(1)
    }

    pub(crate) fn numbered_thread(&self, thread: u32) -> Thread<'_> {
        Thread { program: self, thread, did: Vec::new() }
    }
}

impl Code for Program {
    fn units(&self, _: u32) -> &[Arc<Unit>] {
        self.0.all()
    }
}

impl Thread<'_> {
    /// Executes a unit to its end.
    pub(crate) fn run(&mut self, unit: usize, accesses: &[Access]) {
        let steps = self.program.0.all()[unit].steps.len();
        self.push(unit, steps, Some(0), accesses);
    }

    /// Executes a unit to its end, without an access, and leaves it by one of its exits: by the second, to a computed place.
    pub(crate) fn run_to(&mut self, unit: usize, exit: usize) {
        let steps = self.program.0.all()[unit].steps.len();
        self.push(unit, steps, Some(exit), &[]);
    }

    /// Executes the first instructions of a unit.
    pub(crate) fn stop(&mut self, unit: usize, steps: usize, accesses: &[Access]) {
        self.push(unit, steps, None, accesses);
    }

    fn push(&mut self, unit: usize, steps: usize, exit: Option<usize>, accesses: &[Access]) {
        let reference =
            |&(step, address, size, kind): &Access| Reference { address, size, step, kind, is_locked: false };
        let references = accesses.iter().map(reference).collect();
        self.did.push(Did::Ran { unit, steps, exit, references, stamps: Vec::new() });
    }

    /// Executes a unit of one locked instruction.
    pub(crate) fn run_locked(&mut self, unit: usize, address: u64, before: u64, after: u64) {
        let (size, kind) = (4, AccessKind::Update);
        let references = vec![Reference { address, size, step: 0, kind, is_locked: true }];
        let stamps = vec![Stamp { step: 0, before, after }];
        self.did.push(Did::Ran { unit, steps: 1, exit: Some(0), references, stamps });
    }

    /// Something else happens.
    pub(crate) fn event(&mut self, event: Event) {
        self.did.push(Did::Event(event));
    }

    fn tell(&self, did: &[Did], visitor: &mut impl Visitor) {
        for did in did {
            match did {
                Did::Event(event) => visitor.event(event),
                Did::Ran { unit, steps, exit, references, stamps } => visitor.ran(&Ran {
                    unit: &self.program.0.all()[*unit],
                    from: 0,
                    steps: *steps,
                    exit: *exit,
                    references,
                    stamps,
                }),
            }
        }
    }

    fn instructions(did: &[Did]) -> u64 {
        did.iter().map(|did| if let Did::Ran { steps, .. } = did { *steps as u64 } else { 0 }).sum()
    }
}

/// The answer to a question, each thread being one segment.
pub(crate) fn run<A: Analysis>(analysis: A, program: &Program, threads: &[Thread<'_>]) -> A::Report {
    run_cut(analysis, program, threads, usize::MAX)
}

/// The same, in segments of so many executions.
pub(crate) fn run_cut<A: Analysis>(
    mut analysis: A,
    program: &Program,
    threads: &[Thread<'_>],
    len: usize,
) -> A::Report {
    for thread in threads {
        let mut instruction = 0;
        let parts: Vec<_> = thread
            .did
            .chunks(len.min(thread.did.len().max(1)))
            .zip(0..)
            .map(|(did, number)| {
                let segment = Segment { process: 7, thread: thread.thread, number, instruction };
                instruction += Thread::instructions(did);
                let mut part = analysis.part(&segment);
                thread.tell(did, &mut part);
                (segment, part)
            })
            .collect();
        parts.into_iter().for_each(|(segment, part)| analysis.combine(&segment, part));
    }
    analysis.finish(program, &Addresses)
}
