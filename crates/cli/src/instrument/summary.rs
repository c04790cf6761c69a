//! What `relive instrument` says when it is done.

use super::Args;
use crate::console::is_quiet;
use crate::output::{grouped, percent};
use anyhow::Result;
use relive_image::program::Program;
use relive_probe::describe::Fate;
use relive_rewrite::module::{Outline, Rewritten};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Prints it on standard error, since the result is a file.
pub(crate) fn print(
    args: &Args,
    output: &Path,
    program: &Program<'_>,
    outline: &Outline,
    rewritten: &Rewritten,
    pattern: &str,
    timings: &[(&'static str, Duration)],
) -> Result<()> {
    let mut out: Box<dyn Write> =
        if is_quiet() { Box::new(std::io::sink()) } else { Box::new(std::io::stderr().lock()) };
    let measured = outline.fates.iter().filter(|f| matches!(f, Fate::Measured(_))).count() as u64;
    let all = program.functions.len() as u64;
    let bytes = |only_measured: bool| -> u64 {
        let functions = program.functions.iter().zip(&outline.fates);
        functions
            .filter(|(_, fate)| !only_measured || matches!(fate, Fate::Measured(_)))
            .map(|(f, _)| f.size())
            .sum()
    };
    writeln!(out, "{} -> {}", args.binary.display(), output.display())?;
    writeln!(
        out,
        "functions {:>12}   {} measured, {} of their bytes",
        grouped(all),
        percent(measured, all),
        percent(bytes(true), bytes(false))
    )?;
    let [inc, through, spill] = rewritten.ways.map(u64::from);
    writeln!(
        out,
        "counters  {:>12}   {} one instruction, {} through a free register, {} saving one, {} told by loops",
        grouped(u64::from(outline.layout.counters)),
        grouped(inc),
        grouped(through),
        grouped(spill),
        grouped(rewritten.travelled)
    )?;
    writeln!(out, "call sites{:>12}   whose targets are recorded", grouped(u64::from(outline.layout.sites)))?;
    writeln!(out, "new code  {:>12}   bytes", grouped(rewritten.code_bytes))?;
    match &rewritten.linked {
        None => {}
        Some(Ok(())) => writeln!(out, "runtime: linked in before, nothing added")?,
        Some(Err(why)) => writeln!(out, "runtime: added; the one that was linked in is not used, {why}")?,
    }
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for fate in &outline.fates {
        if let Fate::Left(reason) = fate {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|&(reason, count)| (std::cmp::Reverse(count), reason));
    if !reasons.is_empty() {
        writeln!(out, "left as they are:")?;
    }
    for (reason, count) in reasons {
        writeln!(out, "{:>22}   {reason}", grouped(count))?;
    }
    writeln!(out, "profile: {pattern}")?;
    drop(out);
    // They were asked for.
    for (phase, time) in timings {
        eprintln!("{phase:>12} {:>8.3} s", time.as_secs_f64());
    }
    Ok(())
}
