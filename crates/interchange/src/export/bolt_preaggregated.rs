//! Branches and what ran between them, for `perf2bolt -pa`, which finds out by itself what is at each address.
//!
//! `B from to count mispredictions` is a branch, `F first last count` a stretch that ran without one, `f` one that a call came back
//! to. Of a stretch it is known how
//! often each part of it ran, not which way in goes with which way out. See `DataAggregator::parseAggregatedLBREntry` in LLVM's `bolt/lib/Profile/DataAggregator.cpp`.

use super::{Exporter, Summary};
use crate::bolt::branches::{End, How};
use crate::error::ExportError;
use crate::flow::{self, Stretch};
use crate::surroundings::Surroundings;
use relive_profile::model::Profile;
use std::collections::BTreeMap;
use std::io::Write;

/// The format.
pub(super) struct BoltPreaggregated;

impl Exporter for BoltPreaggregated {
    fn name(&self) -> &'static str {
        "bolt-preaggregated"
    }

    fn about(&self) -> &'static str {
        "branches by address, for `perf2bolt -pa`; needs the binary"
    }

    fn write_hot(
        &self,
        least: f64,
        profile: &Profile,
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        let (told, _) = super::branches(self.name(), least, profile, around)?;
        let (mut branches, mut stretches) = (0, 0);
        for (&(from, to, how), &count) in &told.branches {
            match (from, to, how) {
                // Told by the stretches.
                (.., How::Continued) => {}
                (from, End::At(to), _) => {
                    let from = match from {
                        End::At(from) => from,
                        // Nothing is at address zero.
                        End::Unknown => 0,
                    };
                    writeln!(out, "B {from:x} {to:x} {count} 0")?;
                    branches += 1;
                }
                (_, End::Unknown, _) => {}
            }
        }
        let mut all: BTreeMap<Stretch, u64> = BTreeMap::new();
        for function in &super::only_module(profile, self.name())?.functions {
            for (stretch, count) in flow::stretches(function) {
                *all.entry(stretch).or_default() += count;
            }
        }
        all.retain(|_, count| *count >= told.least);
        for (Stretch { first, last, is_behind_call }, count) in all {
            let kind = if is_behind_call { 'f' } else { 'F' };
            writeln!(out, "{kind} {first:x} {last:x} {count}")?;
            stretches += 1;
        }
        let mut summary = told.summary();
        summary.written.extend([("branches", branches), ("stretches", stretches)]);
        Ok(summary)
    }
}
