//! `relive trace`: runs a command under the engine and writes down everything it does.

mod analyses;
mod progress;

use crate::analyze::Question;
use crate::analyze::on_line::question;
use crate::console::say;
use crate::functions::Functions;
use crate::output::{Begun, grouped};
use crate::run::Total;
use crate::traced::Traced;
use analyses::{Analyses, Whole};
use anyhow::{Context as _, Result, bail};
use clap::Args as ClapArgs;
use progress::Line;
use relive_launch::collect::News;
use relive_launch::{Done, Ended, Options, Trace};
use relive_trace::process::Process;
use relive_trace::recording::{Plan, Point, Recorded, Window};
use relive_trace::units::Unit;
use relive_trace::{About, Layout, Recording};
use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

const EXAMPLES: &str = "\
EXAMPLES:
  relive trace -- ./app --option input
      runs it as if nothing were there, and leaves app.rtrace: every instruction and every access to memory of the
      program, its libraries and all it starts
  relive replay app.rtrace --mem | head
      what it did, one access after the other
  relive trace --ring 100M -- ./server
      keeps only the last part, about 100 MB of it: for who wants to know how it came to its end
  relive trace --start parse --stop 2000000 -- ./app
      each thread from where it enters `parse` first, up to its two millionth instruction
  relive trace --control-flow-only -- make
      which way control went, and no accesses
  relive trace --no-store --analyze mix --analyze 'cache --l1d 48K,12,64 --json -o cache.json' -- ./app
      answers questions while it runs, and stores nothing but the answers
  relive trace --no-store --analyze races -- ./app
      races look at everything twice: all of the trace is kept in memory, packed

The exit status is that of the command. 125: it could not be traced. 126: it could not be executed. 127: it was not found.";

/// Arguments of `relive trace`.
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where the trace goes [default: the name of the command with .rtrace]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write down which way control goes, but no accesses to memory
    #[arg(long)]
    control_flow_only: bool,

    /// Store each thread only from here on: a function, where it is first entered, or a number of instructions
    #[arg(long, value_name = "FUNCTION|N")]
    start: Option<String>,

    /// Store each thread only up to here: a function, where it is next entered, or a number of instructions from its beginning
    #[arg(long, value_name = "FUNCTION|N")]
    stop: Option<String>,

    /// Keep only the last part of the trace: about so much of it, as in 100M or 2G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    ring: Option<u64>,

    /// Store nothing: of what was done, only the answers to --analyze are left. Without that, shows what recording alone costs
    #[arg(long, conflicts_with_all = ["output", "ring"])]
    no_store: bool,

    /// Answer a question meanwhile (may be given several times): mix, strides, working-set, cache, reuse, races, hot-paths or
    /// profile, with the options of `relive analyze` behind it. The answer goes to standard error when the command is over, or with
    /// `-o FILE` behind the question to a file
    #[arg(long, value_name = "QUESTION", value_parser = question, help_heading = "Analyses")]
    analyze: Vec<Arc<Question>>,

    /// With --no-store, how much of the trace may be kept in memory, packed, for races and hot-paths, which look at everything twice
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1G", help_heading = "Analyses")]
    analysis_memory: u64,

    /// Whether what the command starts is traced too. If not, its forks run on without being written down, and programs
    /// that are executed run by themselves
    #[arg(long, value_name = "yes|no", value_parser = ["yes", "no"], default_value = "yes", default_missing_value = "yes",
        num_args = 0..=1, require_equals = true, hide_possible_values = true)]
    follow_children: String,

    /// How much translated code a process may have before it is given up and made anew, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=65536))]
    cache_size: u64,

    /// Say on standard error what the engine did: translations, links, look-ups, time
    #[arg(long)]
    engine_stats: bool,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Traces what was asked for; ends as it ended.
pub(crate) fn run(args: &Args) -> ExitCode {
    match trace(args) {
        Ok(Ended::Exit(code)) => ExitCode::from(code as u8),
        Ok(Ended::Signal(signal)) => relive_launch::end_by(signal),
        Err(error) => {
            eprintln!("relive: {error:#}");
            ExitCode::from(crate::run::status(&error))
        }
    }
}

fn trace(args: &Args) -> Result<Ended> {
    let options = Options {
        command: args.command.clone(),
        count: false,
        time: args.engine_stats,
        verify: false,
        follow: args.follow_children == "yes",
        cache_len: args.cache_size << 20,
        trace: Some(Trace { memory: !args.control_flow_only, order: !args.control_flow_only }),
        exempt: Vec::new(),
    };
    if args.no_store && args.analyze.is_empty() {
        return without_recording(args, &options);
    }
    let about = about(args);
    let analyses = Analyses::new(&args.analyze, &about)?;
    let (whole, file, mut begun) = begin(args, &analyses)?;
    let plan = Plan {
        file,
        most: args.no_store.then_some(args.analysis_memory),
        ring: args.ring,
        window: Window { start: args.start.as_deref().map(point), stop: args.stop.as_deref().map(point) },
        watchers: analyses.watchers(),
    };
    relive_launch::heap::share();
    let mut recording = Recording::new(&about, plan);
    let mut line = Line::new();
    let mut said = false;
    let mut total = Total::default();
    let done = {
        let mut sink = |news: News<'_>| {
            // The command has been executed.
            appear(args, &mut begun);
            match news {
                News::Process { number, pid, parent } => recording.process(number, pid, parent),
                News::Log { process, kind, body, end } => recording.log(process, kind, body, end),
                News::Written { process, tid, bytes } => recording.records(process, tid, bytes),
                News::Ended { process, tid } => recording.ended(process, tid),
                News::Over { process } => recording.over(process),
                News::Gone { process } => recording.gone(process),
                News::Time => {
                    line.show(|| recording.summary());
                    if let Some(error) = (!said).then(|| recording.failed()).flatten() {
                        line.clear();
                        say_failed(args, &error);
                        said = true;
                    }
                }
            }
        };
        relive_launch::trace(&options, &mut |_, process| total.add(&process.statistics), &mut sink)?
    };
    appear(args, &mut begun);
    line.clear();
    if args.engine_stats {
        total.show();
    }
    say_if_incomplete(&done);
    let failed = recording.failed().filter(|_| !said);
    let recorded = recording.finish();
    match (&recorded.written, failed) {
        (Err(_), Some(error)) => say_failed(args, &error),
        (Err(error), None) if !said && !args.no_store => {
            eprintln!("relive: the end of {}: cannot write: {error}", output(args).display());
        }
        _ => {}
    }
    say_summary(args, &recorded);
    analyses.answer(&Traced::of_recorded(&about, &recorded), &whole);
    Ok(done.ended)
}

/// Takes what is written down away, and that is all.
fn without_recording(args: &Args, options: &Options) -> Result<Ended> {
    if args.start.is_some() || args.stop.is_some() {
        bail!("with --no-store, --start and --stop say which part is analysed: give --analyze too");
    }
    let mut raw = 0;
    let mut sink = |news: News<'_>| {
        if let News::Written { bytes, .. } = news {
            raw += bytes.as_ref().len() as u64;
        }
    };
    let mut total = Total::default();
    let done = relive_launch::trace(options, &mut |_, process| total.add(&process.statistics), &mut sink)?;
    if args.engine_stats {
        total.show();
    }
    say_if_incomplete(&done);
    say!("relive: {} bytes were written down, and not stored", grouped(raw));
    Ok(done.ended)
}

fn say_if_incomplete(done: &Done) {
    if !done.is_complete {
        eprintln!(
            "relive: the trace is not complete: there was no room for what all processes write down; a limit of \
             addresses (ulimit -v) for the command alone leaves more"
        );
    }
}

/// Nothing more is written.
fn say_failed(args: &Args, error: &str) {
    match args.no_store {
        false => eprintln!("relive: the trace ends here, and the command goes on: cannot write: {error}"),
        true => eprintln!(
            "relive: what has to be looked at twice (races, hot-paths) is only looked at up to here, as more does not fit in \
             memory ({error}): give more with --analysis-memory, or store the trace with -o"
        ),
    }
}

fn say_summary(args: &Args, recorded: &Recorded) {
    let Recorded { summary, written, .. } = recorded;
    if let Some((tid, error)) = &summary.wrong {
        eprintln!("relive: the trace of thread {tid} is not complete: {error}");
    }
    let what = || {
        let threads = crate::output::several(summary.threads, "thread");
        format!("{} instructions of {threads}", grouped(summary.instructions))
    };
    if args.no_store {
        say!("relive: {}, not stored", what());
    } else if written.is_ok() {
        say!("relive: {} in {} bytes: {}", what(), grouped(summary.len), output(args).display());
    }
}

/// Where the trace goes.
fn output(args: &Args) -> PathBuf {
    args.output.clone().unwrap_or_else(|| {
        let mut name = PathBuf::from(&args.command[0]).file_name().unwrap_or_default().to_owned();
        name.push(".rtrace");
        name.into()
    })
}

/// The trace stands under its name.
fn appear(args: &Args, begun: &mut Option<Begun>) {
    if let Some(mut begun) = begun.take()
        && let Err(error) = begun.appear()
    {
        eprintln!("relive: cannot write {}: {error}", output(args).display());
    }
}

/// Where the whole trace will be, and the file that it is written to.
fn begin(args: &Args, analyses: &Analyses<'_>) -> Result<(Whole, Option<File>, Option<Begun>)> {
    if args.no_store && !analyses.look_later() {
        return Ok((Whole::InMemory(None), None, None));
    }
    if args.no_store {
        let file = relive_launch::memory::file()?;
        return Ok((Whole::InMemory(Some(file.try_clone()?)), Some(file), None));
    }
    let path = output(args);
    let (file, begun) = Begun::create(&path).with_context(|| {
        format!(
            "cannot write {}: is the folder there, and writable? Name another place with -o",
            path.display()
        )
    })?;
    Ok((Whole::At(path), Some(file), Some(begun)))
}

/// How the trace is made.
fn about(args: &Args) -> About {
    let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    About {
        version: env!("CARGO_PKG_VERSION").to_string(),
        command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        began,
        memory: !args.control_flow_only,
        order: !args.control_flow_only,
        layout: Layout::of_this_processor(relive_launch::processor::enabled_state()),
    }
}

/// A number of instructions, or the beginning of a function.
fn point(text: &str) -> Point {
    if let Ok(count) = text.replace(['_', ','], "").parse() {
        return Point::Instructions(count);
    }
    let (name, functions) = (text.to_string(), Mutex::new(Functions::default()));
    Point::Place(Arc::new(move |process: &Process, unit: &Unit| {
        let mut functions = functions.lock().unwrap_or_else(PoisonError::into_inner);
        unit.pieces.iter().any(|&(start, _)| functions.begins(process, unit, start, &name))
    }))
}

/// A number of bytes, with K, M or G for 2¹⁰, 2²⁰ and 2³⁰.
fn size(text: &str) -> Result<u64, String> {
    let (number, shift) = match text.as_bytes().last().map(u8::to_ascii_uppercase) {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let wrong = || format!("{text} is not a size, as in 100M");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).filter(|&size| size > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes() {
        assert_eq!(size("100"), Ok(100));
        assert_eq!(size("3k"), Ok(3 << 10));
        assert_eq!(size("100M"), Ok(100 << 20));
        assert_eq!(size("2G"), Ok(2 << 30));
        for wrong in ["", "M", "0", "-1", "1.5G", "99999999999G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
