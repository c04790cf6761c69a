//! `relive export`: profiles for other tools.

use crate::output::{grouped, write_to};
use crate::profiles;
use crate::remedy::with_remedy;
use anyhow::{Context as _, Result, bail};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args as ClapArgs, builder::TypedValueParser as _};
use relive_image::loader::{Loaded, Options};
use relive_interchange::ExportError;
use relive_interchange::export::{Exporter, FORMATS, Summary};
use relive_interchange::surroundings::{Surroundings, Symbol};
use relive_profile::model::{Module, Profile};
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
    let files = Files::open(&profile, args.binary.as_deref(), &args.debug_root)?;
    let output = Some(&*args.output).filter(|path| *path != Path::new("-"));
    let mut summary = Summary::default();
    write_to(output, |out| {
        summary = args.format.write(&profile, &files, out).map_err(explained)?;
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

/// The files that were measured, as far as they are there.
struct Files {
    /// With the place of its module in the profile.
    loaded: Vec<(Vec<u8>, Loaded)>,
}

impl Files {
    /// Opens the files of all modules. One that was given must be that of the only module.
    fn open(profile: &Profile, given: Option<&Path>, debug_roots: &[PathBuf]) -> Result<Self> {
        let options = Options { debug_roots: debug_roots.to_vec(), ..Options::default() };
        let mut loaded = Vec::new();
        match (given, &profile.modules[..]) {
            (Some(path), [module]) => {
                let file = Loaded::open(path, &options).map_err(with_remedy)?;
                if !is_build(&file, module)? {
                    bail!("{}: not the build that was measured; give that one with --binary", path.display());
                }
                loaded.push((module.build_id.clone(), file));
            }
            (Some(_), _) => bail!("--binary is for one module: choose it with --module"),
            (None, modules) => {
                for module in modules {
                    if let Ok(file) = Loaded::open(&module.path, &options)
                        && is_build(&file, module).unwrap_or(false)
                    {
                        loaded.push((module.build_id.clone(), file));
                    }
                }
            }
        }
        Ok(Self { loaded })
    }

    fn of(&self, module: &Module) -> Option<&Loaded> {
        self.loaded.iter().find(|(build_id, _)| *build_id == module.build_id).map(|(_, file)| file)
    }
}

/// Whether the file is the one that was measured, as far as it says which build it is.
fn is_build(file: &Loaded, module: &Module) -> Result<bool> {
    let image = file.image().map_err(with_remedy).with_context(|| file.path.display().to_string())?;
    Ok(image.identity.build_id.as_ref().is_none_or(|id| *id == module.build_id))
}

impl Surroundings for Files {
    fn symbols(&self, module: &Module) -> Option<Vec<Symbol>> {
        let image = self.of(module)?.image().ok()?;
        let symbols = image.symbols.iter().filter(|symbol| symbol.defined).map(|symbol| Symbol {
            name: symbol.name.clone().into_owned(),
            address: symbol.addr.0,
            size: symbol.size,
            is_function: symbol.is_function(),
            is_global: symbol.global,
        });
        Some(symbols.collect())
    }
}
