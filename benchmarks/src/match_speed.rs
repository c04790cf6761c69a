//! Time and memory of `relive match` on pairs of growing size, stripped: reading and analysing both files included.

use crate::process::{Usage, measure, output_of};
use crate::speed::{better, code_size, name};
use crate::table::Table;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// What the corpus scripts made
    #[arg(long, env = "CORPUS_DIR", default_value = "target/corpus")]
    corpus: PathBuf,
    /// Runs of each; the best counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Two files to compare, and two more, and so on [default: cc1 and cc1plus, and corpus and prebuilt programs of
    /// growing size]
    files: Vec<PathBuf>,
}

/// Corpus programs from small to large: the series that shows how time grows with size.
const SERIES: [(&str, &str); 8] = [
    ("bin/lua/5.4.4/gcc-O2", "bin/lua/5.4.6/gcc-O2"),
    ("bin/sqlite/3.45.0/gcc-O2", "bin/sqlite/3.46.0/gcc-O2"),
    ("bin/ripgrep/14.0.3/rustc-O2", "bin/ripgrep/14.1.1/rustc-O2"),
    ("prebuilt/esbuild/0.28.0", "prebuilt/esbuild/0.28.1"),
    ("prebuilt/ruff/0.17.2", "prebuilt/ruff/0.17.3"),
    ("prebuilt/ruff/0.17.3", "prebuilt/ruff/0.17.4"),
    ("prebuilt/node/26.8.2", "prebuilt/node/26.9.0"),
    ("prebuilt/node/26.9.0", "prebuilt/node/26.10.0"),
];

/// Megabytes of code of both files that should be matched in a second, on two processors.
const LEAST_SPEED: f64 = 5.0;
/// The most memory, in sizes of both files.
const MOST_MEMORY: f64 = 20.0;
/// Goals are for files that are together at least this large: a small one takes what starting a program takes.
const LARGE: u64 = 20_000_000;

pub(crate) fn run(options: &Options) -> Result<u64> {
    ensure!(options.files.len().is_multiple_of(2), "files come in pairs: an old and a new one");
    let given = options.files.chunks(2).map(|two| (two[0].clone(), two[1].clone())).collect::<Vec<_>>();
    let pairs = if given.is_empty() { default_pairs(&options.corpus)? } else { given };
    ensure!(!pairs.is_empty(), "no two files to compare");
    let scratch = tempfile::tempdir()?;
    let mut table =
        Table::new(&["pair", "MB", "code MB", "s", "code MB/s", "peak MB", "peak/files", "missed"]);
    let mut missed = 0;
    for (old, new) in &pairs {
        eprintln!("matching {} and {}", old.display(), new.display());
        let stripped = [strip(old, &scratch.path().join("old"))?, strip(new, &scratch.path().join("new"))?];
        let mut best: Option<Usage> = None;
        for _ in 0..options.runs.max(1) {
            let mut command = Command::new(&options.relive);
            command.args(["match", "--no-debug-info"]).args(&stripped);
            better(&mut best, measure(&mut command, &scratch.path().join("output"))?);
        }
        let Some(used) = best else { unreachable!("at least one run") };
        let size = std::fs::metadata(&stripped[0])?.len() + std::fs::metadata(&stripped[1])?.len();
        let code = code_size(&stripped[0])? + code_size(&stripped[1])?;
        let judged = Judged::new(used, size, code);
        missed += judged.missed().len() as u64;
        let names = format!("{} {}", name(old, &options.corpus), name(new, &options.corpus));
        table.row(judged.row(names));
    }
    println!(
        "Best of {} runs. Goals for files of together {} MB and more: at least {LEAST_SPEED} MB of code in a \
         second, less than {MOST_MEMORY} times the files in memory.\n\n{table}",
        options.runs,
        LARGE / 1_000_000
    );
    Ok(missed)
}

/// What matching two files took.
struct Judged {
    used: Usage,
    size: u64,
    code: u64,
}

impl Judged {
    fn new(used: Usage, size: u64, code: u64) -> Self {
        Self { used, size, code }
    }

    /// Megabytes of code in a second.
    fn speed(&self) -> f64 {
        megabytes(self.code) / self.used.wall.as_secs_f64()
    }

    /// Memory in sizes of the files.
    fn memory(&self) -> f64 {
        self.used.peak_memory as f64 / self.size as f64
    }

    /// The goals that were missed.
    fn missed(&self) -> Vec<&'static str> {
        let goals = [("time", self.speed() < LEAST_SPEED), ("memory", self.memory() >= MOST_MEMORY)];
        goals.iter().filter(|(_, missed)| *missed && self.size >= LARGE).map(|(goal, _)| *goal).collect()
    }

    fn row(&self, names: String) -> Vec<String> {
        vec![
            names,
            format!("{:.1}", megabytes(self.size)),
            format!("{:.1}", megabytes(self.code)),
            format!("{:.2}", self.used.wall.as_secs_f64()),
            format!("{:.1}", self.speed()),
            format!("{:.0}", megabytes(self.used.peak_memory)),
            format!("{:.1}", self.memory()),
            self.missed().join(" "),
        ]
    }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn default_pairs(corpus: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let compiler = |name: &str| -> Result<PathBuf> {
        let path = output_of(Command::new("gcc").arg(format!("-print-prog-name={name}")))?;
        Ok(PathBuf::from(path.trim()))
    };
    let mut pairs: Vec<(PathBuf, PathBuf)> =
        SERIES.iter().map(|(old, new)| (corpus.join(old), corpus.join(new))).collect();
    pairs.push((compiler("cc1")?, compiler("cc1plus")?));
    let (there, missing): (Vec<_>, Vec<_>) =
        pairs.into_iter().partition(|(old, new)| old.exists() && new.exists());
    for (old, new) in missing {
        eprintln!("not there, left out: {} {}", old.display(), new.display());
    }
    Ok(there)
}

/// A copy without symbols.
fn strip(file: &Path, copy: &Path) -> Result<PathBuf> {
    output_of(Command::new("strip").arg("-s").arg("-o").arg(copy).arg(file))?;
    Ok(copy.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn judged(seconds: u64, memory: u64, size: u64, code: u64) -> Judged {
        Judged::new(Usage { wall: Duration::from_secs(seconds), peak_memory: memory }, size, code)
    }

    #[test]
    fn goals() {
        assert!(judged(4, 300_000_000, 40_000_000, 20_000_000).missed().is_empty());
        assert_eq!(judged(5, 800_000_000, 40_000_000, 20_000_000).missed(), ["time", "memory"]);
        assert!(judged(9, 800_000_000, 10_000_000, 5_000_000).missed().is_empty());
    }
}
