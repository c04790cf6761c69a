//! What a segment alone tells of caches: what certainly hits in the first level, and what certainly misses.
//!
//! With an empty cache at the beginning, an access to a set that is still not full is neither, as nobody knows what was there
//! before: there are at most as many of these as the cache has lines. All others are as they would be with any cache at the
//! beginning. So what is left over for the combination is what misses, and a little more.

use super::lru::{Found, Lru};
use super::{Hierarchy, What};
use crate::executions::Executions;
use crate::steps::Steps;
use relive_code::isa::AccessKind;
use relive_trace::units::Unit;
use relive_trace::visit::{Ran, Reference, Visitor};

/// What a segment tells.
pub struct Part {
    pub(super) executions: Executions,
    /// Reads and writes.
    pub(super) accesses: Steps<[u64; 2]>,
    pub(super) code: Lru,
    pub(super) data: Lru,
    /// What may not be in the first level, in order.
    pub(super) missed: Vec<Missed>,
    /// By unit: the instructions that begin in another line than the one before ends in.
    fetches: Vec<Option<Box<[Fetch]>>>,
    /// The line of the last byte of code.
    fetched: u64,
    line: u64,
}

/// An access that may miss in the first level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missed {
    pub(super) address: u64,
    pub(super) unit: u32,
    pub(super) step: u16,
    pub(super) size: u16,
    pub(super) what: What,
    /// What was found for its first and its last line.
    pub(super) found: [Found; 2],
}

#[derive(Clone, Copy)]
struct Fetch {
    step: u16,
    len: u8,
    pc: u64,
}

impl Part {
    pub(super) fn new(caches: &Hierarchy) -> Self {
        let Hierarchy { l1i, l1d, l2, ll, .. } = caches;
        let lines = [l1i.line, l1d.line, ll.line].into_iter().chain(l2.map(|l2| l2.line));
        Self {
            executions: Executions::default(),
            accesses: Steps::default(),
            code: Lru::new(*l1i),
            data: Lru::new(*l1d),
            missed: Vec::new(),
            fetches: Vec::new(),
            fetched: u64::MAX,
            line: lines.min().unwrap_or(64),
        }
    }

    /// Takes the fetches of a unit out of their place.
    fn take_fetches(&mut self, unit: &Unit) -> Box<[Fetch]> {
        let number = unit.number as usize;
        if self.fetches.len() <= number {
            self.fetches.resize(number + 1, None);
        }
        self.fetches[number].take().unwrap_or_else(|| self.find_fetches(unit))
    }

    #[cold]
    fn find_fetches(&self, unit: &Unit) -> Box<[Fetch]> {
        let mut before = u64::MAX;
        let mut fetches = Vec::new();
        for (step, number) in unit.steps.iter().zip(0..) {
            let fetch = Fetch { step: number, len: step.len.max(1), pc: step.pc };
            let (first, last) = (self.code.line(step.pc), self.code.line(fetch.last()));
            if number == 0 || first != before || last != before {
                fetches.push(fetch);
            }
            before = last;
        }
        fetches.into()
    }

    fn fetch(&mut self, unit: u32, fetch: &Fetch) {
        let (first, last) = (self.code.line(fetch.pc), self.code.line(fetch.last()));
        if first == self.fetched && last == self.fetched {
            return;
        }
        self.fetched = last;
        let found = touch(&mut self.code, fetch.pc, fetch.len.into());
        if found != [Found::Hit; 2] {
            let (address, size, step) = (fetch.pc, fetch.len.into(), fetch.step);
            self.missed.push(Missed { address, unit, step, size, what: What::Code, found });
        }
    }

    fn access(&mut self, unit: &Unit, reference: &Reference) {
        let what = match reference.kind {
            // What is written where it has just been read is there.
            AccessKind::Read | AccessKind::Update => What::Read,
            AccessKind::Write => What::Write,
        };
        let count = &mut self.accesses.of(unit)[usize::from(reference.step)][what as usize];
        let mut address = reference.address;
        let mut left = u64::from(reference.size);
        while left > 0 {
            // What is longer than a line counts as several accesses.
            let size = if left <= self.line { left } else { self.line - address % self.line } as u16;
            *count += 1;
            let found = touch(&mut self.data, address, size);
            if found != [Found::Hit; 2] {
                let (unit, step) = (unit.number, reference.step);
                self.missed.push(Missed { address, unit, step, size, what, found });
            }
            address = address.wrapping_add(size.into());
            left -= u64::from(size);
        }
    }
}

impl Fetch {
    /// The last byte of the instruction.
    fn last(&self) -> u64 {
        self.pc.saturating_add(u64::from(self.len) - 1)
    }
}

/// Uses the lines that an access is in: two at most.
#[inline]
pub(super) fn touch(cache: &mut Lru, address: u64, size: u16) -> [Found; 2] {
    let (first, last) = (cache.line(address), cache.line(address.saturating_add(u64::from(size) - 1)));
    let found = cache.touch(first);
    if first == last { [found; 2] } else { [found, cache.touch(last)] }
}

impl Visitor for Part {
    fn ran(&mut self, ran: &Ran<'_>) {
        self.executions.ran(ran);
        self.accesses.of(ran.unit);
        let number = ran.unit.number;
        let fetches = self.take_fetches(ran.unit);
        let before = |step: usize| fetches.iter().take_while(|fetch| usize::from(fetch.step) < step).count();
        let mut to_come = fetches[before(ran.from)..before(ran.steps)].iter().peekable();
        for reference in ran.references {
            while let Some(fetch) = to_come.next_if(|fetch| fetch.step <= reference.step) {
                self.fetch(number, fetch);
            }
            self.access(ran.unit, reference);
        }
        to_come.for_each(|fetch| self.fetch(number, fetch));
        self.fetches[number as usize] = Some(fetches);
    }
}
