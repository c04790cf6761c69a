//! `relive replay`: tells what happened in a trace, as text or for other tools.

mod binary;
mod calls;
mod count;
mod inorder;
mod seek;
mod select;
mod summary;
mod text;

use crate::output::write_to;
use anyhow::{Context as _, Result, bail};
use clap::{Args as ClapArgs, ValueEnum};
use relive_trace::{Segment, Trace};
use seek::{Point, point};
use select::Selected;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
EXAMPLES:
  relive replay app.rtrace
      what the trace holds: processes, threads, how many instructions, how many bytes
  relive replay app.rtrace --mem | head
      every access to memory: thread, place of the instruction, address, bytes, r or w
  relive replay app.rtrace --instructions --from 1000000 --to 1000100
      a hundred instructions of each thread
  relive replay app.rtrace --mem --from parse --to emit
      accesses of each thread from where it first enters `parse` to where it next enters `emit`. Parts of the trace in which neither
      is executed are not replayed to find that
  relive replay app.rtrace --calls --threads 4711
      which functions thread 4711 calls, one in the other
  relive replay app.rtrace --format dinero | dineroIV -l1-dsize 32k …
  relive replay app.rtrace --format champsim -o app.champsim

Exit status: 0 done, 2 the trace cannot be read. Of a trace that was cut off, all whole segments are replayed, and a warning says so.";

/// Arguments of `relive replay`.
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The trace
    trace: PathBuf,

    /// Every access to memory: thread, place of the instruction, address, bytes, r or w (one that reads and writes is two lines)
    #[arg(long, help_heading = "What to print", group = "what")]
    mem: bool,

    /// Every piece of code that is executed in one go: thread, first instruction, where it ends, instructions
    #[arg(long, help_heading = "What to print", group = "what")]
    blocks: bool,

    /// Every instruction: thread, its place, and what it is
    #[arg(long, help_heading = "What to print", group = "what")]
    instructions: bool,

    /// Every call, one in the other: thread, depth, instruction number, function
    #[arg(long, help_heading = "What to print", group = "what")]
    calls: bool,

    /// Nothing of it all but how much there is of each, and hashes of all addresses in order
    #[arg(long, help_heading = "What to print", group = "what")]
    count: bool,

    /// All of it, in the manner of another tool
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "What to print", group = "what")]
    format: Option<Format>,

    /// Begin each thread here: at an instruction, counted from 0, or where it first enters a function
    #[arg(long, value_name = "FUNCTION|N", value_parser = point, help_heading = "Which part")]
    from: Option<Point>,

    /// End each thread here: before an instruction, or where it next enters a function
    #[arg(long, value_name = "FUNCTION|N", value_parser = point, help_heading = "Which part")]
    to: Option<Point>,

    /// Only these threads, by the numbers the kernel gave them
    #[arg(long, value_name = "TID,…", value_delimiter = ',', help_heading = "Which part")]
    threads: Vec<u32>,

    /// Only these processes, by their numbers in the trace or by those the kernel gave them
    #[arg(long, value_name = "PID,…", value_delimiter = ',', help_heading = "Which part")]
    processes: Vec<u32>,

    /// Write to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Whose manner.
#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
enum Format {
    /// Text of `valgrind --tool=lackey --trace-mem=yes`
    Lackey,
    /// Text of dineroIV: `-informat d`
    Dinero,
    /// Records of 64 bytes for ChampSim
    Champsim,
    /// Entries of 12 bytes as in DynamoRIO's memory traces: type, size, address
    DrmemtraceLike,
}

/// Opens a trace, and says if it was cut off.
pub(crate) fn open(path: &Path) -> Result<Trace> {
    let trace = Trace::open(path).with_context(|| {
        format!("{}: not a trace that can be read (give a file that `relive trace` wrote)", path.display())
    })?;
    if let Some(at) = trace.cut_at() {
        eprintln!(
            "relive: warning: {} was not finished: what comes behind byte {at} is missing",
            path.display()
        );
    }
    Ok(trace)
}

/// Replays a trace.
pub(crate) fn run(args: &Args) -> Result<()> {
    let trace = open(&args.trace)?;
    let selected =
        Selected::new(&trace, args).with_context(|| format!("cannot replay {}", args.trace.display()))?;
    let wants_memory = args.mem || args.format.is_some();
    if wants_memory && !trace.about().memory {
        bail!(
            "{} has no accesses to memory: it was made with --control-flow-only; trace again without",
            args.trace.display()
        );
    }
    write_to(args.output.as_deref(), |out| {
        if args.count {
            count::print(&trace, &selected, out)
        } else if args.calls {
            calls::print(&trace, &selected, out)
        } else if args.mem || args.blocks || args.instructions || args.format.is_some() {
            let told = inorder::print(&trace, &selected, out, |segment: &Segment| manner(args, segment));
            told.with_context(|| format!("cannot replay {}", args.trace.display()))
        } else {
            summary::print(&trace, &selected, out)
        }
    })
}

/// Who writes what happens in a segment.
fn manner(args: &Args, segment: &Segment) -> Box<dyn inorder::Teller> {
    match args.format {
        Some(Format::Lackey) => Box::new(text::Lackey),
        Some(Format::Dinero) => Box::new(text::Dinero),
        Some(Format::Champsim) => Box::new(binary::ChampSim::default()),
        Some(Format::DrmemtraceLike) => Box::new(binary::Drmemtrace::new(segment)),
        None if args.mem => Box::new(text::Mem(segment.thread)),
        None if args.blocks => Box::new(text::Blocks(segment.thread)),
        None => Box::new(text::Instructions::new(segment.thread)),
    }
}
