//! Which instructions miss in which cache.
//!
//! The caches are those of cachegrind: each level is looked at if the one before does not have the line; a line that is
//! written is fetched like one that is read; the line that was not used for longest makes room. An access that lies in two
//! lines counts once, and misses if one of them does. Reading and writing the same place in one instruction counts as reading.
//!
//! Segments are looked at side by side: see [`part`](Part). The levels behind the first are in the combination.

mod lru;
mod part;
mod settings;

pub use part::Part;
pub use settings::{Geometry, GeometryError, Hierarchy, Sharing};

use crate::executions::Executions;
use crate::place::group;
use crate::steps::Steps;
use crate::{Analysis, Code, Level, Locate, Location, Place, Segment};
use lru::{Found, Lru};
use part::{Missed, touch};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What is accessed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Data is read.
    Read,
    /// Data is written.
    Write,
    /// Code is fetched.
    Code,
}

/// The question.
pub struct Cache {
    caches: Hierarchy,
    /// By process and thread; thread 0 where they are shared.
    first: BTreeMap<(u32, u32), First>,
    processes: BTreeMap<u32, Process>,
}

struct First {
    code: Lru,
    data: Lru,
    l2: Option<Lru>,
}

struct Process {
    ll: Lru,
    executions: Executions,
    accesses: Steps<[u64; 2]>,
    misses: Steps<Misses>,
}

/// How often something was not there: in the first, second and last level.
type Misses = [[u64; 3]; 3];

impl Cache {
    /// Asks for it.
    #[must_use]
    pub fn new(caches: Hierarchy) -> Self {
        Self { caches, first: BTreeMap::new(), processes: BTreeMap::new() }
    }
}

impl First {
    fn new(caches: &Hierarchy) -> Self {
        Self { code: Lru::new(caches.l1i), data: Lru::new(caches.l1d), l2: caches.l2.map(Lru::new) }
    }

    /// Whether an access misses in the first level, now that what was before is known.
    fn misses(&mut self, missed: &Missed) -> bool {
        let cache = if missed.what == What::Code { &mut self.code } else { &mut self.data };
        let ends = [missed.address, missed.address.saturating_add(u64::from(missed.size) - 1)];
        let [first, last] = ends.map(|end| cache.line(end));
        let mut is_missing = |line, found| match found {
            Found::Hit => false,
            Found::Miss => true,
            Found::Fresh => cache.touch(line) != Found::Hit,
        };
        let is_first_missing = is_missing(first, missed.found[0]);
        first != last && is_missing(last, missed.found[1]) || is_first_missing
    }
}

impl Analysis for Cache {
    type Part = Part;
    type Report = Report;

    fn part(&self, _: &Segment) -> Part {
        Part::new(&self.caches)
    }

    fn combine(&mut self, segment: &Segment, part: Part) {
        let owner = match self.caches.sharing {
            Sharing::Thread => segment.thread,
            Sharing::Process => 0,
        };
        let caches = &self.caches;
        let first = self.first.entry((segment.process, owner)).or_insert_with(|| First::new(caches));
        let process = self.processes.entry(segment.process).or_insert_with(|| Process::new(caches));
        process.executions.merge(&part.executions);
        process.accesses.merge(&part.accesses, |to, from| {
            to[0] += from[0];
            to[1] += from[1];
        });
        // So that there is a place for every instruction that misses.
        process.misses.merge(&part.accesses.same(), |_, ()| {});
        for missed in &part.missed {
            if !first.misses(missed) {
                continue;
            }
            let misses = &mut process.misses.at(missed.unit, missed.step)[missed.what as usize];
            misses[0] += 1;
            let is_absent = |cache: &mut Lru| {
                touch(cache, missed.address, missed.size).iter().any(|&found| found != Found::Hit)
            };
            if let Some(l2) = &mut first.l2 {
                if !is_absent(l2) {
                    continue;
                }
                misses[1] += 1;
            }
            misses[2] += u64::from(is_absent(&mut process.ll));
        }
        first.code.follow(&part.code);
        first.data.follow(&part.data);
    }

    fn finish(self, code: &dyn Code, locate: &dyn Locate) -> Report {
        let mut places: BTreeMap<Place, Counts> = BTreeMap::new();
        for (&id, process) in &self.processes {
            let units = code.units(id);
            let place = |pc| Place { process: id, pc };
            for (unit, counts) in process.executions.steps(units) {
                for (step, count) in unit.steps.iter().zip(counts) {
                    places.entry(place(step.pc)).or_default().code.accesses += count;
                }
            }
            for (pc, &[reads, writes]) in process.accesses.by_pc(units) {
                let counts = places.entry(place(pc)).or_default();
                counts.reads.accesses += reads;
                counts.writes.accesses += writes;
            }
            for (pc, misses) in process.misses.by_pc(units) {
                places.entry(place(pc)).or_default().add_misses(misses);
            }
        }
        places.retain(|_, counts| counts.code.accesses > 0);
        let mut total = Counts::default();
        places.values().for_each(|counts| total.add(*counts));
        let parts = |level| {
            let all = places.iter().map(|(place, counts)| (*place, *counts));
            let mut parts: Vec<_> = group(all, locate, level, Counts::add)
                .into_iter()
                .map(|(location, counts)| Row { location, counts })
                .collect();
            parts.sort_by_key(|row| Reverse(row.counts.weight()));
            parts
        };
        Report { caches: self.caches, total, functions: parts(Level::Function), lines: parts(Level::Line) }
    }
}

impl Process {
    fn new(caches: &Hierarchy) -> Self {
        Self {
            ll: Lru::new(caches.ll),
            executions: Executions::default(),
            accesses: Steps::default(),
            misses: Steps::default(),
        }
    }
}

/// How often memory was accessed in one way, and how often what was wanted was not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Access {
    /// How often.
    pub accesses: u64,
    /// Not in the first level.
    pub l1_misses: u64,
    /// Not in the second; 0 if there is none.
    pub l2_misses: u64,
    /// Not in the last.
    pub ll_misses: u64,
}

/// The same for all ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Instructions.
    pub code: Access,
    /// Reads of data.
    pub reads: Access,
    /// Writes.
    pub writes: Access,
}

impl Access {
    fn add(&mut self, other: Self) {
        self.accesses += other.accesses;
        self.l1_misses += other.l1_misses;
        self.l2_misses += other.l2_misses;
        self.ll_misses += other.ll_misses;
    }
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.code.add(other.code);
        self.reads.add(other.reads);
        self.writes.add(other.writes);
    }

    fn add_misses(&mut self, misses: &Misses) {
        for (access, what) in
            [(&mut self.reads, What::Read), (&mut self.writes, What::Write), (&mut self.code, What::Code)]
        {
            let [l1_misses, l2_misses, ll_misses] = misses[what as usize];
            access.add(Access { accesses: 0, l1_misses, l2_misses, ll_misses });
        }
    }

    /// What comes first: misses in the last level cost ten times as much as others, more or less.
    fn weight(&self) -> (u64, u64) {
        let all = [self.code, self.reads, self.writes];
        let misses = all.iter().map(|access| access.l1_misses + 10 * access.ll_misses).sum();
        (misses, self.code.accesses)
    }
}

/// A part of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Which.
    #[serde(flatten)]
    pub location: Location,
    /// What it did.
    #[serde(flatten)]
    pub counts: Counts,
}

/// The answer. Lists begin with what misses most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The caches.
    pub caches: Hierarchy,
    /// Everything together.
    pub total: Counts,
    /// By function.
    pub functions: Vec<Row>,
    /// By line of source.
    pub lines: Vec<Row>,
}

#[cfg(test)]
mod tests;
