//! The forward slice, against what it must and must not hold, and against what really differs between two builds.

mod build;
mod generate;
mod oracle;
mod programs;

use relive_testkit::steps::Stepper;

const INPUTS: &[&[&str]] = &[&["3", "5"], &["13", "6"]];

#[test]
fn what_runs_differently_was_foreseen() {
    let stepper = Stepper::default();
    let mut seen = 0;
    for seed in 2000..2010 {
        let (old, new) = generate::pair(seed);
        // Resolving names while it runs would take most steps.
        let flags = [if seed % 2 == 0 { "-O1" } else { "-O2" }, "-w", "-Wl,-z,now"];
        let oracle::Comparison { same, differ, free, runs, missed } =
            oracle::compare(&stepper, (&old, &new), &flags, INPUTS);
        assert!(missed.is_empty(), "seed {seed}: {missed:#?}\n{old}");
        assert!(differ <= runs && runs + free <= same, "seed {seed}: {differ} {runs} {free} {same}");
        seen += differ;
    }
    assert!(seen > 0, "nothing differed in any program");
}
