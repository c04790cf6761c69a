//! Statements that were edited between two versions: their texts differ, and still they are the same.
//!
//! `diff` says which lines took the place of which. In a change with as many lines on both sides, each line answers to its
//! counterpart; in a small one with other numbers, all to all; in a large one nobody can tell.

use super::build::{Build, Line};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use std::process::Command;

/// Changes with more lines than this on one side, and another number on the other, say nothing.
const SMALL: u32 = 8;

/// Edited lines of both versions; those with the same number answer to each other.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    pub(crate) old: HashMap<Line, usize>,
    pub(crate) new: HashMap<Line, usize>,
}

impl Edits {
    /// Compares the files that both builds have in the same place.
    pub(crate) fn between(old: &Build, new: &Build) -> Result<Self> {
        let mut edits = Self::default();
        let new_files: BTreeMap<&Path, u32> = own_files(new).collect();
        for (path, old_file) in own_files(old) {
            if let Some(&new_file) = new_files.get(path) {
                edits.add(&diff(&old.root.join(path), &new.root.join(path))?, old_file, new_file);
            }
        }
        Ok(edits)
    }

    fn add(&mut self, diff: &str, old_file: u32, new_file: u32) {
        for (old, new) in diff.lines().filter_map(change) {
            let (first, each) = (self.old.len() + self.new.len(), old.len() == new.len());
            if !each && old.len().max(new.len()) > SMALL as usize {
                continue;
            }
            let note = |lines: &mut HashMap<Line, usize>, range: Range<u32>, file| {
                for (index, line) in range.enumerate() {
                    lines.insert((file, line), first + if each { index } else { 0 });
                }
            };
            note(&mut self.old, old, old_file);
            note(&mut self.new, new, new_file);
        }
    }
}

/// The files of the version itself, by their place in it.
fn own_files(build: &Build) -> impl Iterator<Item = (&Path, u32)> {
    build
        .files
        .iter()
        .enumerate()
        .filter(|(_, path)| path.is_file())
        .filter_map(|(index, path)| Some((path.strip_prefix(&build.root).ok()?, index as u32)))
}

fn diff(old: &Path, new: &Path) -> Result<String> {
    let mut command = Command::new("diff");
    command.args(["-w", "--text", "--speed-large-files"]).arg(old).arg(new);
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    // 1: they differ
    ensure!(output.status.code().is_some_and(|status| status < 2), "{command:?}: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `12,13c14` and so on; what was only added or only removed has no counterpart.
fn change(line: &str) -> Option<(Range<u32>, Range<u32>)> {
    let (old, new) = line.split_once('c')?;
    let range = |text: &str| {
        let (first, last) = text.split_once(',').unwrap_or((text, text));
        Some(first.parse().ok()?..last.parse::<u32>().ok()?.checked_add(1)?)
    };
    Some((range(old)?, range(new)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counterparts() {
        let mut edits = Edits::default();
        edits.add("3,4c5,6\n< a\n---\n> b\n9c12,13\n10d2\n20,40c50\nc\n", 0, 1);
        assert_eq!(edits.old[&(0, 3)], edits.new[&(1, 5)]);
        assert_eq!(edits.old[&(0, 4)], edits.new[&(1, 6)]);
        assert_ne!(edits.old[&(0, 3)], edits.new[&(1, 6)]);
        assert_eq!(edits.old[&(0, 9)], edits.new[&(1, 13)]);
        assert_ne!(edits.old[&(0, 9)], edits.new[&(1, 6)]);
        assert_eq!((edits.old.len(), edits.new.len()), (3, 4));
    }
}
