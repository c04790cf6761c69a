//! Programs to compile, and the tools that say what is in them.

use relive_code::addr::LinkAddr;
use relive_image::loader::{Loaded, Options};
use relive_image::names::demangle;
use relive_testkit::compile::stdout;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Deep inlining through headers, constructors, lambdas, templates and cold paths.
pub(crate) const CPP: (&str, &str) = ("shapes.cpp", include_str!("shapes.cpp"));

/// Several levels of inlining in one file, and little else.
pub(crate) const C: (&str, &str) = (
    "levels.c",
    r#"
#include <stdio.h>
#include <stdlib.h>
static inline int innermost(int x) { return x * 7 ^ x >> 3; }
static inline int middle(int x) {
    return innermost(x)
        + innermost(x + 1);
}
static inline int outer(int x) {
    for (int i = 0; i < 3; ++i)
        x += middle(x ^ i);
    return x;
}
__attribute__((noinline)) int work(int x) {
    return outer(x) + outer(x * 3) % 11;
}
int main(int argc, char **argv) {
    int sum = argc > 5 ? atoi(argv[5]) : 0;
    for (int i = 0; i < argc * 10; ++i) {
        sum += work(i);
        if (sum == 12345) abort();
    }
    printf("%d\n", sum);
    return 0;
}
"#,
);

/// Opens a file with what is near it; the system's debug files are of no interest here.
pub(crate) fn open(path: &Path) -> Loaded {
    Loaded::open(path, &Options::default()).expect("a file")
}

/// Runs a tool for what it does.
pub(crate) fn run(program: &str, args: &[&OsStr]) {
    let _ = stdout(program, args);
}

/// The address of every instruction, from `objdump`.
pub(crate) fn instructions(file: &Path) -> Vec<LinkAddr> {
    let listing = stdout("objdump", &["-d".as_ref(), "--no-show-raw-insn".as_ref(), file.as_ref()]);
    let address = |line: &str| u64::from_str_radix(line.split_once(":\t")?.0.trim(), 16).ok();
    listing.lines().filter_map(address).map(LinkAddr).collect()
}

/// A copy without symbols: the tools prefer their names to those of the debug information.
fn without_symbols(file: &Path) -> PathBuf {
    let copy = file.with_extension("nosymbols");
    let args = ["--strip-all", "--keep-section=.debug_*", "--keep-section=.zdebug_*"].map(AsRef::as_ref);
    run("objcopy", &[&args[..], &[file.as_ref(), copy.as_ref()]].concat());
    copy
}

/// A function and a place in the source as a tool prints it.
pub(crate) type Line = (String, String);

/// What `llvm-symbolizer` says: for each address its functions, the innermost first.
pub(crate) fn symbolizer(file: &Path, addresses: &[LinkAddr]) -> Vec<Vec<Line>> {
    let mut command = Command::new("llvm-symbolizer-19");
    command.arg("--obj").arg(without_symbols(file)).args([
        "--inlines",
        "--functions=linkage",
        "--no-demangle",
    ]);
    let printed = print_for(command, addresses);
    let groups = printed.trim_end_matches('\n').split("\n\n");
    let found: Vec<Vec<Line>> = groups.map(pairs).collect();
    assert_eq!(found.len(), addresses.len(), "one answer for each question");
    found
}

/// A function as compilers want to be told of it: its name, the line it is declared in, a line, and its discriminator.
pub(crate) type Told = (String, u32, u32, u32);

/// What `llvm-symbolizer` says of that: for each address its functions, the innermost first.
pub(crate) fn symbolizer_in_detail(file: &Path, addresses: &[LinkAddr]) -> Vec<Vec<Told>> {
    let mut command = Command::new("llvm-symbolizer-19");
    command.arg("--obj").arg(without_symbols(file)).args([
        "--inlines",
        "--functions=linkage",
        "--no-demangle",
        "--verbose",
    ]);
    let printed = print_for(command, addresses);
    let mut found = Vec::new();
    for group in printed.trim_end_matches('\n').split("\n\n") {
        let mut levels: Vec<Told> = Vec::new();
        for line in group.lines() {
            let number = |text: &str| text.trim().parse().expect("a number");
            match (line.split_once(':'), levels.last_mut()) {
                (Some(("  Function start line", value)), Some(level)) => level.1 = number(value),
                (Some(("  Line", value)), Some(level)) => level.2 = number(value),
                (Some(("  Discriminator", value)), Some(level)) => level.3 = number(value),
                _ if !line.starts_with(' ') => levels.push((line.to_string(), 0, 0, 0)),
                _ => {}
            }
        }
        found.push(levels);
    }
    assert_eq!(found.len(), addresses.len(), "one answer for each question");
    found
}

/// What GNU `addr2line` says: the same without columns.
pub(crate) fn addr2line(file: &Path, addresses: &[LinkAddr]) -> Vec<Vec<Line>> {
    let mut command = Command::new("addr2line");
    command.arg("-e").arg(without_symbols(file)).args(["-i", "-f", "-a"]);
    let printed = print_for(command, addresses);
    // An address on a line of its own goes before each answer.
    let mut found: Vec<Vec<&str>> = Vec::new();
    for line in printed.lines() {
        match found.last_mut() {
            Some(last) if !line.starts_with("0x") => last.push(line),
            _ => found.push(Vec::new()),
        }
    }
    assert_eq!(found.len(), addresses.len(), "one answer for each question");
    found.into_iter().map(|lines| pairs(&lines.join("\n"))).collect()
}

fn print_for(mut command: Command, addresses: &[LinkAddr]) -> String {
    command.args(addresses.iter().map(ToString::to_string));
    let output = command.output().expect("the tool");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Names are demangled as in the library: whether that is done well is another question.
fn pairs(text: &str) -> Vec<Line> {
    let lines: Vec<&str> = text.lines().collect();
    let name = |name| if name == "??" { "?".to_string() } else { demangle(name).into_owned() };
    lines.chunks(2).map(|pair| (name(pair[0]), pair[1].to_string())).collect()
}

/// The address of a symbol, from `nm`.
pub(crate) fn symbol(file: &Path, name: &str) -> LinkAddr {
    let listing = stdout("nm", &["--defined-only".as_ref(), file.as_ref()]);
    let line = listing.lines().find(|line| line.split(' ').nth(2) == Some(name)).expect("the symbol");
    let address = line.split(' ').next().and_then(|address| u64::from_str_radix(address, 16).ok());
    LinkAddr(address.expect("its address"))
}
