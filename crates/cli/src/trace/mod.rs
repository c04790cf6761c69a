//! `relive trace`: runs a command under the engine and writes down everything it does.

mod progress;

use crate::functions::Functions;
use crate::output::grouped;
use anyhow::{Context as _, Result};
use clap::Args as ClapArgs;
use progress::Line;
use relive_launch::collect::News;
use relive_launch::{Ended, Options, Trace};
use relive_trace::process::Process;
use relive_trace::recording::{Point, Window};
use relive_trace::units::Unit;
use relive_trace::{About, Layout, Recording, Summary};
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

    /// Take away what threads write down and store nothing: shows what recording alone costs
    #[arg(long, conflicts_with_all = ["output", "ring", "start", "stop"])]
    no_store: bool,

    /// Whether what the command starts is traced too. If not, its forks run on without being written down, and programs
    /// that are executed run by themselves
    #[arg(long, value_name = "yes|no", value_parser = ["yes", "no"], default_value = "yes", default_missing_value = "yes",
        num_args = 0..=1, require_equals = true, hide_possible_values = true)]
    follow_children: String,

    /// How much translated code a process may have before it is given up and made anew, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=65536))]
    cache_size: u64,

    /// Say nothing on standard error but what went wrong
    #[arg(long, short)]
    quiet: bool,

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
        time: false,
        verify: false,
        follow: args.follow_children == "yes",
        cache_len: args.cache_size << 20,
        trace: Some(Trace { memory: !args.control_flow_only, order: !args.control_flow_only }),
    };
    let mut recording = match args.no_store {
        true => None,
        false => Some(begin(args)?),
    };
    let mut line = Line::new(args.quiet);
    let mut raw = 0;
    let mut said = false;
    let done = {
        let mut sink = |news: &News<'_>| {
            if let News::Written { bytes, .. } = news {
                raw += bytes.len() as u64;
            }
            let Some(recording) = &mut recording else { return };
            match *news {
                News::Process { number, pid, parent } => recording.process(number, pid, parent),
                News::Log { process, kind, body, end } => recording.log(process, kind, body, end),
                News::Written { process, tid, bytes } => recording.records(process, tid, bytes),
                News::Over { process } => recording.over(process),
                News::Time => {
                    line.show(|| recording.summary());
                    if let Some(error) = (!said).then(|| recording.failed()).flatten() {
                        line.clear();
                        eprintln!(
                            "relive: the trace ends here, and the command goes on: cannot write: {error}"
                        );
                        said = true;
                    }
                }
            }
        };
        relive_launch::trace(&options, &mut |_, _| {}, &mut sink)?
    };
    line.clear();
    if !done.is_complete {
        eprintln!(
            "relive: the trace is not complete: there was no room for what all processes write down; a limit of \
             addresses (ulimit -v) for the command alone leaves more"
        );
    }
    match recording {
        None if !args.quiet => eprintln!("relive: {} bytes were written down, and not stored", grouped(raw)),
        None => {}
        Some(recording) => {
            let failed = recording.failed().is_some();
            let done = recording.finish();
            if let Ok(Summary { wrong: Some((tid, error)), .. }) = &done {
                eprintln!("relive: the trace of thread {tid} is not complete: {error}");
            }
            match done {
                Ok(summary) if !args.quiet => eprintln!(
                    "relive: {} instructions of {} in {} bytes: {}",
                    grouped(summary.instructions),
                    crate::output::several(summary.threads, "thread"),
                    grouped(summary.len),
                    output(args).display()
                ),
                Ok(_) => {}
                Err(_) if failed => {}
                Err(error) => {
                    eprintln!("relive: the end of {}: cannot write: {error}", output(args).display())
                }
            }
        }
    }
    Ok(done.ended)
}

/// Where the trace goes.
fn output(args: &Args) -> PathBuf {
    args.output.clone().unwrap_or_else(|| {
        let mut name = PathBuf::from(&args.command[0]).file_name().unwrap_or_default().to_owned();
        name.push(".rtrace");
        name.into()
    })
}

fn begin(args: &Args) -> Result<Recording> {
    let path = output(args);
    let file = File::create(&path).with_context(|| {
        format!(
            "cannot write {}: is the folder there, and writable? Name another place with -o",
            path.display()
        )
    })?;
    let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let about = About {
        version: env!("CARGO_PKG_VERSION").to_string(),
        command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        began,
        memory: !args.control_flow_only,
        order: !args.control_flow_only,
        layout: Layout::of_this_processor(relive_launch::processor::enabled_state()),
    };
    let window = Window { start: args.start.as_deref().map(point), stop: args.stop.as_deref().map(point) };
    Ok(Recording::of(file, &about, args.ring, window))
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
