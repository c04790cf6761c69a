//! What can be asked for on the command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Records exactly what a Linux binary did, and keeps that knowledge alive from one build to the next.
#[derive(Parser)]
#[command(
    name = "relive",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show what is known of a binary, who vouches for it, and what is not understood and why.
    Inspect(Inspect),
    /// Rewrite a binary so that it counts what it does, exactly, and leaves a profile.
    Instrument(Instrument),
}

const INSTRUMENT_EXAMPLES: &str = "\
EXAMPLES:
  relive instrument app -o app.counted && ./app.counted
      leaves ./app.counted.rprof; further runs add to it
  relive instrument app -o app.counted --mode blocks --profile /var/tmp/%e.%p.rprof
      counts blocks only, and writes one profile per process
  relive instrument libfoo.so.1 -o counted/libfoo.so.1
      LD_LIBRARY_PATH=counted then makes any program count what it does in the library
  relive instrument app -o app.test --trap
      any code that escapes the rewriting ends the program: for tests of relive

Where the profile goes: RELIVE_PROFILE, else --profile, else ./NAME.rprof. In both, %p is the process id\nand %e the name of the program.

Exit status: 0 done, 2 the file cannot be read or cannot be rewritten.";

/// Arguments of `relive instrument`.
#[derive(Args)]
#[command(after_help = INSTRUMENT_EXAMPLES)]
pub(crate) struct Instrument {
    /// The executable or shared library to rewrite
    pub(crate) binary: PathBuf,

    /// Where the rewritten file goes
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// What to count
    #[arg(long, value_enum, default_value_t = CountMode::Edges)]
    pub(crate) mode: CountMode,

    /// Record where indirect calls lead
    #[arg(long, value_enum, default_value_t = Switch::On, value_name = "on|off")]
    pub(crate) calls: Switch,

    /// Only these functions: names, or @FILE with one name a line
    #[arg(long, value_name = "NAMES|@FILE", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Not these functions
    #[arg(long, value_name = "NAMES|@FILE", value_delimiter = ',')]
    pub(crate) except: Vec<String>,

    /// Where runs write the profile unless RELIVE_PROFILE says otherwise
    #[arg(long, value_name = "PATTERN")]
    pub(crate) profile: Option<String>,

    /// Fill old code with traps, so that nothing escapes unseen
    #[arg(long)]
    pub(crate) trap: bool,

    /// Show how long each phase took
    #[arg(long)]
    pub(crate) timings: bool,
}

/// What to count.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CountMode {
    /// Every edge, with the fewest counters
    Edges,
    /// Every block
    Blocks,
    /// Calls of every function
    Functions,
}

/// On or off.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Switch {
    /// Do it
    On,
    /// Leave it
    Off,
}

const INSPECT_EXAMPLES: &str = "\
EXAMPLES:
  relive inspect /bin/ls
      one screen: kind, sources, functions, blocks, loops, jump tables, what is not understood
  relive inspect app --function main
      blocks of main with disassembly and source lines; an address inside it does as well
  relive inspect app --function main --svg -o main.svg
      its control-flow graph as a picture
  relive inspect app --functions | awk -F'\\t' '$4 != \"understood\"'
      functions that are not understood, and why
  relive inspect app --json | jq .text_bytes

Exit status: 0 done, 1 --verify found a mistake, 2 the file cannot be read or is not an x86-64 ELF\nexecutable or shared object.";

/// Arguments of `relive inspect`.
#[derive(Args)]
#[command(after_help = INSPECT_EXAMPLES)]
pub(crate) struct Inspect {
    /// The executable or shared object to look at
    pub(crate) binary: PathBuf,

    /// Only this function: a name as in the symbol table or demangled, or an address inside it
    #[arg(long, short, value_name = "NAME|ADDR")]
    pub(crate) function: Option<String>,

    /// Print a table of all functions (name, address, size, understood or the reason)
    #[arg(long, group = "view", help_heading = "What to print")]
    pub(crate) functions: bool,

    /// Print a table of all basic blocks (function, address, size, successors)
    #[arg(long, group = "view", help_heading = "What to print")]
    pub(crate) blocks: bool,

    /// Print everything in the summary, and more, as JSON (schema: docs/inspect-json.md)
    #[arg(long, group = "view", help_heading = "What to print")]
    pub(crate) json: bool,

    /// Print who calls whom: a table, or a graph with --dot or --svg
    #[arg(long, group = "view", help_heading = "What to print")]
    pub(crate) callgraph: bool,

    /// Print a graph in Graphviz' language
    #[arg(long, conflicts_with = "svg", help_heading = "What to print")]
    pub(crate) dot: bool,

    /// Print a graph as a picture
    #[arg(long, help_heading = "What to print")]
    pub(crate) svg: bool,

    /// With --function: which registers and flags are live before each instruction
    #[arg(long, requires = "function", help_heading = "How to print")]
    pub(crate) liveness: bool,

    /// Write disassembly in AT&T syntax instead of Intel's
    #[arg(long, help_heading = "How to print")]
    pub(crate) att: bool,

    /// Show names as in the symbol table instead of demangled
    #[arg(long, help_heading = "How to print")]
    pub(crate) mangled: bool,

    /// Write to a file instead of standard output
    #[arg(long, short, value_name = "FILE", help_heading = "How to print")]
    pub(crate) output: Option<PathBuf>,

    /// Do not look for a separate debug file
    #[arg(long)]
    pub(crate) no_debug_file: bool,

    /// Look for separate debug files below this folder too (may be given several times)
    #[arg(long, value_name = "DIR")]
    pub(crate) debug_root: Vec<PathBuf>,

    /// Check the results by independent, slower means; disagreement is a bug and ends with status 1
    #[arg(long)]
    pub(crate) verify: bool,

    /// Print how long each phase took, to standard error
    #[arg(long)]
    pub(crate) timings: bool,
}
