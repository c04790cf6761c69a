//! Variables that the source says are atomic, where symbols say that they are.

use crate::programs::open;
use relive_image::lines::Lines;
use relive_testkit::compile::{Compiled, compile};
use std::collections::BTreeMap;

const C: &str = r"
    #include <stdatomic.h>
    atomic_int number = 1;
    int *_Atomic pointer;
    struct { int plain; _Atomic long inside; char rest[4]; } mixed = {1, 2, {0}};
    atomic_uchar bytes[3] = {1};
    int plain = 3;
    volatile int not_atomic = 4;
    int main(void) {
        static atomic_short hidden = 5;
        return hidden + plain + not_atomic + mixed.plain + bytes[1] + !pointer;
    }
";

const CPP: &str = r"
    #include <atomic>
    std::atomic<long> number{1};
    struct Queue { int plain; std::atomic<int> head, tail; };
    Queue queue;
    struct Counted { static std::atomic<unsigned> count; };
    std::atomic<unsigned> Counted::count{7};
    int main() { return number.load() + queue.head.load() + Counted::count.load(); }
";

/// What is atomic: the name of the symbol it is in, how far behind its start, and how long.
fn found(program: &Compiled) -> Vec<(String, u64, u64)> {
    let loaded = open(program);
    let image = loaded.image().expect("an image");
    let symbols: BTreeMap<u64, &str> =
        image.symbols.iter().map(|symbol| (symbol.addr.0, &*symbol.name)).collect();
    let mut found: Vec<_> = Lines::new(&loaded)
        .atomics()
        .into_iter()
        .map(|range| {
            let (start, name) = symbols.range(..=range.start.0).next_back().expect("a symbol");
            let name = name.split('.').next().unwrap_or(name);
            (name.to_string(), range.start.0 - start, range.len())
        })
        .collect();
    found.sort();
    found
}

fn expected(all: &[(&str, u64, u64)]) -> Vec<(String, u64, u64)> {
    all.iter().map(|&(name, offset, len)| (name.to_string(), offset, len)).collect()
}

#[test]
fn of_c() {
    let all = [
        ("bytes", 0, 1),
        ("bytes", 1, 1),
        ("bytes", 2, 1),
        ("hidden", 0, 2),
        ("mixed", 8, 8),
        ("number", 0, 4),
        ("pointer", 0, 8),
    ];
    for flags in [["-g", "-O0"], ["-g", "-O2"]] {
        assert_eq!(found(&compile("gcc", &flags, ("main.c", C))), expected(&all), "{flags:?}");
    }
    let nothing = expected(&[]);
    assert_eq!(found(&compile("gcc", &["-O0"], ("main.c", C))), nothing);
    assert_eq!(
        found(&compile("gcc", &["-g", "-gdwarf-4"], ("main.c", C))),
        nothing,
        "version 4 does not say"
    );
}

#[test]
fn of_cpp() {
    let all = [("_ZN7Counted5countE", 0, 4), ("number", 0, 8), ("queue", 4, 4), ("queue", 8, 4)];
    assert_eq!(found(&compile("g++", &["-g"], ("main.cc", CPP))), expected(&all));
}
