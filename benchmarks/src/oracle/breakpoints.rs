//! How often instructions are reached while a program runs natively: a breakpoint at each of them.

use crate::corpus;
use crate::process::output_of;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// By address as linked.
pub(crate) type Hits = BTreeMap<u64, Reached>;

/// What was seen at an instruction.
#[derive(Clone, Default)]
pub(crate) struct Reached {
    pub(crate) times: u64,
    /// For each general register, as instructions number them: how its value went from one time to the next, each step added to
    /// [`FACTOR`] times those before. So the steps of a sum are the sum of steps.
    pub(crate) steps: [u64; 16],
}

/// What steps before are multiplied by.
pub(crate) const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The program that sets and counts them.
pub(crate) struct Breakpoints {
    program: PathBuf,
}

impl Breakpoints {
    pub(crate) fn compile(folder: &Path) -> Result<Self> {
        let program = folder.join("hits");
        let source = corpus::scripts().join("drivers/hits.c");
        output_of(Command::new("gcc").arg("-O2").arg(source).arg("-o").arg(&program))?;
        Ok(Self { program })
    }

    /// Counts at these places while `run` runs a program with these words in front of its command.
    pub(crate) fn count(
        &self,
        places: &BTreeSet<u64>,
        run: impl FnOnce([OsString; 3]) -> Result<()>,
    ) -> Result<Hits> {
        let folder = tempfile::tempdir()?;
        let (addresses, out) = (folder.path().join("addresses"), folder.path().join("hits"));
        let mut text = String::new();
        for place in places {
            writeln!(text, "{place:x}")?;
        }
        std::fs::write(&addresses, text)?;
        run([self.program.clone().into(), out.clone().into(), addresses.into()])?;
        let mut hits = Hits::new();
        for line in std::fs::read_to_string(&out).context("no breakpoint counts")?.lines() {
            let (address, reached) = parse(line).with_context(|| format!("bad line {line:?}"))?;
            // A program that is started several times is counted in all.
            let all = hits.entry(address).or_default();
            *all = Reached { times: all.times + reached.times, steps: reached.steps };
        }
        Ok(hits)
    }
}

fn parse(line: &str) -> Option<(u64, Reached)> {
    let mut words = line.split(' ');
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let times = words.next()?.parse().ok()?;
    let steps: Vec<u64> = words.map(|word| u64::from_str_radix(word, 16)).collect::<Result<_, _>>().ok()?;
    Some((address, Reached { times, steps: steps.try_into().ok()? }))
}
