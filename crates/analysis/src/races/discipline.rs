//! Whether data is accessed by somebody who does not hold its lock (Adept's detector, §6.3 of the paper).
//!
//! Whoever asks says which memory is guarded by which locks. A thread holds a lock from an instruction that takes it to one that gives it back.
//! Inside the functions of the C library it is known which is which; elsewhere, what takes a lock is a locked instruction, and what gives it back is
//! a plain store or another locked instruction.

use super::part::lock_function;
use super::runtime::{Follower, Function, Runtime, Spot, Way};
use crate::{Analysis, Code, Locate, Location, Place, Segment};
use relive_code::isa::AccessKind;
use relive_trace::visit::{Ran, Reference, Visitor};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Memory and the locks that guard it: one of them has to be held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The process, in the trace.
    pub process: u32,
    /// Where the memory begins.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// The addresses of the locks.
    pub locks: Vec<u64>,
}

/// So many bytes from its address on belong to a lock: all of `pthread_mutex_t` that changes when it is taken and given back is in the
/// first four.
const LOCK_LEN: u64 = 4;
/// Where the owner of a `pthread_mutex_t` is: it is written when the lock has been taken.
const OWNER: u64 = 8;

/// The question.
pub struct Discipline {
    guards: Arc<[Guard]>,
    runtime: Arc<dyn Runtime>,
    /// What threads hold.
    held: BTreeMap<(u32, u32), Held>,
    /// By process, guard, instruction, and whether it writes.
    found: BTreeMap<(u32, usize, Spot, bool), Without>,
    checked: u64,
}

type Held = BTreeMap<u64, State>;

/// Accesses without a lock: where the first time, how often, by whom.
type Without = (u64, u64, BTreeSet<u32>);

/// What a thread has to do with a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    /// By an instruction at this place.
    Held { unit: u32, step: u16 },
    /// Held, and about to be given back while it waits for a condition.
    Leaving,
    /// Given back while it waits, to be taken again.
    Waiting,
}

#[derive(Clone, Copy, Debug)]
enum Item {
    /// A lock is touched.
    Lock { lock: u64, is_locked: bool, is_owner: bool, function: Option<Function>, unit: u32, step: u16 },
    /// Guarded memory is.
    Access { guard: u32, address: u64, is_write: bool, spot: Spot },
}

/// What a segment tells.
pub struct Part {
    process: u32,
    guards: Arc<[Guard]>,
    runtime: Arc<dyn Runtime>,
    follower: Follower,
    way: Way,
    /// Nothing that matters is outside of this.
    reach: (u64, u64),
    items: Vec<Item>,
}

impl Discipline {
    /// Asks for accesses to guarded memory without one of its locks.
    #[must_use]
    pub fn new(guards: Vec<Guard>, runtime: Arc<dyn Runtime>) -> Self {
        Self { guards: guards.into(), runtime, held: BTreeMap::new(), found: BTreeMap::new(), checked: 0 }
    }
}

impl Part {
    fn reference(&mut self, unit: u32, reference: &Reference) {
        let &Reference { address, size, step, kind, is_locked } = reference;
        let end = address.saturating_add(size.into());
        if end <= self.reach.0 || address >= self.reach.1 {
            return;
        }
        for (number, guard) in
            self.guards.iter().enumerate().filter(|(_, guard)| guard.process == self.process)
        {
            for &lock in &guard.locks {
                let touches = |start: u64| address < start + LOCK_LEN && end > start;
                let is_owner = touches(lock + OWNER);
                if (touches(lock) || is_owner) && kind != AccessKind::Read {
                    let function = lock_function(&self.follower);
                    self.items.push(Item::Lock { lock, is_locked, is_owner, function, unit, step });
                }
            }
            if address < guard.end && end > guard.start {
                let (guard, is_write) = (number as u32, kind != AccessKind::Read);
                let spot = self.follower.spot(unit, step);
                self.items.push(Item::Access { guard, address, is_write, spot });
            }
        }
    }
}

impl Visitor for Part {
    fn ran(&mut self, ran: &Ran<'_>) {
        let unit = ran.unit;
        let runtime = Arc::clone(&self.runtime);
        self.follower.look(unit, &*runtime);
        let mut piece = unit.steps.get(ran.from).map_or(0, |step| step.piece);
        if ran.from == 0 {
            self.follower.enter(unit, piece, self.way);
        }
        for reference in ran.references {
            let now = unit.steps.get(usize::from(reference.step)).map_or(0, |step| step.piece);
            while piece < now {
                piece += 1;
                self.follower.go_on(unit, piece);
            }
            self.reference(unit.number, reference);
        }
        if let Some(last) = ran.steps.checked_sub(1) {
            self.follower.passed(unit.number, last as u16);
        }
        self.way = Follower::way(unit, ran.exit);
    }
}

impl State {
    /// What a thread has to do with a lock after it has touched it.
    fn after(self, item: &Item) -> Self {
        let &Item::Lock { is_locked, is_owner, function, unit, step, .. } = item else { return self };
        let held = Self::Held { unit, step };
        match (function, is_owner) {
            (Some(Function::Unlock), false) => Self::Free,
            (Some(Function::Unlock), true) => self,
            // Whether it was there to be had shows when the owner is written.
            (Some(Function::Mutex), true) => held,
            (Some(Function::Mutex), false) => self,
            (Some(Function::Lock), false) if is_locked => held,
            (Some(Function::Wait), true) => match self {
                Self::Held { .. } => Self::Leaving,
                _ => held,
            },
            (Some(Function::Wait), false) => match self {
                Self::Held { .. } | Self::Leaving => Self::Waiting,
                other => other,
            },
            (_, true) => self,
            // Code of the program's own.
            _ => match self {
                Self::Held { unit: by, step: at } if is_locked && (by, at) == (unit, step) => held,
                Self::Held { .. } => Self::Free,
                _ if is_locked => held,
                other => other,
            },
        }
    }
}

impl Analysis for Discipline {
    type Part = Part;
    type Report = Report;

    fn part(&self, segment: &Segment) -> Part {
        let own = self.guards.iter().filter(|guard| guard.process == segment.process);
        let bounds = own.flat_map(|guard| {
            let locks = guard.locks.iter().flat_map(|&lock| [lock, lock + OWNER + LOCK_LEN]);
            locks.chain([guard.start, guard.end])
        });
        let reach = bounds.fold((u64::MAX, 0), |(low, high), at| (low.min(at), high.max(at)));
        Part {
            process: segment.process,
            guards: Arc::clone(&self.guards),
            runtime: Arc::clone(&self.runtime),
            follower: Follower::new(segment.process),
            way: Way::Jump,
            reach,
            items: Vec::new(),
        }
    }

    fn combine(&mut self, segment: &Segment, part: Part) {
        let held = self.held.entry((segment.process, segment.thread)).or_default();
        for item in &part.items {
            match *item {
                Item::Lock { lock, .. } => {
                    let state = held.entry(lock).or_default();
                    *state = state.after(item);
                }
                Item::Access { guard, address, is_write, spot } => {
                    self.checked += 1;
                    let is_held = |lock| matches!(held.get(lock), Some(State::Held { .. }));
                    if !self.guards[guard as usize].locks.iter().any(is_held) {
                        let key = (segment.process, guard as usize, spot, is_write);
                        let (_, times, threads) =
                            self.found.entry(key).or_insert((address, 0, BTreeSet::new()));
                        *times += 1;
                        threads.insert(segment.thread);
                    }
                }
            }
        }
    }

    fn finish(self, code: &dyn Code, locate: &dyn Locate) -> Report {
        let mut accesses: Vec<Access> = Vec::new();
        for ((process, guard, spot, is_write), (address, times, threads)) in self.found {
            let sited = super::Sited::new(spot, code.units(process));
            let at = |pc| Place { process, pc };
            accesses.push(Access {
                guard,
                address,
                is_write,
                times,
                threads: threads.into_iter().collect(),
                place: at(sited.pc),
                location: locate.locate(at(sited.pc)),
                caller: sited.caller.map(|pc| locate.locate(at(pc))),
            });
        }
        accesses.sort_by_key(|access| (access.guard, Reverse(access.times)));
        Report { checked: self.checked, accesses }
    }
}

/// Accesses by one instruction to guarded memory, without a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Access {
    /// Which of the guards that were given.
    pub guard: usize,
    /// Where in memory, the first time.
    pub address: u64,
    /// Whether it writes.
    pub is_write: bool,
    /// How often.
    pub times: u64,
    /// By which threads, as the kernel numbers them.
    pub threads: Vec<u32>,
    /// The instruction.
    #[serde(flatten)]
    pub place: Place,
    /// The same in words.
    #[serde(flatten)]
    pub location: Location,
    /// Where the program has called the C library, if the access is in there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<Location>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How many accesses to guarded memory there were, with a lock and without.
    pub checked: u64,
    /// Those without.
    pub accesses: Vec<Access>,
}
