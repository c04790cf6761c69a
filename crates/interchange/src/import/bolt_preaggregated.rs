//! Branch stacks that were added up before BOLT sees them: what `perf2bolt -pa` reads.
//!
//! `B from to count mispredictions` is a branch, `F first last count` a stretch that ran without one (`f` where it began behind a call
//! that was not seen), `T branch first last count` a stretch and the branch that led to it. Addresses are hexadecimal, as linked,
//! with a build-id and a colon before them if they are in another file. See `DataAggregator::parseAggregatedLBREntry` in LLVM's
//! `bolt/lib/Profile/DataAggregator.cpp`.

use super::sampled::Sampled;
use super::{Evidence, Importer};
use crate::error::ImportError;
use crate::surroundings::Surroundings;
use relive_profile::model::Module;

/// The format.
pub(super) struct BoltPreaggregated;

impl Importer for BoltPreaggregated {
    fn name(&self) -> &'static str {
        "bolt-preaggregated"
    }

    fn about(&self) -> &'static str {
        "branch stacks added up, as for `perf2bolt -pa`"
    }

    fn recognises(&self, start: &str) -> bool {
        start.lines().next().is_some_and(|line| parse(line, 1).is_ok_and(|line| line.is_some()))
    }

    fn read(&self, text: &str, module: &Module, _: &dyn Surroundings) -> Result<Evidence, ImportError> {
        let mut sampled = Sampled::default();
        for (line, number) in text.lines().zip(1..) {
            match parse(line, number)? {
                Some(Line::Branch { from, to: Some(to), count }) => sampled.branch(from, to, count),
                Some(Line::Stretch { first: Some(first), last: Some(last), count }) => {
                    sampled.stretch(first, last, count);
                }
                Some(Line::Trace { from, first: Some(first), last, count }) => {
                    sampled.branch(from, first, count);
                    if let Some(last) = last {
                        sampled.stretch(first, last, count);
                    }
                }
                _ => {}
            }
        }
        super::not_nothing(sampled, Vec::new(), module)
    }
}

/// Ends that are in another file are left out.
enum Line {
    Branch { from: Option<u64>, to: Option<u64>, count: u64 },
    Stretch { first: Option<u64>, last: Option<u64>, count: u64 },
    Trace { from: Option<u64>, first: Option<u64>, last: Option<u64>, count: u64 },
}

fn parse(line: &str, number: usize) -> Result<Option<Line>, ImportError> {
    let wrong = |what: &str| ImportError::line(number, what);
    let mut fields = line.split_ascii_whitespace();
    let Some(kind) = fields.next() else { return Ok(None) };
    let mut place = || {
        let field = fields.next().ok_or_else(|| wrong("an address is missing"))?;
        let (file, address) = field.split_once(':').map_or((None, field), |(file, at)| (Some(file), at));
        let address = u64::from_str_radix(address.trim_start_matches("0x"), 16)
            .map_err(|_| wrong("an address is not a hexadecimal number"))?;
        Ok((file.is_none() && address != 0).then_some(address))
    };
    let line = match kind {
        "B" => Line::Branch { from: place()?, to: place()?, count: 0 },
        "F" | "f" => Line::Stretch { first: place()?, last: place()?, count: 0 },
        "T" => Line::Trace { from: place()?, first: place()?, last: place()?, count: 0 },
        _ => return Err(wrong("a line begins with B, F, f or T")),
    };
    let number = fields.next().and_then(|field| field.parse().ok());
    let number: u64 = number.ok_or_else(|| wrong("the count is not a number"))?;
    Ok(Some(match line {
        Line::Branch { from, to, .. } => Line::Branch { from, to, count: number },
        Line::Stretch { first, last, .. } => Line::Stretch { first, last, count: number },
        Line::Trace { from, first, last, .. } => Line::Trace { from, first, last, count: number },
    }))
}
