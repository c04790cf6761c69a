//! `relive merge`, `dump` and `report` on profiles made by hand.

mod support;

use insta::assert_snapshot;
use relive_profile::file;
use relive_profile::flow;
use relive_profile::model::{Confidence, Count, Counter, Level, Mode, Module, Origin, Source};
use support::{relive, stdout, text, thing, write};

#[test]
fn tables() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let profile = write(folder.path(), "thing.rprof", &thing());
    for table in ["functions", "blocks", "edges", "calls", "loops"] {
        assert_snapshot!(format!("dump_{table}"), stdout(&["dump", &profile, &format!("--{table}")]));
    }
}

#[test]
fn reports() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let profile = write(folder.path(), "thing.rprof", &thing());
    assert_snapshot!("report", stdout(&["report", &profile]));
    assert_snapshot!("report_top", stdout(&["report", &profile, "--top", "1", "--mangled"]));
    assert_snapshot!("report_json", stdout(&["report", &profile, "--json"]));
    assert_snapshot!("report_blocks", stdout(&["report", &profile, "--annotate", "main"]));
    let by_address = stdout(&["report", &profile, "--annotate", "0x1008"]);
    assert_eq!(by_address, stdout(&["report", &profile, "--annotate", "main"]));
    assert!(stdout(&["report", &profile, "--annotate", "foo::bar"]).contains("calls setjmp"));
    let empty = write(folder.path(), "empty.rprof", &Module { counters: Vec::new(), runs: 0, ..thing() });
    assert!(stdout(&["report", &empty]).contains("nothing was executed"));
}

#[test]
fn help() {
    for command in ["merge", "dump", "report"] {
        assert_snapshot!(format!("help_{command}"), stdout(&[command, "--help"]));
    }
}

#[test]
fn other_modes_report_what_they_know() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut blocks = Module { mode: Mode::Blocks, ..thing() };
    let mut next = 0;
    for function in &mut blocks.functions {
        function.edges.iter_mut().for_each(|edge| edge.counter = None);
        for block in &mut function.blocks {
            block.counter = Some(Counter::new(next));
            next += 1;
        }
    }
    blocks.layout.counters = next;
    blocks.counters = vec![10, 1000, 999, 9, 1599, 7];
    let profile = write(folder.path(), "blocks.rprof", &blocks);
    assert_snapshot!("report_mode_blocks", stdout(&["report", &profile]));
    let mut entries = Module { mode: Mode::Functions, ..thing() };
    for function in &mut entries.functions {
        function.edges.iter_mut().skip(1).for_each(|edge| edge.counter = None);
    }
    entries.functions[0].edges[0].counter = Some(Counter::new(0));
    let profile = write(folder.path(), "functions.rprof", &entries);
    assert_snapshot!("report_mode_functions", stdout(&["report", &profile]));
}

/// What was carried over says so, and from what.
#[test]
fn carried_over() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut module = thing();
    flow::recover(&mut module).expect("determined");
    module.layout.counters = 0;
    module.counters = Vec::new();
    let source =
        |steps, path: &str, runs| Source { steps, build_id: vec![0xcd; 20], path: path.into(), runs };
    module.carried = vec![source(1, "/opt/thing", 2), source(3, "/opt/old/thing", 1)];
    let counts = module.functions.iter_mut().flat_map(|function| {
        let blocks = function.blocks.iter_mut().map(|block| (&mut block.counter, &mut block.count));
        blocks.chain(function.edges.iter_mut().map(|edge| (&mut edge.counter, &mut edge.count)))
    });
    let origins = [
        Origin::Matched(Level::One),
        Origin::Matched(Level::LastThree),
        Origin::ControlFlow,
        Origin::Inferred,
    ];
    for ((counter, count), (origin, percent)) in counts.zip(origins.into_iter().zip([98, 70, 60, 5]).cycle())
    {
        *counter = None;
        *count = count.map(|Count { raw, .. }| Count { raw, origin, confidence: Confidence::new(percent) });
    }
    let profile = write(folder.path(), "carried.rprof", &module);
    assert_snapshot!("report_carried", stdout(&["report", &profile, "--top", "1"]));
    assert_snapshot!("dump_blocks_carried", stdout(&["dump", &profile, "--blocks"]));
    assert_snapshot!("dump_edges_carried", stdout(&["dump", &profile, "--edges"]));
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&["report", &profile, "--json"])).expect("JSON");
    assert_eq!(json["modules"][0]["carried"][1]["path"], "/opt/old/thing");
    assert_eq!(json["modules"][0]["carried"][1]["steps"], 3);
    assert_eq!(json["modules"][0]["origins"]["control-flow"], 999);
}

#[test]
fn sums() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let one = write(folder.path(), "one.rprof", &thing());
    let other_build = Module { build_id: vec![0xcd; 20], ..thing() };
    let other = write(folder.path(), "other.rprof", &other_build);
    let sum = text(&folder.path().join("sum.rprof")).to_string();
    stdout(&["merge", &one, &one, &one, "-o", &sum]);
    let merged = file::read(&std::fs::read(&sum).expect("written")).expect("readable");
    assert_eq!(merged.modules.len(), 1);
    assert_eq!(merged.modules[0].runs, 6);
    assert_eq!(merged.modules[0].counters, [30, 2997, 3, 4797, 21]);
    // In place, and builds stay apart.
    let output = relive(&["merge", &sum, &other, "-o", &sum]);
    assert!(output.status.success());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("/opt/thing: profiles of different builds stay apart"), "{message}");
    assert_snapshot!("report_two_modules", stdout(&["report", &sum, "--top", "3"]));
    assert_eq!(stdout(&["dump", &sum, "--blocks"]).lines().count(), 13);
}

#[test]
fn bad_files_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let good = file::file_image(&thing());
    let path = folder.path().join("bad.rprof");
    let refused = |bytes: Option<&[u8]>, why: &str| {
        match bytes {
            Some(bytes) => std::fs::write(&path, bytes).expect("a writable folder"),
            None => std::fs::remove_file(&path).expect("a writable folder"),
        }
        let out = text(&folder.path().join("out")).to_string();
        let bad = text(&path);
        for args in [
            vec!["report", bad],
            vec!["report", bad, "--annotate", "main"],
            vec!["dump", bad, "--blocks", "-o", &out],
            vec!["merge", bad, "-o", &out],
        ] {
            let output = relive(&args);
            let message = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
            assert_eq!(output.stdout, b"", "{args:?}");
            assert!(message.starts_with(&format!("relive: {bad}")), "{message}");
            assert!(message.contains(why), "{why}: {message}");
            assert!(message.trim_end().ends_with(')') && message.lines().count() == 1, "{message}");
        }
        assert!(!std::path::Path::new(&out).exists());
    };
    refused(Some(b""), "empty");
    refused(Some(b"\x7fELF..."), "not a profile");
    refused(Some(&good[..50]), "damaged: header: the file ends");
    refused(Some(&good[..4200]), "damaged: description: the file ends");
    let mut other_version = good.clone();
    other_version[8] = 9;
    refused(Some(&other_version), "a profile of version 9; this tool reads version 1");
    let mut damaged = good.clone();
    damaged[4096 + 30] ^= 0x55;
    refused(Some(&damaged), "damaged: description");
    refused(Some(&[good.as_slice(), &[0; 100]].concat()), "damaged: slot 0: the file ends");
    refused(None, "no such file");
}

#[test]
fn a_missing_function_is_an_error_that_helps() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let profile = write(folder.path(), "thing.rprof", &thing());
    let output = relive(&["report", &profile, "--annotate", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("nowhere") && message.contains("--functions"), "{message}");
    assert_eq!(relive(&["dump", &profile]).status.code(), Some(2));
    assert_eq!(relive(&["dump", &profile, "--blocks", "--edges"]).status.code(), Some(2));
}
