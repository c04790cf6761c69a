//! Where a profile and callgrind differ, further witnesses: the rewritten program under valgrind, and breakpoints in the
//! program as it was built, while it runs natively.
//!
//! 1. The rewritten program runs under valgrind too, and its profile then is what callgrind counted: the program itself
//!    behaves differently there (speed, layout, precision of `long double`).
//! 2. Breakpoints, natively, count what the profile says: the same.
//! 3. They count different numbers in several runs: the program varies.
//! 4. Clocks and layout held still (a preloaded clock, `setarch -R`), breakpoints and profile agree.
//! 5. Too hot for breakpoints: several profiles of the rewritten program differ, so it varies.
//!
//! Otherwise the profile is wrong.

use super::Pair;
use super::judge::{Difference, Verdict};
use crate::corpus;
use crate::oracle::breakpoints::Breakpoints;
use crate::process::output_of;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// So many breakpoints of one run are borne: each takes 20 µs. Cold blocks come first.
const HOT_TOGETHER: u64 = 300_000;

/// Native runs with breakpoints, each in a new random layout: lua's string cache goes by addresses modulo 53 and showed
/// the same counts in two runs of three.
const ROUNDS: usize = 6;

/// How often blocks ran, by address.
type Hits = BTreeMap<u64, u64>;

pub(crate) type Verdicted = (Difference, Verdict);

/// Gives those still open that have this proof their verdict.
fn settle(all: &mut [Verdicted], verdict: Verdict, proof: impl Fn(&Difference) -> bool) {
    for (difference, own) in all.iter_mut() {
        if *own == Verdict::Wrong && proof(difference) {
            *own = verdict;
        }
    }
}

fn still_open(all: &[Verdicted]) -> BTreeSet<u64> {
    all.iter()
        .filter(|(_, verdict)| *verdict == Verdict::Wrong)
        .map(|(difference, _)| difference.address)
        .collect()
}

pub(crate) struct Witnesses {
    breakpoints: Breakpoints,
    clock: PathBuf,
}

impl Witnesses {
    pub(crate) fn compile(folder: &Path) -> Result<Self> {
        let drivers = corpus::scripts().join("drivers");
        let clock = folder.join("steady_clock.so");
        output_of(
            Command::new("gcc")
                .args(["-O2", "-shared", "-fPIC"])
                .arg(drivers.join("steady_clock.c"))
                .arg("-o")
                .arg(&clock),
        )?;
        Ok(Self { breakpoints: Breakpoints::compile(folder)?, clock })
    }

    pub(crate) fn decide(&self, differences: Vec<Difference>, pair: &Pair) -> Result<Vec<Verdicted>> {
        if differences.is_empty() {
            return Ok(Vec::new());
        }
        let mut all: Vec<Verdicted> =
            differences.into_iter().map(|difference| (difference, Verdict::Wrong)).collect();
        // The engine does not run there.
        if !pair.run.under_engine {
            let emulated = pair.counts(&[("RUNNER", "valgrind -q --tool=none".as_ref())])?;
            settle(&mut all, Verdict::Valgrind, |d| emulated.get(&d.block) == Some(&d.callgrind));
        }
        let mut coldest_first: Vec<&Difference> = all
            .iter()
            .filter(|(_, verdict)| *verdict == Verdict::Wrong)
            .map(|(difference, _)| difference)
            .collect();
        coldest_first.sort_by_key(|difference| difference.hottest());
        let mut together = 0;
        let mut places = BTreeSet::new();
        for difference in coldest_first {
            together += difference.hottest();
            if together <= HOT_TOGETHER {
                places.insert(difference.address);
            }
        }
        let (mut cold, hot): (Vec<Verdicted>, Vec<Verdicted>) =
            all.into_iter().partition(|(difference, _)| places.contains(&difference.address));
        // each step only if the ones before left something open
        let open = |all: &[Verdicted]| all.iter().any(|(_, verdict)| *verdict == Verdict::Wrong);
        let mut before: Option<Hits> = None;
        for _ in 0..ROUNDS {
            if !open(&cold) {
                break;
            }
            let hits = self.count(pair, &still_open(&cold), "")?;
            settle(&mut cold, Verdict::Valgrind, |d| hits.get(&d.address) == Some(&d.counted));
            if let Some(before) = &before {
                settle(&mut cold, Verdict::Varies, |d| before.get(&d.address) != hits.get(&d.address));
            }
            before = Some(hits);
        }
        if open(&cold) {
            let runner = format!("setarch -R env LD_PRELOAD={}", self.clock.display());
            let still = self.count(pair, &still_open(&cold), &runner)?;
            let counted = pair.counts(&[("RUNNER", runner.as_ref())])?;
            settle(&mut cold, Verdict::Varies, |d| still.get(&d.address) == counted.get(&d.block));
        }
        cold.extend(hot);
        let mut before: Option<Hits> = None;
        for _ in 0..ROUNDS {
            if !cold.iter().any(|(d, verdict)| *verdict == Verdict::Wrong && !places.contains(&d.address)) {
                break;
            }
            let profile = pair.counts(&[])?;
            if let Some(before) = &before {
                settle(&mut cold, Verdict::Varies, |d| {
                    !places.contains(&d.address) && before.get(&d.block) != profile.get(&d.block)
                });
            }
            before = Some(profile);
        }
        Ok(cold)
    }

    fn count(&self, pair: &Pair, places: &BTreeSet<u64>, with: &str) -> Result<Hits> {
        let hits = self.breakpoints.count(places, |words| {
            let words = words.map(|word| word.to_string_lossy().into_owned()).join(" ");
            pair.native(&[("RUNNER", format!("{with} {words}").as_ref())]).map(drop)
        })?;
        Ok(hits.into_iter().map(|(address, reached)| (address, reached.times)).collect())
    }
}
