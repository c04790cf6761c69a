//! Executed jumps, from `valgrind --tool=callgrind --dump-instr=yes --collect-jumps=yes`.

use crate::process::output_of;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
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
}
