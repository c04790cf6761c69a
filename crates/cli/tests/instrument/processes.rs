//! Threads, processes, and the file they count in.

use crate::kit::{Lab, Profile, available};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

fn counted(lab: &Lab, options: &[&str]) -> (PathBuf, PathBuf) {
    let native = lab.build("gcc -O2", "processes.c", "program");
    let counted = lab.instrument(&native, options);
    (native, counted)
}

#[test]
fn threads_lose_nothing() {
    for how in ["g++ -O0", "g++ -O2", "clang++-19 -O2 -no-pie -fno-pie", "g++ -O2 -static"] {
        let lab = Lab::new();
        let profile = lab.check(how, "threads.cc", &[]);
        let lost = &profile.report()["modules"][0]["lost"];
        assert_eq!(lost["shared"], false, "{how}");
        assert_eq!(lost["targets"], false, "{how}");
        if !how.contains("static") {
            profile.adds_up(how);
        }
    }
}

#[test]
fn threads_of_a_library() {
    let lab = Lab::new();
    lab.build("gcc -O2 -shared -fPIC", "thread_library.c", "libthread.so");
    let link = format!("gcc -O2 -L{0} -Wl,-rpath,{0} -lthread", lab.folder().display());
    lab.check(&link, "thread_main.c", &[]).adds_up("a thread of a library");
}

#[test]
fn processes() {
    let lab = Lab::new();
    for how in ["gcc -O2", "gcc -O0 -no-pie -fno-pie", "gcc -O2 -static"] {
        let native = lab.build(how, "processes.c", "program");
        let counted = lab.instrument(&native, &[]);
        for way in ["fork", "tree", "vfork", "spawn", "daemon", "exec", "close", "leaf"] {
            lab.compare(&native, &counted, &[way], how);
        }
        let profile = lab.compare(&native, &counted, &["work", "1234"], how);
        assert_eq!(profile.entries("counted"), 1244, "{how}");
        assert_eq!(profile.runs(), 1, "{how}");
        // The second image is told nothing, and finds its profile all the same.
        let profile = lab.compare(&native, &counted, &["environment"], how);
        assert_eq!(profile.entries("counted"), 25, "{how}");
    }
}

#[test]
fn runs_add_up() {
    let lab = Lab::new();
    let (_, counted) = counted(&lab, &[]);
    for _ in 0..3 {
        lab.run(&counted, &["work", "100"]).succeeded("a run");
    }
    let profile = lab.profile(&counted);
    assert_eq!((profile.runs(), profile.entries("counted")), (3, 330));
    // All at once.
    let mut children: Vec<_> = (0..12)
        .map(|_| lab.command(&counted, &["work", "20000"]).stdout(Stdio::null()).spawn().expect("a child"))
        .collect();
    for child in &mut children {
        assert!(child.wait().expect("a child").success());
    }
    assert_eq!((profile.runs(), profile.entries("counted")), (15, 330 + 12 * 20010));
    profile.adds_up("many at once");
}

/// Killed at any time, also while it starts: the profile can be read, and counts never go back.
#[test]
fn killed() {
    let lab = Lab::new();
    let (_, counted) = counted(&lab, &[]);
    let profile = lab.profile(&counted);
    let mut last = 0;
    for round in 0..25u64 {
        let mut child = lab.command(&counted, &["forever"]).stdout(Stdio::null()).spawn().expect("a child");
        // From before it has started to long after.
        sleep(Duration::from_micros(round * round * 80));
        child.kill().expect("a child to kill");
        child.wait().expect("a child");
        if !profile.exists() {
            continue;
        }
        let entries = profile.entries("counted");
        assert!(entries >= last, "round {round}: {entries} after {last}");
        last = entries;
    }
    lab.run(&counted, &["work", "7"]).succeeded("a run after all that");
    let entries = profile.entries("counted");
    // A program that is killed between two instructions is off by one at most.
    assert!((last + 17..=last + 17).contains(&entries), "{entries} after {last}");
    let leftovers: Vec<_> = fs::read_dir(lab.folder())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".tmp"))
        .collect();
    assert!(leftovers.len() <= 25, "{leftovers:?}");
}

/// The profile can be read while the program runs.
#[test]
fn read_while_it_runs() {
    use std::io::Read as _;
    let lab = Lab::new();
    let (_, counted) = counted(&lab, &[]);
    let mut child = lab.command(&counted, &["forever"]).stdout(Stdio::piped()).spawn().expect("a child");
    let mut ready = [0; 6];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut ready).expect("a word");
    let profile = lab.profile(&counted);
    let first = profile.entries("counted");
    let mut more = first;
    for _ in 0..1000 {
        more = profile.entries("counted");
        if more > first {
            break;
        }
    }
    child.kill().expect("a child to kill");
    child.wait().expect("a child");
    assert!(first >= 10 && more > first, "{first} {more}");
}

#[test]
fn profile_patterns() {
    let lab = Lab::new();
    let (_, counted) = counted(&lab, &["--profile", "from-%e-option.rprof"]);
    lab.run(&counted, &["leaf"]);
    assert_eq!(Profile(lab.path("from-program.counted-option.rprof")).entries("main"), 1);
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let pattern = format!("{}/%e.%p.%%.rprof", elsewhere.path().display());
    let mut command = lab.command(&counted, &["fork"]);
    command.env("RELIVE_PROFILE", &pattern);
    let ran = lab.finish(command).succeeded("a pattern");
    let names: Vec<PathBuf> =
        fs::read_dir(elsewhere.path()).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    let text = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(!names.is_empty());
    for name in names.iter().map(text) {
        let middle = name.strip_prefix("program.counted.").and_then(|n| n.strip_suffix(".%.rprof"));
        assert!(middle.is_some_and(|pid| pid.parse::<u32>().is_ok()), "{name}");
    }
    let sum: u64 = names.iter().map(|path| Profile(path.clone()).entries("counted")).sum();
    assert_eq!(sum, 510, "{}", ran.stdout);
    assert_eq!(Profile(lab.path("from-program.counted-option.rprof")).entries("main"), 1);
}

/// Whether a folder without write permission still can be written to: by root.
fn unstoppable(folder: &Path) -> bool {
    let file = folder.join("probe");
    let stopped = fs::write(&file, "").is_err();
    let _ = fs::remove_file(file);
    !stopped
}

#[test]
fn no_place_to_write() {
    let lab = Lab::new();
    let (native, counted) = counted(&lab, &[]);
    let expected = lab.run(&native, &["fork"]);
    for place in ["/proc/nothing/here.rprof", "/dev/null/x.rprof", "/nonexistent/folder/x.rprof"] {
        let mut command = lab.command(&counted, &["fork"]);
        command.env("RELIVE_PROFILE", place);
        let ran = lab.finish(command);
        assert_eq!(ran.status, expected.status, "{place}: {}", ran.stderr);
        assert!(ran.stdout == expected.stdout, "{place}: {}", ran.stdout);
        assert!(ran.stderr.starts_with(&format!("relive: {place}: ")), "{place}: {}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{place}: {}", ran.stderr);
    }
    let folder = lab.path("locked");
    fs::create_dir(&folder).expect("a folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).expect("permissions");
    let mut command = lab.command(&counted, &["fork"]);
    if unstoppable(&folder) {
        // As root: as somebody else then.
        if !available("setpriv") {
            return;
        }
        fs::set_permissions(lab.folder(), fs::Permissions::from_mode(0o755)).expect("permissions");
        let text = counted.to_str().expect("a path");
        let somebody = ["--reuid=65534", "--regid=65534", "--clear-groups", text, "fork"];
        command = lab.command("setpriv".as_ref(), &somebody);
    }
    command.current_dir(&folder);
    let ran = lab.finish(command);
    assert_eq!((ran.status, &ran.stdout), (expected.status, &expected.stdout));
    assert!(ran.stderr.contains("permission denied"), "{}", ran.stderr);
}

#[test]
fn a_foreign_profile_in_the_way() {
    let lab = Lab::new();
    let (_, first) = counted(&lab, &[]);
    let other = lab.build("gcc -O0", "loops.c", "other");
    let second = lab.instrument(&other, &[]);
    for text in ["profile of another program", "no profile at all"] {
        let run = |program: &Path, args: &[&str]| {
            let mut command = lab.command(program, args);
            command.env("RELIVE_PROFILE", "same.rprof");
            lab.finish(command)
        };
        let same = lab.path("same.rprof");
        if text.starts_with("no ") {
            fs::write(&same, "some text somebody needs\n").expect("a file");
        } else {
            run(&first, &["work", "3"]).succeeded("the first");
        }
        let before = fs::read(&same).expect("a file");
        let ran = run(&second, &[]).succeeded(text);
        let line = ran.stderr.lines().next().unwrap_or_else(|| panic!("{text}: says nothing"));
        assert!(line.starts_with("relive: ") && line.contains("same.rprof"), "{text}: {line}");
        let (_, place) = line.split_once("writing to ").unwrap_or_else(|| panic!("{text}: {line}"));
        let place = PathBuf::from(place.trim_end_matches(" instead"));
        assert_eq!(Profile(place.clone()).entries("main"), 1, "{text}");
        assert!(fs::read(&same).expect("a file") == before, "{text}: it was changed");
        // The next run adds to it there.
        run(&second, &[]).succeeded(text);
        assert_eq!(Profile(place.clone()).entries("main"), 2, "{text}");
        fs::remove_file(place).expect("a profile");
        fs::remove_file(same).expect("a file");
    }
}
