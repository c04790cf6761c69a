//! Programs that the runtime was linked into: as before until they are rewritten, and then the same as others.

use crate::kit::{Lab, Profile, relive};
use relive_rewrite::prepared::object_file;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compilers with each of the linkers.
const LINKERS: [&str; 3] = ["gcc -fuse-ld=bfd", "gcc -fuse-ld=gold", "clang-19 -fuse-ld=lld"];

/// Writes the object into the lab's folder.
fn object(lab: &Lab) -> PathBuf {
    let path = lab.path("prepared.o");
    fs::write(&path, object_file(relive_runtime::IMAGE, 0).expect("the runtime")).expect("a file");
    path
}

/// Builds a program as it is and prepared.
fn build_both(lab: &Lab, how: &str, source: &str) -> [PathBuf; 2] {
    let with = format!("{how} {}", object(lab).display());
    [lab.build(how, source, "plain"), lab.build(&with, source, "prepared")]
}

/// Rewrites a prepared binary; what relive says of its runtime.
fn instrument(lab: &Lab, program: &Path, options: &[&str]) -> (PathBuf, String) {
    let out = PathBuf::from(format!("{}.counted", program.display()));
    let mut command = relive();
    command.arg("instrument").arg(program).arg("-o").arg(&out).arg("--verify").args(options);
    let output = command.current_dir(lab.folder()).output().expect("the tool starts");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success(), "{command:?}\n{said}");
    let runtime = said.lines().find_map(|line| line.strip_prefix("runtime: "));
    (out, runtime.unwrap_or_default().to_string())
}

const USED: &str = "linked in before, nothing added";

/// Every entry of a profile that has to do with functions that are `of` interest. Addresses only count where the linker
/// gives all code the same.
fn entries(profile: &Profile, of: &dyn Fn(&str) -> bool, addresses: bool) -> Vec<String> {
    let tables = ["--functions", "--blocks", "--edges", "--calls", "--loops"];
    let rows = tables.iter().flat_map(|which| profile.table(which)).filter(|row| of(&row[1]));
    // Functions without a name are called by their address.
    let is_told = |field: &String| addresses || !(field.starts_with("0x") || field.starts_with("fn_"));
    rows.map(|row| row.into_iter().skip(1).filter(is_told).collect::<Vec<_>>().join(" ")).collect()
}

/// Prepares, rewrites and runs a program, and compares it with the same that is not prepared.
fn check(how: &str, source: &str, args: &[&str]) {
    let lab = Lab::new();
    let [plain, prepared] = build_both(&lab, how, source);
    let (native, ready) = (lab.run(&plain, args), lab.run(&prepared, args));
    assert_eq!(ready.stdout, native.stdout, "{how}");
    ready.behaves_as(&native, how);
    let (counted, said) = instrument(&lab, &prepared, &["--trap"]);
    assert_eq!(said, USED, "{how}");
    let profile = lab.compare(&prepared, &counted, args, how);
    let expected = lab.compare(&plain, &lab.instrument(&plain, &[]), args, how);
    // The libc inside a static program does not do the same twice.
    let text =
        fs::read_to_string(format!("{}/tests/instrument/programs/{source}", env!("CARGO_MANIFEST_DIR")))
            .expect("a source");
    let is_static = how.contains("-static");
    let of = |name: &str| !is_static || name == "main" || text.contains(&format!(" {name}("));
    let addresses = how.contains("bfd");
    let found = entries(&profile, &of, addresses);
    assert!(found.len() > 100, "{how}: {} entries", found.len());
    let expected = entries(&expected, &of, addresses);
    assert_eq!(found.len(), expected.len(), "{how}");
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "{how}");
    }
    profile.adds_up(how);
}

/// The bytes of a section.
fn section(file: &Path, name: &str) -> Vec<u8> {
    let to = PathBuf::from(format!("{}.section", file.display()));
    let mut command = Command::new("objcopy");
    command.args(["-O", "binary", "-j", name]).arg(file).arg(&to);
    assert!(command.status().expect("binutils").success());
    fs::read(to).expect("a section")
}

/// Executables of all kinds.
fn executables(linker: &str) {
    let lab = Lab::new();
    for kind in ["-pie -fPIE", "-no-pie -fno-pie", "-static", "-static-pie -fPIE"] {
        let how = format!("{linker} -O2 {kind}");
        if lab.can_build(&how) {
            check(&how, "mix.c", &["a"]);
        } else {
            println!("skipped: {how} does not work here");
        }
    }
}

#[test]
fn executables_of_gnu_ld() {
    executables(LINKERS[0]);
}

#[test]
fn executables_of_gold() {
    executables(LINKERS[1]);
}

#[test]
fn executables_of_lld() {
    executables(LINKERS[2]);
}

#[test]
fn what_linkers_leave_out() {
    let lab = Lab::new();
    for linker in LINKERS {
        for more in [
            "-ffunction-sections -Wl,--gc-sections",
            "-s -Wl,--gc-sections -Wl,-O2",
            "-Wl,-z,now -Wl,-z,relro",
        ] {
            let how = format!("{linker} -O2 {more}");
            if lab.can_build(&how) {
                check(&how, "mix.c", &[]);
            }
        }
    }
}

/// Exceptions are caught, threads and forks have counters of their own.
#[test]
fn programs_that_ask_more() {
    check("g++ -O2 -fuse-ld=bfd", "exceptions.cc", &[]);
    check("g++ -O2 -static", "calls.cc", &[]);
    check("g++ -O2 -fuse-ld=gold", "calls.cc", &[]);
    let lab = Lab::new();
    for (how, source) in [("g++ -O2", "threads.cc"), ("gcc -O2", "processes.c")] {
        let [plain, prepared] = build_both(&lab, how, source);
        let (counted, said) = instrument(&lab, &prepared, &["--trap"]);
        assert_eq!(said, USED, "{source}");
        lab.compare(&plain, &counted, &[], source).adds_up(source);
    }
}

/// The lines that speak of `what`.
fn entries_of(text: &str, what: &str) -> Vec<String> {
    text.lines().filter(|line| line.contains(what)).map(str::to_string).collect()
}

/// Linked in, but unused, it changes nothing: with GNU ld not even a distance in the code.
#[test]
fn code_stays_the_same() {
    let lab = Lab::new();
    for how in [
        "gcc -fuse-ld=bfd -O2",
        "gcc -fuse-ld=bfd -O2 -no-pie -fno-pie",
        "gcc -fuse-ld=bfd -O2 -shared -fPIC",
    ] {
        let [plain, prepared] = build_both(&lab, how, "mix.c");
        for name in [".text", ".rodata", ".eh_frame", ".data", ".init_array"] {
            assert_eq!(section(&plain, name), section(&prepared, name), "{how} {name}");
        }
        let output = |what: &[&str], file: &Path| {
            let output = Command::new(what[0]).args(&what[1..]).arg(file).output().expect("binutils");
            assert!(output.stderr.is_empty(), "{how}: {output:?}");
            String::from_utf8(output.stdout).expect("text")
        };
        // Nobody outside sees it.
        let dynamic = ["nm", "-D", "--defined-only", "--no-sort"];
        let names = |text: String| {
            text.lines()
                .map(|l| l.split_whitespace().next_back().unwrap_or_default().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(output(&dynamic, &plain)), names(output(&dynamic, &prepared)), "{how}");
        let filled = |file| entries_of(&output(&["readelf", "-Wr"], file), "R_X86_64");
        assert_eq!(filled(&plain), filled(&prepared), "{how}");
        let stack = |file| entries_of(&output(&["readelf", "-Wl"], file), "GNU_STACK");
        assert_eq!(stack(&plain), stack(&prepared), "{how}");
        let promises = |file| entries_of(&output(&["readelf", "-n"], file), "x86");
        assert_eq!(promises(&plain), promises(&prepared), "{how}");
    }
}

/// A note tells where it is: symbols and section headers are not needed.
#[test]
fn stripped() {
    let lab = Lab::new();
    let [_, prepared] = build_both(&lab, "gcc -g -O2", "mix.c");
    let native = lab.run(&prepared, &[]);
    for strip in [
        &["strip"][..],
        &["strip", "--strip-debug"],
        &["objcopy", "--strip-unneeded"],
        &["llvm-strip-19"],
        &["llvm-objcopy-19", "--strip-sections"],
    ] {
        let stripped = lab.path("stripped");
        fs::copy(&prepared, &stripped).expect("a file");
        let mut command = Command::new(strip[0]);
        assert!(command.args(&strip[1..]).arg(&stripped).status().expect("it starts").success(), "{strip:?}");
        lab.run(&stripped, &[]).behaves_as(&native, "stripped");
        // Without section headers, traps hit what is no function, prepared or not.
        let trap: &[&str] = if strip.contains(&"--strip-sections") { &[] } else { &["--trap"] };
        let (counted, said) = instrument(&lab, &stripped, trap);
        assert_eq!(said, USED, "{strip:?}");
        lab.compare(&stripped, &counted, &[], "stripped").adds_up("stripped");
    }
}

/// Several libraries and the program, each with a runtime of its own.
#[test]
fn libraries() {
    for linker in LINKERS {
        let lab = Lab::new();
        if !lab.can_build(linker) {
            println!("skipped: {linker} does not work here");
            continue;
        }
        let object = object(&lab);
        let with = |how: &str| format!("{linker} -O2 {how} {}", object.display());
        let library = with("-shared -fPIC -DINITIALISER -Wl,-soname,libnumbers.so");
        let library = lab.build(&library, "library.c", "libnumbers.so");
        // Where lld leaves no initialiser, there is no place to start from, prepared or not.
        let bare = if linker.contains("lld") { "" } else { "-nostartfiles" };
        let other = lab.build(&with(&format!("-shared -fPIC {bare}")), "library.c", "other.so");
        let program = with(&format!("-L{} -lnumbers", lab.folder().display()));
        let program = lab.build(&program, "host.c", "program");
        let loading = lab.build(&with("-DLOAD"), "host.c", "loading");
        fs::create_dir(lab.path("counted")).expect("a folder");
        let mut made = Vec::new();
        for file in [&library, &other, &program, &loading] {
            let (counted, said) = instrument(&lab, file, &["--profile", "./%m.rprof"]);
            assert_eq!(said, USED, "{linker} {}", file.display());
            let to = lab.path("counted").join(file.file_name().expect("a name"));
            fs::rename(counted, &to).expect("a file");
            made.push(to);
        }
        let run = |program: &Path, args: &[&str], folder: &Path| {
            let mut command = lab.command(program, args);
            command.env("LD_LIBRARY_PATH", folder);
            lab.finish(command)
        };
        let native = run(&program, &[], lab.folder()).succeeded(linker);
        run(&made[2], &[], &lab.path("counted")).behaves_as(&native, linker);
        let (own, numbers) = (lab.profile(&program), lab.profile(&library));
        assert_eq!(own.entries("callback"), 10, "{linker}");
        assert_eq!((numbers.entries("exported"), numbers.entries("hidden")), (10, 47), "{linker}");
        own.adds_up(linker);
        numbers.adds_up(linker);
        let native = run(&loading, &["./other.so"], lab.folder()).succeeded(linker);
        run(&made[3], &["./counted/other.so"], lab.folder()).behaves_as(&native, linker);
        assert_eq!(lab.profile(&other).entries("exported"), 30, "{linker}");
    }
}

/// What another version of relive has prepared is rewritten like what nobody has.
#[test]
fn another_version() {
    let lab = Lab::new();
    let path = object(&lab);
    let mut bytes = fs::read(&path).expect("the object");
    let code = bytes.windows(4).position(|b| b == [0xf3, 0x0f, 0x1e, 0xfa]).expect("a routine");
    bytes[code] = 0x90;
    fs::write(&path, &bytes).expect("a file");
    let prepared = lab.build(&format!("gcc -O2 {}", path.display()), "mix.c", "program");
    let native = lab.run(&prepared, &[]);
    let (counted, said) = instrument(&lab, &prepared, &["--trap"]);
    assert_eq!(said, "added; the one that was linked in is not used, it is of another version of relive");
    lab.run(&counted, &[]).behaves_as(&native, "rewritten");
    lab.profile(&counted).adds_up("rewritten");
}

#[test]
fn inspect_tells() {
    let lab = Lab::new();
    let [plain, prepared] = build_both(&lab, "gcc -O2", "mix.c");
    let (counted, _) = instrument(&lab, &prepared, &["--trap"]);
    let inspect = |file: &Path| {
        let output = relive().arg("inspect").arg(file).output().expect("the tool starts");
        String::from_utf8(output.stdout).expect("text")
    };
    let said = |file: &Path| inspect(file).lines().find(|l| l.starts_with("prepared")).map(str::to_string);
    assert_eq!(said(&plain), None);
    assert_eq!(said(&prepared).as_deref(), Some("prepared: relive's runtime is linked in"));
    let in_use = "prepared: relive's runtime is linked in; it is in use: the file is a rewritten one";
    assert_eq!(said(&counted).as_deref(), Some(in_use));
    // It is no part of the program.
    let figures = |file: &Path| {
        let text = inspect(file);
        let rows = text.lines().skip_while(|l| !l.is_empty());
        // Linkers may put fill in front of it.
        rows.filter(|l| !l.starts_with("text bytes")).map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(figures(&plain), figures(&prepared));
}
