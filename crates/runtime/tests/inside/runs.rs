//! Profiles of one process after another, and of several at a time.

use std::fs;

use super::harness::{Bench, Module, new_file};

#[test]
fn a_profile_is_created_and_grows() {
    for args in [&["-no-pie"][..], &["-pie"], &["-static"], &["-static-pie"]] {
        let bench = Bench::new();
        bench.link(&Module { args, ..Module::executable("basic.c") });
        bench.run_quietly(&["10"]);
        let first = bench.profile("program.rprof");
        assert_eq!((first.counter(3), first.counter(599)), (10, 1), "{args:?}");
        assert_eq!((first.runs(), first.slots(), first.lost()), (1, 1, 0));
        assert_eq!(first.bytes[..8192], new_file(0x1234_5678_9abc_def0)[..]);
        bench.run_quietly(&["5", "exit"]);
        let second = bench.profile("program.rprof");
        assert_eq!((second.counter(3), second.counter(599)), (15, 2));
        assert_eq!((second.runs(), second.slots()), (2, 1));
        assert!(second.word(0, 32) > 1_700_000_000 && second.word(0, 40) >= second.word(0, 32));
        let left: Vec<_> = fs::read_dir(bench.dir.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
        assert!(!left.iter().any(|name| name.to_string_lossy().contains("tmp")), "{left:?}");
    }
}

#[test]
fn nothing_is_lost_however_it_ends() {
    let bench = Bench::new();
    bench.link(&Module::executable("basic.c"));
    for how in ["kill", "segv"] {
        assert!(!bench.run(&["100", how]).status.success());
    }
    let profile = bench.profile("program.rprof");
    assert_eq!((profile.counter(3), profile.counter(599)), (200, 2));
    assert_eq!((profile.runs(), profile.slots()), (2, 1));
}

#[test]
fn processes_at_the_same_time_have_slots_of_their_own() {
    let bench = Bench::new();
    bench.link(&Module::executable("basic.c"));
    let one = bench.start(&["1", "pause"]);
    let two = bench.start(&["2", "pause"]);
    let three = bench.start(&["4", "pause"]);
    assert_eq!(bench.profile("program.rprof").slots(), 3);
    two.kill();
    // Takes the place of the one that is gone.
    let four = bench.start(&["8", "pause"]);
    let profile = bench.profile("program.rprof");
    let counts: Vec<_> = (0..profile.slots()).map(|slot| profile.counter_in(slot, 3)).collect();
    assert_eq!(counts, [1, 10, 4]);
    one.finish();
    three.finish();
    four.finish();
    bench.run_quietly(&["16"]);
    let profile = bench.profile("program.rprof");
    assert_eq!((profile.slots(), profile.counter(3), profile.runs()), (3, 31, 5));
}

#[test]
fn many_start_at_once() {
    let bench = Bench::new();
    bench.link(&Module::executable("basic.c"));
    let all: Vec<_> = (0..24).map(|_| bench.command(&["7"]).spawn().unwrap()).collect();
    for mut child in all {
        assert!(child.wait().unwrap().success());
    }
    let profile = bench.profile("program.rprof");
    assert_eq!((profile.counter(3), profile.runs(), profile.lost()), (24 * 7, 24, 0));
}

#[test]
fn the_environment_says_where() {
    let bench = Bench::new();
    bench.link(&Module::executable("basic.c"));
    fs::create_dir(bench.path("sub")).unwrap();
    let child = bench.command(&["3"]).env("RELIVE_PROFILE", "sub/%e-%p-%%.dat").spawn().unwrap();
    let id = child.id();
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(bench.profile(&format!("sub/program-{id}-%.dat")).counter(3), 3);
    assert!(!bench.path("program.rprof").exists());
    let absolute = bench.path("sub/absolute");
    assert!(bench.command(&["4"]).env("RELIVE_PROFILE", &absolute).status().unwrap().success());
    assert_eq!(bench.profile("sub/absolute").counter(3), 4);
    assert!(bench.command(&["5"]).env("RELIVE_PROFILE", "").status().unwrap().success());
    assert_eq!(bench.profile("program.rprof").counter(3), 5);
}

#[test]
fn exec_is_a_run_of_its_own() {
    let bench = Bench::new();
    bench.link(&Module::executable("basic.c"));
    bench.run_quietly(&["5", "exec"]);
    let profile = bench.profile("program.rprof");
    assert_eq!((profile.counter(3), profile.runs(), profile.slots()), (105, 2, 1));
}

#[test]
fn a_child_that_lives_on_does_not_keep_the_slot_of_its_parent() {
    let bench = Bench::new();
    bench.link(&Module { args: &["-pie"], ..Module::executable("basic.c") });
    let mut daemon = bench.start(&["1", "daemon"]);
    daemon.child.wait().unwrap();
    assert_eq!(bench.profile("program.rprof").slots(), 2);
    bench.run_quietly(&["2"]);
    let profile = bench.profile("program.rprof");
    assert_eq!((profile.counter(3), profile.runs(), profile.slots()), (3, 3, 2));
    drop(daemon.child.stdin.take());
}

#[test]
fn a_program_with_privileges_does_not_listen_to_the_environment() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    if !super::failures::is_root() {
        return;
    }
    let bench = Bench::new();
    let program = bench.link(&Module::executable("basic.c"));
    for (path, mode) in [(bench.dir.path(), 0o755), (program.as_path(), 0o4755)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut command = bench.command(&["3"]);
    command.env("RELIVE_PROFILE", "/nowhere/x.rprof").uid(65534);
    let output = command.output().unwrap();
    if !String::from_utf8_lossy(&output.stderr).contains("/nowhere") {
        assert_eq!(bench.profile("program.rprof").counter(3), 3);
    } else {
        // The file system ignores the bit.
        assert!(!bench.path("program.rprof").exists());
    }
}
