//! Behaviours that come from traces, taken over from one build to the next: calls in order, strides, reuse distances.

mod support;

use relive_sequence::{CallMap, Kind, MergeError, Origin, Sequence, file, merge, tables};
use relive_testkit::compile::{compile, stdout as printed};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use support::{relive, stdout, text};
use tempfile::TempDir;

/// A build of a program, and a trace of it.
struct Version {
    folder: TempDir,
    build_id: String,
    /// Functions: where they are, and how long.
    functions: BTreeMap<String, (u64, u64)>,
    trace: PathBuf,
}

impl Version {
    fn new(compiler: &str, name: &str, source: &str, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("program");
        let compiled = compile(compiler, &["-O2", "-g", "-Wl,--build-id"], (name, source));
        std::fs::copy(&*compiled, &program).expect("a copy");
        let trace = folder.path().join("program.rtrace");
        let output = relive(&[&["trace", "-q", "-o", text(&trace)], more, &["--", text(&program)]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let row = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [address, size, "T" | "t", name] = words[..] else { return None };
            let number = |text| u64::from_str_radix(text, 16).expect("a number");
            Some((name.to_string(), (number(address), number(size))))
        };
        let functions = printed("nm", &["-S".as_ref(), "--defined-only".as_ref(), program.as_ref()]);
        let notes = printed("readelf", &["-n".as_ref(), program.as_ref()]);
        let build_id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
        Self {
            build_id: build_id.expect("a build-id").to_string(),
            functions: functions.lines().filter_map(row).collect(),
            folder,
            trace,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A plan that exempts some functions.
    fn plan(&self, exempt: &[&str]) -> PathBuf {
        let function =
            |name: &&str| json!({ "name": name, "address": format!("{:#x}", self.functions[*name].0) });
        let exempt: Vec<Value> = exempt.iter().map(function).collect();
        let plan = self.path("plan.json");
        std::fs::write(&plan, plan_text(&self.build_id, &json!(exempt))).expect("a file");
        plan
    }

    fn addresses(&self, names: &[&str]) -> BTreeSet<u64> {
        names.iter().map(|name| self.functions[*name].0).collect()
    }

    /// Its calls; those of functions that are not exempt.
    fn calls(&self, exempt: &[&str]) -> Sequence {
        let output = self.path("calls.rcalls");
        let mut args = vec!["analyze", "calls", text(&self.trace), "-o", text(&output)];
        let plan = self.plan(exempt);
        if !exempt.is_empty() {
            args.extend(["--except", text(&plan)]);
        }
        stdout(&args);
        file::read(&std::fs::read(&output).expect("a file")).expect("as written")
    }

    /// What it tells, instruction by instruction.
    fn table(&self, question: &str, exempt: &[&str]) -> Value {
        let plan = self.plan(exempt);
        let args = ["analyze", question, text(&self.trace), "--json", "--except", text(&plan)];
        serde_json::from_str(&stdout(&args)).expect("an object")
    }
}

/// A plan as `relive migrate` writes it.
fn plan_text(build_id: &str, exempt: &Value) -> String {
    let build = |id: &str| json!({ "build_id": id, "path": "program" });
    json!({
        "relive_plan": 1, "old": build("00"), "new": build(build_id), "impact": "ag", "behaviours": ["call-sequence"],
        "significance": 0.5, "exempt": exempt, "measure": [],
    })
    .to_string()
}

/// Functions by name; code of those that have not changed.
fn map(old: &Version, new: &Version, same: &[&str]) -> CallMap {
    let both =
        old.functions.iter().filter_map(|(name, of_old)| Some((name, of_old, new.functions.get(name)?)));
    let code = both.clone().filter(|(name, ..)| same.contains(&name.as_str()));
    CallMap {
        old: old.build_id.clone(),
        new: new.build_id.clone(),
        functions: both.clone().map(|(_, old, new)| (old.0, new.0)).collect(),
        sites: BTreeMap::new(),
        code: code
            .map(|(name, old, new)| {
                assert_eq!(old.1, new.1, "{name}");
                (old.0, (old.1, new.0))
            })
            .collect(),
    }
}

/// Where `main` calls functions, by name: each once.
fn called_by_main(sequence: &Sequence) -> BTreeMap<String, u64> {
    let is_main = |body: &u32| {
        let function = sequence.bodies[*body as usize].function;
        function != u32::MAX && sequence.name(function).to_string() == "main"
    };
    let main = (0..sequence.bodies.len() as u32).find(is_main).expect("main");
    let called = |call: relive_sequence::model::Call| {
        let name = sequence.name(sequence.bodies[call.body as usize].function).to_string();
        (name, sequence.sites[call.site as usize].address)
    };
    sequence.calls(main).map(called).collect()
}

fn flat(sequence: &Sequence, folder: &Path) -> String {
    let path = folder.join("printed.rcalls");
    std::fs::write(&path, file::write(sequence)).expect("a file");
    stdout(&["dump", text(&path), "--sequence", "--flat", "--under", "main"]).trim_end().to_string()
}

const FIGURE: &str = "
int bound = 3;
__attribute__((noinline)) void fi(int i) { __asm__ volatile(\"\" : : \"r\"(i)); }
__attribute__((noinline)) void fj(void) { FJ; __asm__ volatile(\"\"); }
__attribute__((noinline)) void foo(void) { for (int i = 0; i < BOUND; i++) fi(i); }
__attribute__((noinline)) void fee(void) { fj(); }
int main(void) { CALLS return 0; }
";

fn figure(calls: &str, bound: &str, fj: &str) -> Version {
    let source = FIGURE.replace("CALLS", calls).replace("BOUND", bound).replace("FJ", fj);
    Version::new("gcc", "figure.c", &source, &["--control-flow-only"])
}

fn map_of_figure(old: &Version, new: &Version) -> CallMap {
    let mut map = map(old, new, &["fi", "fj", "foo", "fee"]);
    let (then, now) = (called_by_main(&old.calls(&[])), called_by_main(&new.calls(&[])));
    map.sites = then.iter().filter_map(|(name, &site)| Some((site, *now.get(name)?))).collect();
    map
}

/// ProfMig, figure 1: two calls are switched.
#[test]
fn switched_calls() {
    let old = figure("foo(); fee();", "3", "");
    let new = figure("fee(); foo();", "3", "");
    let (before, after) = (old.calls(&[]), new.calls(&[]));
    assert_eq!(flat(&before, old.folder.path()), "main foo fi fi fi fee fj");
    let partial = new.calls(&["foo", "fee", "fi", "fj"]);
    assert_eq!(flat(&partial, new.folder.path()), "main fee foo");
    let (merged, origins) = merge(&before, &partial, &map_of_figure(&old, &new)).expect("mergeable");
    assert_eq!(flat(&merged, new.folder.path()), "main fee fj foo fi fi fi");
    assert_eq!(merged.difference(&after), None);
    assert_eq!((origins.repositioned, origins.reused), (2, 4), "foo and fee; what they call moves along");
    let origin = |name: &str| {
        let is_it = |body: &&relive_sequence::Body| {
            body.function != u32::MAX && merged.name(body.function).to_string() == name
        };
        merged.bodies.iter().find(is_it).expect("executed").origin
    };
    assert_eq!(["main", "foo", "fi"].map(origin), [Origin::Remeasured, Origin::Repositioned, Origin::Reused]);
}

/// §3.3: a bound that another function changes. `foo` is affected, and if somebody overlooks that, it does not go unnoticed.
#[test]
fn a_bound_that_another_function_changes() {
    let old = figure("foo(); fee();", "bound", "bound = 2");
    let new = figure("fee(); foo();", "bound", "bound = 2");
    let before = old.calls(&[]);
    assert_eq!(flat(&before, old.folder.path()), "main foo fi fi fi fee fj");
    let map = map_of_figure(&old, &new);
    let (merged, _) = merge(&before, &new.calls(&["fee", "fi", "fj"]), &map).expect("mergeable");
    assert_eq!(flat(&merged, new.folder.path()), "main fee fj foo fi fi");
    assert_eq!(merged.difference(&new.calls(&[])), None);
    let Err(MergeError::NotReusable(refused)) = merge(&before, &new.calls(&["foo", "fee", "fj"]), &map)
    else {
        panic!("foo calls less often than before");
    };
    assert_eq!(refused.iter().map(|refusal| &*refusal.name).collect::<Vec<_>>(), ["foo"]);
}

/// Both figures from the command line: the plan says what to measure, and the sequences are merged by it.
#[test]
fn by_a_plan() {
    for (bound, fj, impact, expected) in [
        ("3", "", "ag", "main fee fj foo fi fi fi"),
        ("3", "", "sl", "main fee fj foo fi fi fi"),
        ("bound", "bound = 2", "sl", "main fee fj foo fi fi"),
    ] {
        let (old, new) = (figure("foo(); fee();", bound, fj), figure("fee(); foo();", bound, fj));
        let at = |name: &str| text(&new.path(name)).to_string();
        let (program, profile, plan) = (at("program"), at("old.rprof"), at("by.json"));
        stdout(&["run", "-o", &profile, "--", text(&old.path("program"))]);
        stdout(&[
            "migrate",
            &profile,
            "--to",
            &program,
            "--plan",
            &plan,
            "--behaviour",
            "call-sequence",
            "--impact",
            impact,
        ]);
        let (before, partial, merged) = (at("old.rcalls"), at("partial.rcalls"), at("merged.rcalls"));
        stdout(&["analyze", "calls", text(&old.trace), "-o", &before]);
        stdout(&["analyze", "calls", text(&new.trace), "--except", &plan, "-o", &partial]);
        stdout(&["merge", &before, &partial, "--plan", &plan, "-o", &merged]);
        let flat = stdout(&["dump", &merged, "--sequence", "--flat", "--under", "main"]);
        assert_eq!(flat.trim_end(), expected, "{bound} {impact}");
    }
}

/// A function that does other things from one execution to the next cannot be taken over if it is called anew: the plan knows by the old sequence.
#[test]
fn what_a_sequence_requires() {
    let old = figure("bound = 1; foo(); bound = 2; foo();", "bound", "");
    let new = figure("bound = 2; foo(); bound = 1; foo(); bound = 3; foo();", "bound", "");
    let at = |name: &str| text(&new.path(name)).to_string();
    let (program, profile, plan) = (at("program"), at("old.rprof"), at("by.json"));
    let (before, partial, merged) = (at("old.rcalls"), at("partial.rcalls"), at("merged.rcalls"));
    stdout(&["run", "-o", &profile, "--", text(&old.path("program"))]);
    stdout(&["analyze", "calls", text(&old.trace), "-o", &before]);
    let migrate = ["migrate", &profile, "--to", &program, "--plan", &plan, "--behaviour", "call-sequence"];
    let merge = || {
        stdout(&["analyze", "calls", text(&new.trace), "--except", &plan, "-o", &partial]);
        relive(&["merge", &before, &partial, "--plan", &plan, "-o", &merged])
    };
    stdout(&migrate);
    let output = merge();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("foo has to be measured") && said.contains("--sequence"), "{said}");
    stdout(&[&migrate[..], &["--sequence", &before]].concat());
    assert!(merge().status.success());
    let flat = stdout(&["dump", &merged, "--sequence", "--flat", "--under", "main"]);
    assert_eq!(flat.trim_end(), "main foo fi fi foo fi foo fi fi fi");
    stdout(&["analyze", "calls", text(&new.trace), "-o", &partial]);
    let output = relive(&[&migrate[..], &["--sequence", &partial]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not calls of build"));
}

const LEAVING: &str = r#"
#include <setjmp.h>
#include <signal.h>
#include <cstdio>
static jmp_buf place;
#define OWN extern "C" __attribute__((noinline, noclone)) void
OWN leaf() { __asm__ volatile(""); }
OWN thrower(int n) { leaf(); if (n == 0) throw 1; thrower(n - 1); leaf(); }
OWN jumper() { leaf(); longjmp(place, 1); }
OWN catcher() { try { thrower(3); } catch (int) { leaf(); } }
OWN setter() { if (setjmp(place) == 0) jumper(); leaf(); }
OWN handler(int) { leaf(); }
OWN last() { leaf(); __asm__ volatile(""); }
int main() { signal(SIGUSR1, handler); catcher(); setter(); raise(SIGUSR1); last(); return 0; }
"#;

/// Functions that do not return leave no trace in what comes behind; names are those that a replay tells.
#[test]
fn ways_to_leave_functions() {
    let version = Version::new("g++", "leaving.cc", LEAVING, &["--control-flow-only"]);
    let sequence = version.calls(&[]);
    let path = version.path("calls.rcalls");
    let rows: Vec<Vec<String>> = stdout(&["dump", text(&path), "--sequence"])
        .lines()
        .skip(1)
        .map(|line| line.split('\t').map(|cell| cell.trim().to_string()).collect())
        .collect();
    let own = ["leaf", "thrower", "jumper", "catcher", "setter", "handler", "last", "main"];
    let main: u64 = rows.iter().find(|row| row[5] == "main").expect("main")[1].parse().expect("a number");
    let of_main = rows.iter().filter(|row| own.contains(&&*row[5])).map(|row| {
        let depth: u64 = row[1].parse().expect("a number");
        (depth.saturating_sub(main), row[5].as_str())
    });
    let expected = [
        (0, "main"),
        (1, "catcher"),
        (2, "thrower"),
        (3, "leaf"),
        (3, "thrower"),
        (4, "leaf"),
        (4, "thrower"),
        (5, "leaf"),
        (5, "thrower"),
        (6, "leaf"),
        (2, "leaf"),
        (1, "setter"),
        (2, "jumper"),
        (3, "leaf"),
        (2, "leaf"),
        (1, "last"),
        (2, "leaf"),
    ];
    let found: Vec<_> = of_main.collect();
    assert_eq!(found[..expected.len()], expected);
    let handlers: Vec<_> =
        sequence.threads.iter().flat_map(|thread| sequence.calls(thread.handlers)).collect();
    assert_eq!(handlers.len(), 1);
    assert_eq!(found[expected.len()..].iter().map(|row| row.1).collect::<Vec<_>>(), ["handler", "leaf"]);
    // A replay tells of the same functions in the same order, but for those that are jumped to.
    let told: Vec<String> = stdout(&["replay", text(&version.trace), "--calls"])
        .lines()
        .map(|line| line.split('\t').nth(3).expect("a name").trim().to_string())
        .filter(|name| own.contains(&&**name) && name != "handler")
        .collect();
    let called = rows.iter().filter(|row| row[2] == "call" && own.contains(&&*row[5]));
    assert_eq!(told, called.map(|row| row[5].clone()).collect::<Vec<_>>());
    let is_tail = |site: &relive_sequence::Site| site.kind == Kind::Tail;
    assert!(sequence.sites.iter().any(is_tail), "some functions are jumped to");
}

const TABLES: &str = r#"
#include <stdlib.h>
static long all[4096];
__attribute__((noinline)) long each(long *of, long n) { long sum = 0; for (long i = 0; i < n; i++) { sum += of[i]; __asm__ volatile("" : "+r"(sum)); } return sum; }
__attribute__((noinline)) long other(long *of, long n) { long sum = 0; for (long i = 0; i < n; i += 2) { sum += of[i]; __asm__ volatile("" : "+r"(sum)); } return sum; }
__attribute__((noinline)) void fill(long *of, long n) { for (long i = 0; i < n; i++) { of[i * STEP % n] = i; __asm__ volatile("" : : : "memory"); } }
int main(void) { fill(all, 4096); long sum = each(all, 4096) + other(all, 4096); MORE return sum == 0; }
"#;

/// By function, address as seen from where it begins, and which access.
fn entries(table: &Value, key: &str) -> BTreeMap<(String, u64, u64), Value> {
    let entries = table[key].as_array().expect("entries").iter();
    let of_program = entries.filter(|entry| {
        entry["module"].as_str().is_some_and(|module| module.ends_with("/program"))
            && entry.get("entry").is_some()
    });
    let row = |entry: &Value| {
        let number = |key: &str| entry[key].as_u64().unwrap_or_default();
        let name = entry["function"].as_str().expect("a name").to_string();
        let mut rest = entry.as_object().expect("an object").clone();
        for key in ["pc", "process", "origin", "module"] {
            rest.remove(key);
        }
        ((name, number("address") - number("entry"), number("access")), Value::Object(rest))
    };
    of_program.map(row).collect()
}

#[test]
fn strides_and_reuse_distances() {
    let source = |step: &str, more: &str| TABLES.replace("STEP", step).replace("MORE", more);
    let old = Version::new("gcc", "tables.c", &source("1", ""), &[]);
    let new = Version::new("gcc", "tables.c", &source("5", "sum += each(all, 0);"), &[]);
    let same = ["each", "other"];
    let map = map(&old, &new, &same);
    let exempt = new.addresses(&["other"]);
    let lines = |address: u64| {
        let program = new.path("program");
        let told = printed("addr2line", &["-e".as_ref(), program.as_ref(), format!("{address:#x}").as_ref()]);
        let (file, line) = told.trim().split(' ').next()?.rsplit_once(':')?;
        Some((file.rsplit('/').next()?.to_string(), line.parse().ok()?))
    };
    for (question, key) in [("strides", "accesses"), ("reuse", "instructions")] {
        let fresh = new.table(question, &["other"]);
        let names: BTreeSet<String> = entries(&fresh, key).into_keys().map(|key| key.0).collect();
        assert!(names.contains("fill") && names.contains("each") && !names.contains("other"), "{names:?}");
        let merged =
            tables::merge(&old.table(question, &[]), &fresh, &map, &exempt, &lines).expect("mergeable");
        let from_scratch = new.table(question, &[]);
        let without_files = |mut entries: BTreeMap<(String, u64, u64), Value>| {
            entries
                .values_mut()
                .for_each(|entry| drop(entry.as_object_mut().and_then(|entry| entry.remove("file"))));
            entries
        };
        let expected = without_files(entries(&from_scratch, key));
        assert_eq!(without_files(entries(&merged, key)), expected, "{question}");
        let origin_of = |name: &str| {
            let all = merged[key].as_array().expect("entries").iter();
            let of = all.filter(|entry| entry["function"] == name).map(|entry| entry["origin"].clone());
            of.map(|origin| origin.as_str().expect("a word").to_string()).collect::<BTreeSet<_>>()
        };
        assert_eq!(origin_of("fill"), BTreeSet::from(["re-measured".to_string()]));
        assert!(origin_of("other").iter().all(|origin| origin == "reused" || origin == "repositioned"));
        if question == "strides" {
            assert_eq!(merged["patterns"], from_scratch["patterns"]);
        } else {
            assert_eq!(merged["total"], from_scratch["total"]);
        }
    }
}

#[test]
fn plans_that_do_not_fit() {
    let version = figure("foo();", "3", "");
    let refused = |plan: &str| {
        let path = version.path("wrong.json");
        std::fs::write(&path, plan).expect("a file");
        let mut said = Vec::new();
        for question in ["calls", "strides", "reuse"] {
            let output =
                relive(&["analyze", question, text(&version.trace), "--except", text(&path), "-o", "x"]);
            assert_eq!(output.status.code(), Some(2), "{question}");
            said.push(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        said.remove(0)
    };
    assert!(refused("{}").contains("wrong.json: not a plan of relive"));
    let other = refused(&plan_text("abcd", &json!([])));
    assert!(other.contains("build abcd, which was not traced"), "{other}");
    let address = refused(&plan_text("abcd", &json!([{ "name": "f", "address": "here" }])));
    assert!(address.contains("\"here\" is not an address"), "{address}");
    let output = relive(&["dump", text(&version.trace), "--sequence"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not a call sequence"));
}
