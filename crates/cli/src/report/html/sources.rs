//! The source of functions that ran: of each file what is shown, once.

use super::super::source::{LARGEST_GAP, read};
use super::function::Detail;
use anyhow::Result;
use relive_html::Packs;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};

/// So many lines are shown before the first line with code, where the name of the function is, and behind the last.
const AROUND: u32 = 3;

/// Files, and the lines of them that are shown.
#[derive(Default)]
pub(super) struct Sources {
    rows: HashMap<String, usize>,
    files: Vec<(String, BTreeSet<u32>)>,
}

impl Sources {
    /// Gives the files of a function their rows, and notes what is shown of them.
    pub(super) fn number(&mut self, detail: &mut Detail<'_>) {
        for source in &mut detail.source {
            let row = self.rows.get(source.path).copied().unwrap_or_else(|| {
                self.files.push((source.path.to_string(), BTreeSet::new()));
                self.rows.insert(source.path.to_string(), self.files.len() - 1);
                self.files.len() - 1
            });
            source.file = row;
            let shown = &mut self.files[row].1;
            let mut before = None;
            for &(line, ..) in &source.lines {
                shown.insert(line);
                match before {
                    _ if !source.own => {}
                    Some(before) if line - before <= LARGEST_GAP => shown.extend(before..line),
                    _ => shown.extend(line.saturating_sub(AROUND)..line),
                }
                before = Some(line);
            }
            if let Some(last) = before.filter(|_| source.own) {
                shown.extend(last..=last.saturating_add(1));
            }
        }
    }

    /// Packs the lines, and tells where each file is: its path, and its place or null if it cannot be read.
    pub(super) fn pack(self, packs: &mut Packs) -> Result<Value> {
        let mut files = Vec::new();
        for (path, shown) in self.files {
            let text = read(&path);
            let place = if text.is_empty() {
                None
            } else {
                let line = |&line: &u32| Some((line, text.get((line as usize).checked_sub(1)?)?));
                Some(packs.add(&shown.iter().filter_map(line).collect::<Vec<_>>())?)
            };
            files.push(json!([path, place]));
        }
        Ok(files.into())
    }
}
