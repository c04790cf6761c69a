//! Numbers for every instruction of every unit, in one flat table.

use relive_trace::units::Unit;
use std::sync::Arc;

/// A `T` for every instruction of the units that were seen.
#[derive(Clone, Debug)]
pub struct Steps<T> {
    /// By unit: where its instructions begin.
    starts: Vec<u32>,
    all: Vec<T>,
}

const NONE: u32 = u32::MAX;

impl<T> Default for Steps<T> {
    fn default() -> Self {
        Self { starts: Vec::new(), all: Vec::new() }
    }
}

impl<T: Clone + Default> Steps<T> {
    /// Those of a unit.
    #[inline]
    pub fn of(&mut self, unit: &Unit) -> &mut [T] {
        let start = match self.starts.get(unit.number as usize) {
            Some(&start) if start != NONE => start as usize,
            _ => self.add(unit.number, unit.steps.len()),
        };
        &mut self.all[start..start + unit.steps.len()]
    }

    #[cold]
    fn add(&mut self, unit: u32, len: usize) -> usize {
        let (unit, start) = (unit as usize, self.all.len());
        if self.starts.len() <= unit {
            self.starts.resize(unit + 1, NONE);
        }
        self.starts[unit] = start as u32;
        self.all.resize(start + len, T::default());
        start
    }

    /// Whether a unit has been seen.
    #[inline]
    #[must_use]
    pub fn has(&self, unit: &Unit) -> bool {
        self.starts.get(unit.number as usize).is_some_and(|&start| start != NONE)
    }

    /// The number at a place, by the number of the unit, which has been seen.
    #[inline]
    pub fn at(&mut self, unit: u32, step: u16) -> &mut T {
        &mut self.all[self.starts[unit as usize] as usize + usize::from(step)]
    }

    /// Adds those of another table of the same process.
    pub fn merge<O: Clone + Default>(&mut self, other: &Steps<O>, mut add: impl FnMut(&mut T, &O)) {
        for (unit, slice) in other.units() {
            let start = match self.starts.get(unit as usize) {
                Some(&start) if start != NONE => start as usize,
                _ => self.add(unit, slice.len()),
            };
            self.all[start..start + slice.len()].iter_mut().zip(slice).for_each(|(to, from)| add(to, from));
        }
    }

    /// The same instructions with nothing.
    #[must_use]
    pub fn same(&self) -> Steps<()> {
        Steps { starts: self.starts.clone(), all: vec![(); self.all.len()] }
    }

    /// The numbers of the units that were seen.
    fn units(&self) -> impl Iterator<Item = (u32, &[T])> {
        let mut order: Vec<(u32, u32)> =
            self.starts.iter().zip(0..).filter(|(start, _)| **start != NONE).map(|(&s, u)| (s, u)).collect();
        order.sort_unstable();
        let ends: Vec<u32> = order.iter().skip(1).map(|o| o.0).chain([self.all.len() as u32]).collect();
        order
            .into_iter()
            .zip(ends)
            .map(|((start, unit), end)| (unit, &self.all[start as usize..end as usize]))
    }

    /// What every instruction has, and where it is.
    pub fn by_pc<'a>(&'a self, units: &'a [Arc<Unit>]) -> impl Iterator<Item = (u64, &'a T)> {
        self.units().flat_map(move |(unit, slice)| {
            let steps = units.get(unit as usize).map_or(&[][..], |unit| &unit.steps);
            steps.iter().map(|step| step.pc).zip(slice)
        })
    }
}
