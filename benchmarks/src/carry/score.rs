//! What `relive evaluate` says of a carried profile.

use crate::process::output_of;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// Shares between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Score {
    /// Branches whose likelier side is right, weighted by how often they ran.
    pub(crate) bp: f64,
    /// Blocks that ran or did not, as said.
    pub(crate) cc: f64,
    pub(crate) overlap: f64,
    pub(crate) edge_overlap: f64,
    pub(crate) matched_counts: f64,
}

impl Score {
    pub(crate) fn take(relive: &Path, carried: &Path, fresh: &Path) -> Result<Self> {
        let mut command = Command::new(relive);
        parse(&output_of(command.arg("evaluate").arg(carried).arg(fresh).arg("--json"))?)
    }

    fn parts(&self) -> [f64; 5] {
        [self.bp, self.cc, self.overlap, self.edge_overlap, self.matched_counts]
    }

    fn from_parts([bp, cc, overlap, edge_overlap, matched_counts]: [f64; 5]) -> Self {
        Self { bp, cc, overlap, edge_overlap, matched_counts }
    }

    /// Nothing differs at all.
    pub(crate) fn is_perfect(&self) -> bool {
        self.parts().iter().all(|&part| part >= 1.0)
    }
}

fn parse(text: &str) -> Result<Score> {
    let json: serde_json::Value = serde_json::from_str(text).context("relive evaluate --json")?;
    let part =
        |name: &str| json[name].as_f64().with_context(|| format!("relive evaluate: no number `{name}`"));
    Ok(Score {
        bp: part("bp")?,
        cc: part("cc")?,
        overlap: part("overlap")?,
        edge_overlap: part("edge_overlap")?,
        matched_counts: part("matched_counts")?,
    })
}

/// Carries a profile to another binary, however little of it is there: a pair that is left out would raise the average.
pub(crate) fn migrate(relive: &Path, profile: &Path, to: &Path, out: &Path) -> Result<()> {
    let mut command = Command::new(relive);
    output_of(command.arg("migrate").arg(profile).arg("--force").arg("--to").arg(to).arg("-o").arg(out))?;
    Ok(())
}

/// The average of each share; nothing of nothing.
pub(crate) fn average<'a>(scores: impl Iterator<Item = &'a Score>) -> Option<Score> {
    let all: Vec<[f64; 5]> = scores.map(Score::parts).collect();
    let mean = |part: usize| all.iter().map(|parts| parts[part]).sum::<f64>() / all.len() as f64;
    (!all.is_empty()).then(|| Score::from_parts(std::array::from_fn(mean)))
}

/// A share in percent, or `-`.
pub(crate) fn cell(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.2}", 100.0 * share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores() {
        let text = r#"{"bp":1,"cc":0.5,"overlap":0.25,"edge_overlap":1.0,"matched_counts":1.0,"more":[]}"#;
        let score = parse(text).unwrap();
        assert_eq!((score.bp, score.cc, score.overlap), (1.0, 0.5, 0.25));
        assert!(!score.is_perfect());
        let perfect = Score::from_parts([1.0; 5]);
        assert!(perfect.is_perfect());
        assert!((average([score, perfect].iter()).unwrap().cc - 0.75).abs() < 1e-9);
        assert_eq!(average([].iter()), None);
        assert!(parse("{}").is_err());
        assert_eq!((cell(Some(0.5)), cell(None)), ("50.00".to_owned(), "-".to_owned()));
    }
}
