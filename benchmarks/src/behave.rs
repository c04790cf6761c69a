//! Every executable of this machine, rewritten or under the engine (`--run`, `--trace`): does it still answer `--version` and
//! `--help` as before? And can what was traced be read?
//!
//! The programs are strangers: each run is an unprivileged user's (when we are root), without network where that can be
//! had, in a scratch folder, with a time limit. relive fills old code with traps, so that any escape shows.

mod programs;
mod sandbox;

use crate::breadth::files;
use crate::table::Table;
use crate::workload::without;
use anyhow::{Context, Result, ensure};
use sandbox::{Answer, Program, Sandbox, Way};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// Folders or files to go through
    #[arg(long, value_delimiter = ',', default_values = ["/usr/bin", "/usr/sbin", "/usr/lib", "/usr/libexec"])]
    dir: Vec<PathBuf>,
    /// Only files whose path contains one of these
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Seconds per run of a program
    #[arg(long, default_value_t = 10)]
    limit: u64,
    /// Seconds for rewriting a file
    #[arg(long, default_value_t = 300)]
    rewrite_limit: u64,
    /// Programs at a time
    #[arg(long, default_value_t = 2)]
    parallel: usize,
    /// Do not rewrite the programs, but run them as they are by `relive run`
    #[arg(long)]
    run: bool,
    /// Do not rewrite the programs, but run them as they are by `relive trace`, and replay that
    #[arg(long, conflicts_with = "run")]
    trace: bool,
    /// One line per file goes here
    #[arg(long, default_value = "target/behave.tsv")]
    output: PathBuf,
}

const QUESTIONS: [&str; 2] = ["--version", "--help"];

/// What came of one program; the worst of its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Same,
    /// Two runs of the program as it is differ as much.
    Unstable,
    Refused,
    Different,
    /// The rewritten program died of a signal, and the other did not.
    Crashed,
    /// What was traced cannot be read to its end.
    Unreadable,
    /// relive itself crashed or took too long.
    RewriterFailed,
}

impl Outcome {
    const ALL: [Self; 7] = [
        Self::Same,
        Self::Unstable,
        Self::Refused,
        Self::Different,
        Self::Crashed,
        Self::Unreadable,
        Self::RewriterFailed,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Unstable => "unstable",
            Self::Refused => "refused",
            Self::Different => "different",
            Self::Crashed => "crashed",
            Self::Unreadable => "unreadable",
            Self::RewriterFailed => "rewriter failed",
        }
    }

    fn is_violation(self) -> bool {
        matches!(self, Self::Different | Self::Crashed | Self::Unreadable | Self::RewriterFailed)
    }
}

struct Behaved {
    file: PathBuf,
    outcome: Outcome,
    detail: String,
}

pub(crate) fn run(options: &Options) -> Result<u64> {
    let mut files = files::elf_files(&options.dir);
    files.retain(|file| programs::is_program(file));
    files.retain(|file| {
        let path = file.to_string_lossy();
        options.only.is_empty() || options.only.iter().any(|part| path.contains(part))
    });
    ensure!(!files.is_empty(), "no program there");
    eprintln!("{} programs", files.len());
    let way = match (options.run, options.trace) {
        (true, _) => Way::Run,
        (_, true) => Way::Traced,
        _ => Way::Rewritten,
    };
    let sandbox = Sandbox::new(&options.relive, Duration::from_secs(options.limit), way)?;
    let all = behave_all(&files, &sandbox, options)?;
    write_tsv(&all, &options.output)?;
    Ok(print(&all))
}

fn behave_all(files: &[PathBuf], sandbox: &Sandbox, options: &Options) -> Result<Vec<Behaved>> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Behaved>> = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let behaved = behave(file, sandbox, Duration::from_secs(options.rewrite_limit))?;
            if behaved.outcome.is_violation() {
                eprintln!("{}: {}: {}", file.display(), behaved.outcome.word(), behaved.detail);
            }
            let mut done = done.lock().expect("no worker panics");
            done.push(behaved);
            if done.len().is_multiple_of(100) {
                eprintln!("{} of {} programs", done.len(), files.len());
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.parallel.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
    })?;
    let mut all = done.into_inner().expect("no worker panics");
    all.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(all)
}

fn behave(file: &Path, sandbox: &Sandbox, limit: Duration) -> Result<Behaved> {
    let behaved = |outcome, detail: String| Ok(Behaved { file: file.to_owned(), outcome, detail });
    let room = sandbox.room(file)?;
    match room.prepare(limit)? {
        Answer { status: Some(0), .. } => {}
        Answer { status: Some(2), stderr, .. } => {
            return behaved(Outcome::Refused, refusal(&String::from_utf8_lossy(&stderr), file));
        }
        answer => return behaved(Outcome::RewriterFailed, answer.summary()),
    }
    let mut worst = (Outcome::Same, String::new());
    for question in QUESTIONS {
        let (mut outcome, mut detail) = compare(&room, question)?;
        let replayed = room.replay(limit)?;
        if let Some(answer) = replayed.filter(|answer| answer.status != Some(0) || !answer.stderr.is_empty())
        {
            (outcome, detail) = (Outcome::Unreadable, answer.summary());
        }
        if outcome > worst.0 {
            worst = (outcome, format!("{question}: {detail}"));
        }
    }
    if worst.0 == Outcome::Same && !room.has_left_something() {
        worst.1 = "no profile".to_owned();
    }
    behaved(worst.0, worst.1)
}

/// The rewritten program against the one as it is: in the very same place if it can be put there, for some programs look
/// for things beside themselves; else against a copy that was moved as well.
fn compare(room: &sandbox::Room, question: &str) -> Result<(Outcome, String)> {
    let names = room.names();
    let names: Vec<&[u8]> = names.iter().map(|name| name.as_os_str().as_encoded_bytes()).collect();
    let ask = |program: &Program| -> Result<Answer> {
        let answer = room.run(program, question)?;
        Ok(Answer {
            stdout: without(&answer.stdout, &names),
            stderr: without(&answer.stderr, &names),
            ..answer
        })
    };
    let counted = ask(&Program::Counted)?;
    let expected = ask(&Program::AsItIs)?;
    if counted == expected {
        return Ok((Outcome::Same, String::new()));
    }
    let mut candidates = vec![(expected, Program::AsItIs)];
    if room.is_elsewhere() {
        candidates.push((ask(&Program::Moved)?, Program::Moved));
    }
    let mut stable = true;
    for (answer, program) in &candidates {
        let again = ask(program)?;
        // process ids and times: only if the program differs from itself in nothing else
        let masked = again != *answer && again.masked() == answer.masked();
        stable &= again == *answer || masked;
        if counted == *answer || masked && counted.masked() == answer.masked() {
            return Ok((Outcome::Same, String::new()));
        }
    }
    if !stable {
        return Ok((Outcome::Unstable, String::new()));
    }
    let (expected, _) = &candidates[candidates.len() - 1];
    let outcome = if counted.signal.is_some() && expected.signal != counted.signal {
        Outcome::Crashed
    } else {
        Outcome::Different
    };
    let once = if ask(&Program::Counted)? == counted { "" } else { ", not every time" };
    Ok((outcome, format!("{} instead of {}{once}", counted.summary(), expected.summary())))
}

/// The first line without the name of the file.
fn refusal(stderr: &str, file: &Path) -> String {
    let line = stderr.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").or_else(|| line.strip_prefix("relive: ")).unwrap_or(line);
    let name = file.display().to_string();
    line.replace(&name, "").trim_start_matches([':', ' ']).to_owned()
}

fn write_tsv(all: &[Behaved], path: &Path) -> Result<()> {
    let mut text = String::from("file\toutcome\tdetail\n");
    for one in all {
        let detail = one.detail.replace(['\t', '\n'], " ");
        writeln!(text, "{}\t{}\t{detail}", one.file.display(), one.outcome.word())?;
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn print(all: &[Behaved]) -> u64 {
    let mut table = Table::new(&["outcome", "programs", "an example"]);
    for outcome in Outcome::ALL {
        let those: Vec<&Behaved> = all.iter().filter(|one| one.outcome == outcome).collect();
        let example = those.first().filter(|_| outcome != Outcome::Same);
        let example = example.map(|one| format!("{} {}", one.file.display(), one.detail.replace('\n', " ")));
        let example = example.unwrap_or_default().replace('|', "/");
        table.row(vec![outcome.word().to_owned(), those.len().to_string(), example]);
    }
    let mut reasons: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for one in all.iter().filter(|one| one.outcome == Outcome::Refused) {
        reasons.entry(&one.detail).or_default().push(&one.file);
    }
    let mut refused = Table::new(&["refused because", "programs", "an example"]);
    for (reason, files) in reasons {
        refused.row(vec![reason.to_owned(), files.len().to_string(), files[0].display().to_string()]);
    }
    let silent = all.iter().filter(|one| one.outcome == Outcome::Same && !one.detail.is_empty()).count();
    for one in all.iter().filter(|one| one.outcome.is_violation()) {
        println!("{}: {}: {}", one.file.display(), one.outcome.word(), one.detail);
    }
    let violations = all.iter().filter(|one| one.outcome.is_violation()).count();
    println!("\n{table}\n{refused}\nsame, but no profile: {silent}\nviolations: {violations}");
    violations as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_grouped_by_reason() {
        let text = "relive: /usr/bin/go: built by Go\n  hint\n";
        assert_eq!(refusal(text, Path::new("/usr/bin/go")), "built by Go");
    }

    #[test]
    fn the_worst_wins() {
        assert!(Outcome::Crashed > Outcome::Different && Outcome::Different > Outcome::Unstable);
        assert!(Outcome::Different.is_violation() && !Outcome::Refused.is_violation());
        let all = [Behaved { file: "/a".into(), outcome: Outcome::Crashed, detail: String::new() }];
        assert_eq!(print(&all), 1);
    }
}
