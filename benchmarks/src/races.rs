//! Races: what relive, helgrind and DRD find in programs that race, and what they make up in programs that do not.
//!
//! The programs are those of `crates/analysis/tests/races`. A race counts as found if anything is reported; whatever is reported of a correct
//! program is a false alarm. Violations: a race that relive misses, an alarm of relive's that is false.

use crate::process::{Ending, output_of, run_limited};
use crate::table::Table;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// Where the programs are
    #[arg(long, default_value = "crates/analysis/tests/races")]
    programs: PathBuf,
    /// What to compile them with
    #[arg(long, default_value = "-O1", allow_hyphen_values = true)]
    optimize: String,
    /// How often each is run under each tool; reports are those of the run with the most
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// Only programs whose names contain this
    #[arg(long)]
    only: Option<String>,
}

const TOOLS: [&str; 3] = ["relive", "helgrind", "DRD"];
/// A tool that takes longer for one of these programs hangs.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn run(options: &Options) -> Result<u64> {
    let relive = options.relive.canonicalize().context("no relive: --relive names it")?;
    let scratch = tempfile::tempdir()?;
    let mut violations = 0;
    for (folder, has_race) in [("racy", true), ("correct", false)] {
        let mut header = vec![if has_race { "race" } else { "no race" }];
        header.extend(TOOLS);
        let mut table = Table::new(&header);
        let mut right = [0; TOOLS.len()];
        let mut programs = 0;
        for source in sources(&options.programs.join(folder))? {
            let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if options.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
                continue;
            }
            eprintln!("{name}");
            let program = scratch.path().join(&name);
            build(&source, &name, &program, &options.optimize)?;
            let mut cells = vec![name];
            programs += 1;
            for (index, right) in right.iter_mut().enumerate() {
                let mut most = None;
                for _ in 0..options.runs.max(1) {
                    most = most.max(reports(index, &relive, &program, scratch.path())?);
                }
                let is_right = most.is_some_and(|reports| (reports > 0) == has_race);
                *right += u64::from(is_right);
                violations += u64::from(index == 0 && !is_right);
                let said = most.map_or_else(|| "hangs".to_owned(), |reports| reports.to_string());
                cells.push(if is_right { said } else { format!("**{said}**") });
            }
            table.row(cells);
        }
        let mut cells =
            vec![format!("**{} of {programs}**", if has_race { "found" } else { "without an alarm" })];
        cells.extend(right.map(|count| format!("**{count}**")));
        table.row(cells);
        println!("\n{table}");
    }
    println!(
        "Reports of each; what is wrong stands out. gcc and g++ {}. violations: {violations}",
        options.optimize
    );
    Ok(violations)
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    found.sort();
    Ok(found)
}

fn build(source: &Path, name: &str, program: &Path, optimize: &str) -> Result<()> {
    let is_cpp = source.extension().is_some_and(|end| end == "cc");
    let mut command = Command::new(if is_cpp { "g++" } else { "gcc" });
    command.args([
        optimize,
        "-g",
        "-w",
        "-pthread",
        if name.starts_with("static_") { "-static" } else { "-pie" },
    ]);
    output_of(command.arg("-o").arg(program).arg(source)).map(drop)
}

/// How many races a tool reports; none if it did not end.
fn reports(tool: usize, relive: &Path, program: &Path, scratch: &Path) -> Result<Option<u64>> {
    let (out, err) = (scratch.join("out"), scratch.join("err"));
    let trace = scratch.join("program.rtrace");
    let mut command = match TOOLS[tool] {
        "relive" => {
            let mut command = Command::new(relive);
            command.args(["trace", "-q", "-o"]).arg(&trace).arg("--");
            command
        }
        name => {
            let mut command = Command::new("valgrind");
            command.arg(format!("--tool={}", name.to_lowercase()));
            command
        }
    };
    if let Ending::TimedOut = run_limited(command.arg(program), &out, &err, LIMIT)? {
        return Ok(None);
    }
    if TOOLS[tool] != "relive" {
        return races_in(&std::fs::read_to_string(err)?).map(Some);
    }
    let mut command = Command::new(relive);
    let ending = run_limited(command.args(["analyze", "races", "--json"]).arg(&trace), &out, &err, LIMIT)?;
    let Ending::Exited(_) = ending else { return Ok(None) };
    let found: serde_json::Value = serde_json::from_slice(&std::fs::read(out)?).with_context(|| {
        format!("relive analyze races: {}", std::fs::read_to_string(err).unwrap_or_default())
    })?;
    Ok(found["races"].as_array().map(|races| races.len() as u64))
}

/// How many races helgrind or DRD report. They also complain of other things, such as signals to conditions without the lock.
fn races_in(text: &str) -> Result<u64> {
    const REPORTS: [&str; 3] = ["Possible data race during", "Conflicting load by", "Conflicting store by"];
    ensure!(text.contains("ERROR SUMMARY: "), "valgrind: {text}");
    Ok(text.lines().filter(|line| REPORTS.iter().any(|report| line.contains(report))).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::races_in;

    #[test]
    fn what_valgrind_reports() {
        let text = "==7== Possible data race during read of size 4\n==7== Thread #1: pthread_cond_signal: dubious\n\
                    ==7== ERROR SUMMARY: 6 errors from 2 contexts (suppressed: 1 from 1)\n";
        assert_eq!(races_in(text).expect("whole"), 1);
        assert!(races_in("==7== Possible data race during").is_err());
    }
}
