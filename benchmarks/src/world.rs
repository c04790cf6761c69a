//! Large programs at work, as they are and under `relive run`: do they print the same and end the same?
//!
//! Each script of `benchmarks/world` is one. It brings what it needs (`set-up`), and then works in an empty folder
//! (`run`) as an unprivileged user, with all it starts in a process namespace of its own where that can be had: what a
//! run leaves behind ends with it. What a script prints is the same each time, by its own care.

use crate::breadth::{lend, unprivileged};
use crate::process::{Ending, run_limited};
use crate::table::Table;
use anyhow::{Context, Result, ensure};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// Where sources and packages are kept; any user must be able to read it
    #[arg(long, default_value = "/var/tmp/relive-world")]
    world: PathBuf,
    /// Names of scripts [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Seconds per run
    #[arg(long, default_value_t = 900)]
    limit: u64,
    /// Runs under the engine, each of which must do the same
    #[arg(long, default_value_t = 1)]
    repeat: usize,
    /// Do not count
    #[arg(long)]
    no_count: bool,
}

/// What came of a script; the worst of its runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Same,
    /// Two runs of the program as it is differ as well.
    Unstable,
    Different,
    TimeOver,
    /// The script could not be set up, or does not work without the engine.
    Impossible,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Unstable => "unstable",
            Self::Different => "different",
            Self::TimeOver => "time over",
            Self::Impossible => "impossible",
        }
    }

    fn is_violation(self) -> bool {
        self > Self::Unstable
    }
}

/// What a run showed to the outside.
#[derive(PartialEq)]
struct Shown {
    status: Option<i32>,
    signal: Option<i32>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

struct Place {
    scratch: tempfile::TempDir,
    relive: PathBuf,
    scripts: PathBuf,
    world: PathBuf,
    limit: Duration,
    /// `unshare --pid` works here.
    apart: bool,
    count: bool,
}

pub(crate) fn run(options: &Options) -> Result<u64> {
    let place = Place::new(options)?;
    let mut names: Vec<String> = std::fs::read_dir(&place.scripts)?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".sh").map(str::to_owned))
        .filter(|name| name != "common" && (options.only.is_empty() || options.only.contains(name)))
        .collect();
    names.sort();
    ensure!(!names.is_empty(), "no such script in benchmarks/world");
    let mut table = Table::new(&["program", "does", "native s", "engine s", "verdict"]);
    let mut violations = 0;
    for name in &names {
        let (verdict, native, engine) = place.judge(name, options.repeat)?;
        let (program, does) = place.description(name)?;
        eprintln!("{name}: {} ({native:.1} s, {engine:.1} s)", verdict.word());
        violations += u64::from(verdict.is_violation());
        table.row(vec![
            program,
            does,
            format!("{native:.1}"),
            format!("{engine:.1}"),
            verdict.word().to_owned(),
        ]);
    }
    println!("\n{table}\nviolations: {violations}");
    Ok(violations)
}

impl Place {
    fn new(options: &Options) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let relive = lend(&options.relive, scratch.path())?;
        let scripts = scratch.path().join("world");
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("world");
        let copied = Command::new("cp").arg("-r").args([&from, &scripts]).status()?;
        ensure!(copied.success(), "cannot copy {}", from.display());
        std::fs::create_dir_all(&options.world)?;
        let arguments = ["--pid", "--fork", "--mount-proc", "true"];
        let apart = Command::new("unshare").args(arguments).output().is_ok_and(|o| o.status.success());
        let limit = Duration::from_secs(options.limit);
        let world = options.world.canonicalize()?;
        Ok(Self { scratch, relive, scripts, world, limit, apart, count: !options.no_count })
    }

    fn script(&self, name: &str) -> PathBuf {
        self.scripts.join(format!("{name}.sh"))
    }

    /// The script's first line: `# program: what it does`.
    fn description(&self, name: &str) -> Result<(String, String)> {
        let text = std::fs::read_to_string(self.script(name))?;
        let line = text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or(name);
        let (program, does) = line.split_once(": ").unwrap_or((line, ""));
        Ok((program.to_owned(), does.to_owned()))
    }

    /// The verdict, and the seconds that a native run and the slowest other one took.
    fn judge(&self, name: &str, repeat: usize) -> Result<(Verdict, f64, f64)> {
        let mut set_up = Command::new("bash");
        set_up.arg(self.script(name)).arg("set-up").env("WORLD", &self.world);
        let (out, err) = (self.scratch.path().join("out"), self.scratch.path().join("err"));
        match run_limited(&mut set_up, &out, &err, self.limit)? {
            Ending::Exited(status) if status.success() => {}
            _ => {
                eprint!("{name}: set-up: {}", String::from_utf8_lossy(&std::fs::read(&err)?));
                return Ok((Verdict::Impossible, 0.0, 0.0));
            }
        }
        let (Some(expected), native) = self.run(name, false)? else {
            return Ok((Verdict::Impossible, 0.0, 0.0));
        };
        let (mut worst, mut slowest) = (Verdict::Same, 0.0f64);
        for round in 0..repeat.max(1) {
            let (shown, seconds) = self.run(name, true)?;
            slowest = slowest.max(seconds);
            let verdict = match &shown {
                None => Verdict::TimeOver,
                Some(shown) if *shown == expected => Verdict::Same,
                Some(_) if self.run(name, false)?.0.as_ref() != Some(&expected) => Verdict::Unstable,
                Some(_) => Verdict::Different,
            };
            if verdict != Verdict::Same {
                eprintln!("{name}: round {}: {}", round + 1, verdict.word());
            }
            if let Some(shown) = shown.filter(|_| verdict != Verdict::Same) {
                explain(&expected, &shown);
            }
            worst = worst.max(verdict);
        }
        Ok((worst, native, slowest))
    }

    /// One run, and how many seconds it took; nothing if the time was over. Each finds the same empty folder.
    fn run(&self, name: &str, engine: bool) -> Result<(Option<Shown>, f64)> {
        let work = self.scratch.path().join("work");
        if work.exists() {
            std::fs::remove_dir_all(&work)?;
        }
        for folder in [work.clone(), work.join("here"), work.join("profile")] {
            std::fs::create_dir(&folder)?;
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777))?;
        }
        let user = unprivileged(Path::new("bash"))?;
        let mut words: Vec<PathBuf> = Vec::new();
        if self.apart {
            words.extend(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"].map(PathBuf::from));
        }
        words.push(user.get_program().into());
        words.extend(user.get_args().map(PathBuf::from));
        // In front of `bash`, so that only the script is under the engine.
        let shell = words.pop().context("a command")?;
        if engine {
            words.extend([self.relive.clone(), "run".into()]);
            match self.count {
                true => words.extend(["-o".into(), work.join("profile/world.rprof")]),
                false => words.push("--no-count".into()),
            }
            words.push("--".into());
        }
        words.extend([shell, self.script(name), "run".into()]);
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .current_dir(work.join("here"))
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("TERM", "dumb")
            .env("WORLD", &self.world);
        let (out, err) = (self.scratch.path().join("out"), self.scratch.path().join("err"));
        let start = Instant::now();
        let ending = run_limited(&mut command, &out, &err, self.limit)?;
        let seconds = start.elapsed().as_secs_f64();
        let Ending::Exited(status) = ending else { return Ok((None, seconds)) };
        let (stdout, stderr) = (std::fs::read(&out)?, std::fs::read(&err)?);
        Ok((Some(Shown { status: status.code(), signal: status.signal(), stdout, stderr }), seconds))
    }
}

/// The first difference of each kind.
fn explain(expected: &Shown, shown: &Shown) {
    if (expected.status, expected.signal) != (shown.status, shown.signal) {
        let how = |s: &Shown| format!("exit {:?} signal {:?}", s.status, s.signal);
        eprintln!("  {}, not {}", how(shown), how(expected));
    }
    for (what, before, after) in
        [("output", &expected.stdout, &shown.stdout), ("errors", &expected.stderr, &shown.stderr)]
    {
        let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
        let (mut before, mut after) = (before.lines(), after.lines());
        loop {
            match (before.next(), after.next()) {
                (None, None) => break,
                (before, after) if before == after => {}
                (before, after) => {
                    eprintln!("  {what}: {}", after.unwrap_or("(nothing more)"));
                    eprintln!("     not: {}", before.unwrap_or("(nothing more)"));
                    break;
                }
            }
        }
    }
}
