//! Processor time of a program on its timed workload.

use super::Pair;
use crate::corpus;
use crate::workload::Stage;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

pub(crate) struct Timing<'a> {
    corpus: &'a Path,
    pair: &'a Pair,
    /// Every variant runs under the same name: programs look at it.
    stage: Stage,
    scratch: tempfile::TempDir,
}

impl<'a> Timing<'a> {
    pub(crate) fn new(corpus: &'a Path, pair: &'a Pair, work: &Path) -> Result<Self> {
        Ok(Self { corpus, pair, stage: Stage::new(work, pair.program)?, scratch: tempfile::tempdir()? })
    }

    /// Runs the workload once: how long the program took, and what it printed.
    pub(crate) fn run(&self, file: &Path) -> Result<(Duration, Vec<u8>)> {
        let binary = self.stage.put(file)?;
        let times: PathBuf = self.scratch.path().join("times");
        if times.exists() {
            std::fs::remove_file(&times)?;
        }
        let runner = format!("{} time-child {}", std::env::current_exe()?.display(), times.display());
        let script = corpus::scripts().join("workloads").join(format!("{}.sh", self.pair.program));
        let mut command = Command::new("bash");
        command
            .arg(script)
            .arg(self.pair.timed)
            .env("CORPUS_DIR", self.corpus)
            .env("BIN", &binary)
            .env("RUNNER", runner)
            .env("TMPDIR", self.scratch.path())
            .current_dir(self.scratch.path())
            .stdin(Stdio::null());
        let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {}: {}", file.display(), output.status, said.trim());
        let text = std::fs::read_to_string(&times).with_context(|| format!("no times: {}", said.trim()))?;
        let micros = text.lines().map(str::parse::<u64>).sum::<Result<u64, _>>()?;
        Ok((Duration::from_micros(micros), output.stdout))
    }
}
