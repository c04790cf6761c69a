//! Programs made at random, against the single-step oracle.

use crate::kit::Lab;
use crate::steps::agrees;
use relive_promises::dice::Dice;
use relive_testkit::steps::Stepper;
use std::fmt::Write as _;

/// Writes a program: functions with nested loops, switches, jumps and calls, all of which end.
struct Author<'a> {
    dice: &'a mut Dice,
    text: String,
    functions: u64,
    labels: u32,
    /// With exceptions.
    throws: bool,
}

impl Author<'_> {
    fn pick(&mut self, n: u64) -> u64 {
        self.dice.roll(n as usize) as u64
    }

    fn expression(&mut self, depth: u32) -> String {
        let names = ["x", "y", "z", "g"];
        match if depth == 0 { self.pick(2) } else { self.pick(9) } {
            0 => names[self.pick(4) as usize].to_string(),
            1 => format!("{}u", self.pick(100)),
            2 => format!("({} + {})", self.expression(depth - 1), self.expression(depth - 1)),
            3 => format!("({} * 3u)", self.expression(depth - 1)),
            4 => format!("({} ^ {})", self.expression(depth - 1), self.expression(depth - 1)),
            5 => format!("({} >> {})", self.expression(depth - 1), self.pick(8)),
            6 => format!("({} % {}u)", self.expression(depth - 1), 2 + self.pick(9)),
            7 => format!(
                "({} < {} ? {} : {})",
                self.expression(depth - 1),
                self.expression(depth - 1),
                self.expression(depth - 1),
                self.expression(depth - 1)
            ),
            _ => format!(
                "(uint32_t)((uint64_t){} - {})",
                self.expression(depth - 1),
                self.expression(depth - 1)
            ),
        }
    }

    fn statement(&mut self, depth: u32, callable: u64) {
        let variable = ["x", "y", "z", "g"][self.pick(4) as usize];
        let value = self.expression(2);
        match if depth == 0 { self.pick(4) } else { self.pick(if self.throws { 15 } else { 12 }) } {
            0 | 1 => writeln!(self.text, "{variable} = {value};"),
            2 if callable > 0 => {
                let callee = self.pick(callable);
                writeln!(self.text, "{variable} += f{callee}({value}, y & 7);")
            }
            3 if callable > 0 => writeln!(self.text, "{variable} += table[{value} % {callable}](x, z & 3);"),
            2 | 3 => writeln!(self.text, "g += {value};"),
            4 | 5 => {
                writeln!(self.text, "if ({value} & 1) {{").expect("text");
                self.statements(depth - 1, callable);
                self.text.push_str("} else {\n");
                self.statements(depth - 1, callable);
                writeln!(self.text, "}}")
            }
            6 | 7 => {
                let (label, turns) = (self.labels, 1 + self.pick(4));
                self.labels += 1;
                writeln!(
                    self.text,
                    "for (uint32_t i{label} = 0; i{label} < {turns} + (y & 1); i{label}++) {{"
                )
                .expect("text");
                self.statements(depth - 1, callable);
                match self.pick(4) {
                    0 => writeln!(self.text, "if ({value} % 5 == 0) break;"),
                    1 => writeln!(self.text, "if ({value} % 3 == 0) continue; z++;"),
                    _ => Ok(()),
                }
                .expect("text");
                writeln!(self.text, "}}")
            }
            8 | 9 => {
                let cases = 5 + self.pick(6);
                writeln!(self.text, "switch ({value} % {}u) {{", cases + 1).expect("text");
                for case in 0..cases {
                    writeln!(self.text, "case {case}:").expect("text");
                    self.statements(depth - 1, callable.min(1));
                    if self.pick(4) > 0 {
                        self.text.push_str("break;\n");
                    }
                }
                writeln!(self.text, "default: z += 3; }}")
            }
            10 => writeln!(self.text, "if ({value} % 7 == 2) return x + z;"),
            12 => writeln!(
                self.text,
                "if (throws && {value} % 3 == 0) {{ throws--; throw (int)({value} & 15); }}"
            ),
            13 => {
                self.text.push_str("try { Guard guard;\n");
                self.statements(depth - 1, callable);
                writeln!(self.text, "if (throws && {value} % 5 < 2) {{ throws--; throw Thing{{{value}}}; }}")
                    .expect("text");
                self.text.push_str("} catch (const Thing &t) { z += t.value;\n");
                self.statements(depth - 1, callable.min(1));
                if self.pick(3) == 0 {
                    self.text.push_str("throw;\n");
                }
                writeln!(self.text, "}} catch (int i) {{ y += i; }}")
            }
            14 => {
                self.text.push_str("Guard guard; try {\n");
                self.statements(depth - 1, callable);
                let again = if self.pick(2) == 0 { "throw;" } else { "" };
                writeln!(self.text, "}} catch (...) {{ g ^= {value}; {again} }}")
            }
            _ => {
                // At most twice around.
                let label = self.labels;
                self.labels += 1;
                writeln!(self.text, "uint32_t n{label}; n{label} = 0; again{label}: n{label}++;")
                    .expect("text");
                self.statements(depth - 1, callable.min(1));
                writeln!(self.text, "if (n{label} < 2 && {value} % 3) goto again{label};")
            }
        }
        .expect("text");
    }

    fn statements(&mut self, depth: u32, callable: u64) {
        for _ in 0..=self.pick(2) {
            self.text.push_str("{ ");
            self.statement(depth, callable);
            self.text.push_str("}\n");
        }
    }

    fn program(mut self) -> String {
        self.text.push_str("#include <stdint.h>\n#include <stdio.h>\nstatic volatile uint32_t g = 1; static uint32_t budget = 300;\n");
        if self.throws {
            self.text.push_str("static uint32_t throws = 12; struct Thing { uint32_t value; };\n");
            self.text.push_str("struct Guard { ~Guard() { g = g + 5; } };\n");
        }
        for i in 0..self.functions {
            writeln!(self.text, "uint32_t f{i}(uint32_t, uint32_t);").expect("text");
        }
        let names: Vec<String> = (0..self.functions).map(|i| format!("f{i}")).collect();
        writeln!(
            self.text,
            "static uint32_t (*const table[])(uint32_t, uint32_t) = {{{}}};",
            names.join(", ")
        )
        .expect("text");
        for i in 0..self.functions {
            // A budget ends it all: calls lead to earlier functions only, but there may be many.
            writeln!(self.text, "__attribute__((noinline)) uint32_t f{i}(uint32_t x, uint32_t y) {{ uint32_t z = x ^ {i}; if (budget == 0) return z; budget--;").expect("text");
            self.statements(3, i);
            self.text.push_str("return x + y + z; }\n");
        }
        let last = self.functions - 1;
        let (try_, catch) = if self.throws {
            ("try {", "} catch (int) { sum++; } catch (const Thing &) { sum += 2; }")
        } else {
            ("", "")
        };
        writeln!(self.text, "int main(void) {{ uint32_t sum = 0; for (uint32_t i = 0; i < 4; i++) {try_} sum = sum * 31 + f{last}(i, i * 7); {catch} printf(\"%u %u\\n\", sum, g); return sum % 50; }}").expect("text");
        self.text
    }
}

fn try_seeds(how: &str, seeds: std::ops::Range<u64>) {
    let stepper = Stepper::default();
    for seed in seeds {
        let what = format!("seed {seed}, {how}");
        let lab = Lab::new();
        let mut dice = Dice::new(seed);
        let throws = how.contains("++");
        let text = Author { dice: &mut dice, text: String::new(), functions: 5, labels: 0, throws }.program();
        let source = lab.path(if throws { "random.cc" } else { "random.c" });
        std::fs::write(&source, text).expect("a file");
        let native = lab.build(how, source.to_str().expect("a path"), "program");
        let steps = stepper.run(lab.folder(), &native, &[]);
        let counted = lab.instrument(&native, &[]);
        let profile = lab.compare(&native, &counted, &[], &what);
        agrees(&profile, &steps, &|_| true, &what);
        profile.adds_up(&what);
    }
}

#[test]
fn gcc() {
    try_seeds("gcc -O2 -w", 0..4);
    try_seeds("gcc -O1 -w -no-pie -fno-pie", 4..6);
}

#[test]
fn gcc_aggressive() {
    try_seeds("gcc -O3 -w -funroll-loops -fsplit-loops", 10..13);
    try_seeds("gcc -Os -w -s", 13..15);
}

#[test]
fn clang() {
    try_seeds("clang-19 -O2 -w", 20..24);
    try_seeds("clang-19 -O0 -w", 24..26);
}

#[test]
fn exceptions() {
    try_seeds("g++ -O2 -w -fpermissive", 30..32);
    try_seeds("g++ -O0 -w -fpermissive", 32..33);
    try_seeds("clang++-19 -O2 -w", 33..35);
}

/// As many as are asked for: `RELIVE_SEEDS=1000..1100 cargo test --test instrument many -- --ignored`.
#[test]
#[ignore = "takes as long as it is told to"]
fn many() {
    let seeds = std::env::var("RELIVE_SEEDS").unwrap_or_else(|_| "1000..1010".to_string());
    let (first, end) = seeds.split_once("..").expect("RELIVE_SEEDS=FIRST..END");
    let seeds = first.parse().expect("a number")..end.parse().expect("a number");
    for how in [
        "gcc -O2 -w",
        "gcc -O3 -w -no-pie -fno-pie",
        "gcc -Os -w -fcf-protection=full",
        "gcc -O1 -w",
        "clang-19 -O2 -w",
        "clang-19 -O3 -w -no-pie -fno-pie",
        "g++ -O2 -w -fpermissive",
        "clang++-19 -O2 -w",
    ] {
        try_seeds(how, seeds.clone());
    }
}
