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

    /// Say nothing on standard error but what went wrong, and show no progress
    #[arg(long, short, global = true, help_heading = "Everywhere")]
    pub(crate) quiet: bool,

    /// Whether messages are coloured. `auto`: if standard error is a terminal, and NO_COLOR is not set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Everywhere")]
    pub(crate) color: clap::ColorChoice,
}

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show what is known of a binary, who vouches for it, and what is not understood and why.
    Inspect(Inspect),
    /// Print what a program consists of: classes, functions and loops, each with its universal ID.
    Constructs(crate::constructs::Args),
    /// Compile as asked, and have the binary describe its own structure.
    Cc(crate::cc::Args),
    /// Put annotations into a binary that was built without, or take them out into a file.
    Annotate(crate::annotate::Args),
    /// Rewrite a binary so that it counts what it does, exactly, and leaves a profile.
    Instrument(crate::instrument::Args),
    /// Run a command, unchanged, and measure it and all it starts: libraries, children, generated code.
    Run(crate::run::Args),
    /// Run a command, unchanged, and write down everything it does: each instruction and each access to memory.
    Trace(crate::trace::Args),
    /// Tell what happened in a trace: instructions, accesses, calls; or write it for other tools.
    Replay(crate::replay::Args),
    /// Ask a trace: caches, reuse, strides, working set, races, hot paths, instruction mix.
    Analyze(crate::analyze::Args),
    /// Find the function whose rewriting changes what a program does.
    Bisect(crate::bisect::Args),
    /// Show what a profile tells: hottest functions, loops, calls, coverage; or one function in detail.
    Report(Report),
    /// Print one table of a profile for scripts: tab-separated, with a header line.
    Dump(Dump),
    /// Add profiles up.
    Merge(Merge),
    /// Write a profile for another tool: BOLT, compilers, viewers.
    Export(crate::export::Args),
    /// Make a profile of what another tool saw: branch stacks of perf, profiles of BOLT.
    Import(crate::import::Args),
    /// Carry a profile over to another build, with a confidence on every number.
    Migrate(crate::migrate::Args),
    /// Profile a new build by an old profile: measure only what does not hold any more, and put both together.
    Reprofile(crate::reprofile::Args),
    /// Find the procedures, data and basic blocks of one build in another.
    Match(crate::matching::Args),
    /// Tell how good a profile is that was carried over to another build, by one measured on that build.
    Evaluate(crate::evaluate::Args),
    /// Tell what works on this machine and what does not, and why.
    Doctor(crate::doctor::Args),
    /// Print completions for a shell.
    Completions(crate::completions::Args),
    /// Write manual pages.
    Man(crate::completions::ManArgs),
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
  relive inspect app --annotations
      what the compiler tells of its code (`relive cc`), and what of that analysis would not find out
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

    /// Print what annotations tell, and what of that analysis does not find out by itself (with --json too);
    /// those in FILE, which must be of the same build, instead of the binary's own
    #[arg(long, value_name = "FILE", help_heading = "What to print")]
    pub(crate) annotations: Option<Option<PathBuf>>,

    /// Print a graph in Graphviz' language
    #[arg(long, conflicts_with = "svg", help_heading = "What to print")]
    pub(crate) dot: bool,

    /// Print a graph as a picture
    #[arg(long, help_heading = "What to print")]
    pub(crate) svg: bool,

    /// With --function: which registers and flags are live before each instruction
    #[arg(long, requires = "function", help_heading = "How to print")]
    pub(crate) liveness: bool,

    /// With --annotations: everything, not only the first of each kind
    #[arg(long, requires = "annotations", help_heading = "How to print")]
    pub(crate) all: bool,

    /// Write disassembly in AT&T syntax instead of Intel's
    #[arg(long, help_heading = "How to print")]
    pub(crate) att: bool,

    /// Show names as in the symbol table instead of demangled
    #[arg(long, help_heading = "How to print")]
    pub(crate) mangled: bool,

    /// Write to a file instead of standard output
    #[arg(long, short, value_name = "FILE", help_heading = "How to print")]
    pub(crate) output: Option<PathBuf>,

    /// Do not look for a separate debug file, or one of annotations
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

const MERGE_EXAMPLES: &str = "\
EXAMPLES:
  relive merge monday.rprof tuesday.rprof -o week.rprof
      the counts of both; programs of different builds stay apart in it
  relive merge carried.rprof fresh.rprof --plan plan.json -o full.rprof
      what was carried over where the plan says that it holds, what was measured anew elsewhere

Exit status: 0 done, 2 a file cannot be read or written.";

/// Arguments of `relive merge`.
#[derive(Args)]
#[command(after_help = MERGE_EXAMPLES)]
pub(crate) struct Merge {
    /// The profiles to add up
    #[arg(required = true)]
    pub(crate) profiles: Vec<PathBuf>,

    /// Put together what `relive migrate --plan` carried over, the first profile, and what was measured by that plan, the second
    #[arg(long, value_name = "PLAN")]
    pub(crate) plan: Option<PathBuf>,

    /// Where to write the sum; may be one of the profiles
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

const DUMP_EXAMPLES: &str = "\
EXAMPLES:
  relive dump app.rprof --blocks | awk -F'\\t' '$5 == 0'
      blocks that never ran
  relive dump app.rprof --calls | sort -t$'\\t' -k5 -n | tail
      the most frequent calls
  relive dump app.rcalls --sequence --flat --under main
      which functions main calls, and those call, in order

Addresses are in hexadecimal, as linked; names as in the symbol table. A count that is not known is `-`.
The columns are in docs/profile-format.md and docs/calls-format.md.

Exit status: 0 done, 2 the file cannot be read or is not a profile.";

/// Arguments of `relive dump`.
#[derive(Args)]
#[command(after_help = DUMP_EXAMPLES, group = clap::ArgGroup::new("table").required(true))]
pub(crate) struct Dump {
    /// The profile, or calls with --sequence
    pub(crate) profile: PathBuf,

    /// Functions: how well measured, how often entered, instructions executed
    #[arg(long, group = "table", help_heading = "What to print")]
    pub(crate) functions: bool,

    /// Basic blocks: how often each ran
    #[arg(long, group = "table", help_heading = "What to print")]
    pub(crate) blocks: bool,

    /// Edges between blocks: how often each was taken
    #[arg(long, group = "table", help_heading = "What to print")]
    pub(crate) edges: bool,

    /// Calls: from where, of what, how often
    #[arg(long, group = "table", help_heading = "What to print")]
    pub(crate) calls: bool,

    /// Loops: how often entered, how often their header ran
    #[arg(long, group = "table", help_heading = "What to print")]
    pub(crate) loops: bool,

    /// Of a file of `relive analyze calls`: every call, one in the other
    #[arg(long, group = "table", help_heading = "What to print")]
    pub(crate) sequence: bool,

    /// With --sequence: only names of functions, each thread in one line
    #[arg(long, requires = "sequence", help_heading = "What to print")]
    pub(crate) flat: bool,

    /// With --sequence: only executions of this function, and what happens in them
    #[arg(long, value_name = "FUNCTION", requires = "sequence", help_heading = "What to print")]
    pub(crate) under: Option<String>,

    /// Write to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

const REPORT_EXAMPLES: &str = "\
EXAMPLES:
  relive report app.rprof
      one screen: totals, hottest functions, loops with trip counts, calls, coverage
  relive report app.rprof --annotate main
      its source, or else its disassembly, with counts in the margin
  relive report app.rprof --annotate main --disassembly --binary build/app
  relive report app.rprof --html app.html
      a page to look at in a browser: functions, their graphs with heat, source and disassembly with counts
  relive report app.rprof --json | jq .modules[0].blocks

Exit status: 0 done, 2 the file cannot be read or is not a profile.";

/// Arguments of `relive report`.
#[derive(Args)]
#[command(after_help = REPORT_EXAMPLES)]
pub(crate) struct Report {
    /// The profile
    pub(crate) profile: PathBuf,

    /// One function, with counts in the margin: a name as in the symbol table or demangled, or an address
    /// inside it
    #[arg(
        long,
        short,
        value_name = "FUNCTION",
        conflicts_with = "json",
        group = "code",
        help_heading = "What to print"
    )]
    pub(crate) annotate: Option<String>,

    /// Print everything, not only the top, as JSON (schema: docs/report-json.md)
    #[arg(long, help_heading = "What to print")]
    pub(crate) json: bool,

    /// Write a page that needs nothing beside itself, to look at in a browser (docs/html-report.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "annotate", "output"], group = "code", help_heading = "What to print")]
    pub(crate) html: Option<PathBuf>,

    /// With --html: how large the page may become, in MiB; functions that ran least are left without their code then
    #[arg(long, value_name = "MIB", default_value_t = 64, requires = "html", help_heading = "How to print")]
    pub(crate) html_size: u32,

    /// How many functions, loops and calls to print
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "How to print")]
    pub(crate) top: usize,

    /// With --annotate: disassembly even if there is source
    #[arg(long, requires = "annotate", help_heading = "How to print")]
    pub(crate) disassembly: bool,

    /// Write disassembly in AT&T syntax instead of Intel's
    #[arg(long, help_heading = "How to print")]
    pub(crate) att: bool,

    /// Show names as in the symbol table instead of demangled
    #[arg(long, help_heading = "How to print")]
    pub(crate) mangled: bool,

    /// Write to a file instead of standard output
    #[arg(long, short, value_name = "FILE", help_heading = "How to print")]
    pub(crate) output: Option<PathBuf>,

    /// With --annotate or --html: the program that was measured, if it is not where it was
    #[arg(long, value_name = "FILE", requires = "code")]
    pub(crate) binary: Option<PathBuf>,

    /// Look for separate debug files below this folder too (may be given several times)
    #[arg(long, value_name = "DIR")]
    pub(crate) debug_root: Vec<PathBuf>,
}
