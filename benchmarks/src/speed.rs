//! Time and memory of `relive inspect` beside `objdump -d`, which reads the same bytes and decodes the same
//! instructions but understands nothing.

use crate::process::{Usage, measure, output_of};
use crate::table::Table;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// What the corpus scripts made
    #[arg(long, env = "CORPUS_DIR", default_value = "target/corpus")]
    corpus: PathBuf,
    /// Runs of each, alternating; the best counts
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Files to measure [default: cc1, and corpus and prebuilt programs of growing size]
    files: Vec<PathBuf>,
}

/// Corpus programs from small to large: the series that shows how time grows with size.
const SERIES: [&str; 9] = [
    "bin/bzip2/1.0.8/gcc-O2.stripped",
    "bin/lua/5.4.6/gcc-O2.stripped",
    "bin/quickjs/2021-03-27/gcc-O2.stripped",
    "bin/sqlite/3.46.0/gcc-O2.stripped",
    "bin/ripgrep/14.1.1/rustc-O2.stripped",
    "prebuilt/esbuild/0.28.2",
    "prebuilt/ruff/0.17.4",
    "bin/ripgrep/14.1.1/rustc-O2",
    "prebuilt/node/26.10.0",
];

pub(crate) fn run(options: &Options) -> Result<u64> {
    let mut files =
        if options.files.is_empty() { default_files(&options.corpus)? } else { options.files.clone() };
    ensure!(!files.is_empty(), "no file to measure");
    files.sort_by_key(|file| std::fs::metadata(file).map_or(0, |metadata| metadata.len()));
    let scratch = tempfile::tempdir()?;
    let mut table = Table::new(&[
        "file",
        "MB",
        "code MB",
        "relive s",
        "objdump s",
        "relive/objdump",
        "ms per code MB",
        "relive peak MB",
        "objdump peak MB",
        "peak/file",
    ]);
    for file in &files {
        eprintln!("measuring {}", file.display());
        table.row(row(file, options, &scratch.path().join("output"))?);
    }
    println!("Best of {} runs, alternating.\n\n{table}", options.runs);
    Ok(0)
}

fn default_files(corpus: &Path) -> Result<Vec<PathBuf>> {
    let cc1 = output_of(Command::new("gcc").arg("-print-prog-name=cc1"))?;
    let mut files: Vec<PathBuf> = SERIES.iter().map(|file| corpus.join(file)).collect();
    files.push(PathBuf::from(cc1.trim()));
    let (there, missing): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| file.exists());
    for file in missing {
        eprintln!("not there, left out: {}", file.display());
    }
    Ok(there)
}

fn row(file: &Path, options: &Options, output: &Path) -> Result<Vec<String>> {
    let mut relive: Option<Usage> = None;
    let mut objdump: Option<Usage> = None;
    for _ in 0..options.runs.max(1) {
        better(&mut relive, measure(Command::new(&options.relive).arg("inspect").arg(file), output)?);
        better(&mut objdump, measure(Command::new("objdump").arg("-d").arg(file), output)?);
    }
    let (Some(relive), Some(objdump)) = (relive, objdump) else { unreachable!("at least one run") };
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let (size, code) = (std::fs::metadata(file)?.len(), code_size(file)?);
    let (seconds, reference) = (relive.wall.as_secs_f64(), objdump.wall.as_secs_f64());
    Ok(vec![
        name(file, &options.corpus),
        format!("{:.1}", megabytes(size)),
        format!("{:.1}", megabytes(code)),
        format!("{seconds:.3}"),
        format!("{reference:.3}"),
        format!("{:.2}", seconds / reference),
        format!("{:.1}", 1000.0 * seconds / megabytes(code)),
        format!("{:.0}", megabytes(relive.peak_memory)),
        format!("{:.0}", megabytes(objdump.peak_memory)),
        format!("{:.1}", relive.peak_memory as f64 / size as f64),
    ])
}

/// Keeps the shorter run.
pub(crate) fn better(best: &mut Option<Usage>, usage: Usage) {
    if best.is_none_or(|best| usage.wall < best.wall) {
        *best = Some(usage);
    }
}

pub(crate) fn name(file: &Path, corpus: &Path) -> String {
    file.strip_prefix(corpus).unwrap_or(file).display().to_string()
}

/// The size of all executable sections.
pub(crate) fn code_size(file: &Path) -> Result<u64> {
    Ok(executable_bytes(&output_of(Command::new("llvm-readelf-19").args(["-S", "-W"]).arg(file))?))
}

/// Of `llvm-readelf -S -W`: name, type, address, offset, size, entry size, flags, link, info, alignment.
fn executable_bytes(text: &str) -> u64 {
    let section = |line: &str| {
        let (_, columns) = line.split_once("] ")?;
        let columns: Vec<&str> = columns.split_whitespace().collect();
        let flags = columns.get(6).filter(|flags| flags.contains('X'))?;
        let size = columns.get(4).filter(|_| flags.contains('A'))?;
        u64::from_str_radix(size, 16).ok()
    };
    text.lines().filter_map(section).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_sections() {
        let text = "Section Headers:
  [Nr] Name              Type            Address          Off    Size   ES Flg Lk Inf Al
  [ 0]                   NULL            0000000000000000 000000 000000 00      0   0  0
  [12] .init             PROGBITS        0000000000007000 007000 000017 00  AX  0   0  4
  [15] .text             PROGBITS        0000000000001050 001050 00025d 00  AX  0   0 16
  [16] .rodata           PROGBITS        0000000000002000 002000 000100 00   A  0   0 16
";
        assert_eq!(executable_bytes(text), 0x17 + 0x25d);
    }
}
