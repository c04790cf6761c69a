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
        let oracle::Comparison { same, differ, free, runs, held: _, missed } =
            oracle::compare(&stepper, (&old, &new), &flags, INPUTS);
        assert!(missed.is_empty(), "seed {seed}: {missed:#?}\n{old}");
        assert!(differ <= runs && runs + free <= same, "seed {seed}: {differ} {runs} {free} {same}");
        seen += differ;
    }
    assert!(seen > 0, "nothing differed in any program");
}

/// What ran before anything that changed holds, although it is behind pointers.
#[test]
fn what_was_measured_is_something_to_go_by() {
    let program = |number: &str| {
        format!(
            r#"
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) static void fill(int *a, int n) {{ for (int i = 0; i < n; i++) a[i] = i * n; }}
__attribute__((noinline)) static void change(int *a, int n) {{ a[n / 2] = n + {number}; }}
__attribute__((noinline)) static int count(int *a) {{ int c = 0; while (a[c] != 7) c++; return c; }}
__attribute__((noinline)) static void complain(void) {{ fputs("no", stderr); exit(3); }}
int main(int argc, char **argv) {{
    int n = argc > 1 ? atoi(argv[1]) : 20;
    if (n < 0) complain();
    int *a = malloc(sizeof *a * (n + 2));
    fill(a, n);
    a[n] = 7;
    change(a, n);
    printf("%d\n", count(a));
    free(a);
    return 0;
}}"#
        )
    };
    let (old, new) = (program("3"), program("-13"));
    let inputs: &[&[&str]] = &[&["20"]];
    let flags = ["-O1", "-w", "-Wl,-z,now"];
    let changed = oracle::compare(&Stepper::default(), (&old, &new), &flags, inputs);
    assert!(changed.missed.is_empty() && changed.differ > 0, "{changed:#?}");
    // The loop of `fill` and the way there, in `main`.
    assert!(changed.held[0] >= 4, "{changed:#?}");
}
