//! Builds programs, rewrites them, runs them, and reads what they counted.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a program may take that hangs if anything is wrong.
const LIMIT: Duration = Duration::from_secs(120);

/// A folder to build and run in. It goes when this value goes.
pub(crate) struct Lab {
    folder: TempDir,
}

/// What came of a run.
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Where the sources are.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/instrument/programs")
}

/// Whether a command can be run; if not, says that its test proves nothing.
pub(crate) fn available(command: &str) -> bool {
    let found = Command::new(command).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        println!("skipped: there is no {command} here");
    }
    found.is_ok()
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Compiles one of the programs as `name`; `how` is the command, words separated by spaces.
    pub(crate) fn build(&self, how: &str, source: &str, name: &str) -> PathBuf {
        let mut words = how.split_whitespace();
        let path = self.path(name);
        let mut command = Command::new(words.next().expect("a compiler"));
        let (libraries, options): (Vec<&str>, _) =
            words.partition(|w| w.starts_with("-l") || w.ends_with(".so"));
        command.current_dir(self.folder()).args(options).arg("-o").arg(&path);
        command.arg(sources().join(source)).args(libraries);
        if !source.ends_with(".rs") {
            command.args(["-lpthread", "-ldl"]);
        }
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
        path
    }

    /// Whether a compiler and its options work at all.
    pub(crate) fn can_build(&self, how: &str) -> bool {
        let source = self.path("empty.c");
        fs::write(&source, "int main(void) { return 0; }\n").expect("a file");
        let mut words = how.split_whitespace();
        let mut command = Command::new(words.next().expect("a compiler"));
        command.current_dir(self.folder()).args(words).arg("-o").arg(self.path("empty")).arg(&source);
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
            && Command::new(self.path("empty")).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    }

    /// Rewrites `program`, with traps in its old code, to `name.counted`.
    pub(crate) fn instrument(&self, program: &Path, options: &[&str]) -> PathBuf {
        let mut name = program.file_name().expect("a name").to_os_string();
        name.push(".counted");
        let out = self.folder().join(name);
        self.instrument_to(program, &out, options);
        out
    }

    pub(crate) fn instrument_to(&self, program: &Path, out: &Path, options: &[&str]) {
        let mut command = relive();
        command.arg("instrument").arg(program).arg("-o").arg(out).arg("--trap").args(options);
        let output = command.output().expect("the tool starts");
        assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    }

    /// A command that runs in the folder, without anything the environment says of profiles.
    pub(crate) fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder()).env_remove("RELIVE_PROFILE").env_remove("LD_LIBRARY_PATH");
        command.args(args).stdin(Stdio::null());
        command
    }

    /// Runs a program in the folder, to its end.
    pub(crate) fn run(&self, program: &Path, args: &[&str]) -> Ran {
        self.finish(self.command(program, args))
    }

    /// Runs a command to its end. Output goes to files: whoever inherits them does not hold us up.
    pub(crate) fn finish(&self, mut command: Command) -> Ran {
        let output = tempfile::tempdir().expect("a temporary folder");
        let (out, err) = (output.path().join("out"), output.path().join("err"));
        command.stdout(File::create(&out).expect("a file")).stderr(File::create(&err).expect("a file"));
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child") {
                break status;
            }
            if start.elapsed() > LIMIT {
                child.kill().expect("a child to end");
                child.wait().expect("a child that ended");
                panic!("{command:?}: still at it after {LIMIT:?}");
            }
            thread::sleep(Duration::from_millis(2));
        };
        let text = |path| String::from_utf8_lossy(&fs::read(path).expect("output")).into_owned();
        Ran { status, stdout: text(out), stderr: text(err) }
    }

    /// The profile in the folder that belongs to `program`.
    pub(crate) fn profile(&self, program: &Path) -> Profile {
        let name = program.file_name().expect("a name").to_string_lossy();
        Profile(self.path(&format!("{name}.rprof")))
    }

    /// Builds, rewrites and runs a program, and checks that it behaves as the original and counts what it
    /// says it does.
    pub(crate) fn check(&self, how: &str, source: &str, args: &[&str]) -> Profile {
        let native = self.build(how, source, "program");
        let counted = self.instrument(&native, &[]);
        self.compare(&native, &counted, args, how)
    }

    /// Runs original and rewritten program and compares them.
    pub(crate) fn compare(&self, native: &Path, counted: &Path, args: &[&str], what: &str) -> Profile {
        let profile = self.profile(counted);
        let _ = fs::remove_file(&profile.0);
        let expected = self.run(native, args);
        let got = self.run(counted, args);
        got.behaves_as(&expected, &format!("{what} {args:?}"));
        profile.meets(&got.stdout, &format!("{what} {args:?}"));
        profile
    }
}

impl Ran {
    /// What it printed but for what it expects of the profile.
    fn says(&self) -> Vec<&str> {
        self.stdout.lines().filter(|line| !line.starts_with("expect ")).collect()
    }

    pub(crate) fn behaves_as(&self, other: &Ran, what: &str) {
        assert_ne!(self.status.signal(), Some(5), "{what}: ran into old code\n{}", self.stderr);
        assert_eq!(self.status, other.status, "{what}: {}\n{}", self.stdout, self.stderr);
        assert_eq!(self.says(), other.says(), "{what}");
        assert_eq!(self.stderr, other.stderr, "{what}");
    }

    pub(crate) fn succeeded(self, what: &str) -> Self {
        assert!(self.status.success(), "{what}: {}\n{}{}", self.status, self.stdout, self.stderr);
        self
    }
}

/// The tool.
pub(crate) fn relive() -> Command {
    Command::new(env!("CARGO_BIN_EXE_relive"))
}

fn read(args: &[&str], profile: &Path) -> Output {
    let output = relive().arg(args[0]).arg(profile).args(&args[1..]).output().expect("the tool starts");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?} {}: {complaint}", profile.display());
    output
}

/// A profile on disk.
pub(crate) struct Profile(pub(crate) PathBuf);

/// A line of `dump --functions`.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) state: String,
    pub(crate) entries: Option<u64>,
    pub(crate) reason: String,
}

/// A line of `dump --blocks`.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) function: String,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) count: Option<u64>,
}

/// A line of `dump --edges`.
#[derive(Debug)]
pub(crate) struct Edge {
    pub(crate) function: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) count: Option<u64>,
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_else(|_| panic!("an address: {text}"))
}

fn count(text: &str) -> Option<u64> {
    (text != "-").then(|| text.parse().unwrap_or_else(|_| panic!("a count: {text}")))
}

impl Profile {
    pub(crate) fn exists(&self) -> bool {
        self.0.exists()
    }

    /// The rows of a table of `relive dump`.
    pub(crate) fn table(&self, which: &str) -> Vec<Vec<String>> {
        let output = String::from_utf8(read(&["dump", which], &self.0).stdout).expect("text");
        output.lines().skip(1).map(|line| line.split('\t').map(str::to_string).collect()).collect()
    }

    pub(crate) fn functions(&self) -> Vec<Function> {
        let row = |row: Vec<String>| Function {
            name: row[1].clone(),
            address: hex(&row[2]),
            size: row[3].parse().expect("a size"),
            state: row[4].clone(),
            entries: count(&row[5]),
            reason: row[7].clone(),
        };
        self.table("--functions").into_iter().map(row).collect()
    }

    pub(crate) fn blocks(&self) -> Vec<Block> {
        let row = |row: Vec<String>| Block {
            function: row[1].clone(),
            address: hex(&row[2]),
            size: row[3].parse().expect("a size"),
            count: count(&row[4]),
        };
        self.table("--blocks").into_iter().map(row).collect()
    }

    pub(crate) fn edges(&self) -> Vec<Edge> {
        let row = |row: Vec<String>| Edge {
            function: row[1].clone(),
            from: row[2].clone(),
            to: row[3].clone(),
            count: count(&row[4]),
        };
        self.table("--edges").into_iter().map(row).collect()
    }

    /// How often `callee` was called from `caller`.
    pub(crate) fn calls(&self, caller: &str, callee: &str) -> u64 {
        let rows = self.table("--calls");
        let rows = rows.iter().filter(|row| row[1] == caller && row[3] == callee);
        rows.map(|row| row[4].parse::<u64>().expect("a count")).sum()
    }

    /// Entries and iterations of each loop of `function`, by address.
    pub(crate) fn loops(&self, function: &str) -> Vec<(u64, u64)> {
        let rows = self.table("--loops");
        let number = |text: &str| text.parse().expect("a count");
        let mut loops: Vec<(u64, u64, u64)> = rows
            .iter()
            .filter(|row| row[1] == function)
            .map(|row| (hex(&row[2]), number(&row[5]), number(&row[6])))
            .collect();
        loops.sort_unstable();
        loops.into_iter().map(|(_, entries, iterations)| (entries, iterations)).collect()
    }

    /// How often the function was entered; the only one of that name must be measured.
    pub(crate) fn entries(&self, name: &str) -> u64 {
        let functions: Vec<Function> = self.functions().into_iter().filter(|f| f.name == name).collect();
        assert_eq!(functions.len(), 1, "{name}: {functions:?}");
        functions[0].entries.unwrap_or_else(|| panic!("{name}: {}", functions[0].reason))
    }

    /// The JSON report.
    pub(crate) fn report(&self) -> serde_json::Value {
        serde_json::from_slice(&read(&["report", "--json"], &self.0).stdout).expect("JSON")
    }

    /// How many processes counted.
    pub(crate) fn runs(&self) -> u64 {
        self.report()["modules"][0]["runs"].as_u64().expect("runs")
    }

    /// Functions whose counts do not add up.
    pub(crate) fn inconsistent(&self) -> Vec<String> {
        let report = self.report();
        let modules = report["modules"].as_array().expect("modules");
        let lists = modules.iter().filter_map(|module| module["inconsistent"].as_array());
        lists.flatten().map(|name| name.as_str().expect("a name").to_string()).collect()
    }

    /// Checks what a program said of itself: lines `expect entries FUNCTION N` and `expect calls CALLER
    /// CALLEE N`.
    pub(crate) fn meets(&self, stdout: &str, what: &str) {
        let functions = self.functions();
        for line in stdout.lines() {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["expect", "entries", name, expected] => {
                    let mut found = functions.iter().filter(|f| f.name == name);
                    let function = found.next().unwrap_or_else(|| panic!("{what}: no {name}"));
                    assert!(found.next().is_none(), "{what}: several {name}");
                    let entries = function.entries.map(|n| n.to_string());
                    assert_eq!(entries.as_deref(), Some(expected), "{what}: {line} ({})", function.reason);
                }
                ["expect", "calls", caller, callee, expected] => {
                    assert_eq!(self.calls(caller, callee).to_string(), expected, "{what}: {line}");
                }
                ["expect", ..] => panic!("{what}: {line}"),
                _ => {}
            }
        }
    }

    /// Checks that whatever enters a block or hub leaves it, and that blocks ran as often as that.
    pub(crate) fn adds_up(&self, what: &str) {
        let mut nodes: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for edge in self.edges() {
            let Some(count) = edge.count else { continue };
            let function = edge.function;
            nodes.entry((function.clone(), edge.from)).or_default().1 += count;
            nodes.entry((function, edge.to)).or_default().0 += count;
        }
        for ((function, node), (into, out)) in &nodes {
            if node != "outside" {
                assert_eq!(into, out, "{what}: {function} {node} is entered and left");
            }
        }
        for block in self.blocks() {
            let node = (block.function.clone(), format!("{:#x}", block.address));
            if let (Some(count), Some(&(into, _))) = (block.count, nodes.get(&node)) {
                assert_eq!(count, into, "{what}: {node:?}");
            }
        }
        assert_eq!(self.inconsistent(), Vec::<String>::new(), "{what}");
    }
}
