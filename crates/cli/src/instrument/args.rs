//! What can be asked of `relive instrument`.

use relive_rewrite::module::Mode;
use std::path::PathBuf;

const INSTRUMENT_EXAMPLES: &str = "\
EXAMPLES:
  relive instrument app -o app.counted && ./app.counted
      leaves ./app.counted.rprof; further runs add to it
  relive instrument app -o app.counted --mode blocks --profile /var/tmp/%e.%p.rprof
      counts blocks only, and writes one profile per process
  relive instrument libfoo.so.1 -o counted/libfoo.so.1
      LD_LIBRARY_PATH=counted then makes any program count what it does in the library
  relive instrument app -o app.counted --weights app.counted.rprof
      places counters where an earlier run of the same build passed least often: the same counts for less
  relive instrument /opt/tool/bin/tool -o counted/bin --keep-name
      writes counted/bin/tool, with links to everything else in /opt/tool/bin beside it
  relive instrument app -o app.test --trap --verify
      any code that escapes the rewriting ends the program; the new file is checked: for tests of relive

If a rewritten program behaves differently, `relive bisect` finds the function; --except leaves it out.
Where the profile goes: RELIVE_PROFILE, else --profile, else ./NAME.rprof. In both, %p is the process id,\n%e the name of the program and %m that of the measured file: with several measured files in one\nprogram, each needs a profile of its own.

Exit status: 0 done, 1 --verify found a mistake, 2 the file cannot be read or cannot be rewritten.";

/// Arguments of `relive instrument`.
#[derive(clap::Args)]
#[command(after_help = INSTRUMENT_EXAMPLES)]
pub(crate) struct Args {
    /// The executable or shared library to rewrite
    pub(crate) binary: PathBuf,

    /// Where the rewritten file goes
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// For programs that find their files by their own path: -o is a folder (made if it is not there), the
    /// rewritten file keeps its name in it, and everything else that lies beside the original is linked
    /// to. Names that are taken there already are left alone
    #[arg(long)]
    pub(crate) keep_name: bool,

    /// What to count
    #[arg(long, value_enum, default_value_t = CountMode::Edges)]
    pub(crate) mode: CountMode,

    /// Record where indirect calls lead
    #[arg(long, value_enum, default_value_t = Switch::On, value_name = "on|off")]
    pub(crate) calls: Switch,

    /// Only these functions: names, or @FILE with one name a line
    #[arg(long, value_name = "NAMES|@FILE", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Not these functions; or not those that a plan (`relive migrate --plan`), a file that ends with .json, says need not be measured
    #[arg(long, value_name = "NAMES|@FILE|PLAN", value_delimiter = ',')]
    pub(crate) except: Vec<String>,

    /// Place counters by what an earlier profile of the same build counted, instead of by an estimate
    #[arg(long, value_name = "PROFILE")]
    pub(crate) weights: Option<PathBuf>,

    /// Believe the annotations in this file, made of the same build by `relive annotate extract`, instead of
    /// those in the binary
    #[arg(long, value_name = "FILE")]
    pub(crate) annotations: Option<PathBuf>,

    /// Where runs write the profile unless RELIVE_PROFILE says otherwise
    #[arg(long, value_name = "PATTERN")]
    pub(crate) profile: Option<String>,

    /// Fill old code with traps, so that nothing escapes unseen
    #[arg(long)]
    pub(crate) trap: bool,

    /// Read the rewritten file again and check it against the original, instruction by instruction;
    /// disagreement is a bug and ends with status 1
    #[arg(long)]
    pub(crate) verify: bool,

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

impl From<CountMode> for Mode {
    fn from(mode: CountMode) -> Self {
        match mode {
            CountMode::Edges => Self::Edges,
            CountMode::Blocks => Self::Blocks,
            CountMode::Functions => Self::Functions,
        }
    }
}

/// On or off.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Switch {
    /// Do it
    On,
    /// Leave it
    Off,
}

impl From<Switch> for bool {
    fn from(switch: Switch) -> Self {
        switch == Switch::On
    }
}
