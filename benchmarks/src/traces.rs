//! What tracing costs, how small traces are, and how fast they are replayed.
//!
//! Time is what passes until the command is over and the trace is written, relative to the program alone. Replaying is measured in
//! processor time of `relive replay --count`, which reads every access of every instruction.

use crate::overhead::subjects::{self, Subject};
use crate::table::Table;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use wait4::Wait4;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// What benchmarks/corpus/build.sh made
    #[arg(long, env = "CORPUS_DIR", default_value = "target/corpus")]
    corpus: PathBuf,
    /// Runs of each; the best counts
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Programs [default: those below]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

const PROGRAMS: [&str; 7] = ["bzip2", "lua", "sqlite", "gzip", "python3", "c++", "cc1"];

/// Figures of which the geometric mean is taken.
const FIGURES: [&str; 7] = [
    "not stored",
    "stored",
    "control flow stored",
    "raw B/ins",
    "stored B/ins",
    "control B/ins",
    "replay M ins/s",
];

pub(crate) fn run(options: &Options) -> Result<u64> {
    let corpus =
        options.corpus.canonicalize().with_context(|| format!("no corpus: {}", options.corpus.display()))?;
    let relive = options.relive.canonicalize().context("no relive: --relive names it")?;
    let scratch = tempfile::tempdir()?;
    let only: Vec<String> = match options.only.is_empty() {
        true => PROGRAMS.map(String::from).to_vec(),
        false => options.only.clone(),
    };
    let all = programs(&corpus, scratch.path(), &only)?;
    ensure!(!all.is_empty(), "nothing to measure: --only names {}", PROGRAMS.join(", "));
    let mut columns = vec!["program", "native s", "M instructions"];
    columns.extend(FIGURES);
    let mut table = Table::new(&columns);
    let mut logs = [0.0; FIGURES.len()];
    let mut measured = 0;
    for subject in &all {
        let Some(binary) = subject.binary(&subject.configuration) else { continue };
        eprintln!("{}", subject.name);
        let trace = scratch.path().join("bench.rtrace");
        let (whole, control) = (trace.display(), format!("{}.control", trace.display()));
        let relive = relive.display();
        let prefixes = [
            String::new(),
            format!("{relive} trace -q --no-store --"),
            format!("{relive} trace -q -o {whole} --"),
            format!("{relive} trace -q --control-flow-only -o {control} --"),
        ];
        let mut best = [f64::MAX; 4];
        for _ in 0..options.runs.max(1) {
            for (prefix, best) in prefixes.iter().zip(&mut best) {
                *best = best.min(wall(subject, &binary, prefix, scratch.path())?);
            }
        }
        let [instructions, raw, stored] = figures(&options.relive, &trace)?;
        let [_, _, stored_control] = figures(&options.relive, control.as_ref())?;
        let replay = instructions / replay(&options.relive, &trace)? / 1e6;
        let row =
            [best[1] / best[0], best[2] / best[0], best[3] / best[0], raw, stored, stored_control, replay];
        let mut cells =
            vec![subject.name.clone(), format!("{:.2}", best[0]), format!("{:.0}", instructions / 1e6)];
        cells.extend(row.iter().zip(FIGURES).map(|(figure, name)| text(*figure, name)));
        table.row(cells);
        logs.iter_mut().zip(row).for_each(|(sum, figure)| *sum += figure.ln());
        measured += 1;
    }
    let mut cells = vec!["**geometric mean**".to_owned(), String::new(), String::new()];
    cells.extend(logs.iter().zip(FIGURES).map(|(sum, name)| text((sum / f64::from(measured)).exp(), name)));
    table.row(cells);
    println!("\n{table}\nTime that passes relative to native, best of {}.", options.runs);
    Ok(0)
}

/// The programs of some names, with much to do.
pub(crate) fn programs(corpus: &Path, scratch: &Path, only: &[String]) -> Result<Vec<Subject>> {
    let mut all = subjects::all(corpus, scratch, only)?;
    subjects::lengthen(&mut all);
    all.extend(subjects::installed(corpus, scratch, only)?);
    Ok(all)
}

fn text(figure: f64, name: &str) -> String {
    match name {
        "replay M ins/s" => format!("{figure:.0}"),
        name if name.ends_with("B/ins") => format!("{figure:.4}"),
        _ => format!("{figure:.2}"),
    }
}

/// How long a command takes. Scripts with several programs leave the trace of the last.
fn wall(subject: &Subject, binary: &Path, prefix: &str, scratch: &Path) -> Result<f64> {
    // A runner is not empty.
    let runner = if prefix.is_empty() { "env" } else { prefix };
    let mut command = subject.command(binary, runner, scratch);
    let started = Instant::now();
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(started.elapsed().as_secs_f64())
}

/// How many instructions a trace has; how many bytes each took, written down and stored.
fn figures(relive: &Path, trace: &Path) -> Result<[f64; 3]> {
    let output = Command::new(relive).arg("replay").arg(trace).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |line: usize, before: &str| -> Option<f64> {
        let words = text.lines().nth(line)?.split(before).next()?;
        words.split([' ', '(']).rfind(|word| !word.is_empty())?.replace(',', "").parse().ok()
    };
    let instructions = number(1, " instruction");
    let (raw, stored) = (number(2, " for each"), number(2, "; "));
    let all = instructions.zip(raw).zip(stored);
    let ((instructions, raw), stored) = all.with_context(|| format!("cannot understand: {text}"))?;
    Ok([instructions, raw, stored])
}

/// How long it takes to replay a trace: processor time.
fn replay(relive: &Path, trace: &Path) -> Result<f64> {
    let mut child =
        Command::new(relive).arg("replay").arg(trace).arg("--count").stdout(Stdio::null()).spawn()?;
    let used = child.wait4()?;
    ensure!(used.status.success(), "cannot replay {}", trace.display());
    Ok((used.rusage.utime + used.rusage.stime).as_secs_f64())
}
