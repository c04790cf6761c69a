//! `relive import`: profiles of other tools.

use crate::build::{self, Reading};
use crate::console::say;
use crate::measured::{Answers, Files};
use crate::output::{grouped, percent, write_to};
use crate::progress::{Phase, Progress};
use crate::remedy::with_remedy;
use anyhow::{Context as _, Result, bail};
use clap::Args as ClapArgs;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use relive_image::loader::open_file;
use relive_interchange::ImportError;
use relive_interchange::import::{FORMATS, Importer, Placed, guess};
use relive_migrate::carry::settle_all;
use relive_profile::file;
use relive_profile::model::Profile;
use std::io::Read as _;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
EXAMPLES:
  perf record -b -o perf.data -- app
  perf script -i perf.data -F pid,ip,brstack --show-mmap-events --show-task-events > app.perf
  relive import app.perf --binary app -o app.rprof
      what perf saw in production becomes a profile
  relive migrate app.rprof --to app-2 -o app-2.rprof
  relive export app-2.rprof --format bolt-fdata -o app-2.fdata
      and goes with the next build to BOLT
  relive import perf.fdata --binary app -o app.rprof
      the same of what perf2bolt made of it

Counts of such a profile are samples: `relive dump --blocks` calls them sampled, or inferred where they follow from others.

Exit status: 0 done, 2 a file cannot be read or written, or is not about the binary.";

/// Arguments of `relive import`.
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What another tool wrote
    file: PathBuf,

    /// The program or library it is about: the build that ran
    #[arg(long, value_name = "FILE")]
    binary: PathBuf,

    /// Where the profile goes
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// What it is [default: by its content]
    #[arg(long, short, value_name = "FORMAT", value_parser = formats())]
    format: Option<&'static dyn Importer>,
}

/// The values of `--format`.
fn formats() -> impl TypedValueParser<Value = &'static dyn Importer> {
    let values = FORMATS.iter().map(|format| PossibleValue::new(format.name()).help(format.about()));
    PossibleValuesParser::new(values)
        .map(|name| *FORMATS.iter().find(|format| format.name() == name).expect("clap takes no other value"))
}

const PHASES: &[Phase] = &[("read file", 20), ("read binary", 60), ("place", 20)];

/// If less than this of what was seen is possible in the binary, it is about another build.
const LEAST: f64 = 0.5;

/// Reads the file and writes the profile.
pub(crate) fn run(args: &Args) -> Result<()> {
    let progress = Progress::start(PHASES);
    let text = read(&args.file)?;
    let name = args.file.display();
    let Some(format) = args.format.or_else(|| guess(&text)) else {
        let known: Vec<&str> = FORMATS.iter().map(|format| format.name()).collect();
        bail!("{name}: of no format that can be imported; say which with --format ({})", known.join(", "));
    };
    progress.next();
    let reading = Reading { debug_files: true, lines: true };
    let (placed, notes, module) =
        build::from_binary(&args.binary, reading, progress.watch(), |mut module, survey| {
            progress.next();
            let files = Files::one(&args.binary, &module)?;
            let evidence = format
                .read(&text, &module, &Answers::new(&files))
                .map_err(explained)
                .with_context(|| name.to_string())?;
            let (placed, known) = evidence.put(&mut module);
            for i in known {
                settle_all(&mut module.functions[i], &survey.likelihood(i));
            }
            module.runs = 1;
            Ok((placed, evidence.notes, module))
        })?;
    drop(progress);
    judge(args, placed)?;
    write_to(Some(&args.output), |out| Ok(out.write_all(&file::write(&Profile { modules: vec![module] }))?))?;
    let all = placed.seen.saturating_add(placed.impossible);
    say!(
        "{}: {}, {} functions, {} of {} branches and stretches placed ({})",
        args.output.display(),
        format.name(),
        grouped(placed.functions),
        grouped(placed.seen),
        grouped(all),
        percent(placed.seen, all)
    );
    for note in notes {
        say!("relive: {name}: {note}");
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let mut file = open_file(path).map_err(with_remedy)?;
    file.read_to_end(&mut bytes).with_context(|| format!("cannot read {}", path.display()))?;
    if bytes.is_empty() {
        bail!("{}: the file is empty; write it again", path.display());
    }
    if bytes.starts_with(b"PERFILE2") {
        bail!(
            "{}: data of perf, not text; give what `perf script -F pid,ip,brstack --show-mmap-events --show-task-events -i {}` prints",
            path.display(),
            path.display()
        );
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Adds what to do.
fn explained(error: ImportError) -> anyhow::Error {
    let remedy = match &error {
        ImportError::Malformed { .. } => "is it complete, and of the format? --format names another",
        ImportError::Missing { .. } => "give a binary that was not stripped",
        _ => return error.into(),
    };
    anyhow::anyhow!("{error} ({remedy})")
}

/// Refuses what is about another build.
fn judge(args: &Args, placed: Placed) -> Result<()> {
    let all = placed.seen.saturating_add(placed.impossible);
    if (placed.seen as f64) < LEAST * all as f64 || placed.functions == 0 {
        bail!(
            "{}: only {} of what was seen is possible in {}: is it the build that ran?",
            args.file.display(),
            percent(placed.seen, all.max(1)),
            args.binary.display()
        );
    }
    Ok(())
}
