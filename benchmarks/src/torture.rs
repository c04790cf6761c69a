//! Programs that make it hard for the engine (signals, threads, processes, code that changes), over and over again: each
//! run must behave as one without the engine, and end.

use crate::process::output_of;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Programs in the same folder that need to be built or told something, or differ by design: there is nothing to repeat.
const LEFT_OUT: [&str; 3] = ["far_away", "large", "restricted"];

#[derive(Args)]
pub(crate) struct Options {
    /// The relive under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// Where the programs are
    #[arg(long, default_value = "crates/cli/tests/run/programs")]
    programs: PathBuf,
    /// How often each is run
    #[arg(long, default_value_t = 1000)]
    repeat: u32,
    /// A run that takes longer hangs
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    limit: u64,
    /// Only programs whose names contain this
    #[arg(long)]
    only: Option<String>,
}

/// What can be seen of a run.
#[derive(PartialEq, Eq)]
struct Seen {
    status: String,
    out: Vec<u8>,
    err: Vec<u8>,
}

/// Builds and runs the programs. Returns how many runs were not as they should be.
pub(crate) fn run(options: &Options) -> Result<u64> {
    let relive = fs::canonicalize(&options.relive)
        .with_context(|| format!("{}: build it with `cargo build --release`", options.relive.display()))?;
    let folder = tempfile::tempdir()?;
    let limit = Duration::from_secs(options.limit);
    let mut violations = 0;
    println!("{:20} {:>6} {:>6} {:>6} {:>9} {:>9}", "program", "runs", "wrong", "hung", "native", "relive");
    for source in sources(&options.programs)? {
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_asked_for = options.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
        if LEFT_OUT.contains(&name.as_str()) || !is_asked_for {
            continue;
        }
        let program = folder.path().join(&name);
        build(&source, &program)?;
        let start = Instant::now();
        let Some(expected) = watch(&mut Command::new(&program), folder.path(), limit)? else {
            bail!("{name} hangs without relive");
        };
        let native = start.elapsed();
        let (mut wrong, mut hung, mut fastest) = (0u64, 0u64, Duration::MAX);
        for round in 0..options.repeat {
            let mut command = Command::new(&relive);
            command.arg("run");
            if round % 2 == 1 {
                command.arg("--no-count");
            } else {
                command.arg("-o").arg(folder.path().join("profile.rprof"));
                command.args(["--modules", &format!("*/{name}")]);
            }
            command.arg("--").arg(&program);
            let start = Instant::now();
            match watch(&mut command, folder.path(), limit)? {
                None => hung += 1,
                Some(seen) if seen == expected => fastest = fastest.min(start.elapsed()),
                Some(seen) => {
                    wrong += 1;
                    if wrong == 1 {
                        eprintln!("{name}: {}, not {}", seen.status, expected.status);
                        eprint!("{}", String::from_utf8_lossy(&seen.out));
                        eprint!("{}", String::from_utf8_lossy(&seen.err));
                    }
                }
            }
        }
        let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
        let fastest = if fastest == Duration::MAX { "-".to_owned() } else { seconds(fastest) };
        println!("{name:20} {:>6} {wrong:>6} {hung:>6} {:>9} {fastest:>9}", options.repeat, seconds(native));
        violations += wrong + hung;
    }
    Ok(violations)
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    found.retain(|path| path.extension().is_some_and(|end| end == "c" || end == "cc"));
    found.sort();
    Ok(found)
}

fn build(source: &Path, program: &Path) -> Result<()> {
    let compiler = if source.extension().is_some_and(|end| end == "cc") { "g++" } else { "gcc" };
    let mut command = Command::new(compiler);
    command.args(["-O2", "-w", "-o"]).arg(program).arg(source).args(["-lpthread", "-ldl", "-lrt"]);
    output_of(&mut command).map(drop)
}

/// Runs a command to its end; `None` if it had to be ended, with all that it has started.
fn watch(command: &mut Command, folder: &Path, limit: Duration) -> Result<Option<Seen>> {
    let (out, err) = (folder.join("out"), folder.join("err"));
    command.current_dir(folder).process_group(0).stdin(Stdio::null());
    command.stdout(File::create(&out)?).stderr(File::create(&err)?);
    let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > limit {
            output_of(Command::new("kill").arg("-KILL").arg("--").arg(format!("-{}", child.id())))?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    Ok(Some(Seen { status: status.to_string(), out: fs::read(out)?, err: fs::read(err)? }))
}
