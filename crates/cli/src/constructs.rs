//! `relive constructs`: what a program consists of, each part with its universal ID.

use crate::build::{self, Reading};
use crate::output::{field, write_to};
use crate::progress::{Phase, Progress};
use anyhow::Result;
use relive_image::names::demangle;
use relive_impact::constructs::{Classes, Construct, Grouping, tree};
use relive_profile::model::Module;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  relive constructs app
      program, classes, functions and loops, each in what holds it
  relive constructs app --tsv | awk -F'\\t' '$1 == \"loop\"'
      loops, with file, first and last line
  relive constructs app.rprof
      the same of the build a profile was measured on

A construct is known by its level, file and line; without debug information, by its function and block.

Exit status: 0 done, 2 the file cannot be read.";

/// Arguments of `relive constructs`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// An executable, a shared object, or a profile
    binary: PathBuf,

    /// Print a table: level, identity, name, last line, how deep
    #[arg(long, help_heading = "How to print")]
    tsv: bool,

    /// Show names as in the symbol table instead of demangled
    #[arg(long, help_heading = "How to print")]
    mangled: bool,

    /// Write to a file instead of standard output
    #[arg(long, short, value_name = "FILE", help_heading = "How to print")]
    output: Option<PathBuf>,
}

const PHASES: &[Phase] = &[("read", 100)];

/// Functions by the classes their names tell.
pub(crate) fn classes() -> impl Grouping {
    Classes(|name: &str| demangle(name).into_owned())
}

/// Prints what was asked for.
pub(crate) fn run(args: &Args) -> Result<()> {
    let progress = Progress::start(PHASES);
    let reading = Reading { debug_files: true, lines: true };
    let module: Module = build::open(&args.binary, &args.binary, reading, progress.watch())?;
    drop(progress);
    let tree = tree(&module, &[&classes()]);
    let shown = |construct: &Construct| {
        if args.mangled { construct.name.clone() } else { demangle(&construct.name).into_owned() }
    };
    write_to(args.output.as_deref(), |out| {
        if args.tsv {
            writeln!(out, "level\tidentity\tname\tlast-line\tdepth")?;
        }
        let mut result = Ok(());
        tree.walk(&mut |construct, depth| {
            let last = construct.last_line.map(|line| line.to_string());
            let name = shown(construct);
            let line = if args.tsv {
                let last = last.as_deref().unwrap_or("-");
                writeln!(
                    out,
                    "{}\t{}\t{}\t{last}\t{depth}",
                    construct.level,
                    construct.identity,
                    field(&name)
                )
            } else {
                let until = last.map(|last| format!("-{last}")).unwrap_or_default();
                let indent = "  ".repeat(depth);
                writeln!(out, "{indent}{} {}  {}{until}", construct.level, field(&name), construct.identity)
            };
            if result.is_ok() {
                result = line;
            }
        });
        Ok(result?)
    })
}
