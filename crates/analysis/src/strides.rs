//! By how much the address of each load and store moves from one time to the next.
//!
//! An access is told by its instruction and by which of the instruction's accesses it is. Each thread has its own last
//! address; strides of all threads are counted together. Of each access the most frequent strides are kept
//! (`summary`): exactly if there are few, otherwise with a bound on what is missing.

mod summary;

pub use summary::{MOST, Summary};

use crate::except::{Except, Ranges};
use crate::map::Map;
use crate::steps::Steps;
use crate::{Analysis, Code, Locate, Location, Place, Segment};
use relive_code::isa::{AccessKind, EffectsReader};
use relive_trace::units::Unit;
use relive_trace::visit::{Ran, Reference, Visitor};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An access of an instruction: its address, and which of its accesses.
type Key = (u64, u32);

/// The question.
#[derive(Default)]
pub struct Strides {
    except: Except,
    accesses: BTreeMap<(u32, Key), Sum>,
    /// The last address of each thread.
    last: Map<(u32, u32, Key), u64>,
}

#[derive(Default)]
struct Sum {
    loads: u64,
    stores: u64,
    summary: Summary,
}

/// Stands for an access that is not looked at.
const SKIPPED: u32 = u32::MAX;

impl Strides {
    /// Asks for all but what some code does.
    #[must_use]
    pub fn except(except: Except) -> Self {
        Self { except, ..Self::default() }
    }
}

/// What a segment tells.
#[derive(Default)]
pub struct Part {
    /// Code that is not looked at.
    except: Arc<Ranges>,
    /// For every instruction, its first access.
    first: Steps<u32>,
    /// Accesses that are not the first of their instruction.
    others: Map<Key, u32>,
    by_pc: Map<u64, u32>,
    accesses: Vec<Walk>,
    /// How many accesses instructions have that were seen to have several.
    several: Map<u64, u32>,
    effects: EffectsReader,
}

/// One access, as far as it came.
struct Walk {
    key: Key,
    first: u64,
    last: u64,
    loads: u64,
    stores: u64,
    summary: Summary,
}

impl Part {
    /// Makes places for the accesses of a unit. 0 stands for none.
    #[cold]
    fn add(&mut self, unit: &Unit) {
        for (number, step) in self.first.of(unit).iter_mut().zip(&unit.steps) {
            if self.except.has(step.pc) {
                *number = SKIPPED;
                continue;
            }
            *number = *self.by_pc.entry(step.pc).or_insert_with(|| {
                self.accesses.push(Walk::new((step.pc, 0)));
                self.accesses.len() as u32 - 1
            });
        }
    }

    /// The access that is not the first of its instruction.
    #[cold]
    fn other(&mut self, unit: &Unit, step: u16, ordinal: u32) -> Option<usize> {
        let pc = unit.steps[usize::from(step)].pc;
        let count = *self.several.entry(pc).or_insert_with(|| {
            let insn = unit.decode(step.into());
            insn.map_or(1, |insn| self.effects.accesses(&insn).len().max(1) as u32)
        });
        // What repeats itself takes turns.
        match ordinal % count {
            0 => None,
            which => Some(*self.others.entry((pc, which)).or_insert_with(|| {
                self.accesses.push(Walk::new((pc, which)));
                self.accesses.len() as u32 - 1
            }) as usize),
        }
    }
}

impl Visitor for Part {
    fn ran(&mut self, ran: &Ran<'_>) {
        if !self.first.has(ran.unit) {
            self.add(ran.unit);
        }
        let mut before = (u16::MAX, 0);
        for reference in ran.references {
            if *self.first.at(ran.unit.number, reference.step) == SKIPPED {
                continue;
            }
            let ordinal = if reference.step == before.0 { before.1 + 1 } else { 0 };
            before = (reference.step, ordinal);
            let other = if ordinal > 0 { self.other(ran.unit, reference.step, ordinal) } else { None };
            let index = other.unwrap_or_else(|| *self.first.at(ran.unit.number, reference.step) as usize);
            self.accesses[index].add(reference);
        }
    }
}

impl Walk {
    fn new(key: Key) -> Self {
        Self { key, first: 0, last: 0, loads: 0, stores: 0, summary: Summary::default() }
    }

    #[inline]
    fn add(&mut self, reference: &Reference) {
        if self.loads + self.stores == 0 {
            self.first = reference.address;
        } else {
            self.summary.add(reference.address.wrapping_sub(self.last).cast_signed());
        }
        self.last = reference.address;
        match reference.kind {
            AccessKind::Read => self.loads += 1,
            AccessKind::Write | AccessKind::Update => self.stores += 1,
        }
    }
}

impl Analysis for Strides {
    type Part = Part;
    type Report = Report;

    fn part(&self, segment: &Segment) -> Part {
        Part { except: self.except.of(segment.process), ..Part::default() }
    }

    fn combine(&mut self, segment: &Segment, part: Part) {
        for walk in part.accesses.iter().filter(|walk| walk.loads + walk.stores > 0) {
            let sum = self.accesses.entry((segment.process, walk.key)).or_default();
            sum.loads += walk.loads;
            sum.stores += walk.stores;
            sum.summary.merge(&walk.summary);
            if let Some(last) = self.last.insert((segment.process, segment.thread, walk.key), walk.last) {
                sum.summary.add(walk.first.wrapping_sub(last).cast_signed());
            }
        }
    }

    fn finish(self, _: &dyn Code, locate: &dyn Locate) -> Report {
        let access = |((process, (pc, which)), sum): (_, Sum)| {
            let place = Place { process, pc };
            let strides = sum.summary.strides();
            Access {
                place,
                location: locate.locate(place),
                access: which,
                loads: sum.loads,
                stores: sum.stores,
                pattern: sum.summary.pattern(),
                strides,
                others: sum.summary.others(),
            }
        };
        let mut accesses: Vec<_> = self.accesses.into_iter().map(access).collect();
        accesses.sort_by_key(|access| Reverse(access.loads + access.stores));
        let mut patterns: BTreeMap<Pattern, Accesses> = BTreeMap::new();
        for access in &accesses {
            let sum = patterns.entry(access.pattern).or_default();
            sum.instructions += 1;
            sum.times += access.loads + access.stores;
        }
        let patterns = patterns.into_iter().map(|(pattern, accesses)| (pattern.name(), accesses)).collect();
        Report { patterns, accesses }
    }
}

/// How an access moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// It happened once.
    Once,
    /// Always the same address.
    Same,
    /// One stride nine times in ten.
    Constant,
    /// Four strides at most, nine times in ten.
    Few,
    /// Anything else.
    Irregular,
}

impl Pattern {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Same => "same",
            Self::Constant => "constant",
            Self::Few => "few",
            Self::Irregular => "irregular",
        }
    }
}

/// So many accesses of instructions, and how often they happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Accesses {
    /// How many.
    pub instructions: u64,
    /// How often, all together.
    pub times: u64,
}

/// A stride and how often it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stride {
    /// Bytes.
    pub bytes: i64,
    /// How often; at least, if there were strides that are not listed.
    pub times: u64,
}

/// What is known of an access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Access {
    /// The instruction.
    #[serde(flatten)]
    pub place: Place,
    /// The same in words.
    #[serde(flatten)]
    pub location: Location,
    /// Which of its accesses, from 0.
    pub access: u32,
    /// How often it read.
    pub loads: u64,
    /// How often it wrote.
    pub stores: u64,
    /// How it moves.
    pub pattern: Pattern,
    /// The most frequent strides, the most frequent first.
    pub strides: Vec<Stride>,
    /// How many strides are not among these.
    pub others: u64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How many accesses move how.
    pub patterns: BTreeMap<&'static str, Accesses>,
    /// Every access, the most frequent first.
    pub accesses: Vec<Access>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Program, run_cut};

    #[test]
    fn of_an_array_a_variable_and_a_copy() {
        // mov eax, [rdi]; inc [rsi]; movsb
        let program = Program::new(&[(0x1000, &[0x8b, 0x07, 0xff, 0x06, 0xa4]), (0x1000, &[0x8b, 0x07])]);
        let mut thread = program.thread();
        for i in 0..100 {
            thread.run(
                0,
                &[
                    (0, 0x2000 + 16 * i, 4, AccessKind::Read),
                    (1, 0x1000, 4, AccessKind::Update),
                    (2, 0x5000 - i, 1, AccessKind::Read),
                    (2, 0x6000 + i * i, 1, AccessKind::Write),
                ],
            );
            // The same instruction in another unit.
            thread.run(1, &[(0, 0x2008 + 16 * i, 4, AccessKind::Read)]);
        }
        for len in [1, 3, 64, 1000] {
            let report = run_cut(Strides::default(), &program, std::slice::from_ref(&thread), len);
            let found: Vec<_> = report
                .accesses
                .iter()
                .map(|a| (a.place.pc, a.access, a.loads, a.stores, a.pattern, a.strides[0]))
                .collect();
            let stride = |bytes, times| Stride { bytes, times };
            assert_eq!(found[0], (0x1000, 0, 200, 0, Pattern::Constant, stride(8, 199)));
            assert_eq!(found[1], (0x1002, 0, 0, 100, Pattern::Same, stride(0, 99)));
            assert_eq!(found[2], (0x1004, 0, 100, 0, Pattern::Constant, stride(-1, 99)));
            assert_eq!((found[3].1, found[3].3, found[3].4), (1, 100, Pattern::Irregular));
        }
    }
}
