//! What the engine costs: processor time of programs as built, under `relive run` with and without counting, and under
//! Valgrind without a tool.
//!
//! The time is that of the program and what it starts; what the tool does with the counts afterwards is not in it.

use super::subjects::{self, Group};
use super::timed;
use crate::table::Table;
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// What benchmarks/corpus/build.sh made
    #[arg(long, env = "CORPUS_DIR", default_value = "target/corpus")]
    corpus: PathBuf,
    /// Runs of each variant; the best counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Also `valgrind --tool=none`, which takes long
    #[arg(long)]
    valgrind: bool,
    /// Programs of the corpus, `cc1`, `threads`, `loops`, `gzip`, `python3`, `c++` [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<u64> {
    let corpus =
        options.corpus.canonicalize().with_context(|| format!("no corpus: {}", options.corpus.display()))?;
    let relive = options.relive.canonicalize().context("no relive: --relive names it")?;
    let scratch = tempfile::tempdir()?;
    let mut subjects = subjects::all(&corpus, scratch.path(), &options.only)?;
    subjects::lengthen(&mut subjects);
    subjects.extend(subjects::installed(&corpus, scratch.path(), &options.only)?);
    ensure!(
        !subjects.is_empty(),
        "nothing to measure: --only names programs of counting.tsv, cc1, threads, loops, gzip, python3 or c++"
    );
    let profile = scratch.path().join("engine.rprof");
    let counting = format!("{} run -o {} --", relive.display(), profile.display());
    let mut columns = vec![
        ("native", String::new()),
        ("engine", format!("{} run --no-count --", relive.display())),
        ("counting", counting),
    ];
    if options.valgrind {
        columns.push(("valgrind none", "valgrind -q --tool=none --trace-children=yes".to_owned()));
    }
    let mut table = Table::new(&["program", "native s", "engine", "counting", "valgrind none"]);
    let mut logs = vec![(0.0, 0u32); columns.len()];
    let mut violations = 0;
    for subject in &subjects {
        eprintln!("{}", subject.name);
        let Some(binary) = subject.binary(&subject.configuration) else { continue };
        let folder = tempfile::tempdir_in(scratch.path())?;
        let mut best: Vec<Option<Duration>> = vec![None; columns.len()];
        let mut expected = None;
        for _ in 0..options.runs.max(1) {
            for ((name, prefix), best) in columns.iter().zip(&mut best) {
                let run = timed::run_under(prefix, subject, &binary, folder.path())?;
                if *expected.get_or_insert_with(|| run.output.clone()) != run.output {
                    println!("{}: {name}: output or exit status differ", subject.name);
                    violations += 1;
                }
                *best = Some(best.map_or(run.time, |best| best.min(run.time)));
            }
        }
        let native = best[0].unwrap_or_default().as_secs_f64();
        let mut row = vec![subject.name.clone(), format!("{native:.2}")];
        for (best, log) in best.iter().zip(&mut logs).skip(1) {
            let ratio = best.unwrap_or_default().as_secs_f64() / native;
            row.push(format!("{ratio:.2}"));
            if subject.group != Group::Loops {
                *log = (log.0 + ratio.ln(), log.1 + 1);
            }
        }
        row.resize(5, "-".to_owned());
        table.row(row);
    }
    let mean = |(sum, n): &(f64, u32)| {
        if *n == 0 { "-".to_owned() } else { format!("{:.2}", (sum / f64::from(*n)).exp()) }
    };
    let mut row = vec!["**geometric mean**".to_owned(), String::new()];
    row.extend(logs[1..].iter().map(mean));
    row.resize(5, "-".to_owned());
    table.row(row);
    println!(
        "\n{table}\nProcessor time relative to native, best of {}.\nviolations: {violations}",
        options.runs
    );
    Ok(violations)
}
