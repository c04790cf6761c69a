//! `relive export` and `relive import` with BOLT itself, and with branch stacks as perf prints them.

mod support;

use relive_testkit::compile::{Compiled, compile};
use relive_testkit::states::{Stop, Watcher};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::versions::{profile, version};
use support::{relive, stdout, text};

const BIN: &str = "/usr/lib/llvm-19/bin";

/// Jump tables, computed calls, recursion, local functions of one name, a tail call, exceptions in the C++ one.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#define KEPT __attribute__((noinline))
KEPT static unsigned fold(unsigned n) { return n < 2 ? n + 1 : fold(n - 1) * 3 + fold(n / 2); }
KEPT static unsigned step(unsigned kind, unsigned x) {
    switch (kind) {
    case 0: return x + 1;
    case 1: return x * 7 ^ 0x55;
    case 2: return fold(x % 9);
    case 3: puts("never"); return 3;
    case 4: return x > 50 ? x - 50 : x * 3;
    case 5: return x ^ x >> 3;
    default: return 9;
    }
}
KEPT static unsigned up(unsigned x) { return x + (x >> 3) + 21; }
KEPT static unsigned down(unsigned x) { return x < 30 ? 0 : x - 30 - (x >> 4); }
unsigned (*const moves[])(unsigned) = {up, down};
KEPT unsigned last(unsigned x) { return x % 3 ? up(x) : down(x); }
int main(int argc, char **argv) {
    unsigned x = 1, rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
    for (unsigned i = 0; i < rounds; i++) {
        unsigned kind = i % 10;
        x = step(kind == 3 ? 8 : kind, x % 1000);
        x = moves[i % 4 == 0](x);
        if (x % 5 == 1) x = last(x);
    }
    printf("%u\n", x);
    return 0;
}
"#;

/// Computed jumps that have some of their places in common: a profile counts them together.
const TABLES: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#define KEPT __attribute__((noinline))
/* An interpreter with two tables of labels that have one in common, and a jump at the end of each. */
KEPT static unsigned interpret(const unsigned char *code, unsigned x) {
    static const void *const first[] = {&&add, &&mul, &&turn, &&halt};
    static const void *const second[] = {&&sub, &&mix, &&back, &&halt};
    goto *first[*code];
add: x += 3; goto *first[*++code];
mul: x = x * 5 + 1; goto *first[*++code];
turn: goto *second[*++code];
sub: x -= 7; goto *second[*++code];
mix: x ^= x >> 5; goto *second[*++code];
back: goto *first[*++code];
halt: return x;
}
/* Two switches that end in the same places. */
KEPT static unsigned choose(unsigned kind, unsigned x) {
    if (x & 1) switch (kind) {
        case 0: return x + 1;
        case 1: x = rand(); goto shared;
        case 2: goto other;
        case 3: x ^= 77; break;
        case 4: x = x * x; goto shared;
        default: x = 9;
    } else switch (kind) {
        case 0: return x * 3;
        case 1: x >>= 3; goto other;
        case 2: goto shared;
        case 3: x = -x; break;
        case 4: x = x * 31; goto other;
        default: x = 1;
    }
    return x % 1000;
shared: return x % 77 + 5;
other: return x % 91 + 9;
}
int main(void) {
    static const unsigned char program[] = {0, 1, 1, 2, 0, 1, 0, 2, 0, 1, 2, 1, 1, 2, 1, 0, 3};
    static const unsigned char other[] = {1, 2, 0, 3};
    unsigned x = 1;
    for (unsigned i = 0; i < 1000; i++) x = interpret(i % 3 ? program : other, x), x = choose(i % 7, x);
    printf("%u\n", x);
}
"#;

const THROWS: &str = r#"
#include <cstdio>
struct Big { int n; };
__attribute__((noinline)) static int risky(int x) { if (x % 7 == 3) throw Big{x}; return x * 2; }
__attribute__((noinline)) static int careful(int x) {
    try { return risky(x); } catch (const Big &big) { return -big.n; }
}
int main() {
    int sum = 0;
    for (int i = 0; i < 500; i++) sum += careful(i);
    std::printf("%d\n", sum);
}
"#;

fn program(compiler: &str) -> Compiled {
    compile(compiler, &["-O2", "-g", "-Wl,--build-id=sha1", "-Wl,--emit-relocs"], ("program.c", PROGRAM))
}

/// Runs BOLT on a program, and returns what it says and the profile it understood.
fn bolt(program: &Path, data: &str, folder: &Path) -> (String, BTreeMap<(String, u64, u64), u64>) {
    bolt_with(program, data, &[], folder)
}

fn bolt_with(
    program: &Path,
    data: &str,
    options: &[&str],
    folder: &Path,
) -> (String, BTreeMap<(String, u64, u64), u64>) {
    let (out, yaml) = (folder.join("bolted"), folder.join("understood.yaml"));
    let mut command = Command::new(format!("{BIN}/llvm-bolt"));
    command.arg(program).args([&format!("-data={data}"), "-reorder-blocks=ext-tsp", "-v=1"]);
    let output = command
        .args(options)
        .arg("-o")
        .arg(&out)
        .arg("-w")
        .arg(&yaml)
        .output()
        .expect("llvm-bolt is installed");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let native = Command::new(program).output().expect("the program starts");
    let bolted = Command::new(&out).output().expect("what BOLT made starts");
    assert_eq!(native.stdout, bolted.stdout);
    (said, understood(&std::fs::read_to_string(yaml).expect("a profile")))
}

/// Edges of BOLT's own blocks, by function and by where blocks begin, as its hashes tell: an independent reading.
fn understood(yaml: &str) -> BTreeMap<(String, u64, u64), u64> {
    let mut edges = BTreeMap::new();
    for function in yaml.split("\n  - name:").skip(1) {
        let name = function.lines().next().unwrap_or_default().trim().trim_matches('\'').to_string();
        let mut starts = BTreeMap::new();
        let mut ways = Vec::new();
        for block in function.split("\n      - bid:").skip(1) {
            let id: u64 = block.lines().next().and_then(|id| id.trim().parse().ok()).expect("a number");
            let hash = block.split_once("hash:").expect("a hash").1.lines().next().expect("a line").trim();
            starts.insert(id, u64::from_str_radix(&hash[2..], 16).expect("a hash") & 0xffff);
            let successors =
                block.split_once("succ:").map_or("", |(_, rest)| rest.lines().next().unwrap_or(""));
            for way in successors.split("bid:").skip(1) {
                let (to, rest) = way.split_once(',').expect("a successor");
                let count =
                    rest.split_once("cnt:").expect("a count").1.split([',', '}']).next().expect("a count");
                ways.push((
                    id,
                    to.trim().parse::<u64>().expect("a number"),
                    count.trim().parse().expect("a count"),
                ));
            }
        }
        for (from, to, count) in ways {
            if let (Some(&from), Some(&to)) = (starts.get(&from), starts.get(&to)) {
                edges.insert((name.clone(), from, to), count);
            }
        }
    }
    edges
}

/// Nothing that BOLT says may mean that it does not believe the profile.
fn believes(said: &str) {
    for complaint in ["stale", "invalid", "mismatch", "malformed", "match only", "BOLT-ERROR"] {
        assert!(!said.contains(complaint), "{complaint}: {said}");
    }
    // That is `[unknown]`, which every profile of perf2bolt has as well.
    assert!(
        !said.contains("objects was ignored") || said.contains("profile for 1 objects was ignored"),
        "{said}"
    );
}

/// What the profile says of the edges between blocks, by address.
fn edges(profile: &str) -> BTreeMap<(u64, u64), u64> {
    let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let table = stdout(&["dump", profile, "--edges"]);
    let rows = table.lines().skip(1).filter_map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        Some(((hex(cells[2])?, hex(cells[3])?), cells[4].parse().ok()?))
    });
    rows.collect()
}

fn addresses(program: &Path) -> BTreeMap<String, u64> {
    let output = Command::new("nm").arg(program).output().expect("nm starts");
    let listing = String::from_utf8(output.stdout).expect("text");
    let rows = listing.lines().filter_map(|line| {
        let (address, rest) = line.split_once(' ')?;
        Some((rest[2..].to_string(), u64::from_str_radix(address, 16).ok()?))
    });
    rows.collect()
}

#[test]
fn bolt_believes_every_function_and_counts_the_same() {
    for compiler in ["gcc", "clang-19"] {
        let folder = tempfile::tempdir().expect("a folder");
        let program = program(compiler);
        let measured = profile(folder.path(), "program", &program);
        let fdata = folder.path().join("program.fdata");
        stdout(&["export", &measured, "--format", "bolt-fdata", "-o", text(&fdata)]);
        let (said, understood) = bolt(&program, text(&fdata), folder.path());
        believes(&said);
        let (own, places) = (edges(&measured), addresses(&program));
        let mut compared = 0;
        for ((name, from, to), &count) in &understood {
            let Some(start) = places.get(name.split('/').next().unwrap_or(name)) else { continue };
            // BOLT's block may be several of ours: one of them, not before it, leads there that often.
            let found: Vec<u64> = own
                .iter()
                .filter(|((a, b), _)| *b == start + to && *a >= start + from)
                .map(|(_, &count)| count)
                .collect();
            if count > 0 || !found.is_empty() {
                assert!(found.contains(&count), "{compiler}: {name} {from:x} {to:x}: {count}, not {found:?}");
                compared += 1;
            }
        }
        assert!(compared >= 20, "{compiler}: {compared}");
    }
}

/// Blocks are told by BOLT's numbers, so all depends on finding the same ones: with the same counts as BOLT makes of branches.
#[test]
fn bolt_finds_the_same_blocks_and_counts() {
    let relocated = ["-O2", "-g", "-Wl,--build-id=sha1", "-Wl,--emit-relocs"];
    let fixed = ["-O2", "-fno-pie", "-no-pie", "-Wl,--build-id=sha1", "-Wl,--emit-relocs"];
    let whole = ["-O2", "-fno-reorder-blocks-and-partition", "-Wl,--build-id=sha1", "-Wl,--emit-relocs"];
    for (compiler, flags, source) in [
        // gcc puts what never runs elsewhere, and BOLT has other rules for such functions.
        ("gcc", &whole[..], ("program.c", PROGRAM)),
        ("clang-19", &relocated[..], ("program.c", PROGRAM)),
        ("gcc", &fixed[..], ("tables.c", TABLES)),
        ("clang-19", &fixed[..], ("tables.c", TABLES)),
        ("g++", &whole[..], ("throws.cc", THROWS)),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let program = compile(compiler, flags, source);
        let measured = profile(folder.path(), "program", &program);
        let understood = |format: &str, options: &[&str]| {
            let file = folder.path().join(format);
            stdout(&["export", &measured, "--format", format, "-o", text(&file)]);
            let (said, mut understood) = bolt_with(&program, text(&file), options, folder.path());
            believes(&said);
            understood.retain(|_, count| *count > 0);
            understood
        };
        let told = understood("bolt-yaml", &["-profile-ignore-hash"]);
        assert!(told.len() > 5, "{told:?}");
        assert_eq!(told, understood("bolt-fdata", &[]), "{compiler} {}", source.0);
    }
}

/// BOLT doubts a function if a jump is said to lead where its own table does not.
#[test]
fn jumps_lead_only_where_their_own_table_does() {
    // BOLT cannot write functions with computed gotos anew if they may be anywhere.
    let flags = ["-O2", "-fno-pie", "-no-pie", "-Wl,--build-id=sha1", "-Wl,--emit-relocs"];
    for compiler in ["gcc", "clang-19"] {
        let folder = tempfile::tempdir().expect("a folder");
        let program = compile(compiler, &flags, ("tables.c", TABLES));
        let measured = profile(folder.path(), "tables", &program);
        if compiler == "gcc" {
            assert!(stdout(&["dump", &measured, "--edges"]).contains("hub"), "the test is about nothing");
        }
        let fdata = folder.path().join("tables.fdata");
        stdout(&["export", &measured, "--format", "bolt-fdata", "-o", text(&fdata)]);
        let (said, _) = bolt(&program, text(&fdata), folder.path());
        believes(&said);
    }
}

#[test]
fn exceptions_are_no_branches() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(
        "g++",
        &["-O2", "-fno-reorder-blocks-and-partition", "-Wl,--build-id=sha1", "-Wl,--emit-relocs"],
        ("throws.cc", THROWS),
    );
    let measured = profile(folder.path(), "throws", &program);
    let fdata = folder.path().join("throws.fdata");
    stdout(&["export", &measured, "--format", "bolt-fdata", "-o", text(&fdata)]);
    let (said, _) = bolt(&program, text(&fdata), folder.path());
    believes(&said);
}

/// How good a profile is, by an exact one.
fn judged(profile: &Path, exact: &str) -> Value {
    serde_json::from_str(&stdout(&["evaluate", text(profile), exact, "--json"])).expect("JSON")
}

fn at_least(found: &Value, least: f64) {
    for name in ["bp", "overlap", "edge_overlap"] {
        assert!(found[name].as_f64().expect("a share") >= least, "{name}: {found}");
    }
}

#[test]
fn what_was_exported_can_be_imported() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let whole = ["-O2", "-fno-reorder-blocks-and-partition", "-Wl,--build-id=sha1", "-Wl,--emit-relocs"];
    let (throws, program) = (compile("g++", &whole, ("throws.cc", THROWS)), program("gcc"));
    let unsplit = compile("gcc", &whole, ("program.c", PROGRAM));
    for (name, built) in [("throws", &throws), ("unsplit", &unsplit), ("program", &program)] {
        let exact = profile(folder.path(), name, built);
        // Ways between the pieces of a function have no place in YAML.
        let formats = ["bolt-fdata", "bolt-preaggregated", "bolt-yaml"];
        for format in &formats[..if name == "program" { 2 } else { 3 }] {
            let (file, back) = (path(format), path("back.rprof"));
            stdout(&["export", &exact, "--format", format, "-o", text(&file)]);
            let output = relive(&["import", "-q", text(&file), "--binary", text(built), "-o", text(&back)]);
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
            at_least(&judged(&back, &exact), 0.999);
        }
    }
    let exact = profile(folder.path(), "program", &program);
    // BOLT's own YAML of it.
    bolt(&program, text(&path("bolt-fdata")), folder.path());
    let (yaml, back) = (path("understood.yaml"), path("back.rprof"));
    stdout(&["import", text(&yaml), "--binary", text(&program), "-o", text(&back)]);
    at_least(&judged(&back, &exact), 0.999);
    let blocks = stdout(&["dump", text(&back), "--blocks"]);
    assert!(blocks.contains("\tinferred\t") && !blocks.contains("\tmeasured\t"), "{blocks}");
}

/// Of a file of edges alone, what blocks did is as sure as what their edges did: sure enough to be carried to the next build.
#[test]
fn what_was_imported_is_carried_over_as_what_was_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (old, new) = (version(1), version(2));
    let (measured, exact) = (profile(folder.path(), "old", &old), profile(folder.path(), "new", &new));
    let carried = |from: &str| {
        stdout(&["migrate", from, "--to", text(&new), "-o", text(&path("carried.rprof"))]);
        judged(&path("carried.rprof"), &exact)
    };
    let best = carried(&measured);
    for format in ["bolt-fdata", "bolt-preaggregated", "bolt-yaml"] {
        let (file, back) = (path(format), path("back.rprof"));
        stdout(&["export", &measured, "--format", format, "-o", text(&file)]);
        stdout(&["import", text(&file), "--binary", text(&old), "-o", text(&back)]);
        let found = carried(text(&back));
        for name in ["bp", "overlap", "edge_overlap"] {
            let [found, best] = [&found, &best].map(|of| of[name].as_f64().expect("a share"));
            assert!(found > best - 0.01, "{format}: {name} {found}, measured {best}");
        }
    }
}

/// BOLT takes everything for hot that ran at all. Of what was carried over, what is as good as never is left out unless somebody wants it.
#[test]
fn what_is_rare_is_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let program = program("gcc");
    stdout(&["instrument", text(&program), "-o", text(&path("counted"))]);
    let mut run = Command::new(path("counted"));
    let ran = run.arg("3000000").env("RELIVE_PROFILE", path("run.rprof")).status().expect("it starts");
    assert!(ran.success());
    stdout(&[
        "migrate",
        text(&path("run.rprof")),
        "--to",
        text(&program),
        "-o",
        text(&path("carried.rprof")),
    ]);
    let told = |profile: &str, format: &str, options: &[&str]| -> Vec<u64> {
        let (from, to) = (path(profile), path("told"));
        let args = ["export", text(&from), "--format", format, "-o", text(&to)];
        stdout(&[&args[..], options].concat());
        let told = std::fs::read_to_string(&to).expect("text");
        match format {
            "bolt-fdata" => told.lines().map(last_number).collect(),
            "bolt-preaggregated" => told
                .lines()
                .map(|line| line.split(' ').nth(3).and_then(|n| n.parse().ok()).expect("a count"))
                .collect(),
            _ => understood(&told).into_values().collect(),
        }
    };
    let all = told("run.rprof", "bolt-fdata", &[]);
    let sum: u64 = all.iter().sum();
    assert!(sum > 20_000_000 && all.contains(&1), "{sum}");
    for format in ["bolt-fdata", "bolt-preaggregated", "bolt-yaml"] {
        let least = |profile: &str, options: &[&str]| {
            *told(profile, format, options).iter().filter(|count| **count > 0).min().expect("some")
        };
        assert_eq!(least("run.rprof", &[]), 1, "{format}");
        assert_eq!(least("carried.rprof", &["--least", "0"]), 1, "{format}");
        assert!(least("carried.rprof", &[]) >= sum / 10_000_000, "{format}");
        assert!(least("run.rprof", &["--least", "0.001"]) >= sum / 1000, "{format}");
    }
    for (format, least, why) in [
        ("lcov", "0.1", "leave out --least"),
        ("bolt-fdata", "1", "is not a share"),
        ("bolt-fdata", "-0.1", "is not a share"),
        ("bolt-fdata", "many", "is not a share"),
    ] {
        let out = path("refused");
        let output = relive(&[
            "export",
            text(&path("run.rprof")),
            "--format",
            format,
            &format!("--least={least}"),
            "-o",
            text(&out),
        ]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(why) && !out.exists(), "{said}");
    }
}

fn last_number(line: &str) -> u64 {
    line.rsplit(' ').next().and_then(|count| count.parse().ok()).expect("a count")
}

/// perf2bolt finds out names and offsets by itself, and comes to the same.
#[test]
fn perf2bolt_makes_the_same_of_addresses() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| text(&folder.path().join(name)).to_string();
    let program = program("gcc");
    let exact = profile(folder.path(), "program", &program);
    stdout(&["export", &exact, "--format", "bolt-fdata", "-o", &path("own")]);
    stdout(&["export", &exact, "--format", "bolt-preaggregated", "-o", &path("added")]);
    let output = Command::new(format!("{BIN}/perf2bolt"))
        .arg(&*program)
        .args(["-pa", "-p", &path("added"), "-o", &path("theirs")])
        .output()
        .expect("perf2bolt is installed");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("mismatching disassembled function contents: 0"),
        "{said}"
    );
    let lines = |name: &str| -> Vec<String> {
        let mut lines: Vec<String> =
            std::fs::read_to_string(path(name)).expect("written").lines().map(str::to_owned).collect();
        // Calls of other files are not in the addresses.
        lines.retain(|line| !line.contains("0 [unknown] 0 0 "));
        lines.sort();
        lines
    };
    assert_eq!(lines("own"), lines("theirs"));
}

/// Whether an instruction branches: the length of one that may also go on, 0 of one that does not. Only what compilers use, on its
/// own reading.
fn branch(code: &[u8; 16]) -> Option<u64> {
    let prefixes = code.iter().take_while(|byte| matches!(byte, 0xf2 | 0xf3 | 0x3e | 0x40..=0x4f)).count();
    match code[prefixes..] {
        [0x70..=0x7f | 0xe0..=0xe3, ..] => Some(prefixes as u64 + 2),
        [0x0f, 0x80..=0x8f, ..] => Some(prefixes as u64 + 6),
        [0xe8 | 0xe9 | 0xeb | 0xc2 | 0xc3, ..] => Some(0),
        [0xff, modrm, ..] if matches!(modrm >> 3 & 7, 2 | 4) => Some(0),
        _ => None,
    }
}

/// What perf would print of a processor with branch stacks: the program runs step by step, and now and then the last 32 branches are
/// written down.
fn stacks(program: &Path, args: &[&str]) -> String {
    let mut watched = Watcher::default().start(program, args);
    watched.run_to_entry();
    let pid = watched.id();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("mappings");
    let mut out = String::new();
    for line in maps.lines() {
        let cells: Vec<&str> = line.split_ascii_whitespace().collect();
        let [range, access, offset, device, inode, path] = cells[..] else { continue };
        let (start, end) = range.split_once('-').expect("a range");
        let hex = |text: &str| u64::from_str_radix(text, 16).expect("a number");
        if access.contains('x') {
            let (start, len, offset) = (hex(start), hex(end) - hex(start), hex(offset));
            // `perf script --show-mmap-events`
            writeln!(out, "program {pid} 1.5: PERF_RECORD_MMAP2 {pid}/{pid}: [{start:#x}({len:#x}) @ {offset:#x} {device} {inode} 0]: {access} {path}")
                .expect("written");
        }
    }
    let (mut stack, mut branches) = (VecDeque::new(), 0u64);
    let mut before = watched.state();
    'run: loop {
        for state in watched.steps(4096) {
            if matches!(state.stop, Stop::Ended(_)) {
                break 'run;
            }
            let (from, to) = (before.rip(), state.rip());
            if branch(&before.code).is_some_and(|len| to != from + len) {
                stack.push_front((from, to));
                stack.truncate(32);
                branches += 1;
                // Not in step with any loop.
                if branches % 37 == 0 {
                    write!(out, "{pid:>8} {to:>16x} ").expect("written");
                    for (from, to) in &stack {
                        write!(out, " {from:#x}/{to:#x}/P/-/-/0").expect("written");
                    }
                    out.push('\n');
                }
            }
            before = state;
        }
    }
    out
}

#[test]
fn branch_stacks_are_in_proportion_to_exact_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    let program = program("gcc");
    let exact = profile(folder.path(), "program", &program);
    std::fs::write(path("program.perf"), stacks(&program, &[])).expect("written");
    let import = |binary: &Path, to: &str| {
        stdout(&["import", text(&path("program.perf")), "--binary", text(binary), "-o", text(&path(to))])
    };
    import(&program, "sampled.rprof");
    at_least(&judged(&path("sampled.rprof"), &exact), 0.97);
    // It goes on to the next build, and to BOLT.
    stdout(&[
        "migrate",
        text(&path("sampled.rprof")),
        "--to",
        text(&program),
        "-o",
        text(&path("next.rprof")),
    ]);
    stdout(&["export", text(&path("next.rprof")), "--format", "bolt-fdata", "-o", text(&path("next.fdata"))]);
    let (said, _) = bolt(&program, text(&path("next.fdata")), folder.path());
    believes(&said);
}

#[test]
fn bad_files_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = program("gcc");
    let out = folder.path().join("out.rprof");
    let refuse = |content: &str, format: &[&str], expected: &str| {
        let file = folder.path().join("in");
        std::fs::write(&file, content).expect("written");
        let args = [&["import", text(&file), "--binary", text(&program), "-o", text(&out)], format].concat();
        let output = relive(&args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected) && said.contains(text(&file)), "{said}");
        assert!(!out.exists());
    };
    refuse("", &[], "is empty");
    refuse("hello\n", &[], "of no format");
    refuse("PERFILE2....", &[], "perf script -F pid,ip,brstack");
    refuse("1 main 0 1 main x 0 5\n", &["--format", "bolt-fdata"], "line 1: an offset");
    refuse("1 main 0 1 main 0 0 5\nB 1 2\n", &[], "line 2");
    refuse("no_lbr cycles\n1 main 0 5\n", &[], "line 1: samples without branch stacks");
    refuse("0 [unknown] 0 1 elsewhere 0 0 5\n", &[], "says nothing of");
    refuse("1 main 1 1 main 3 0 5\n", &[], "is it the build that ran?");
    refuse("B 10 20 5 0\n", &[], "is it the build that ran?");
    refuse("B 10 zz 5 0\n", &["--format", "bolt-preaggregated"], "line 1: an address");
    refuse("app 12 1.5: cycles: 401000 main\n", &["--format", "perf-script"], "no branch stacks");
    refuse("12 0x10/0xqq/P\n", &["--format", "perf-script"], "line 1");
    refuse("---\nheader:\n  profile-version: 2\n", &[], "line 3: a version");
}
