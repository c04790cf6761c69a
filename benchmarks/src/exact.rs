//! Counts of rewritten programs, or of programs under the engine (`--run`), against callgrind's: every block of every
//! measured function, exactly.
//!
//! Where the two differ, further witnesses decide whether the program itself does something else under valgrind or from
//! run to run (`witnesses`).

mod judge;
mod profile;
mod truth;
mod witnesses;

use crate::corpus::{self, Build};
use crate::oracle::callgrind::Counts;
use crate::oracle::listing::Listing;
use crate::oracle::symbols::Symbols;
use crate::process::output_of;
use crate::table::{Table, percent};
use crate::workload::{Ran, Stage, Workload};
use anyhow::{Context, Result, ensure};
use judge::{Compared, Difference, Verdict};
use profile::Profile;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use truth::Truths;
use witnesses::Witnesses;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// What benchmarks/corpus/build.sh made
    #[arg(long, env = "CORPUS_DIR", default_value = "target/corpus")]
    corpus: PathBuf,
    /// Keep callgrind's counts here, and use those of the same file and workload; the programs run here too
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Programs, configurations or both: lua, clang-O2, lua/clang-O2 [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Do not rewrite the programs, but run them as they are by `relive run`
    #[arg(long)]
    run: bool,
    /// Print every difference, not only the first ones of each file
    #[arg(long)]
    verbose: bool,
}

/// Without --verbose, so many differences of each file are shown.
const SHOWN: usize = 5;

pub(crate) fn run(options: &Options) -> Result<u64> {
    let corpus =
        options.corpus.canonicalize().with_context(|| format!("no corpus: {}", options.corpus.display()))?;
    let relive = options.relive.canonicalize().context("no relive: --relive names it")?;
    let mut wanted = corpus::table("accuracy.tsv")?;
    wanted.extend(corpus::table("counting.tsv")?.into_iter().filter(is_static));
    let builds = corpus::existing(&corpus, wanted, &options.only)?;
    let scratch = tempfile::tempdir()?;
    let root = match &options.cache {
        Some(folder) => {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            folder.canonicalize()?
        }
        None => scratch.path().to_owned(),
    };
    let context = Run {
        relive: &relive,
        corpus: &corpus,
        root: &root,
        under_engine: options.run,
        witnesses: Witnesses::compile(scratch.path())?,
        truths: Truths::new(options.cache.is_some().then(|| root.clone())),
    };
    let mut report = Report::new(options.verbose);
    for build in &builds {
        eprintln!("{}", build.name());
        match context.build(build) {
            Ok(outcomes) => {
                for (copy, outcome) in outcomes {
                    report.add(&format!("{} {copy}", build.name()), &outcome);
                }
            }
            Err(error) => report.not_judged.push(format!("{}: {error:#}", build.name())),
        }
    }
    report.finish()
}

fn is_static(build: &Build) -> bool {
    build.configuration.contains("-static")
}

/// What came of one copy of a build.
struct Outcome {
    /// Why relive did not rewrite it, or the rewritten program did not leave a profile.
    failure: Option<String>,
    /// The rewritten program wrote the same and ended the same way.
    same: bool,
    compared: Compared,
    differences: Vec<(Difference, Verdict)>,
    unbalanced: Vec<String>,
}

struct Run<'a> {
    relive: &'a Path,
    corpus: &'a Path,
    /// The programs run below this folder.
    root: &'a Path,
    /// They are not rewritten.
    under_engine: bool,
    witnesses: Witnesses,
    truths: Truths,
}

impl Run<'_> {
    /// Both copies of a build: with symbols, and stripped. Their addresses are the same, so one truth serves both.
    fn build(&self, build: &Build) -> Result<Vec<(&'static str, Outcome)>> {
        let stripped = build.binary(self.corpus, ".stripped");
        let named = build.named(self.corpus);
        let workload = Workload::of(&build.program, self.corpus);
        let judged = if is_static(build) { Some(self.own_code(build)?) } else { None };
        let listing = Listing::of(&stripped)?;
        let stage = Stage::new(self.root, &build.program)?;
        let truth = self.truths.of(build, &workload, &stripped, &stage)?;
        let mut outcomes = Vec::new();
        for (copy, file) in [("", &named), ("stripped", &stripped)] {
            let outcome = match self.rewritten(file, &stage) {
                Err(error) => Outcome::failed(format!("{error:#}")),
                Ok(rewritten) => {
                    let pair =
                        Pair { run: self, workload: &workload, stage: &stage, file, rewritten: &rewritten };
                    pair.judge(&truth, &listing, judged.as_ref())?
                }
            };
            outcomes.push((copy, outcome));
        }
        Ok(outcomes)
    }

    fn rewritten(&self, file: &Path, stage: &Stage) -> Result<PathBuf> {
        if self.under_engine {
            return Ok(file.to_owned());
        }
        let out = stage.folder.join("rewritten");
        output_of(Command::new(self.relive).args(["instrument", "--trap"]).arg(file).arg("-o").arg(&out))?;
        Ok(out)
    }

    /// The functions of a statically linked program that are its own: those that the dynamically linked build defines
    /// under the same name. The C library picks other functions under valgrind, which shows it another processor.
    fn own_code(&self, build: &Build) -> Result<BTreeSet<u64>> {
        let dynamic = Build { configuration: "gcc-O2".to_owned(), ..build.clone() };
        let names: BTreeSet<String> =
            Symbols::of(&dynamic.binary(self.corpus, ""))?.functions.into_iter().map(|f| f.name).collect();
        let functions = Symbols::of(&build.binary(self.corpus, ""))?.functions;
        Ok(functions
            .into_iter()
            .filter(|function| names.contains(&function.name))
            .flat_map(|function| function.address..function.address + function.size)
            .collect())
    }
}

/// A program as built, and rewritten.
struct Pair<'a> {
    run: &'a Run<'a>,
    workload: &'a Workload,
    stage: &'a Stage,
    file: &'a Path,
    rewritten: &'a Path,
}

impl Pair<'_> {
    fn judge(&self, truth: &Counts, listing: &Listing, judged: Option<&BTreeSet<u64>>) -> Result<Outcome> {
        let natively = self.native(&[])?;
        let (counted, profile) = self.counted(&[])?;
        if !profile.exists() {
            return Ok(Outcome::failed(format!(
                "no profile: {}",
                String::from_utf8_lossy(&counted.stderr).trim()
            )));
        }
        let profile = Profile::read(self.run.relive, &profile)?;
        // a program that does not even repeat itself cannot be held to it
        let same = counted == natively || counted.status == natively.status && self.native(&[])? != natively;
        let (compared, differences) = judge::compare(&profile, truth, listing, judged);
        let differences = self.run.witnesses.decide(differences, self)?;
        Ok(Outcome { failure: None, same, compared, differences, unbalanced: profile.unbalanced })
    }

    fn native(&self, environment: &[(&str, &OsStr)]) -> Result<Ran> {
        self.workload.run(&self.stage.put(self.file)?, environment)
    }

    /// What the rewritten program wrote, and its profile.
    fn counted(&self, environment: &[(&str, &OsStr)]) -> Result<(Ran, PathBuf)> {
        let profile = self.stage.folder.join("profile.rprof");
        if profile.exists() {
            std::fs::remove_file(&profile)?;
        }
        if self.run.under_engine {
            return Ok((self.under_engine(&profile, environment)?, profile));
        }
        let mut all = vec![("RELIVE_PROFILE", profile.as_os_str())];
        all.extend(environment);
        Ok((self.workload.run(&self.stage.put(self.rewritten)?, &all)?, profile))
    }

    /// Runs the program as it is under the engine. A workload may run it several times: the profiles are put together.
    fn under_engine(&self, profile: &Path, environment: &[(&str, &OsStr)]) -> Result<Ran> {
        let folder = self.stage.folder.join("profiles");
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir(&folder)?;
        let binary = self.stage.put(self.file)?;
        let relive = self.run.relive;
        let runner = self.stage.folder.join("runner");
        let text = format!(
            "#!/bin/sh\nexec {} run --modules '{}' -o {}/$$.rprof -- \"$@\"\n",
            relive.display(),
            binary.display(),
            folder.display()
        );
        std::fs::write(&runner, text)?;
        std::fs::set_permissions(&runner, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        // Whatever else is put before the program comes before that.
        let prefix =
            environment.iter().find(|(name, _)| *name == "RUNNER").map_or(OsStr::new(""), |own| own.1);
        let runner = format!("{} {}", prefix.display(), runner.display());
        let ran = self.workload.run(&binary, &[("RUNNER", runner.trim_start().as_ref())])?;
        let mut profiles = Vec::new();
        for entry in std::fs::read_dir(&folder)? {
            profiles.push(entry?.path());
        }
        if !profiles.is_empty() {
            output_of(Command::new(relive).arg("merge").args(profiles).arg("-o").arg(profile))?;
        }
        Ok(ran)
    }

    /// The counts of another run of the rewritten program.
    fn counts(&self, environment: &[(&str, &OsStr)]) -> Result<BTreeMap<u64, u64>> {
        let (_, profile) = self.counted(environment)?;
        Profile::counts(self.run.relive, &profile)
    }
}

impl Outcome {
    fn failed(failure: String) -> Self {
        Self {
            failure: Some(failure),
            same: false,
            compared: Compared::default(),
            differences: Vec::new(),
            unbalanced: Vec::new(),
        }
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.differences.iter().filter(|(_, own)| *own == verdict).count()
    }

    fn violations(&self) -> usize {
        usize::from(self.failure.is_some() || !self.same) + self.count(Verdict::Wrong) + self.unbalanced.len()
    }
}

/// The table, one row per copy, and what is wrong as it comes.
struct Report {
    table: Table,
    verbose: bool,
    violations: usize,
    blocks: u64,
    files: usize,
    /// Builds of which there is no truth.
    not_judged: Vec<String>,
}

impl Report {
    fn new(verbose: bool) -> Self {
        let table = Table::new(&[
            "file",
            "output",
            "blocks compared",
            "executed",
            "wrong",
            "valgrind differs",
            "varies",
            "rep only",
            "not measured",
            "% of instructions measured",
            "unbalanced",
        ]);
        Self { table, verbose, violations: 0, blocks: 0, files: 0, not_judged: Vec::new() }
    }

    fn add(&mut self, file: &str, outcome: &Outcome) {
        let shown = if self.verbose { usize::MAX } else { SHOWN };
        if let Some(failure) = &outcome.failure {
            println!("{file}: {failure}");
        } else if !outcome.same {
            println!("{file}: output or exit status differ");
        }
        let wrong =
            outcome.differences.iter().filter(|(_, verdict)| self.verbose || *verdict == Verdict::Wrong);
        for (difference, verdict) in wrong.take(shown) {
            println!("{file}: {}: {difference}", verdict.word());
        }
        for what in outcome.unbalanced.iter().take(shown) {
            println!("{file}: unbalanced: {what}");
        }
        self.violations += outcome.violations();
        self.blocks += outcome.compared.blocks;
        self.files += 1;
        let output = match (&outcome.failure, outcome.same) {
            (Some(_), _) => "none",
            (None, true) => "same",
            (None, false) => "differs",
        };
        let compared = &outcome.compared;
        let mut row = vec![file.to_owned(), output.to_owned()];
        row.extend([compared.blocks, compared.executed].map(|n| n.to_string()));
        row.extend(
            [Verdict::Wrong, Verdict::Valgrind, Verdict::Varies].map(|v| outcome.count(v).to_string()),
        );
        row.extend([compared.only_rep, compared.unmeasured].map(|n| n.to_string()));
        row.push(percent(compared.instructions_measured, compared.instructions));
        row.push(outcome.unbalanced.len().to_string());
        self.table.row(row);
    }

    fn finish(self) -> Result<u64> {
        println!(
            "\n{}\n{} files, {} blocks compared, violations: {}",
            self.table, self.files, self.blocks, self.violations
        );
        for build in &self.not_judged {
            println!("not judged: {build}");
        }
        ensure!(self.violations > 0 || self.not_judged.is_empty(), "some builds could not be judged");
        Ok(self.violations as u64)
    }
}
