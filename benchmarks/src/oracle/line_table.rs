//! The line table as `llvm-dwarfdump --debug-line` prints it: which line of which file each instruction comes from.

use crate::process::output_of;
use anyhow::{Context, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of the table: the folder it was compiled in, the folder of the file (from there, if relative), its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct File {
    pub(crate) compiled_in: PathBuf,
    pub(crate) path: PathBuf,
}

/// Instructions that come from one line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) range: Range<u64>,
    /// Index into the files.
    pub(crate) file: usize,
    pub(crate) line: u32,
}

/// All spans of a binary, by address.
#[derive(Debug, Default)]
pub(crate) struct LineTable {
    pub(crate) files: Vec<File>,
    spans: Vec<Span>,
}

impl LineTable {
    pub(crate) fn of(file: &Path) -> Result<Self> {
        Self::parse(&output_of(Command::new("llvm-dwarfdump-19").arg("--debug-line").arg(file))?)
    }

    /// Where several rows have one address, the last holds: the others are statements without instructions.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut table = Self::default();
        let mut unit = Unit::default();
        let mut sequence = None;
        let mut open: Option<(u64, usize, u32)> = None;
        for line in text.lines() {
            if line.starts_with("debug_line[") {
                unit = Unit::default();
                (sequence, open) = (None, None);
            } else if let Some(folder) = line.strip_prefix("include_directories[") {
                unit.folders.push(numbered(folder, "] = ")?);
            } else if let Some(number) = line.strip_prefix("file_names[") {
                unit.first_file.get_or_insert(index(number)?);
            } else if let Some(name) = line.strip_prefix("           name: ") {
                unit.name = unquoted(name).into();
            } else if let Some(folder) = line.strip_prefix("      dir_index: ") {
                let file = unit.file(folder.trim().parse().context("a bad dir_index")?);
                table.files.push(file);
                unit.files.push(table.files.len() - 1);
            } else if let Some(row) = Row::parse(line) {
                if let Some((start, file, line)) = open.take()
                    && start < row.address
                {
                    table.spans.push(Span { range: start..row.address, file, line });
                }
                let begin = *sequence.get_or_insert(row.address);
                if row.ends {
                    sequence = None;
                    continue;
                }
                if begin == 0 {
                    continue; // a function that the linker left out
                }
                let file = row.file.checked_sub(unit.first_file.unwrap_or(0));
                if let Some(&file) = file.and_then(|file| unit.files.get(file)) {
                    open = Some((row.address, file, row.line));
                }
            }
        }
        // line 0: no line at all
        table.spans.retain(|span| span.line > 0);
        table.spans.sort_by_key(|span| span.range.start);
        Ok(table)
    }

    /// The spans that have instructions in a range, in the order of addresses.
    pub(crate) fn within(&self, range: Range<u64>) -> impl Iterator<Item = &Span> {
        let first = self.spans.partition_point(|span| span.range.end <= range.start);
        self.spans[first..].iter().take_while(move |span| span.range.start < range.end)
    }
}

/// The prologue of one unit.
#[derive(Default)]
struct Unit {
    folders: Vec<PathBuf>,
    name: PathBuf,
    /// Files are numbered from 1 up to version 4, from 0 since.
    first_file: Option<usize>,
    files: Vec<usize>,
}

impl Unit {
    fn file(&self, folder: usize) -> File {
        let compiled_in = self.folders.first().cloned().unwrap_or_default();
        // folder 0 is the one compiled in
        let path = match self.folders.get(folder) {
            Some(own) if folder > 0 => own.join(&self.name),
            _ => self.name.clone(),
        };
        File { compiled_in, path }
    }
}

struct Row {
    address: u64,
    line: u32,
    file: usize,
    ends: bool,
}

impl Row {
    /// `0x0000000000001139     12      3      1   0             0       0  is_stmt`
    fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("0x")?;
        let mut columns = digits.split_whitespace();
        let address = u64::from_str_radix(columns.next()?, 16).ok()?;
        let line = columns.next()?.parse().ok()?;
        let _column = columns.next()?;
        let file = columns.next()?.parse().ok()?;
        Some(Self { address, line, file, ends: columns.any(|flag| flag == "end_sequence") })
    }
}

fn index(text: &str) -> Result<usize> {
    let (number, _) = text.split_once(']').context("a number without ]")?;
    number.trim().parse().with_context(|| format!("bad number {number:?}"))
}

fn numbered(text: &str, between: &str) -> Result<PathBuf> {
    let (_, name) = text.split_once(between).with_context(|| format!("no name in {text:?}"))?;
    Ok(unquoted(name).into())
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "debug_line[0x00000000]
Line table prologue:
         version: 5
include_directories[  0] = \"/src/lua\"
include_directories[  1] = \"/usr/include\"
file_names[  0]:
           name: \"lapi.c\"
      dir_index: 0
file_names[  1]:
           name: \"stdio.h\"
      dir_index: 1

Address            Line   Column File   ISA Discriminator OpIndex Flags
------------------ ------ ------ ------ --- ------------- ------- -------------
0x0000000000001000     10      1      0   0             0       0  is_stmt
0x0000000000001004     11      3      0   0             0       0  is_stmt
0x0000000000001004     12      3      1   0             0       0
0x0000000000001008     12      3      1   0             0       0  is_stmt end_sequence
0x0000000000000000     20      3      1   0             0       0  is_stmt
0x0000000000002000     21      3      1   0             0       0  is_stmt end_sequence
";

    #[test]
    fn spans() {
        let table = LineTable::parse(TEXT).unwrap();
        assert_eq!(table.files[1].path, Path::new("/usr/include/stdio.h"));
        assert_eq!(table.files[0], File { compiled_in: "/src/lua".into(), path: "lapi.c".into() });
        let lines = |range| table.within(range).map(|span| (span.file, span.line)).collect::<Vec<_>>();
        assert_eq!(lines(0x1000..0x1010), [(0, 10), (1, 12)]);
        assert_eq!(lines(0x1006..0x1007), [(1, 12)]);
        assert_eq!(lines(0x1008..0x1010), []);
    }
}
