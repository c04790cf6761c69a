//! How much other memory is touched before the same memory is touched again: for each instruction that does.
//!
//! The distance of a touch is how many distinct blocks, of the size that is asked for, were touched since the same block was last.
//! A cache that keeps the blocks used last and has room for more than the distance would have had it. Distances are exact, and
//! told by powers of two.
//!
//! A segment by itself knows the distance of all touches but the first of each block. The combination finds those, as it knows in which
//! order blocks were touched before (Niu et al., "PARDA: A Fast Parallel Reuse Distance Analysis Algorithm").

mod stack;

use crate::cache::Sharing;
use crate::except::Except;
use crate::place::group;
use crate::steps::Steps;
use crate::{Analysis, Code, Level, Locate, Location, Place, Segment};
use relive_trace::visit::{Ran, Visitor};
use serde::Serialize;
use stack::Stack;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// As a power of two, how many bytes a block has.
    pub block_bits: u32,
    /// Whether threads of a process count for each other.
    pub sharing: Sharing,
}

/// The question.
pub struct Reuse {
    settings: Settings,
    except: Except,
    stacks: BTreeMap<(u32, u32), Stack>,
    places: BTreeMap<u32, Table>,
}

/// How many distances: 0, 1, 2 to 3, 4 to 7, ….
const BUCKETS: usize = 40;

/// Counts of distances, the last one of touches of what was never touched before.
type Counts = [u64; BUCKETS + 1];

const EMPTY: Counts = [0; BUCKETS + 1];

fn bucket(distance: u64) -> usize {
    (64 - distance.leading_zeros() as usize).min(BUCKETS - 1)
}

/// Counts for those instructions that touch memory.
#[derive(Default)]
struct Table {
    /// Which counts, plus one.
    steps: Steps<u32>,
    counts: Vec<Counts>,
}

impl Table {
    #[inline]
    fn at(&mut self, unit: u32, step: u16) -> &mut Counts {
        let index = self.steps.at(unit, step);
        if *index == 0 {
            self.counts.push(EMPTY);
            *index = self.counts.len() as u32;
        }
        &mut self.counts[*index as usize - 1]
    }

    fn merge(&mut self, other: &Self) {
        let counts = &mut self.counts;
        self.steps.merge(&other.steps, |to, &from| {
            if from == 0 {
                return;
            }
            if *to == 0 {
                counts.push(EMPTY);
                *to = counts.len() as u32;
            }
            add(&mut counts[*to as usize - 1], &other.counts[from as usize - 1]);
        });
    }
}

fn add(to: &mut Counts, from: &Counts) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

/// What a segment tells.
pub struct Part {
    block_bits: u32,
    table: Table,
    stack: Stack,
    last: u64,
    /// First touches, in order.
    firsts: Vec<First>,
}

struct First {
    block: u64,
    unit: u32,
    step: u16,
}

impl Visitor for Part {
    fn ran(&mut self, ran: &Ran<'_>) {
        if ran.references.is_empty() {
            return;
        }
        self.table.steps.of(ran.unit);
        let unit = ran.unit.number;
        for reference in ran.references {
            let end = reference.address.saturating_add(u64::from(reference.size.max(1)) - 1);
            let step = reference.step;
            for block in reference.address >> self.block_bits..=end >> self.block_bits {
                let distance = if block == self.last { Some(0) } else { self.stack.touch(block) };
                self.last = block;
                match distance {
                    Some(distance) => self.table.at(unit, step)[bucket(distance)] += 1,
                    None => self.firsts.push(First { block, unit, step }),
                }
            }
        }
    }
}

impl Reuse {
    /// Asks for it.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, except: Except::default(), stacks: BTreeMap::new(), places: BTreeMap::new() }
    }

    /// Leaves out what some code touches. It is looked at all the same, as distances of other touches depend on it.
    #[must_use]
    pub fn except(self, except: Except) -> Self {
        Self { except, ..self }
    }
}

impl Analysis for Reuse {
    type Part = Part;
    type Report = Report;

    fn part(&self, _: &Segment) -> Part {
        Part {
            block_bits: self.settings.block_bits,
            table: Table::default(),
            stack: Stack::default(),
            last: u64::MAX,
            firsts: Vec::new(),
        }
    }

    fn combine(&mut self, segment: &Segment, part: Part) {
        let owner = match self.settings.sharing {
            Sharing::Thread => segment.thread,
            Sharing::Process => 0,
        };
        let stack = self.stacks.entry((segment.process, owner)).or_default();
        let table = self.places.entry(segment.process).or_default();
        table.merge(&part.table);
        for (first, before) in part.firsts.iter().zip(0..) {
            // What is left in the stack has not been touched in this segment yet.
            let distance = stack.remove(first.block).map(|distance| distance + before);
            table.at(first.unit, first.step)[distance.map_or(BUCKETS, bucket)] += 1;
        }
        for block in part.stack.in_order() {
            stack.touch(block);
        }
    }

    fn finish(self, code: &dyn Code, locate: &dyn Locate) -> Report {
        let mut places: BTreeMap<Place, Sum> = BTreeMap::new();
        let mut total = Sum::default();
        for (&process, table) in &self.places {
            let except = self.except.of(process);
            let touching = table.steps.by_pc(code.units(process)).filter(|(_, index)| **index != 0);
            for (pc, &index) in touching.filter(|(pc, _)| !except.has(*pc)) {
                let counts = &table.counts[index as usize - 1];
                add(&mut places.entry(Place { process, pc }).or_default().0, counts);
                add(&mut total.0, counts);
            }
        }
        let rows = |level| {
            let all = places.iter().map(|(place, counts)| (*place, *counts));
            let groups = group(all, locate, level, |to: &mut Sum, from: Sum| add(&mut to.0, &from.0));
            let row = |(location, sum): (_, Sum)| Row { location, histogram: sum.histogram() };
            let mut rows: Vec<_> = groups.into_iter().map(row).collect();
            rows.sort_by_key(|row| Reverse(row.histogram.touches));
            rows
        };
        let block = 1 << self.settings.block_bits;
        let (total, functions, lines) = (total.histogram(), rows(Level::Function), rows(Level::Line));
        Report { block, total, functions, lines, instructions: rows(Level::Instruction) }
    }
}

#[derive(Clone, Copy)]
struct Sum(Counts);

impl Default for Sum {
    fn default() -> Self {
        Self(EMPTY)
    }
}

impl Sum {
    fn histogram(&self) -> Histogram {
        let used = self.0[..BUCKETS].iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        let distance = |(bucket, &count): (usize, &u64)| Distance { below: 1 << bucket, touches: count };
        Histogram {
            touches: self.0.iter().sum(),
            first: self.0[BUCKETS],
            distances: self.0[..used].iter().enumerate().map(distance).collect(),
        }
    }
}

/// How many touches have a distance between half of a number and that number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Distance {
    /// The distance, in blocks, is below this, and not below the half of it. With 1 it is 0.
    pub below: u64,
    /// How many.
    pub touches: u64,
}

/// How far apart touches of the same block are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// All of them.
    pub touches: u64,
    /// Those of blocks that were never touched before.
    pub first: u64,
    /// The others, by powers of two.
    pub distances: Vec<Distance>,
}

impl Histogram {
    /// How many touches do not find their block among so many that were touched last: a power of two.
    #[must_use]
    pub fn misses(&self, blocks: u64) -> u64 {
        let far = self.distances.iter().filter(|distance| distance.below > blocks);
        self.first + far.map(|distance| distance.touches).sum::<u64>()
    }

    /// The half of all touches that are not the first has a smaller distance than this.
    #[must_use]
    pub fn median(&self) -> Option<u64> {
        let half = (self.touches - self.first).div_ceil(2);
        let mut sum = 0;
        let found = self.distances.iter().find(|distance| {
            sum += distance.touches;
            sum >= half
        });
        found.filter(|_| half > 0).map(|distance| distance.below)
    }
}

/// A part of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Which.
    #[serde(flatten)]
    pub location: Location,
    /// Its touches.
    #[serde(flatten)]
    pub histogram: Histogram,
}

/// The answer. Lists begin with what touches most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The length of a block.
    pub block: u64,
    /// Everything together.
    pub total: Histogram,
    /// By function.
    pub functions: Vec<Row>,
    /// By line of source.
    pub lines: Vec<Row>,
    /// By instruction.
    pub instructions: Vec<Row>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Program, run_cut};
    use proptest::prelude::*;
    use relive_code::isa::AccessKind;

    proptest! {
        #[test]
        fn as_a_list_tells(
            touches in prop::collection::vec((0u64..100, 0usize..2, 1u32..40), 1..500),
            cut in 1usize..80,
        ) {
            let program = Program::new(&[(0x1000, &[0x8b, 0x07]), (0x2000, &[0x8b, 0x07])]);
            let mut thread = program.thread();
            let mut list: Vec<u64> = Vec::new();
            let mut expected = [EMPTY; 2];
            for &(touched, unit, size) in &touches {
                let address = touched * touched;
                thread.run(unit, &[(0, address, size, AccessKind::Write)]);
                for block in address / 16..=(address + u64::from(size) - 1) / 16 {
                    let at = list.iter().position(|&other| other == block);
                    expected[unit][at.map_or(BUCKETS, |at| bucket((list.len() - 1 - at) as u64))] += 1;
                    at.map(|at| list.remove(at));
                    list.push(block);
                }
            }
            let settings = Settings { block_bits: 4, sharing: Sharing::Thread };
            let report = run_cut(Reuse::new(settings), &program, &[thread], cut);
            for (expected, address) in expected.into_iter().zip([0x1000, 0x2000]) {
                let row = report.instructions.iter().find(|row| row.location.address == Some(address));
                let found = row.map(|row| row.histogram.clone()).unwrap_or_default();
                prop_assert_eq!(found, Sum(expected).histogram());
            }
        }
    }

    #[test]
    fn what_a_cache_would_miss() {
        let mut counts = EMPTY;
        (counts[0], counts[1], counts[4], counts[BUCKETS]) = (5, 3, 2, 1);
        let histogram = Sum(counts).histogram();
        assert_eq!([1, 2, 4, 8, 16].map(|blocks| histogram.misses(blocks)), [6, 3, 3, 3, 1]);
        assert_eq!((histogram.touches, histogram.median()), (11, Some(1)));
    }
}
