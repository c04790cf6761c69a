//! Runs of the programs that are compared.

use super::Pair;
use crate::corpus;
use crate::workload::Stage;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

pub(crate) struct Bench<'a> {
    corpus: &'a Path,
    pair: &'a Pair,
    /// Every variant runs under the same name: programs look at it.
    stage: Stage,
    scratch: tempfile::TempDir,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(corpus: &'a Path, pair: &'a Pair, work: &Path) -> Result<Self> {
        Ok(Self { corpus, pair, stage: Stage::new(work, pair.program)?, scratch: tempfile::tempdir()? })
    }

    /// How long the timed workload took, and what it printed.
    pub(crate) fn time(&self, file: &Path) -> Result<(Duration, Vec<u8>)> {
        let times = self.scratch.path().join("times");
        if times.exists() {
            std::fs::remove_file(&times)?;
        }
        let runner = format!("{} time-child {}", std::env::current_exe()?.display(), times.display());
        let printed = self.run(file, self.pair.timed, &runner)?;
        let text = std::fs::read_to_string(&times).context("no times")?;
        let micros = text.lines().map(str::parse::<u64>).sum::<Result<u64, _>>()?;
        Ok((Duration::from_micros(micros), printed))
    }

    /// What the counted workload did, one text of callgrind's for each process.
    pub(crate) fn callgrind(&self, file: &Path) -> Result<Vec<String>> {
        let folder = tempfile::tempdir_in(self.scratch.path())?;
        let runner = format!(
            "valgrind -q --tool=callgrind --dump-instr=yes --collect-jumps=yes --cache-sim=yes --I1=32768,8,64 \
             --D1=32768,8,64 --LL=8388608,16,64 --callgrind-out-file={}/%p.callgrind",
            folder.path().display()
        );
        self.run(file, COUNTED, &runner)?;
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder.path())?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        files.sort();
        files.iter().map(|path| Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())).collect()
    }

    fn run(&self, file: &Path, mode: &str, runner: &str) -> Result<Vec<u8>> {
        let script = corpus::scripts().join("workloads").join(format!("{}.sh", self.pair.program));
        let mut command = Command::new("bash");
        command
            .arg(script)
            .arg(mode)
            .env("CORPUS_DIR", self.corpus)
            .env("BIN", self.stage.put(file)?)
            .env("RUNNER", runner)
            .env("TMPDIR", self.scratch.path())
            .current_dir(self.scratch.path())
            .stdin(Stdio::null());
        let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {}: {}", file.display(), output.status, said.trim());
        Ok(output.stdout)
    }
}

/// The workload that is counted. None was measured with it.
pub(crate) const COUNTED: &str = "test";
