//! `relive match` on versions of a program, with and without symbols, and on what it cannot compare.

mod support;

use relive_testkit::compile;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use support::versions::{profile, strange_programs, strangers, stripped, version};
use support::{relive, stdout, text, thing, write};

fn json(old: &str, new: &str) -> Value {
    serde_json::from_str(&stdout(&["match", old, new, "--json"])).expect("JSON")
}

/// Old and new address of each pair of that kind.
fn pairs(old: &str, new: &str, kind: &str) -> Vec<(u64, u64)> {
    let number =
        |text: &str| u64::from_str_radix(text.strip_prefix("0x").expect("0x"), 16).expect("an address");
    let table = stdout(&["match", old, new, "--tsv"]);
    let rows = table.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    rows.filter(|row| row[0] == kind).map(|row| (number(row[1]), number(row[2]))).collect()
}

/// Where the functions are.
fn functions(program: &Path) -> BTreeMap<String, u64> {
    let rows = compile::stdout("nm", &[OsStr::new("--defined-only"), program.as_ref()]);
    let rows = rows.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    rows.filter(|row| row[1].eq_ignore_ascii_case("t"))
        .map(|row| (row[2].to_string(), u64::from_str_radix(row[0], 16).expect("an address")))
        .collect()
}

#[test]
fn a_build_is_all_in_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = version(1);
    for same in [text(&program).to_string(), stripped(&program, folder.path(), "stripped")] {
        let found = json(&same, &same);
        for kind in ["procedures", "data", "blocks"] {
            assert!(found[kind]["matched"].as_u64() > Some(0), "{found}");
            assert_eq!(found[kind]["matched"], found[kind]["old"], "{kind}: {found}");
            assert_eq!(found[kind]["matched"], found[kind]["new"], "{kind}: {found}");
        }
        for kind in ["procedure", "data", "block"] {
            assert!(pairs(&same, &same, kind).iter().all(|(old, new)| old == new), "{kind}");
        }
    }
}

#[test]
fn functions_of_the_next_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let (old, new) = (version(1), version(2));
    let (before, after) = (functions(&old), functions(&new));
    let bare = [&old, &new].map(|p| {
        stripped(
            p,
            folder.path(),
            &p.parent().map_or(String::new(), |p| {
                p.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned())
            }),
        )
    });
    let named = pairs(text(&old), text(&new), "procedure");
    let nameless = pairs(&bare[0], &bare[1], "procedure");
    for (name, partner) in [
        ("main", "main"),
        ("scatter", "spread"),
        ("fold", "fold"),
        ("step", "step"),
        ("grow", "grow"),
        ("up", "up"),
        ("down", "down"),
    ] {
        let pair = (before[name], after[partner]);
        assert!(named.contains(&pair), "{name} {pair:x?}: {named:x?}");
        assert!(nameless.contains(&pair), "{name} {pair:x?} without symbols: {nameless:x?}");
    }
    // Nothing has two partners, and what has gone is not what has come, although `main` calls both at the same place.
    for pairs in [named, nameless] {
        assert!(!pairs.contains(&(before["gone"], after["come"])), "{pairs:x?}");
        let (mut olds, mut news): (Vec<u64>, Vec<u64>) = pairs.iter().copied().unzip();
        let all = pairs.len();
        for side in [&mut olds, &mut news] {
            side.sort_unstable();
            side.dedup();
            assert_eq!(side.len(), all);
        }
    }
}

#[test]
fn the_table() {
    let (old, new) = (version(1), version(2));
    let table = stdout(&["match", text(&old), text(&new), "--tsv"]);
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("kind\told\tnew\tlevel"));
    let hashes = ["0", "1", "1a", "2", "3", "3a", "4", "5", "s"];
    let mut seen = BTreeMap::<&str, u64>::new();
    for line in lines {
        let row: Vec<&str> = line.split('\t').collect();
        let [kind, from, to, level] = row[..] else { panic!("{line}") };
        *seen.entry(kind).or_default() += 1;
        assert!(from.starts_with("0x") && to.starts_with("0x"), "{line}");
        let documented = match kind {
            "procedure" => {
                hashes.contains(&level)
                    || ["name", "hierarchical", "reference", "order", "similar-name", "across"]
                        .contains(&level)
            }
            "data" => ["name", "content", "reference", "between"].contains(&level),
            "partial" => level == "cf",
            "block" | "inlined" | "outlined" | "moved" => hashes.contains(&level) || level == "cf",
            _ => false,
        };
        assert!(documented, "{line}");
    }
    let found = json(text(&old), text(&new));
    for (kind, name) in [("procedure", "procedures"), ("data", "data"), ("block", "blocks")] {
        assert_eq!(found[name]["matched"], seen[kind], "{found}");
    }
}

#[test]
fn side_by_side() {
    let (old, new) = (version(1), version(2));
    let shown = stdout(&["match", text(&old), text(&new), "--function", "spread"]);
    let first = shown.lines().next().unwrap_or_default();
    assert!(first.starts_with("scatter at 0x") && first.contains("=  spread at 0x"), "{first}");
    let both = shown.lines().filter_map(|line| line.split_once(" │ "));
    assert!(both.filter(|(a, b)| !a.trim().is_empty() && !b.trim().is_empty()).count() > 10, "{shown}");
    let refused = relive(&["match", text(&old), text(&new), "--function", "nowhere"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("there is no function nowhere"));
}

#[test]
fn a_profile_does_for_a_binary() {
    let folder = tempfile::tempdir().expect("a folder");
    let (old, new) = (version(1), version(2));
    let profile = profile(folder.path(), "old", &old);
    for kind in ["procedure", "data", "block", "partial"] {
        let by_profile = pairs(&profile, text(&new), kind);
        assert!(!by_profile.is_empty(), "{kind}");
        assert_eq!(by_profile, pairs(text(&old), text(&new), kind), "{kind}");
    }
}

#[test]
fn different_programs_have_next_to_nothing_in_common() {
    let [one, other] = strangers();
    let output = relive(&["match", text(&one), text(&other), "--json"]);
    assert!(output.status.success());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("are they builds of the same program?"), "{message}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let blocks = |name: &str| found["blocks"][name].as_u64().expect("a number");
    assert!(blocks("matched") * 10 < blocks("new"), "{found}");
    // All programs start in the same way, which is much of a small one.
    let [one, other] = strange_programs();
    let output = relive(&["match", text(&one), text(&other)]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("are they builds of the same program?"), "{message}");
}

#[test]
fn what_it_refuses() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = version(1);
    let good = text(&program);
    let bad = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a writable folder");
        text(&path).to_string()
    };
    let mut foreign = program.bytes();
    foreign[18] = 183;
    let measured = std::fs::read(profile(folder.path(), "counted", &program)).expect("written");
    for (file, why) in [
        ("nowhere".to_string(), "no such file"),
        (text(folder.path()).to_string(), "a directory"),
        (bad("empty", b""), "empty"),
        (bad("script", b"#!/bin/sh\n"), "not an ELF file"),
        (bad("foreign", &foreign), "another machine"),
        (bad("cut.rprof", &measured[..4200]), "damaged"),
        // Without code, as early versions wrote it.
        (write(folder.path(), "early.rprof", &thing()), "it holds no code to compare"),
    ] {
        for args in [["match", &file, good], ["match", good, &file]] {
            let output = relive(&args);
            let message = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
            assert_eq!(output.stdout, b"", "{args:?}");
            assert!(message.contains(&file) && message.contains(why), "{why}: {message}");
        }
    }
}
