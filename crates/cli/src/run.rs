//! `relive run`: runs a command under the engine and leaves a profile of everything it executed.

use crate::build::{self, Reading};
use crate::output::{grouped, write_to};
use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use relive_abi::engine::Statistics;
use relive_image::loader::{Loaded, Options as LoadOptions};
use relive_image::watch::Watch;
use relive_launch::arena::Arena;
use relive_launch::seen::{File, Origin, Seen};
use relive_launch::{Ended, Error, Options};
use relive_probe::describe::build_id;
use relive_probe::observed::{Observed, To};
use relive_profile::file;
use relive_profile::model::{Foreign, Module, Profile};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
EXAMPLES:
  relive run -- ./app --option input
      runs it as if nothing were there, and leaves app.rprof: the program and every library it used
  relive run -o tests.rprof -- make check
      all programs that `make check` starts, in one profile
  relive report tests.rprof
      what they did
  relive run --attach 4711 --for 30s -o server.rprof
      a server that is running already, and what it starts: after half a minute it goes on as if nothing had been. Without
      --for, until Ctrl-C

The exit status is that of the command; with --attach, 0. 125: it could not be measured. 126: it could not be executed. 127: it was
not found.";

/// Arguments of `relive run`.
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where the profile goes [default: the name of the command with .rprof]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Only files whose path matches: * is anything, ? one character; can be given several times
    #[arg(long, value_name = "GLOB")]
    modules: Vec<String>,

    /// Run it without counting anything and leave no profile: shows what the engine alone costs
    #[arg(long, conflicts_with = "output")]
    no_count: bool,

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
    let options = Options { command: args.command.clone(), count: !args.no_count, time: args.engine_stats };
    let done = match args.attach {
        Some(pid) => relive_launch::measure(pid, &options, args.time).map(|arena| (Ended::Exit(0), arena)),
        None => relive_launch::run(options),
    };
    let (ended, arena) = match done {
        Ok(done) => done,
        Err(error) => {
            eprintln!("relive: {error}");
            return ExitCode::from(match error {
                Error::Command { error, .. } if error.kind() == std::io::ErrorKind::NotFound => 127,
                Error::Command { .. } => 126,
                _ => 125,
            });
        }
    };
    if !args.no_count && !arena.is_complete() {
        eprintln!(
            "relive: the profile is not complete: there was no room for the counters of all processes; a limit of \
             addresses (ulimit -v) for the command alone leaves more"
        );
    }
    if args.engine_stats {
        show_statistics(&arena);
    }
    if !args.no_count
        && let Err(error) = save(args, &output, &Seen::new(&arena))
    {
        eprintln!("relive: {error:#}");
        return ExitCode::from(125);
    }
    match ended {
        Ended::Exit(code) => ExitCode::from(code as u8),
        Ended::Signal(signal) => relive_launch::end_by(signal),
    }
}

/// What the engine did, over all processes.
fn show_statistics(arena: &Arena) {
    let processes = arena.processes();
    let sum = |of: fn(&Statistics) -> u64| grouped(processes.iter().map(|p| of(&p.statistics)).sum());
    eprintln!("processes       {:>15}", grouped(processes.len() as u64));
    eprintln!("translations    {:>15}   in {} bytes of code", sum(|s| s.units), sum(|s| s.code));
    eprintln!("links           {:>15}", sum(|s| s.links));
    eprintln!("engine entries  {:>15}", sum(|s| s.entries));
    eprintln!("  returns       {:>15}   that were not in the table", sum(|s| s.returns));
    eprintln!("  targets       {:>15}   of jumps and calls that were new", sum(|s| s.targets));
    eprintln!("  system calls  {:>15}", sum(|s| s.kernel_calls));
    eprintln!("signals         {:>15}", sum(|s| s.signals));
    eprintln!("code given up   {:>15}   translations of code that changed", sum(|s| s.invalid));
    eprintln!("time in engine  {:>15}   microseconds", sum(|s| s.time / 1000));
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

fn save(args: &Args, output: &Path, seen: &Seen) -> Result<()> {
    let files: Vec<Option<Known>> = seen.files.iter().map(|file| Known::new(&file.origin)).collect();
    let mut modules = Vec::new();
    for (i, seen_file) in seen.files.iter().enumerate() {
        let Origin::File(path) = &seen_file.origin else { continue };
        let wanted =
            args.modules.is_empty() || args.modules.iter().any(|glob| matches(glob, &path.to_string_lossy()));
        if !wanted || files[i].is_none() || seen_file.straight.is_empty() {
            continue;
        }
        modules.push(module(path, i, seen_file, &files)?);
    }
    let profile = Profile { modules };
    write_to(Some(output), |out| Ok(out.write_all(&file::write(&profile))?))
}

/// What other modules need to know of a file.
struct Known {
    foreign: Foreign,
    /// Its code: where it is in the file, its length, and where it is linked.
    code: Vec<(u64, u64, u64)>,
}

impl Known {
    /// `None` if it is none that can be read: then what went there counts as generated.
    fn new(origin: &Origin) -> Option<Self> {
        let Origin::File(path) = origin else { return None };
        let loaded =
            Loaded::open(path, &LoadOptions { find_debug_file: false, ..LoadOptions::default() }).ok()?;
        let image = loaded.image().ok()?;
        let foreign = Foreign { build_id: build_id(&image), path: path.to_string_lossy().into_owned() };
        let code = image.elf.segments.iter().filter(|s| s.executable);
        let code = code.map(|s| (s.offset, s.data.len() as u64, s.range.start.0)).collect();
        Some(Self { foreign, code })
    }

    fn link_address(&self, offset: u64) -> Option<u64> {
        let holds = |&&(at, len, _): &&(u64, u64, u64)| offset.wrapping_sub(at) < len;
        self.code.iter().find(holds).map(|&(at, _, link)| link + (offset - at))
    }
}

/// Describes a file and fills in what was seen of it.
fn module(path: &Path, number: usize, seen: &File, files: &[Option<Known>]) -> Result<Module> {
    let reading = Reading { debug_files: true, lines: true };
    build::from_binary(path, reading, &Watch::default(), |mut module, _| {
        let link = |offset: u64| files[number].as_ref()?.link_address(offset);
        // The end of code lies behind the last byte of it.
        let end = |offset: u64| link(offset - 1).map(|at| at + 1);
        let mut observed = Observed::default();
        observed.processes = seen.processes;
        let straight = seen.straight.iter();
        observed.set_straight(straight.filter_map(|&(from, to, count)| Some((link(from)?, end(to)?, count))));
        for (&(from, to), &count) in &seen.taken {
            if let (Some(from), Some(to)) = (end(from), link(to)) {
                observed.add_taken(from, to, count);
            }
        }
        for (&(site, (file, to)), &count) in &seen.targets {
            let Some(site) = link(site) else { continue };
            let to = match &files[file] {
                _ if file == number => link(to).map(To::Own),
                Some(known) => known.link_address(to).map(|at| To::Foreign(known.foreign.clone(), at)),
                None => None,
            };
            observed.add_target(site, to.unwrap_or(To::Generated), count);
        }
        observed.fill(&mut module);
        Ok(module)
    })
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

/// Whether a path looks like that.
fn matches(glob: &str, path: &str) -> bool {
    let mut rest = glob.chars();
    match rest.next() {
        None => path.is_empty(),
        Some('*') => {
            let ends = path.char_indices().map(|(at, _)| at).chain([path.len()]);
            ends.into_iter().any(|at| matches(rest.as_str(), &path[at..]))
        }
        Some(wanted) => {
            let mut path = path.chars();
            path.next().is_some_and(|c| wanted == '?' || c == wanted) && matches(rest.as_str(), path.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{duration, matches};
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

    #[test]
    fn globs() {
        assert!(matches("*/libc.so*", "/usr/lib/libc.so.6"));
        assert!(matches("*", ""));
        assert!(matches("/bin/?s", "/bin/ls"));
        assert!(!matches("/bin/?s", "/bin/cat"));
        assert!(!matches("libc.so", "/usr/lib/libc.so.6"));
    }
}
