//! The rewritten file: libraries, what other tools make of it, options, refusals.

use crate::kit::{Lab, available, relive};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Libraries of all kinds in programs that are not measured themselves, linked and loaded.
#[test]
fn libraries() {
    for how in [
        "gcc -O2 -shared -fPIC",
        "gcc -O2 -shared -fPIC -DINITIALISER",
        "gcc -O2 -shared -fPIC -nostartfiles",
        "gcc -O2 -shared -fPIC -nostartfiles -DINITIALISER",
        "gcc -O0 -shared -fPIC -DRESOLVER",
        "gcc -O2 -shared -fPIC -DRESOLVER -DINITIALISER -s",
        "clang-19 -O2 -shared -fPIC -DINITIALISER -Wl,-z,now",
    ] {
        let lab = Lab::new();
        let library = lab.build(how, "library.c", "library.so");
        fs::create_dir(lab.path("counted")).expect("a folder");
        lab.instrument_to(&library, &lab.path("counted/library.so"), &[]);
        let linked = lab.build(&format!("gcc -O2 {}", library.display()), "host.c", "linked");
        let loading = lab.build("gcc -O2 -DLOAD", "host.c", "loading");
        let initialised = u64::from(how.contains("INITIALISER"));
        let profile = lab.profile(&library);
        // A library without a name of its own is found by the path it was linked with: put one in its place.
        let original = fs::read(&library).expect("a library");
        let native = lab.run(&linked, &[]);
        assert!(native.status.success(), "{how}: {}", native.stderr);
        fs::rename(&library, lab.path("original.so")).expect("a library");
        fs::copy(lab.path("counted/library.so"), &library).expect("a library");
        lab.run(&linked, &[]).behaves_as(&native, how);
        fs::write(&library, original).expect("a library");
        if !how.contains(" -s") {
            assert_eq!(profile.entries("exported"), 10, "{how}");
            assert_eq!(profile.entries("hidden"), 45 + 2 * initialised, "{how}");
        }
        assert_eq!(profile.runs(), 1, "{how}");
        assert_eq!(profile.inconsistent(), Vec::<String>::new(), "{how}");
        let native = lab.run(&loading, &["./original.so"]);
        assert!(native.status.success(), "{how}: {}", native.stdout);
        lab.run(&loading, &["./counted/library.so"]).behaves_as(&native, how);
        if !how.contains(" -s") {
            // Loaded three times, initialised and finished each time.
            assert_eq!(profile.entries("exported"), 10 + 30, "{how}");
            assert_eq!(profile.entries("hidden"), 45 * 4 + 2 * 4 * initialised, "{how}");
            // The callback of a program that is not measured.
            let rows = profile.table("--calls");
            let calls: u64 = rows
                .iter()
                .filter(|r| r[1] == "through_pointer")
                .map(|r| r[4].parse::<u64>().expect("a count"))
                .sum();
            assert_eq!(calls, 40, "{how}: {rows:?}");
        }
    }
}

#[test]
fn program_and_library() {
    let lab = Lab::new();
    let library = lab.build(
        "gcc -O2 -shared -fPIC -DINITIALISER -Wl,-soname,libnumbers.so",
        "library.c",
        "libnumbers.so",
    );
    let link = format!("gcc -O2 -L{} -lnumbers", lab.folder().display());
    let program = lab.build(&link, "host.c", "program");
    let counted = lab.instrument(&program, &[]);
    fs::create_dir(lab.path("counted")).expect("a folder");
    lab.instrument_to(&library, &lab.path("counted/libnumbers.so"), &[]);
    let run = |program: &Path, folder: &Path| {
        let mut command = lab.command(program, &[]);
        command.env("LD_LIBRARY_PATH", folder);
        lab.finish(command)
    };
    let native = run(&program, lab.folder()).succeeded("as it was");
    run(&counted, &lab.path("counted")).behaves_as(&native, "both");
    run(&counted, lab.folder()).behaves_as(&native, "only the program");
    let (own, other) = (lab.profile(&counted), lab.profile(&library));
    assert_eq!((own.entries("use"), own.entries("callback")), (2, 20));
    assert_eq!((other.entries("exported"), other.entries("hidden")), (10, 47));
    own.adds_up("the program");
    other.adds_up("the library");
    // In a sum of both, calls between them have names.
    let sum = lab.path("sum.rprof");
    let mut command = relive();
    command.arg("merge").arg(&own.0).arg(&other.0).arg("-o").arg(&sum);
    assert!(command.status().expect("the tool starts").success());
    let sum = crate::kit::Profile(sum);
    assert_eq!(sum.calls("through_pointer", "callback"), 10);
    assert_eq!(sum.entries("use"), 2);
}

#[test]
fn other_tools_read_it() {
    let lab = Lab::new();
    for how in
        ["gcc -O2", "gcc -g -O0 -no-pie -fno-pie", "gcc -O2 -static", "gcc -O2 -s", "clang-19 -O2 -Wl,-z,now"]
    {
        let native = lab.build(how, "mix.c", "program");
        let counted = lab.instrument(&native, &[]);
        for args in [
            &["readelf", "-SlWhd"][..],
            &["readelf", "-sW"],
            &["readelf", "-nW"],
            &["readelf", "--debug-dump=frames"],
            &["objdump", "-d", "-j", ".relive.text"],
        ] {
            let output = Command::new(args[0]).args(&args[1..]).arg(&counted).output().expect("binutils");
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{how} {args:?}: {complaint}");
            let native = Command::new(args[0]).args(&args[1..]).arg(&native).output().expect("binutils");
            if args[0] == "readelf" && native.stderr.is_empty() {
                assert_eq!(complaint, "", "{how} {args:?}");
            }
            let text = String::from_utf8_lossy(&output.stdout);
            if args[0] == "objdump" {
                assert!(text.lines().count() > 100, "{how}: {text}");
                let bad: Vec<&str> = text.lines().filter(|line| line.contains("(bad)")).collect();
                assert!(bad.is_empty(), "{how}: {bad:?}");
            }
            assert!(!text.contains("<corrupt"), "{how} {args:?}");
        }
    }
}

#[test]
fn modes() {
    let lab = Lab::new();
    let native = lab.build("gcc -O2", "mix.c", "program");
    let expected = lab.run(&native, &[]);
    let read = |options: &[&str]| {
        let counted = lab.instrument(&native, options);
        let profile = lab.profile(&counted);
        let _ = fs::remove_file(&profile.0);
        lab.run(&counted, &[]).behaves_as(&expected, &format!("{options:?}"));
        profile
    };
    let edges = read(&[]);
    let counts = |profile: &crate::kit::Profile| -> Vec<(u64, Option<u64>)> {
        profile.blocks().iter().map(|b| (b.address, b.count)).collect()
    };
    let entries = |profile: &crate::kit::Profile| -> Vec<(String, Option<u64>)> {
        profile.functions().into_iter().map(|f| (f.name, f.entries)).collect()
    };
    let (all_counts, all_entries) = (counts(&edges), entries(&edges));
    let blocks = read(&["--mode", "blocks"]);
    assert_eq!(counts(&blocks), all_counts);
    assert_eq!(entries(&blocks), all_entries);
    let functions = read(&["--mode", "functions"]);
    assert_eq!(entries(&functions), all_entries);
    let off = read(&["--calls", "off"]);
    assert_eq!(counts(&off), all_counts);
    assert_eq!(off.calls("through", "?"), 21);

    let only = read(&["--only", "fibonacci,classify"]);
    for function in only.functions() {
        let wanted = ["fibonacci", "classify"].contains(&function.name.as_str());
        assert_eq!(function.state == "measured", wanted, "{function:?}");
    }
    let of = |profile: &crate::kit::Profile, name: &str| profile.entries(name);
    assert_eq!(of(&only, "fibonacci"), of(&edges, "fibonacci"));
    fs::write(lab.path("list"), "# not these\nfibonacci\n\nmain\n").expect("a file");
    let except = read(&["--except", &format!("@{}", lab.path("list").display())]);
    for function in except.functions() {
        if ["fibonacci", "main"].contains(&function.name.as_str()) {
            assert_ne!(function.state, "measured", "{function:?}");
        } else if function.state == "measured" {
            assert_eq!(function.entries, Some(of(&edges, &function.name)), "{function:?}");
        }
    }
    assert_eq!(of(&except, "classify"), 30);
}

/// What is refused is refused with a message that names the file, and nothing is written.
#[test]
fn refusals() {
    let lab = Lab::new();
    let native = lab.build("gcc -O2", "loops.c", "program");
    let text = lab.path("text");
    fs::write(&text, "no program\n").expect("a file");
    fs::write(lab.path("empty"), "").expect("a file");
    let mut cut = fs::read(&native).expect("a program");
    cut.truncate(cut.len() / 3);
    fs::write(lab.path("cut"), cut).expect("a file");
    let object = lab.build("gcc -O2 -c", "loops.c", "object.o");
    let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
    let out = lab.path("out");
    let refused = |binary: &Path, options: &[&str], why: &str| {
        let mut command = relive();
        command.arg("instrument").arg(binary).arg("-o").arg(&out).args(options);
        let output = command.output().expect("the tool starts");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{why}: {complaint}");
        assert!(complaint.starts_with("relive: "), "{why}: {complaint}");
        assert!(complaint.contains(why), "{why}: {complaint}");
        assert_eq!(complaint.lines().count(), 1, "{why}: {complaint}");
        assert!(!out.exists(), "{why}: something was written");
    };
    refused(&text, &[], "text");
    refused(&lab.path("empty"), &[], "empty");
    refused(&lab.path("cut"), &[], "cut");
    refused(&object, &[], "object.o");
    refused(&lab.path("missing"), &[], "missing");
    refused(loader, &[], "loader");
    let source = lab.path("gs.c");
    let text =
        "int main(void) { long x; __asm__ volatile(\"mov %%gs:16, %0\" : \"=r\"(x)); return (int)x; }\n";
    fs::write(&source, text).expect("a file");
    refused(&lab.build("gcc -O2", source.to_str().expect("a path"), "uses_gs"), &[], "gs segment");
    refused(&native, &["--only", "no_such_function"], "no_such_function");
    refused(&native, &["--only", "@/no/such/list"], "/no/such/list");
    refused(&native, &["--profile", ""], "--profile");
    if available("go") {
        fs::write(lab.path("hello.go"), "package main\nfunc main() { println(42) }\n").expect("a file");
        let mut command = Command::new("go");
        command.current_dir(lab.folder()).args(["build", "-o", "hello", "hello.go"]);
        command.env("GO111MODULE", "off").env("CGO_ENABLED", "0").env("GOCACHE", lab.path("cache"));
        let output = command.output().expect("go");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        refused(&lab.path("hello"), &[], "Go");
    }
    // Onto itself, also by another name. What replaces only a name of it leaves it as it was.
    let before = fs::read(&native).expect("a program");
    std::os::unix::fs::symlink(&native, lab.path("link")).expect("a link");
    fs::hard_link(&native, lab.path("twin")).expect("a link");
    for target in ["program", "link", "twin"] {
        let output = relive().arg("instrument").arg(&native).arg("-o").arg(lab.path(target)).output();
        let output = output.expect("the tool starts");
        assert!(target == "twin" || output.status.code() == Some(2), "{target}");
        assert!(fs::read(&native).expect("a program") == before, "{target}: overwritten");
    }
    // A place that cannot be written.
    let output =
        relive().arg("instrument").arg(&native).args(["-o", "/proc/none/x"]).output().expect("the tool");
    assert_eq!(output.status.code(), Some(2));
}

/// A program that runs while it is replaced, and one that is replaced twice.
#[test]
fn replacing_the_output() {
    let lab = Lab::new();
    let native = lab.build("gcc -O2", "processes.c", "program");
    let counted = lab.instrument(&native, &[]);
    let mut child =
        lab.command(&counted, &["forever"]).stdout(std::process::Stdio::null()).spawn().expect("a child");
    lab.instrument(&native, &[]);
    child.kill().expect("a child to kill");
    child.wait().expect("a child");
    lab.run(&counted, &["work", "5"]).succeeded("the new one");
}

/// Files laid out by other linkers and with other options.
#[test]
fn layouts() {
    for how in [
        "gcc -O2 -Wl,-z,pack-relative-relocs",
        "gcc -O2 -Wl,-z,noseparate-code",
        "gcc -O2 -Wl,-z,noseparate-code -no-pie -fno-pie",
        "gcc -O2 -Wl,--emit-relocs",
        "gcc -O2 -Wl,--build-id=none -Wl,-z,norelro",
        "gcc -O2 -Wl,-z,max-page-size=2097152",
        "gcc -O2 -Wl,--section-start=.rodata=0x30000000 -no-pie -fno-pie",
        "gcc -O2 -Wl,--no-eh-frame-hdr",
        "gcc -O2 -fcf-protection=full -fstack-protector-all",
        "gcc -O2 -mcmodel=large -fPIE",
        "gcc -O2 -fpatchable-function-entry=8,4",
        "gcc -O2 -flto -ffunction-sections -Wl,--gc-sections",
        "gcc -O2 -fuse-ld=gold",
        "clang-19 -O2 -fuse-ld=lld",
        "clang-19 -O2 -fuse-ld=lld -Wl,-z,pack-relative-relocs -Wl,--pack-dyn-relocs=relr",
        "clang-19 -O2 -fbasic-block-address-map",
        "clang-19 -O2 -mretpoline",
    ] {
        let lab = Lab::new();
        if !lab.can_build(how) {
            println!("skipped: {how} does not work here");
            continue;
        }
        let profile = lab.check(how, "mix.c", &[]);
        assert!(profile.entries("by_value") > 100, "{how}");
        assert_eq!(profile.inconsistent(), Vec::<String>::new(), "{how}");
    }
}

/// Started in other ways than by the kernel alone.
#[test]
fn started_by_the_loader() {
    let lab = Lab::new();
    let native = lab.build("gcc -O2", "processes.c", "program");
    let counted = lab.instrument(&native, &[]);
    let text = counted.to_str().expect("a path");
    let profile = lab.profile(&counted);
    lab.run("/lib64/ld-linux-x86-64.so.2".as_ref(), &[text, "work", "100"]).succeeded("by the loader");
    assert_eq!(profile.entries("counted"), 110);
    lab.run("setarch".as_ref(), &["-R", text, "work", "100"]).succeeded("without randomisation");
    assert_eq!(profile.entries("counted"), 220);
    lab.run("sh".as_ref(), &["-c", "ulimit -v 200000; exec \"$0\" work 100", text])
        .succeeded("with little memory");
    assert_eq!(profile.entries("counted"), 330);
    lab.run("sh".as_ref(), &["-c", "exec \"$0\" work 100 <&- >&- 2>&-", text])
        .succeeded("without descriptors");
    assert_eq!(profile.entries("counted"), 440);
    lab.run("env".as_ref(), &["-i", text, "work", "100"]).succeeded("without environment");
    assert_eq!(profile.entries("counted"), 550);
}

/// The prologue of such functions calls something that goes on one byte behind its return address.
#[test]
fn split_stacks() {
    let how = "gcc -O2 -fsplit-stack -fuse-ld=gold";
    if Lab::new().can_build(how) {
        Lab::new().check(how, "mix.c", &[]);
    }
}
