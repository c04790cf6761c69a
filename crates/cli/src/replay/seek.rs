//! Finds places in a trace: where threads enter functions.
//!
//! Each segment lists the code that is executed in it. Only if a function is there, the segment is replayed.

use crate::functions::Functions;
use anyhow::{Result, bail};
use relive_trace::process::Process;
use relive_trace::visit::{Ran, Visitor};
use relive_trace::{Segment, Trace};
use std::collections::HashMap;

/// A place in each thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// Behind so many instructions.
    Instruction(u64),
    /// Where a function of that name is entered.
    Function(String),
}

/// A number, or the name of a function.
pub(super) fn point(text: &str) -> Result<Point, String> {
    if text.is_empty() {
        return Err("neither a number nor the name of a function".to_string());
    }
    let number = text.replace(['_', ','], "").parse();
    Ok(number.map_or_else(|_| Point::Function(text.to_string()), Point::Instruction))
}

/// Where a function begins, by process and unit: with which of its instructions.
pub(super) struct Place(HashMap<u32, HashMap<u32, usize>>);

impl Place {
    /// Looks for a function in all code that was executed.
    pub(super) fn of(trace: &Trace, name: &str, functions: &mut Functions) -> Result<Self> {
        let mut all = HashMap::new();
        for number in trace.processes() {
            let units = beginning(trace.process(number)?, name, functions);
            if !units.is_empty() {
                all.insert(number, units);
            }
        }
        if all.is_empty() {
            bail!("no function {name} was executed (`relive replay --calls` tells the names)");
        }
        Ok(Self(all))
    }

    /// How many instructions a thread has executed where it next comes there, having executed so many already; none if it
    /// does not. These are its segments, in order.
    pub(super) fn next(&self, trace: &Trace, segments: &[&Segment], before: u64) -> Result<Option<u64>> {
        for segment in segments {
            let Some(units) = self.0.get(&segment.process) else { return Ok(None) };
            if segment.first_instruction + segment.instructions <= before
                || !trace.executed(segment)?.iter().any(|unit| units.contains_key(unit))
            {
                continue;
            }
            let mut seeking = Seeking { units, before, here: segment.first_instruction, found: None };
            trace.replay_control(segment, &mut seeking)?;
            if seeking.found.is_some() {
                return Ok(seeking.found);
            }
        }
        Ok(None)
    }
}

/// The units in which a function of that name begins.
fn beginning(process: &Process, name: &str, functions: &mut Functions) -> HashMap<u32, usize> {
    let units = process.units.all().iter();
    let begins = units.filter_map(|unit| {
        let step = unit.steps.iter().position(|step| functions.begins(process, unit, step.pc, name));
        Some((unit.number, step?))
    });
    begins.collect()
}

struct Seeking<'a> {
    units: &'a HashMap<u32, usize>,
    before: u64,
    here: u64,
    found: Option<u64>,
}

impl Visitor for Seeking<'_> {
    fn ran(&mut self, ran: &Ran<'_>) {
        if self.found.is_none()
            && let Some(&step) = self.units.get(&ran.unit.number)
            && (ran.from..ran.steps).contains(&step)
        {
            let there = self.here + (step - ran.from) as u64;
            self.found = Some(there).filter(|&there| there >= self.before);
        }
        self.here += (ran.steps - ran.from) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::{Point, point};

    #[test]
    fn points() {
        assert_eq!(point("1_000,000"), Ok(Point::Instruction(1_000_000)));
        assert_eq!(point("main"), Ok(Point::Function("main".into())));
        assert!(point("").is_err());
    }
}
