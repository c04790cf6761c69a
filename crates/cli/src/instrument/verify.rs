//! `relive instrument --verify`: reads the rewritten file again and checks it.

use super::Subject;
use crate::console::say;
use crate::output::{Finding, grouped};
use anyhow::{Context as _, Result};
use relive_rewrite::module::Outline;
use relive_rewrite::verify::{Report, verify};
use std::fmt::Write as _;
use std::path::Path;

/// How many findings are printed.
const SHOWN: usize = 20;

/// Checks the file at `output`.
pub(crate) fn check(subject: &Subject<'_, '_>, outline: &Outline, output: &Path) -> Result<Report> {
    let name = output.display();
    let bytes = std::fs::read(output).with_context(|| format!("cannot read {name} again to check it"))?;
    verify(subject.image, subject.program, outline, relive_runtime::IMAGE, &bytes)
        .with_context(|| format!("{name} cannot be read any more: this is a bug in relive"))
}

/// Says what was found.
pub(crate) fn print(report: &Report, output: &Path) -> Result<()> {
    if report.findings.is_empty() {
        say!(
            "verified: {} functions, {} instructions, {} counters in between",
            grouped(report.functions),
            grouped(report.insns),
            grouped(report.probes)
        );
        return Ok(());
    }
    let mut text = String::new();
    for finding in report.findings.iter().take(SHOWN) {
        writeln!(text, "{finding}")?;
    }
    if report.findings.len() > SHOWN {
        writeln!(text, "... and {} more", report.findings.len() - SHOWN)?;
    }
    eprint!("{text}");
    let count = report.findings.len();
    let name = output.display();
    let message = format!("{name}: {count} findings: do not use it; --except leaves these functions out");
    Err(Finding(message).into())
}
