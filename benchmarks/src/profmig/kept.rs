//! Results that are kept in files, so that a long measurement can be gone on with.

use anyhow::{Context as _, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What does not depend on the method. Times are processor time in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Base {
    /// The new build as it is, on all inputs.
    pub(crate) native: f64,
    /// Rewriting it.
    pub(crate) instrument: f64,
    /// The rewritten one on all inputs.
    pub(crate) counting: f64,
}

impl Base {
    /// Profiling without migration.
    pub(crate) fn full(self) -> f64 {
        self.instrument + self.counting
    }
}

/// One `relive reprofile`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Round {
    /// Processor time in seconds, of everything.
    pub(crate) time: f64,
    /// The share of the code that changed.
    pub(crate) significance: f64,
    /// Functions whose old entries hold, of so many.
    pub(crate) exempt: usize,
    pub(crate) functions: usize,
    pub(crate) measures: Measures,
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

impl Round {
    /// TS: what of the time that profiling adds to the program's own was saved.
    pub(crate) fn saved(&self, base: Base) -> f64 {
        1.0 - (self.time - base.native) / (base.full() - base.native)
    }

    /// The same of all the time, with the program's own.
    pub(crate) fn saved_of_all(&self, base: Base) -> f64 {
        1.0 - self.time / base.full()
    }
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

/// What a file holds, made better.
pub(crate) fn better<T: Serialize + DeserializeOwned>(
    path: &Path,
    improve: impl FnOnce(&mut T) -> Result<()>,
) -> Result<T> {
    let mut kept: T = serde_json::from_slice(&std::fs::read(path)?)
        .with_context(|| format!("{}: remove it", path.display()))?;
    improve(&mut kept)?;
    write(path, &kept)?;
    Ok(kept)
}

fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    let beside = path.with_extension("tmp");
    std::fs::write(&beside, serde_json::to_vec_pretty(value)?)?;
    std::fs::rename(&beside, path).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_saved() {
        let base = Base { native: 2.0, instrument: 1.0, counting: 5.0 };
        let measures = r#"{"real":4,"truly":2,"missed":1,"random":0,"acc":1,"precision":1,"recall":1,"f_measure":1,"mistaken":[]}"#;
        let measures: Measures = serde_json::from_str(measures).unwrap();
        assert!((measures.similarity() - 0.75).abs() < 1e-9);
        let round = Round { time: 3.0, significance: 0.0, exempt: 0, functions: 0, measures };
        assert!((round.saved(base) - 0.75).abs() < 1e-9);
        assert!((round.saved_of_all(base) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn made_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        assert_eq!(or_make(&path, || Ok(7)).unwrap(), 7);
        assert_eq!(or_make(&path, || Ok(8)).unwrap(), 7);
        let less = |kept: &mut u32| {
            *kept = (*kept).min(5);
            Ok(())
        };
        assert_eq!(better(&path, less).unwrap(), 5);
        assert_eq!(or_make(&path, || Ok(8)).unwrap(), 5);
        assert!(or_make::<u32>(&folder.path().join("y.json"), || anyhow::bail!("no")).is_err());
    }
}
