//! A profile of a new build from an old one and as few measurements as it takes: `migrate --plan`, `instrument --except`,
//! `merge --plan`, `reprofile`, `evaluate --migration`, and what they refuse.

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use support::versions::{profile, version};
use support::{relive, stdout, text};

/// Counts of blocks by function and address.
fn blocks(profile: &str) -> BTreeMap<(String, String), (String, String)> {
    let table = stdout(&["dump", profile, "--blocks"]);
    let rows = table.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
    rows.map(|row| ((row[1].into(), row[2].into()), (row[4].into(), row[5].into()))).collect()
}

fn plan(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a plan")).expect("JSON")
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .expect("a list")
        .iter()
        .map(|function| function["name"].as_str().expect("a name"))
        .collect()
}

#[test]
fn step_by_step() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let [one, two] = [1, 2].map(version);
    let (first, second) = (profile(folder, "1", &one), profile(folder, "2", &two));
    let path = |name: &str| text(&folder.join(name)).to_string();
    let (carried, by, rest, fresh, merged) =
        (path("carried.rprof"), path("plan.json"), path("rest"), path("fresh.rprof"), path("merged.rprof"));
    let shown = stdout(&["migrate", &first, "--to", text(&two), "-o", &carried, "--plan", &by]);
    assert!(shown.contains("to be measured"), "{shown}");
    let found = plan(Path::new(&by));
    for name in ["spread", "up", "down"] {
        assert!(names(&found["exempt"]).contains(&name), "{found}");
    }
    for name in ["fold", "grow", "step", "come"] {
        assert!(names(&found["measure"]).contains(&name), "{found}");
    }
    stdout(&["instrument", text(&two), "-o", &rest, "--except", &by]);
    let run = Command::new(&rest).env("RELIVE_PROFILE", &fresh).output().expect("the program starts");
    assert!(run.status.success());
    stdout(&["merge", &carried, &fresh, "--plan", &by, "-o", &merged]);
    // Functions that hold say so, the others were measured, and all of it is what a full measurement finds.
    let (full, merged_blocks) = (blocks(&second), blocks(&merged));
    for (block, (count, _)) in &full {
        let (merged, origin) = &merged_blocks[block];
        assert_eq!(merged, count, "{block:?}");
        match &*block.0 {
            "spread" | "up" | "down" => assert!(origin.starts_with("matched"), "{block:?}: {origin}"),
            "fold" | "grow" | "step" => {
                assert!(["measured", "derived"].contains(&&**origin), "{block:?}: {origin}")
            }
            _ => {}
        }
    }
    let judged = stdout(&[
        "evaluate",
        &merged,
        &second,
        "--migration",
        &by,
        "--old",
        &carried,
        "--json",
        "--full-time",
        "4",
        "--migrated-time",
        "1",
    ]);
    let judged: Value = serde_json::from_str(&judged).expect("JSON");
    assert_eq!(judged["behaviours"]["loops"]["acc"], 1.0, "{judged}");
    assert_eq!(judged["behaviours"]["call-graph"]["precision"], 1.0, "{judged}");
    assert_eq!(judged["ts"], 0.75, "{judged}");
}

#[test]
fn in_one_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let [one, two] = [1, 2].map(version);
    let (first, second) = (profile(folder, "1", &one), profile(folder, "2", &two));
    let (output, by) = (folder.join("new.rprof"), folder.join("plan.json"));
    let run = |impact: &str, more: &[&str]| {
        let args = [
            "reprofile",
            &first,
            "--to",
            text(&two),
            "-o",
            text(&output),
            "--impact",
            impact,
            "--plan",
            text(&by),
        ];
        stdout(&[&args[..], more, &["--", "{}"]].concat())
    };
    for impact in ["ag", "ba"] {
        run(impact, &[]);
        let (merged, full) = (blocks(text(&output)), blocks(&second));
        assert!(full.iter().all(|(block, (count, _))| merged[block].0 == *count), "{impact}");
    }
    // A short run tells more than code does: `main` changed, and its loop goes round as often as before.
    let short = {
        let (counted, profile) = (folder.join("1"), folder.join("short.rprof"));
        let run =
            Command::new(counted).arg("20").env("RELIVE_PROFILE", &profile).output().expect("it starts");
        assert!(run.status.success());
        text(&profile).to_string()
    };
    let check = ["--behaviour", "loops", "--check-profile", &short, "--check-command", "{} 20"];
    run("checked", &[&check[..], &["--budget", "0", "--limit", "0"]].concat());
    let spared = plan(&by);
    assert_eq!(names(&spared["dear"]), ["grow"], "{spared}");
    assert!(!names(&spared["measure"]).contains(&"grow"), "{spared}");
    run("checked", &[&check[..], &["--budget", "0", "--limit", "1"]].concat());
    let checked = plan(&by);
    assert!(checked["dear"].is_null(), "{checked}");
    assert!(names(&checked["exempt"]).contains(&"main"), "{checked}");
    // How often the loop in `grow` goes round depends on numbers that come later: what no short run knows.
    let loops = |profile: &str| -> Vec<Vec<String>> {
        let table = stdout(&["dump", profile, "--loops"]);
        let rows =
            table.lines().map(|line| line.split('\t').skip(1).map(Into::into).collect::<Vec<String>>());
        rows.filter(|row| row[0] != "grow").collect()
    };
    assert_eq!(loops(text(&output)), loops(&second));
}

#[test]
fn nothing_is_left_to_measure() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let one = version(1);
    let first = profile(folder, "1", &one);
    let (output, by) = (folder.join("new.rprof"), folder.join("plan.json"));
    let args = [
        "reprofile",
        &first,
        "--to",
        text(&one),
        "-o",
        text(&output),
        "--plan",
        text(&by),
        "--",
        "false",
        "{}",
    ];
    // What has no unwind entry cannot be measured in either.
    let shown = relive(&args);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    assert!(String::from_utf8_lossy(&shown.stderr).contains("was not run"));
    assert!(String::from_utf8_lossy(&shown.stdout).contains("counts                            0"));
    assert_eq!(blocks(text(&output)).len(), blocks(&first).len());
    let refused = relive(&["instrument", text(&one), "-o", text(&folder.join("out")), "--except", text(&by)]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("nothing is left beside --except"));
}

#[test]
fn constructs_of_a_program() {
    let program = version(1);
    let shown = stdout(&["constructs", text(&program), "--tsv"]);
    let count = |level: &str| shown.lines().filter(|line| line.starts_with(level)).count();
    assert_eq!(count("program\t"), 1);
    assert!(count("function\t") >= 8 && count("loop\t") >= 4, "{shown}");
}

#[test]
fn what_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let [one, two] = [1, 2].map(version);
    let first = profile(folder, "1", &one);
    let path = |name: &str| text(&folder.join(name)).to_string();
    let (carried, by, out) = (path("carried.rprof"), path("plan.json"), path("out"));
    stdout(&["migrate", &first, "--to", text(&two), "-o", &carried, "--plan", &by]);
    std::fs::write(path("bad.json"), b"{}").expect("writable");
    std::fs::write(path("later.json"), br#"{"relive_plan": 9}"#).expect("writable");
    let refused = |args: &[&str], why: &str| {
        let output = relive(args);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(why), "{args:?}: {message}");
        assert!(!Path::new(&out).exists(), "{args:?}");
    };
    let (one, two) = (text(&one), text(&two));
    refused(&["instrument", one, "-o", &out, "--except", &by], "a plan for build");
    refused(&["instrument", two, "-o", &out, "--except", &path("bad.json")], "not a plan");
    refused(&["instrument", two, "-o", &out, "--except", &path("later.json")], "version 9");
    refused(&["merge", &carried, &first, "--plan", &by, "-o", &out], "which the plan is for");
    refused(&["merge", &carried, "--plan", &by, "-o", &out], "two profiles");
    refused(&["migrate", &first, "--to", two, "--plan", &out, "--behaviour", "values"], "--granularity");
    refused(&["migrate", &first, "--to", two, "--plan", &out, "--granularity", "file"], "levels are");
    refused(&["migrate", &first, "--to", two, "--plan", &out, "--impact", "checked"], "--check OLD FRESH");
    refused(
        &["migrate", &first, "--to", two, "--plan", &out, "--knowledge", &path("bad.json")],
        "not a list",
    );
    refused(&["reprofile", &first, "--to", two, "-o", &out, "--", "true"], "{}");
    refused(&["reprofile", &first, "--to", two, "-o", &out, "--", "true", "{}"], "left no profile");
}

/// What `relive run` counts, with plans or without.
fn counted(folder: &Path, program: &Path, plans: &[&str]) -> String {
    let profile = text(&folder.join("run.rprof")).to_string();
    let module = format!("*/{}", program.file_name().expect("a name").to_string_lossy());
    let mut args = vec!["run", "-o", &profile, "--modules", &module];
    plans.iter().for_each(|plan| args.extend(["--except", plan]));
    args.extend(["--", text(program)]);
    let run = relive(&args);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(run.stderr.is_empty(), "{}", String::from_utf8_lossy(&run.stderr));
    profile
}

#[test]
fn under_the_engine() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let [one, two] = [1, 2].map(version);
    let first = profile(folder, "1", &one);
    let path = |name: &str| text(&folder.join(name)).to_string();
    let (carried, by, merged) = (path("carried.rprof"), path("plan.json"), path("merged.rprof"));
    stdout(&["migrate", &first, "--to", text(&two), "-o", &carried, "--plan", &by]);
    let full = blocks(&counted(folder, &two, &[]));
    let fresh = counted(folder, &two, &[&by]);
    let partial = blocks(&fresh);
    let measured =
        |name: &str| partial.iter().any(|((function, _), (count, _))| function == name && count != "-");
    assert!(!measured("spread") && !measured("up") && measured("fold") && measured("grow"), "{partial:?}");
    stdout(&["merge", &carried, &fresh, "--plan", &by, "-o", &merged]);
    let merged = blocks(&merged);
    for (block, (count, _)) in &full {
        assert_eq!(merged[block].0, *count, "{block:?}");
    }
    // Whatever is exempt, all others are counted as if nothing were.
    let found = plan(Path::new(&by));
    let all: Vec<Value> = ["exempt", "measure"]
        .iter()
        .flat_map(|list| found[list].as_array().expect("a list").clone())
        .map(|function| serde_json::json!({"name": function["name"], "address": function["address"]}))
        .collect();
    for seed in 0..6u64 {
        let draw = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(seed as u32 * 9) & 3;
        let (exempt, measure): (Vec<_>, Vec<_>) = (0..).zip(all.clone()).partition(|(i, _)| draw(*i) != 0);
        let mut drawn = found.clone();
        drawn["exempt"] = exempt.iter().map(|(_, function)| function.clone()).collect();
        let wanted = measure.into_iter().map(|(_, mut function)| {
            function["why"] = "drawn".into();
            function
        });
        drawn["measure"] = wanted.collect();
        let by = path("drawn.json");
        std::fs::write(&by, drawn.to_string()).expect("a plan");
        let partial = blocks(&counted(folder, &two, &[&by]));
        let exempt: Vec<&str> =
            exempt.iter().map(|(_, function)| function["name"].as_str().expect("a name")).collect();
        for (block, (count, _)) in &full {
            if !exempt.contains(&&*block.0) {
                assert_eq!(partial[block].0, *count, "{seed}: {block:?} without {exempt:?}");
            }
        }
    }
}

#[test]
fn plans_for_something_else_are_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let [one, two] = [1, 2].map(version);
    let first = profile(folder, "1", &one);
    let by = text(&folder.join("plan.json")).to_string();
    stdout(&[
        "migrate",
        &first,
        "--to",
        text(&two),
        "-o",
        text(&folder.join("carried.rprof")),
        "--plan",
        &by,
    ]);
    let run = |plan: &str| {
        let output = text(&folder.join("x.rprof")).to_string();
        let run = relive(&["run", "-o", &output, "--except", plan, "--", text(&one)]);
        (run.status.code(), String::from_utf8_lossy(&run.stderr).into_owned())
    };
    // The new build is where the plan says, but another is executed.
    let (status, said) = run(&by);
    assert_eq!(status, Some(0));
    assert!(said.contains("was not executed"), "{said}");
    let mut other = plan(Path::new(&by));
    other["new"]["build_id"] = "00112233".into();
    std::fs::write(&by, other.to_string()).expect("a plan");
    let (status, said) = run(&by);
    assert_eq!(status, Some(125));
    assert!(
        said.contains("plan.json") && said.contains("build 00112233") && said.contains("relive migrate"),
        "{said}"
    );
    let (status, said) = run(text(&folder.join("none.json")));
    assert_eq!(status, Some(125));
    assert!(said.contains("none.json"), "{said}");
}
