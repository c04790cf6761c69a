//! Whatever is wrong with the profile, the program runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::harness::{Bench, Module};

pub fn is_root() -> bool {
    fs::write("/proc/self/oom_score_adj", "0").is_ok()
        && fs::metadata("/proc/self").is_ok_and(|m| {
            use std::os::unix::fs::MetadataExt;
            m.uid() == 0
        })
}

#[test]
fn a_foreign_file_is_left_alone() {
    let bench = Bench::new();
    bench.link(&Module::executable("basic.c"));
    bench.run_quietly(&["1"]);
    let before = bench.profile("program.rprof").bytes;
    bench.link(&Module { checksum: 0xfeed_f00d_0000_0001, ..Module::executable("basic.c") });
    for n in 1..3 {
        let output = bench.run(&["2"]);
        assert!(output.status.success());
        let path = bench.path("program.rprof").display().to_string();
        let expected = format!(
            "relive: {path} belongs to another build; writing to {} instead\n",
            path.replace(".rprof", ".feedf00d.rprof")
        );
        assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
        assert_eq!(bench.profile("program.rprof").bytes, before);
        assert_eq!(bench.profile("program.feedf00d.rprof").counter(3), 2 * n);
    }
    fs::write(bench.path("notes"), "these are notes").unwrap();
    let output = bench.command(&["1"]).env("RELIVE_PROFILE", "notes").output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("notes is not a profile; writing to"));
    assert_eq!(fs::read(bench.path("notes")).unwrap(), b"these are notes");
    assert_eq!(bench.profile("notes.feedf00d.rprof").counter(3), 1);
}

#[test]
fn without_a_place_to_write_the_program_runs() {
    let bench = Bench::new();
    bench.link(&Module::executable("basic.c"));
    for (place, why) in [
        ("/nowhere/x.rprof", "/nowhere/x.rprof: cannot be created: no such file or directory"),
        ("/proc/x.rprof", "/proc/x.rprof: cannot be created: "),
        ("/dev/null", "/dev/null: not a regular file: "),
    ] {
        let output = bench.command(&["9"]).env("RELIVE_PROFILE", place).output().unwrap();
        assert!(output.status.success(), "{place}: {}", output.status);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.starts_with(&format!("relive: {why}")), "{text}");
        assert!(text.ends_with("; this run is not recorded\n") && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn a_directory_that_is_read_only() {
    let bench = Bench::new();
    bench.link(&Module::executable("basic.c"));
    fs::create_dir(bench.path("locked")).unwrap();
    fs::set_permissions(bench.path("locked"), fs::Permissions::from_mode(0o555)).unwrap();
    let mut command = bench.command(&["9"]);
    command.env("RELIVE_PROFILE", "locked/x.rprof");
    if is_root() {
        fs::set_permissions(bench.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        command.uid(65534);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("locked/x.rprof: cannot be created: permission denied;"), "{text}");
}

#[test]
fn a_limit_of_file_size() {
    let bench = Bench::new();
    bench.link(&Module::executable("basic.c"));
    let shell = |limit: &str| {
        let script = format!("ulimit -f {limit}; exec ./program 4");
        Command::new("sh").current_dir(bench.dir.path()).args(["-c", &script]).output().unwrap()
    };
    let output = shell("16");
    assert!(output.status.success(), "{}", output.status);
    assert!(String::from_utf8_lossy(&output.stderr).contains("limit of file size"));
    assert!(!bench.path("program.rprof").exists());
}

#[test]
fn a_full_disk() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    bench.link(&Module::executable("basic.c"));
    fs::create_dir(bench.path("small")).unwrap();
    // In a mount namespace of its own, which ends with the shell.
    let script = "mount -t tmpfs -o size=40k none small || exit 77\n\
        export RELIVE_PROFILE=small/x.rprof\n\
        sleep 1 | ./program 4 pause > out & sleep 0.3\n\
        ./program 5 2> errors; echo $? > code\n\
        wait; cp small/x.rprof x.rprof";
    let status =
        Command::new("unshare").current_dir(bench.dir.path()).args(["-m", "sh", "-c", script]).status();
    if !status.is_ok_and(|status| status.success()) {
        return;
    }
    assert_eq!(fs::read_to_string(bench.path("code")).unwrap(), "0\n");
    let errors = fs::read_to_string(bench.path("errors")).unwrap();
    assert!(errors.contains("no room for counters: no space left on device"), "{errors}");
    assert_eq!(bench.profile("x.rprof").counter(3), 4);
}

#[test]
fn threads_and_forks_without_a_profile() {
    for (source, what) in
        [("threads.c", "parallel"), ("threads.c", "serial"), ("forks.c", "thread"), ("calls.c", "threads")]
    {
        let bench = Bench::new();
        bench.link(&Module { args: &["-pie"], ..Module::executable(source) });
        let output = bench.command(&[what]).env("RELIVE_PROFILE", "/nowhere/x").output().unwrap();
        assert!(output.status.success(), "{what}: {}", output.status);
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1);
    }
}

#[test]
fn no_descriptors_to_spare() {
    let bench = Bench::new();
    bench.link(&Module { args: &["-pie"], ..Module::executable("threads.c") });
    let script = "ulimit -n 6; exec ./program parallel";
    let status = Command::new("sh").current_dir(bench.dir.path()).args(["-c", script]).status().unwrap();
    assert!(status.success());
    assert_eq!(bench.profile("program.rprof").counter(1), 8_000_001);
}
