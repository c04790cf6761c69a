//! BOLT's `fdata`: what `perf2bolt` writes and `llvm-bolt -data=` reads.
//!
//! A line is a branch: `1 function offset 1 function offset mispredictions count`, offsets in hexadecimal, or `0 [unknown] 0` for an end
//! that is in no function of the file. Ways that go on without a branch are lines too. See `DataReader::parseBranchInfo` in
//! LLVM's `bolt/lib/Profile/DataReader.cpp`.

use super::{Exporter, Summary, only_module};
use crate::bolt::branches::{End, collect};
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

    fn write(
        &self,
        profile: &Profile,
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        let module = only_module(profile, self.name())?;
        let missing = |needs: &str| ExportError::Missing {
            format: self.name(),
            module: module.path.clone(),
            needs: needs.to_string(),
        };
        let symbols = around.symbols(module).filter(|symbols| !symbols.is_empty()).ok_or_else(|| {
            missing("the symbol table of the measured file: BOLT tells functions apart by it")
        })?;
        let names = Names::new(&symbols);
        let told = collect(module, &names);
        if told.branches.is_empty() {
            return Err(missing("counts: nothing of it ran"));
        }
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
        let mut summary =
            Summary { written: vec![("functions", told.functions), ("branches", lines)], notes: Vec::new() };
        if told.unknown > 0 {
            summary.notes.push(format!(
                "{} functions that ran have no symbol, and BOLT no name for them",
                told.unknown
            ));
        }
        if told.without_code > 0 {
            summary.notes.push(format!(
                "of {} functions that ran the profile does not hold the code",
                told.without_code
            ));
        }
        Ok(summary)
    }
}

fn end(end: End, names: &Names) -> Option<String> {
    let End::At(address) = end else { return None };
    names.place(address).map(|place| format!("1 {} {:x}", place.name, place.offset))
}
