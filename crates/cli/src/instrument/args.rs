//! What can be asked of `relive instrument`.

use std::path::PathBuf;

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
#[derive(clap::Args)]
#[command(after_help = INSTRUMENT_EXAMPLES)]
pub(crate) struct Args {
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
