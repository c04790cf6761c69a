//! How often units were executed, and by which exits they were left.

use crate::map::Map;
use crate::profile::Left;
use relive_trace::units::Unit;
use relive_trace::visit::{Ran, Visitor};
use std::sync::Arc;

/// Counts of the exits of all units of a process.
#[derive(Clone, Debug, Default)]
pub struct Executions {
    /// By unit: where the counts of its exits begin. Tags would not do, as a process that was forked off may have some of them twice.
    starts: Vec<u32>,
    exits: Vec<u64>,
    /// Units that were left in the middle: which, behind how many instructions, how often.
    stopped: Map<(u32, u32), u64>,
}

const NONE: u32 = u32::MAX;

impl Visitor for Executions {
    #[inline]
    fn ran(&mut self, ran: &Ran<'_>) {
        if ran.from > 0 {
            // It was not left in the middle, after all: this is the next part.
            *self.stopped.entry((ran.unit.number, ran.from as u32)).or_insert(1) -= 1;
        }
        match ran.exit {
            Some(exit) => {
                let start = match self.starts.get(ran.unit.number as usize) {
                    Some(&start) if start != NONE => start as usize,
                    _ => self.add(ran.unit.number, ran.unit.exits.len()),
                };
                self.exits[start + exit] += 1;
            }
            None => *self.stopped.entry((ran.unit.number, ran.steps as u32)).or_default() += 1,
        }
    }
}

impl Executions {
    #[cold]
    fn add(&mut self, unit: u32, exits: usize) -> usize {
        let (unit, start) = (unit as usize, self.exits.len());
        if self.starts.len() <= unit {
            self.starts.resize(unit + 1, NONE);
        }
        self.starts[unit] = start as u32;
        self.exits.resize(start + exits, 0);
        start
    }

    /// The last of so many instructions before an exit was not executed after all: a call of the kernel that was not made.
    pub(crate) fn stop_before(&mut self, Left { unit, exit }: Left, steps: u32) {
        let start = self.starts.get(unit as usize).copied().filter(|start| *start != NONE);
        let count = start.and_then(|start| self.exits.get_mut((start + exit) as usize));
        if let Some(count) = count.filter(|count| **count > 0) {
            *count -= 1;
            *self.stopped.entry((unit, steps.saturating_sub(1))).or_default() += 1;
        }
    }

    /// A unit that was left in the middle was so behind another number of instructions.
    pub(crate) fn move_stop(&mut self, unit: u32, from: u32, to: u32) {
        if let Some(count) = self.stopped.get_mut(&(unit, from)).filter(|count| **count > 0) {
            *count -= 1;
            *self.stopped.entry((unit, to)).or_default() += 1;
        }
    }

    /// Adds those of another part of the same process.
    pub fn merge(&mut self, other: &Self) {
        let mut starts: Vec<(u32, u32)> =
            other.starts.iter().copied().zip(0..).filter(|(start, _)| *start != NONE).collect();
        starts.sort_unstable();
        let ends: Vec<u32> =
            starts.iter().skip(1).map(|next| next.0).chain([other.exits.len() as u32]).collect();
        for ((from, unit), end) in starts.into_iter().zip(ends) {
            let counts = &other.exits[from as usize..end as usize];
            let start = match self.starts.get(unit as usize) {
                Some(&start) if start != NONE => start as usize,
                _ => self.add(unit, counts.len()),
            };
            self.exits[start..].iter_mut().zip(counts).for_each(|(to, from)| *to += from);
        }
        for (&key, count) in &other.stopped {
            *self.stopped.entry(key).or_default() += count;
        }
    }

    /// How often a unit was left by one of its exits.
    #[must_use]
    pub fn exit(&self, unit: &Unit, exit: usize) -> u64 {
        let start = self.starts.get(unit.number as usize).copied().filter(|start| *start != NONE);
        start.and_then(|start| self.exits.get(start as usize + exit)).copied().unwrap_or_default()
    }

    /// Where units were left in the middle: which, behind how many instructions, how often.
    pub fn stopped(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        self.stopped.iter().map(|(&(unit, steps), &count)| (unit, steps, count))
    }

    /// How often each instruction of each unit was executed, of units that were.
    pub fn steps<'a>(&'a self, units: &'a [Arc<Unit>]) -> impl Iterator<Item = (&'a Unit, Vec<u64>)> {
        let mut stopped: Map<u32, Vec<(u32, u64)>> = Map::default();
        for (unit, steps, count) in self.stopped() {
            stopped.entry(unit).or_default().push((steps, count));
        }
        units.iter().filter_map(move |unit| {
            // First how often exactly so many instructions were executed, then how often at least so many were.
            let mut counts = vec![0; unit.steps.len() + 1];
            for (number, exit) in unit.exits.iter().enumerate() {
                counts[(exit.steps as usize).min(unit.steps.len())] += self.exit(unit, number);
            }
            for &(steps, count) in stopped.get(&unit.number).into_iter().flatten() {
                counts[(steps as usize).min(unit.steps.len())] += count;
            }
            let mut sum = 0;
            for count in counts.iter_mut().rev() {
                sum += *count;
                *count = sum;
            }
            counts.remove(0);
            (sum > 0).then_some((&**unit, counts))
        })
    }
}
