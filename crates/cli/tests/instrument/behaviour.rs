//! Ways out of functions and programs: exceptions, panics, jumps, signals, exits.

use crate::kit::{Lab, available};

#[test]
fn exceptions() {
    for how in [
        "g++ -O0 -std=c++14",
        "g++ -O2 -std=c++14",
        "g++ -O3 -std=c++17 -no-pie -fno-pie",
        "g++ -Os -s -std=c++17 -Wl,--export-dynamic",
        "clang++-19 -O2 -std=c++14",
        "g++ -O2 -static",
    ] {
        Lab::new().check(how, "exceptions.cc", &[]);
    }
}

/// Thrown by a library, through frames of the program, and the other way round; either or both measured.
#[test]
fn exceptions_between_modules() {
    let lab = Lab::new();
    let library = lab.build("g++ -O2 -shared -fPIC", "thrower_library.cc", "libthrower.so");
    let link = format!("g++ -O2 -L{} -lthrower", lab.folder().display());
    let program = lab.build(&link, "thrower_main.cc", "program");
    let counted = lab.instrument(&program, &[]);
    let folder = lab.path("counted");
    std::fs::create_dir(&folder).expect("a folder");
    lab.instrument_to(&library, &folder.join("libthrower.so"), &[]);
    let run = |program, libraries: &std::path::Path| {
        let mut command = lab.command(program, &[]);
        command.env("LD_LIBRARY_PATH", libraries);
        lab.finish(command)
    };
    let native = run(&program, lab.folder());
    assert!(native.status.success(), "{}", native.stderr);
    let own = |name: &str| -> String {
        native
            .stdout
            .lines()
            .filter(|line| line.contains(" library_") != (name == "program"))
            .map(|l| format!("{l}\n"))
            .collect()
    };
    run(&counted, lab.folder()).behaves_as(&native, "only the program");
    lab.profile(&counted).meets(&own("program"), "only the program");
    lab.profile(&counted).adds_up("only the program");
    run(&program, &folder).behaves_as(&native, "only the library");
    lab.profile(&library).meets(&own("library"), "only the library");
    std::fs::remove_file(lab.profile(&library).0).expect("a profile");
    std::fs::remove_file(lab.profile(&counted).0).expect("a profile");
    run(&counted, &folder).behaves_as(&native, "both");
    lab.profile(&counted).meets(&own("program"), "both");
    lab.profile(&library).meets(&own("library"), "both");
    lab.profile(&library).adds_up("both");
}

/// A stack walk after every single instruction, counters and runtime included, reaches `main`.
#[test]
fn stack_walks_from_everywhere() {
    for how in
        ["gcc -O0", "gcc -O2", "gcc -O3 -no-pie -fno-pie", "gcc -Os -fomit-frame-pointer", "clang-19 -O2"]
    {
        let lab = Lab::new();
        let native = lab.build(how, "walk.c", "program");
        for mode in
            [&["--mode", "edges"][..], &["--mode", "blocks"], &["--mode", "functions", "--calls", "off"]]
        {
            let counted = lab.instrument(&native, mode);
            let expected = lab.run(&native, &[]);
            assert!(expected.status.success(), "{how}: {}", expected.stderr);
            lab.run(&counted, &[]).behaves_as(&expected, &format!("{how} {mode:?}"));
            std::fs::remove_file(lab.profile(&counted).0).expect("a profile");
        }
    }
}

#[test]
fn rust_panics_and_threads() {
    for how in [
        "rustc --edition 2024",
        "rustc --edition 2024 -O",
        "rustc --edition 2024 -O -Cpanic=unwind -Crelocation-model=static",
    ] {
        Lab::new().check(how, "panics.rs", &[]);
    }
}

/// By longjmp, exit, _exit, abort, signals: nothing that was counted is lost.
#[test]
fn ways_out() {
    for how in ["gcc -O0", "gcc -O2", "gcc -O3 -no-pie -fno-pie", "clang-19 -O2", "gcc -O2 -static"] {
        let lab = Lab::new();
        let native = lab.build(how, "jumps.c", "program");
        let counted = lab.instrument(&native, &[]);
        for way in ["0", "1", "2", "3", "4", "5", "6"] {
            let profile = lab.compare(&native, &counted, &[way], how);
            // Where a signal ends the program, a block was entered that is never left.
            if !matches!(way, "5" | "6") && !how.contains("static") {
                profile.adds_up(&format!("{how} {way}"));
            }
        }
    }
}

#[test]
fn signal_handlers() {
    for how in ["gcc -O0", "gcc -O2", "clang-19 -O2", "gcc -O2 -static"] {
        Lab::new().check(how, "signals.c", &[]);
    }
}

/// Whoever is interrupted in the middle of an indirect call gets to its target, whatever a handler, another thread or a
/// child has the site call in the meantime.
#[test]
fn indirect_calls_in_a_storm() {
    for how in ["gcc -O0", "gcc -O2", "clang-19 -O2 -no-pie -fno-pie", "gcc -O2 -static"] {
        let lab = Lab::new();
        let native = lab.build(how, "storm.c", "program");
        let counted = lab.instrument(&native, &["--verify"]);
        for what in ["steps", "signals", "forks", "threads", "nothing"] {
            lab.compare(&native, &counted, &[what], how);
        }
    }
}

/// Known numbers of indirect calls and their targets.
#[test]
fn indirect_calls() {
    for how in ["g++ -O0", "g++ -O2", "g++ -O3 -no-pie -fno-pie", "clang++-19 -O2", "g++ -O2 -static"] {
        let lab = Lab::new();
        let profile = lab.check(how, "calls.cc", &[]);
        // strlen is elsewhere: by path and address, or by name in a static program. All 25 went to one place.
        let rows = profile.table("--calls");
        let measure: Vec<&Vec<String>> = rows.iter().filter(|r| r[1] == "measure").collect();
        assert_eq!(measure.len(), 1, "{how}: {measure:?}");
        assert_eq!(measure[0][4], "25", "{how}: {measure:?}");
        if !how.contains("-static") && !how.contains("-no-pie") {
            assert!(measure[0][3].contains("libc.so"), "{how}: {measure:?}");
        }
        assert!(rows.iter().all(|r| r[3] != "?" || r[4] == "0"), "{how}: targets are missing");
        let lab_off = Lab::new();
        let native = lab_off.build(how, "calls.cc", "program");
        let counted = lab_off.instrument(&native, &["--calls", "off"]);
        lab_off.run(&counted, &[]).succeeded(how);
        let profile = lab_off.profile(&counted);
        assert_eq!(profile.calls("paint", "red"), 0, "{how}");
        assert_eq!(profile.calls("paint", "?"), 300, "{how}");
        profile.adds_up(how);
    }
}

#[test]
fn trip_counts() {
    for how in ["gcc -O0", "gcc -O1", "gcc -Os", "clang-19 -O0", "gcc -O1 -no-pie -fno-pie"] {
        let lab = Lab::new();
        let profile = lab.check(how, "loops.c", &[]);
        // Small and unoptimised loops check first: the header runs once more for each entry.
        let extra = u64::from(how.contains("-O0") || how.contains("-Os"));
        let turns = |entries: u64, iterations: u64| (entries, iterations + extra * entries);
        assert_eq!(profile.loops("counted_loop"), [turns(10, 550)], "{how}");
        let mut nested = profile.loops("nested_loop");
        nested.sort_unstable();
        assert_eq!(nested, [turns(1, 7), turns(7, 77)], "{how}");
        assert_eq!(profile.loops("do_loop"), [(1, 11)], "{how}");
        // Found at 20, and not at all.
        let (entries, iterations) = profile.loops("find_loop")[0];
        assert_eq!(entries, 2, "{how}");
        assert!((71..=72).contains(&iterations), "{how}: {iterations}");
    }
}

/// Stops at `leaf` in the rewritten program and returns what gdb says.
fn stop_at_leaf(lab: &Lab, how: &str) -> String {
    let native = lab.build(how, "walk.c", "program");
    let counted = lab.instrument(&native, &[]);
    let mut command = lab.command("gdb".as_ref(), &["-batch", "-nx"]);
    command.args(["-iex", "set debuginfod enabled off", "-ex", "break leaf", "-ex", "run", "-ex", "bt"]);
    command.arg(&counted);
    let out = lab.finish(command);
    format!("{}{}", out.stdout, out.stderr)
}

/// A debugger finds its way.
fn finds_its_way(how: &str) -> String {
    let text = stop_at_leaf(&Lab::new(), how);
    assert!(text.contains("Breakpoint 1, ") || text.contains("Breakpoint 1."), "{how}: {text}");
    let frames: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert!(frames.len() >= 3, "{how}: {text}");
    // gdb may go on below main, where it knows more of the C library.
    assert!(frames[0].contains("leaf ("), "{how}: {text}");
    assert!(frames.iter().any(|f| f.contains("main (")), "{how}: {text}");
    assert!(!frames.iter().any(|f| f.contains("??")), "{how}: {text}");
    text
}

#[test]
fn gdb() {
    if available("gdb") {
        for how in ["gcc -g -O0", "gcc -O2", "gcc -g -O2 -no-pie -fno-pie"] {
            finds_its_way(how);
        }
    }
}

#[test]
fn gdb_has_no_complaints() {
    if available("gdb") {
        for how in ["gcc -g -O0", "gcc -O2", "clang-19 -g -O0"] {
            let text = finds_its_way(how);
            assert!(!text.contains("warning: "), "{how}: {text}");
        }
    }
}

/// Loops that go on until a signal ends them, in one way or another.
#[test]
fn loops_left_by_signals() {
    for how in ["gcc -O2", "clang-19 -O2"] {
        let lab = Lab::new();
        let native = lab.build(how, "spin.c", "program");
        let counted = lab.instrument(&native, &[]);
        for way in ["flag", "jump", "exit", "_exit"] {
            let profile = lab.profile(&counted);
            let _ = std::fs::remove_file(&profile.0);
            let ran = lab.run(&counted, &[way]);
            let status =
                [("flag", 2), ("jump", 2), ("exit", 3), ("_exit", 4)].iter().find(|(w, _)| *w == way);
            assert_eq!(ran.status.code(), status.map(|&(_, code)| code), "{how} {way}: {}", ran.stderr);
            let turns: u64 = ran.stdout.trim_start_matches("turns ").trim().parse().expect("turns");
            let name = if way == "flag" { "until_flag" } else { "endless" };
            let blocks = profile.blocks();
            let most =
                blocks.iter().filter(|b| b.function == name).filter_map(|b| b.count).max().unwrap_or(0);
            // A turn may just have begun; one or two checks come on top.
            assert!((turns..=turns + 2).contains(&most), "{how} {way}: {turns} turns, counted {most}");
        }
    }
}

#[test]
fn registers_of_all_kinds() {
    if !std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" avx ")) {
        println!("skipped: this machine has no AVX");
        return;
    }
    for how in ["gcc -O2 -mavx", "gcc -O0 -mavx", "clang-19 -O2 -mavx -no-pie -fno-pie"] {
        Lab::new().check(how, "registers.c", &[]);
    }
}

/// Counters in blocks and counters on a few edges tell the same.
#[test]
fn modes_agree() {
    for (how, source, args) in [
        ("g++ -O2 -std=c++14", "exceptions.cc", &[][..]),
        ("clang++-19 -O2 -std=c++17", "exceptions.cc", &[]),
        ("g++ -O0", "calls.cc", &[]),
        ("gcc -O2", "jumps.c", &["0"]),
        ("gcc -O3", "processes.c", &["fork"]),
        ("gcc -O2", "processes.c", &["tree"]),
        ("g++ -O2", "threads.cc", &[]),
    ] {
        let lab = Lab::new();
        let native = lab.build(how, source, "program");
        let read = |mode: &str| -> Vec<(String, u64, Option<u64>)> {
            let counted = lab.instrument(&native, &["--mode", mode]);
            let profile = lab.compare(&native, &counted, args, &format!("{how} {source} {mode}"));
            profile.blocks().into_iter().map(|b| (b.function, b.address, b.count)).collect()
        };
        let (edges, blocks) = (read("edges"), read("blocks"));
        for (one, other) in edges.iter().zip(&blocks) {
            assert_eq!(one, other, "{how} {source}");
        }
    }
}

/// Programs of the system, with a little work each.
#[test]
fn system_programs() {
    let work = [
        ("gzip", "seq 1 20000 | \"$0\" -9 | \"$0\" -d | cksum"),
        ("sort", "seq 1 9000 | \"$0\" -k1.2 -r | cksum"),
        ("sed", "seq 1 3000 | \"$0\" -n -e 's/7/x/g' -e '/x1/p' | cksum"),
        ("grep", "seq 1 9000 | \"$0\" -E '^(1|2).*7(3|4)$'; echo $?"),
        ("find", "\"$0\" /usr/share/doc -maxdepth 1 -name 'lib*' | sort | cksum"),
        ("tar", "\"$0\" cf - /usr/share/doc/bash /etc/passwd 2>/dev/null | \"$0\" tf - | cksum"),
        (
            "bash",
            "\"$0\" -c 'f() { for ((i=0;i<900;i++)); do a[i%50]=$((i*i)); done; echo ${#a[@]} ${a[7]}; }; f; (f | cat); trap \"echo bye\" EXIT; x=$(echo a $(echo b)); case $x in a*) echo yes;; esac; for i in 1 2; do echo $i; done | while read l; do echo \"<$l>\"; done; exit 3'; echo $?",
        ),
        (
            "perl",
            "PERL_HASH_SEED=0 \"$0\" -e 'my %h; $h{$_ % 97} .= chr(65+$_%26) for 1..3000; for (sort keys %h) { (my $t=$h{$_}) =~ s/([A-M])(N|O)?/$2$1/g; $s += length($t)*ord($t) } print \"$s\\n\"; eval { die {} }; print ref($@), \"\\n\"; my $p=fork; exit 3 if !$p; waitpid $p,0; print $?>>8'; echo $?",
        ),
        ("objdump", "\"$0\" -d /bin/true | cksum"),
    ];
    let lab = Lab::new();
    for (name, script) in work {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let Some(path) = std::env::split_paths(&paths).map(|p| p.join(name)).find(|p| p.is_file()) else {
            println!("skipped: there is no {name} here");
            continue;
        };
        let profile = lab.path(&format!("{name}.rprof"));
        let counted = lab.instrument(&path, &["--profile", profile.to_str().expect("a path")]);
        let run = |program: &std::path::Path| {
            let mut command = lab.command("sh".as_ref(), &["-c", script]);
            command.arg(program).env("LC_ALL", "C");
            lab.finish(command)
        };
        run(&counted).behaves_as(&run(&path), name);
        assert!(crate::kit::Profile(profile).runs() > 0, "{name}");
    }
}

/// Several stacks in a thread, threads that do not end by a return, code before and after `main`.
#[test]
fn stacks_threads_and_initialisers() {
    for how in ["gcc -O0", "gcc -O2", "clang-19 -O2 -no-pie -fno-pie"] {
        Lab::new().check(how, "contexts.c", &[]);
        Lab::new().check(how, "cancelled.c", &[]);
    }
    for how in ["g++ -O2", "g++ -O2 -static", "clang++-19 -O0"] {
        Lab::new().check(how, "before_and_after.cc", &[]);
    }
}

/// A program that may call the kernel no more. Recording targets takes that, counting does not.
#[test]
fn sandboxed() {
    let lab = Lab::new();
    let native = lab.build("gcc -O2", "sandboxed.c", "program");
    let counted = lab.instrument(&native, &["--calls", "off"]);
    lab.compare(&native, &counted, &[], "sandboxed");
}

/// Sanitizers reserve most of the address space for themselves.
#[test]
fn sanitizers() {
    for how in [
        "gcc -O1 -fsanitize=address",
        "gcc -O1 -fsanitize=thread",
        "gcc -O1 -fsanitize=undefined",
        "clang-19 -O1 -fsanitize=address",
        "clang-19 -O1 -fsanitize=memory",
        "clang-19 -O1 -fsanitize=thread",
    ] {
        let lab = Lab::new();
        if !lab.can_build(how) {
            println!("skipped: {how} does not work here");
            continue;
        }
        let profile = lab.check(how, "mix.c", &[]);
        assert_eq!(profile.entries("classify"), 30, "{how}");
        assert_eq!(profile.entries("main"), 1, "{how}");
    }
}

#[test]
#[ignore = "the callee is the address of a stub, without its name"]
fn imports_at_fixed_addresses_have_names() {
    let lab = Lab::new();
    let profile = lab.check("g++ -O2 -no-pie -fno-pie", "calls.cc", &[]);
    let rows = profile.table("--calls");
    assert!(rows.iter().any(|r| r[1] == "measure" && r[3].contains("strlen")), "{rows:?}");
}
