//! BOLT's `fdata`: what `perf2bolt` writes and `llvm-bolt -data=` reads.
//!
//! A line is a branch: `1 function offset 1 function offset mispredictions count`, offsets in hexadecimal, or `0 [unknown] 0` for an end
//! that is in no function of the file. Ways that go on without a branch are lines too. See `DataReader::parseBranchInfo` in
//! LLVM's `bolt/lib/Profile/DataReader.cpp`.

use super::{Exporter, Summary};
use crate::bolt::branches::End;
use crate::bolt::names::Names;
use crate::error::ExportError;
use crate::surroundings::Surroundings;
use relive_profile::model::Profile;
use std::io::Write;

/// The format.
pub(super) struct BoltFdata;

impl Exporter for BoltFdata {
    fn name(&self) -> &'static str {
        "bolt-fdata"
    }

    fn about(&self) -> &'static str {
        "branches for `llvm-bolt -data=FILE`, as perf2bolt writes them; needs the binary"
    }

    fn write_hot(
        &self,
        least: f64,
        profile: &Profile,
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        let (told, names) = super::branches(self.name(), least, profile, around)?;
        let mut lines = 0;
        for (&(from, to, _), &count) in &told.branches {
            let (from, to) = (end(from, &names), end(to, &names));
            if from.is_some() || to.is_some() {
                let [from, to] = [from, to].map(|end| end.unwrap_or_else(|| "0 [unknown] 0".to_string()));
                // BOLT reads signed numbers.
                writeln!(out, "{from} {to} 0 {}", count.min(i64::MAX as u64))?;
                lines += 1;
            }
        }
        let mut summary = told.summary();
        summary.written.push(("branches", lines));
        Ok(summary)
    }
}

fn end(end: End, names: &Names) -> Option<String> {
    let End::At(address) = end else { return None };
    names.place(address).map(|place| format!("1 {} {:x}", place.name, place.offset))
}
