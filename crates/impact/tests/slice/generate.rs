//! Small C programs drawn at random, each in two versions that differ in one place.

use std::fmt::Write;

/// Numbers that look random.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of so many.
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }
}

/// Writes a program. All choices come from one stream of numbers, so that two versions differ only where they are told to.
struct Author {
    random: Random,
    /// Numbers and statements written so far.
    written: u64,
    /// Which of them is other in this version.
    other: Option<u64>,
    text: String,
    depth: usize,
    /// The function that is written; it calls those before it.
    function: u64,
    loops: u64,
}

const FUNCTIONS: u64 = 7;
const GLOBALS: u64 = 5;

/// A program in two versions.
pub(crate) fn pair(seed: u64) -> (String, String) {
    let write = |other: Option<u64>| {
        let mut author = Author {
            random: Random(seed),
            written: 0,
            other,
            text: String::new(),
            depth: 0,
            function: 0,
            loops: 0,
        };
        author.program();
        (author.text, author.written)
    };
    let (old, places) = write(None);
    let mut random = Random(seed ^ 0x5555);
    loop {
        let new = write(Some(random.below(places))).0;
        if new != old {
            return (old, new);
        }
    }
}

impl Author {
    fn is_other(&mut self) -> bool {
        self.written += 1;
        self.other == Some(self.written - 1)
    }

    fn line(&mut self, text: &str) {
        let indent = 4 * self.depth;
        writeln!(self.text, "{:indent$}{text}", "").expect("text can be written");
    }

    fn number(&mut self, below: u64) -> String {
        let number = self.random.below(below);
        let other = self.is_other();
        (if other { (number + 1) % below.max(2) } else { number }).to_string()
    }

    /// A text of at least four letters, and of more in one of the versions perhaps.
    fn text(&mut self) -> String {
        let mut text: String = (0..4 + self.random.below(3)).map(|_| self.letter()).collect();
        match self.is_other() {
            true if self.written.is_multiple_of(2) => text.push('z'),
            true => text.replace_range(1..2, "Z"),
            false => {}
        }
        format!("\"{text}\"")
    }

    fn letter(&mut self) -> char {
        char::from(b'a' + self.random.below(26) as u8)
    }

    /// Something that can be read.
    fn value(&mut self) -> String {
        match self.random.below(18) {
            0..=2 => self.number(20),
            3..=4 => "x".to_string(),
            5 => "y".to_string(),
            6 => "l".to_string(),
            7..=8 => format!("g{}", self.random.below(GLOBALS)),
            9 => format!("a[{} & 15]", if self.random.below(2) == 0 { "x" } else { "y" }),
            10 => "*p".to_string(),
            11 => format!("s.f{}", self.random.below(3)),
            12 => "h[l & 7]".to_string(),
            13 => format!("{}[y & 3]", self.text()),
            14 => "q[x & 3]".to_string(),
            15 => format!("names[x & 3][{}]", self.random.below(4)),
            16 => match self.random.below(2) {
                0 => "strlen(q)".to_string(),
                _ => format!("!strcmp(q, {})", self.text()),
            },
            _ => "t->f1".to_string(),
        }
    }

    fn expression(&mut self) -> String {
        let (left, right) = (self.value(), self.value());
        let operator = ["+", "-", "*", "^", "&", "|"][self.random.below(6) as usize];
        match self.random.below(4) {
            0 => left,
            _ => format!("({left} {operator} {right})"),
        }
    }

    fn condition(&mut self) -> String {
        let (left, right) = (self.expression(), self.value());
        let operator = ["<", ">", "==", "!="][self.random.below(4) as usize];
        let bits = self.number(8);
        match self.random.below(3) {
            0 => format!("({left} & 7) {operator} {bits}"),
            _ => format!("{left} {operator} {right}"),
        }
    }

    /// Something that can be written.
    fn place(&mut self) -> String {
        match self.random.below(12) {
            0..=1 => "y".to_string(),
            2..=3 => "l".to_string(),
            4..=5 => format!("g{}", self.random.below(GLOBALS)),
            6 => "a[y & 15]".to_string(),
            7 => "*p".to_string(),
            8 => format!("s.f{}", self.random.below(3)),
            9 => "h[x & 7]".to_string(),
            10 => "t->f0".to_string(),
            _ => "b[l & 3]".to_string(),
        }
    }

    fn call(&mut self) -> String {
        let (first, second) = (self.expression(), self.expression());
        if self.function == 0 {
            return format!("({first} + {second})");
        }
        match self.random.below(6) {
            0 => format!("table[{} & 3]({first}, {second})", self.value()),
            1 if self.function > 2 && self.function < FUNCTIONS && self.depth == 1 => {
                format!("(n > 0 ? r{}({first}, {second}, n - 1) : 1)", self.function)
            }
            // Inside loops only what ends soon.
            _ if self.depth > 1 => format!("f{}({first}, {second})", self.random.below(self.function.min(2))),
            _ => format!("f{}({first}, {second})", self.random.below(self.function)),
        }
    }

    fn statement(&mut self) {
        let choice = self.random.below(18);
        let choice = if self.is_other() { (choice + 7) % 18 } else { choice };
        match choice {
            0..=5 => {
                let (place, value) = (self.place(), self.expression());
                self.line(&format!("{place} = {value};"));
            }
            6..=7 => {
                let (place, call) = (self.place(), self.call());
                self.line(&format!("{place} = {call};"));
            }
            8..=10 => {
                let condition = self.condition();
                self.line(&format!("if ({condition}) {{"));
                self.body();
                if self.random.below(2) == 0 {
                    self.line("} else {");
                    self.body();
                }
                self.line("}");
            }
            11..=12 => {
                let (i, bound) = (self.loops, self.number(6));
                self.loops += 1;
                let more = self.value();
                self.line(&format!("for (int i{i} = 0; i{i} < {bound} + ({more} & 3); i{i}++) {{"));
                self.body();
                self.line("}");
            }
            13 => {
                let value = self.expression();
                self.line(&format!("switch ({value} & 3) {{"));
                for case in 0..3 {
                    self.line(&format!("case {case}:"));
                    self.body();
                    self.line("    break;");
                }
                self.line("}");
            }
            14 => {
                let to = ["&g1", "&l", "&a[3]", "&s.f2", "h + 2", "&b[1]"][self.random.below(6) as usize];
                self.line(&format!("p = {to};"));
            }
            15 => match self.random.below(8) {
                0 => {
                    let condition = self.condition();
                    self.line(&format!("if ({condition} && x == 13) exit(3);"));
                }
                1..=3 => {
                    let (condition, value) = (self.condition(), self.expression());
                    self.line(&format!("if ({condition}) return {value};"));
                }
                _ => {
                    let value = self.expression();
                    self.line(&format!("twist(&y, {value});"));
                }
            },
            16 => {
                let to = match self.random.below(3) {
                    0 => "names[y & 3]".to_string(),
                    _ => self.text(),
                };
                self.line(&format!("q = {to};"));
            }
            _ => {
                let value = self.expression();
                // Printing takes thousands of steps.
                match self.random.below(6) {
                    0 => self.line(&format!("printf(\"%u\\n\", {value});")),
                    _ => self.line(&format!("say({value});")),
                }
            }
        }
    }

    fn body(&mut self) {
        self.depth += 1;
        if self.depth > 4 {
            self.line("y++;");
        } else {
            for _ in 0..=self.random.below(2) {
                self.statement();
            }
        }
        self.depth -= 1;
    }

    fn function(&mut self, recursive: bool) {
        let name = if recursive { "r" } else { "f" };
        let own = self.function;
        let attribute =
            ["__attribute__((noinline)) ", "", "__attribute__((noinline)) "][self.random.below(3) as usize];
        let more = if recursive { ", int n" } else { "" };
        self.line(&format!("{attribute}static unsigned {name}{own}(unsigned x, unsigned y{more}) {{"));
        self.depth += 1;
        if !recursive {
            self.line("int n = 2; (void)n;");
        }
        self.line("unsigned l = x + 1, b[4] = {1, 2, 3, 4}, *p = &g0; (void)p; (void)b;");
        for _ in 0..2 + self.random.below(4) {
            self.statement();
        }
        let result = self.expression();
        self.line(&format!("return {result} + l + b[1];"));
        self.depth -= 1;
        self.line("}");
    }

    fn program(&mut self) {
        self.text.push_str(PRELUDE);
        for function in 0..GLOBALS {
            let value = self.number(9);
            self.line(&format!("static unsigned g{function} = {value};"));
        }
        for i in 0..4 {
            self.line(&format!("unsigned t{i}(unsigned x, unsigned y) {{ return x * {i} + y; }}"));
        }
        let names: Vec<String> = (0..4).map(|_| self.text()).collect();
        let constant = if self.random.below(2) == 0 { "const " } else { "" };
        self.line(&format!("static const char *{constant}names[4] = {{{}}};", names.join(", ")));
        self.line("static unsigned (*table[4])(unsigned, unsigned) = {t0, t1, t2, t3};");
        for function in 0..FUNCTIONS {
            self.function = function;
            if function > 2 {
                self.line(&format!("static unsigned r{function}(unsigned x, unsigned y, int n);"));
            }
            self.function(false);
            if function > 2 {
                self.function(true);
            }
        }
        self.line("int main(int argc, char **argv) {");
        self.depth = 1;
        self.function = FUNCTIONS;
        self.line("h = malloc(32); memset(h, 0, 32);");
        self.line("unsigned x = argc > 1 ? atoi(argv[1]) : 0, y = argc > 2 ? atoi(argv[2]) : 0, l = 2, b[4] = {0}, *p = &g2;");
        self.line("int n = 2; (void)n; (void)b; (void)p;");
        for _ in 0..6 {
            let (place, call) = (self.place(), self.call());
            self.line(&format!("{place} = {call};"));
            self.statement();
        }
        self.line("say(x + y + l);");
        self.line("return 0;");
        self.depth = 0;
        self.line("}");
    }
}

const PRELUDE: &str = r##"#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct s { unsigned f0, f1, f2; };
static struct s s, u;
static struct s *t = &u;
static unsigned a[16], *h;
static const char *q = "quiet";
static volatile unsigned said;
__attribute__((noinline)) static void say(unsigned x) { said = x; }
__attribute__((noinline)) static void twist(unsigned *y, unsigned by) { *y += by & 3; }
"##;
