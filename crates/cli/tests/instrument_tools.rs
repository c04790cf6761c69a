//! What surrounds `relive instrument`: checking its result, placing counters by a profile, keeping names, and
//! finding the function to blame.

use relive_testkit::compile::{Compiled, compile};
use std::path::Path;
use std::process::{Command, Output};

fn relive(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_relive")).args(args).output().expect("relive runs")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary path is text")
}

/// Runs relive, which must end with `status`; what it printed on standard output and on standard error.
fn ends_with(status: i32, args: &[&str]) -> (String, String) {
    let output = relive(args);
    let stdout = String::from_utf8(output.stdout).expect("text");
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(status), "relive {args:?}: {stdout}{stderr}");
    (stdout, stderr)
}

const LOOPS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) static unsigned step(unsigned x, int rarely) {
    for (int i = 0; i < 3; i++) {
        if (rarely) { x ^= x >> 3; if (x & 1) x += 5; else x -= 7; }
        else if (x % 7 == 0) x = x / 7 + 3;
        else x = x * 5 + 1;
    }
    return x;
}
int main(int argc, char **argv) {
    unsigned x = 1;
    for (int i = 0; i < atoi(argv[1]); i++) x = step(x, i % 1000 == 0);
    printf("%u\n", x);
    return 0;
}
"#;

fn loops() -> Compiled {
    compile("gcc", &["-O1", "-Wl,--build-id=sha1"], ("loops.c", LOOPS))
}

/// Runs a measured program.
fn run(program: &Path, profile: &Path, arg: &str) -> String {
    let output = Command::new(program).arg(arg).env("RELIVE_PROFILE", profile).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// How often counters were incremented.
fn increments(profile: &Path) -> u64 {
    let bytes = std::fs::read(profile).expect("a profile");
    let profile = relive_profile::file::read(&bytes).expect("a sound profile");
    profile.modules[0].counters.iter().sum()
}

#[test]
fn the_result_can_be_checked() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let out = folder.path().join("ls");
    let (_, stderr) = ends_with(0, &["instrument", "/bin/ls", "-o", text(&out), "--verify"]);
    assert!(stderr.contains("verified: "), "{stderr}");
}

#[test]
fn an_earlier_profile_makes_counting_cheaper() {
    let program = loops();
    let folder = tempfile::tempdir().expect("temporary folder");
    let at = |name: &str| folder.path().join(name);
    let (first, second) = (at("first"), at("second"));
    ends_with(0, &["instrument", text(&program), "-o", text(&first)]);
    let (before, after) = (at("before.rprof"), at("after.rprof"));
    let printed = run(&first, &before, "20000");
    let args = ["instrument", text(&program), "-o", text(&second), "--verify", "--weights", text(&before)];
    ends_with(0, &args);
    assert_eq!(run(&second, &after, "20000"), printed);
    for table in ["--blocks", "--edges", "--calls"] {
        // Which of the counts are measured and which follow from those is up to the placement.
        let counts = |profile: &Path| {
            let table = ends_with(0, &["dump", text(profile), table]).0;
            let counts = |line: &str| line.split('\t').take(5).collect::<Vec<_>>().join("\t");
            table.lines().map(counts).collect::<Vec<_>>()
        };
        assert_eq!(counts(&before), counts(&after), "{table}");
    }
    let (before, after) = (increments(&before), increments(&after));
    assert!(after < before, "{before} became {after}");
}

#[test]
fn a_profile_of_another_build_is_refused() {
    let (program, other) = (loops(), compile("gcc", &["-O2", "-Wl,--build-id=sha1"], ("loops.c", LOOPS)));
    let folder = tempfile::tempdir().expect("temporary folder");
    let (out, profile) = (folder.path().join("out"), folder.path().join("p.rprof"));
    ends_with(0, &["instrument", text(&other), "-o", text(&out)]);
    run(&out, &profile, "10");
    let args = ["instrument", text(&program), "-o", text(&out), "--weights", text(&profile)];
    let (_, stderr) = ends_with(2, &args);
    assert!(stderr.contains("counted in another build"), "{stderr}");
}

const FINDS_ITS_FILES: &str = r#"
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    char path[PATH_MAX + 32], line[64];
    ssize_t len = readlink("/proc/self/exe", path, PATH_MAX);
    if (len < 0) return 1;
    path[len] = 0;
    strcpy(strrchr(path, '/') + 1, "greeting.txt");
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, sizeof line, file)) return 2;
    fputs(line, stdout);
    return 0;
}
"#;

#[test]
fn a_program_that_keeps_its_name_finds_its_files() {
    let program = compile("gcc", &["-O2"], ("finds.c", FINDS_ITS_FILES));
    let home = program.parent().expect("in a folder");
    std::fs::write(home.join("greeting.txt"), "hello\n").expect("writable");
    let folder = tempfile::tempdir().expect("temporary folder");
    let target = folder.path().join("deep/bin");
    for _ in 0..2 {
        ends_with(0, &["instrument", text(&program), "-o", text(&target), "--keep-name"]);
        let output = Command::new(target.join("output")).current_dir(&folder).output().expect("it runs");
        assert_eq!(output.stdout, b"hello\n", "{output:?}");
    }
    assert!(folder.path().join("output.rprof").exists(), "the profile is where it always is");
    assert!(target.join("greeting.txt").symlink_metadata().expect("a link").is_symlink());
    let (_, stderr) = ends_with(2, &["instrument", text(&program), "-o", text(home), "--keep-name"]);
    assert!(stderr.contains("would overwrite"), "{stderr}");
    let file = target.join("output");
    let (_, stderr) = ends_with(2, &["instrument", text(&program), "-o", text(&file), "--keep-name"]);
    assert!(stderr.contains("must be a folder"), "{stderr}");
}

#[test]
fn the_help_of_bisect_shows_examples() {
    insta::assert_snapshot!("help_bisect", ends_with(0, &["bisect", "--help"]).0);
}

#[test]
fn no_difference_is_said() {
    let (stdout, _) = ends_with(0, &["bisect", "/bin/ls", "--stderr", "--repeat", "2", "--", "{}", "--help"]);
    assert!(stdout.starts_with("no difference: all "), "{stdout}");
}

/// A program that looks at its own code sees that it was rewritten.
const LOOKS_AT_ITSELF: &str = r#"
#include <stdio.h>
#define APART __attribute__((noinline, noclone, noipa))
APART int innocent(int x) { return x * 3 + 1; }
APART int looked_at(int x) { return x % 17 ? x / 3 : x + 12345; }
APART int bystander(int x) { return x ^ 0x1234567; }
int main(int argc, char **argv) {
    unsigned sum = 0;
    const volatile unsigned char *code = (const volatile unsigned char *)looked_at;
    for (int i = 0; i < 12; i++) sum = sum * 31 + code[i];
    printf("%d %u\n", innocent(argc) + looked_at(argc) + bystander(argc), sum);
    return 0;
}
"#;

#[test]
fn the_culprit_is_found() {
    let program = compile("gcc", &["-O2"], ("looks.c", LOOKS_AT_ITSELF));
    let (stdout, stderr) = ends_with(1, &["bisect", text(&program), "--", "sh", "-c", "{} 1 2 3"]);
    assert!(stdout.starts_with("one function is enough: standard output differs"), "{stdout}{stderr}");
    assert!(stdout.contains(" looked_at ("), "{stdout}");
    assert!(stdout.contains(&format!("relive inspect {} --function 0x", text(&program))), "{stdout}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let (_, stderr) = ends_with(2, &["bisect", "/bin/ls", "--", "ls"]);
    assert!(stderr.contains("write {} in its place"), "{stderr}");
    let (_, stderr) = ends_with(2, &["bisect", "/bin/ls", "--", "sh", "-c", "{} / >&2; date +%N"]);
    assert!(stderr.contains("does not do the same twice"), "{stderr}");
    let args = ["bisect", "/bin/ls", "--timeout", "0.3", "--", "sh", "-c", "{} /; sleep 9"];
    let (_, stderr) = ends_with(2, &args);
    assert!(stderr.contains("longer than --timeout"), "{stderr}");
    let (_, stderr) = ends_with(2, &["bisect", "/bin/ls", "--", "/no/such/command", "{}"]);
    assert!(stderr.contains("cannot run /no/such/command"), "{stderr}");
}
