//! Profiles carried to the next version of a program, against fresh profiles of that version with the same input.
//!
//! Every number is what `relive evaluate` says; this file only decides what is compared with what. Beside each pair stands
//! how much two runs of the *same* build differ, which no carrying can beat.

mod axes;
pub(crate) mod score;

use crate::corpus::Build;
use crate::pairs::{self, Kind, Pair};
use crate::profiles::{self, Profiles};
use crate::table::Table;
use anyhow::{Context, Result};
use score::{Score, average, cell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// What benchmarks/corpus/build.sh --all made
    #[arg(long, env = "CORPUS_DIR", default_value = "target/corpus")]
    corpus: PathBuf,
    /// Profiles are kept here, and used again
    #[arg(long, default_value = "target/carry")]
    work: PathBuf,
    /// Programs [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Runs of each build: the first is compared, the others tell how much runs differ
    #[arg(long, default_value_t = 2)]
    runs: usize,
    /// Other compilers and levels, stripped files, the build itself and a foreign program, instead of other versions
    #[arg(long)]
    axes: bool,
}

/// What the average over consecutive releases has to reach.
const GOAL_BP: f64 = 0.99;
const GOAL_CC: f64 = 0.98;

pub(crate) fn run(options: &Options) -> Result<u64> {
    let corpus =
        options.corpus.canonicalize().with_context(|| format!("no corpus: {}", options.corpus.display()))?;
    let relive = options.relive.canonicalize().context("no relive: --relive names it")?;
    let folder = profiles::folder(&options.work)?;
    let carry = Carry {
        profiles: Profiles { relive: &relive, corpus: &corpus, folder: &folder },
        runs: options.runs,
    };
    if options.axes { axes::run(&carry, &options.only) } else { carry.versions(&options.only) }
}

/// What is needed to carry profiles.
struct Carry<'a> {
    profiles: Profiles<'a>,
    runs: usize,
}

/// A build, both copies of it, with their profiles.
struct Measured {
    named: Copy,
    stripped: Copy,
    /// The runs of the named copy against each other.
    again: Option<Score>,
}

struct Copy {
    file: PathBuf,
    profile: PathBuf,
}

impl Carry<'_> {
    fn versions(&self, only: &[String]) -> Result<u64> {
        let pairs = pairs::existing(self.profiles.corpus, None, only)?;
        let mut measured: BTreeMap<String, Result<Measured>> = BTreeMap::new();
        let mut rows = Vec::new();
        for pair in &pairs {
            for build in [&pair.old, &pair.new] {
                measured.entry(key(build)).or_insert_with(|| self.measure(build));
            }
            eprintln!("{}", pair.name());
            let row = match (&measured[&key(&pair.old)], &measured[&key(&pair.new)]) {
                (Ok(old), Ok(new)) => Row::of(self, old, new),
                (Err(error), _) | (_, Err(error)) => Row::failed(&format!("no profile: {error:#}")),
            };
            rows.push((pair, row));
        }
        Ok(report(&rows))
    }

    fn measure(&self, build: &Build) -> Result<Measured> {
        let corpus = self.profiles.corpus;
        let of = |file: PathBuf, runs| {
            let profiles = self.profiles.of(build, &file, runs)?;
            Ok::<_, anyhow::Error>((file, profiles))
        };
        let (file, runs) = of(build.named(corpus), self.runs.max(1))?;
        let (first, others) = runs.split_first().context("no run")?;
        let again: Vec<Score> =
            others.iter().map(|other| self.evaluate(other, first)).collect::<Result<_>>()?;
        let named = Copy { file, profile: first.clone() };
        let (file, mut runs) = of(build.binary(corpus, ".stripped"), 1)?;
        Ok(Measured { named, stripped: Copy { file, profile: runs.remove(0) }, again: average(again.iter()) })
    }

    fn evaluate(&self, carried: &Path, fresh: &Path) -> Result<Score> {
        Score::take(self.profiles.relive, carried, fresh)
    }

    /// Carries the profile of one file to another, and returns where it is.
    fn migrate(&self, old: &Copy, new: &Copy) -> Result<PathBuf> {
        let out = self.profiles.folder.join("carried.rprof");
        score::migrate(self.profiles.relive, &old.profile, &new.file, &out)?;
        Ok(out)
    }

    fn carried(&self, old: &Copy, new: &Copy) -> Result<Score> {
        self.evaluate(&self.migrate(old, new)?, &new.profile)
    }
}

fn key(build: &Build) -> String {
    format!("{} {}", build.name(), build.version)
}

/// One pair: its scores, or why there are none.
#[derive(Default)]
struct Row {
    named: Option<Score>,
    stripped: Option<Score>,
    again: Option<Score>,
    failures: Vec<String>,
}

impl Row {
    fn of(carry: &Carry, old: &Measured, new: &Measured) -> Self {
        let mut failures = Vec::new();
        let mut keep = |score: Result<Score>, copy: &str| {
            score.map_err(|error| failures.push(format!("{copy}: {error:#}"))).ok()
        };
        let named = keep(carry.carried(&old.named, &new.named), "with symbols");
        let stripped = keep(carry.carried(&old.stripped, &new.stripped), "stripped");
        Self { named, stripped, again: new.again, failures }
    }

    fn failed(why: &str) -> Self {
        Self { failures: vec![why.to_owned()], ..Self::default() }
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = Vec::new();
        let full: [fn(&Score) -> f64; 5] =
            [|s| s.bp, |s| s.cc, |s| s.overlap, |s| s.edge_overlap, |s| s.matched_counts];
        cells.extend(full.iter().map(|part| cell(self.named.as_ref().map(part))));
        cells.extend(full[..3].iter().map(|part| cell(self.stripped.as_ref().map(part))));
        cells.extend(full[..2].iter().map(|part| cell(self.again.as_ref().map(part))));
        cells
    }
}

fn report(rows: &[(&Pair, Row)]) -> u64 {
    let own = [
        "B.P.",
        "C.C.",
        "overlap",
        "edge overlap",
        "matched counts",
        "stripped B.P.",
        "C.C.",
        "overlap",
        "same build B.P.",
        "C.C.",
    ];
    let mut table = Table::new(&[&pairs::COLUMNS[..], &own].concat());
    let mut violations = 0;
    for (pair, row) in rows {
        for failure in &row.failures {
            println!("{}: {failure}", pair.name());
        }
        violations += row.failures.len() as u64;
        table.row([pair.cells(), row.cells()].concat());
    }
    for kind in Kind::ALL {
        let of_kind = |pair: &Pair| pair.kind == kind;
        let all = mean(rows.iter().filter(|(pair, _)| of_kind(pair)).map(|(_, row)| row));
        table.row([kind.cells(), all.cells()].concat());
        if kind != Kind::Consecutive {
            continue;
        }
        table.row(
            [pairs::title("**the same, mean of programs**"), mean_of_programs(rows, of_kind).cells()]
                .concat(),
        );
        let Some(score) = all.named else { continue };
        for (what, value, goal) in [("B.P.", score.bp, GOAL_BP), ("C.C.", score.cc, GOAL_CC)] {
            if value < goal {
                println!("average {what} of consecutive releases {value:.4}, not {goal}");
                violations += 1;
            }
        }
    }
    println!(
        "\n{table}\nIn percent. Goal for consecutive releases, on average: B.P. 99, C.C. 98. violations: {violations}"
    );
    violations
}

/// The average of the averages of each program: some have many more releases than others.
fn mean_of_programs(rows: &[(&Pair, Row)], wanted: impl Fn(&Pair) -> bool) -> Row {
    let mut programs: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for (pair, row) in rows.iter().filter(|(pair, _)| wanted(pair)) {
        programs.entry(&pair.old.program).or_default().push(row);
    }
    let means: Vec<Row> = programs.into_values().map(|rows| mean(rows.into_iter())).collect();
    mean(means.iter())
}

/// The average of each column over the rows that have it.
fn mean<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> Row {
    let of = |part: fn(&Row) -> Option<&Score>| average(rows.clone().filter_map(part));
    Row {
        named: of(|row| row.named.as_ref()),
        stripped: of(|row| row.stripped.as_ref()),
        again: of(|row| row.again.as_ref()),
        failures: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(program: &str, kind: Kind) -> Pair {
        let build = |version: &str| Build {
            program: program.to_owned(),
            version: version.to_owned(),
            configuration: "gcc-O2".to_owned(),
        };
        Pair { old: build("1"), new: build("2"), between: 0, kind }
    }

    fn row(bp: f64) -> Row {
        let score = Score { bp, cc: 1.0, overlap: 1.0, edge_overlap: 1.0, matched_counts: 1.0 };
        Row { named: Some(score), ..Row::default() }
    }

    #[test]
    fn the_average_of_consecutive_releases_decides() {
        let (next, jump, far) = (Kind::Consecutive, Kind::Jump, Kind::Distant);
        let [next, jump, far] = [next, jump, far].map(|kind| pair("lua", kind));
        let rows = [(&next, row(0.985)), (&next, row(0.999)), (&jump, row(0.6)), (&far, row(0.5))];
        assert_eq!(report(&rows), 0);
        assert_eq!(report(&[(&next, row(0.98)), (&next, row(0.999))]), 1);
        assert_eq!(report(&[(&next, row(0.999)), (&next, Row::failed("x"))]), 1);
    }

    #[test]
    fn each_program_weighs_the_same() {
        let [lua, lz4] = ["lua", "lz4"].map(|program| pair(program, Kind::Consecutive));
        let rows = [(&lua, row(1.0)), (&lua, row(0.8)), (&lz4, row(0.5))];
        let mean = mean_of_programs(&rows, |_| true).named.unwrap();
        assert!((mean.bp - 0.7).abs() < 1e-9);
    }
}
