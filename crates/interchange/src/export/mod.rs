//! Formats that are written.

mod bolt_fdata;
mod bolt_preaggregated;
mod bolt_yaml;
mod callgrind;
mod cobertura;
mod drcov;
mod firefox;
mod flamegraph;
mod folded;
mod lcov;
mod llvm_sample;
mod parquet;
mod pprof;
mod speedscope;
mod tables;

use crate::bolt::branches::{Told, collect};
use crate::bolt::names::Names;
use crate::error::ExportError;
use crate::surroundings::Surroundings;
use relive_profile::model::{Count, Module, Profile};
use relive_sequence::Sequence;
use std::io::Write;

/// A format that profiles can be written in.
pub trait Exporter: Sync {
    /// What it is called on the command line.
    fn name(&self) -> &'static str;

    /// Who reads it, in a line.
    fn about(&self) -> &'static str;

    /// Writes `profile`. Formats that have [`Exporter::write_hot`] need not have this, and leave out what is usual.
    ///
    /// # Errors
    /// If the profile does not have what the format is about, or it cannot be written.
    fn write(
        &self,
        profile: &Profile,
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        self.write_hot(usual_least(self.name(), profile), profile, around, out)
    }

    /// Writes `profile` without what ran less often than this share of all branches, for who takes everything for hot that ran at all.
    ///
    /// # Errors
    /// As [`Exporter::write`]; and if the format is for others.
    fn write_hot(
        &self,
        least: f64,
        profile: &Profile,
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        let _ = (least, profile, around, out);
        Err(ExportError::NothingTooRare { format: self.name() })
    }

    /// Writes several profiles, each with what it is called.
    ///
    /// # Errors
    /// As [`Exporter::write`]; and if the format is about one profile.
    fn write_several(
        &self,
        profiles: &[(String, Profile)],
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        match profiles {
            [(_, profile)] => self.write(profile, around, out),
            _ => Err(ExportError::OneProfile { format: self.name(), profiles: profiles.len() }),
        }
    }

    /// Writes a sequence of calls.
    ///
    /// # Errors
    /// If it cannot be written, or the format is not about calls in their order.
    fn write_calls(&self, calls: &Sequence, out: &mut dyn Write) -> Result<Summary, ExportError> {
        let _ = (calls, out);
        Err(ExportError::NoCalls { format: self.name() })
    }
}

/// All formats, as `--format` lists them.
pub const FORMATS: &[&dyn Exporter] = &[
    &bolt_fdata::BoltFdata,
    &bolt_yaml::BoltYaml,
    &bolt_preaggregated::BoltPreaggregated,
    &llvm_sample::LlvmSample,
    &callgrind::Callgrind,
    &pprof::Pprof,
    &flamegraph::Flamegraph,
    &folded::Folded,
    &speedscope::Speedscope,
    &firefox::Firefox,
    &lcov::Lcov,
    &cobertura::Cobertura,
    &drcov::Drcov,
    &parquet::Parquet(0),
    &parquet::Parquet(1),
    &parquet::Parquet(2),
    &parquet::Parquet(3),
    &parquet::Parquet(4),
];

/// What became of a profile: for people, in the order in which it is to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// What was written, and how much of it: `functions`, 12.
    pub written: Vec<(&'static str, u64)>,
    /// What could not be expressed, or was not known; each is a sentence without its full stop.
    pub notes: Vec<String>,
}

/// The module of a profile, for formats that are about one. Where there are several, what never ran is not meant, nor what is in no
/// file (`[vdso]`, `[generated]`): such formats tell of a file.
pub(crate) fn only_module<'p>(profile: &'p Profile, format: &'static str) -> Result<&'p Module, ExportError> {
    if let [module] = &profile.modules[..] {
        return Ok(module);
    }
    let mut meant = profile.modules.iter().filter(|module| !module.path.starts_with('[') && has_run(module));
    match (meant.next(), meant.next()) {
        (Some(module), None) => Ok(module),
        _ => Err(ExportError::OneModule {
            format,
            modules: profile.modules.iter().map(|module| module.path.clone()).collect(),
        }),
    }
}

fn has_run(module: &Module) -> bool {
    let ran = |count: Option<Count>| count.is_some_and(|count| count.value() > 0);
    module.functions.iter().any(|function| ran(function.entries()) || function.executed_insns() > 0)
}

/// That the old build went somewhere once in ten million branches does not mean that the new one ever does, and BOLT puts it among what is hot if it
/// is told of it: of sqlite 3.45.3, carried to 3.46.0, 188 such edges (4,976 of 286 million) cost 1.8 million jumps. Between 1e-8 and 1e-6 it matters
/// little which it is (lua, quickjs, sqlite: `benchmarks/results/bolt-loop-2026-11-19.md`).
const CARRIED_LEAST: f64 = 1e-7;

/// What is left out if nobody asks for anything: nothing that was measured.
fn usual_least(format: &'static str, profile: &Profile) -> f64 {
    let is_carried = only_module(profile, format).is_ok_and(|module| !module.carried.is_empty());
    if is_carried { CARRIED_LEAST } else { 0.0 }
}

/// The branches of a profile as BOLT wants to see them, but for those that ran less often than a share of all, and what it calls functions.
fn branches(
    format: &'static str,
    least: f64,
    profile: &Profile,
    around: &dyn Surroundings,
) -> Result<(Told, Names), ExportError> {
    let module = only_module(profile, format)?;
    let missing =
        |needs: &str| ExportError::Missing { format, module: module.path.clone(), needs: needs.to_string() };
    let symbols = around
        .symbols(module)
        .filter(|symbols| !symbols.is_empty())
        .ok_or_else(|| missing("the symbol table of the measured file: BOLT tells functions apart by it"))?;
    let names = Names::new(&symbols);
    let mut told = collect(module, around, &names);
    if told.branches.is_empty() {
        return Err(missing("counts: nothing of it ran"));
    }
    told.leave_out_below(least);
    Ok((told, names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_profile::model::{Block, Function, State, TextId};

    fn module(path: &str, count: u64) -> Module {
        let block = Block {
            address: 16,
            size: 4,
            insns: 1,
            line: None,
            is_entry: true,
            is_landing_pad: false,
            counter: None,
            count: Some(Count::measured(count)),
        };
        let function =
            Function { blocks: vec![block], ..Function::new(TextId::default(), 16, 4, State::Measured) };
        Module { path: path.to_string(), functions: vec![function], ..Module::default() }
    }

    fn meant(modules: &[(&str, u64)]) -> Option<String> {
        let modules = modules.iter().map(|&(path, count)| module(path, count)).collect();
        only_module(&Profile { modules }, "a format").ok().map(|module| module.path.clone())
    }

    #[test]
    fn only_files_that_ran_are_to_choose_from() {
        assert_eq!(meant(&[("/bin/a", 3), ("[vdso]", 5)]).as_deref(), Some("/bin/a"));
        assert_eq!(meant(&[("/lib/b", 0), ("[generated]", 5), ("/bin/a", 3)]).as_deref(), Some("/bin/a"));
        assert_eq!(meant(&[("/bin/a", 3), ("/lib/b", 1), ("[vdso]", 5)]), None);
        assert_eq!(meant(&[("/bin/a", 0), ("/lib/b", 0)]), None);
        // What was chosen is meant, whatever it is.
        assert_eq!(meant(&[("[vdso]", 5)]).as_deref(), Some("[vdso]"));
        assert_eq!(meant(&[("/bin/a", 0)]).as_deref(), Some("/bin/a"));
        assert_eq!(meant(&[]), None);
    }
}
