//! `relive analyze`: answers questions to a trace.

mod by_line;
mod cache;
mod calls;
mod except;
mod hot_paths;
mod html;
mod mix;
pub(crate) mod on_line;
mod places;
mod profile;
mod races;
mod reuse;
mod strides;
mod table;
mod whose;
mod working_set;

use crate::output::write_to;
use crate::progress::Progress;
use crate::traced::Traced;
use anyhow::{Context as _, Result};
use clap::{Args as ClapArgs, Subcommand};
use places::{Files, Places};
use relive_analysis::Analysis;
use relive_analysis::driver::{self, Source as _};
use relive_analysis::file::File;
use relive_trace::{About, Trace};
use serde::Serialize;
use std::borrow::Cow;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
EXAMPLES:
  relive trace -- ./app && relive analyze mix app.rtrace
      which instructions it executed, by sort, by name and by function
  relive analyze cache app.rtrace --l1d 48K,12,64 --ll 16M,16,64
      which functions and lines miss in which cache
  relive analyze cache app.rtrace --html cache.html
      the same as charts and tables, to look at in a browser; so for all questions below
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
  relive analyze calls app.rtrace && relive dump app.rcalls --sequence
      which functions call which, in order and one in the other
  relive analyze profile app.rtrace -o app.rprof && relive report app.rprof
      the profile that `relive run` would have left of the same run

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
pub(crate) enum Question {
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
    /// Which functions call which, in order and one in the other, as a file.
    Calls(calls::Args),
    /// The profile of the same run, as `relive run` leaves it.
    Profile(profile::Args),
}

/// What is asked, and where the answer goes.
#[derive(ClapArgs)]
struct Of {
    /// The trace
    // None is that which is being made.
    #[arg(required = true)]
    trace: Option<PathBuf>,

    /// Write to a file instead of standard output
    #[arg(long, short, value_name = "FILE", help_heading = "How to print")]
    output: Option<PathBuf>,

    /// How many segments to replay at once [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// What questions share whose answers are printed.
#[derive(ClapArgs)]
struct Asked {
    #[command(flatten)]
    of: Of,

    /// Print everything, not only the top, as JSON (schema: docs/analyses.md)
    #[arg(long, help_heading = "What to print")]
    json: bool,

    /// Write a page that needs nothing beside itself, to look at in a browser (docs/html-report.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "output"], help_heading = "What to print")]
    html: Option<PathBuf>,

    /// How many rows of each table to print
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "How to print")]
    top: usize,

    /// Show names as in the symbol table instead of demangled
    #[arg(long, help_heading = "How to print")]
    mangled: bool,

    /// Look for separate debug files below this folder too (may be given several times)
    #[arg(long, value_name = "DIR")]
    debug_root: Vec<PathBuf>,
}

/// A question that is answered by looking at everything once.
trait Once {
    /// Who looks.
    type Analysis: Analysis;

    /// What is asked.
    fn of(&self) -> &Of;

    /// The question, if its options make sense.
    fn analysis(&self) -> Result<Self::Analysis>;

    /// The same, of a trace whose code is known already.
    fn analysis_of(&self, _: &Traced<'_>) -> Result<Self::Analysis> {
        self.analysis()
    }

    /// Tells the answer, when everything has been looked at.
    fn answer(&self, analysis: Self::Analysis, traced: &Traced<'_>) -> Result<()>;
}

/// Answers what was asked.
pub(crate) fn run(args: &Args) -> Result<()> {
    let question = &args.question;
    question.answer(|| question.of().open())
}

impl Question {
    fn of(&self) -> &Of {
        match self {
            Self::Mix(args) => args.of(),
            Self::Strides(args) => args.of(),
            Self::WorkingSet(args) => args.of(),
            Self::Cache(args) => args.of(),
            Self::Reuse(args) => args.of(),
            Self::Races(args) => args.of(),
            Self::HotPaths(args) => args.of(),
            Self::Calls(args) => args.of(),
            Self::Profile(args) => args.of(),
        }
    }

    /// Answers it of a trace, which is not opened before its options have been looked at.
    fn answer(&self, open: impl FnOnce() -> Result<Trace>) -> Result<()> {
        match self {
            Self::Mix(args) => once(args, open),
            Self::Strides(args) => once(args, open),
            Self::WorkingSet(args) => once(args, open),
            Self::Cache(args) => once(args, open),
            Self::Reuse(args) => once(args, open),
            Self::Races(args) => races::run(args, &open()?),
            Self::HotPaths(args) => hot_paths::run(args, &open()?),
            Self::Calls(args) => calls::run(args, open),
            Self::Profile(args) => once(args, open),
        }
    }
}

/// Answers a question of a trace that is looked at once.
fn once(question: &impl Once, open: impl FnOnce() -> Result<Trace>) -> Result<()> {
    // What is asked may not make sense, whatever the trace.
    question.analysis()?;
    let trace = open()?;
    let traced = Traced::of_file(&trace);
    let mut analysis = question.analysis_of(&traced)?;
    question.of().ask(&trace, &mut analysis)?;
    question.answer(analysis, &traced)
}

impl Of {
    /// Opens the trace, or says why that cannot be done, and whether it is whole.
    fn open(&self) -> Result<Trace> {
        let name = self.name();
        let trace = Trace::open(self.trace.as_deref().unwrap_or(Path::new(""))).with_context(|| {
            format!("{name}: not a trace that can be read (give a file that `relive trace` wrote)")
        })?;
        if let Some(at) = trace.cut_at() {
            eprintln!("relive: {name} was not finished: what comes before byte {at} is looked at");
        }
        Ok(trace)
    }

    /// What is asked, for messages.
    fn name(&self) -> Cow<'_, str> {
        self.trace.as_ref().map_or("this run".into(), |trace| trace.to_string_lossy())
    }

    /// Whether a trace has what is asked for.
    fn check(&self, about: &About, analysis: &impl Analysis) -> Result<()> {
        if analysis.wants_memory() { self.check_memory(about) } else { Ok(()) }
    }

    fn check_memory(&self, about: &About) -> Result<()> {
        if !about.memory {
            anyhow::bail!(
                "{}: a trace of control flow alone (trace again without --control-flow-only)",
                self.name()
            );
        }
        Ok(())
    }

    /// Has all of a trace looked at.
    fn ask(&self, trace: &Trace, analysis: &mut impl Analysis) -> Result<()> {
        let file = self.file(trace, analysis)?;
        self.ask_file(&file, analysis)
    }

    /// All of a trace, in the order of time, as an analysis wants it.
    fn file<'t>(&self, trace: &'t Trace, analysis: &impl Analysis) -> Result<File<'t>> {
        self.check(trace.about(), analysis)?;
        File::new(trace, analysis.wants_memory()).with_context(|| self.unreadable())
    }

    fn ask_file(&self, file: &File<'_>, analysis: &mut impl Analysis) -> Result<()> {
        let progress = Progress::start(&[("replay", 1)]);
        progress.watch().begin(file.segments().len());
        let jobs =
            self.jobs.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
        let asked = driver::run(analysis, file, jobs, &mut |_| progress.watch().step());
        progress.clear();
        asked.with_context(|| self.unreadable())
    }

    fn unreadable(&self) -> String {
        format!("{}: cannot be read to its end", self.name())
    }
}

/// An answer, and what it is about.
#[derive(Serialize)]
struct Answer<R> {
    /// The files that code came from.
    builds: Vec<Build>,
    #[serde(flatten)]
    report: R,
}

#[derive(Serialize)]
struct Build {
    path: String,
    build_id: String,
}

impl Asked {
    /// Prints the answer, when everything has been looked at.
    fn answer<A: Analysis<Report: Serialize>>(
        &self,
        question: &'static str,
        analysis: A,
        traced: &Traced<'_>,
        text: impl FnOnce(&A::Report, &mut dyn Write) -> Result<()>,
    ) -> Result<()> {
        let files = Files::open(traced, &self.debug_root);
        let places = Places::new(traced, &files, self.mangled);
        let builds = traced.modules.iter().map(|module| Build {
            path: module.path.to_string_lossy().into_owned(),
            build_id: module.build_id.clone(),
        });
        let answer = Answer { builds: builds.collect(), report: analysis.finish(traced, &places) };
        self.print(question, &answer, |answer, out| text(&answer.report, out))
    }

    /// Prints an answer.
    fn print<R: Serialize>(
        &self,
        question: &'static str,
        report: &R,
        text: impl FnOnce(&R, &mut dyn Write) -> Result<()>,
    ) -> Result<()> {
        let print = |out: &mut dyn Write| match self.json {
            true => {
                serde_json::to_writer_pretty(&mut *out, report)?;
                Ok(writeln!(out)?)
            }
            false => text(report, out),
        };
        if let Some(page) = &self.html {
            return html::write(question, &self.of.name(), report, page);
        }
        if self.of.trace.is_none() && self.of.output.is_none() {
            // Standard output is that of the command.
            let mut bytes = Vec::new();
            print(&mut bytes)?;
            return Ok(std::io::stderr().write_all(&bytes)?);
        }
        write_to(self.of.output.as_deref(), print)
    }
}
