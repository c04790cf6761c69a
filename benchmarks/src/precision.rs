//! Right matches, not only many: matched blocks judged by the debug information, which the matcher does not see.
//!
//! `relive match --no-debug-info` pairs the blocks of two versions, with symbols and stripped. `build` says which statements
//! each block comes from, `edits` which statements were edited, `judge` what is right.

mod build;
mod edits;
mod judge;
mod source;

use crate::carry::score::cell;
use crate::pairs::{self, Kind, Pair};
use crate::process::output_of;
use crate::table::Table;
use anyhow::{Context, Result};
use build::Build;
use edits::Edits;
use judge::{Matched, Share, Verdict};
use source::Texts;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// What benchmarks/corpus/build.sh --all made
    #[arg(long, env = "CORPUS_DIR", default_value = "target/corpus")]
    corpus: PathBuf,
    /// Programs [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Show so many wrong pairs of each pair of files, and as many unchanged blocks that were not found
    #[arg(long, default_value_t = 0)]
    show: usize,
}

const GOAL_PRECISION: f64 = 0.98;
const GOAL_RECALL: f64 = 0.99;
/// The stripped copies may be worse by so much.
const GOAL_STRIPPED: f64 = 0.01;

pub(crate) fn run(options: &Options) -> Result<u64> {
    let corpus =
        options.corpus.canonicalize().with_context(|| format!("no corpus: {}", options.corpus.display()))?;
    let relive = options.relive.canonicalize().context("no relive: --relive names it")?;
    let pairs = pairs::existing(&corpus, None, &options.only)?;
    let mut texts = Texts::default();
    let mut builds: BTreeMap<String, Build> = BTreeMap::new();
    let mut report = Report::new();
    for pair in &pairs {
        eprintln!("{}", pair.name());
        // versions of one program only: line tables are large
        builds.retain(|key, _| key.starts_with(&format!("{} ", pair.old.program)));
        let key = |build: &crate::corpus::Build| format!("{} {}", build.program, build.version);
        for build in [&pair.old, &pair.new] {
            if let Entry::Vacant(place) = builds.entry(key(build)) {
                place.insert(Build::take(&relive, &corpus, build, &mut texts)?);
            }
        }
        let (old, new) = (&builds[&key(&pair.old)], &builds[&key(&pair.new)]);
        let edits = Edits::between(old, new)?;
        let mut verdicts = Vec::new();
        for stripped in [false, true] {
            match matched(&relive, &corpus, pair, stripped) {
                Ok(matched) => {
                    let verdict = judge::judge(&matched, old, new, &edits, stripped);
                    Show { pair, old, new, stripped, texts: &texts }.print(&verdict, options.show);
                    verdicts.push(verdict);
                }
                Err(error) => report.fail(pair, &error),
            }
        }
        if let Ok([named, stripped]) = <[Verdict; 2]>::try_from(verdicts) {
            report.add(pair, &named, &stripped);
        }
    }
    Ok(report.finish())
}

fn matched(relive: &Path, corpus: &Path, pair: &Pair, stripped: bool) -> Result<Vec<Matched>> {
    let mut command = Command::new(relive);
    command.args(["match", "--tsv", "--no-debug-info"]);
    for build in [&pair.old, &pair.new] {
        command.arg(if stripped { build.binary(corpus, ".stripped") } else { build.named(corpus) });
    }
    judge::parse(&output_of(&mut command)?)
}

/// Prints wrong pairs and unchanged blocks that were not found, to see why.
struct Show<'a> {
    pair: &'a Pair,
    old: &'a Build,
    new: &'a Build,
    stripped: bool,
    texts: &'a Texts,
}

impl Show<'_> {
    fn print(&self, verdict: &Verdict, most: usize) {
        let name = format!("{}{}", self.pair.name(), if self.stripped { " stripped" } else { "" });
        for wrong in verdict.wrong.iter().take(most) {
            println!("{name}: wrong at level {}", wrong.level);
            self.block("old", self.old, wrong.old);
            self.block("new", self.new, wrong.new);
        }
        for &(partner, address) in verdict.missed.iter().take(most) {
            println!("{name}: unchanged and not found");
            if let Some(partner) = partner {
                self.block("old", self.old, partner);
            }
            self.block("new", self.new, address);
        }
    }

    fn block(&self, side: &str, build: &Build, address: u64) {
        let blocks = if self.stripped { &build.stripped } else { &build.named };
        let Some(block) = blocks.get(&address) else { return };
        println!("  {side} {address:#x} {}", block.function);
        for &text in &block.texts {
            let mark = if block.first == Some(text) { "*" } else { " " };
            println!("    {mark} {}", self.texts.text(text));
        }
    }
}

/// One row per pair, and sums.
struct Report {
    table: Table,
    /// With symbols and stripped.
    sums: BTreeMap<Kind, [Verdict; 2]>,
    violations: u64,
}

impl Report {
    fn new() -> Self {
        let own = [
            "pairs",
            "judged",
            "precision",
            "same first line",
            "unchanged blocks",
            "matched",
            "recall",
            "stripped precision",
            "matched",
            "recall",
        ];
        let table = Table::new(&[&pairs::COLUMNS[..], &own].concat());
        Self { table, sums: BTreeMap::new(), violations: 0 }
    }

    fn fail(&mut self, pair: &Pair, error: &anyhow::Error) {
        println!("{}: {error:#}", pair.name());
        self.violations += 1;
    }

    fn add(&mut self, pair: &Pair, named: &Verdict, stripped: &Verdict) {
        self.table.row([pair.cells(), cells(named, stripped)].concat());
        let sums = self.sums.entry(pair.kind).or_default();
        sums[0].add(named);
        sums[1].add(stripped);
    }

    fn finish(mut self) -> u64 {
        let mut all: [Verdict; 2] = Default::default();
        for (kind, sums) in &self.sums {
            self.table.row([kind.cells(), cells(&sums[0], &sums[1])].concat());
            for (all, sum) in all.iter_mut().zip(sums) {
                all.add(sum);
            }
        }
        println!("\n{}\n{}", self.table, levels(&all));
        for (what, value, goal) in goals(&all) {
            let holds = value >= goal;
            println!(
                "{what}: {:.2} %, goal {:.2} %{}",
                100.0 * value,
                100.0 * goal,
                if holds { "" } else { ": missed" }
            );
            self.violations += u64::from(!holds);
        }
        println!("violations: {}", self.violations);
        self.violations
    }
}

fn goals([named, stripped]: &[Verdict; 2]) -> [(&'static str, f64, f64); 4] {
    let (precision, recall) = (named.precision.fraction(), named.recall.fraction());
    [
        ("precision", precision, GOAL_PRECISION),
        ("recall", recall, GOAL_RECALL),
        ("precision, stripped", stripped.precision.fraction(), precision - GOAL_STRIPPED),
        ("recall, stripped", stripped.recall.fraction(), recall - GOAL_STRIPPED),
    ]
}

fn cells(named: &Verdict, stripped: &Verdict) -> Vec<String> {
    let share = |share: Share| cell(Some(share.fraction()));
    vec![
        named.pairs.to_string(),
        named.precision.all.to_string(),
        share(named.precision),
        share(named.first),
        named.recall.all.to_string(),
        share(named.matched),
        share(named.recall),
        share(stripped.precision),
        share(stripped.matched),
        share(stripped.recall),
    ]
}

/// Precision by level.
fn levels([named, stripped]: &[Verdict; 2]) -> Table {
    let mut table = Table::new(&["level", "judged", "precision", "stripped: judged", "precision"]);
    let mut names: Vec<&String> = named.levels.keys().chain(stripped.levels.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for level in names {
        let mut row = vec![level.clone()];
        for verdict in [named, stripped] {
            let share = verdict.levels.get(level).copied().unwrap_or_default();
            row.extend([share.all.to_string(), cell((share.all > 0).then(|| share.fraction()))]);
        }
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(right: u64) -> Verdict {
        let share = Share { right, all: 1000 };
        Verdict { precision: share, recall: share, ..Verdict::default() }
    }

    #[test]
    fn stripped_copies_are_held_to_the_others() {
        let missed = |named, stripped| {
            let goals = goals(&[verdict(named), verdict(stripped)]);
            goals.iter().filter(|(_, value, goal)| value < goal).map(|(what, ..)| *what).collect::<Vec<_>>()
        };
        assert!(missed(995, 990).is_empty());
        assert_eq!(missed(985, 980), ["recall"]);
        assert_eq!(missed(995, 980), ["precision, stripped", "recall, stripped"]);
    }
}
