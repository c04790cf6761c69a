//! Recordings that take long: does the memory that relive takes stay within a bound, and is the trace whole?
//!
//! Threads at work for minutes, very many threads that live short, and many processes one after the other. While each is recorded, it is
//! looked up what relive itself has in memory: of its own, and of what it shares with the program. Violations: more than `--most`
//! altogether; much more in the second half of the time than in the first; a trace that does not tell as many instructions as were
//! recorded.

use crate::corpus;
use crate::process::output_of;
use crate::table::Table;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// How long threads are at work
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// How many threads live short
    #[arg(long, default_value_t = 100_000)]
    threads: u64,
    /// How many processes come one after the other
    #[arg(long, default_value_t = 2000)]
    processes: u64,
    /// What relive may have in memory
    #[arg(long, default_value_t = 512, value_name = "MIB")]
    most: u64,
    /// What to do: work, threads, processes [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Where traces are while they are needed: 10 minutes of work take some gigabytes
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    scratch: PathBuf,
}

/// How often to look.
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) fn run(options: &Options) -> Result<u64> {
    let relive = options.relive.canonicalize().context("no relive: --relive names it")?;
    let scratch = tempfile::tempdir_in(&options.scratch)?;
    let program = scratch.path().join("workers");
    let source = corpus::scripts().join("drivers/workers.c");
    output_of(Command::new("gcc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(source))?;
    let program = program.display().to_string();
    let seconds = (options.minutes * 60.0).ceil().to_string();
    let (threads, processes) = (options.threads.to_string(), options.processes);
    let script = format!("for i in $(seq {processes}); do /bin/true; done");
    let all = [
        ("work", [program.as_str(), "long", &seconds]),
        ("threads", [program.as_str(), "short", &threads]),
        ("processes", ["bash", "-c", &script]),
    ];
    let mut table = Table::new(&[
        "program",
        "seconds",
        "threads",
        "M instructions",
        "MB stored",
        "MiB own",
        "MiB shared",
        "MiB first half",
        "MiB second half",
        "whole",
    ]);
    let mut violations = 0;
    for (name, command) in all {
        if !options.only.is_empty() && !options.only.iter().any(|own| own == name) {
            continue;
        }
        eprintln!("{name}");
        let trace = scratch.path().join("long.rtrace");
        let Recorded { seconds, said, samples } = record(&relive, &trace, &command)?;
        let told = replayed(&relive, &trace)?;
        let [first, second] = halves(&samples);
        let most = |of: fn(&Sample) -> u64| samples.iter().map(of).max().unwrap_or(0);
        violations += u64::from(first.max(second) > options.most << 20);
        violations += u64::from(second > first + first / 10 + (32 << 20));
        violations += u64::from(told != said.instructions);
        let mib = |bytes: u64| (bytes >> 20).to_string();
        table.row(vec![
            name.to_owned(),
            format!("{seconds:.0}"),
            said.threads.to_string(),
            (said.instructions / 1_000_000).to_string(),
            (said.bytes / 1_000_000).to_string(),
            mib(most(|sample| sample.own)),
            mib(most(|sample| sample.shared)),
            mib(first),
            mib(second),
            if told == said.instructions { "yes".to_owned() } else { format!("{told} told") },
        ]);
        std::fs::remove_file(&trace)?;
    }
    println!("\n{table}\nWhat relive itself had in memory, at most. violations: {violations}");
    Ok(violations)
}

/// What relive has in memory at some time, in bytes.
#[derive(Clone, Copy)]
struct Sample {
    own: u64,
    shared: u64,
}

impl Sample {
    fn all(&self) -> u64 {
        self.own + self.shared
    }
}

/// The most there was in each half of the time.
fn halves(samples: &[Sample]) -> [u64; 2] {
    let (first, second) = samples.split_at(samples.len() / 2);
    [first, second].map(|half| half.iter().map(Sample::all).max().unwrap_or(0))
}

/// What relive says at the end of a recording.
struct Said {
    instructions: u64,
    threads: u64,
    bytes: u64,
}

struct Recorded {
    seconds: f64,
    said: Said,
    samples: Vec<Sample>,
}

fn record(relive: &Path, trace: &Path, program: &[&str]) -> Result<Recorded> {
    let errors = trace.with_extension("err");
    let mut command = Command::new(relive);
    command.arg("trace").arg("-o").arg(trace).arg("--").args(program);
    command.stdin(Stdio::null()).stdout(File::create(trace.with_extension("out"))?);
    let start = Instant::now();
    let mut child = command.stderr(File::create(&errors)?).spawn()?;
    let mut samples = Vec::new();
    let status = loop {
        // It may end at any time, and then there is nothing to see.
        samples.extend(sample(child.id()));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(PAUSE);
    };
    let seconds = start.elapsed().as_secs_f64();
    let text = std::fs::read_to_string(errors)?;
    ensure!(status.success(), "{command:?}: {status}: {text}");
    let said = said(&text).with_context(|| format!("cannot understand: {text}"))?;
    Ok(Recorded { seconds, said, samples })
}

fn sample(pid: u32) -> Option<Sample> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let bytes = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
    };
    Some(Sample { own: bytes("RssAnon:")?, shared: bytes("RssShmem:")? })
}

/// `relive: 1,234 instructions of 5 threads in 678 bytes: FILE`
fn said(text: &str) -> Option<Said> {
    let line = text.lines().rev().find(|line| line.contains(" instructions of "))?;
    let number = |before: &str| line.split(before).next()?.rsplit(' ').next()?.replace(',', "").parse().ok();
    Some(Said {
        instructions: number(" instruction")?,
        threads: number(" thread")?,
        bytes: number(" bytes")?,
    })
}

/// How many instructions a trace tells of, replayed one by one.
fn replayed(relive: &Path, trace: &Path) -> Result<u64> {
    let text = output_of(Command::new(relive).arg("replay").arg(trace).arg("--count"))?;
    let of_thread = |line: &str| line.split_whitespace().nth(1)?.replace(',', "").parse::<u64>().ok();
    text.lines().skip(1).map(|line| of_thread(line).context("no count")).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_at_the_end() {
        let said =
            said("relive: 1,234 instructions of 5 threads in 678 bytes: a.rtrace\n").expect("all of it");
        assert_eq!((said.instructions, said.threads, said.bytes), (1234, 5, 678));
    }

    #[test]
    fn the_most_of_each_half() {
        let samples = [3, 9, 4, 5].map(|own| Sample { own, shared: 1 });
        assert_eq!(halves(&samples), [10, 6]);
    }
}
