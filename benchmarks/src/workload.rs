//! Running the workload of a corpus program: a script that runs its program once or several times.

use crate::corpus;
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A workload and where it finds its inputs.
pub(crate) struct Workload {
    script: PathBuf,
    corpus: PathBuf,
}

/// What a run showed to the outside.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ran {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Workload {
    pub(crate) fn of(program: &str, corpus: &Path) -> Self {
        Self {
            script: corpus::scripts().join("workloads").join(format!("{program}.sh")),
            corpus: corpus.to_owned(),
        }
    }

    /// Runs it with another program file and more environment. The folder and process id of the run are no part of
    /// what is returned.
    pub(crate) fn run(&self, binary: &Path, environment: &[(&str, &OsStr)]) -> Result<Ran> {
        let scratch = tempfile::tempdir()?;
        let mut command = Command::new("bash");
        command
            .arg(&self.script)
            .arg("train")
            .env("CORPUS_DIR", &self.corpus)
            .env("BIN", binary)
            .env("TMPDIR", scratch.path())
            .envs(environment.iter().copied())
            .current_dir(scratch.path())
            .stdin(Stdio::null());
        let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
        let names = [binary.as_os_str().as_encoded_bytes(), scratch.path().as_os_str().as_encoded_bytes()];
        Ok(Ran {
            status: output.status.code(),
            stdout: without(&output.stdout, &names),
            stderr: without(&output.stderr, &names),
        })
    }
}

/// Where every variant of a program runs, under the very same path: programs look at their name, and hash it.
pub(crate) struct Stage {
    pub(crate) folder: PathBuf,
    path: PathBuf,
}

impl Stage {
    pub(crate) fn new(root: &Path, program: &str) -> Result<Self> {
        let folder = root.join("stage");
        std::fs::create_dir_all(folder.join("bin"))?;
        Ok(Self { path: folder.join("bin").join(program), folder })
    }

    /// The path, with this file in it now.
    pub(crate) fn put(&self, file: &Path) -> Result<PathBuf> {
        if self.path.exists() {
            std::fs::remove_file(&self.path)?;
        }
        std::fs::copy(file, &self.path).with_context(|| format!("cannot copy {}", file.display()))?;
        Ok(self.path.clone())
    }
}

/// The text with each of these names replaced by `@`.
pub(crate) fn without(text: &[u8], names: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, others @ ..] = rest {
        match names.iter().find(|name| !name.is_empty() && rest.starts_with(name)) {
            Some(name) => {
                out.push(b'@');
                rest = &rest[name.len()..];
            }
            None => {
                out.push(*first);
                rest = others;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced() {
        assert_eq!(without(b"/t/a: no /t/ab", &[b"/t/a", b""]), b"@: no @b");
    }
}
