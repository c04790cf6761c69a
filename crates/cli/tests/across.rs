//! `relive match` and `relive migrate` where functions were inlined, outlined and cloned between two builds.

mod support;

use relive_testkit::compile::{Compiled, compile};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use support::{stdout, text};

/// `weigh` is large enough to be known again, and called from two places: half of the calls are from each.
const PROGRAM: &str = r#"
#include <stdio.h>
WEIGH static unsigned weigh(const unsigned char *text, unsigned length, unsigned seed) {
    unsigned sum = seed ^ 0x9e37, runs = 0;
    for (unsigned i = 0; i < length; i++) {
        if (text[i] == 'e') { sum = sum * 31 + 7; runs++; }
        else if (text[i] > 'm') sum ^= (sum << 5) + text[i] + 0x51ed;
        else sum += runs * 13 + text[i] * 3;
        if (sum % 17 == 3) sum = (sum >> 3) ^ 0xabcd;
    }
    return sum + runs * 77;
}
__attribute__((noinline)) static unsigned first(const unsigned char *text, unsigned round) {
    unsigned sum = weigh(text, 23, round);
    if (sum & 1) printf("first %u\n", sum);
    return sum / 5 + round * 11;
}
__attribute__((noinline)) static unsigned second(const unsigned char *text, unsigned round) {
    unsigned sum = 0x777;
    for (unsigned i = 0; i < round % 4; i++) sum += i * i + 9;
    sum ^= weigh(text + 2, 19, sum);
    if (sum > 0x40000000) printf("second %u\n", sum);
    return sum;
}
int main(void) {
    const unsigned char *text = (const unsigned char *)"several green elephants sleep";
    unsigned sum = 0;
    for (unsigned round = 0; round < 500; round++) sum = sum * 3 + first(text, round) + second(text, round);
    printf("%u\n", sum);
    return 0;
}
"#;

/// The program with `weigh` as `attribute` says.
fn build(attribute: &str) -> Compiled {
    let define = format!("-DWEIGH=__attribute__(({attribute}))");
    compile("gcc", &["-O2", "-Wl,--build-id=sha1", &define], ("program.c", PROGRAM))
}

fn profile(folder: &Path, name: &str, program: &Path) -> String {
    let (counted, profile) = (folder.join(name), folder.join(format!("{name}.rprof")));
    stdout(&["instrument", text(program), "-o", text(&counted)]);
    let run = Command::new(&counted).env("RELIVE_PROFILE", &profile).output().expect("the program starts");
    assert!(run.status.success());
    text(&profile).to_string()
}

/// How many pairs of each kind there are.
fn kinds(old: &Path, new: &Path) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for line in stdout(&["match", text(old), text(new), "--tsv"]).lines().skip(1) {
        *kinds.entry(line.split('\t').next().unwrap_or_default().to_string()).or_default() += 1;
    }
    kinds
}

/// Carries the profile of `old` to `new`, and compares it with a fresh one.
fn carried(old: &Path, new: &Path) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let (before, fresh) = (profile(folder.path(), "old", old), profile(folder.path(), "new", new));
    let carried = folder.path().join("carried.rprof");
    stdout(&["migrate", &before, "--to", text(new), "-o", text(&carried)]);
    serde_json::from_str(&stdout(&["evaluate", text(&carried), &fresh, "--json"])).expect("JSON")
}

fn at_least(found: &Value, name: &str, least: f64) {
    let value = found[name].as_f64().unwrap_or_else(|| panic!("{name} in {found}"));
    assert!(value >= least, "{name} is {value}: {found}");
}

#[test]
fn what_was_inlined_has_its_part_of_the_counts() {
    let (old, new) = (build("noinline"), build("always_inline"));
    let kinds = kinds(&old, &new);
    // Of its eight blocks the first and the last become part of the caller's: six are left, at two places.
    assert!(kinds["inlined"] >= 12, "{kinds:?}");
    assert!(!kinds.contains_key("outlined"), "{kinds:?}");
    let found = carried(&old, &new);
    at_least(&found, "bp", 0.98);
    at_least(&found, "cc", 0.98);
    at_least(&found, "overlap", 0.95);
}

#[test]
fn what_was_outlined_has_the_sum_of_the_counts() {
    let (old, new) = (build("always_inline"), build("noinline"));
    let kinds = kinds(&old, &new);
    assert!(kinds["outlined"] >= 8, "{kinds:?}");
    let found = carried(&old, &new);
    at_least(&found, "bp", 0.98);
    at_least(&found, "cc", 0.98);
    at_least(&found, "overlap", 0.9);
}

#[test]
fn nothing_crosses_borders_in_the_same_build() {
    let program = build("noinline");
    let kinds = kinds(&program, &program);
    for kind in ["inlined", "outlined"] {
        assert!(!kinds.contains_key(kind), "{kinds:?}");
    }
    let found: Value =
        serde_json::from_str(&stdout(&["match", text(&program), text(&program), "--json"])).expect("JSON");
    assert_eq!(found["blocks"]["across"], serde_json::json!({ "inlined": 0, "outlined": 0 }));
    assert_eq!(found["procedures"]["clones"], 0);
}
