//! The accuracy runs: truth of each build, relive's reading of its copies, and a table of the differences.

use crate::compare::{Fault, Findings, compare, compare_executed};
use crate::corpus::{self, Build};
use crate::oracle::callgrind;
use crate::relive::Reading;
use crate::table::{Table, percent};
use crate::truth::{self, Truth};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// What benchmarks/corpus/build.sh made
    #[arg(long, env = "CORPUS_DIR", default_value = "target/corpus")]
    corpus: PathBuf,
    /// Print every violation, not only the first ones of each file
    #[arg(long)]
    verbose: bool,
    /// Leave the runs under valgrind out
    #[arg(long)]
    no_run: bool,
    /// Programs, configurations or both: lua, clang-O2, lua/clang-O2 [default: all]
    only: Vec<String>,
}

/// Without --verbose, so many violations of each file are shown.
const SHOWN: usize = 5;

pub(crate) fn clang(options: &Options) -> Result<u64> {
    let (corpus, builds) = prepare(options, "clang-")?;
    let mut report = Report::new(options.verbose);
    for build in builds {
        let truth = truth::clang::truth(
            &build.binary(&corpus, ""),
            &build.binary(&corpus, ".labels"),
            &build.assembler(&corpus),
        )?;
        judge(options, &corpus, &build, &truth, &[".nomap", ".stripped"], None, &mut report)?;
    }
    report.finish()
}

pub(crate) fn gcc(options: &Options) -> Result<u64> {
    let (corpus, builds) = prepare(options, "gcc-")?;
    let mut report = Report::new(options.verbose);
    for build in builds {
        let truth = truth::gcc::truth(
            &build.binary(&corpus, ""),
            &build.binary(&corpus, ".labels"),
            &build.assembler(&corpus),
        )?;
        let jumps = if options.no_run { None } else { Some(executed_jumps(&corpus, &build)?) };
        judge(options, &corpus, &build, &truth, &["", ".stripped"], jumps.as_ref(), &mut report)?;
    }
    report.finish()
}

/// Any build, judged by what it executes; by default those that have no other truth.
pub(crate) fn executed(options: &Options) -> Result<u64> {
    let (corpus, builds) = prepare(options, if options.only.is_empty() { "rustc-" } else { "" })?;
    let mut report = Report::new(options.verbose);
    for build in builds {
        let truth = truth::gcc::bare_truth(&build.binary(&corpus, ""))?;
        let jumps = executed_jumps(&corpus, &build)?;
        for suffix in ["", ".stripped"] {
            let reading = read(options, &build.binary(&corpus, suffix))?;
            let mut findings = Findings::of_functions(&truth, &reading);
            compare_executed(&truth, &reading, &jumps, &mut findings);
            report.add(format!("{}{suffix}", build.name()), &findings);
        }
    }
    report.finish()
}

fn prepare(options: &Options, compiler: &str) -> Result<(PathBuf, Vec<Build>)> {
    let corpus =
        options.corpus.canonicalize().with_context(|| format!("no corpus: {}", options.corpus.display()))?;
    let builds = corpus::builds(&corpus, compiler, &options.only)?;
    Ok((corpus, builds))
}

fn executed_jumps(corpus: &Path, build: &Build) -> Result<callgrind::Jumps> {
    eprintln!("running {} under callgrind", build.name());
    callgrind::run(&build.workload(), corpus, &build.binary(corpus, ""))
}

fn read(options: &Options, binary: &Path) -> Result<Reading> {
    Reading::take(&options.relive, binary).with_context(|| format!("{}", binary.display()))
}

fn judge(
    options: &Options,
    corpus: &Path,
    build: &Build,
    truth: &Truth,
    suffixes: &[&str],
    jumps: Option<&callgrind::Jumps>,
    report: &mut Report,
) -> Result<()> {
    for suffix in suffixes {
        let reading = read(options, &build.binary(corpus, suffix))?;
        let mut findings = compare(truth, &reading);
        if let Some(jumps) = jumps {
            compare_executed(truth, &reading, jumps, &mut findings);
        }
        report.add(format!("{}{suffix}", build.name()), &findings);
    }
    Ok(())
}

/// The table, one row per file, and the violations as they come.
struct Report {
    table: Table,
    verbose: bool,
    violations: u64,
}

impl Report {
    fn new(verbose: bool) -> Self {
        let table = Table::new(&[
            "file",
            "functions",
            "found",
            "understood",
            "%",
            "blocks",
            "after call",
            "after jump",
            "after trap",
            "other target",
            "padding",
            "wrong starts",
            "required",
            "missing starts",
            "edges",
            "missing edges",
            "wrong edges",
            "executed",
            "executed wrong",
            "extra targets",
            "tails unlisted",
        ]);
        Self { table, verbose, violations: 0 }
    }

    fn add(&mut self, file: String, findings: &Findings) {
        let shown = if self.verbose { usize::MAX } else { SHOWN };
        for violation in findings.violations.iter().take(shown) {
            println!("{file}: {:?}: {}: {}", violation.fault, violation.function, violation.what);
        }
        if let Some(rest @ 1..) = findings.violations.len().checked_sub(shown) {
            println!("{file}: … and {rest} more (--verbose shows them)");
        }
        self.violations += findings.violations.len() as u64;
        let mut row = vec![file];
        row.extend([findings.functions, findings.found, findings.understood].map(|n| n.to_string()));
        row.push(percent(findings.understood, findings.functions));
        row.extend(
            [
                findings.blocks,
                findings.after_call,
                findings.after_jump,
                findings.after_trap,
                findings.target,
                findings.padding,
                findings.count(Fault::WrongStart),
                findings.required,
                findings.count(Fault::MissingStart),
                findings.edges,
                findings.count(Fault::MissingEdge),
                findings.count(Fault::WrongEdge),
                findings.executed,
                findings.count(Fault::Executed),
                findings.extra_targets,
                findings.unlisted_tails,
            ]
            .map(|n| n.to_string()),
        );
        self.table.row(row);
    }

    fn finish(self) -> Result<u64> {
        println!("\n{}\nviolations: {}", self.table, self.violations);
        Ok(self.violations)
    }
}
