//! Table 2 of the paper on ProfMig: what migrating a profile to the next release saves, and how right what comes out is.
//!
//! Of each pair of releases, the old one is measured on five inputs. The new one is measured on the same inputs twice over: in
//! full, and by `relive reprofile` with each way to tell what still holds. How right the second is, is what `relive evaluate
//! --migration` says; this file only decides what is compared with what, and how long it took. Times are taken apart from that, and
//! can be added to on a machine that does nothing else: `--runs`.

mod bench;
mod exempted;
mod instructions;
mod kept;
mod report;

use crate::pairs::{self, Kind, Pair};
use crate::profiles;
use anyhow::{Context as _, Result, ensure};
use bench::Bench;
use kept::{Costs, Round};
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// What benchmarks/corpus/build.sh --all made
    #[arg(long, env = "CORPUS_DIR", default_value = "target/corpus")]
    corpus: PathBuf,
    /// What was measured is kept here, and not measured again with the same relive, builds and inputs
    #[arg(long, default_value = "target/profmig")]
    work: PathBuf,
    /// Programs [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// How many pairs of each program, the newest ones, or `all`
    #[arg(long, default_value = "1", value_parser = pairs_wanted)]
    pairs: Wanted,
    /// Ways to tell what still holds, as in `relive reprofile --impact`
    #[arg(long, value_delimiter = ',', default_values_t = METHODS.map(str::to_owned))]
    methods: Vec<String>,
    /// Time everything so often more, in turn, and keep the best times: 0 shows what is kept
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// How long a profiled workload is, in seconds that the program itself takes: the five inputs are gone through once, and
    /// their times taken as often as that takes
    #[arg(long, default_value_t = 300.0)]
    seconds: f64,
    /// Count no instructions, which takes as long as all the rest
    #[arg(long)]
    no_instructions: bool,
    /// Instead: every entry that this method said to be reusable, and is not
    #[arg(long, value_name = "METHOD", num_args = 0..=1, default_missing_value = "sl")]
    soundness: Option<String>,
    /// Instead: what a program costs of which so many per cent of the functions, drawn at random, are not measured
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100), conflicts_with = "soundness")]
    exempted: Option<u32>,
}

/// Every way that the table is about, by the name that `--impact` knows it by.
const METHODS: [&str; 5] = ["ba", "ag", "sl", "hybrid", OURS];

/// Our own, which has to reach the goals, and gets the shortest input to go by.
pub(crate) const OURS: &str = "checked";

/// Profiles that the paper migrates, as `--behaviour` names them.
pub(crate) const BEHAVIOURS: [(&str, &str); 2] =
    [("loops", "Loop trip counts"), ("call-graph", "Call graphs")];

/// How many pairs of each program.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wanted {
    Newest(usize),
    All,
}

fn pairs_wanted(text: &str) -> Result<Wanted, String> {
    match text.parse() {
        _ if text == "all" => Ok(Wanted::All),
        Ok(number) if number > 0 => Ok(Wanted::Newest(number)),
        _ => Err("a number from 1 on, or `all`".to_owned()),
    }
}

/// What is known of one pair.
pub(crate) struct Judged {
    pub(crate) pair: Pair,
    pub(crate) times: Result<Costs>,
    /// The same in instructions, as far as they were counted.
    pub(crate) instructions: Result<Costs>,
    /// By method and behaviour.
    pub(crate) rounds: Vec<(String, &'static str, Result<Round>)>,
}

pub(crate) fn run(options: &Options) -> Result<u64> {
    let corpus =
        options.corpus.canonicalize().with_context(|| format!("no corpus: {}", options.corpus.display()))?;
    let relive = options.relive.canonicalize().context("no relive: --relive names it")?;
    let work = profiles::folder(&options.work)?;
    let pairs = wanted(pairs::existing(&corpus, None, &options.only)?, options.pairs);
    ensure!(!pairs.is_empty(), "no two neighbouring releases: run fetch.sh --all and build.sh --all");
    let bench = |pair: &Pair| Bench::new(&relive, &corpus, &work, pair);
    if let Some(percent) = options.exempted {
        return exempted::run(&pairs, percent, options.runs, &bench);
    }
    let methods = options.soundness.as_ref().map_or_else(|| options.methods.clone(), |one| vec![one.clone()]);
    let mut all = Vec::new();
    for pair in pairs {
        eprintln!("{}", pair.name());
        let bench = bench(&pair)?;
        let mut rounds = Vec::new();
        let prepared = bench.prepare();
        if prepared.is_ok() {
            for method in &methods {
                for (behaviour, _) in BEHAVIOURS {
                    eprintln!("  {method} {behaviour}");
                    rounds.push((method.clone(), behaviour, bench.round(method, behaviour)));
                }
            }
        }
        let is_table = options.soundness.is_none();
        let instructions = match prepared.is_ok() && is_table && !options.no_instructions {
            true => bench.instructions(&methods),
            false => Ok(Costs::default()),
        };
        let times = prepared.and_then(|()| bench.times(&methods, if is_table { options.runs } else { 0 }));
        all.push(Judged { pair, times, instructions, rounds });
    }
    Ok(match &options.soundness {
        Some(method) => report::soundness(&all, method),
        None => report::tables(&all, &methods, options.seconds),
    })
}

/// Neighbouring releases, of each program the newest; those with releases in between only if it has no others.
fn wanted(pairs: Vec<Pair>, wanted: Wanted) -> Vec<Pair> {
    let consecutive: Vec<String> = pairs
        .iter()
        .filter(|pair| pair.kind == Kind::Consecutive)
        .map(|pair| pair.old.program.clone())
        .collect();
    let mut kept: Vec<Pair> = pairs
        .into_iter()
        .filter(|pair| match pair.kind {
            Kind::Consecutive => true,
            Kind::Jump => wanted == Wanted::All || !consecutive.contains(&pair.old.program),
            Kind::Distant => false,
        })
        .collect();
    let newer = |index: usize, kept: &[Pair]| {
        kept[index + 1..].iter().filter(|pair| pair.old.program == kept[index].old.program).count()
    };
    if let Wanted::Newest(number) = wanted {
        let keep: Vec<bool> = (0..kept.len()).map(|index| newer(index, &kept) < number).collect();
        let mut keep = keep.into_iter();
        kept.retain(|_| keep.next().unwrap_or(false));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Build;

    fn pair(program: &str, old: &str, new: &str, kind: Kind) -> Pair {
        let build = |version: &str| Build {
            program: program.to_owned(),
            version: version.to_owned(),
            configuration: "gcc-O2".to_owned(),
        };
        Pair { old: build(old), new: build(new), between: 0, kind }
    }

    #[test]
    fn the_newest_pairs() {
        let pairs = vec![
            pair("bzip2", "1.0.6", "1.0.8", Kind::Jump),
            pair("lua", "1", "2", Kind::Consecutive),
            pair("lua", "2", "3", Kind::Consecutive),
            pair("lua", "3", "5", Kind::Jump),
            pair("lua", "1", "5", Kind::Distant),
        ];
        let names = |number| wanted(pairs.clone(), number).iter().map(Pair::name).collect::<Vec<_>>();
        assert_eq!(names(Wanted::Newest(1)), ["bzip2 1.0.6 1.0.8", "lua 2 3"]);
        assert_eq!(names(Wanted::Newest(5)), ["bzip2 1.0.6 1.0.8", "lua 1 2", "lua 2 3"]);
        assert_eq!(names(Wanted::All).len(), 4);
    }

    #[test]
    fn how_many() {
        assert_eq!(pairs_wanted("all"), Ok(Wanted::All));
        assert_eq!(pairs_wanted("3"), Ok(Wanted::Newest(3)));
        assert!(pairs_wanted("0").is_err() && pairs_wanted("x").is_err());
    }
}
