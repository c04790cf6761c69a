//! `relive evaluate`: how good a carried profile is.

mod json;
mod migration;
mod text;

use crate::output::write_to;
use crate::profiles::{self, hex};
use anyhow::{Result, bail};
use relive_migrate::evaluate::{Evaluation, Incomparable, Loss, evaluate};
use relive_profile::model::Profile;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
EXAMPLES:
  relive evaluate carried.rprof fresh.rprof
      branch prediction, coverage, overlap, and which functions cost the most
  relive evaluate monday.rprof tuesday.rprof
      two measurements of one build: how much one run differs from the next
  relive evaluate carried.rprof fresh.rprof --json | jq '.bp, .cc'
  relive evaluate merged.rprof fresh.rprof --migration plan.json --old carried.rprof
      Acc, precision, recall and F-measure of a migration (docs/migrating.md)

Exit status: 0 done, 2 a file cannot be read, is not a profile or counts nothing, or the two are of
different builds.";

/// Arguments of `relive evaluate`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The profile to judge, carried over to the build that FRESH was measured on
    carried: PathBuf,

    /// The profile to judge it by, measured on that build
    fresh: PathBuf,

    /// Judge a migration: CARRIED is what `relive merge --plan` made, by this plan
    #[arg(long, value_name = "PLAN", requires = "old", help_heading = "Migrations")]
    migration: Option<PathBuf>,

    /// With --migration: what was carried over from the old build, before anything was measured
    #[arg(long, value_name = "PROFILE", requires = "migration", help_heading = "Migrations")]
    old: Option<PathBuf>,

    /// With --migration: another profile of the same run as FRESH. Entries in which they differ have no right count. May be
    /// given several times
    #[arg(long, value_name = "PROFILE", requires = "migration", help_heading = "Migrations")]
    again: Vec<PathBuf>,

    /// With --migration: how long it takes to profile everything, in seconds
    #[arg(long, value_name = "SECONDS", requires = "migrated_time", help_heading = "Migrations")]
    full_time: Option<f64>,

    /// With --migration: how long it took this way, all that migration takes included
    #[arg(long, value_name = "SECONDS", requires = "full_time", help_heading = "Migrations")]
    migrated_time: Option<f64>,

    /// Print all figures as JSON (schema: docs/evaluate-json.md)
    #[arg(long, help_heading = "What to print")]
    json: bool,

    /// How many of the functions that cost the most to print, for each of three figures
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "What to print")]
    worst: usize,

    /// Show names as in the symbol table instead of demangled
    #[arg(long, help_heading = "How to print")]
    mangled: bool,

    /// Write to a file instead of standard output
    #[arg(long, short, value_name = "FILE", help_heading = "How to print")]
    output: Option<PathBuf>,
}

/// Compares the two and prints what was asked for.
pub(crate) fn run(args: &Args) -> Result<()> {
    if let (Some(plan), Some(old)) = (&args.migration, &args.old) {
        return migration::run(args, plan, old);
    }
    let (carried, fresh) = (profiles::open(&args.carried)?, profiles::open(&args.fresh)?);
    let found = match evaluate(&carried, &fresh) {
        Ok(found) => found,
        Err(Incomparable::OtherBuild) => bail!(
            "{}: a profile of {}, but {} is one of {} (give profiles of the same build: measure the build that the \
             first was carried over to, or carry it over to the build that was measured)",
            args.carried.display(),
            builds(&carried),
            args.fresh.display(),
            builds(&fresh)
        ),
        Err(Incomparable::EmptyCarried) => bail!("{}", nothing_counted(&args.carried)),
        Err(Incomparable::EmptyFresh) => bail!("{}", nothing_counted(&args.fresh)),
    };
    write_to(args.output.as_deref(), |out| {
        if args.json { json::print(&found, args, out) } else { text::print(&found, args, out) }
    })
}

fn nothing_counted(path: &Path) -> String {
    format!(
        "{}: no block of it has a count (run the program that `relive instrument` made, which counts blocks unless \
         --mode is functions, and give the profile that leaves)",
        path.display()
    )
}

/// Which builds a profile is of.
fn builds(profile: &Profile) -> String {
    let build = |module: &relive_profile::model::Module| {
        format!("{} (build-id {})", module.path, hex(&module.build_id))
    };
    match &*profile.modules {
        [] => "nothing".to_string(),
        modules => modules.iter().map(build).collect::<Vec<_>>().join(", "),
    }
}

/// The functions that cost the most, by each figure.
struct Worst<'p> {
    predictions: Vec<Loss<'p>>,
    blocks: Vec<Loss<'p>>,
    overlap: Vec<Loss<'p>>,
}

impl<'p> Worst<'p> {
    fn of(found: &Evaluation<'p>, most: usize) -> Self {
        Self {
            predictions: found.worst(most, |loss| loss.predictions as f64),
            blocks: found.worst(most, |loss| loss.blocks as f64),
            overlap: found.worst(most, |loss| loss.overlap),
        }
    }
}
