//! Measuring one pair of releases.

use super::kept::{self, Costs, Round};
use super::{BEHAVIOURS, OURS};
use crate::carry::score::migrate;
use crate::corpus;
use crate::pairs::Pair;
use anyhow::{Context as _, Result, ensure};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use wait4::Wait4 as _;

/// Fresh profiles beside the first, with another layout of memory each: what differs between them has no right count.
const AGAIN: usize = 4;
/// All five inputs, one after the other.
pub(super) const ALL: &str = "all";
/// The shortest input, which `--impact checked` may look at first.
pub(super) const SHORTEST: &str = "in5";

/// A pair, and where it is measured.
pub(crate) struct Bench {
    pub(super) relive: PathBuf,
    corpus: PathBuf,
    script: PathBuf,
    old: PathBuf,
    pub(super) new: PathBuf,
    /// What is kept of this pair.
    folder: PathBuf,
}

impl Bench {
    pub(crate) fn new(relive: &Path, corpus: &Path, work: &Path, pair: &Pair) -> Result<Self> {
        let script = pair.new.workload();
        let (old, new) = (pair.old.named(corpus), pair.new.named(corpus));
        let mut hash = DefaultHasher::new();
        let inputs = std::fs::read_dir(corpus::scripts().join("workloads"))?;
        let mut files: Vec<PathBuf> = inputs.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        files.sort();
        files.extend([relive.to_owned(), old.clone(), new.clone()]);
        for file in files {
            std::fs::read(&file).with_context(|| file.display().to_string())?.hash(&mut hash);
        }
        let folder = work.join(format!("{}-{:016x}", pair.name().replace(' ', "-"), hash.finish()));
        std::fs::create_dir_all(folder.join("tmp"))?;
        Ok(Self { relive: relive.to_owned(), corpus: corpus.to_owned(), script, old, new, folder })
    }

    /// What bash is to do to go through an input, or through all.
    fn one(&self, input: &str) -> [OsString; 2] {
        [self.script.clone().into(), input.into()]
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Old profiles, fresh profiles, and programs that count everything.
    pub(crate) fn prepare(&self) -> Result<()> {
        kept::or_make(&self.file("prepared.json"), || {
            let old = self.file("old");
            self.time(&mut self.instrument(&self.old, &old, &[]))?;
            self.profile(&old, &self.one(ALL), "old.rprof", false)?;
            self.profile(&old, &self.one(SHORTEST), "shortest.rprof", false)?;
            migrate(&self.relive, &self.file("old.rprof"), &self.new, &self.file("carried.rprof"))?;
            for (behaviour, _) in BEHAVIOURS {
                self.full(behaviour)?;
            }
            let full = self.file(&full("call-graph"));
            self.profile(&full, &self.one(ALL), "fresh.rprof", false)?;
            for number in 0..AGAIN {
                self.profile(&full, &self.one(ALL), &again(number), true)?;
            }
            Ok(())
        })
    }

    /// Rewrites the new build so that all of a behaviour is measured: where calls lead is not asked for loops.
    fn full(&self, behaviour: &str) -> Result<f64> {
        self.time(&mut self.rewriting(behaviour, &self.file(&full(behaviour))))
    }

    pub(super) fn rewriting(&self, behaviour: &str, to: &Path) -> Command {
        let calls = if behaviour == "loops" { "off" } else { "on" };
        self.instrument(&self.new, to, &["--calls".as_ref(), calls.as_ref()])
    }

    /// What is known of the times so far, with `runs` more measurements of everything, one after the other in turn: what
    /// disturbs the machine for a while then disturbs all of them. The best of each counts.
    pub(crate) fn times(&self, methods: &[String], runs: usize) -> Result<Costs> {
        let path = self.file("times.json");
        let mut times: Costs = kept::or_make(&path, || Ok(Costs::default()))?;
        for _ in 0..runs {
            times.take("native", self.run(&self.new)?);
            for (behaviour, _) in BEHAVIOURS {
                times.take(&format!("instrument {behaviour}"), self.full(behaviour)?);
                times.take(&format!("full {behaviour}"), self.run(&self.file(&full(behaviour)))?);
                for method in methods {
                    let rest = self.file(&rest(method, behaviour));
                    if !rest.exists() {
                        continue;
                    }
                    times.take(&format!("own {method} {behaviour}"), self.own(method, behaviour)?);
                    times.take(&format!("rest {method} {behaviour}"), self.run(&rest)?);
                }
            }
            kept::write(&path, &times)?;
        }
        Ok(times)
    }

    /// A program on all inputs; what it counts is not looked at.
    fn run(&self, program: &Path) -> Result<f64> {
        self.time(&mut self.running(program, ALL))
    }

    pub(super) fn running(&self, program: &Path, inputs: &str) -> Command {
        let profile = self.file("timed.rprof");
        let mut command = Command::new("bash");
        command.args(self.one(inputs)).env("BIN", program).env("RELIVE_PROFILE", profile);
        self.set(&mut command);
        command
    }

    /// What `relive reprofile` itself takes, a checked run included: all but the run of the program, which is the shortest one here.
    fn own(&self, method: &str, behaviour: &str) -> Result<f64> {
        let [plan, merged, program] = ["own.json", "own.rprof", "own"].map(|name| self.file(name));
        let used = self.file("used");
        let all = self.time(&mut self.reprofile(method, behaviour, SHORTEST, [&plan, &merged, &program]))?;
        let run = kept::used(&std::fs::read_to_string(&used).context("no times of the run")?)?;
        Ok((all - run.as_secs_f64()).max(0.0))
    }

    /// The command for one round. What the program itself took is left in the file `used`.
    pub(super) fn reprofile(
        &self,
        method: &str,
        behaviour: &str,
        inputs: &str,
        [plan, merged, program]: [&Path; 3],
    ) -> Command {
        let mut command = Command::new(&self.relive);
        command.arg("reprofile").arg(self.file("old.rprof")).arg("--to").arg(&self.new);
        command.args(["--impact", method, "--behaviour", behaviour, "--plan"]).arg(plan);
        command.arg("--program").arg(program);
        if method == OURS {
            let check = format!("BIN={{}} bash '{}' {SHORTEST}", self.script.display());
            command.arg("--check-profile").arg(self.file("shortest.rprof"));
            command.arg("--check-command").arg(check);
        }
        command.arg("-o").arg(merged).args(["--", "env", "BIN={}", "bash", "-c"]);
        command
            .arg("bash \"$0\" \"$1\" || exit; times >\"$2\"")
            .args(self.one(inputs))
            .arg(self.file("used"));
        self.set(&mut command);
        command
    }

    /// One round of `relive reprofile`, judged by the fresh profile.
    pub(crate) fn round(&self, method: &str, behaviour: &str) -> Result<Round> {
        kept::or_make(&self.file(&format!("{method}-{behaviour}.json")), || {
            let plan = self.file(&format!("plan-{method}-{behaviour}.json"));
            let merged = self.file("merged.rprof");
            let program = self.file(&rest(method, behaviour));
            self.time(&mut self.reprofile(method, behaviour, ALL, [&plan, &merged, &program]))?;
            let increments = kept::increments(&std::fs::read_to_string(self.file("out"))?)?;
            let told = self.evaluate(&plan, &merged)?;
            let plan: serde_json::Value = serde_json::from_slice(&std::fs::read(&plan)?)?;
            let count = |what: &str| plan[what].as_array().map_or(0, Vec::len);
            let exempt = count("exempt");
            Ok(Round {
                significance: plan["significance"].as_f64().context("a plan without significance")?,
                exempt,
                functions: exempt + count("measure"),
                increments,
                all_increments: told["increments"].as_u64().context("no increments")?,
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
        self.prepare()?;
        let plan = self.file("drawn.json");
        let mut command = Command::new(&self.relive);
        command.arg("migrate").arg(self.file("old.rprof")).arg("--force").arg("--to").arg(&self.new);
        crate::process::output_of(command.args(["--impact", "ag", "--plan"]).arg(&plan))?;
        Ok(serde_json::from_slice(&std::fs::read(&plan)?)?)
    }

    /// What the new build takes on all inputs: as it is, measured in full, and measured by each plan. Processor time is the best of
    /// `runs` in turn; instructions are counted once.
    pub(crate) fn by_plans(&self, plans: &[serde_json::Value], runs: usize) -> Result<[Costs; 2]> {
        let mut programs = vec![
            ("native".to_owned(), self.new.clone()),
            ("full".to_owned(), self.file(&full("call-graph"))),
        ];
        for (draw, plan) in (1..).zip(plans) {
            let (file, program) = (self.file("drawn.json"), self.file(&format!("drawn-{draw}")));
            std::fs::write(&file, plan.to_string())?;
            self.time(&mut self.instrument(&self.new, &program, &["--except".as_ref(), file.as_os_str()]))?;
            programs.push((format!("draw {draw}"), program));
        }
        let [mut times, mut instructions] = [Costs::default(), Costs::default()];
        for _ in 0..runs.max(1) {
            for (what, program) in &programs {
                times.take(what, self.run(program)?);
            }
        }
        for (what, program) in &programs {
            instructions.take(what, self.executed_by(program, ALL)?);
        }
        Ok([times, instructions])
    }

    fn instrument(&self, build: &Path, to: &Path, more: &[&OsStr]) -> Command {
        let mut command = Command::new(&self.relive);
        command.arg("instrument").arg(build).args(more).arg("-o").arg(to);
        self.set(&mut command);
        command
    }

    /// Runs a rewritten program, and leaves only what it counted this time.
    fn profile(&self, program: &Path, inputs: &[OsString], profile: &str, shuffled: bool) -> Result<()> {
        let profile = self.file(profile);
        if profile.exists() {
            std::fs::remove_file(&profile)?;
        }
        let mut command = Command::new("bash");
        command.args(inputs).env("BIN", program).env("RELIVE_PROFILE", &profile);
        if shuffled {
            command.env("LAYOUT", "random");
        }
        self.time(&mut command)?;
        ensure!(profile.exists(), "{command:?} left no profile");
        Ok(())
    }

    /// What workloads look for.
    fn set(&self, command: &mut Command) {
        command.env("CORPUS_DIR", &self.corpus).env("TMPDIR", self.file("tmp"));
    }

    /// Runs to the end and returns the processor time of it and of all it started, in seconds.
    pub(super) fn time(&self, command: &mut Command) -> Result<f64> {
        Ok(self.finish(command)?.0)
    }

    /// What a command says on standard error.
    pub(super) fn say(&self, command: &mut Command) -> Result<String> {
        Ok(self.finish(command)?.1)
    }

    fn finish(&self, command: &mut Command) -> Result<(f64, String)> {
        let said = self.file("said");
        self.set(command);
        command
            .current_dir(self.file("tmp"))
            .stdin(Stdio::null())
            .stdout(File::create(self.file("out"))?)
            .stderr(File::create(&said)?);
        let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
        let used = child.wait4()?;
        let said = String::from_utf8_lossy(&std::fs::read(&said)?).into_owned();
        ensure!(used.status.success(), "{command:?}: {}: {}", used.status, said.trim());
        Ok(((used.rusage.utime + used.rusage.stime).as_secs_f64(), said))
    }
}

fn again(number: usize) -> String {
    format!("again-{number}.rprof")
}

pub(super) fn full(behaviour: &str) -> String {
    format!("full-{behaviour}")
}

pub(super) fn rest(method: &str, behaviour: &str) -> String {
    format!("rest-{method}-{behaviour}")
}
