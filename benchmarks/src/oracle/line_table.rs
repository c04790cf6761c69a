//! The line table as `llvm-dwarfdump --debug-line` prints it: which line of which file each instruction comes from. Up to
//! version 4 (Rust) only the description of the unit, which `--debug-info` prints, says in which folder it was compiled.

use crate::process::output_of;
use crate::relive::hex;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
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
        let mut command = Command::new("llvm-dwarfdump-19");
        command.args(["--debug-info", "--recurse-depth=0", "--debug-line"]);
        Self::parse(&output_of(command.arg(file))?)
    }

    /// Where several rows have one address, the last holds: the others are statements without instructions.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut table = Self::default();
        let compiled_in = compiled_in(text)?;
        let mut unit = Unit::default();
        let mut sequence = None;
        let mut open: Option<(u64, usize, u32)> = None;
        for line in text.lines() {
            if let Some(start) = line.strip_prefix("debug_line[") {
                let folder = compiled_in.get(&hex(start.trim_end_matches(']'))?);
                let folders = folder.map(|folder| (0, folder.clone())).into_iter().collect();
                unit = Unit { folders, ..Unit::default() };
                (sequence, open) = (None, None);
            } else if let Some(folder) = line.strip_prefix("include_directories[") {
                unit.folders.insert(index(folder)?, numbered(folder, "] = ")?);
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
    /// By number; 0 is the one compiled in.
    folders: BTreeMap<usize, PathBuf>,
    name: PathBuf,
    /// Files are numbered from 1 up to version 4, from 0 since.
    first_file: Option<usize>,
    files: Vec<usize>,
}

impl Unit {
    fn file(&self, folder: usize) -> File {
        let compiled_in = self.folders.get(&0).cloned().unwrap_or_default();
        let path = match self.folders.get(&folder) {
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

/// The folders in which units were compiled, by where their line tables start.
fn compiled_in(text: &str) -> Result<BTreeMap<u64, PathBuf>> {
    let mut folders = BTreeMap::new();
    let (mut folder, mut start) = (None, None);
    for line in text.lines().take_while(|line| !line.starts_with("debug_line[")) {
        let attribute = line.trim_start();
        if attribute.contains("DW_TAG_") {
            (folder, start) = (None, None);
        } else if let Some(value) = value(attribute, "DW_AT_comp_dir") {
            folder = Some(PathBuf::from(unquoted(value)));
        } else if let Some(value) = value(attribute, "DW_AT_stmt_list") {
            start = Some(hex(value)?);
        }
        if let (Some(start), Some(folder)) = (start, &folder) {
            folders.insert(start, folder.clone());
        }
    }
    Ok(folders)
}

/// `DW_AT_comp_dir ("/src")` → `"/src"`
fn value<'t>(line: &'t str, name: &str) -> Option<&'t str> {
    line.strip_prefix(name)?.trim_start().strip_prefix('(')?.strip_suffix(')')
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

    const VERSION_4: &str = "0x0000000b: DW_TAG_compile_unit
              DW_AT_name\t(\"src/lib.rs/@/x.0\")
              DW_AT_stmt_list\t(0x00000010)
              DW_AT_comp_dir\t(\"corpus/x\")
debug_line[0x00000010]
         version: 4
include_directories[  1] = \"/rustc\"
include_directories[  2] = \"src\"
file_names[  1]:
           name: \"lib.rs\"
      dir_index: 2
file_names[  2]:
           name: \"build.rs\"
      dir_index: 0
0x0000000000001000     10      1      1   0             0       0  is_stmt
0x0000000000001004     11      3      1   0             0       0  is_stmt end_sequence
";

    #[test]
    fn folders_of_version_4() {
        let table = LineTable::parse(VERSION_4).unwrap();
        let file = |path: &str| File { compiled_in: "corpus/x".into(), path: path.into() };
        assert_eq!(table.files, [file("src/lib.rs"), file("build.rs")]);
        assert_eq!(
            table.within(0x1000..0x1004).map(|span| (span.file, span.line)).collect::<Vec<_>>(),
            [(0, 10)]
        );
    }

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
