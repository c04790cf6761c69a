//! What short programs cost under the engine: the tool's own start, the engine's in every process, and code that is translated
//! for the first time.

use crate::table::Table;
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wait4::Wait4;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// Runs of each; the best counts
    #[arg(long, default_value_t = 10)]
    runs: usize,
}

/// How many programs the shell starts.
const LOOP: u32 = 200;

const SOURCE: &str =
    "#include <stdio.h>\nint main(int n, char **words) { printf(\"%d\\n\", n); return 0; }\n";

pub(crate) fn run(options: &Options) -> Result<u64> {
    let relive = options.relive.canonicalize().context("no relive: --relive names it")?;
    let relive = relive.to_str().context("the path of relive is not UTF-8")?;
    let scratch = tempfile::tempdir()?;
    fs::write(scratch.path().join("hello.c"), SOURCE)?;
    let shell = format!("i=0; while [ $i -lt {LOOP} ]; do /bin/true; i=$((i+1)); done");
    let subjects: [(&str, &[&str], u32); 3] = [
        ("/bin/true", &["/bin/true"], 1),
        ("each /bin/true in a loop of sh", &["/bin/sh", "-c", &shell], LOOP),
        ("gcc compiles and links", &["gcc", "-O1", "hello.c", "-o", "hello"], 1),
    ];
    let prefixes: [&[&str]; 3] =
        [&[], &[relive, "run", "--no-count", "--"], &[relive, "run", "-o", "startup.rprof", "--"]];
    let mut table =
        Table::new(&["processor time", "native ms", "engine ms", "counting ms", "engine, time passed ms"]);
    for (name, command, times) in subjects {
        eprintln!("{name}");
        let mut best = [Took::LONGEST; 3];
        for _ in 0..options.runs.max(1) {
            for (prefix, best) in prefixes.iter().zip(&mut best) {
                let words: Vec<&str> = prefix.iter().chain(command).copied().collect();
                *best = best.min(take(&words, scratch.path())?);
            }
        }
        let each = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1000.0 / f64::from(times));
        let mut row = vec![name.to_owned()];
        row.extend(best.iter().map(|took| each(took.processor)));
        row.push(each(best[1].wall));
        table.row(row);
    }
    println!("\n{table}\nBest of {}, with all that the tool does, the profile too.", options.runs);
    Ok(0)
}

/// The time of a run: what passed, and that of all its processes.
#[derive(Clone, Copy)]
struct Took {
    wall: Duration,
    processor: Duration,
}

impl Took {
    const LONGEST: Self = Self { wall: Duration::MAX, processor: Duration::MAX };

    fn min(self, other: Self) -> Self {
        Self { wall: self.wall.min(other.wall), processor: self.processor.min(other.processor) }
    }
}

fn take(words: &[&str], folder: &Path) -> Result<Took> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(folder).stdin(Stdio::null());
    command.stdout(File::create(folder.join("out"))?);
    let start = Instant::now();
    let used = command.spawn().with_context(|| format!("cannot run {}", words[0]))?.wait4()?;
    let wall = start.elapsed();
    ensure!(used.status.success(), "{words:?}: {}", used.status);
    Ok(Took { wall, processor: used.rusage.utime + used.rusage.stime })
}
