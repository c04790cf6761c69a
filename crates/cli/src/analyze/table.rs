//! Tables for people: columns of numbers, and a name at the end of each row.

use crate::output::field;
use anyhow::Result;
use relive_analysis::Location;
use std::io::Write;

/// A table.
pub(super) struct Table {
    title: String,
    heads: Vec<&'static str>,
    rows: Vec<(Vec<String>, String)>,
}

impl Table {
    /// One without rows. The last of the heads is that of the names.
    pub(super) fn new(title: impl Into<String>, heads: &[&'static str]) -> Self {
        Self { title: title.into(), heads: heads.to_vec(), rows: Vec::new() }
    }

    /// Appends a row.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>, name: impl Into<String>) {
        self.rows.push((cells.into_iter().collect(), name.into()));
    }

    /// Prints it, with what is left out.
    pub(super) fn print(&self, top: usize, out: &mut dyn Write) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n{}", self.title)?;
        let shown = &self.rows[..self.rows.len().min(top)];
        let width = |column: usize| {
            let cells = shown.iter().filter_map(|(cells, _)| cells.get(column));
            let cells = cells.map(|cell| cell.chars().count());
            cells.chain([self.heads[column].chars().count()]).max().unwrap_or(0)
        };
        let columns = self.heads.len() - 1;
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>, name: &str, out: &mut dyn Write| {
            for (cell, width) in cells.zip(&widths) {
                write!(out, "  {cell:>width$}")?;
            }
            writeln!(out, "  {name}")
        };
        line(&mut self.heads[..columns].iter().copied(), self.heads[columns], out)?;
        for (cells, name) in shown {
            line(&mut cells.iter().map(String::as_str), &field(name), out)?;
        }
        match self.rows.len() - shown.len() {
            0 => Ok(()),
            more => Ok(writeln!(out, "  … and {more} more (--top)")?),
        }
    }
}

/// The last part of a path.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A place in words, for the end of a row: as much as is known of it.
pub(super) fn name(location: &Location) -> String {
    let module = location.module.as_deref().map(file_name);
    let function = match (&location.function, location.address) {
        (Some(function), _) => function.to_string(),
        (None, Some(address)) => format!("{address:#x}"),
        (None, None) => "?".to_string(),
    };
    let mut text = match module {
        Some(module) => format!("{function} [{}]", module.trim_matches(['[', ']'])),
        None => function,
    };
    if let (Some(file), Some(line)) = (&location.file, location.line) {
        text = format!("{}:{line} {text}", file_name(file));
    }
    text
}
