//! What can be asked of `relive bisect`.

use crate::instrument::{CountMode, Switch};
use std::ffi::OsString;
use std::path::PathBuf;

const BISECT_EXAMPLES: &str = "\
EXAMPLES:
  relive bisect /usr/bin/sort -- {} -n numbers.txt
      is the output the same when sort is rewritten, and if not, because of which function?
  relive bisect libfoo.so.1 -- env LD_PRELOAD={} app --self-test
      the same for a library; {} may stand anywhere in the command
  relive bisect app --stderr --timeout 5 --repeat 10 -- sh -c '{} < input | sort'
      compares standard error too; a difference that shows in one of ten runs counts

The command runs with the program as it is, then with all of it rewritten, then with fewer and
fewer functions rewritten, each time at the same path in a temporary folder, with links beside it
to whatever lies beside the original. Exit status and standard output are compared. Of several
independent causes one is found; --except leaves it out of the next search.

Exit status: 0 no difference, 1 a difference and its smallest cause, 2 it could not be searched for.";

/// Arguments of `relive bisect`.
#[derive(clap::Args)]
#[command(after_help = BISECT_EXAMPLES)]
pub(crate) struct Args {
    /// The executable or shared library to rewrite
    pub(crate) binary: PathBuf,

    /// The command, with {} where the program goes
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,

    /// Compare standard error as well
    #[arg(long)]
    pub(crate) stderr: bool,

    /// Give a run this long; one that takes longer has failed
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub(crate) timeout: f64,

    /// Run each candidate so often; one difference is enough
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) repeat: u32,

    /// Rewrite only these functions: names, or @FILE with one name a line
    #[arg(long, value_name = "NAMES|@FILE", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Do not rewrite these functions
    #[arg(long, value_name = "NAMES|@FILE", value_delimiter = ',')]
    pub(crate) except: Vec<String>,

    /// What to count
    #[arg(long, value_enum, default_value_t = CountMode::Edges)]
    pub(crate) mode: CountMode,

    /// Record where indirect calls lead
    #[arg(long, value_enum, default_value_t = Switch::On, value_name = "on|off")]
    pub(crate) calls: Switch,

    /// Fill old code with traps, so that nothing escapes unseen
    #[arg(long)]
    pub(crate) trap: bool,
}
