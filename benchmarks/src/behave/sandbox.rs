//! Where strangers run: as nobody, in a scratch folder, with little environment and a time limit.

use crate::breadth::{lend, unprivileged};
use crate::process::{Ending, run_limited};
use anyhow::{Context, Result};
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
    pub(crate) fn new(relive: &Path, limit: Duration) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let relive = lend(relive, scratch.path())?;
        let offline = Command::new("unshare").args(["--net", "true"]).output();
        let offline = offline.is_ok_and(|output| output.status.success());
        Ok(Self { scratch, relive, limit, offline })
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
    pub(crate) file: PathBuf,
    pub(crate) counted: PathBuf,
}

impl Room<'_> {
    pub(crate) fn rewrite(&self, limit: Duration) -> Result<Answer> {
        let mut command = unprivileged(&self.sandbox.relive)?;
        command.args(["instrument", "--trap"]).arg(&self.file).arg("-o").arg(&self.counted);
        self.answer(&mut command, limit)
    }

    /// The program as it is, in a folder of equal length.
    pub(crate) fn moved(&self) -> Result<PathBuf> {
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

    pub(crate) fn has_profile(&self) -> bool {
        self.profile().exists()
    }

    fn profile(&self) -> PathBuf {
        self.folder.path().join("profile.rprof")
    }

    /// `timeout` kills the children as well.
    pub(crate) fn run(&self, program: &Path, question: &str) -> Result<Answer> {
        let limit = self.sandbox.limit;
        let inner = unprivileged(Path::new("timeout"))?;
        let mut command = if self.sandbox.offline {
            let mut outer = Command::new("unshare");
            outer.arg("--net").arg(inner.get_program()).args(inner.get_args());
            outer
        } else {
            inner
        };
        let work = self.folder.path().join("work");
        command
            .args(["-k", "1"])
            .arg(limit.as_secs().to_string())
            .arg(program)
            .arg(question)
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
