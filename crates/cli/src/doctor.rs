//! `relive doctor`: what works on this machine and what does not, and why.
//!
//! What matters is tried: a small program is measured in each way. What the kernel allows explains what fails.

use crate::console::{Colour, painted};
use crate::output::{Finding, write_to};
use crate::scratch::Scratch;
use anyhow::Result;
use clap::Args as ClapArgs;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
EXAMPLES:
  relive doctor
      tries each way of measuring on a small program, and says what is missing
  relive doctor --json | jq '.checks[] | select(.state != \"ok\")'

Exit status: 0 all ways of measuring work, 1 one does not, 2 it could not be tried.";

/// Arguments of `relive doctor`.
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print the same as JSON: `ok`, and `checks` with `name`, `state` (ok, failed, missing, note), `found` and `means`
    #[arg(long)]
    json: bool,

    /// The program that measuring is tried on
    #[arg(long, value_name = "FILE", default_value = "/bin/true")]
    program: PathBuf,
}

/// How something is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Something that relive is for does not work.
    Failed,
    /// Something that it can do without is not there.
    Missing,
    /// To know.
    Note,
}

/// Something that was looked at.
#[derive(Serialize)]
struct Check {
    name: &'static str,
    state: State,
    /// What was found.
    found: String,
    /// What that means, and what to do about it; empty if nothing.
    means: String,
}

/// Looks at everything.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut checks = vec![kernel(), processor(), memory()];
    checks.extend(permissions());
    checks.extend(trials(&args.program)?);
    checks.extend(tools());
    let failed: Vec<&str> =
        checks.iter().filter(|check| check.state == State::Failed).map(|check| check.name).collect();
    write_to(None, |out| if args.json { json(&checks, failed.is_empty(), out) } else { text(&checks, out) })?;
    if failed.is_empty() {
        return Ok(());
    }
    Err(Finding(format!("does not work here: {}", failed.join(", "))).into())
}

fn text(checks: &[Check], out: &mut dyn Write) -> Result<()> {
    for check in checks {
        let mark = match check.state {
            State::Ok => painted("ok     ", Colour::Green),
            State::Failed => painted("failed ", Colour::Red),
            State::Missing => painted("missing", Colour::Yellow),
            State::Note => "       ".to_string(),
        };
        writeln!(out, "{mark} {:<22} {}", check.name, check.found)?;
        if !check.means.is_empty() {
            writeln!(out, "{:30} {}", "", check.means)?;
        }
    }
    Ok(())
}

fn json(checks: &[Check], ok: bool, out: &mut dyn Write) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, &serde_json::json!({ "ok": ok, "checks": checks }))?;
    Ok(writeln!(out)?)
}

/// A file of the kernel, without the end of its line.
fn read(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim_end().to_string())
}

/// A line of `/proc/…`: the value behind `key:`.
fn field(text: &str, key: &str) -> Option<String> {
    let value = |line: &str| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == key).then(|| value.trim().to_string())
    };
    text.lines().find_map(value)
}

fn kernel() -> Check {
    let release = read("/proc/sys/kernel/osrelease");
    let is_linux = release.is_some() && cfg!(target_arch = "x86_64");
    Check {
        name: "kernel",
        state: if is_linux { State::Ok } else { State::Failed },
        found: format!("Linux {}, {}", release.as_deref().unwrap_or("?"), std::env::consts::ARCH),
        means: if is_linux { String::new() } else { "relive measures x86-64 programs on Linux".to_string() },
    }
}

fn processor() -> Check {
    let info = read("/proc/cpuinfo").unwrap_or_default();
    let flags = field(&info, "flags").unwrap_or_default();
    let has = |flag: &str| flags.split(' ').any(|found| found == flag);
    let known = ["sse4_2", "avx", "avx2", "avx512f", "xsave", "fsgsbase", "rtm"];
    let found: Vec<&str> = known.into_iter().filter(|flag| has(flag)).collect();
    Check {
        name: "processor",
        state: State::Note,
        found: format!(
            "{}: {}",
            field(&info, "model name").unwrap_or_else(|| "?".to_string()),
            found.join(" ")
        ),
        means: String::new(),
    }
}

fn memory() -> Check {
    let info = read("/proc/meminfo").unwrap_or_default();
    Check {
        name: "memory",
        state: State::Note,
        found: format!("{} free", field(&info, "MemAvailable").unwrap_or_else(|| "?".to_string())),
        means: String::new(),
    }
}

/// What the kernel allows.
fn permissions() -> Vec<Check> {
    let status = read("/proc/self/status").unwrap_or_default();
    let note = |name, found: String, means: &str| Check {
        name,
        state: State::Note,
        found,
        means: means.to_string(),
    };
    let can_trace_all = field(&status, "CapEff")
        .and_then(|caps| u64::from_str_radix(&caps, 16).ok())
        .is_some_and(|caps| caps & (1 << CAP_SYS_PTRACE) != 0);
    let yama = match (read("/proc/sys/kernel/yama/ptrace_scope").as_deref(), can_trace_all) {
        (None, _) => note("ptrace", "not restricted by Yama".to_string(), ""),
        (Some("0"), _) => note("ptrace", "kernel.yama.ptrace_scope is 0".to_string(), ""),
        (Some("3"), _) => note(
            "ptrace",
            "kernel.yama.ptrace_scope is 3".to_string(),
            "nobody may trace: run, trace and attach do not work until the machine is started again with another value",
        ),
        (Some(scope), true) => {
            note("ptrace", format!("kernel.yama.ptrace_scope is {scope}, and you may trace everything"), "")
        }
        (Some(scope), false) => note(
            "ptrace",
            format!("kernel.yama.ptrace_scope is {scope}"),
            "programs that relive starts are fine; --attach needs root, or sysctl kernel.yama.ptrace_scope=0",
        ),
    };
    let seccomp = match field(&status, "Seccomp").as_deref() {
        Some("0") | None => note("seccomp", "no filter".to_string(), ""),
        Some(_) => note(
            "seccomp",
            "system calls are filtered, as in a container".to_string(),
            "if run or trace fail below: start the container with --cap-add=SYS_PTRACE or --security-opt seccomp=unconfined",
        ),
    };
    let paranoid = read("/proc/sys/kernel/perf_event_paranoid");
    let perf = note(
        "perf events",
        paranoid.map_or_else(
            || "not there".to_string(),
            |level| format!("kernel.perf_event_paranoid is {level}"),
        ),
        "relive does not need them; perf record, whose samples can be imported, does",
    );
    vec![yama, seccomp, perf]
}

/// The number of the capability to trace processes of others.
const CAP_SYS_PTRACE: u32 = 19;
/// How long a trial may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures a program in each way.
fn trials(program: &Path) -> Result<Vec<Check>> {
    let scratch = Scratch::new()?;
    let relive = std::env::current_exe()?;
    let file = |name: &str| scratch.0.join(name).into_os_string();
    let program = program.as_os_str().to_os_string();
    let mut checks = Vec::new();
    let counting = [
        "instrument".into(),
        program.clone(),
        "-o".into(),
        file("counting"),
        "--profile".into(),
        file("counted.rprof"),
    ];
    let rewritten = attempt(&relive, &counting, None)
        .and_then(|()| attempt(Path::new(&file("counting")), &[], Some(Path::new(&file("counted.rprof")))));
    checks.push(tried("relive instrument", rewritten, "programs cannot be rewritten, or do not run then"));
    let run = ["run".into(), "-o".into(), file("run.rprof"), "--".into(), program.clone()];
    let run = attempt(&relive, &run, Some(Path::new(&file("run.rprof"))));
    checks.push(tried(
        "relive run",
        run,
        "programs cannot be measured without rewriting: see ptrace and seccomp above",
    ));
    let trace = ["trace".into(), "-q".into(), "-o".into(), file("t.rtrace"), "--".into(), program];
    let trace = attempt(&relive, &trace, Some(Path::new(&file("t.rtrace"))));
    checks.push(tried("relive trace", trace, "programs cannot be traced: see ptrace and seccomp above"));
    Ok(checks)
}

fn tried(name: &'static str, result: Result<(), String>, means: &str) -> Check {
    match result {
        Ok(()) => Check { name, state: State::Ok, found: "works".to_string(), means: String::new() },
        Err(why) => Check { name, state: State::Failed, found: why, means: means.to_string() },
    }
}

/// Runs a command that must succeed and leave a file.
fn attempt(program: &Path, args: &[std::ffi::OsString], leaves: Option<&Path>) -> Result<(), String> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let started = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if started.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(10)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("does not end within {} s", PATIENCE.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    };
    if !status.success() {
        let said =
            child.stderr.take().and_then(|stderr| std::io::read_to_string(stderr).ok()).unwrap_or_default();
        let last = said.lines().last().unwrap_or_default().trim();
        return Err(if last.is_empty() { status.to_string() } else { last.to_string() });
    }
    match leaves {
        Some(file) if !file.exists() => Err("ends well, and leaves nothing".to_string()),
        _ => Ok(()),
    }
}

/// Other programs, and what they are good for.
const TOOLS: [(&str, &[&str], &str); 9] = [
    ("gcc", &["gcc"], "relive cc"),
    ("clang", &["clang", "clang-19"], "relive cc"),
    ("llvm-bolt", &["llvm-bolt", "llvm-bolt-19"], "optimises by --format bolt-fdata"),
    ("llvm-profdata", &["llvm-profdata", "llvm-profdata-19"], "reads LLVM's sample profiles"),
    ("perf", &["perf"], "samples that can be imported"),
    ("callgrind_annotate", &["callgrind_annotate"], "shows --format callgrind in a terminal"),
    ("kcachegrind", &["kcachegrind", "qcachegrind"], "shows --format callgrind"),
    ("go", &["go"], "shows --format pprof (go tool pprof)"),
    ("genhtml", &["genhtml"], "makes pages of --format lcov"),
];

fn tools() -> Vec<Check> {
    let folders: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let llvm = ["/usr/lib/llvm-19/bin"].map(PathBuf::from);
    let find = |names: &[&str]| {
        let all = || folders.iter().chain(&llvm);
        names.iter().flat_map(|name| all().map(move |folder| folder.join(name))).find(|path| path.is_file())
    };
    let check = |&(name, names, good_for): &(&'static str, &[&str], &str)| match find(names) {
        Some(path) => {
            Check { name, state: State::Ok, found: path.display().to_string(), means: String::new() }
        }
        None => Check {
            name,
            state: State::Missing,
            found: format!("only needed for: {good_for}"),
            means: String::new(),
        },
    };
    TOOLS.iter().map(check).collect()
}
