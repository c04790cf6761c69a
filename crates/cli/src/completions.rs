//! `relive completions` and `relive man`: made from the definitions of the commands, so they cannot differ from them.

use crate::args::Cli;
use crate::output::write_to;
use anyhow::{Context as _, Result, bail};
use clap::{Args as ClapArgs, Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
EXAMPLES:
  relive completions bash > ~/.local/share/bash-completion/completions/relive
  relive completions zsh > ~/.zfunc/_relive
  relive completions fish > ~/.config/fish/completions/relive.fish

Exit status: 0 done, 2 it cannot be written.";

/// Arguments of `relive completions`.
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Which shell
    shell: Shell,

    /// Write to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

const MAN_EXAMPLES: &str = "\
EXAMPLES:
  relive man ~/.local/share/man/man1 && man relive-export
      a page for relive and one for each command

Exit status: 0 done, 2 the folder cannot be written.";

/// Arguments of `relive man`.
#[derive(ClapArgs)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct ManArgs {
    /// Where the pages go; made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Prints completions.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "relive", &mut script);
    write_to(args.output.as_deref(), |out| Ok(out.write_all(&script)?))
}

/// Writes a page for each command.
pub(crate) fn man(args: &ManArgs) -> Result<()> {
    if args.folder.exists() && !args.folder.is_dir() {
        bail!("{}: is there and is no folder; name another", args.folder.display());
    }
    std::fs::create_dir_all(&args.folder).with_context(|| {
        format!("cannot make {}: is the folder around it writable?", args.folder.display())
    })?;
    let mut command = Cli::command();
    command.build();
    pages(&command, &args.folder)
}

/// The page of a command and those of commands in it.
fn pages(command: &Command, folder: &Path) -> Result<()> {
    // Called after the whole command: `relive-export.1`.
    let page = Man::new(command.clone()).source(concat!("relive ", env!("CARGO_PKG_VERSION")));
    write_to(Some(&folder.join(page.get_filename())), |mut out| {
        page.render_title(&mut out)?;
        page.render_name_section(&mut out)?;
        page.render_synopsis_section(&mut out)?;
        page.render_description_section(&mut out)?;
        page.render_options_section(&mut out)?;
        if command.has_subcommands() {
            page.render_subcommands_section(&mut out)?;
        }
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        Ok(out.write_all(below_the_options(&help).to_roff().as_bytes())?)
    })?;
    let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help");
    inner.into_iter().try_for_each(|inner| pages(inner, folder))
}

/// What a command says of itself below its options, under the headings of manual pages: examples keep their lines.
fn below_the_options(help: &str) -> Roff {
    let mut page = Roff::new();
    let mut has_notes = false;
    for part in help.split("\n\n").filter(|part| !part.is_empty()) {
        if let Some(examples) = part.strip_prefix("EXAMPLES:\n") {
            page.control("SH", ["EXAMPLES"]).control("nf", []).text([roman(examples)]).control("fi", []);
        } else if let Some(status) = part.strip_prefix("Exit status: ") {
            page.control("SH", ["EXIT STATUS"]).text([roman(status)]);
        } else if part.starts_with("The exit status ") {
            page.control("SH", ["EXIT STATUS"]).text([roman(part)]);
        } else {
            page.control(if has_notes { "PP" } else { "SH" }, (!has_notes).then_some("NOTES"));
            page.text([roman(part)]);
            has_notes = true;
        }
    }
    page
}
