//! How much of everything there is in a trace.

use super::select::{Part, Range, Selected};
use crate::output::grouped;
use anyhow::Result;
use rayon::prelude::*;
use relive_code::isa::AccessKind;
use relive_trace::units::Unit;
use relive_trace::visit::{Ran, Visitor};
use relive_trace::{Segment, Trace};
use std::io::Write;

/// Of a segment, or several one behind the other.
#[derive(Clone, Copy)]
struct Count {
    instructions: u64,
    reads: u64,
    writes: u64,
    updates: u64,
    bytes: u64,
    /// Of the addresses of all instructions, in order, and how a hash before it counts.
    code: Hash,
    /// Of all accesses.
    data: Hash,
}

/// A hash of numbers in order. Two of them can be put together.
#[derive(Clone, Copy)]
struct Hash {
    sum: u64,
    /// How many numbers there were.
    count: u64,
}

impl Hash {
    const EMPTY: Self = Self { sum: 0, count: 0 };
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

    #[inline]
    fn add_all(&mut self, numbers: impl ExactSizeIterator<Item = u64>) {
        self.count += numbers.len() as u64;
        self.sum = numbers.fold(self.sum, |sum, number| sum.wrapping_mul(Self::MIX).wrapping_add(number));
    }

    /// How a hash counts before this one.
    fn factor(&self) -> u64 {
        let (mut factor, mut power, mut count) = (1u64, Self::MIX, self.count);
        while count > 0 {
            if count % 2 == 1 {
                factor = factor.wrapping_mul(power);
            }
            power = power.wrapping_mul(power);
            count /= 2;
        }
        factor
    }

    fn append(&mut self, next: Self) {
        self.append_by(next, next.factor());
    }

    /// The same, if the factor is known.
    #[inline]
    fn append_by(&mut self, next: Self, factor: u64) {
        self.sum = self.sum.wrapping_mul(factor).wrapping_add(next.sum);
        self.count += next.count;
    }
}

impl Count {
    const NONE: Self = Self {
        instructions: 0,
        reads: 0,
        writes: 0,
        updates: 0,
        bytes: 0,
        code: Hash::EMPTY,
        data: Hash::EMPTY,
    };

    fn append(&mut self, next: &Self) {
        self.instructions += next.instructions;
        self.reads += next.reads;
        self.writes += next.writes;
        self.updates += next.updates;
        self.bytes += next.bytes;
        self.code.append(next.code);
        self.data.append(next.data);
    }
}

struct Counting {
    range: Range,
    before: u64,
    count: Count,
    /// By unit: hashes of its first instructions, of none, one, two and so on, with their factors.
    code: Vec<Vec<(Hash, u64)>>,
}

impl Counting {
    /// The hash of the first instructions of a unit.
    fn code(&mut self, unit: &Unit, steps: usize) -> (Hash, u64) {
        let number = unit.number as usize;
        if number >= self.code.len() {
            self.code.resize_with(number + 1, Vec::new);
        }
        let known = &mut self.code[number];
        if known.is_empty() {
            let mut hash = Hash::EMPTY;
            known.push((hash, hash.factor()));
            known.extend(unit.steps.iter().map(|step| {
                hash.add_all([step.pc].into_iter());
                (hash, hash.factor())
            }));
        }
        known[steps]
    }
}

impl Visitor for Counting {
    fn ran(&mut self, ran: &Ran<'_>) {
        let Part { from, to, references } = self.range.part(self.before, ran);
        self.before += (ran.steps - ran.from) as u64;
        if from == 0 {
            let (code, factor) = self.code(ran.unit, to);
            self.count.code.append_by(code, factor);
        } else if from < to {
            self.count.code.add_all(ran.unit.steps[from..to].iter().map(|step| step.pc));
        }
        let count = &mut self.count;
        count.instructions += to.saturating_sub(from) as u64;
        for reference in references {
            match reference.kind {
                AccessKind::Read => count.reads += 1,
                AccessKind::Write => count.writes += 1,
                AccessKind::Update => count.updates += 1,
            }
            count.bytes += u64::from(reference.size);
        }
        count.data.add_all(references.iter().map(|reference| reference.address));
    }
}

/// Prints it for each thread.
pub(super) fn print(trace: &Trace, selected: &Selected, out: &mut dyn Write) -> Result<()> {
    let segments = selected.segments(trace);
    let count = |segment: &&Segment| -> Result<Count> {
        let mut counting = Counting {
            range: selected.range(segment),
            before: segment.first_instruction,
            count: Count::NONE,
            code: Vec::new(),
        };
        trace.replay(segment, &mut counting)?;
        Ok(counting.count)
    };
    let counts: Vec<Count> = segments.par_iter().map(count).collect::<Result<_>>()?;
    writeln!(
        out,
        "{:>10} {:>17} {:>15} {:>15} {:>15} {:>17} {:>16} {:>16}",
        "thread", "instructions", "reads", "writes", "both", "bytes", "code hash", "address hash"
    )?;
    let all: Vec<_> = segments.iter().zip(&counts).collect();
    for of_thread in
        all.chunk_by(|(one, _), (next, _)| (one.process, one.thread) == (next.process, next.thread))
    {
        let mut sum = Count::NONE;
        of_thread.iter().for_each(|(_, count)| sum.append(count));
        writeln!(
            out,
            "{:>10} {:>17} {:>15} {:>15} {:>15} {:>17} {:016x} {:016x}",
            of_thread[0].0.thread,
            grouped(sum.instructions),
            grouped(sum.reads),
            grouped(sum.writes),
            grouped(sum.updates),
            grouped(sum.bytes),
            sum.code.sum,
            sum.data.sum
        )?;
    }
    Ok(())
}
