//! What carried profiles are good for: BOLT, and clang by sample profiles, optimise the new version of a program by a profile of the
//! old one.
//!
//! Each version is measured by relive on its training workload. The new one is then optimised by its own profile, by the old one's
//! as relive carried it over, and by the old one's as the optimiser itself makes of it: BOLT by stale matching
//! (`--infer-stale-profile`), clang by the lines of functions. What is asked is how much of the gain by a fresh profile is left: of
//! processor time (a longer workload, all in turn, the best time of each), and of what a layout is about, taken jumps and misses of the
//! instruction cache, which Valgrind counts the same way every time (yet another workload).

mod bench;
mod counts;
mod variants;

use crate::process::output_of;
use crate::profiles;
use crate::table::Table;
use anyhow::{Context, Result, ensure};
use bench::{Bench, COUNTED};
use counts::Counts;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use variants::{Maker, Optimiser};

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
    /// Runs of each, in turn; the best counts. 0: only what does not depend on time
    #[arg(long, default_value_t = 7)]
    runs: usize,
    /// Programs [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only one of the two optimisers
    #[arg(long, value_enum)]
    optimiser: Option<Optimiser>,
    /// Of all profiles, what ran less often than this share is left out (`relive export --least`, BOLT only) [default: as `relive export` has it]
    #[arg(long)]
    least: Option<String>,
    /// Only make the optimised programs and count: times can then be taken while nothing else runs
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
const PAIRS: [Pair; 9] = [
    Pair { program: "bzip2", old: "1.0.6", new: "1.0.8", timed: "in1" },
    Pair { program: "cadical", old: "2.1.2", new: "2.1.3", timed: "in2" },
    Pair { program: "flac", old: "1.4.3", new: "1.5.0", timed: "in1" },
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
    let maker = Maker {
        relive: &relive,
        corpus: &corpus,
        bolt: &options.bolt,
        clang: &options.clang,
        work: &work,
        least: options.least.as_deref(),
    };
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
            let bench = Bench::new(&corpus, pair, &work)?;
            let counts = files.iter().map(|file| Counts::of(&bench, file)).collect::<Result<_>>()?;
            let times = if options.prepare { Vec::new() } else { time(&bench, &files, options.runs)? };
            rows.push(Row { pair, optimiser, counts, times });
        }
    }
    if options.prepare {
        return Ok(0);
    }
    ensure!(!rows.is_empty(), "nothing to measure: --only names programs of the corpus");
    Ok(report(&rows, options.runs))
}

/// What was found of one pair: of the program as it was built, then in the order of the sources of profiles.
struct Row<'a> {
    pair: &'a Pair,
    optimiser: Optimiser,
    counts: Vec<Counts>,
    /// None if no time was taken.
    times: Vec<Duration>,
}

/// The best time of each file, the program as it was built first.
fn time(bench: &Bench<'_>, files: &[PathBuf], runs: usize) -> Result<Vec<Duration>> {
    let mut best: Vec<Option<Duration>> = vec![None; files.len()];
    let mut expected = None;
    for _ in 0..runs {
        for (file, best) in files.iter().zip(&mut best) {
            let (took, output) = bench.time(file)?;
            let first = expected.get_or_insert_with(|| output.clone());
            ensure!(*first == output, "{} does something else", file.display());
            *best = Some(best.map_or(took, |best| best.min(took)));
        }
    }
    Ok(best.into_iter().flatten().collect())
}

/// What three profiles save of something, as shares of what the program as built takes.
#[derive(Clone, Copy)]
struct Gains {
    fresh: f64,
    carried: f64,
    stale: f64,
}

impl Gains {
    /// From what the four programs take; nothing if that is not known.
    fn of(taken: &[f64]) -> Option<Self> {
        let [base, fresh, carried, stale] = taken[..] else { return None };
        let gain = |taken: f64| 1.0 - taken / base;
        (base > 0.0).then(|| Self { fresh: gain(fresh), carried: gain(carried), stale: gain(stale) })
    }

    /// How much of the gain by a fresh profile is left, by the carried one and by the optimiser itself; nothing if there is none.
    fn kept(self) -> Option<[f64; 2]> {
        (self.fresh >= LEAST_GAIN).then(|| [self.carried / self.fresh, self.stale / self.fresh])
    }

    fn cells(gains: Option<Self>) -> Vec<String> {
        let percent = |share: f64| format!("{:+.1} %", 100.0 * share);
        let mut cells = match gains {
            Some(Self { fresh, carried, stale }) => [fresh, carried, stale].map(percent).to_vec(),
            None => vec!["-".to_owned(); 3],
        };
        cells.extend(match gains.and_then(Self::kept) {
            Some(kept) => kept.map(|share| format!("{:.1} %", 100.0 * share)),
            None => ["-", "-"].map(str::to_owned),
        });
        cells
    }
}

/// What is asked of a row: its title, what of the program as built is shown before, and what each program takes.
struct Question {
    title: String,
    base: &'static str,
    asked: fn(&Row<'_>) -> Vec<f64>,
    shown: fn(f64) -> String,
}

fn questions(runs: usize) -> [Question; 3] {
    [
        Question {
            title: format!("Taken jumps saved, workload `{COUNTED}`, by callgrind"),
            base: "as built, millions",
            asked: |row| row.counts.iter().map(|counts| counts.taken as f64).collect(),
            shown: |jumps| format!("{:.1}", jumps / 1e6),
        },
        Question {
            title: format!("Misses of a 32 KiB instruction cache saved, workload `{COUNTED}`, by callgrind"),
            base: "as built, thousands",
            asked: |row| row.counts.iter().map(|counts| counts.misses as f64).collect(),
            shown: |misses| format!("{:.0}", misses / 1e3),
        },
        Question {
            title: format!("Processor time saved, best of {runs} runs in turn"),
            base: "as built, s",
            asked: |row| row.times.iter().map(Duration::as_secs_f64).collect(),
            shown: |seconds| format!("{seconds:.3}"),
        },
    ]
}

/// Prints a table for each question, and returns how often relive keeps less than the optimiser does by itself.
fn report(rows: &[Row<'_>], runs: usize) -> u64 {
    println!(
        "Saved by a profile of the new version (fresh), by one of the old version that relive carried over, and by the old one as the \
         optimiser itself takes it (its own). *keeps*: of what the fresh profile saves, if that is at least {:.0} %.",
        100.0 * LEAST_GAIN
    );
    let mut worse = 0;
    for Question { title, base, asked, shown } in questions(runs) {
        if rows.iter().all(|row| asked(row).is_empty()) {
            // No times were taken.
            continue;
        }
        let columns = [
            "program",
            "old",
            "new",
            "by",
            base,
            "fresh",
            "carried",
            "its own",
            "carried keeps",
            "its own keeps",
        ];
        let mut table = Table::new(&columns);
        let (mut judged, mut behind) = (0, 0);
        for row in rows {
            let taken = asked(row);
            let Some(&built) = taken.first() else { continue };
            let gains = Gains::of(&taken);
            if let Some([ours, theirs]) = gains.and_then(Gains::kept) {
                judged += 1;
                behind += u64::from(ours < theirs);
            }
            let Pair { program, old, new, .. } = row.pair;
            let mut cells = [*program, *old, *new, row.optimiser.name()].map(str::to_owned).to_vec();
            cells.push(shown(built));
            cells.extend(Gains::cells(gains));
            table.row(cells);
        }
        println!("\n{title}:\n\n{table}\nrelive keeps less than the optimiser itself: {behind} of {judged}");
        worse += behind;
    }
    worse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_gain() {
        let kept = |taken: [f64; 4]| Gains::of(&taken).unwrap().kept();
        let [ours, theirs] = kept([100.0, 80.0, 90.0, 110.0]).unwrap();
        assert!((ours - 0.5).abs() < 1e-9 && theirs < 0.0);
        assert_eq!(kept([1000.0, 995.0, 900.0, 900.0]), None);
        assert!(Gains::of(&[]).is_none());
    }
}
