//! The third opinion: breakpoints in the program as it was built, while it runs natively.
//!
//! 1. They count what the profile says: the program behaves differently under valgrind (speed, layout, precision of
//!    `long double`).
//! 2. They count different numbers in two runs: the program varies.
//! 3. Clocks and layout held still (a preloaded clock, `setarch -R`), breakpoints and profile agree.
//! 4. Too hot for breakpoints: two profiles of the rewritten program differ, so it varies.
//!
//! Otherwise the profile is wrong.

use super::judge::{Difference, Verdict};
use crate::corpus;
use crate::process::output_of;
use crate::workload::Workload;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Breakpoints take 10 µs each.
const HOT: u64 = 200_000;
const HOT_TOGETHER: u64 = 3_000_000;

/// How often blocks ran, by address.
type Hits = BTreeMap<u64, u64>;

pub(crate) struct Natively {
    hits: PathBuf,
    clock: PathBuf,
}

impl Natively {
    pub(crate) fn compile(folder: &Path) -> Result<Self> {
        let drivers = corpus::scripts().join("drivers");
        let (hits, clock) = (folder.join("hits"), folder.join("steady_clock.so"));
        output_of(Command::new("gcc").arg("-O2").arg(drivers.join("hits.c")).arg("-o").arg(&hits))?;
        output_of(
            Command::new("gcc")
                .args(["-O2", "-shared", "-fPIC"])
                .arg(drivers.join("steady_clock.c"))
                .arg("-o")
                .arg(&clock),
        )?;
        Ok(Self { hits, clock })
    }

    /// `again` runs the rewritten program once more, with more environment, and returns its counts.
    pub(crate) fn decide(
        &self,
        differences: Vec<Difference>,
        workload: &Workload,
        native: &Path,
        again: &dyn Fn(&[(&str, &OsStr)]) -> Result<Hits>,
    ) -> Result<Vec<(Difference, Verdict)>> {
        if differences.is_empty() {
            return Ok(Vec::new());
        }
        let mut together = 0;
        let mut places = BTreeSet::new();
        for difference in &differences {
            let most = difference.counted.max(difference.callgrind);
            if most <= HOT && together + most <= HOT_TOGETHER {
                together += most;
                places.insert(difference.address);
            }
        }
        let [first, second] = [(); 2].map(|()| self.count(workload, native, &places, ""));
        let (first, second) = (first?, second?);
        let steady = self.clock.as_os_str();
        let setarch = "setarch -R";
        let still = self.count(workload, native, &places, &format!("env LD_PRELOAD={}", self.clock.display()));
        let still = still?;
        let counted_still = again(&[("LD_PRELOAD", steady), ("RUNNER", setarch.as_ref())])?;
        let profiles = [again(&[])?, again(&[])?];
        let verdict = |difference: &Difference| {
            let at = difference.address;
            if !places.contains(&at) {
                let [a, b] = profiles.each_ref().map(|profile| profile.get(&difference.block));
                return if a == b { Verdict::Wrong } else { Verdict::Varies };
            }
            let counts = [&first, &second].map(|hits| hits.get(&at).copied().unwrap_or(0));
            if counts.contains(&difference.counted) {
                Verdict::Valgrind
            } else if counts[0] != counts[1] || still.get(&at) == counted_still.get(&difference.block) {
                Verdict::Varies
            } else {
                Verdict::Wrong
            }
        };
        Ok(differences.into_iter().map(|difference| (difference.clone(), verdict(&difference))).collect())
    }

    fn count(&self, workload: &Workload, native: &Path, places: &BTreeSet<u64>, with: &str) -> Result<Hits> {
        let folder = tempfile::tempdir()?;
        let (addresses, out) = (folder.path().join("addresses"), folder.path().join("hits"));
        let mut text = String::new();
        for place in places {
            writeln!(text, "{place:x}")?;
        }
        std::fs::write(&addresses, text)?;
        let layout = if with.is_empty() { "" } else { "setarch -R" };
        let runner = format!("{layout} {with} {} {} {}", self.hits.display(), out.display(), addresses.display());
        workload.run(native, &[("RUNNER", runner.as_ref())])?;
        let mut hits = Hits::new();
        for line in std::fs::read_to_string(&out).context("no breakpoint counts")?.lines() {
            let (address, count) = line.split_once(' ').with_context(|| format!("bad line {line:?}"))?;
            *hits.entry(u64::from_str_radix(address, 16)?).or_default() += count.parse::<u64>()?;
        }
        Ok(hits)
    }
}
