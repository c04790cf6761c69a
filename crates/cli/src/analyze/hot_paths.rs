//! `relive analyze hot-paths`.

use super::table::name;
use super::{Asked, Of};
use crate::output::{grouped, percent, several};
use crate::traced::Traced;
use anyhow::Result;
use relive_analysis::Analysis as _;
use relive_analysis::hot_paths::{CountPaths, FindPaths, HotPath, Report};
use relive_analysis::place::Addresses;
use relive_trace::Trace;
use std::io::Write;

const EXAMPLES: &str = "\
EXAMPLES:
  relive analyze hot-paths app.rtrace
      the ways through the program that are taken most
  relive analyze hot-paths app.rtrace --longest 8 --top 20
      short ones only";

/// Arguments of `relive analyze hot-paths`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked,

    /// How many pieces of straight code a path may pass
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    longest: u16,
}

impl Args {
    pub(super) fn of(&self) -> &Of {
        &self.asked.of
    }
}

pub(super) fn run(args: &Args, trace: &Trace) -> Result<()> {
    let asked = &args.asked;
    let traced = Traced::of_file(trace);
    let mut paths = FindPaths::new(args.longest.into());
    asked.of.ask(trace, &mut paths)?;
    let mut counts = CountPaths::new(paths.finish(&traced, &Addresses));
    asked.of.ask(trace, &mut counts)?;
    asked.answer("hot-paths", counts, &traced, |report, out| print(report, asked.top, out))
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
