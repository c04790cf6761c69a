//! Executes instructions drawn at random, and compares what they do to registers and memory with what `isa::replay` and
//! `isa::accesses` say.
//!
//!     cargo run --release -p relive-code --example draw_instructions [COUNT [SEED]]

#[path = "../tests/processor/arena.rs"]
mod arena;
#[path = "../tests/processor/check.rs"]
mod check;
#[path = "../tests/processor/draw.rs"]
mod draw;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().expect("a number"));
    let (count, seed) = (args.next().unwrap_or(100_000), args.next().unwrap_or(1));
    let findings = arena::Arena::new().draw(seed, count);
    for (name, [ran, read, mattered]) in &findings.mnemonics {
        println!("{ran:>8} {read:>8} {mattered:>8}  {name}");
    }
    findings.wrong.iter().take(100).for_each(|wrong| println!("{wrong}"));
    println!(
        "{} instructions, {} mnemonics, {} wrong",
        findings.compared,
        findings.mnemonics.len(),
        findings.wrong.len()
    );
    assert!(findings.wrong.is_empty());
}
