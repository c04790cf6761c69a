//! Several measured modules in one process.

use relive_abi::parameters::EARLY;

use super::harness::{Bench, Module};

const KINDS: [&[&str]; 2] = [&["-pie"], &["-no-pie"]];

fn bench(args: &'static [&'static str]) -> Bench {
    let bench = Bench::new();
    bench.link(&Module::library("library.c"));
    bench.link(&Module { args, ..Module::executable("host.c") });
    bench
}

#[test]
fn threads_before_and_after_the_library() {
    for args in KINDS {
        let bench = bench(args);
        bench.run_quietly(&["threads"]);
        let (program, library) = (bench.profile("program.rprof"), bench.profile("library.rprof"));
        assert_eq!((program.counter(1), program.runs(), program.lost()), (12_001, 1, 0));
        assert_eq!((library.counter(2), library.runs(), library.lost()), (9001, 1, 0));
        assert_eq!(library.counter(4), 1);
        assert_eq!(library.targets().values().sum::<u64>(), 2 * 8001);
        assert_eq!(library.targets().len(), 2);
    }
}

#[test]
fn without_randomisation() {
    let bench = bench(&["-pie"]);
    let output = std::process::Command::new("setarch")
        .current_dir(bench.dir.path())
        .args(["-R", "./program", "threads"])
        .output();
    let Ok(output) = output else { return };
    assert!(output.status.success(), "{output:?}");
    let (program, library) = (bench.profile("program.rprof"), bench.profile("library.rprof"));
    assert_eq!((program.counter(1), program.lost()), (12_001, 0));
    assert_eq!((library.counter(2), library.lost()), (9001, 0));
}

#[test]
fn only_the_library() {
    let bench = Bench::new();
    bench.link(&Module::library("library.c"));
    bench.compile("host.c", &[]);
    bench.run_quietly(&["threads"]);
    let library = bench.profile("library.rprof");
    assert_eq!((library.counter(2), library.counter(4), library.lost()), (9001, 1, 0));
    assert!(!bench.path("program.rprof").exists());
    bench.run_quietly(&["fork"]);
    let library = bench.profile("library.rprof");
    assert_eq!((library.counter(2), library.counter(4)), (9001 + 1120, 2));
}

#[test]
fn forks_with_a_library() {
    for args in KINDS {
        let bench = bench(args);
        bench.run_quietly(&["fork"]);
        let (program, library) = (bench.profile("program.rprof"), bench.profile("library.rprof"));
        assert_eq!((program.counter(1), program.runs(), program.lost()), (1110, 3, 0));
        assert_eq!((library.counter(2), library.runs(), library.lost()), (1120, 3, 0));
        assert_eq!((program.slots(), library.slots()), (3, 3));
    }
}

#[test]
fn a_library_that_comes_and_goes() {
    for args in KINDS {
        let bench = bench(args);
        bench.run_quietly(&["unload"]);
        let (program, library) = (bench.profile("program.rprof"), bench.profile("library.rprof"));
        assert_eq!((program.counter(1), program.lost()), (21_001, 0));
        assert_eq!((library.counter(2), library.counter(4), library.lost()), (20_207, 21, 0));
        assert!(library.slots() <= 4, "{}", library.slots());
    }
}

#[test]
fn what_was_counted_before_the_start() {
    let bench = Bench::new();
    let args = &["-pie", "-DEARLY"];
    bench.link(&Module { args, flags: EARLY, ..Module::executable("host.c") });
    for n in 1..3 {
        bench.run_quietly(&["nothing"]);
        let program = bench.profile("program.rprof");
        assert_eq!((program.counter(5), program.counter(1)), (3 * n, n));
        let counts: Vec<_> = program.targets().into_values().collect();
        assert_eq!(counts, [3 * n, 3 * n]);
    }
}
