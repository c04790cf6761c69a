//! Other distances than time: another level of optimisation, another compiler, no symbols, no difference at all, and
//! another program.

use super::score::cell;
use super::{Carry, Copy, Score};
use crate::corpus::{self, Build};
use crate::process::output_of;
use crate::table::Table;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Two different programs may share so much of the blocks of the smaller one: the start-up code of the C runtime.
const FOREIGN: f64 = 0.05;

pub(crate) fn run(carry: &Carry, only: &[String]) -> Result<u64> {
    let mut table =
        Table::new(&["program", "axis", "B.P.", "C.C.", "overlap", "edge overlap", "matched counts"]);
    let mut violations = 0;
    let mut wanted = corpus::table("accuracy.tsv")?;
    wanted.retain(|build| build.configuration == "gcc-O2");
    for build in corpus::existing(carry.profiles.corpus, wanted, only)? {
        eprintln!("{}", build.program);
        for (axis, outcome) in axes(carry, &build) {
            let score = match outcome {
                Ok(score) => Some(score),
                Err(error) => {
                    println!("{} {axis}: {error:#}", build.program);
                    violations += 1;
                    None
                }
            };
            let parts: [fn(&Score) -> f64; 5] =
                [|s| s.bp, |s| s.cc, |s| s.overlap, |s| s.edge_overlap, |s| s.matched_counts];
            let mut row = vec![build.program.clone(), axis.to_owned()];
            row.extend(parts.iter().map(|part| cell(score.as_ref().map(part))));
            table.row(row);
        }
    }
    println!("\n{table}");
    violations += foreign(carry)?;
    println!("violations: {violations}");
    Ok(violations)
}

/// From a gcc -O2 build to its siblings.
fn axes(carry: &Carry, build: &Build) -> Vec<(&'static str, Result<Score>)> {
    let base = match copy(carry, build, false) {
        Ok(base) => base,
        Err(error) => return vec![("gcc-O2", Err(error))],
    };
    let to = |new: Result<Copy>| new.and_then(|new| carry.carried(&base, &new));
    let mut axes = vec![
        ("itself", itself(carry, &base)),
        ("symbols to stripped", to(copy(carry, build, true))),
        ("stripped to symbols", copy(carry, build, true).and_then(|old| carry.carried(&old, &base))),
    ];
    for (axis, configuration) in [("gcc-O2 to gcc-O3", "gcc-O3"), ("gcc-O2 to clang-O2", "clang-O2")] {
        let other = Build { configuration: configuration.to_owned(), ..build.clone() };
        if other.binary(carry.profiles.corpus, ".stripped").exists() {
            axes.push((axis, to(copy(carry, &other, false))));
        }
    }
    axes
}

fn copy(carry: &Carry, build: &Build, stripped: bool) -> Result<Copy> {
    let file = file(carry, build, stripped);
    let profile = carry.profiles.of(build, &file, 1)?.remove(0);
    Ok(Copy { file, profile })
}

fn file(carry: &Carry, build: &Build, stripped: bool) -> PathBuf {
    let corpus = carry.profiles.corpus;
    if stripped { build.binary(corpus, ".stripped") } else { build.named(corpus) }
}

/// Carried to the very build it was measured on, a profile stays what it is. Only where its counts are from may differ.
fn itself(carry: &Carry, base: &Copy) -> Result<Score> {
    let carried = carry.migrate(base, base)?;
    let score = carry.evaluate(&carried, &base.profile)?;
    for table in ["--functions", "--blocks", "--edges", "--calls"] {
        let dump = |profile: &Path| {
            output_of(Command::new(carry.profiles.relive).arg("dump").arg(table).arg(profile))
        };
        let (before, after) = (dump(&base.profile)?, dump(&carried)?);
        let differences = differences(&counts(&before), &counts(&after));
        if let Some((old, new)) = differences.first() {
            bail!("{table}: {} lines changed: {old:?} became {new:?}; {score:?}", differences.len());
        }
    }
    ensure!(score.is_perfect(), "not all 100 %: {score:?}");
    Ok(score)
}

/// The lines of a table without the columns `origin` and `confidence`, which are the last ones if they are there.
fn counts(table: &str) -> Vec<&str> {
    let provenance = table.lines().next().is_some_and(|header| header.ends_with("\torigin\tconfidence"));
    let cut = |line| if provenance { str::rsplitn(line, 3, '\t').last().unwrap_or(line) } else { line };
    table.lines().map(cut).collect()
}

/// Lines that differ, in pairs; a line too many is paired with nothing.
fn differences<'t>(before: &[&'t str], after: &[&'t str]) -> Vec<(&'t str, &'t str)> {
    let line = |lines: &[&'t str], index: usize| lines.get(index).copied().unwrap_or("nothing");
    let most = before.len().max(after.len());
    (0..most).map(|index| (line(before, index), line(after, index))).filter(|(old, new)| old != new).collect()
}

/// Two programs that have nothing to do with each other.
fn foreign(carry: &Carry) -> Result<u64> {
    let find = |program: &str| {
        let wanted = corpus::table("accuracy.tsv")?;
        let named = [format!("{program}/gcc-O2")];
        Ok::<_, anyhow::Error>(corpus::existing(carry.profiles.corpus, wanted, &named)?.remove(0))
    };
    let (Ok(lua), Ok(bzip2)) = (find("lua"), find("bzip2")) else { return Ok(0) };
    let mut violations = 0;
    for stripped in [false, true] {
        let mut command = Command::new(carry.profiles.relive);
        let text = output_of(
            command
                .arg("match")
                .arg(file(carry, &bzip2, stripped))
                .arg(file(carry, &lua, stripped))
                .arg("--json"),
        )?;
        let copy = if stripped { ", stripped" } else { "" };
        for kind in ["procedures", "data", "blocks"] {
            let [old, new, matched] = matched(&text, kind)?;
            println!("bzip2 and lua{copy}: {kind}: {matched} of {old} and {new} matched");
            if kind == "blocks" && matched as f64 > FOREIGN * old.min(new) as f64 {
                println!("bzip2 and lua{copy}: more than {} % of the blocks match", 100.0 * FOREIGN);
                violations += 1;
            }
        }
    }
    Ok(violations)
}

fn matched(text: &str, kind: &str) -> Result<[u64; 3]> {
    let json: serde_json::Value = serde_json::from_str(text).context("relive match --json")?;
    let number = |name: &str| {
        json[kind][name].as_u64().with_context(|| format!("relive match --json: no number `{kind}.{name}`"))
    };
    Ok([number("old")?, number("new")?, number("matched")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_counts() {
        let table = "f\tcount\torigin\tconfidence\na\t1\tmeasured\t100\nb\t2\tmatched\t90\n";
        assert_eq!(counts(table), ["f\tcount", "a\t1", "b\t2"]);
        assert_eq!(counts("f\tcount\na\t1\n"), ["f\tcount", "a\t1"]);
        assert_eq!(differences(&["a", "b"], &["a", "b"]), []);
        assert_eq!(differences(&["a", "b"], &["a", "c", "d"]), [("b", "c"), ("nothing", "d")]);
    }

    #[test]
    fn summary() {
        let text = r#"{"blocks":{"old":3,"new":4,"matched":2,"levels":{}}}"#;
        assert_eq!(matched(text, "blocks").unwrap(), [3, 4, 2]);
        assert!(matched(text, "data").is_err());
    }
}
