//! `relive evaluate`: how good a carried profile is.

mod json;
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
