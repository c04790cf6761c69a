//! `relive export`: profiles for other tools.

use crate::measured::{Answers, Files};
use crate::output::{grouped, write_to};
use crate::profiles;
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
  relive export run.rprof --format bolt-fdata --module libfoo.so -o libfoo.fdata
      one library of a run

What each format can express, and what is lost, is in docs/exchange.md.

Exit status: 0 done, 2 a file cannot be read or written, or the profile does not have what the format is about.";

/// Arguments of `relive export`.
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The profile
    profile: PathBuf,

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

    /// Look for separate debug files below this folder too (may be given several times)
    #[arg(long, value_name = "DIR")]
    debug_root: Vec<PathBuf>,
}

/// The values of `--format`.
fn formats() -> impl clap::builder::TypedValueParser<Value = &'static dyn Exporter> {
    let values = FORMATS.iter().map(|format| PossibleValue::new(format.name()).help(format.about()));
    PossibleValuesParser::new(values)
        .map(|name| *FORMATS.iter().find(|format| format.name() == name).expect("clap takes no other value"))
}

/// Writes the profile as asked.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut profile = profiles::open(&args.profile)?;
    if let Some(name) = &args.module {
        choose(&mut profile, name, &args.profile)?;
    }
    let files = Files::open(profile.modules.iter(), args.binary.as_deref(), &args.debug_root)?;
    let output = Some(&*args.output).filter(|path| *path != Path::new("-"));
    let mut summary = Summary::default();
    write_to(output, |out| {
        summary = args.format.write(&profile, &Answers::new(&files), out).map_err(explained)?;
        Ok(())
    })
    .with_context(|| args.profile.display().to_string())?;
    tell(args, &summary);
    Ok(())
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
    let remedy = match &error {
        ExportError::OneModule { .. } => "choose one with --module",
        ExportError::Missing { .. } => {
            "if the file is not where it was measured, or was stripped, give it, or one with symbols, with --binary"
        }
        _ => return error.into(),
    };
    anyhow::anyhow!("{error} ({remedy})")
}

fn tell(args: &Args, summary: &Summary) {
    let written: Vec<String> =
        summary.written.iter().map(|(what, count)| format!("{} {what}", grouped(*count))).collect();
    eprintln!("{}: {}", args.output.display(), written.join(", "));
    for note in &summary.notes {
        eprintln!("relive: {}: {note}", args.profile.display());
    }
}
