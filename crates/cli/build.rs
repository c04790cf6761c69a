//! Has the command start quickly: `relive cc` does, once or twice for each file that is compiled.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Linked for a fixed address, there are no 15,000 pointers to be filled in at each start, and no pages to be copied for
    // that. See benchmarks/results for what it saves.
    println!("cargo::rustc-link-arg-bin=relive=-no-pie");
}
