//! Results that are kept in files, so that a long measurement can be gone on with.

use anyhow::{Context as _, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// What was taken at best so far, by what took it: processor time in seconds, or instructions. Programs go through all five inputs once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Costs(BTreeMap<String, f64>);

impl Costs {
    /// Takes note of a cost.
    pub(crate) fn take(&mut self, what: &str, cost: f64) {
        let best = self.0.entry(what.to_owned()).or_insert(f64::INFINITY);
        *best = best.min(cost);
    }

    pub(crate) fn get(&self, what: &str) -> Option<f64> {
        self.0.get(what).copied()
    }

    /// TS as in section 5 of the paper: what of the time (or of the instructions) that profiling adds to the program's own is saved, with all
    /// that relive itself does. A profiled workload is the five inputs `passes` times over.
    pub(crate) fn saved(&self, method: &str, behaviour: &str, passes: f64) -> Option<f64> {
        let get = |what: &str| self.get(&format!("{what} {behaviour}"));
        let of = |what: &str| self.get(&format!("{what} {method} {behaviour}"));
        let native = self.get("native")?;
        let full = get("instrument")? + passes * (get("full")? - native);
        let migrated = of("own")? + passes * (of("rest")? - native);
        Some(1.0 - migrated / full)
    }
}

/// What the program took in a round: bash's `times`, of itself and of what it started, user and system each.
pub(crate) fn used(times: &str) -> Result<Duration> {
    let seconds = |text: &str| -> Option<f64> {
        let (minutes, seconds) = text.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.replace(',', ".").parse::<f64>().ok()?)
    };
    let all: Option<Vec<f64>> = times.split_whitespace().map(seconds).collect();
    let all = all.filter(|all| all.len() == 4).with_context(|| format!("not bash's times: {times:?}"))?;
    Ok(Duration::from_secs_f64(all.iter().sum()))
}

/// How often counters were incremented, as `relive reprofile` says.
pub(crate) fn increments(said: &str) -> Result<u64> {
    let line = said.lines().find_map(|line| line.trim().strip_prefix("counts "));
    let number = line.map(|line| line.trim().replace(',', "")).and_then(|number| number.parse().ok());
    number.with_context(|| format!("relive reprofile does not say how much was counted: {said}"))
}

/// One `relive reprofile`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Round {
    /// The share of the code that changed.
    pub(crate) significance: f64,
    /// Functions whose old entries hold, of so many.
    pub(crate) exempt: usize,
    pub(crate) functions: usize,
    /// How often counters were incremented, those of a checked run included; and how often if everything is measured.
    pub(crate) increments: u64,
    pub(crate) all_increments: u64,
    pub(crate) measures: Measures,
}

impl Round {
    /// What of the increments of counters was saved: what TS would be if nothing else took time, on any machine.
    pub(crate) fn fewer(&self) -> f64 {
        1.0 - self.increments as f64 / self.all_increments.max(1) as f64
    }
}

/// What `relive evaluate --migration` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measures {
    pub(crate) real: u64,
    pub(crate) truly: u64,
    pub(crate) missed: u64,
    pub(crate) random: u64,
    pub(crate) acc: f64,
    pub(crate) precision: f64,
    pub(crate) recall: f64,
    pub(crate) f_measure: f64,
    pub(crate) mistaken: Vec<Mistaken>,
}

/// An entry that was wrongly said to be reusable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mistaken {
    pub(crate) function: String,
    pub(crate) block: Option<String>,
    pub(crate) old: u64,
    pub(crate) real: u64,
}

impl Measures {
    /// The share of entries that are as they were: the paper's similarity.
    pub(crate) fn similarity(&self) -> f64 {
        if self.real == 0 { 1.0 } else { (self.truly + self.missed) as f64 / self.real as f64 }
    }
}

/// What a file holds, or else what is made and then put there.
pub(crate) fn or_make<T: Serialize + DeserializeOwned>(
    path: &Path,
    make: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if let Ok(text) = std::fs::read(path) {
        return serde_json::from_slice(&text).with_context(|| format!("{}: remove it", path.display()));
    }
    let made = make()?;
    write(path, &made)?;
    Ok(made)
}

/// Puts a value into a file.
pub(crate) fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    let beside = path.with_extension("tmp");
    std::fs::write(&beside, serde_json::to_vec_pretty(value)?)?;
    std::fs::rename(&beside, path).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_saved() {
        let mut times = Costs::default();
        for (what, time) in [
            ("native", 2.0),
            ("instrument loops", 1.0),
            ("full loops", 5.0),
            ("full loops", 6.0),
            ("own ag loops", 1.0),
            ("rest ag loops", 2.0),
        ] {
            times.take(what, time);
        }
        assert!((times.saved("ag", "loops", 1.0).unwrap() - 0.75).abs() < 1e-9);
        assert!((times.saved("ag", "loops", 3.0).unwrap() - 0.9).abs() < 1e-9);
        assert_eq!(times.saved("ba", "loops", 1.0), None);
    }

    #[test]
    fn what_is_read() {
        assert_eq!(used("0m0.500s 0m0.250s\n1m1.000s 0m0.250s\n").unwrap(), Duration::from_secs(62));
        assert!(used("0m0.5s").is_err());
        assert_eq!(increments("x.rprof\n  counts          1,234\n").unwrap(), 1234);
        let measures = r#"{"real":4,"truly":2,"missed":1,"random":0,"acc":1,"precision":1,"recall":1,"f_measure":1,"mistaken":[]}"#;
        let measures: Measures = serde_json::from_str(measures).unwrap();
        assert!((measures.similarity() - 0.75).abs() < 1e-9);
    }

    #[test]
    fn made_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        assert_eq!(or_make(&path, || Ok(7)).unwrap(), 7);
        assert_eq!(or_make(&path, || Ok(8)).unwrap(), 7);
        assert!(or_make::<u32>(&folder.path().join("y.json"), || anyhow::bail!("no")).is_err());
    }
}
