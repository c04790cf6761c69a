//! `relive analyze`: answers questions to a trace.

mod cache;
mod hot_paths;
mod mix;
mod places;
mod races;
mod reuse;
mod strides;
mod table;
mod whose;
mod working_set;

use crate::output::write_to;
use crate::progress::Progress;
use anyhow::{Context as _, Result};
use clap::{Args as ClapArgs, Subcommand};
use places::{Files, Places};
use relive_analysis::file::File;
use relive_analysis::{Analysis, driver};
use relive_trace::Trace;
use serde::Serialize;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  relive trace -- ./app && relive analyze mix app.rtrace
      which instructions it executed, by sort, by name and by function
  relive analyze cache app.rtrace --l1d 48K,12,64 --ll 16M,16,64
      which functions and lines miss in which cache
  relive analyze strides app.rtrace --top 20
      how the loads and stores that happen most move through memory
  relive analyze reuse app.rtrace --json | jq .total
      how much else is touched before the same line is touched again
  relive analyze working-set app.rtrace --window 10000000
      how much memory is in use, every ten million instructions
  relive analyze races app.rtrace
      accesses of different threads that nothing brings in order
  relive analyze hot-paths app.rtrace
      the ways through the program that are taken most

Functions and lines are told by the files that were traced, if they are still there.

Exit status: 0 done, 1 races were found, 2 the file cannot be read or is not a trace.";

/// Arguments of `relive analyze`.
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    /// What to ask.
    #[command(subcommand)]
    question: Question,
}

/// The questions.
#[derive(Subcommand)]
enum Question {
    /// Which instructions are executed, by sort, by name and by where they are.
    Mix(mix::Args),
    /// By how much the address of each load and store moves from one time to the next.
    Strides(strides::Args),
    /// How much memory is in use, over time and altogether.
    WorkingSet(working_set::Args),
    /// Which functions and lines miss in which cache.
    Cache(cache::Args),
    /// How much other memory is touched before the same memory is touched again.
    Reuse(reuse::Args),
    /// Which accesses of different threads nothing brings in order, or which are made without their lock.
    Races(races::Args),
    /// Which ways through the program are taken most.
    HotPaths(hot_paths::Args),
}

/// What all questions share.
#[derive(ClapArgs)]
struct Asked {
    /// The trace
    trace: PathBuf,

    /// Print everything, not only the top, as JSON (schema: docs/analyses.md)
    #[arg(long, help_heading = "What to print")]
    json: bool,

    /// How many rows of each table to print
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "How to print")]
    top: usize,

    /// Show names as in the symbol table instead of demangled
    #[arg(long, help_heading = "How to print")]
    mangled: bool,

    /// Write to a file instead of standard output
    #[arg(long, short, value_name = "FILE", help_heading = "How to print")]
    output: Option<PathBuf>,

    /// Look for separate debug files below this folder too (may be given several times)
    #[arg(long, value_name = "DIR")]
    debug_root: Vec<PathBuf>,

    /// How many segments to replay at once [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// Answers what was asked.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.question {
        Question::Mix(args) => mix::run(args),
        Question::Strides(args) => strides::run(args),
        Question::WorkingSet(args) => working_set::run(args),
        Question::Cache(args) => cache::run(args),
        Question::Reuse(args) => reuse::run(args),
        Question::Races(args) => races::run(args),
        Question::HotPaths(args) => hot_paths::run(args),
    }
}

impl Asked {
    /// Opens the trace, or says why that cannot be done, and whether it is whole.
    fn open(&self) -> Result<Trace> {
        let name = self.trace.display();
        let trace = Trace::open(&self.trace).with_context(|| {
            format!("{name}: not a trace that can be read (give a file that `relive trace` wrote)")
        })?;
        if let Some(at) = trace.cut_at() {
            eprintln!("relive: {name} was not finished: what comes before byte {at} is looked at");
        }
        Ok(trace)
    }

    /// The same for a question about memory.
    fn open_with_memory(&self) -> Result<Trace> {
        let trace = self.open()?;
        if !trace.about().memory {
            anyhow::bail!(
                "{}: a trace of control flow alone (trace again without --control-flow-only)",
                self.trace.display()
            );
        }
        Ok(trace)
    }

    /// Asks a trace, and prints the answer.
    fn answer<A: Analysis<Report: Serialize>>(
        &self,
        trace: &Trace,
        analysis: A,
        text: impl FnOnce(&A::Report, &mut dyn Write) -> Result<()>,
    ) -> Result<()> {
        let files = Files::open(trace, &self.debug_root);
        let places = Places::new(trace, &files, self.mangled);
        let report = self.ask(trace, analysis, &places)?;
        self.print(&report, text)
    }

    /// Asks a trace.
    fn ask<A: Analysis>(&self, trace: &Trace, mut analysis: A, places: &Places<'_>) -> Result<A::Report> {
        let unreadable = || format!("{}: cannot be read to its end", self.trace.display());
        let file = File::new(trace).with_context(unreadable)?;
        let progress = Progress::start(&[("replay", 1)]);
        progress.watch().begin(trace.segments().len());
        let jobs =
            self.jobs.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
        let asked = driver::run(&mut analysis, &file, jobs, &mut |_| progress.watch().step());
        progress.clear();
        asked.with_context(unreadable)?;
        Ok(analysis.finish(&file, places))
    }

    /// Prints an answer.
    fn print<R: Serialize>(
        &self,
        report: &R,
        text: impl FnOnce(&R, &mut dyn Write) -> Result<()>,
    ) -> Result<()> {
        write_to(self.output.as_deref(), |out| match self.json {
            true => {
                serde_json::to_writer_pretty(&mut *out, report)?;
                Ok(writeln!(out)?)
            }
            false => text(report, out),
        })
    }
}
