//! Programs under the engine: they behave as they do without it, and what they executed is counted exactly.
//!
//! The programs are those of the tests of `relive instrument`: they print what they expect of the profile.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../instrument/kit.rs"]
mod kit;

mod attach;
mod large;
mod limits;
mod traced;

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

/// Programs that make it hard for the engine. `relive-benchmarks torture` runs them many times.
#[test]
fn torture() {
    for (source, how) in [
        ("changing_code.c", &["gcc -O2 -w", "gcc -O0 -w"][..]),
        ("faults.c", &["gcc -O2", "gcc -O0 -fcf-protection=full"]),
        ("gs.c", &["gcc -O2", "gcc -O0 -no-pie"]),
        ("odd_instructions.c", &["gcc -O2", "gcc -O1 -static"]),
        ("process_storm.c", &["gcc -O2"]),
        ("signal_masks.c", &["gcc -O2"]),
        ("signal_storm.c", &["gcc -O2", "gcc -O0"]),
        ("stacks.c", &["gcc -O2"]),
        ("thread_storm.c", &["gcc -O2"]),
        ("throws.cc", &["g++ -O2", "g++ -O2 -static"]),
    ] {
        for how in how {
            check(how, &format!("../../run/programs/{source}"), &[]);
        }
    }
}

/// Functions that are called a second time, behind their beginning, when they have been given a larger stack.
#[test]
fn split_stacks() {
    let lab = Lab::new();
    if lab.can_build("gcc -fsplit-stack") {
        let native = lab.build("gcc -O2 -fsplit-stack", "../../run/programs/stacks.c", "program");
        let expected = lab.run(&native, &[]);
        run(&lab, &native, &[]).behaves_as(&expected, "split stacks");
    }
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

/// Code that a program makes is counted like any other, each version of it apart.
#[test]
fn generated_code() {
    for args in [&[][..], &["writable"], &["named"]] {
        let lab = Lab::new();
        let native = lab.build("gcc -O2", "generated.c", "program");
        let expected = lab.run(&native, args);
        let mut command = relive();
        command.current_dir(lab.folder()).args(["run", "-o", "run.rprof", "--"]).arg(&native).args(args);
        let got = lab.finish(command);
        got.behaves_as(&expected, "generated.c");
        let profile = Profile(lab.path("run.rprof"));
        profile.meets(&got.stdout, "generated.c");
    }
    remove_names();
}

/// What `generated.c` has left for `perf`.
fn remove_names() {
    for file in std::fs::read_dir("/tmp").expect("it is there").flatten() {
        let is_map = file.file_name().to_string_lossy().starts_with("perf-");
        let text =
            if is_map { std::fs::read_to_string(file.path()).unwrap_or_default() } else { String::new() };
        if text.starts_with("70000000 9 sum\n70001000 1f twice\n") {
            let _ = std::fs::remove_file(file.path());
        }
    }
}

/// How often a function of a profile was entered.
fn entries(profile: &Profile, name: &str) -> Option<u64> {
    profile.functions().iter().find(|f| f.name == name)?.entries
}

/// A profile for each process, or only of the first.
#[test]
fn children_apart_or_not_at_all() {
    let lab = Lab::new();
    let native = lab.build("gcc -O1", "family.c", "program");
    let run = |how: &str| {
        let mut command = relive();
        command.current_dir(lab.folder()).args([
            "run",
            "-o",
            "run.rprof",
            "--modules",
            "*/program",
            how,
            "--",
        ]);
        lab.finish(command_with(command, &native))
    };
    let counts = |file: &str| {
        let profile = Profile(lab.path(file));
        ["in_parent", "in_fork", "in_vfork", "in_program"].map(|name| entries(&profile, name))
    };
    let all = run("--follow-children");
    assert_eq!(all.stdout, "fork 2\nvfork 3\nprogram 4\n", "{}", all.stderr);
    assert_eq!(counts("run.rprof"), [Some(1), Some(2), Some(3), Some(4)]);
    assert_eq!(run("--per-process").stdout, all.stdout);
    assert_eq!(
        counts("run.1.rprof"),
        [Some(1), Some(0), Some(3), Some(0)],
        "vfork has the memory of its parent"
    );
    assert_eq!(counts("run.2.rprof"), [Some(0), Some(2), Some(0), Some(0)]);
    assert_eq!(counts("run.3.rprof"), [Some(0), Some(0), Some(0), Some(4)]);
    assert!(!lab.path("run.4.rprof").exists());
    assert_eq!(run("--follow-children=no").stdout, all.stdout);
    assert_eq!(counts("run.rprof"), [Some(1), Some(0), Some(0), Some(0)]);
}

fn command_with(mut command: std::process::Command, program: &Path) -> std::process::Command {
    command.arg(program);
    command
}

/// Code that is given up and translated again, while threads are in it, goes on counting where it did.
#[test]
fn a_small_cache() {
    let lab = Lab::new();
    let native = lab.build("gcc -O2 -pthread", "much.c", "program");
    let expected = lab.run(&native, &[]);
    let run = |size: &str| {
        let mut command = relive();
        command.current_dir(lab.folder()).args(["run", "-o", "run.rprof", "--modules", "*/program"]);
        command.args(["--engine-stats", "--cache-size", size, "--"]);
        let got = lab.finish(command_with(command, &native));
        assert_eq!(got.stdout, expected.stdout, "{size}: {}", got.stderr);
        let renewed = got.stderr.lines().find_map(|line| line.strip_prefix("cache renewed"));
        let renewed: u64 =
            renewed.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).expect("a number");
        let profile = Profile(lab.path("run.rprof"));
        profile.meets(&got.stdout, size);
        profile.adds_up(size);
        let blocks = profile.blocks().into_iter().filter(|b| b.function != "tick");
        (renewed, blocks.map(|b| (b.address, b.count)).collect::<Vec<_>>())
    };
    let (large, small) = (run("512"), run("1"));
    assert_eq!(large.0, 0);
    assert!(small.0 >= 3, "{}", small.0);
    assert_eq!(large.1, small.1);
}

/// Code of the kernel is in no file, but has names.
#[test]
fn the_kernels_own_code() {
    let lab = Lab::new();
    let native = lab.build("gcc -O2", "clock.c", "program");
    let mut command = relive();
    command
        .current_dir(lab.folder())
        .args(["run", "-o", "run.rprof", "--modules", "?vdso?", "--"])
        .arg(&native);
    assert!(lab.finish(command).status.success());
    let functions = Profile(lab.path("run.rprof")).functions();
    let clock = functions.iter().find(|f| f.name.contains("clock_gettime")).expect("it has a name");
    assert_eq!(clock.entries, Some(100));
}

#[test]
fn indirect_calls() {
    check("g++ -O2", "calls.cc", &[]);
    check("gcc -O2", "storm.c", &[]);
}

/// The same output and exit status as natively, whatever is counted.
fn behaves(how: &str, source: &str) {
    let lab = Lab::new();
    let native = lab.build(how, source, "program");
    let expected = lab.run(&native, &[]);
    run(&lab, &native, &[]).behaves_as(&expected, source);
}

#[test]
fn processes() {
    behaves("gcc -O2", "processes.c");
}

#[test]
fn borders_of_memory() {
    behaves("gcc -O2", "borders.c");
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

/// Blocks and edges are counted exactly, whatever signals do meanwhile, and though a thread is ended in the middle of something.
#[test]
fn diversions() {
    let lab = Lab::new();
    for how in ["gcc -O2 -pthread", "gcc -O0 -pthread"] {
        let native = lab.build(how, "../../run/programs/diversions.c", "program");
        // How often each block and edge of the known work was executed, and how often that was done.
        let counts = |signals: &str, cache: &str| {
            let mut command = relive();
            command.current_dir(lab.folder()).args(["run", "-o", "run.rprof", "--modules", "*/program"]);
            command.args(["--cache-size", cache, "--"]).arg(&native).arg(signals);
            let ran = lab.finish(command);
            assert_eq!((ran.status.code(), ran.stderr.as_str()), (Some(0), ""), "{how}");
            let rounds: u64 = ran.stdout.trim().parse().expect("a number");
            let profile = Profile(lab.path("run.rprof"));
            let known = |function: &str| ["work", "steps", "choose"].contains(&function);
            let blocks = profile.blocks().into_iter().filter(|b| known(&b.function));
            let edges = profile.edges().into_iter().filter(|e| known(&e.function));
            let blocks = blocks.map(|b| ((b.function, format!("{:#x}", b.address), String::new()), b.count));
            let edges = edges.map(|e| ((e.function, e.from, e.to), e.count));
            (rounds, blocks.chain(edges).collect::<HashMap<_, _>>())
        };
        let (calm, expected) = counts("0", "512");
        for cache in ["512", "1"] {
            let (rounds, found) = counts("300", cache);
            assert!(rounds > calm);
            assert_eq!(found.len(), expected.len());
            for (place, count) in &expected {
                let due = count.map(|count| count / calm * rounds);
                assert_eq!(found[place], due, "{how}, cache of {cache}: {place:?}, {rounds} times");
            }
        }
    }
}

/// Each of many processes is counted once, though what they have counted is taken away while others go on.
#[test]
fn many_processes() {
    let lab = Lab::new();
    let script = "i=0; while [ $i -lt 200 ]; do (exit 3); i=$((i + 1)); done; (exec /bin/true); echo $i";
    let mut command = relive();
    command.current_dir(lab.folder()).args(["run", "-o", "many.rprof", "--engine-stats", "--"]);
    command.args(["/bin/sh", "-c", script]);
    let ran = lab.finish(command);
    assert_eq!((ran.status.code(), ran.stdout.as_str()), (Some(0), "200\n"), "{}", ran.stderr);
    let processes = ran.stderr.lines().find_map(|line| line.strip_prefix("processes")).expect("a line");
    // The shell, its 200 children, the one that became another program, and that program.
    assert_eq!(processes.trim(), "203");
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

/// All translations are right: as they were made for the program's code, for its counters, and along usual ways.
#[test]
fn verified() {
    for (how, source) in [("gcc -O2", "mix.c"), ("g++ -O2", "exceptions.cc")] {
        let lab = Lab::new();
        let native = lab.build(how, source, "program");
        let expected = lab.run(&native, &[]);
        for options in [&["--no-count"][..], &["-o", "run.rprof", "--modules", "*/program"]] {
            let mut command = relive();
            command.current_dir(lab.folder()).args(["run", "--verify"]).args(options).arg("--");
            let got = lab.finish(command_with(command, &native));
            assert_eq!((got.status, &got.stdout), (expected.status, &expected.stdout), "{}", got.stderr);
            let said =
                got.stderr.lines().find(|line| line.ends_with("translations do what the program does"));
            let number = said.and_then(|line| line.split(' ').nth(1)?.replace(',', "").parse::<u64>().ok());
            assert!(number.is_some_and(|n| n > 500), "{}", got.stderr);
        }
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
