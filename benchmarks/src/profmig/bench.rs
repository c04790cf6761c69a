//! Measuring one pair of releases.

use super::OURS;
use super::kept::{self, Base, Round};
use crate::carry::score::migrate;
use crate::corpus;
use crate::pairs::Pair;
use anyhow::{Context as _, Result, ensure};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use wait4::Wait4 as _;

/// Fresh profiles beside the first, with another layout of memory each: what differs between them has no right count.
const AGAIN: usize = 2;
/// The shortest input, which `--impact checked` may look at first.
const SHORTEST: &str = "in5";

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// Runs of everything that is timed; the best counts.
    pub(crate) runs: usize,
    /// How often the five inputs are gone through in a run.
    pub(crate) rounds: usize,
    /// Time what is kept once more, and keep the better time.
    pub(crate) more: bool,
}

/// A pair, and where it is measured.
pub(crate) struct Bench {
    relive: PathBuf,
    corpus: PathBuf,
    script: PathBuf,
    old: PathBuf,
    new: PathBuf,
    /// What is kept of this pair.
    folder: PathBuf,
    effort: Effort,
}

impl Bench {
    pub(crate) fn new(
        relive: &Path,
        corpus: &Path,
        work: &Path,
        pair: &Pair,
        effort: Effort,
    ) -> Result<Self> {
        let script = pair.new.workload();
        let (old, new) = (pair.old.named(corpus), pair.new.named(corpus));
        let mut hash = DefaultHasher::new();
        effort.rounds.hash(&mut hash);
        let inputs = std::fs::read_dir(corpus::scripts().join("workloads"))?;
        let mut files: Vec<PathBuf> = inputs.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        files.sort();
        files.extend([relive.to_owned(), old.clone(), new.clone()]);
        for file in files {
            std::fs::read(&file).with_context(|| file.display().to_string())?.hash(&mut hash);
        }
        let folder = work.join(format!("{}-{:016x}", pair.name().replace(' ', "-"), hash.finish()));
        std::fs::create_dir_all(folder.join("tmp"))?;
        Ok(Self { relive: relive.to_owned(), corpus: corpus.to_owned(), script, old, new, folder, effort })
    }

    /// What bash is to do to go through all inputs.
    fn all(&self) -> [OsString; 3] {
        let rounds = self.effort.rounds;
        let each = format!("for round in $(seq {rounds}); do bash \"$0\" all || exit; done");
        ["-c".into(), each.into(), self.script.clone().into()]
    }

    /// The same for one of them.
    fn one(&self, input: &str) -> [OsString; 2] {
        [self.script.clone().into(), input.into()]
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Old profiles, fresh profiles, and the times of the new build.
    pub(crate) fn base(&self) -> Result<Base> {
        let path = self.file("base.json");
        if self.effort.more && path.exists() {
            return kept::better(&path, |kept: &mut Base| {
                let Base { native, instrument, counting } = self.times()?;
                kept.native = kept.native.min(native);
                kept.instrument = kept.instrument.min(instrument);
                kept.counting = kept.counting.min(counting);
                Ok(())
            });
        }
        kept::or_make(&path, || {
            let old = self.file("old");
            self.instrument(&self.old, &old, &[])?;
            self.profile(&old, &self.all(), "old.rprof", false)?;
            self.profile(&old, &self.one(SHORTEST), "shortest.rprof", false)?;
            migrate(&self.relive, &self.file("old.rprof"), &self.new, &self.file("carried.rprof"))?;
            let base = self.times()?;
            for number in 0..AGAIN {
                self.profile(&self.file("full"), &self.all(), &again(number), true)?;
            }
            Ok(base)
        })
    }

    /// The times of the new build. Leaves the rewritten one and a fresh profile.
    fn times(&self) -> Result<Base> {
        let full = self.file("full");
        Ok(Base {
            native: self.best(|| self.native())?,
            instrument: self.best(|| self.instrument(&self.new, &full, &[]))?,
            counting: self.best(|| self.profile(&full, &self.all(), "fresh.rprof", false))?,
        })
    }

    /// One round of `relive reprofile`, judged by the fresh profile.
    pub(crate) fn round(&self, method: &str, behaviour: &str) -> Result<Round> {
        let (plan, merged) = (self.file("plan.json"), self.file("merged.rprof"));
        let reprofile = || {
            self.best(|| {
                let mut command = Command::new(&self.relive);
                command.arg("reprofile").arg(self.file("old.rprof")).arg("--to").arg(&self.new);
                command.args(["--impact", method, "--behaviour", behaviour, "--plan"]).arg(&plan);
                if method == OURS {
                    let check = format!("BIN={{}} bash '{}' {SHORTEST}", self.script.display());
                    command.arg("--check-profile").arg(self.file("shortest.rprof"));
                    command.arg("--check-command").arg(check);
                }
                command.arg("-o").arg(&merged).args(["--", "env", "BIN={}", "bash"]).args(self.all());
                self.time(&mut command)
            })
        };
        let path = self.file(&format!("{method}-{behaviour}.json"));
        if self.effort.more && path.exists() {
            return kept::better(&path, |kept: &mut Round| {
                kept.time = kept.time.min(reprofile()?);
                Ok(())
            });
        }
        kept::or_make(&path, || {
            let time = reprofile()?;
            let told = self.evaluate(&plan, &merged)?;
            let plan: serde_json::Value = serde_json::from_slice(&std::fs::read(&plan)?)?;
            let count = |what: &str| plan[what].as_array().map_or(0, Vec::len);
            let exempt = count("exempt");
            Ok(Round {
                time,
                significance: plan["significance"].as_f64().context("a plan without significance")?,
                exempt,
                functions: exempt + count("measure"),
                measures: serde_json::from_value(told["behaviours"][behaviour].clone())
                    .with_context(|| format!("relive evaluate --migration: {behaviour}"))?,
            })
        })
    }

    fn evaluate(&self, plan: &Path, merged: &Path) -> Result<serde_json::Value> {
        let mut command = Command::new(&self.relive);
        command.arg("evaluate").arg(merged).arg(self.file("fresh.rprof")).arg("--migration").arg(plan);
        command.arg("--old").arg(self.file("carried.rprof")).arg("--json");
        for number in 0..AGAIN {
            command.arg("--again").arg(self.file(&again(number)));
        }
        Ok(serde_json::from_str(&crate::process::output_of(&mut command)?)?)
    }

    /// A plan for the new build by its functions alone, to be changed and then followed.
    pub(crate) fn plan(&self) -> Result<serde_json::Value> {
        self.base()?;
        let plan = self.file("drawn.json");
        let mut command = Command::new(&self.relive);
        command.arg("migrate").arg(self.file("old.rprof")).arg("--force").arg("--to").arg(&self.new);
        crate::process::output_of(command.args(["--impact", "ag", "--plan"]).arg(&plan))?;
        Ok(serde_json::from_slice(&std::fs::read(&plan)?)?)
    }

    /// How long the new build takes on all inputs, measured by a plan.
    pub(crate) fn by_plan(&self, plan: &serde_json::Value) -> Result<f64> {
        let (file, program) = (self.file("drawn.json"), self.file("drawn"));
        std::fs::write(&file, plan.to_string())?;
        self.instrument(&self.new, &program, &["--except".as_ref(), file.as_os_str()])?;
        self.best(|| self.profile(&program, &self.all(), "drawn.rprof", false))
    }

    fn native(&self) -> Result<Duration> {
        self.time(Command::new("bash").args(self.all()).env("BIN", &self.new))
    }

    fn instrument(&self, build: &Path, to: &Path, more: &[&OsStr]) -> Result<Duration> {
        self.time(Command::new(&self.relive).arg("instrument").arg(build).args(more).arg("-o").arg(to))
    }

    /// Runs a rewritten program, and leaves only what it counted this time.
    fn profile(
        &self,
        program: &Path,
        inputs: &[OsString],
        profile: &str,
        shuffled: bool,
    ) -> Result<Duration> {
        let profile = self.file(profile);
        if profile.exists() {
            std::fs::remove_file(&profile)?;
        }
        let mut command = Command::new("bash");
        command.args(inputs).env("BIN", program).env("RELIVE_PROFILE", &profile);
        if shuffled {
            command.env("LAYOUT", "random");
        }
        let time = self.time(&mut command)?;
        ensure!(profile.exists(), "{command:?} left no profile");
        Ok(time)
    }

    fn best(&self, mut run: impl FnMut() -> Result<Duration>) -> Result<f64> {
        let mut best = run()?;
        for _ in 1..self.effort.runs {
            best = best.min(run()?);
        }
        Ok(best.as_secs_f64())
    }

    /// Runs to the end and returns the processor time of it and of all it started.
    fn time(&self, command: &mut Command) -> Result<Duration> {
        let said = self.file("said");
        let tmp = self.file("tmp");
        command
            .env("CORPUS_DIR", &self.corpus)
            .env("TMPDIR", &tmp)
            .current_dir(&tmp)
            .stdin(Stdio::null())
            .stdout(File::create(self.file("out"))?)
            .stderr(File::create(&said)?);
        let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
        let used = child.wait4()?;
        let said = || String::from_utf8_lossy(&std::fs::read(&said).unwrap_or_default()).trim().to_owned();
        ensure!(used.status.success(), "{command:?}: {}: {}", used.status, said());
        Ok(used.rusage.utime + used.rusage.stime)
    }
}

fn again(number: usize) -> String {
    format!("again-{number}.rprof")
}
