//! Runs a command and keeps what it did, to be compared.

use crate::command::with_file;
use anyhow::{Context as _, Result};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often a running command is looked at.
const GLANCE: Duration = Duration::from_millis(2);

/// The command.
pub(crate) struct Subject<'a> {
    /// Program and arguments; `{}` in any of them stands for the file.
    pub(crate) command: &'a [OsString],
    /// What `{}` stands for.
    pub(crate) file: PathBuf,
    /// A folder for what it prints.
    pub(crate) scratch: &'a Path,
    /// Whether standard error counts.
    pub(crate) stderr: bool,
    /// When to give up.
    pub(crate) timeout: Duration,
}

/// What it did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    /// `None` if it had not ended in time.
    status: Option<ExitStatus>,
    stdout: Vec<u8>,
    stderr: Option<Vec<u8>>,
}

impl Subject<'_> {
    /// Runs it once.
    pub(crate) fn run(&self) -> Result<Outcome> {
        let words: Vec<OsString> =
            self.command.iter().map(|word| with_file(word, self.file.as_os_str())).collect();
        let (name, args) = words.split_first().context("no command")?;
        let (out, err) = (self.scratch.join("stdout"), self.scratch.join("stderr"));
        let mut command = Command::new(name);
        command
            .args(args)
            .env("RELIVE_PROFILE", self.scratch.join("bisect.rprof"))
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?)
            .process_group(0);
        let child = command
            .spawn()
            .with_context(|| format!("cannot run {}: check the command behind --", name.to_string_lossy()))?;
        let status = self.wait(child)?;
        let _ = std::fs::remove_file(self.scratch.join("bisect.rprof"));
        let stderr = if self.stderr { Some(std::fs::read(&err)?) } else { None };
        Ok(Outcome { status, stdout: std::fs::read(&out)?, stderr })
    }

    fn wait(&self, mut child: Child) -> Result<Option<ExitStatus>> {
        let started = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if started.elapsed() >= self.timeout {
                // Its children too: it leads a group of its own.
                let group = format!("-{}", child.id());
                let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
                let _ = child.kill();
                child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(GLANCE);
        }
    }
}

impl Outcome {
    /// Whether it ended in time.
    pub(crate) fn ended(&self) -> bool {
        self.status.is_some()
    }

    /// How it ended, in words.
    pub(crate) fn ending(&self) -> String {
        match self.status {
            None => "ran out of time".to_string(),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit status {code}"),
                (None, Some(signal)) => format!("killed by signal {signal}"),
                _ => status.to_string(),
            },
        }
    }

    /// In what `self` differs from `other`, in words; `None` if in nothing.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        if self.status != other.status {
            return Some(format!("{} instead of {}", self.ending(), other.ending()));
        }
        let differs = |name: &str, a: &[u8], b: &[u8]| {
            let at = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
            let line = a[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
            format!("{name} differs from line {line} on")
        };
        if self.stdout != other.stdout {
            return Some(differs("standard output", &self.stdout, &other.stdout));
        }
        match (&self.stderr, &other.stderr) {
            (Some(a), Some(b)) if a != b => Some(differs("standard error", a, b)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, stderr: bool) -> Outcome {
        let scratch = tempfile::tempdir().expect("temporary folder");
        let command = ["sh", "-c", script, "{}"].map(OsString::from);
        let subject = Subject {
            command: &command,
            file: "/some/file".into(),
            scratch: scratch.path(),
            stderr,
            timeout: Duration::from_millis(500),
        };
        subject.run().expect("it runs")
    }

    #[test]
    fn what_counts_is_compared() {
        let native = run("echo $0; exit 3", false);
        assert_eq!(native.stdout, b"/some/file\n");
        assert_eq!(native.difference(&run("echo /some/file; exit 3", false)), None);
        let other = run("echo /some/file; exit 4", false).difference(&native);
        assert_eq!(other.as_deref(), Some("exit status 4 instead of exit status 3"));
        let other = run("echo /some/fine; exit 3", false).difference(&native);
        assert_eq!(other.as_deref(), Some("standard output differs from line 1 on"));
        let other = run("echo /some/file; kill -SEGV $$", false).difference(&native);
        assert_eq!(other.as_deref(), Some("killed by signal 11 instead of exit status 3"));
        assert_eq!(run("echo a >&2", false).difference(&run("echo b >&2", false)), None);
        assert!(run("echo a >&2", true).difference(&run("echo b >&2", true)).is_some());
    }

    #[test]
    fn what_hangs_is_ended_with_its_children() {
        let outcome = run("sleep 100 & sleep 100", false);
        assert!(!outcome.ended());
        assert_eq!(outcome.ending(), "ran out of time");
    }
}
