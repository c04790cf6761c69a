//! The checker of rewritten files: it must be content with what the rewriter writes, and with nothing else.

use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::isa::{Decode, Flow, Syntax, fill_len};
use relive_image::image::Image;
use relive_image::program::{Program, analyze};
use relive_image::watch::Watch;
use relive_rewrite::module::{Groundwork, Mode, Options, Outline, Rewriter};
use relive_rewrite::verify::{Finding, Report, verify};
use relive_testkit::compile::compile;

const THROWS: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

struct Odd : std::runtime_error { using std::runtime_error::runtime_error; };
struct Guard { const char *name; ~Guard() { std::printf("left %s\n", name); } };

static int classify(int x) {
    switch (x) {
    case 0: std::puts("none"); return 3;
    case 1: std::puts("one"); return 1;
    case 2: return x * 17;
    case 3: std::puts("three"); return 4;
    case 4: throw Odd("four");
    case 5: throw std::out_of_range("five");
    case 6: throw 6;
    default: return x;
    }
}

struct Shape { virtual int area(int) const = 0; virtual ~Shape() {} };
struct Square : Shape { int area(int a) const override { return a * a; } };
struct Line : Shape { int area(int) const override { return 0; } };

static int guarded(int x) {
    Guard guard{"guarded"};
    try {
        return classify(x);
    } catch (const Odd &odd) {
        std::puts(odd.what());
    } catch (const std::exception &other) {
        std::puts(other.what());
        if (x > 100) throw;
    } catch (...) {
        std::puts("something");
    }
    return -1;
}

int main(int argc, char **argv) {
    std::vector<std::string> words(argv, argv + argc);
    Square square;
    Line line;
    const Shape *shapes[] = {&square, &line};
    int sum = 0;
    for (int i = 0; i < 8; i++) {
        sum += guarded(i) + shapes[i & 1]->area(i);
        words.push_back(std::to_string(sum));
    }
    for (const auto &word : words)
        if (word.size() > 1 && word[0] != '/') std::puts(word.c_str());
    return sum & 0x3f;
}
"#;

struct Fixture<'d> {
    image: Image<'d>,
    program: Program<'d>,
}

impl<'d> Fixture<'d> {
    fn new(bytes: &'d [u8]) -> Self {
        let image = Image::parse(bytes, None).expect("an ELF file");
        let program = analyze(&image);
        Self { image, program }
    }

    fn rewrite(&self, mode: Mode, calls: bool, trap: bool) -> (Outline, Vec<u8>) {
        let options = Options {
            mode,
            calls,
            trap,
            wanted: &|_| true,
            weights: None,
            pattern: "./test.rprof",
            name: "test",
            runtime: relive_runtime::IMAGE,
            watch: &Watch::default(),
        };
        let ground = Groundwork::new(&self.image, &self.program).expect("it can be rewritten");
        let rewriter = Rewriter::new(&ground, &options).expect("it can be rewritten");
        let bytes = rewriter.finish(b"not looked at").expect("it can be written").bytes;
        (rewriter.outline, bytes)
    }

    fn verify(&self, outline: &Outline, bytes: &[u8]) -> Report {
        // What is checked need not live as long as what it is checked against.
        let image = Image::parse(self.image.elf.data, None).expect("read before");
        match verify(&image, &self.program, outline, relive_runtime::IMAGE, bytes) {
            Ok(report) => report,
            Err(error) => {
                let what = error.to_string();
                let (function, old, new) = (String::new(), LinkAddr(0), LinkAddr(0));
                let findings = vec![Finding { function, old, new, what }];
                Report { findings, ..Report::default() }
            }
        }
    }

    fn assert_right(&self, mode: Mode, calls: bool, trap: bool) -> Report {
        let (outline, bytes) = self.rewrite(mode, calls, trap);
        let report = self.verify(&outline, &bytes);
        assert_eq!(report.findings, [], "{mode:?} calls {calls} trap {trap}");
        report
    }
}

#[test]
fn programs_of_the_system_are_right() {
    for (path, least) in
        [("/bin/ls", 100), ("/bin/bash", 1000), ("/usr/bin/perl", 1000), ("/usr/bin/dpkg", 300)]
    {
        let bytes = std::fs::read(path).expect("part of the system");
        let report = Fixture::new(&bytes).assert_right(Mode::Edges, true, false);
        assert!(report.functions > least && report.probes > report.functions, "{path}: {report:?}");
    }
}

#[test]
fn every_mode_is_right() {
    let bytes = std::fs::read("/bin/ls").expect("part of the system");
    let fixture = Fixture::new(&bytes);
    for mode in [Mode::Edges, Mode::Blocks, Mode::Functions] {
        for (calls, trap) in [(true, false), (false, true), (true, true)] {
            fixture.assert_right(mode, calls, trap);
        }
    }
}

#[test]
fn exceptions_are_right() {
    for (compiler, args) in [
        ("g++", &["-O2"][..]),
        ("g++", &["-O0", "-no-pie"]),
        ("g++", &["-O2", "-static"]),
        ("clang++-19", &["-O2"]),
    ] {
        let program = compile(compiler, args, ("throws.cc", THROWS));
        let bytes = program.bytes();
        Fixture::new(&bytes).assert_right(Mode::Edges, true, true);
    }
}

/// A flipped bit, and what became of it.
struct Flips<'f, 'd> {
    fixture: &'f Fixture<'d>,
    outline: Outline,
    bytes: Vec<u8>,
    state: u64,
}

impl<'f, 'd> Flips<'f, 'd> {
    fn new(fixture: &'f Fixture<'d>) -> Self {
        let (outline, bytes) = fixture.rewrite(Mode::Edges, true, false);
        assert_eq!(fixture.verify(&outline, &bytes).findings, []);
        Self { fixture, outline, bytes, state: 0x9e37_79b9_7f4a_7c15 }
    }

    fn dice(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % below
    }

    fn section(&self, name: &str) -> AddrRange {
        let new = Image::parse(&self.bytes, None).expect("readable");
        new.elf.section(name).expect("there").range
    }

    /// Where an address is in the file.
    fn offset(&self, at: LinkAddr) -> usize {
        let new = Image::parse(&self.bytes, None).expect("readable");
        let bytes = new.elf.bytes_at(at);
        bytes.as_ptr() as usize - self.bytes.as_ptr() as usize
    }

    /// Flips one bit at each of `count` places among `places`; returns those where nobody noticed.
    fn unnoticed(&mut self, places: &[LinkAddr], count: usize) -> Vec<(LinkAddr, u64)> {
        let mut unnoticed = Vec::new();
        for _ in 0..count {
            let at = places[self.dice(places.len() as u64) as usize];
            let bit = self.dice(8);
            let offset = self.offset(at);
            let mut changed = self.bytes.clone();
            changed[offset] ^= 1 << bit;
            if self.fixture.verify(&self.outline, &changed).findings.is_empty() {
                unnoticed.push((at, bit));
            }
        }
        unnoticed
    }

    /// Whether the instruction that covers `at` reads the same with that bit flipped.
    fn means_the_same(&self, at: LinkAddr, bit: u64) -> bool {
        let offset = self.offset(at);
        let mut changed = self.bytes.clone();
        changed[offset] ^= 1 << bit;
        let text = |bytes: &[u8]| {
            let new = Image::parse(bytes, None).expect("readable");
            let chunk = new.symbols.iter().filter(|s| s.addr <= at).max_by_key(|s| s.addr).expect("named");
            let code = new.elf.bytes_in(chunk.addr, chunk.size).expect("in the file");
            let insn = Decode::new(code, chunk.addr).find(|insn| insn.next_addr() > at);
            insn.map(|insn| (insn.addr(), insn.len(), insn.text(Syntax::Intel).to_string()))
        };
        text(&self.bytes) == text(&changed) || self.leads_through_fill(at, &changed)
    }

    /// Whether the jump that covers `at` now leads to fill in front of where it led.
    fn leads_through_fill(&self, at: LinkAddr, changed: &[u8]) -> bool {
        let target = |bytes: &[u8]| {
            let new = Image::parse(bytes, None).expect("readable");
            let chunk = new.symbols.iter().filter(|s| s.addr <= at).max_by_key(|s| s.addr).expect("named");
            let code = new.elf.bytes_in(chunk.addr, chunk.size).expect("in the file");
            match Decode::new(code, chunk.addr).find(|insn| insn.next_addr() > at).map(|insn| insn.flow()) {
                Some(Flow::Jump(to) | Flow::Branch(to)) => Some(to),
                _ => None,
            }
        };
        let new = Image::parse(&self.bytes, None).expect("readable");
        match (target(&self.bytes), target(changed)) {
            (Some(was), Some(is)) if is < was => {
                let fill = new.elf.bytes_in(is, was.since(is)).unwrap_or_default();
                !fill.is_empty() && fill_len(fill, is) == fill.len()
            }
            _ => false,
        }
    }

    /// Every byte of new code that does something: no fill.
    fn code(&self) -> Vec<LinkAddr> {
        let text = self.section(".relive.text");
        let new = Image::parse(&self.bytes, None).expect("readable");
        let chunks = new.symbols.iter().filter(|s| text.contains(s.addr));
        let mut places = Vec::new();
        for chunk in chunks {
            let bytes = new.elf.bytes_in(chunk.addr, chunk.size).expect("in the file");
            for insn in Decode::new(bytes, chunk.addr).filter(|insn| !insn.is_padding()) {
                places.extend((0..insn.len()).map(|i| insn.addr().offset(i)));
            }
        }
        places
    }
}

#[test]
fn any_flipped_bit_in_new_code_is_noticed() {
    let program = compile("g++", &["-O2"], ("throws.cc", THROWS));
    let bytes = program.bytes();
    let fixture = Fixture::new(&bytes);
    let mut flips = Flips::new(&fixture);
    let code = flips.code();
    let mut unnoticed = flips.unnoticed(&code, 600);
    // Some bits of a prefix mean nothing to some instructions.
    unnoticed.retain(|&(at, bit)| !flips.means_the_same(at, bit));
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}

#[test]
fn any_flipped_bit_in_old_bytes_is_noticed() {
    let program = compile("g++", &["-O2"], ("throws.cc", THROWS));
    let bytes = program.bytes();
    let fixture = Fixture::new(&bytes);
    let mut flips = Flips::new(&fixture);
    for section in [".rodata", ".data.rel.ro", ".plt", ".dynamic", ".init_array"] {
        let range = flips.section(section);
        let places: Vec<LinkAddr> = (range.start.0..range.end.0).map(LinkAddr).collect();
        assert_eq!(flips.unnoticed(&places, 20), [], "{section}");
    }
    // The jumps over old entries: behind the mark, five bytes.
    let measured = fixture.program.functions.iter().zip(&flips.outline.fates);
    let mut jumps = Vec::new();
    for (function, fate) in measured {
        if matches!(fate, relive_probe::describe::Fate::Measured(_)) {
            let new = Image::parse(&flips.bytes, None).expect("readable");
            let insns = Decode::new(new.elf.bytes_at(function.entry), function.entry);
            let jump = insns.take(2).find(|insn| !insn.is_landing_mark()).expect("a jump");
            jumps.extend((0..jump.len()).map(|i| jump.addr().offset(i)));
        }
    }
    assert!(jumps.len() > 10);
    assert_eq!(flips.unnoticed(&jumps, 60), []);
}

#[test]
fn flipped_bits_in_tables_are_noticed() {
    let program = compile("g++", &["-O2"], ("throws.cc", THROWS));
    let bytes = program.bytes();
    let fixture = Fixture::new(&bytes);
    let mut flips = Flips::new(&fixture);
    // Some bits mean nothing: fill at the end of entries, rows for code that is fill, ranges beyond calls.
    for (section, count, may_escape) in
        [(".eh_frame_hdr", 60, 0), (".relive.except_table", 150, 30), (".eh_frame", 150, 60)]
    {
        let mut range = flips.section(section);
        if section == ".eh_frame" {
            // Entries of new code come behind those of old code, and those of the runtime behind them.
            let text = flips.section(".relive.text");
            let new = Image::parse(&flips.bytes, None).expect("readable");
            let entries: Vec<_> = new.unwind.frames.iter().filter(|f| text.contains(f.range.start)).collect();
            let first = entries.iter().map(|f| f.offset).min().expect("some") as u64;
            let last = entries.iter().map(|f| f.offset).max().expect("some") as u64;
            range = AddrRange::new(range.start.offset(first), range.start.offset(last));
        }
        let places: Vec<LinkAddr> = (range.start.0..range.end.0).map(LinkAddr).collect();
        let unnoticed = flips.unnoticed(&places, count);
        println!("{section}: {} of {count} unnoticed", unnoticed.len());
        assert!(unnoticed.len() <= may_escape, "{section}: {unnoticed:?}");
    }
}
