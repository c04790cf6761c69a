//! `relive run`: runs a command under the engine and leaves a profile of everything it executed.

pub(crate) mod exempt;
mod modules;
mod perf_map;
pub(crate) mod save;

use self::exempt::Except;
use self::save::{Describe, save_all};
use crate::output::grouped;
use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use relive_abi::engine::Statistics;
use relive_launch::arena::{Arena, Process};
use relive_launch::seen::Seen;
use relive_launch::{Done, Ended, Error, Options};
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

const EXAMPLES: &str = "\
EXAMPLES:
  relive run -- ./app --option input
      runs it as if nothing were there, and leaves app.rprof: the program and every library it used
  relive run -o tests.rprof -- make check
      all programs that `make check` starts, in one profile
  relive report tests.rprof
      what they did
  relive run --except plan.json -o fresh.rprof -- ./app-1.1 input && relive merge carried.rprof fresh.rprof --plan plan.json -o all.rprof
      functions whose old counts hold, by a plan of `relive migrate`, are not counted and cost nothing
  relive run --attach 4711 --for 30s -o server.rprof
      a server that is running already, and what it starts: after half a minute it goes on as if nothing had been. Without
      --for, until Ctrl-C

The exit status is that of the command; with --attach, 0. 125: it could not be measured. 126: it could not be executed.
127: it was not found.";

/// Arguments of `relive run`.
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where the profile goes [default: the name of the command with .rprof]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    describe: Describe,

    /// Whether what the command starts is measured too. If not, its forks run on without being written down, and programs
    /// that are executed run by themselves
    #[arg(long, value_name = "yes|no", value_parser = ["yes", "no"], default_value = "yes", default_missing_value = "yes",
        num_args = 0..=1, require_equals = true, hide_possible_values = true)]
    follow_children: String,

    /// How much translated code a process may have before it is given up and made anew, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=65536))]
    cache_size: u64,

    /// Do not count functions that a plan (`relive migrate --plan`) says need not be measured: `relive merge --plan` then adds what is
    /// known of them. Can be given several times, for programs and libraries
    #[arg(long, value_name = "PLAN", conflicts_with = "no_count")]
    except: Vec<PathBuf>,

    /// Run it without counting anything and leave no profile: shows what the engine alone costs
    #[arg(long, conflicts_with_all = ["output", "per_process", "all_code"])]
    no_count: bool,

    /// Decode every translation again and look whether it does what the program does; ends the process, with 125, if
    /// one does not
    #[arg(long)]
    verify: bool,

    /// Say on standard error what the engine did: translations, links, look-ups, time
    #[arg(long)]
    engine_stats: bool,

    /// Measure a process that is running already, until it ends or this command is interrupted; then it goes on
    /// without the engine
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    attach: Option<i32>,

    /// The same for so long at most: 10s, 500ms, 5m, 1h
    #[arg(long = "for", value_name = "DURATION", value_parser = duration, requires = "attach")]
    time: Option<Duration>,

    /// The command and its arguments
    #[arg(required_unless_present = "attach", trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Runs what was asked for; ends as it ended.
pub(crate) fn run(args: &Args) -> ExitCode {
    let output = output(args);
    if let Err(error) = check_place(args, &output) {
        eprintln!("relive: {error:#}");
        return ExitCode::from(125);
    }
    let except = match Except::read(&args.except, &args.command) {
        Ok(except) => except,
        Err(error) => {
            eprintln!("relive: {error:#}");
            return ExitCode::from(125);
        }
    };
    let options = Options {
        command: args.command.clone(),
        count: !args.no_count,
        time: args.engine_stats,
        verify: args.verify,
        follow: args.follow_children == "yes",
        cache_len: args.cache_size << 20,
        trace: None,
        exempt: except.code.clone(),
    };
    let since = SystemTime::now();
    let mut total = Total::default();
    // All together, or each process by its number.
    let mut seen: BTreeMap<u32, Seen> = BTreeMap::new();
    let mut each = |arena: &Arena, process: &Process<'_>| {
        total.add(&process.statistics);
        if !args.no_count {
            let number = if args.describe.per_process { process.number + 1 } else { 0 };
            seen.entry(number).or_insert_with(Seen::nothing).add(arena, process);
        }
    };
    let run = match args.attach {
        Some(pid) => relive_launch::measure(pid, &options, args.time, &mut each),
        None => relive_launch::run(&options, &mut each),
    };
    let Done { ended, is_complete } = match run {
        Ok(done) => done,
        Err(error) => {
            eprintln!("relive: {error}");
            return ExitCode::from(status(&error.into()));
        }
    };
    if !args.no_count && !is_complete {
        eprintln!(
            "relive: the profile is not complete: there was no room for the counters of all processes; a limit of \
             addresses (ulimit -v) for the command alone leaves more"
        );
    }
    if args.engine_stats {
        total.show();
    }
    if args.verify {
        total.show_verified();
    }
    if !args.no_count
        && let Err(error) = save_all(&args.describe, &output, &seen, since, HashSet::new(), except)
    {
        eprintln!("relive: {error:#}");
        return ExitCode::from(125);
    }
    match ended {
        Ended::Exit(code) => ExitCode::from(code as u8),
        Ended::Signal(signal) => relive_launch::end_by(signal),
    }
}

/// The exit status that says why a command was not run.
pub(crate) fn status(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        Some(Error::Command { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => 127,
        Some(Error::Command { .. }) => 126,
        _ => 125,
    }
}

/// What the engine did, over all processes.
#[derive(Default)]
pub(crate) struct Total {
    processes: u64,
    sum: Statistics,
}

impl Total {
    pub(crate) fn add(&mut self, one: &Statistics) {
        self.processes += 1;
        self.sum.add(one);
    }

    pub(crate) fn show(&self) {
        let Self { processes, sum } = self;
        eprintln!("processes       {:>15}", grouped(*processes));
        eprintln!("translations    {:>15}   in {} bytes of code", grouped(sum.units), grouped(sum.code));
        eprintln!("  verified      {:>15}", grouped(sum.verified));
        eprintln!("  hot traces    {:>15}", grouped(sum.traces));
        eprintln!("links           {:>15}", grouped(sum.links));
        eprintln!("engine entries  {:>15}", grouped(sum.entries));
        eprintln!(
            "  returns       {:>15}   (and, without counting, jumps) that were not in the table",
            grouped(sum.returns)
        );
        eprintln!("  targets       {:>15}   of jumps and calls that were new", grouped(sum.targets));
        eprintln!("  system calls  {:>15}", grouped(sum.kernel_calls));
        eprintln!("signals         {:>15}", grouped(sum.signals));
        eprintln!("code given up   {:>15}   translations of code that changed", grouped(sum.invalid));
        eprintln!("cache renewed   {:>15}   times, as it was full", grouped(sum.renewals));
        eprintln!("time in engine  {:>15}   microseconds", grouped(sum.time / 1000));
    }

    fn show_verified(&self) {
        let Statistics { verified, unverified, .. } = self.sum;
        eprint!("relive: {} translations do what the program does", grouped(verified));
        match unverified {
            0 => eprintln!(),
            n => eprintln!("; {} were not looked at, as they have rare instructions", grouped(n)),
        }
    }
}

/// Where the profile goes.
fn output(args: &Args) -> PathBuf {
    args.output.clone().unwrap_or_else(|| {
        let program = match args.attach {
            Some(pid) => std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default(),
            None => args.command[0].clone().into(),
        };
        let mut name = program.file_name().unwrap_or_default().to_owned();
        name.push(".rprof");
        name.into()
    })
}

/// Better before the command has run than after.
fn check_place(args: &Args, output: &Path) -> Result<()> {
    let folder = match output.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    if !args.no_count && !folder.is_dir() {
        bail!(
            "cannot write {}: there is no folder {}; name another place with -o",
            output.display(),
            folder.display()
        );
    }
    Ok(())
}

/// A number and its unit; seconds if there is none.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let seconds = match unit {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("{unit} is none of ms, s, m, h")),
    };
    let number: f64 = number.parse().map_err(|_| format!("{text} is not a number with a unit, as in 10s"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| format!("{text} is no duration"))
}

#[cfg(test)]
mod tests {
    use super::duration;
    use std::time::Duration;

    #[test]
    fn durations() {
        assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "s", "-1s", "3 days", "1e999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
