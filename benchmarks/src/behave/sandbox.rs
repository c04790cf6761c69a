//! Where strangers run: as nobody, in a scratch folder, with little environment and a time limit.

use crate::breadth::{lend, unprivileged};
use crate::process::{Ending, run_limited};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub(crate) struct Sandbox {
    scratch: tempfile::TempDir,
    relive: PathBuf,
    limit: Duration,
    /// `unshare --net` works here.
    offline: bool,
    /// `mount --bind` in a mount namespace of its own works here.
    mounts: bool,
    way: Way,
}

/// What is done to programs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// They are rewritten.
    Rewritten,
    /// `relive run`.
    Run,
    /// `relive trace`.
    Traced,
}

/// Which of the files to run.
pub(crate) enum Program {
    AsItIs,
    Counted,
    /// As it is, in another folder.
    Moved,
}

/// What a run showed to the outside.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) timed_out: bool,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Answer {
    /// Every number replaced by one zero.
    pub(crate) fn masked(&self) -> (Option<i32>, Option<i32>, Vec<u8>, Vec<u8>) {
        let mask = |text: &[u8]| {
            let mut out: Vec<u8> = Vec::new();
            let mut in_number = false;
            for &byte in text {
                let digit = byte.is_ascii_digit();
                if !digit || !in_number {
                    out.push(if digit { b'0' } else { byte });
                }
                in_number = digit;
            }
            out
        };
        (self.status, self.signal, mask(&self.stdout), mask(&self.stderr))
    }

    /// One line.
    pub(crate) fn summary(&self) -> String {
        let ending = match (self.timed_out, self.status, self.signal) {
            (true, ..) => "time over".to_owned(),
            (_, Some(status), _) => format!("exit {status}"),
            (.., signal) => format!("signal {}", signal.unwrap_or_default()),
        };
        let text = [&self.stdout, &self.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        let last = text.iter().flat_map(|text| text.lines().last()).collect::<Vec<_>>().join(" / ");
        let last: String = last.chars().take(160).collect();
        format!("{ending} ({} + {} bytes: {last})", self.stdout.len(), self.stderr.len())
    }
}

impl Sandbox {
    pub(crate) fn new(relive: &Path, limit: Duration, way: Way) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let relive = lend(relive, scratch.path())?;
        let works = |arguments: &[&str]| {
            Command::new("unshare").args(arguments).output().is_ok_and(|output| output.status.success())
        };
        let offline = works(&["--net", "true"]);
        let mounts = works(&["--mount", "mount", "--bind", "/usr/bin/true", "/usr/bin/true"]);
        Ok(Self { scratch, relive, limit, offline, mounts, way })
    }

    /// A folder for one program.
    pub(crate) fn room(&self, file: &Path) -> Result<Room<'_>> {
        let folder = tempfile::tempdir_in(self.scratch.path())?;
        for part in ["", "counted", "as-made", "work"] {
            let path = folder.path().join(part);
            std::fs::create_dir_all(&path)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777))?;
        }
        let name = file.file_name().context("a program without a name")?;
        let counted = folder.path().join("counted").join(name);
        Ok(Room { sandbox: self, folder, file: file.to_owned(), counted })
    }
}

pub(crate) struct Room<'s> {
    sandbox: &'s Sandbox,
    folder: tempfile::TempDir,
    file: PathBuf,
    counted: PathBuf,
}

impl Room<'_> {
    /// Makes what is to be run instead of the program; under the engine, that is nothing.
    pub(crate) fn prepare(&self, limit: Duration) -> Result<Answer> {
        let mut command = unprivileged(&self.sandbox.relive)?;
        if self.is_under_engine() {
            command.arg("--version");
        } else {
            command.args(["instrument", "--trap"]).arg(&self.file).arg("-o").arg(&self.counted);
        }
        self.answer(&mut command, limit)
    }

    fn is_under_engine(&self) -> bool {
        self.sandbox.way != Way::Rewritten
    }

    /// What was traced, replayed to its end; nothing if there is no trace.
    pub(crate) fn replay(&self, limit: Duration) -> Result<Option<Answer>> {
        let trace = self.trace();
        if !trace.exists() {
            return Ok(None);
        }
        let mut command = unprivileged(&self.sandbox.relive)?;
        command.args(["analyze", "mix"]).arg(&trace);
        self.answer(&mut command, limit).map(Some)
    }

    fn trace(&self) -> PathBuf {
        self.folder.path().join("run.rtrace")
    }

    /// The program as it is, in a folder of equal length.
    fn moved(&self) -> Result<PathBuf> {
        let path = self.folder.path().join("as-made").join(self.file.file_name().unwrap_or_default());
        if !path.exists() {
            std::fs::copy(&self.file, &path)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        }
        Ok(path)
    }

    /// Paths that may show in what a program writes; longer ones first.
    pub(crate) fn names(&self) -> Vec<PathBuf> {
        let folder = self.folder.path();
        let mut names = vec![self.counted.clone(), self.file.clone()];
        names.push(folder.join("as-made").join(self.file.file_name().unwrap_or_default()));
        names.extend(["counted", "as-made"].map(|part| folder.join(part)));
        names.extend(self.file.parent().map(Path::to_owned));
        names
    }

    /// Whether there is a profile, or a trace.
    pub(crate) fn has_left_something(&self) -> bool {
        self.profile().exists() || self.trace().exists()
    }

    fn profile(&self) -> PathBuf {
        self.folder.path().join("profile.rprof")
    }

    /// What is run instead of the program cannot stand where the program does.
    pub(crate) fn is_elsewhere(&self) -> bool {
        !self.sandbox.mounts && !self.is_under_engine()
    }

    /// Each run finds an empty home. `timeout` kills the children as well.
    pub(crate) fn run(&self, program: &Program, question: &str) -> Result<Answer> {
        let work = self.folder.path().join("work");
        std::fs::remove_dir_all(&work)?;
        std::fs::create_dir(&work)?;
        std::fs::set_permissions(&work, std::fs::Permissions::from_mode(0o777))?;
        let is_counted = matches!(program, Program::Counted);
        let in_place = is_counted && self.sandbox.mounts && !self.is_under_engine();
        let file = match program {
            Program::AsItIs => self.file.clone(),
            Program::Counted if in_place || self.is_under_engine() => self.file.clone(),
            Program::Counted => self.counted.clone(),
            Program::Moved => self.moved()?,
        };
        let limit = self.sandbox.limit;
        let mut words: Vec<OsString> = Vec::new();
        if self.sandbox.offline || in_place {
            words.push("unshare".into());
            words.extend(self.sandbox.offline.then(|| "--net".into()));
            words.extend(in_place.then(|| "--mount".into()));
        }
        if in_place {
            let script = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
            words.extend(["sh", "-c", script, "sh"].map(OsString::from));
            words.extend([self.counted.clone().into(), self.file.clone().into()]);
        }
        let inner = unprivileged(Path::new("timeout"))?;
        words.push(inner.get_program().to_owned());
        words.extend(inner.get_args().map(OsString::from));
        words.extend(["-k", "1", &limit.as_secs().to_string()].map(OsString::from));
        let under = match self.sandbox.way {
            Way::Run if is_counted => Some(("run", self.profile())),
            Way::Traced if is_counted => Some(("trace", self.trace())),
            _ => None,
        };
        if let Some((how, output)) = under {
            words.push(self.sandbox.relive.clone().into());
            words.extend(["-q", how, "-o"].map(OsString::from));
            words.extend([output.into(), "--".into()]);
        }
        words.extend([file.into_os_string(), question.into()]);
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", &work)
            .env("TMPDIR", &work)
            .env("LC_ALL", "C")
            .env("TERM", "dumb")
            .env("RELIVE_PROFILE", self.profile());
        self.answer(&mut command, limit + Duration::from_secs(5))
    }

    fn answer(&self, command: &mut Command, limit: Duration) -> Result<Answer> {
        let (out, err) = (self.folder.path().join("out"), self.folder.path().join("err"));
        let ending = run_limited(command.current_dir(self.folder.path().join("work")), &out, &err, limit)?;
        let (status, signal) = match ending {
            Ending::Exited(status) => (status.code(), status.signal()),
            Ending::TimedOut => (None, None),
        };
        Ok(Answer {
            status,
            signal,
            timed_out: matches!(ending, Ending::TimedOut) || matches!(status, Some(124 | 137)),
            stdout: std::fs::read(&out)?,
            stderr: std::fs::read(&err)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_masked() {
        let answer = |text: &str| Answer {
            status: Some(0),
            signal: None,
            timed_out: false,
            stdout: text.as_bytes().to_vec(),
            stderr: Vec::new(),
        };
        assert_eq!(answer("pid 1234: x86").masked(), answer("pid 77: x86").masked());
        assert_ne!(answer("pid 1").masked(), answer("pid -").masked());
    }
}
