//! The profile of a trace is that of the same run.

use super::{entries, remove_names};
use crate::kit::{Lab, Profile, Ran, relive};
use std::collections::HashMap;
use std::path::Path;

/// Traces a program, and makes a profile of the trace.
fn profile(lab: &Lab, how: &[&str], program: &Path, args: &[&str], options: &[&str]) -> Ran {
    let mut command = relive();
    command.current_dir(lab.folder()).env_remove("LD_LIBRARY_PATH").stdin(std::process::Stdio::null());
    command.args(["trace", "-q", "-o", "run.rtrace"]).args(how).arg("--").arg(program).args(args);
    let traced = lab.finish(command);
    let mut command = relive();
    command.current_dir(lab.folder()).args(["analyze", "profile", "run.rtrace", "-o", "traced.rprof"]);
    command.args(options);
    let analyzed = lab.finish(command);
    assert_eq!((analyzed.status.code(), analyzed.stderr.as_str()), (Some(0), ""), "{how:?}");
    traced
}

const PROGRAM: &[&str] = &["--modules", "*/program"];

/// All of it: blocks, edges, targets of calls, what was never executed.
#[test]
fn the_same_profile() {
    for (how, source) in [
        ("gcc -O2", "loops.c"),
        ("gcc -O0", "mix.c"),
        ("gcc -O2", "mix.c"),
        ("g++ -O2", "calls.cc"),
        ("g++ -O2 -std=c++14", "exceptions.cc"),
    ] {
        let lab = Lab::new();
        let native = lab.build(how, source, "program");
        let expected = super::run(&lab, &native, &[]);
        for kind in [&[][..], &["--control-flow-only"]] {
            profile(&lab, kind, &native, &[], PROGRAM).behaves_as(&expected, source);
            let [run, traced] = ["run.rprof", "traced.rprof"].map(|name| Profile(lab.path(name)));
            for table in ["--functions", "--blocks", "--edges", "--calls"] {
                let (run, traced) = (run.table(table), traced.table(table));
                assert!(run.len() > 3, "{table}");
                for (own, other) in traced.iter().zip(&run) {
                    assert_eq!(own, other, "{how} {source} {kind:?} {table}");
                }
                assert_eq!(traced.len(), run.len(), "{how} {source} {kind:?} {table}");
            }
        }
    }
}

/// Programs that say themselves what is in their profile.
#[test]
fn what_is_expected() {
    for (how, source, args) in [
        ("g++ -O2 -pthread", "threads.cc", &[][..]),
        ("gcc -O2 -pthread", "cancelled.c", &[]),
        ("gcc -O2", "signals.c", &[]),
        ("gcc -O2", "jumps.c", &["abort"]),
        ("gcc -O2", "jumps.c", &["segv"]),
        ("gcc -O2", "generated.c", &[]),
        ("gcc -O2", "generated.c", &["writable"]),
        ("gcc -O2", "generated.c", &["named"]),
    ] {
        let lab = Lab::new();
        let native = lab.build(how, source, "program");
        let what = format!("{how} {source} {args:?}");
        // Code that a program makes is in no file.
        let modules = if source == "generated.c" { &[] } else { PROGRAM };
        let got = profile(&lab, &["--control-flow-only"], &native, args, modules);
        got.behaves_as(&lab.run(&native, args), &what);
        Profile(lab.path("traced.rprof")).meets(&got.stdout, &what);
    }
    remove_names();
}

/// Blocks and edges of known work, whatever signals do meanwhile.
#[test]
fn signals() {
    let lab = Lab::new();
    let native = lab.build("gcc -O2 -pthread", "../../run/programs/diversions.c", "program");
    let counts = |signals: &str| {
        let ran = profile(&lab, &["--control-flow-only"], &native, &[signals], PROGRAM);
        let rounds: u64 = ran.stdout.trim().parse().expect("a number");
        let profile = Profile(lab.path("traced.rprof"));
        let known = |function: &str| ["work", "steps", "choose"].contains(&function);
        let edges = profile.edges().into_iter().filter(|e| known(&e.function));
        (rounds, edges.map(|e| ((e.function, e.from, e.to), e.count)).collect::<HashMap<_, _>>())
    };
    let ((calm, expected), (rounds, found)) = (counts("0"), counts("300"));
    assert!(rounds > calm && found.len() == expected.len());
    for (place, count) in &expected {
        assert_eq!(found[place], count.map(|count| count / calm * rounds), "{place:?}, {rounds} times");
    }
}

/// A profile for each process.
#[test]
fn processes() {
    let lab = Lab::new();
    let native = lab.build("gcc -O1", "family.c", "program");
    let counts = |file: &str| {
        let profile = Profile(lab.path(file));
        ["in_parent", "in_fork", "in_vfork", "in_program"].map(|name| entries(&profile, name))
    };
    profile(&lab, &[], &native, &[], PROGRAM);
    assert_eq!(counts("traced.rprof"), [Some(1), Some(2), Some(3), Some(4)]);
    profile(&lab, &[], &native, &[], &["--per-process", "--modules", "*/program"]);
    assert_eq!(counts("traced.1.rprof"), [Some(1), Some(0), Some(3), Some(0)]);
    assert_eq!(counts("traced.2.rprof"), [Some(0), Some(2), Some(0), Some(0)]);
    assert_eq!(counts("traced.3.rprof"), [Some(0), Some(0), Some(0), Some(4)]);
}

/// A file that has changed since is left out, and somebody says so.
#[test]
fn another_build() {
    let lab = Lab::new();
    let native = lab.build("gcc -O2", "loops.c", "program");
    profile(&lab, &[], &native, &[], &[]);
    lab.build("gcc -O0", "loops.c", "program");
    let mut command = relive();
    command.current_dir(lab.folder()).args(["analyze", "profile", "run.rtrace", "-o", "again.rprof"]);
    let ran = lab.finish(command);
    assert_eq!(ran.status.code(), Some(0));
    assert!(ran.stderr.contains("program is not the build that was traced"), "{}", ran.stderr);
    let modules = |file: &str| {
        let rows = Profile(lab.path(file)).table("--functions");
        rows.iter().any(|row| row[0].ends_with("/program"))
    };
    assert_eq!((modules("traced.rprof"), modules("again.rprof")), (true, false));
}
