//! Branches and what ran between them, for `perf2bolt -pa`, which finds out by itself what is at each address.
//!
//! `B from to count mispredictions` is a branch, `F first last count` a stretch that ran without one. The former are all jumps,
//! calls and returns of unknown origin as they are; the latter are single steps from a block to the next, for it is not known
//! how they were joined. See `DataAggregator::parseAggregatedLBREntry` in LLVM's `bolt/lib/Profile/DataAggregator.cpp`.

use super::{Exporter, Summary};
use crate::bolt::branches::{End, How};
use crate::error::ExportError;
use crate::surroundings::Surroundings;
use relive_profile::model::Profile;
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

    fn write(
        &self,
        profile: &Profile,
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        let (told, _) = super::branches(self.name(), profile, around)?;
        let (mut branches, mut stretches) = (0, 0);
        for (&(from, to, how), &count) in &told.branches {
            match (from, to, how) {
                (End::At(from), End::At(to), How::Continued) => {
                    writeln!(out, "F {from:x} {to:x} {count}")?;
                    stretches += 1;
                }
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
        let mut summary = told.summary();
        summary.written.extend([("branches", branches), ("stretches", stretches)]);
        Ok(summary)
    }
}
