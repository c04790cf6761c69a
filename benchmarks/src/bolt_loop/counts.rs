//! What a layout is about, as Valgrind counts it: the same in every run, where times are not.

use super::bench::Bench;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Sums over all processes of a workload, libraries too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) instructions: u64,
    /// Jumps that led elsewhere than to the next instruction; calls and returns are none.
    pub(crate) taken: u64,
    /// Instructions fetched that were not in a first cache of 32 KiB.
    pub(crate) misses: u64,
}

impl Counts {
    /// Counts of a program. They are kept beside it, and used again.
    pub(crate) fn of(bench: &Bench<'_>, file: &Path) -> Result<Self> {
        // Not instead of an extension: the `.8` of `built-5.4.8` would be taken for one.
        let mut kept = file.as_os_str().to_os_string();
        kept.push(".counts");
        let kept = PathBuf::from(kept);
        if let Ok(text) = std::fs::read_to_string(&kept) {
            return Self::parse(&text).with_context(|| format!("{}: delete it", kept.display()));
        }
        let mut sum = Self::default();
        for text in bench.callgrind(file)? {
            sum.add(&text)?;
        }
        std::fs::write(kept, format!("{} {} {}\n", sum.instructions, sum.taken, sum.misses))?;
        Ok(sum)
    }

    fn parse(text: &str) -> Result<Self> {
        let numbers = text.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        let [instructions, taken, misses] = numbers[..] else { anyhow::bail!("not three numbers") };
        Ok(Self { instructions, taken, misses })
    }

    /// Adds what callgrind wrote of a process. A jump is `jump=COUNT TARGET` or `jcnd=TAKEN/EXECUTED TARGET`.
    fn add(&mut self, text: &str) -> Result<()> {
        let (mut events, mut totals) = (None, None);
        for line in text.lines() {
            if let Some(names) = line.strip_prefix("events: ") {
                events = Some(names);
            } else if let Some(numbers) = line.strip_prefix("totals: ") {
                totals = Some(numbers);
            } else if let Some(jump) = line.strip_prefix("jump=").or_else(|| line.strip_prefix("jcnd=")) {
                let taken = jump.split([' ', '/']).next().unwrap_or_default();
                self.taken += taken.parse::<u64>().with_context(|| format!("bad jump {line:?}"))?;
            }
        }
        let (events, totals) = events.zip(totals).context("callgrind wrote no totals")?;
        let total = |name: &str| {
            let found =
                events.split_whitespace().zip(totals.split_whitespace()).find(|(event, _)| *event == name);
            found
                .and_then(|(_, count)| count.parse::<u64>().ok())
                .with_context(|| format!("no total of {name}"))
        };
        self.instructions += total("Ir")?;
        self.misses += total("I1mr")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums() {
        let text = "events: Ir Dr I1mr\nfn=f\n0x10 0 5 1\njcnd=3/7 +4 +0\n0x14 0\njump=4 0x1222 0 \n0x1200 0 \ntotals: 90 8 7\n";
        let mut counts = Counts::default();
        counts.add(text).unwrap();
        counts.add(text).unwrap();
        assert_eq!(counts, Counts { instructions: 180, taken: 14, misses: 14 });
        assert!(counts.add("events: Ir\n").is_err());
        assert_eq!(Counts::parse("1 2 3\n").unwrap(), Counts { instructions: 1, taken: 2, misses: 3 });
    }
}
