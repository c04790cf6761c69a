//! Programs that may not have much, or want to have less.

use crate::kit::{Lab, relive};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;

/// Runs a script without the engine, then under it: within a limit, or limiting itself.
#[test]
fn few_addresses() {
    for limit in ["ulimit -v 2000000", "ulimit -d 1000000", "ulimit -s 200", "ulimit -n 20"] {
        for script in [
            "echo $(echo a; (echo b)); ls / | sort | head -1",
            "perl -e 'print join \",\", map { $_ * 2 } 1..9'",
        ] {
            let tool = env!("CARGO_BIN_EXE_relive");
            let (outside, inside) = (
                format!("{limit}; exec {tool} run --no-count -- /bin/bash -c \"$0\""),
                format!("exec {tool} run --no-count -- /bin/bash -c '{limit}; eval \"$0\"' \"$0\""),
            );
            let lab = Lab::new();
            let run = |way: &str| {
                let mut command = lab.command("/bin/bash".as_ref(), &["-c", way, script]);
                command.stdin(Stdio::null());
                lab.finish(command)
            };
            let expected = run(&format!("{limit}; exec /bin/bash -c \"$0\""));
            assert!(expected.status.success(), "{limit}: {}", expected.stderr);
            for way in [outside, inside] {
                run(&way).behaves_as(&expected, &format!("{way} {script}"));
            }
        }
    }
}

/// A program that is where the engine would be is not measured, which is said; one that a command starts goes on without.
#[test]
fn taken_address() {
    let lab = Lab::new();
    let how = "gcc -nostdlib -static -no-pie -fno-pie -Wl,-Ttext-segment=0x1fffc0000000";
    let program = lab.build(how, "../../run/programs/far_away.c", "program");
    let run = |command: &[&str]| {
        let mut tool = relive();
        tool.current_dir(lab.folder()).args(["run", "--no-count", "--"]).args(command);
        lab.finish(tool)
    };
    let program = program.to_str().expect("UTF-8");
    let alone = run(&[program]);
    assert_eq!(alone.status.code(), Some(125), "{}", alone.stderr);
    assert!(alone.stderr.contains("where the engine would go"), "{}", alone.stderr);
    let started = run(&["/bin/sh", "-c", &format!("{program}; echo $?")]);
    assert_eq!((started.status.code(), started.stdout.as_str()), (Some(0), "7\n"), "{}", started.stderr);
    assert!(started.stderr.contains("is not followed"), "{}", started.stderr);
}

/// A program that restricts its system calls is let go, and says so.
#[test]
fn seccomp() {
    for args in [&[][..], &["threads"]] {
        let lab = Lab::new();
        let source = format!("{}/tests/run/programs/restricted.c", env!("CARGO_MANIFEST_DIR"));
        let program = lab.build("gcc -O1 -pthread", &source, "program");
        let expected = lab.run(&program, args);
        assert_eq!(
            (expected.status.code(), expected.stdout.as_str()),
            (Some(3), "asked -1\nrestricted 0 6765\n")
        );
        let mut command = relive();
        command.current_dir(lab.folder()).args(["run", "-o", "p.rprof", "--modules", "*/program", "--"]);
        let ran = lab.finish({
            command.arg(&program).args(args);
            command
        });
        assert_eq!((ran.status, &ran.stdout), (expected.status, &expected.stdout), "{}", ran.stderr);
        assert!(ran.stderr.contains("(program) restricts its system calls"), "{}", ran.stderr);
        // What it did before is there, what it did later is not: 177 calls of the first kind, 21,891 of the second.
        let blocks = crate::kit::Profile(lab.path("p.rprof")).blocks();
        let entries = blocks.iter().filter(|b| b.function == "recurse").filter_map(|b| b.count).max();
        assert_eq!(entries, Some(177));
    }
}

/// A program that would have another user's rights does without while it is measured, and one is told so.
#[test]
fn privileges() {
    if fs::metadata("/proc/self").expect("this process").uid() != 0 {
        eprintln!("only root can try this");
        return;
    }
    let lab = Lab::new();
    let source = lab.path("who.c");
    fs::write(&source, "#include <unistd.h>\nint main(void) { return geteuid() == 0; }\n").expect("a file");
    let program = lab.build("gcc -O1", source.to_str().expect("text"), "program");
    let tool = lab.path("relive");
    fs::copy(env!("CARGO_BIN_EXE_relive"), &tool).expect("a copy");
    let allow = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("own files");
    };
    allow(lab.folder(), 0o755);
    allow(&program, 0o4755);
    let run = |program: &Path, args: &[&str]| {
        let mut command = lab.command(program, args);
        command.uid(65534).gid(65534);
        lab.finish(command)
    };
    if run(&program, &[]).status.code() != Some(1) {
        eprintln!("files give no privileges in {}", lab.folder().display());
        return;
    }
    let ran = run(&tool, &["run", "--no-count", "--", program.to_str().expect("text")]);
    assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("runs without its privileges (set-user-ID)"), "{}", ran.stderr);
}
