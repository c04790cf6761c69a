//! `relive evaluate` on profiles of a real program, and on files it cannot compare.

mod support;

use insta::assert_snapshot;
use relive_profile::flow;
use relive_profile::model::{Confidence, Count, Module, Origin};
use relive_testkit::compile::compile;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use support::{relive, stdout, text, thing, write};

/// Which way the branch goes, how often the loop goes round and what is called depends on the argument.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) static unsigned twice(unsigned x) { return x * 2; }
__attribute__((noinline)) static unsigned thrice(unsigned x) { return x * 3; }
__attribute__((noinline)) static unsigned never(unsigned x) { return x % 10 ? x : 7; }
int main(int argc, char **argv) {
    unsigned x = 1, limit = (unsigned)atoi(argv[1]);
    unsigned (*volatile calls[2])(unsigned) = {twice, thrice};
    for (int i = 0; i < 1000; i++) {
        x = calls[(unsigned)i % 10 >= limit](x);
        if ((unsigned)i % 10 < limit) x = x % 1001 ^ x >> 3;
        for (unsigned j = 0; j < limit; j++) x += x >> 5;
    }
    if (limit == 9) x = never(x);
    printf("%u\n", x);
    return 0;
}
"#;

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(&[&["evaluate"], args, &["--json"]].concat())).expect("JSON")
}

fn figure(json: &Value, name: &str) -> f64 {
    json[name].as_f64().unwrap_or_else(|| panic!("{name} in {json}"))
}

/// Builds the program, has it counted, and runs it once with each argument.
fn profiles(folder: &Path, source: &str, arguments: &[&str]) -> Vec<String> {
    let program = compile("gcc", &["-O1", "-fno-inline", "-Wl,--build-id=sha1"], ("program.c", source));
    let counted = folder.join("counted");
    stdout(&["instrument", text(&program), "-o", text(&counted)]);
    let run = |argument: &&str| {
        let profile = folder.join(format!("{argument}.rprof"));
        let output = Command::new(&counted)
            .arg(argument)
            .env("RELIVE_PROFILE", &profile)
            .output()
            .expect("the program starts");
        assert!(output.status.success());
        text(&profile).to_string()
    };
    arguments.iter().map(run).collect()
}

const FIGURES: [&str; 9] = [
    "bp",
    "cc",
    "overlap",
    "edge_overlap",
    "instruction_overlap",
    "matched_counts",
    "matched_or_control_flow_counts",
    "target_overlap",
    "loop_trips",
];

#[test]
fn a_real_program() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let profiles = profiles(folder.path(), PROGRAM, &["2", "9"]);
    for profile in &profiles {
        let itself = json(&[profile, profile]);
        for name in FIGURES {
            assert_eq!(figure(&itself, name), 1.0, "{name}");
        }
        assert_eq!(itself["branches"]["right_carried"], itself["branches"]["right_fresh"]);
        assert_eq!(itself["worst"], serde_json::json!({ "bp": [], "cc": [], "overlap": [] }));
    }
    let (few, many) = (&profiles[0], &profiles[1]);
    let found = json(&[few, many]);
    // Everything was counted, so everything has a partner; but the branch went the other way, another function was
    // called, and the inner loop went round 9 times instead of 2.
    assert_eq!(figure(&found, "matched_counts"), 1.0);
    for name in ["bp", "cc", "overlap", "edge_overlap", "instruction_overlap", "target_overlap", "loop_trips"]
    {
        let value = figure(&found, name);
        assert!(value > 0.0 && value < 1.0, "{name}: {value}");
    }
    // 900 and 100 calls of the two instead of 200 and 800.
    assert_eq!(found["targets"]["calls"], 1000);
    assert!((figure(&found, "target_overlap") - 0.3).abs() < 1e-9);
    let rates = ["rate_carried", "rate_fresh"].map(|rate| figure(&found["branches"], rate));
    assert!((rates[0] / rates[1] - figure(&found, "bp")).abs() < 1e-9);
    assert!(found["blocks"]["only_fresh"].as_u64() > Some(0));
    assert_eq!(found["without_partner"], serde_json::json!({ "carried": 0, "fresh": 0 }));
    let worst = |figure: &str| found["worst"][figure][0]["function"].as_str().unwrap_or_default().to_string();
    assert_eq!((worst("bp"), worst("overlap")), ("main".into(), "main".into()));
    let lost: f64 = json(&[few, many, "--worst", "1000"])["worst"]["overlap"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| row["lost"].as_f64().expect("a share"))
        .sum();
    assert!((1.0 - lost - figure(&found, "overlap")).abs() < 1e-9);
    assert_eq!(json(&[few, many, "--worst", "1"])["worst"]["cc"].as_array().map(Vec::len), Some(1));
    let printed = stdout(&["evaluate", few, many]);
    for words in ["B.P.", "C.C.", "call targets", "loop trips", "cost B.P. the most", "main at 0x"] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
    assert!(!stdout(&["evaluate", few, many, "--worst", "0"]).contains("the most"));
}

/// As if it had been carried over: no counters, and what `change` makes of each count.
fn carried(change: impl Fn(Count) -> Option<Count>) -> Module {
    let mut module = thing();
    flow::recover(&mut module).expect("determined");
    module.layout.counters = 0;
    module.counters = Vec::new();
    for function in &mut module.functions {
        for block in &mut function.blocks {
            (block.counter, block.count) = (None, block.count.and_then(&change));
        }
        for edge in &mut function.edges {
            (edge.counter, edge.count) = (None, edge.count.and_then(&change));
        }
    }
    module
}

#[test]
fn what_it_prints() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fresh = write(folder.path(), "fresh.rprof", &thing());
    // Small counts are gone, others are twice as large, and one is inferred.
    let old = carried(|count| {
        let origin = if count.raw == 999 { Origin::Inferred } else { Origin::ControlFlow };
        (count.raw > 10).then_some(Count { raw: count.raw * 2, origin, confidence: Confidence::new(50) })
    });
    let old = write(folder.path(), "old.rprof", &old);
    let folder_name = format!("{}/", text(folder.path()));
    assert_snapshot!("text", stdout(&["evaluate", &old, &fresh]).replace(&folder_name, ""));
    assert_snapshot!("json", stdout(&["evaluate", &old, &fresh, "--json"]));
    assert_snapshot!("help", stdout(&["evaluate", "--help"]));
}

#[test]
fn what_it_refuses() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let good = write(folder.path(), "good.rprof", &thing());
    let other = Module { build_id: vec![0xcd; 20], path: "/opt/other".into(), ..thing() };
    let other = write(folder.path(), "other.rprof", &other);
    let idle = write(folder.path(), "idle.rprof", &Module { counters: Vec::new(), ..thing() });
    let bad = folder.path().join("bad.rprof");
    std::fs::write(&bad, "nothing of the kind").expect("a writable folder");
    let refused = |args: [&str; 2], words: &[&str]| {
        let output = relive(&["evaluate", args[0], args[1]]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert_eq!(output.stdout, b"");
        assert!(message.trim_end().ends_with(')') && message.lines().count() == 1, "{message}");
        for word in words {
            assert!(message.contains(word), "{word}: {message}");
        }
    };
    refused([text(&bad), &good], &["bad.rprof: not a profile"]);
    refused([&good, text(&bad)], &["bad.rprof: not a profile"]);
    let both = ["good.rprof", "/opt/thing", "abab", "other.rprof", "/opt/other", "cdcd", "same build"];
    refused([&good, &other], &both);
    refused([&other, &good], &both);
    refused([&idle, &good], &["idle.rprof: no block of it has a count"]);
    refused([&good, &idle], &["idle.rprof: no block of it has a count"]);
    refused([&good, "nowhere.rprof"], &["nowhere.rprof", "no such file"]);
}
