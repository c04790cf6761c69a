//! Programs under the engine: they behave as they do without it, and what they executed is counted exactly.
//!
//! The programs are those of the tests of `relive instrument`: they print what they expect of the profile.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../instrument/kit.rs"]
mod kit;

mod attach;
mod limits;

use kit::{Lab, Profile, Ran, relive};
use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

/// Runs a program under the engine.
fn run(lab: &Lab, program: &Path, args: &[&str]) -> Ran {
    let mut command = relive();
    command.current_dir(lab.folder()).env_remove("LD_LIBRARY_PATH").stdin(std::process::Stdio::null());
    command.args(["run", "-o", "run.rprof", "--modules", "*/program", "--"]).arg(program).args(args);
    lab.finish(command)
}

fn check(how: &str, source: &str, args: &[&str]) {
    let lab = Lab::new();
    if !lab.can_build(how) {
        return;
    }
    let native = lab.build(how, source, "program");
    let expected = lab.run(&native, args);
    let got = run(&lab, &native, args);
    let what = format!("{how} {source} {args:?}");
    got.behaves_as(&expected, &what);
    Profile(lab.path("run.rprof")).meets(&got.stdout, &what);
}

#[test]
fn exceptions() {
    for how in ["g++ -O0 -std=c++14", "g++ -O2 -std=c++14", "g++ -O3 -no-pie -fno-pie", "g++ -O2 -static"] {
        check(how, "exceptions.cc", &[]);
    }
}

#[test]
fn panics() {
    check("rustc -O", "panics.rs", &[]);
}

#[test]
fn ways_out() {
    for how in ["gcc -O0", "gcc -O2", "gcc -Os -static-pie -fPIE"] {
        for way in ["normal", "exit", "quick_exit", "_exit", "abort", "segv"] {
            check(how, "jumps.c", &[way]);
        }
    }
}

#[test]
fn signals_and_stacks() {
    for how in ["gcc -O0", "gcc -O2"] {
        check(how, "signals.c", &[]);
        check(how, "contexts.c", &[]);
        check(how, "assembly.c", &[]);
        check(how, "interrupted.c", &[]);
    }
    check("g++ -O2", "before_and_after.cc", &[]);
}

#[test]
fn registers_of_all_kinds() {
    if std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" avx ")) {
        check("gcc -O2 -mavx", "registers.c", &[]);
    }
}

#[test]
fn threads() {
    check("g++ -O2 -pthread", "threads.cc", &[]);
    check("gcc -O2 -pthread", "cancelled.c", &[]);
}

#[test]
fn indirect_calls() {
    check("g++ -O2", "calls.cc", &[]);
    check("gcc -O2", "storm.c", &[]);
}

#[test]
fn processes() {
    let lab = Lab::new();
    let native = lab.build("gcc -O2", "processes.c", "program");
    let expected = lab.run(&native, &[]);
    run(&lab, &native, &[]).behaves_as(&expected, "processes");
}

/// Every block and edge that a rewritten program counts, in one that is not.
#[test]
fn counts_as_instrument() {
    for (how, source) in
        [("gcc -O2", "loops.c"), ("gcc -O0", "mix.c"), ("gcc -O2", "mix.c"), ("clang-19 -O2", "mix.c")]
    {
        let lab = Lab::new();
        if !lab.can_build(how) {
            continue;
        }
        let native = lab.build(how, source, "program");
        let counted = lab.instrument(&native, &[]);
        let expected = lab.run(&counted, &[]);
        run(&lab, &native, &[]).behaves_as(&expected, source);
        let (rewritten, engine) = (lab.profile(&counted), Profile(lab.path("run.rprof")));
        let found: HashMap<_, _> = engine.blocks().into_iter().map(|b| (b.address, b.count)).collect();
        for block in rewritten.blocks().into_iter().filter(|b| b.count.is_some()) {
            assert_eq!(
                found[&block.address], block.count,
                "{how} {source} {} {:#x}",
                block.function, block.address
            );
        }
        let place = |e: &kit::Edge| (e.function.clone(), e.from.clone(), e.to.clone());
        let found: HashMap<_, _> = engine.edges().into_iter().map(|e| (place(&e), e.count)).collect();
        for edge in rewritten.edges().into_iter().filter(|e| e.count.is_some()) {
            assert_eq!(found[&place(&edge)], edge.count, "{how} {source} {edge:?}");
        }
        engine.adds_up(source);
    }
}

/// What a process has counted is there, whatever became of it.
#[test]
fn killed() {
    let lab = Lab::new();
    let native = lab.build("gcc -O2", "processes.c", "program");
    let script = format!("{} >/dev/null; kill -9 $$", native.display());
    let mut command = relive();
    command.current_dir(lab.folder()).args(["run", "-o", "killed.rprof", "--", "/bin/sh", "-c", &script]);
    let ran = lab.finish(command);
    assert_eq!(ran.status.signal(), Some(9), "{}", ran.stderr);
    let modules = Profile(lab.path("killed.rprof")).report()["modules"].as_array().expect("modules").len();
    assert!(modules >= 3, "the shell, its libraries and the program: {modules}");
}

#[test]
fn system_programs() {
    for command in [
        &["/bin/ls", "/"][..],
        &["/bin/sh", "-c", "echo one; (echo two; exit 3); echo $?; seq 1000 | sort -n | tail -1"],
        &["/bin/false"],
        &["perl", "-e", "my %h; $h{$_ % 97}++ for 1..10000; print scalar keys %h"],
        &["/bin/sh", "-c", "kill -TERM $$"],
    ] {
        let lab = Lab::new();
        let expected = lab.run(Path::new(command[0]), &command[1..]);
        let mut under = relive();
        under.current_dir(lab.folder()).args(["run", "--no-count", "--"]).args(command);
        under.stdin(std::process::Stdio::null());
        lab.finish(under).behaves_as(&expected, &format!("{command:?}"));
    }
}

/// A signal for the tool is one for the command: the tool has a profile to write.
#[test]
fn told_to_end() {
    for (script, code, says) in [
        ("kill -INT $PPID; sleep 0.1; echo alive", 0, "alive"),
        ("trap 'echo told; exit 7' TERM; kill -TERM $PPID; sleep 5 & wait", 7, "told"),
    ] {
        let lab = Lab::new();
        let mut command = relive();
        command.current_dir(lab.folder()).args(["run", "-o", "told.rprof", "--", "/bin/sh", "-c", script]);
        let ran = lab.finish(command);
        assert_eq!((ran.status.code(), ran.stdout.trim()), (Some(code), says), "{script}: {}", ran.stderr);
        assert!(Profile(lab.path("told.rprof")).exists(), "{script}");
    }
}

#[test]
fn what_cannot_be_run() {
    let lab = Lab::new();
    for (program, code) in [("./no-such-program", 127), ("/etc/passwd", 126)] {
        let mut command = relive();
        command.current_dir(lab.folder()).args(["run", "--", program]);
        let ran = lab.finish(command);
        assert_eq!(ran.status.code(), Some(code), "{}", ran.stderr);
        assert!(ran.stderr.contains(program), "{}", ran.stderr);
    }
    let mut command = relive();
    command.current_dir(lab.folder()).args(["run", "-o", "no/such/folder.rprof", "--", "/bin/echo", "ran"]);
    let ran = lab.finish(command);
    assert_eq!(
        (ran.status.code(), ran.stdout.as_str()),
        (Some(125), ""),
        "said before it runs: {}",
        ran.stderr
    );
    assert!(ran.stderr.contains("no/such"), "{}", ran.stderr);
}
