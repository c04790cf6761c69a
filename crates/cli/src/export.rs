//! `relive export`: profiles for other tools.

use crate::console::say;
use crate::measured::{Answers, Files};
use crate::output::{grouped, write_to};
use crate::progress::{Phase, Progress};
use crate::{profiles, sequence};
use anyhow::{Context as _, Result, bail};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args as ClapArgs, builder::TypedValueParser as _};
use relive_interchange::ExportError;
use relive_interchange::export::{Exporter, FORMATS, Summary};
use relive_profile::model::Profile;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
EXAMPLES:
  relive export app.rprof --format bolt-fdata -o app.fdata
  llvm-bolt app -data=app.fdata -o app.bolt -reorder-blocks=ext-tsp -reorder-functions=cdsort
      BOLT lays out the code of app by what it did (link app with -Wl,--emit-relocs)
  relive export app.rprof --format bolt-fdata --least 1e-7 -o app.fdata
      the same without what hardly ever ran, which BOLT would put among what is hot
  relive export run.rprof --format bolt-fdata --module libfoo.so -o libfoo.fdata
      one library of a run
  relive export app.rprof --format callgrind -o callgrind.out.app
  kcachegrind callgrind.out.app
      functions, lines and instructions with counts, and who calls whom
  relive export app.rprof --format lcov -o app.info && genhtml app.info -o html
      which lines of the source ran
  relive analyze calls app.rtrace -o app.rcalls
  relive export app.rcalls --format flamegraph -o app.svg
      a flame graph of exact stacks, each call of the trace counted
  relive export monday.rprof tuesday.rprof --format parquet-functions -o functions.parquet
      a table for DuckDB, pandas or Spark: all functions of both

What each format can express, and what is lost, is in docs/exchange.md.

Exit status: 0 done, 2 a file cannot be read or written, or the profile does not have what the format is about.";

/// Arguments of `relive export`.
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The profile, or calls of a trace (.rcalls); several for tables (parquet-...)
    #[arg(required = true, value_name = "PROFILE")]
    profiles: Vec<PathBuf>,

    /// What to write
    #[arg(long, short, value_name = "FORMAT", value_parser = formats())]
    format: &'static dyn Exporter,

    /// Where to write it; `-` for standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Only the program or library of this path, or file name
    #[arg(long, value_name = "NAME")]
    module: Option<String>,

    /// The program that was measured, if it is not where it was
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,

    /// Leave out what ran less often than this share of all branches, as in 1e-7: BOLT takes everything for hot that ran at all. Only for its
    /// formats [default: 0, and 1e-7 for what was carried over from another build]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    least: Option<f64>,

    /// Look for separate debug files below this folder too (may be given several times)
    #[arg(long, value_name = "DIR")]
    debug_root: Vec<PathBuf>,
}

/// A share of everything.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| format!("{text} is not a share: it has to be 0 or more and less than 1, as 1e-7"))
}

/// The values of `--format`.
fn formats() -> impl clap::builder::TypedValueParser<Value = &'static dyn Exporter> {
    let values = FORMATS.iter().map(|format| PossibleValue::new(format.name()).help(format.about()));
    PossibleValuesParser::new(values)
        .map(|name| *FORMATS.iter().find(|format| format.name() == name).expect("clap takes no other value"))
}

const PHASES: &[Phase] = &[("read profile", 15), ("read files", 15), ("write", 70)];

/// Writes the profile as asked.
pub(crate) fn run(args: &Args) -> Result<()> {
    let output = Some(&*args.output).filter(|path| *path != Path::new("-"));
    let mut summary = Summary::default();
    let progress = Progress::start(PHASES);
    if output.is_none() {
        // Both may be the same terminal.
        progress.clear();
    }
    if let [path] = &args.profiles[..]
        && sequence::is_one(path)
    {
        if args.least.is_some() {
            bail!("{}: calls in their order have no counts: leave out --least", path.display());
        }
        if args.module.is_some() || args.binary.is_some() {
            bail!(
                "{}: --module and --binary are for profiles, and this is a sequence of calls",
                path.display()
            );
        }
        let calls = sequence::open(path)?;
        write_to(output, |out| {
            summary = args.format.write_calls(&calls, out).map_err(explained)?;
            Ok(())
        })
        .with_context(|| path.display().to_string())?;
        drop(progress);
        tell(args, &summary);
        return Ok(());
    }
    let mut profiles = Vec::with_capacity(args.profiles.len());
    for path in &args.profiles {
        let mut profile = profiles::open(path)?;
        if let Some(name) = &args.module {
            choose(&mut profile, name, path)?;
        }
        profiles.push((path.display().to_string(), profile));
    }
    progress.next();
    let modules = || profiles.iter().flat_map(|(_, profile)| &profile.modules);
    let carried = modules().any(|module| !module.carried.is_empty());
    let files = Files::open(modules(), args.binary.as_deref(), &args.debug_root)?;
    progress.next();
    write_to(output, |out| {
        let answers = Answers::new(&files);
        summary = match (args.least, &profiles[..]) {
            (Some(least), [(_, profile)]) => args.format.write_hot(least, profile, &answers, out),
            (Some(_), _) => bail!("--least is about one profile, not {}", profiles.len()),
            (None, _) => args.format.write_several(&profiles, &answers, out),
        }
        .map_err(explained)?;
        Ok(())
    })
    .with_context(|| given(args))?;
    drop(progress);
    if carried {
        summary.notes.push("some counts were carried over from another build, or estimated".to_string());
    }
    tell(args, &summary);
    Ok(())
}

/// The profiles, as they were given.
fn given(args: &Args) -> String {
    let paths: Vec<String> = args.profiles.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}

/// Leaves only the module that is meant.
fn choose(profile: &mut Profile, name: &str, path: &Path) -> Result<()> {
    let listed: Vec<String> = profile.modules.iter().map(|module| module.path.clone()).collect();
    profile.modules.retain(|module| {
        module.path == name || Path::new(&module.path).file_name().is_some_and(|file| file == name)
    });
    if profile.modules.is_empty() {
        bail!("{}: no module {name:?}; there are {}", path.display(), listed.join(", "));
    }
    Ok(())
}

/// Adds what to do.
fn explained(error: ExportError) -> anyhow::Error {
    let error = match error {
        // About the file that is written, not about the profile.
        ExportError::Io(error) => return error.into(),
        error => error,
    };
    let remedy = match &error {
        ExportError::OneModule { .. } => "choose one with --module",
        ExportError::Missing { .. } => {
            "if the file is not where it was measured, or was stripped, give it, or one with symbols, with --binary"
        }
        ExportError::OneProfile { .. } => "add them up with `relive merge`, or export each",
        ExportError::NoCalls { .. } => {
            "give the profile: `relive analyze profile` makes one of the same trace"
        }
        ExportError::NothingTooRare { .. } => "leave out --least",
        _ => return error.into(),
    };
    anyhow::anyhow!("{error} ({remedy})")
}

fn tell(args: &Args, summary: &Summary) {
    let written: Vec<String> =
        summary.written.iter().map(|(what, count)| format!("{} {what}", grouped(*count))).collect();
    say!("{}: {}", args.output.display(), written.join(", "));
    for note in &summary.notes {
        say!("relive: {}: {note}", given(args));
    }
}
