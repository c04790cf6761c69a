//! Callgrind's counts of a build, kept between runs: they take minutes.

use crate::corpus::Build;
use crate::oracle::callgrind::{self, Counts};
use crate::workload::{Stage, Workload};
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

pub(crate) struct Truths {
    cache: Option<PathBuf>,
}

impl Truths {
    pub(crate) fn new(cache: Option<PathBuf>) -> Self {
        Self { cache }
    }

    /// Takes the stripped copy: valgrind cannot read clang's DWARF 5.
    pub(crate) fn of(
        &self,
        build: &Build,
        workload: &Workload,
        stripped: &Path,
        stage: &Stage,
    ) -> Result<Counts> {
        let binary = stage.put(stripped)?;
        let mut hash = DefaultHasher::new();
        std::fs::read(stripped)?.hash(&mut hash);
        std::fs::read(build.workload())?.hash(&mut hash);
        binary.hash(&mut hash);
        let name = format!("{}-{:016x}.counts", build.name().replace('/', "-"), hash.finish());
        let kept = self.cache.as_ref().map(|folder| folder.join(name));
        if let Some(text) = kept.as_ref().and_then(|path| std::fs::read_to_string(path).ok()) {
            return parse(&text);
        }
        let (ran, counts) = callgrind::count(workload, &binary)?;
        ensure!(!counts.is_empty(), "callgrind counted nothing: {}", String::from_utf8_lossy(&ran.stderr));
        ensure!(ran.status == Some(0), "the workload failed under callgrind: {:?}", ran.status);
        if let Some(path) = kept {
            let unfinished = path.with_extension("unfinished");
            std::fs::write(&unfinished, print(&counts))?;
            std::fs::rename(unfinished, path)?;
        }
        Ok(counts)
    }
}

fn print(counts: &Counts) -> String {
    let mut text = String::new();
    for (address, count) in counts {
        let _ = writeln!(text, "{address:x} {count}");
    }
    text
}

fn parse(text: &str) -> Result<Counts> {
    let line = |line: &str| {
        let (address, count) = line.split_once(' ')?;
        Some((u64::from_str_radix(address, 16).ok()?, count.parse().ok()?))
    };
    text.lines().map(|text| line(text).with_context(|| format!("bad line {text:?}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_as_text() {
        let counts = Counts::from([(0x10, 7), (0xfffff, 1 << 40)]);
        assert_eq!(parse(&print(&counts)).unwrap(), counts);
        assert!(parse("x y\n").is_err());
    }
}
