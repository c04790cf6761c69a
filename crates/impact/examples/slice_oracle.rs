//! `slice_oracle COUNT FIRST`: programs drawn at random in two versions each, run step by step, and whether slices foresaw
//! what differed. Prints one line a program and what came of all.

#[path = "../tests/slice/build.rs"]
mod build;
#[path = "../tests/slice/generate.rs"]
mod generate;
#[path = "../tests/slice/oracle.rs"]
mod oracle;

use relive_testkit::steps::Stepper;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let (count, first) = (numbers.next().unwrap_or(20), numbers.next().unwrap_or(1000));
    let stepper = Stepper::default();
    let (mut same, mut differ, mut runs, mut free, mut missed) = (0, 0, 0, 0, 0);
    let mut held = [0, 0];
    for seed in first..first + count {
        let (old, new) = generate::pair(seed);
        for level in ["-O1", "-O2"] {
            let flags = [level, "-w", "-Wl,-z,now"];
            let found = oracle::compare(&stepper, (&old, &new), &flags, &[&["3", "5"], &["13", "6"]]);
            let oracle::Comparison { same: s, differ: d, runs: r, free: f, held: h, missed: m } = found;
            println!(
                "{seed} {} same {s} differ {d} may-run-differently {r} free {f} held {} of those that ran, {} in all, missed {}",
                level,
                h[0],
                h[1],
                m.len()
            );
            m.iter().for_each(|line| println!("  MISSED {line}"));
            (same, differ, runs, free, missed) = (same + s, differ + d, runs + r, free + f, missed + m.len());
            held = [held[0] + h[0], held[1] + h[1]];
        }
    }
    println!(
        "{count} programs: {same} blocks unchanged, {differ} ran differently, {runs} said to, {free} in no slice, {missed} missed; \
         by what was measured, {} that ran are in no slice, {} in all",
        held[0], held[1]
    );
}
