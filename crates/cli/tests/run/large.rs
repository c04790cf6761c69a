//! Files with so much code that only what ran of them is described.

use crate::kit::{Lab, Profile, relive};
use std::collections::BTreeMap;
use std::path::Path;

/// How often each block and edge that ran did; edges by their function, where from and where to.
type Counts = (BTreeMap<u64, u64>, BTreeMap<[String; 3], u64>);

fn counts(profile: &Profile) -> Counts {
    let mut counts = Counts::default();
    for block in profile.blocks() {
        *counts.0.entry(block.address).or_default() += block.count.unwrap_or_default();
    }
    for edge in profile.edges() {
        *counts.1.entry([edge.function, edge.from, edge.to]).or_default() += edge.count.unwrap_or_default();
    }
    counts.0.retain(|_, count| *count > 0);
    counts.1.retain(|_, count| *count > 0);
    counts
}

fn measure(lab: &Lab, program: &Path, name: &str, options: &[&str], args: &[&str]) -> Profile {
    let mut command = relive();
    command.current_dir(lab.folder()).args(["run", "-o", name, "--modules", "*/program"]);
    command.args(options).arg("--").arg(program).args(args);
    lab.finish(command).succeeded(name);
    Profile(lab.path(name))
}

/// What ran is described and counted as if all had been, in files with tables and without.
#[test]
fn the_same_of_what_ran() {
    for how in ["gcc -O2", "gcc -O0", "gcc -O2 -s -fno-asynchronous-unwind-tables"] {
        let lab = Lab::new();
        if !lab.can_build(how) {
            continue;
        }
        let program = lab.build(how, "../../run/programs/large.c", "program");
        for args in [&["pick"][..], &[]] {
            let all = measure(&lab, &program, "all.rprof", &["--all-code"], args);
            let some = measure(&lab, &program, "some.rprof", &[], args);
            let (all, some) = (counts(&all), counts(&some));
            assert_eq!(some.0, all.0, "{how} {args:?}");
            assert_eq!(some.1, all.1, "{how} {args:?}");
        }
    }
}

/// Of functions that never ran the profile has the names, and nothing more.
#[test]
fn what_never_ran() {
    let lab = Lab::new();
    let program = lab.build("gcc -O2", "../../run/programs/large.c", "program");
    let profile = measure(&lab, &program, "one.rprof", &[], &[]);
    let functions = profile.functions();
    let entries = |name: &str| functions.iter().find(|f| f.name == name).and_then(|f| f.entries);
    assert_eq!(entries("sum"), Some(10));
    assert_eq!([entries("never"), entries("pick"), entries("complain")], [Some(0); 3]);
    for name in ["never", "pick", "complain"] {
        assert!(!profile.blocks().iter().any(|block| block.function == name), "{name}");
    }
    let all = measure(&lab, &program, "all.rprof", &["--all-code"], &[]);
    let coverage = |profile: &Profile| profile.report()["modules"][0]["functions"].clone();
    assert_eq!(coverage(&profile), coverage(&all));
    assert_eq!(profile.report()["modules"][0]["only_executed"], true);
    assert_eq!(all.report()["modules"][0]["only_executed"], false);
    profile.adds_up("what ran");
}

/// Two runs that did different things add up to what both did.
#[test]
fn sums() {
    let lab = Lab::new();
    let program = lab.build("gcc -O2", "../../run/programs/large.c", "program");
    let one = counts(&measure(&lab, &program, "one.rprof", &[], &[]));
    let other = counts(&measure(&lab, &program, "other.rprof", &[], &["pick"]));
    let mut merge = relive();
    merge.current_dir(lab.folder()).args(["merge", "one.rprof", "other.rprof", "-o", "both.rprof"]);
    lab.finish(merge).succeeded("merge");
    let both = Profile(lab.path("both.rprof"));
    assert_eq!(both.report()["modules"].as_array().map(Vec::len), Some(1));
    let mut sum = one;
    other.0.into_iter().for_each(|(block, count)| *sum.0.entry(block).or_default() += count);
    other.1.into_iter().for_each(|(edge, count)| *sum.1.entry(edge).or_default() += count);
    assert_eq!(counts(&both), sum);
    both.adds_up("the sum");
}
