//! Functions as large as they get, with evidence of which more or less is wrong. For the times:
//! `cargo test --release -p relive-migrate --test size -- --nocapture`.

use relive_migrate::balance::check::check;
use relive_migrate::balance::{Arc, balance};
use std::time::Instant;

/// Blocks of each function.
const BLOCKS: u32 = 20_000;

/// SplitMix64: the same graphs everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// Any size up to `limit`, small ones as often as large ones.
    fn of_any_size(&mut self, limit: u64) -> u64 {
        let bits = self.below(u64::from(u64::BITS - limit.leading_zeros()));
        self.next() % (2 << bits)
    }
}

/// A function under construction, with flows that add up. Node 0 is the outside.
struct Function {
    random: Random,
    nodes: u32,
    arcs: Vec<(u32, u32, u64)>,
}

/// A place where control is, and how often.
type At = (u32, u64);

impl Function {
    /// One that is entered some times.
    fn new(seed: u64) -> (Self, At) {
        let mut this = Self { random: Random(seed), nodes: 1, arcs: Vec::new() };
        let calls = 1 + this.random.of_any_size(1 << 40);
        (this, (0, calls))
    }

    /// A block that all of these lead to, `again` more often than that.
    fn block(&mut self, from: &[At], again: u64) -> At {
        let enter = self.nodes;
        self.nodes += 2;
        self.arcs.extend(from.iter().map(|&(from, count)| (from, enter, count)));
        let count = from.iter().map(|from| from.1).sum::<u64>() + again;
        self.arcs.push((enter, enter + 1, count));
        (enter + 1, count)
    }

    /// From there back to a block.
    fn repeat(&mut self, from: At, block: At) {
        self.arcs.push((from.0, block.0 - 1, from.1));
    }

    /// About so many blocks, structured as programs are.
    fn region(&mut self, from: At, blocks: u32, in_loop: bool) -> At {
        let at = self.block(&[from], 0);
        if blocks < 4 {
            return at;
        }
        let inner = blocks - 3;
        let part = 1 + self.random.below(u64::from(inner)) as u32;
        let some = self.random.below(at.1 + 1);
        let (one, other) = ((at.0, some), (at.0, at.1 - some));
        match self.random.below(6) {
            0 | 1 => {
                let ends = [self.region(one, part, in_loop), self.region(other, inner - part, in_loop)];
                self.block(&ends, 0)
            }
            2 => {
                let end = self.region(one, inner, in_loop);
                self.block(&[end, other], 0)
            }
            3 if !in_loop => {
                self.arcs.push((at.0, 0, some));
                self.region(other, inner, in_loop)
            }
            4 => {
                let rounds = at.1.saturating_mul(self.random.below(100)).min(1 << 50);
                let head = self.block(&[at], rounds);
                let end = self.region((head.0, rounds), inner, true);
                self.repeat(end, head);
                (head.0, at.1)
            }
            _ => {
                let middle = self.region(at, part, in_loop);
                self.region(middle, inner - part, in_loop)
            }
        }
    }

    /// The arcs, with so many in a hundred wrong. Half of those are known to be.
    fn evidence(mut self, end: At, wrong: u64) -> (u32, Vec<Arc>) {
        self.arcs.push((end.0, 0, end.1));
        let mut arcs = Vec::new();
        for &(from, to, count) in &self.arcs {
            let price = 10 + self.random.below(90) as u32;
            let mut arc = Arc { from, to, evidence: count, more: price, less: price };
            if self.random.below(100) < wrong {
                match self.random.below(4) {
                    0 => (arc.evidence, arc.more, arc.less) = (0, 1, 0),
                    1 => (arc.evidence, arc.more, arc.less) = (self.random.below(2 * count + 2), 3, 3),
                    2 => arc.evidence = self.random.below(2 * count + 2),
                    _ => arc.evidence = self.random.of_any_size(1 << 50),
                }
            }
            arcs.push(arc);
        }
        (self.nodes, arcs)
    }
}

/// Any structure.
fn nest(wrong: u64) -> (u32, Vec<Arc>) {
    let (mut function, mut at) = Function::new(wrong);
    while function.nodes < 2 * BLOCKS {
        let blocks = BLOCKS - function.nodes / 2;
        at = function.region(at, blocks, false);
    }
    function.evidence(at, wrong)
}

/// One diamond after the other, in a loop.
fn ladder(wrong: u64) -> (u32, Vec<Arc>) {
    let (mut function, start) = Function::new(wrong);
    let rounds = start.1 * 100;
    let head = function.block(&[start], rounds);
    let mut at = (head.0, rounds);
    for _ in 0..BLOCKS / 4 {
        at = function.block(&[at], 0);
        let some = function.random.below(at.1 + 1);
        let ends = [function.block(&[(at.0, some)], 0), function.block(&[(at.0, at.1 - some)], 0)];
        at = function.block(&ends, 0);
    }
    function.repeat(at, head);
    function.evidence((head.0, start.1), wrong)
}

/// A loop around a switch with many cases, all leading back to it.
fn interpreter(cases: u32, wrong: u64) -> (u32, Vec<Arc>) {
    let (mut function, start) = Function::new(wrong);
    let counts: Vec<u64> = (0..cases).map(|_| function.random.of_any_size(1 << 40)).collect();
    let switch = function.block(&[start], counts.iter().sum());
    for count in counts {
        let end = function.region((switch.0, count), BLOCKS / cases, true);
        function.repeat(end, switch);
    }
    function.evidence((switch.0, start.1), wrong)
}

/// An interpreter whose cases end with a switch each, so that all lead to all, by a block each or directly.
fn threaded(cases: u32, wrong: u64) -> (u32, Vec<Arc>) {
    let (mut function, (_, calls)) = Function::new(wrong);
    // A program is a sequence of cases: what leads to a case is what leaves it but for one call.
    let mut pairs = vec![0; (cases * cases) as usize];
    let mut case = 0;
    for _ in 0..cases * cases {
        let next = function.random.below(u64::from(cases)) as u32;
        pairs[(case * cases + next) as usize] += calls;
        case = next;
    }
    let runs = |case: u32| (0..cases).map(|from| pairs[(from * cases + case) as usize]).sum::<u64>();
    let heads: Vec<At> = (0..cases)
        .map(|case| match case {
            0 => function.block(&[(0, calls)], runs(case)),
            _ => function.block(&[], runs(case)),
        })
        .collect();
    let ends: Vec<At> =
        heads.iter().map(|&head| function.region(head, BLOCKS / cases - cases / 2, true)).collect();
    for from in 0..cases {
        for to in 0..cases {
            let mut at = (ends[from as usize].0, pairs[(from * cases + to) as usize]);
            if function.random.below(2) == 0 {
                at = function.block(&[at], 0);
            }
            function.repeat(at, heads[to as usize]);
        }
    }
    function.evidence((ends[case as usize].0, calls), wrong)
}

#[track_caller]
fn balanced(name: &str, graph: impl Fn(u64) -> (u32, Vec<Arc>)) {
    for wrong in [0, 1, 10, 50, 100] {
        let (nodes, arcs) = graph(wrong);
        let start = Instant::now();
        let flows = balance(nodes, &arcs);
        let time = start.elapsed();
        let moved = arcs.iter().zip(&flows).filter(|(arc, flow)| arc.evidence != **flow).count();
        println!(
            "{name:>12}, {nodes} nodes, {} arcs, {wrong} % wrong: {moved} changed in {time:?}",
            arcs.len()
        );
        assert_eq!(check(nodes, &arcs, &flows), Ok(()));
        assert_eq!(moved == 0, wrong == 0);
    }
}

#[test]
fn nested_statements() {
    balanced("nest", nest);
}

#[test]
fn a_long_loop() {
    balanced("ladder", ladder);
}

#[test]
fn a_large_switch() {
    balanced("200 cases", |wrong| interpreter(200, wrong));
    balanced("6000 cases", |wrong| interpreter(6000, wrong));
}

#[test]
fn many_switches() {
    balanced("threaded", |wrong| threaded(150, wrong));
}
