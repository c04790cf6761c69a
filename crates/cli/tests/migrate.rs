//! `relive migrate` from version to version of a program, and what it refuses.

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use support::versions::{profile, strangers, version};
use support::{relive, stdout, text, thing, write};

fn migrate(folder: &Path, name: &str, profiles: &[&str], to: &Path) -> String {
    let carried = text(&folder.join(name)).to_string();
    stdout(&[&["migrate"], profiles, &["--to", text(to), "-o", &carried]].concat());
    carried
}

/// The rows of a table of `relive dump`, without the module.
fn table(profile: &str, name: &str) -> Vec<Vec<String>> {
    let table = stdout(&["dump", profile, &format!("--{name}")]);
    table.lines().skip(1).map(|line| line.split('\t').skip(1).map(Into::into).collect()).collect()
}

/// What enters each block leaves it, every count says where it is from, and how sure that is.
fn is_sound(profile: &str) {
    let mut flows = BTreeMap::<(String, String), [u64; 2]>::new();
    for row in table(profile, "edges") {
        let Ok(count) = row[3].parse::<u64>() else { continue };
        for (end, place) in [&row[2], &row[1]].into_iter().enumerate() {
            flows.entry((row[0].clone(), place.clone())).or_default()[end] += count;
        }
    }
    let mut blocks = 0;
    for row in table(profile, "blocks") {
        let Ok(count) = row[3].parse::<u64>() else { continue };
        blocks += 1;
        let origin = row[4].as_str();
        assert!(origin.starts_with("matched-") || ["control-flow", "inferred"].contains(&origin), "{row:?}");
        assert!(row[5].parse::<u32>().is_ok_and(|percent| percent <= 100), "{row:?}");
        assert_eq!(flows[&(row[0].clone(), row[1].clone())], [count; 2], "{row:?}");
    }
    assert!(blocks > 40, "{blocks}");
}

fn is_good(carried: &str, fresh: &str) {
    let found: Value = serde_json::from_str(&stdout(&["evaluate", carried, fresh, "--json"])).expect("JSON");
    for name in ["bp", "cc"] {
        assert!(found[name].as_f64() >= Some(0.95), "{name}: {found}");
    }
}

fn sureness(profile: &str) -> u64 {
    table(profile, "blocks").iter().filter_map(|row| row[5].parse::<u64>().ok()).max().expect("a block")
}

#[test]
fn to_the_next_version_and_the_one_after() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let [one, two, three] = [1, 2, 3].map(version);
    let [first, second, third] =
        [("1", &one), ("2", &two), ("3", &three)].map(|(n, p)| profile(folder, n, p));
    // Nothing of the old build is needed but the profile.
    drop(one);
    std::fs::remove_file(folder.join("1")).expect("the counted program");
    let next = migrate(folder, "next.rprof", &[&first], &two);
    is_sound(&next);
    is_good(&next, &second);
    let after = migrate(folder, "after.rprof", &[&next], &three);
    is_sound(&after);
    is_good(&after, &third);
    assert!(sureness(&after) <= sureness(&next));
    let report = stdout(&["report", &after]);
    assert!(report.contains("carried over from") && report.contains("2 builds away"), "{report}");
    let both = migrate(folder, "both.rprof", &[&first, &second], &three);
    is_sound(&both);
    is_good(&both, &third);
    assert_eq!(stdout(&["report", &both]).matches("carried over from").count(), 2);
    // What the table of functions led to.
    let calls = table(&next, "calls");
    for (callee, count) in [("up", "750"), ("down", "250")] {
        assert!(calls.iter().any(|row| row[0] == "main" && row[2..] == [callee, count]), "{calls:?}");
    }
}

#[test]
fn to_the_same_build() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = version(1);
    let measured = profile(folder.path(), "counted", &program);
    let carried = migrate(folder.path(), "carried.rprof", &[&measured], &program);
    for name in ["blocks", "edges"] {
        let counts =
            |profile| table(profile, name).into_iter().map(|row| row[..4].to_vec()).collect::<Vec<_>>();
        assert_eq!(counts(&carried), counts(&measured), "{name}");
    }
    assert_eq!(table(&carried, "calls"), table(&measured, "calls"));
}

#[test]
fn what_it_refuses() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let program = version(1);
    let good = profile(folder, "counted", &program);
    let bad = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("a writable folder");
        text(&path).to_string()
    };
    let out = folder.join("out.rprof");
    let refused = |profile: &str, to: &str, blamed: &str, why: &str| {
        let output = relive(&["migrate", profile, "--to", to, "-o", text(&out)]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{why}: {message}");
        assert_eq!(output.stdout, b"", "{why}");
        assert!(message.contains(blamed) && message.contains(why), "{why}: {message}");
        assert!(!out.exists(), "{why}");
    };
    let measured = std::fs::read(&good).expect("written");
    // Never run: no counts at all.
    let mut idle = relive_profile::file::read(&measured).expect("a profile");
    for module in &mut idle.modules {
        module.counters.fill(0);
    }
    let idle = write(folder, "idle.rprof", &idle.modules[0]);
    let mut foreign = program.bytes();
    foreign[18] = 183;
    let to = text(&program);
    for (profile, why) in [
        ("nowhere.rprof".to_string(), "no such file"),
        (bad("empty", b""), "empty"),
        (bad("text", b"nothing of the kind"), "not a profile"),
        (to.to_string(), "not a profile"),
        (bad("cut.rprof", &measured[..4200]), "damaged"),
        (idle, "nothing was counted"),
        (write(folder, "early.rprof", &thing()), "it holds no code to compare"),
    ] {
        refused(&profile, to, &profile, why);
    }
    for (to, why) in [
        ("nowhere".to_string(), "no such file"),
        (bad("script", b"#!/bin/sh\n"), "not an ELF file"),
        (bad("foreign", &foreign), "another machine"),
        (good.clone(), "not an ELF file"),
    ] {
        refused(&good, &to, &to, why);
    }
    let [_, other] = strangers();
    refused(&good, text(&other), &good, "is it a build of the same program?");
    let forced = relive(&["migrate", &good, "--to", text(&other), "-o", text(&out), "--force"]);
    assert!(forced.status.success() && out.exists());
    assert!(String::from_utf8_lossy(&forced.stderr).contains("finds no place"));
    let blocks = table(text(&out), "blocks");
    assert_eq!(blocks.iter().filter(|row| row[4].starts_with("matched")).count(), 0);
    // That nobody is known to call anything says nothing if nobody is known.
    assert!(blocks.iter().all(|row| row.last().is_some_and(|confidence| confidence == "0")), "{blocks:?}");
}
