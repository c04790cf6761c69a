//! Source with counts in the margin.
//!
//! A line is part of several blocks, and a block of several lines. Beside each line stands how often the
//! most frequent block with code of that line ran, and how many instructions of the line were executed
//! altogether.

use super::binary::instructions;
use crate::output::{field, grouped};
use anyhow::Result;
use relive_image::image::Image;
use relive_image::lines::Lines;
use relive_profile::model::{Count, Function};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;

/// Larger files are no source.
const MAX_LEN: u64 = 64 << 20;

/// So many lines without code are shown between lines with code; of more, only that they are there.
pub(crate) const LARGEST_GAP: u32 = 10;

/// What a line did.
#[derive(Clone, Copy, Default)]
pub(crate) struct Executed {
    pub(crate) times: u64,
    pub(crate) instructions: u64,
    pub(crate) is_known: bool,
}

/// The lines of a function, file by file.
pub(crate) struct LinesOf<'l> {
    /// The file that the function is in.
    pub(crate) own: &'l str,
    pub(crate) executed: BTreeMap<&'l str, BTreeMap<u32, Executed>>,
}

impl<'l> LinesOf<'l> {
    /// The lines of `function`, if there are any.
    pub(crate) fn new(image: &Image<'_>, lines: &'l Lines<'_>, function: &Function) -> Option<Self> {
        let mut executed: BTreeMap<&str, BTreeMap<u32, Executed>> = BTreeMap::new();
        let mut own = None;
        for block in &function.blocks {
            for insn in instructions(image, block) {
                let Some(place) = lines.at(insn.addr()).filter(|place| place.line > 0) else { continue };
                own.get_or_insert(place.file);
                let line = executed.entry(place.file).or_default().entry(place.line).or_default();
                let count = block.count.map_or(0, Count::value);
                line.times = line.times.max(count);
                line.instructions = line.instructions.saturating_add(count);
                line.is_known |= block.count.is_some();
            }
        }
        Some(Self { own: own?, executed })
    }
}

/// The lines of the file at `path`; none if it is no source, or not there.
pub(crate) fn read(path: &str) -> Vec<String> {
    let is_source = fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAX_LEN);
    let bytes = if is_source { fs::read(path).unwrap_or_default() } else { Vec::new() };
    String::from_utf8_lossy(&bytes).lines().map(str::to_string).collect()
}

/// The lines of a function.
pub(crate) struct Listing {
    /// The file the function is in, then those that were inlined.
    files: Vec<File>,
}

struct File {
    path: String,
    text: Vec<String>,
    executed: BTreeMap<u32, Executed>,
    /// Show what lies between the lines as well.
    is_own: bool,
}

impl Listing {
    /// The lines of `function`, if there are lines and the file that it begins in can be read.
    pub(crate) fn new(image: &Image<'_>, lines: &Lines<'_>, function: &Function) -> Option<Self> {
        let LinesOf { own, mut executed } = LinesOf::new(image, lines, function)?;
        let mut files = vec![File::new(own, executed.remove(own)?, true)];
        if files[0].text.is_empty() {
            return None;
        }
        files.extend(executed.into_iter().map(|(path, executed)| File::new(path, executed, false)));
        Some(Self { files })
    }

    /// Prints all of it.
    pub(crate) fn print(&self, out: &mut dyn Write) -> Result<()> {
        for (i, file) in self.files.iter().enumerate() {
            if i > 0 {
                writeln!(out)?;
            }
            file.print(out)?;
        }
        Ok(())
    }
}

impl File {
    fn new(path: &str, executed: BTreeMap<u32, Executed>, is_own: bool) -> Self {
        Self { path: path.to_string(), text: read(path), executed, is_own }
    }

    fn print(&self, out: &mut dyn Write) -> Result<()> {
        let inlined = if self.is_own { "" } else { ", inlined" };
        writeln!(out, "{:>16} {:>16} | {}{inlined}", "times", "instructions", field(&self.path))?;
        let mut before: Option<u32> = None;
        for (&line, executed) in &self.executed {
            match before.map(|before| line - before) {
                Some(gap) if self.is_own && gap <= LARGEST_GAP => {
                    for line in line - gap + 1..line {
                        self.print_line(line, "", "", out)?;
                    }
                }
                Some(2..) => writeln!(out, "{:>16} {:>16} |   ...", "", "")?,
                _ => {}
            }
            before = Some(line);
            if executed.is_known {
                self.print_line(line, &grouped(executed.times), &grouped(executed.instructions), out)?;
            } else {
                self.print_line(line, "?", "?", out)?;
            }
        }
        Ok(())
    }

    fn print_line(&self, line: u32, times: &str, instructions: &str, out: &mut dyn Write) -> Result<()> {
        let text = self.text.get(line as usize - 1).map_or("", String::as_str);
        let text = format!("{line:>5} {}", field_keeping_tabs(text));
        Ok(writeln!(out, "{times:>16} {instructions:>16} | {}", text.trim_end())?)
    }
}

/// A line of source without anything that could confuse a terminal.
fn field_keeping_tabs(text: &str) -> String {
    field(&text.replace('\t', "    ")).into_owned()
}
