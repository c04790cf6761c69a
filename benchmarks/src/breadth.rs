//! Every ELF executable and library of this machine through `relive inspect --json`: nothing may crash or hang, and
//! what is not understood must have a reason.
//!
//! The files are strangers, so each run is an unprivileged user's (when we are root), in a scratch folder, with a
//! time limit.

pub(crate) mod files;
mod outcome;
mod summary;

use crate::process::{Ending, run_limited};
use anyhow::{Context, Result};
use outcome::Outcome;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// One line per file goes here
    #[arg(long, default_value = "target/breadth.tsv")]
    output: PathBuf,
    /// Seconds per file
    #[arg(long, default_value_t = 60)]
    limit: u64,
    /// Files at a time
    #[arg(long, default_value_t = 2)]
    parallel: usize,
    /// At most so many files (for a quick look)
    #[arg(long)]
    at_most: Option<usize>,
    /// Folders or files to go through
    #[arg(default_values = ["/usr/bin", "/usr/sbin", "/usr/lib"])]
    roots: Vec<PathBuf>,
}

/// What came of one file.
struct Inspected {
    file: PathBuf,
    seconds: f64,
    outcome: Outcome,
}

pub(crate) fn run(options: &Options) -> Result<u64> {
    let scratch = tempfile::tempdir()?;
    let relive = lend(&options.relive, scratch.path())?;
    let mut files = files::elf_files(&options.roots);
    files.truncate(options.at_most.unwrap_or(usize::MAX));
    eprintln!("{} files", files.len());
    let inspected = inspect_all(&files, &relive, scratch.path(), options)?;
    summary::write_tsv(&inspected, &options.output)?;
    Ok(summary::print(&inspected))
}

/// A copy of the binary that any user may run, and a scratch folder they may enter.
pub(crate) fn lend(relive: &Path, scratch: &Path) -> Result<PathBuf> {
    std::fs::set_permissions(scratch, std::fs::Permissions::from_mode(0o755))?;
    let copy = scratch.join("relive");
    std::fs::copy(relive, &copy).with_context(|| format!("cannot copy {}", relive.display()))?;
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755))?;
    Ok(copy)
}

fn inspect_all(
    files: &[PathBuf],
    relive: &Path,
    scratch: &Path,
    options: &Options,
) -> Result<Vec<Inspected>> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Inspected>> = Mutex::new(Vec::new());
    let work = |worker: usize| -> Result<()> {
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let inspected = inspect(file, relive, scratch, worker, Duration::from_secs(options.limit))?;
            done.lock().expect("no worker panics").push(inspected);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..options.parallel).map(|worker| scope.spawn(move || work(worker))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
    })?;
    let mut inspected = done.into_inner().expect("no worker panics");
    inspected.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(inspected)
}

fn inspect(file: &Path, relive: &Path, scratch: &Path, worker: usize, limit: Duration) -> Result<Inspected> {
    let (out, err) = (scratch.join(format!("{worker}.out")), scratch.join(format!("{worker}.err")));
    let mut command = unprivileged(relive)?;
    command.arg("inspect").arg(file).arg("--json").current_dir(scratch);
    let start = Instant::now();
    let ending = run_limited(&mut command, &out, &err, limit)?;
    let seconds = start.elapsed().as_secs_f64();
    let outcome = match ending {
        Ending::TimedOut => Outcome::Hang,
        Ending::Exited(status) => Outcome::of(
            status,
            &std::fs::read_to_string(&out).unwrap_or_default(),
            &std::fs::read_to_string(&err).unwrap_or_default(),
        ),
    };
    Ok(Inspected { file: file.to_owned(), seconds, outcome })
}

/// As root, run as nobody; otherwise we are unprivileged already.
pub(crate) fn unprivileged(program: &Path) -> Result<Command> {
    let status = std::fs::read_to_string("/proc/self/status").context("/proc/self/status")?;
    let is_root = status
        .lines()
        .any(|line| line.strip_prefix("Uid:").is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0")));
    if !is_root {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--no-new-privs", "--"])
        .arg(program);
    Ok(command)
}
