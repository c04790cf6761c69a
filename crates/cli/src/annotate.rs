//! `relive annotate`: annotations put into a binary that was built without them, or taken out into a file of their own.

use crate::console::say;
use crate::instrument::write_program;
use crate::output::{grouped, percent, several, write_to};
use crate::remedy::with_remedy;
use anyhow::{Context as _, Result, anyhow, bail};
use relive_annotate::binary::{Derived, add, derive};
use relive_annotate::linked_file::{LinkedFileError, without_section};
use relive_annotate::object::AnnotateError;
use relive_image::annotations::format::SECTION;
use relive_image::annotations::side_file::SideFile;
use relive_image::loader::{Loaded, Options};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
EXAMPLES:
  relive annotate add app -o app.annotated
      app.annotated says of itself what `relive inspect app` finds out
  relive annotate extract app -o app.annotate --stripped app.small
      takes out what `relive cc` put in; app.small does not carry it, and is the same program

`relive cc` makes better ones: the compiler knows what no analysis can find out.

Exit status: 0 done, 2 the file cannot be read, changed or written.";

const ADD_EXAMPLES: &str = "\
EXAMPLES:
  relive annotate add app
      in its place; what is loaded stays as it is, byte for byte
  relive annotate add app -o app.annotated
  relive annotate add app --force
      for a program of which only some objects were made by `relive cc`: adds what they do not tell

Exit status: 0 done, 2 the file cannot be read, changed or written, or has annotations already.";

const EXTRACT_EXAMPLES: &str = "\
EXAMPLES:
  relive annotate extract app -o app.annotate --stripped app.small
      beside a program `app` of the same build, app.annotate is found again
  relive annotate extract app -o /usr/lib/debug/.build-id/ab/cdef0123.annotate
      so it is where debug files are, wherever the program is
  relive instrument app.small -o app.counted --annotations app.annotate

The file is described in docs/annotate-file.md.

Exit status: 0 done, 2 the file cannot be read or written, or has no annotations or no build-id.";

/// Arguments of `relive annotate`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Put annotations into a binary that was built without, as far as its code tells.
    Add(Add),
    /// Write annotations to a file of their own, which belongs to this build alone.
    Extract(Extract),
}

/// Arguments of `relive annotate add`.
#[derive(clap::Args)]
#[command(after_help = ADD_EXAMPLES)]
struct Add {
    /// The executable or shared object
    binary: PathBuf,

    /// Where the annotated file goes, if not in the place of the other
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Add to annotations that are there already: they stay, and what they do not speak of is added
    #[arg(long)]
    force: bool,
}

/// Arguments of `relive annotate extract`.
#[derive(clap::Args)]
#[command(after_help = EXTRACT_EXAMPLES)]
struct Extract {
    /// The executable or shared object
    binary: PathBuf,

    /// Where the annotations go
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Write the binary without them to this file, which may be itself
    #[arg(long, value_name = "FILE")]
    stripped: Option<PathBuf>,
}

/// Does what was asked for.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Add(args) => put_in(args),
        What::Extract(args) => take_out(args),
    }
}

fn put_in(args: &Add) -> Result<()> {
    let named = || args.binary.display().to_string();
    let mut loaded = Loaded::open(&args.binary, &Options::default()).map_err(with_remedy)?;
    // What lies beside it stays there.
    loaded.annotations = None;
    let mut image = loaded.image().map_err(with_remedy).with_context(named)?;
    let has_some = image.elf.section(SECTION).is_some_and(|section| !section.data.is_empty());
    if has_some && !args.force {
        bail!(
            "{}: it has annotations already, of {}; --force adds what they do not tell",
            named(),
            several(
                image.annotations.pieces.iter().filter(|p| p.parent.is_none()).count() as u64,
                "function"
            )
        );
    }
    let derived = derive(&mut image);
    if derived.described == 0 {
        let why = if derived.annotated > 0 {
            "all that is understood is annotated already"
        } else {
            "no function of it is understood"
        };
        bail!("{}: there is nothing to add: {why}; `relive inspect` shows what is known of it", named());
    }
    let bytes = add(&image, &derived.annotations).map_err(cannot_change).with_context(named)?;
    let output = args.output.as_deref().unwrap_or(&args.binary);
    write_program(&args.binary, &place(output), &bytes)?;
    report(&derived, output);
    Ok(())
}

fn report(derived: &Derived, output: &Path) {
    let refused = derived.refused.iter().filter(|refused| refused.function == refused.piece.start).count();
    let left = derived.not_understood + derived.guessed + derived.seeming + derived.overlapping + refused;
    let all = (derived.described + derived.annotated + left) as u64;
    let mut notes = vec![format!(
        "{} of {} described ({})",
        grouped(derived.described as u64),
        several(all, "function"),
        percent(derived.described as u64, all)
    )];
    for (count, what) in [
        (derived.annotated, "annotated already"),
        (derived.not_understood, "not understood"),
        (derived.guessed, "with a jump table whose size would be a guess"),
        (derived.seeming, "that may be data as well"),
        (derived.overlapping + refused, "that cannot be described"),
    ] {
        if count > 0 {
            notes.push(format!("{} {what}", grouped(count as u64)));
        }
    }
    say!("{}: {}", output.display(), notes.join(", "));
}

fn take_out(args: &Extract) -> Result<()> {
    let named = || args.binary.display().to_string();
    let options = Options { find_debug_file: false, ..Options::default() };
    let loaded = Loaded::open(&args.binary, &options).map_err(with_remedy)?;
    let image = loaded.image_without_annotations().map_err(with_remedy).with_context(named)?;
    let Some(section) = image.elf.section(SECTION).map(|s| s.data).filter(|data| !data.is_empty()) else {
        bail!("{}: it has no annotations; build it with `relive cc`, or use `relive annotate add`", named());
    };
    let Some(build_id) = &image.identity.build_id else {
        bail!(
            "{}: it has no build-id, by which its annotations could be found again; link it with \
             -Wl,--build-id",
            named()
        );
    };
    let stripped = match &args.stripped {
        None => None,
        Some(output) => {
            let bytes = without_section(&loaded.bytes).map_err(|why| cannot_change(why.into()));
            Some((place(output), bytes.with_context(named)?))
        }
    };
    let file = SideFile { build_id, section }.write();
    let output = place(&args.output);
    if stripped.as_ref().is_some_and(|(stripped, _)| *stripped == output) || output == place(&args.binary) {
        bail!(
            "{}: the annotations need a file of their own: choose another place with -o",
            args.output.display()
        );
    }
    write_to(Some(&output), |out| Ok(out.write_all(&file)?))?;
    match stripped {
        // Only when they are safe elsewhere.
        Some((stripped, bytes)) => write_program(&args.binary, &stripped, &bytes),
        None => Ok(()),
    }
}

/// Where a file is written that may be there already under a name that leads to it.
fn place(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn cannot_change(why: AnnotateError) -> anyhow::Error {
    let remedy = match &why {
        AnnotateError::Linked(LinkedFileError::NoSections) => "use a build that was not stripped of it",
        AnnotateError::Linked(LinkedFileError::Payload) => {
            "annotate the program before the data is put there"
        }
        AnnotateError::Linked(LinkedFileError::Full) => "link it so that its sections are put together",
        _ => "fetch or build the file again",
    };
    anyhow!("cannot be changed: {why} ({remedy})")
}
