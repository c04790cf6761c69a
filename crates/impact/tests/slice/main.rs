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
    for seed in 0..10 {
        let (old, new) = generate::pair(seed);
        // Resolving names while it runs would take most steps.
        let flags = [if seed % 2 == 0 { "-O1" } else { "-O2" }, "-w", "-Wl,-z,now"];
        let comparison = oracle::compare(&stepper, (&old, &new), &flags, INPUTS);
        assert!(comparison.missed.is_empty(), "seed {seed}: {:#?}\n{old}", comparison.missed);
    }
}
