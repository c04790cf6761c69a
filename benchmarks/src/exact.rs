//! Counts of rewritten programs against callgrind's: every block of every measured function, exactly.
//!
//! Where the two differ, further witnesses decide whether the program itself does something else under valgrind or from
//! run to run (`natively`).

mod judge;
mod natively;
mod profile;
mod truth;

use crate::corpus::{self, Build};
use crate::oracle::listing::Listing;
use crate::oracle::symbols::Symbols;
use crate::process::output_of;
use crate::table::{Table, percent};
use crate::workload::{Ran, Workload};
use anyhow::{Context, Result};
use judge::{Compared, Difference, Verdict};
use natively::Natively;
use profile::Profile;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use truth::Truths;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// What benchmarks/corpus/build.sh made
    #[arg(long, env = "CORPUS_DIR", default_value = "target/corpus")]
    corpus: PathBuf,
    /// Keep callgrind's counts here, and use those of the same file and workload
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Programs, configurations or both: lua, clang-O2, lua/clang-O2 [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
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
    let context = Run {
        relive: &relive,
        corpus: &corpus,
        natively: Natively::compile(scratch.path())?,
        truths: Truths::new(options.cache.as_deref())?,
    };
    let mut report = Report::new(options.verbose);
    for build in &builds {
        eprintln!("{}", build.name());
        for (copy, outcome) in context.build(build)? {
            report.add(&format!("{} {copy}", build.name()), &outcome);
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
    natively: Natively,
    truths: Truths,
}

impl Run<'_> {
    /// Both copies of a build: with symbols, and stripped. Their addresses are the same, so one truth serves both.
    fn build(&self, build: &Build) -> Result<Vec<(&'static str, Outcome)>> {
        let stripped = build.binary(self.corpus, ".stripped");
        // relive is never shown clang's block map
        let named = Some(build.binary(self.corpus, ".nomap")).filter(|path| path.exists());
        let named = named.unwrap_or_else(|| build.binary(self.corpus, ""));
        let workload = Workload::of(&build.program, self.corpus);
        let judged = if is_static(build) { Some(self.own_code(build)?) } else { None };
        let listing = Listing::of(&stripped)?;
        let truth = self.truths.of(build, &workload, &stripped)?;
        let mut outcomes = Vec::new();
        for (copy, file) in [("", &named), ("stripped", &stripped)] {
            let place = Place::new(&build.program)?;
            let native = place.copy(file, "as-built")?;
            let natively = workload.run(&native, &[])?;
            let outcome = match self.counted(&workload, file, &place, "edges", &[])? {
                Err(failure) => Outcome::failed(failure),
                Ok((counted, profile)) => {
                    let profile = Profile::read(self.relive, &profile)?;
                    let mut same = counted == natively;
                    if !same {
                        // a program that does not even repeat itself cannot be held to it
                        same = workload.run(&native, &[])? != natively && counted.status == natively.status;
                    }
                    let (compared, differences) = judge::compare(&profile, &truth, &listing, judged.as_ref());
                    let again = |environment: &[(&str, &OsStr)]| -> Result<_> {
                        let (_, profile) = self
                            .counted(&workload, file, &place, "edges", environment)?
                            .map_err(anyhow::Error::msg)?;
                        Profile::counts(self.relive, &profile)
                    };
                    let differences = self.natively.decide(differences, &workload, &native, &again)?;
                    Outcome { failure: None, same, compared, differences, unbalanced: profile.unbalanced }
                }
            };
            outcomes.push((copy, outcome));
        }
        Ok(outcomes)
    }

    /// Rewrites and runs: what it wrote, and the profile.
    fn counted(
        &self,
        workload: &Workload,
        file: &Path,
        place: &Place,
        mode: &str,
        environment: &[(&str, &OsStr)],
    ) -> Result<Result<(Ran, PathBuf), String>> {
        let binary = place.path("counted_")?;
        let rewritten = output_of(
            Command::new(self.relive)
                .args(["instrument", "--trap", "--mode", mode])
                .arg(file)
                .arg("-o")
                .arg(&binary),
        );
        if let Err(error) = rewritten {
            return Ok(Err(format!("{error:#}")));
        }
        let profile = place.folder.path().join("profile.rprof");
        if profile.exists() {
            std::fs::remove_file(&profile)?;
        }
        let mut all = vec![("RELIVE_PROFILE", profile.as_os_str())];
        all.extend(environment);
        let ran = workload.run(&binary, &all)?;
        if !profile.exists() {
            return Ok(Err(format!("no profile: {}", String::from_utf8_lossy(&ran.stderr).trim())));
        }
        Ok(Ok((ran, profile)))
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

/// Folders whose names have the same length, so that every run sees the same layout of its arguments; the file has
/// the name of the program, which some programs look at.
struct Place {
    folder: tempfile::TempDir,
    name: String,
}

impl Place {
    fn new(program: &str) -> Result<Self> {
        Ok(Self { folder: tempfile::tempdir()?, name: program.to_owned() })
    }

    fn path(&self, kind: &str) -> Result<PathBuf> {
        let folder = self.folder.path().join(kind);
        std::fs::create_dir_all(&folder)?;
        Ok(folder.join(&self.name))
    }

    fn copy(&self, file: &Path, kind: &str) -> Result<PathBuf> {
        let path = self.path(kind)?;
        std::fs::copy(file, &path)?;
        Ok(path)
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
        Self { table, verbose, violations: 0, blocks: 0, files: 0 }
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
        Ok(self.violations as u64)
    }
}
