//! `relive analyze hot-paths`.

use super::Asked;
use super::places::{Files, Places};
use super::table::name;
use crate::output::{grouped, percent, several};
use anyhow::Result;
use relive_analysis::hot_paths::{CountPaths, FindPaths, HotPath, Report};
use std::io::Write;

/// Arguments of `relive analyze hot-paths`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    asked: Asked,

    /// How many pieces of straight code a path may pass
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    longest: u16,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let asked = &args.asked;
    let trace = asked.open()?;
    let files = Files::open(&trace, &asked.debug_root);
    let places = Places::new(&trace, &files, asked.mangled);
    let candidates = asked.ask(&trace, FindPaths::new(args.longest.into()), &places)?;
    let report = asked.ask(&trace, CountPaths::new(candidates), &places)?;
    asked.print(&report, |report, out| print(report, asked.top, out))
}

fn print(report: &Report, top: usize, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{} instructions", grouped(report.instructions))?;
    for path in report.paths.iter().take(top) {
        let HotPath { times, instructions, is_loop, units, .. } = path;
        let what = if *is_loop { "loop" } else { "path" };
        writeln!(
            out,
            "\n{}: a {what} of {}, {}",
            percent(*instructions, report.instructions),
            several(units.iter().map(|unit| unit.instructions).sum(), "instruction"),
            several(*times, "time")
        )?;
        // What lies on the same line is told once.
        let mut names: Vec<(String, u64)> = Vec::new();
        for unit in units {
            let name = name(&unit.location);
            match names.last_mut() {
                Some((last, sum)) if *last == name => *sum += unit.instructions,
                _ => names.push((name, unit.instructions)),
            }
        }
        for (name, instructions) in names {
            writeln!(out, "  {instructions:>5}  {name}")?;
        }
    }
    Ok(())
}
