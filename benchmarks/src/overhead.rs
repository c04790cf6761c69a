//! What counting costs: processor time of programs as built, rewritten by relive, and with the counters of peers.
//!
//! All variants of a program run in turn, N times; the best run of each counts. Each is compared to the build it was
//! made from: gcc's counters to gcc -O2, clang's to clang -O2, BOLT's to the build with relocations that it needs.

pub(crate) mod engine;
pub(crate) mod subjects;
mod timed;
mod variant;

pub(crate) use timed::{TimeOptions, time_child};

use crate::table::Table;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::time::Duration;
use subjects::{Group, Subject};
use variant::{Column, Ready};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// What benchmarks/corpus/build.sh made
    #[arg(long, env = "CORPUS_DIR", default_value = "target/corpus")]
    corpus: PathBuf,
    /// llvm-bolt, by the path beside which it finds its run-time library
    #[arg(long, default_value = "/usr/lib/llvm-19/bin/llvm-bolt")]
    bolt: PathBuf,
    /// Runs of each variant; the best counts
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Runs of each variant of cc1, which takes a minute
    #[arg(long, default_value_t = 2)]
    long_runs: usize,
    /// Programs of the corpus, `cc1`, `threads`, `loops` [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<u64> {
    let corpus =
        options.corpus.canonicalize().with_context(|| format!("no corpus: {}", options.corpus.display()))?;
    let scratch = tempfile::tempdir()?;
    let tools = variant::Tools {
        relive: options.relive.canonicalize().context("no relive: --relive names it")?,
        bolt: options.bolt.clone(),
    };
    let subjects = subjects::all(&corpus, scratch.path(), &options.only)?;
    ensure!(
        !subjects.is_empty(),
        "nothing to measure: --only names programs of counting.tsv, cc1, threads or loops"
    );
    let mut rows = Vec::new();
    let mut violations = 0;
    for subject in &subjects {
        eprintln!("{}", subject.name);
        let folder = tempfile::tempdir_in(scratch.path())?;
        let ready = variant::prepare(subject, &tools, folder.path())?;
        let runs = if subject.group == Group::Long { options.long_runs } else { options.runs };
        let row = measure(subject, &ready, folder.path(), runs.max(1))?;
        for (column, cell) in Column::ALL.iter().zip(&row.cells) {
            if let Cell::Failed(why) = cell {
                println!("{}: {}: {}", subject.name, column.name(), why.lines().last().unwrap_or_default());
                violations += u64::from(column.is_ours());
            }
        }
        if let Err(why) = subject.check(&tools.relive, &ready, folder.path()) {
            println!("{}: {why:#}", subject.name);
            violations += 1;
        }
        rows.push(row);
    }
    println!("\n{}", table(&rows));
    println!(
        "Processor time (user + system) relative to the same program without counters, best of {} (cc1: of {}).",
        options.runs, options.long_runs
    );
    println!("violations: {violations}");
    Ok(violations)
}

struct Row {
    name: String,
    group: Group,
    native: Option<Duration>,
    cells: Vec<Cell>,
}

#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Ratio(f64),
    Missing,
    Failed(String),
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Self::Ratio(ratio) => format!("{ratio:.2}"),
            Self::Missing => "-".to_owned(),
            Self::Failed(_) => "fails".to_owned(),
        }
    }
}

fn measure(subject: &Subject, ready: &[(Column, Ready)], scratch: &Path, runs: usize) -> Result<Row> {
    let mut best: Vec<Option<Duration>> = vec![None; Column::ALL.len()];
    let mut failed: Vec<Option<String>> = vec![None; Column::ALL.len()];
    let mut expected = None;
    for _ in 0..runs {
        for (index, column) in Column::ALL.iter().enumerate() {
            let Some((_, ready)) = ready.iter().find(|(own, _)| own == column) else { continue };
            let binary = match ready {
                Ready::Binary(binary) => binary,
                Ready::Failed(why) => {
                    failed[index] = Some(why.clone());
                    continue;
                }
            };
            let run = timed::run(subject, binary, scratch)?;
            let expected = expected.get_or_insert_with(|| run.output.clone());
            if *expected != run.output {
                failed[index] = Some("output or exit status differ".to_owned());
            }
            best[index] = Some(best[index].map_or(run.time, |best| best.min(run.time)));
        }
    }
    let cells = Column::ALL.iter().enumerate().map(|(index, column)| {
        let base = Column::ALL.iter().position(|other| *other == column.base()).and_then(|base| best[base]);
        match (&failed[index], best[index], base) {
            (Some(why), ..) => Cell::Failed(why.clone()),
            (None, Some(time), Some(base)) => Cell::Ratio(time.as_secs_f64() / base.as_secs_f64()),
            _ => Cell::Missing,
        }
    });
    let cells = cells.collect();
    Ok(Row { name: subject.name.clone(), group: subject.group, native: best[0], cells })
}

fn table(rows: &[Row]) -> Table {
    let shown: Vec<usize> =
        (0..Column::ALL.len()).filter(|&index| Column::ALL[index].base() != Column::ALL[index]).collect();
    let mut header = vec!["program", "native s"];
    header.extend(shown.iter().map(|&index| Column::ALL[index].name()));
    let mut table = Table::new(&header);
    let lines = |table: &mut Table, group: Group| {
        for row in rows.iter().filter(|row| row.group == group) {
            let native =
                row.native.map_or_else(|| "-".to_owned(), |time| format!("{:.3}", time.as_secs_f64()));
            let mut cells = vec![row.name.clone(), native];
            cells.extend(shown.iter().map(|&index| row.cells[index].text()));
            table.row(cells);
        }
    };
    let summary = |table: &mut Table, name: &str, group: Group, of: fn(&[f64]) -> Option<f64>| {
        if rows.iter().filter(|row| row.group == group).count() < 2 {
            return;
        }
        let mut cells = vec![name.to_owned(), String::new()];
        for &index in &shown {
            let ratios: Vec<f64> = rows
                .iter()
                .filter(|row| row.group == group)
                .filter_map(|row| if let Cell::Ratio(ratio) = row.cells[index] { Some(ratio) } else { None })
                .collect();
            let all = rows.iter().filter(|row| row.group == group).count();
            let part =
                if ratios.len() < all { format!(" ({} of {all})", ratios.len()) } else { String::new() };
            cells.push(of(&ratios).map_or_else(|| "-".to_owned(), |value| format!("{value:.2}{part}")));
        }
        table.row(cells);
    };
    lines(&mut table, Group::Corpus);
    summary(&mut table, "**geometric mean**", Group::Corpus, geometric_mean);
    lines(&mut table, Group::Long);
    lines(&mut table, Group::Threads);
    lines(&mut table, Group::Loops);
    summary(&mut table, "**worst loop**", Group::Loops, worst);
    table
}

fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    (!ratios.is_empty())
        .then(|| (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp())
}

fn worst(ratios: &[f64]) -> Option<f64> {
    ratios.iter().copied().reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means() {
        assert_eq!(geometric_mean(&[]), None);
        assert!((geometric_mean(&[1.0, 4.0]).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(worst(&[1.0, 3.0, 2.0]), Some(3.0));
    }

    #[test]
    fn a_mean_of_some_says_so() {
        let row = |name: &str, cell: Cell| Row {
            name: name.to_owned(),
            group: Group::Corpus,
            native: Some(Duration::from_millis(100)),
            cells: vec![cell; Column::ALL.len()],
        };
        let text = table(&[row("a", Cell::Ratio(1.5)), row("b", Cell::Failed("x".to_owned()))]).to_string();
        assert!(text.contains("1.50 (1 of 2)") && text.contains("fails"), "{text}");
    }
}
