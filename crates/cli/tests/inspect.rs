//! `relive inspect` as a user runs it, on a program compiled here and on programs of the system.

use relive_testkit::compile::compile;
use std::path::Path;
use std::process::{Command, Output};

const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) int classify(int x) {
    switch (x) {
    case 0: return puts("none");
    case 1: return puts("one");
    case 2: return puts("two");
    case 3: return puts("three");
    case 4: return puts("four");
    case 5: return puts("five");
    default: return x;
    }
}

__attribute__((noinline, noclone)) static int sum(const int *numbers, int count) {
    int total = 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < numbers[i]; j++)
            total += classify(j);
    return total;
}

int main(int argc, char **argv) {
    int numbers[] = {1, 2, argc};
    if (argc > 9)
        exit(3);
    return sum(numbers, 3);
}
"#;

fn relive(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_relive")).args(args).output().expect("relive runs")
}

fn stdout(args: &[&str]) -> String {
    let output = relive(args);
    assert!(output.status.success(), "relive {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary path is text")
}

#[test]
fn the_help_shows_examples() {
    insta::assert_snapshot!("help", stdout(&["inspect", "--help"]));
}

#[test]
fn tables_json_and_summary_agree() {
    let program = compile("gcc", &["-O2", "-g"], ("numbers.c", SOURCE));
    let functions = stdout(&["inspect", text(&program), "--functions"]);
    let rows: Vec<Vec<&str>> = functions.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows[0], ["name", "address", "size", "status"]);
    assert!(rows[1..].iter().any(|row| row[0] == "classify" && row[3] == "understood"), "{functions}");

    let json: serde_json::Value =
        serde_json::from_str(&stdout(&["inspect", text(&program), "--json"])).expect("valid JSON");
    assert_eq!(json["schema"], "relive-inspect/1");
    assert_eq!(json["functions"]["total"].as_u64(), Some(rows.len() as u64 - 1));
    assert_eq!(json["functions"]["understood"], json["functions"]["total"]);
    assert_eq!(json["text_bytes"]["understood"], json["text_bytes"]["total"]);
    assert_eq!(json["jump_tables"]["total"], 1);
    assert_eq!(json["file"]["language"], "C");

    let blocks = stdout(&["inspect", text(&program), "--blocks"]);
    assert_eq!(blocks.lines().next(), Some("function\taddress\tsize\tsuccessors"));
    assert_eq!(json["blocks"]["total"].as_u64(), Some(blocks.lines().count() as u64 - 1));
    // Two loops in `sum`, one inside the other.
    assert_eq!(json["loops"]["deepest"], 2);

    let summary = stdout(&["inspect", text(&program)]);
    assert!(summary.contains("with symbols") && summary.contains("100 % understood"), "{summary}");
}

#[test]
fn a_function_is_found_by_name_and_by_address() {
    let program = compile("gcc", &["-O2", "-g"], ("numbers.c", SOURCE));
    let by_name = stdout(&["inspect", text(&program), "--function", "classify"]);
    let address = by_name.split(" at ").nth(1).and_then(|rest| rest.split(',').next()).expect("an address");
    assert_eq!(stdout(&["inspect", text(&program), "--function", address]), by_name);
    assert!(by_name.contains("numbers.c:6"), "source lines are shown: {by_name}");
    assert!(by_name.contains(" case"), "{by_name}");
    let live = stdout(&["inspect", text(&program), "--function", "classify", "--liveness"]);
    assert!(live.contains("live: "), "{live}");
}

#[test]
fn an_unknown_function_is_an_error_that_helps() {
    let program = compile("gcc", &["-O2"], ("numbers.c", SOURCE));
    let output = relive(&["inspect", text(&program), "--function", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("nowhere") && message.contains("--functions"), "{message}");
    // What is wrong is not the file that is to be written, and nothing of it stays.
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("nowhere.svg");
    let output = relive(&["inspect", text(&program), "--function", "nowhere", "--svg", "-o", text(&file)]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("no function") && !message.contains("cannot write"), "{message}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn graphs_are_drawn() {
    let program = compile("gcc", &["-O2", "-g"], ("numbers.c", SOURCE));
    let dot = stdout(&["inspect", text(&program), "--function", "sum", "--dot"]);
    assert!(dot.starts_with("digraph"), "{dot}");
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("sum.svg");
    stdout(&["inspect", text(&program), "--function", "sum", "--svg", "-o", text(&file)]);
    let svg = std::fs::read_to_string(&file).expect("written");
    assert!(svg.starts_with("<svg") || svg.starts_with("<?xml"), "{}", &svg[..svg.len().min(80)]);
    let calls = stdout(&["inspect", text(&program), "--callgraph"]);
    assert!(calls.lines().any(|l| l.starts_with("sum\t") && l.contains("\tclassify\t")), "{calls}");
    let picture = stdout(&["inspect", text(&program), "--callgraph", "--function", "sum", "--svg"]);
    assert!(picture.contains("classify"), "{picture}");
}

#[test]
fn stripping_loses_names_and_nothing_else() {
    let program = compile("gcc", &["-O2"], ("numbers.c", SOURCE));
    let folder = tempfile::tempdir().expect("temporary folder");
    let stripped = folder.path().join("stripped");
    let strip = Command::new("strip")
        .args(["-s", "-o", text(&stripped), text(&program)])
        .status()
        .expect("strip runs");
    assert!(strip.success());
    let starts = |file: &Path| -> Vec<String> {
        let blocks = stdout(&["inspect", text(file), "--blocks"]);
        blocks.lines().skip(1).map(|l| l.split_once('\t').expect("columns").1.to_string()).collect()
    };
    assert_eq!(starts(&stripped), starts(&program));
}

#[test]
fn the_same_file_gives_the_same_answer() {
    let first = stdout(&["inspect", "/bin/bash", "--blocks"]);
    assert!(first == stdout(&["inspect", "/bin/bash", "--blocks"]), "two runs differ");
}

#[test]
fn independent_checkers_agree() {
    stdout(&["inspect", "/bin/ls", "--verify"]);
}
