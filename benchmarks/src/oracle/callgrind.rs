//! Executed jumps and how often each instruction ran, from `valgrind --tool=callgrind --dump-instr=yes`.

use crate::process::output_of;
use crate::workload::{Ran, Workload};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Jumps that were taken at least once: instruction and target, as linked.
pub(crate) type Jumps = BTreeSet<(u64, u64)>;

/// Runs the workload of a corpus program under callgrind. A workload may run its program several times.
pub(crate) fn run(workload: &Path, corpus: &Path, binary: &Path) -> Result<Jumps> {
    let scratch = tempfile::tempdir()?;
    let runner = format!(
        "valgrind -q --tool=callgrind --dump-instr=yes --collect-jumps=yes --compress-pos=no --compress-strings=no \
         --callgrind-out-file={}/%p.callgrind",
        scratch.path().display()
    );
    output_of(
        Command::new("bash")
            .arg(workload)
            .arg("train")
            .env("CORPUS_DIR", corpus)
            .env("BIN", binary)
            .env("TMPDIR", scratch.path())
            .env("RUNNER", runner),
    )?;
    let object = binary.to_str().context("path is not UTF-8")?;
    let mut jumps = Jumps::new();
    for entry in std::fs::read_dir(scratch.path())? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "callgrind") {
            collect(&String::from_utf8_lossy(&std::fs::read(path)?), object, &mut jumps);
        }
    }
    Ok(jumps)
}

/// How often each instruction ran, by its address as linked. Of `rep` instructions, how many iterations.
pub(crate) type Counts = BTreeMap<u64, u64>;

/// Runs a workload under callgrind, and adds up the processes.
pub(crate) fn count(workload: &Workload, binary: &Path) -> Result<(Ran, Counts)> {
    let scratch = tempfile::tempdir()?;
    let runner = format!(
        "valgrind -q --tool=callgrind --dump-instr=yes --skip-plt=no --compress-pos=no --compress-strings=no \
         --callgrind-out-file={}/%p.callgrind",
        scratch.path().display()
    );
    let ran = workload.run(binary, &[("RUNNER", runner.as_ref())])?;
    let object = binary.to_str().context("path is not UTF-8")?;
    let mut counts = Counts::new();
    for entry in std::fs::read_dir(scratch.path())? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "callgrind") {
            add_counts(&String::from_utf8_lossy(&std::fs::read(path)?), object, &mut counts);
        }
    }
    Ok((ran, counts))
}

/// A count is `ADDRESS LINE COUNT`; the one behind `calls=` is what the callee executed.
fn add_counts(text: &str, object: &str, counts: &mut Counts) {
    let mut in_object = false;
    let mut inclusive = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("ob=") {
            in_object = name == object;
        } else if line.starts_with("calls=") {
            inclusive = true;
        } else if line.starts_with("0x") && !std::mem::take(&mut inclusive) && in_object {
            let mut columns = line.split_whitespace();
            if let (Some(at), Some(count)) =
                (columns.next().and_then(address), columns.nth(1).and_then(|count| count.parse::<u64>().ok()))
            {
                *counts.entry(at).or_default() += count;
            }
        }
    }
}

/// A jump is two lines: `jump=COUNT TARGET LINE` or `jcnd=TAKEN/EXECUTED TARGET LINE`, then `SOURCE LINE`.
/// callgrind writes addresses as linked, also of position-independent files.
fn collect(text: &str, object: &str, jumps: &mut Jumps) {
    let mut in_object = false;
    let mut target = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("ob=") {
            in_object = name == object;
        } else if line.starts_with("jump=") || line.starts_with("jcnd=") {
            target = line.split_whitespace().nth(1).and_then(address);
        } else if let Some(to) = target.take()
            && let Some(from) = line.split_whitespace().next().and_then(address)
            && in_object
        {
            jumps.insert((from, to));
        }
    }
}

fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_of_one_object() {
        let text = "positions: instr line\nevents: Ir\n\nob=/bin/other\nfn=x\njump=1 0x9 0 \n0x8 0 \n\nob=/tmp/cg\nfl=???\n\
                    fn=f\n0x1139 0 1\njcnd=1/1 0x11d0 0 \n0x113c 0 \n0x11d0 0 1\njump=4 0x1222 0 \n0x1200 0 \n";
        let mut jumps = Jumps::new();
        collect(text, "/tmp/cg", &mut jumps);
        assert_eq!(jumps.into_iter().collect::<Vec<_>>(), [(0x113c, 0x11d0), (0x1200, 0x1222)]);
    }

    #[test]
    fn counts_of_one_object() {
        let text = "events: Ir\n\nob=/bin/other\nfn=x\n0x10 0 5\n\nob=/tmp/cg\nfn=f\n0x10 0 7\ncfn=g\n\
                    calls=3 0x40 0\n0x14 0 900\n0x14 0 3\n\nfn=f\n0x10 0 2\n";
        let mut counts = Counts::new();
        add_counts(text, "/tmp/cg", &mut counts);
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [(0x10, 9), (0x14, 3)]);
    }
}
