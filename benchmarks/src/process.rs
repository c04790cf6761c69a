//! Running programs: their output as text, or with a time limit and the resources they took.
//!
//! Output goes to files of our own, never to `/dev/null`: see the lessons on tools run as root.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use wait4::Wait4;

/// Runs a program that must succeed and returns what it printed; bytes that are not UTF-8 are replaced.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let output =
        command.stderr(Stdio::piped()).output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// How a program with a time limit ended.
pub(crate) enum Ending {
    /// It ended by itself.
    Exited(ExitStatus),
    /// It was killed when its time was over.
    TimedOut,
}

/// Runs with standard output and error in these two files, and kills it after `limit`.
pub(crate) fn run_limited(command: &mut Command, out: &Path, err: &Path, limit: Duration) -> Result<Ending> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(File::create(out)?)
        .stderr(File::create(err)?)
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ending::Exited(status));
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(Ending::TimedOut);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// What one run took.
#[derive(Clone, Copy)]
pub(crate) struct Usage {
    /// Wall time.
    pub(crate) wall: Duration,
    /// Peak resident memory in bytes.
    pub(crate) peak_memory: u64,
}

/// Runs to the end with standard output in `out`, and measures it.
pub(crate) fn measure(command: &mut Command, out: &Path) -> Result<Usage> {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(File::create(out)?)
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    let used = child.wait4()?;
    let wall = start.elapsed();
    if !used.status.success() {
        bail!("{command:?}: {}", used.status);
    }
    Ok(Usage { wall, peak_memory: used.rusage.maxrss })
}
