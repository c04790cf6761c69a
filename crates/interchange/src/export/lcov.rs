//! lcov's tracefile: what `genhtml` and many services for coverage read.
//!
//! Specification: `geninfo(1)`, section FILES. Line, function and branch records; see [`relive_profile::coverage`] for what
//! the counts are.

use super::{Exporter, Summary};
use crate::error::ExportError;
use crate::places::{Sources, plain};
use crate::surroundings::Surroundings;
use relive_image::names::demangle;
use relive_profile::coverage::{Coverage, File};
use relive_profile::model::Profile;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The format.
pub(super) struct Lcov;

impl Exporter for Lcov {
    fn name(&self) -> &'static str {
        "lcov"
    }

    fn about(&self) -> &'static str {
        "coverage of lines, functions and branches for genhtml; exact with the binary's line table"
    }

    fn write(
        &self,
        profile: &Profile,
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        let coverage = covered(profile, around, self.name())?;
        writeln!(out, "TN:")?;
        for (path, file) in &coverage.files {
            write_file(&plain(path), file, out)?;
        }
        Ok(summary(&coverage))
    }
}

fn write_file(path: &str, file: &File, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "SF:{path}")?;
    // Constructors are there several times under one name; lcov knows functions by name.
    let mut functions: BTreeMap<String, (u32, u64)> = BTreeMap::new();
    for ((line, name), count) in &file.functions {
        let (_, sum) = functions.entry(plain(&demangle(name))).or_insert((*line, 0));
        *sum = sum.saturating_add(*count);
    }
    for (name, (line, _)) in &functions {
        writeln!(out, "FN:{line},{name}")?;
    }
    for (name, (_, count)) in &functions {
        writeln!(out, "FNDA:{count},{name}")?;
    }
    writeln!(out, "FNF:{}", functions.len())?;
    writeln!(out, "FNH:{}", functions.values().filter(|(_, count)| *count > 0).count())?;
    for (line, choices) in &file.branches {
        for (number, ways) in choices.iter().enumerate() {
            for (way, taken) in ways.iter().enumerate() {
                let taken = taken.map_or_else(|| "-".to_string(), |count| count.to_string());
                writeln!(out, "BRDA:{line},{number},{way},{taken}")?;
            }
        }
    }
    let (ways, taken) = file.ways();
    writeln!(out, "BRF:{ways}\nBRH:{taken}")?;
    for (line, count) in &file.lines {
        writeln!(out, "DA:{line},{count}")?;
    }
    writeln!(out, "LF:{}\nLH:{}\nend_of_record", file.lines.len(), file.lines_hit())
}

/// Coverage, if any line is known.
pub(super) fn covered(
    profile: &Profile,
    around: &dyn Surroundings,
    format: &'static str,
) -> Result<Coverage, ExportError> {
    let coverage = Coverage::new(profile, &Sources { profile, around });
    match profile.modules.first() {
        Some(module) if coverage.files.is_empty() => Err(ExportError::Missing {
            format,
            module: module.path.clone(),
            needs: "lines of source: neither the profile nor the file has any (compile with -g)".to_string(),
        }),
        _ => Ok(coverage),
    }
}

/// What is told of coverage.
pub(super) fn summary(coverage: &Coverage) -> Summary {
    let lines = coverage.files.values().map(|file| file.lines.len() as u64).sum();
    let mut notes = Vec::new();
    for (count, what) in [
        (coverage.not_measured, "not measured, and their lines left out"),
        (
            coverage.not_described,
            "not described as they never ran, and their lines left out (measure with --all-code)",
        ),
        (coverage.without_lines, "without lines"),
    ] {
        if count > 0 {
            notes.push(format!("functions {what}: {count}"));
        }
    }
    Summary { written: vec![("files", coverage.files.len() as u64), ("lines", lines)], notes }
}
