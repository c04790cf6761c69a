//! Counts against the single-step oracle: every block of the program, every instruction in it.

use crate::kit::{Lab, Profile};
use relive_testkit::steps::{Stepper, Steps};

/// Compares every measured block with what was executed. `of` says which functions to look at: the libc
/// inside a static program does not run the same twice.
pub(crate) fn agrees(profile: &Profile, steps: &Steps, of: &dyn Fn(&str) -> bool, what: &str) -> usize {
    let mut compared = 0;
    let mut wrong = Vec::new();
    let blocks = profile.blocks();
    for block in blocks.iter().filter(|b| of(&b.function)) {
        let Some(count) = block.count else { continue };
        compared += 1;
        let first = steps.counts.get(&block.address).copied().unwrap_or(0);
        if first != count {
            wrong.push(format!("{} {:#x}: counted {count}, ran {first}", block.function, block.address));
        }
        for (&at, &ran) in steps.counts.range(block.address..block.address + block.size) {
            if ran != first {
                wrong.push(format!("{} {at:#x}: in the middle of a block, ran {ran}", block.function));
            }
        }
    }
    // Whatever ran inside a measured function is in one of its blocks.
    for function in profile.functions().iter().filter(|f| f.state == "measured" && of(&f.name)) {
        for &at in steps.counts.range(function.address..function.address + function.size).map(|(at, _)| at) {
            if !blocks.iter().any(|b| (b.address..b.address + b.size).contains(&at)) {
                wrong.push(format!("{} {at:#x}: in no block", function.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{what}\n{}", wrong.join("\n"));
    compared
}

fn check(how: &str, source: &str, args: &[&str], least: usize) {
    let lab = Lab::new();
    let native = lab.build(how, source, "program");
    let steps = Stepper::default().run(lab.folder(), &native, args);
    let counted = lab.instrument(&native, &[]);
    let profile = lab.compare(&native, &counted, args, how);
    let own = ["main", "_start"];
    let is_static = how.contains("-static");
    // The functions of the source; the rest of a static program is libc.
    let source =
        std::fs::read_to_string(format!("{}/tests/instrument/programs/{source}", env!("CARGO_MANIFEST_DIR")))
            .expect("a source");
    let of = |name: &str| !is_static || own.contains(&name) || source.contains(&format!(" {name}("));
    let compared = agrees(&profile, &steps, &of, how);
    assert!(compared >= least, "{how}: only {compared} blocks");
    profile.adds_up(how);
}

#[test]
fn gcc_unoptimised() {
    check("gcc -g -O0", "mix.c", &[], 60);
}

#[test]
fn gcc_optimised() {
    check("gcc -O2", "mix.c", &["a", "b"], 60);
    check("gcc -O2 -fcf-protection=none -fno-plt -Wl,-z,now", "mix.c", &[], 60);
}

#[test]
fn gcc_fixed_addresses() {
    check("gcc -O3 -no-pie -fno-pie", "mix.c", &[], 60);
    check("gcc -O0 -no-pie -fno-pie", "mix.c", &[], 60);
}

#[test]
fn gcc_small_and_stripped() {
    check("gcc -Os -s", "mix.c", &[], 60);
    check("gcc -O2 -s -no-pie -fno-pie", "mix.c", &[], 60);
}

#[test]
fn labels_have_one_address() {
    let fixed = ["gcc -O0 -no-pie -fno-pie", "gcc -O2 -no-pie -fno-pie", "clang-19 -O2 -no-pie -fno-pie"];
    for how in ["gcc -O0", "gcc -O1", "gcc -O2", "clang-19 -O0", "clang-19 -O2"].into_iter().chain(fixed) {
        check(how, "labels.c", &[], 20);
    }
}

#[test]
fn gcc_static() {
    check("gcc -O2 -static", "mix.c", &[], 60);
    check("gcc -O2 -static-pie", "mix.c", &[], 60);
}

#[test]
fn clang() {
    check("clang-19 -O2", "mix.c", &[], 60);
    check("clang-19 -O0", "mix.c", &[], 60);
    check("clang-19 -O3 -no-pie -fno-pie", "mix.c", &[], 60);
}

#[test]
fn loops_and_calls() {
    check("gcc -O2", "loops.c", &[], 15);
    check("gcc -O3 -funroll-loops", "loops.c", &[], 15);
    check("g++ -O2", "calls.cc", &[], 40);
    check("clang++-19 -O2", "calls.cc", &[], 40);
}

#[test]
fn rounds_of_loops() {
    for how in ["gcc -O0", "gcc -O1", "gcc -O2", "gcc -O3 -no-pie -fno-pie", "clang-19 -O1", "clang-19 -O2"] {
        check(how, "rounds.c", &[], 80);
    }
}

#[test]
fn jumps_out_of_functions() {
    check("gcc -O2", "jumps.c", &["0"], 30);
    check("gcc -O0", "jumps.c", &["1"], 30);
    check("clang-19 -O2", "jumps.c", &["2"], 30);
}

#[test]
fn library_with_exceptions() {
    let lab = Lab::new();
    lab.build("g++ -O2 -shared -fPIC", "thrower_library.cc", "libthrower.so");
    let link = format!("g++ -O2 -L{0} -Wl,-rpath,{0} -lthrower", lab.folder().display());
    let native = lab.build(&link, "thrower_main.cc", "program");
    let steps = Stepper::default().run(lab.folder(), &native, &[]);
    let counted = lab.instrument(&native, &[]);
    let ran = lab.run(&counted, &[]).succeeded("program");
    assert!(steps.stdout.lines().next() == ran.stdout.lines().next(), "{}", ran.stdout);
    let profile = lab.profile(&counted);
    assert!(agrees(&profile, &steps, &|_| true, "exceptions") > 15);
    profile.adds_up("exceptions");
}

/// Code as compilers seldom write it.
#[test]
fn assembly() {
    check("gcc -O2", "assembly.c", &[], 40);
    check("gcc -O0 -no-pie -fno-pie", "assembly.c", &[], 40);
}
