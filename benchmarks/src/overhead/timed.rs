//! Processor time of a program and its children, without that of the script that runs it.

use super::subjects::Subject;
use anyhow::{Context, Result, ensure};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use wait4::Wait4;

/// Put before a program by [`run`].
#[derive(clap::Args)]
pub(crate) struct TimeOptions {
    /// A line with the microseconds is added to this file
    output: PathBuf,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

/// Runs a program, notes its time, and passes its exit status on.
pub(crate) fn time_child(options: &TimeOptions) -> Result<i32> {
    let mut child = Command::new(&options.command[0])
        .args(&options.command[1..])
        .spawn()
        .with_context(|| format!("cannot run {:?}", options.command))?;
    let used = child.wait4()?;
    let time = used.rusage.utime + used.rusage.stime;
    writeln!(OpenOptions::new().append(true).create(true).open(&options.output)?, "{}", time.as_micros())?;
    Ok(used.status.code().unwrap_or(128))
}

/// What one run took and showed.
pub(crate) struct Timed {
    pub(crate) time: Duration,
    pub(crate) output: (Option<i32>, Vec<u8>),
}

/// Runs a variant without an old profile. Every kind of counter writes below `scratch`.
pub(crate) fn run(subject: &Subject, binary: &Path, scratch: &Path) -> Result<Timed> {
    run_under("", subject, binary, scratch)
}

/// The same with a command before it whose own time does not count.
pub(crate) fn run_under(prefix: &str, subject: &Subject, binary: &Path, scratch: &Path) -> Result<Timed> {
    let profiles = scratch.join("profiles");
    if profiles.exists() {
        std::fs::remove_dir_all(&profiles)?;
    }
    std::fs::create_dir(&profiles)?;
    let times = profiles.join("times");
    let own = std::env::current_exe()?;
    let runner = format!("{prefix} {} time-child {}", own.display(), times.display());
    let runner = runner.trim_start();
    let mut command = subject.command(binary, runner, scratch);
    command
        .env("RELIVE_PROFILE", profiles.join("relive.rprof"))
        .env("GCOV_PREFIX", &profiles)
        .env("LLVM_PROFILE_FILE", profiles.join("%p.profraw"));
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let text = std::fs::read_to_string(&times)
        .with_context(|| format!("no times: {}", String::from_utf8_lossy(&output.stderr)))?;
    let micros = text.lines().map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    ensure!(micros > 0, "no time was measured");
    Ok(Timed { time: Duration::from_micros(micros), output: (output.status.code(), output.stdout) })
}
