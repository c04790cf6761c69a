//! What carried profiles are good for: BOLT, and clang by sample profiles, optimise the new version of a program by a profile of the
//! old one.
//!
//! Each version is measured by relive on its training workload. The new one is then optimised by its own profile, by the old one's
//! as relive carried it over, and by the old one's as the optimiser itself makes of it: BOLT by stale matching
//! (`--infer-stale-profile`), clang by the lines of functions. All run another, longer workload in turn; the best processor time of
//! each counts. What is asked is how much of the gain by a fresh profile is left.

mod timing;
mod variants;

use crate::process::output_of;
use crate::profiles;
use crate::table::Table;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use timing::Timing;
use variants::{Maker, Optimiser, Source};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// What benchmarks/corpus/fetch.sh --all brought
    #[arg(long, env = "CORPUS_DIR", default_value = "target/corpus")]
    corpus: PathBuf,
    /// llvm-bolt
    #[arg(long, default_value = "/usr/lib/llvm-19/bin/llvm-bolt")]
    bolt: PathBuf,
    /// clang
    #[arg(long, default_value = "clang-19")]
    clang: PathBuf,
    /// Optimised programs are kept here, and used again
    #[arg(long, default_value = "target/bolt-loop")]
    work: PathBuf,
    /// Runs of each, in turn; the best counts
    #[arg(long, default_value_t = 7)]
    runs: usize,
    /// Programs [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only one of the two optimisers
    #[arg(long, value_enum)]
    optimiser: Option<Optimiser>,
    /// Only make the optimised programs: the rest can then be measured while nothing else runs
    #[arg(long)]
    prepare: bool,
}

/// Two releases of a program, and the workload that is timed; that which is measured is `train`.
pub(crate) struct Pair {
    pub(crate) program: &'static str,
    pub(crate) old: &'static str,
    pub(crate) new: &'static str,
    pub(crate) timed: &'static str,
}

/// Neighbouring releases of the corpus. The timed workloads take about a second.
const PAIRS: [Pair; 7] = [
    Pair { program: "bzip2", old: "1.0.6", new: "1.0.8", timed: "in1" },
    Pair { program: "lua", old: "5.4.7", new: "5.4.8", timed: "in1" },
    Pair { program: "lua", old: "5.4.8", new: "5.5.0", timed: "in1" },
    Pair { program: "lz4", old: "1.9.4", new: "1.10.0", timed: "in1" },
    Pair { program: "onig", old: "6.9.7", new: "6.9.8", timed: "in2" },
    Pair { program: "quickjs", old: "2020-11-08", new: "2021-03-27", timed: "in2" },
    Pair { program: "sqlite", old: "3.45.3", new: "3.46.0", timed: "long" },
];

/// A gain below this is not told from noise, and a share of it means nothing.
const LEAST_GAIN: f64 = 0.01;

pub(crate) fn run(options: &Options) -> Result<u64> {
    let corpus =
        options.corpus.canonicalize().with_context(|| format!("no corpus: {}", options.corpus.display()))?;
    let relive = options.relive.canonicalize().context("no relive: --relive names it")?;
    let work = profiles::folder(&options.work)?;
    output_of(Command::new(&options.bolt).arg("--version"))?;
    let maker =
        Maker { relive: &relive, corpus: &corpus, bolt: &options.bolt, clang: &options.clang, work: &work };
    let pairs =
        PAIRS.iter().filter(|p| options.only.is_empty() || options.only.iter().any(|o| o == p.program));
    let mut rows = Vec::new();
    for pair in pairs {
        for &optimiser in &Optimiser::ALL {
            if options.optimiser.is_some_and(|only| only != optimiser) {
                continue;
            }
            eprintln!("{} {} {}: {}", pair.program, pair.old, pair.new, optimiser.name());
            let files = maker.all(pair, optimiser)?;
            if !options.prepare {
                let times = time(&corpus, pair, &files, options.runs, &work)?;
                rows.push((pair, optimiser, times));
            }
        }
    }
    if options.prepare {
        return Ok(0);
    }
    ensure!(!rows.is_empty(), "nothing to measure: --only names programs of the corpus");
    Ok(report(&rows, options.runs))
}

/// The best time of each file, in the order of [`Source::ALL`], the program as it was built first.
fn time(corpus: &Path, pair: &Pair, files: &[PathBuf], runs: usize, work: &Path) -> Result<Vec<Duration>> {
    let timing = Timing::new(corpus, pair, work)?;
    let mut best: Vec<Option<Duration>> = vec![None; files.len()];
    let mut expected = None;
    for _ in 0..runs.max(1) {
        for (file, best) in files.iter().zip(&mut best) {
            let (took, output) = timing.run(file)?;
            let first = expected.get_or_insert_with(|| output.clone());
            ensure!(*first == output, "{} does something else", file.display());
            *best = Some(best.map_or(took, |best| best.min(took)));
        }
    }
    Ok(best.into_iter().flatten().collect())
}

/// By how much shorter it takes.
fn gain(base: Duration, time: Duration) -> f64 {
    1.0 - time.as_secs_f64() / base.as_secs_f64()
}

/// How much of the gain by a fresh profile is left; nothing if there is none.
fn kept(base: Duration, fresh: Duration, time: Duration) -> Option<f64> {
    let fresh = gain(base, fresh);
    (fresh >= LEAST_GAIN).then(|| gain(base, time) / fresh)
}

fn report(rows: &[(&Pair, Optimiser, Vec<Duration>)], runs: usize) -> u64 {
    let mut table = Table::new(&[
        "program",
        "old",
        "new",
        "by",
        "as built s",
        "fresh",
        "carried",
        "its own",
        "carried keeps",
        "its own keeps",
    ]);
    let percent = |share: f64| format!("{:+.1} %", 100.0 * share);
    let of_fresh =
        |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.0} %", 100.0 * share));
    let mut worse = 0;
    for (pair, optimiser, times) in rows {
        let [base, fresh, carried, stale] = times[..] else { continue };
        let (ours, theirs) = (kept(base, fresh, carried), kept(base, fresh, stale));
        worse += u64::from(ours.is_some() && ours < theirs);
        let mut cells = [pair.program, pair.old, pair.new, optimiser.name()].map(str::to_owned).to_vec();
        cells.push(format!("{:.3}", base.as_secs_f64()));
        cells.extend([fresh, carried, stale].map(|time| percent(gain(base, time))));
        cells.extend([ours, theirs].map(of_fresh));
        table.row(cells);
    }
    println!(
        "Processor time saved by a profile of the new version (fresh), by one of the old version that relive carried over, and by the \
         old one as the optimiser itself takes it ({}). Best of {runs} runs, in turn. *keeps*: of what the fresh profile saves, if that \
         is at least {:.0} %.\n\n{table}\nrelive keeps less than the optimiser itself: {worse} of {}",
        Source::ALL.last().map_or("", |source| source.name()),
        100.0 * LEAST_GAIN,
        rows.len()
    );
    worse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_gain() {
        let ms = Duration::from_millis;
        assert!((kept(ms(100), ms(80), ms(90)).unwrap() - 0.5).abs() < 1e-9);
        assert!(kept(ms(100), ms(80), ms(110)).unwrap() < 0.0);
        assert_eq!(kept(ms(1000), ms(995), ms(900)), None);
    }
}
