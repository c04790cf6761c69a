//! What is said of an object file still holds when linkers are done with it: checksums, blocks and tables.
//!
//! The section is put beside the object by the assembler here, with a symbol for each section of the object, so that every
//! address in it goes through the linker.

use object::elf::SHF_TLS;
use relive_annotate::object_file::{ObjectFile, Section};
use relive_annotate::placed::Placed;
use relive_image::annotations::{Piece, check, checksum, describe, format, reader, writer};
use relive_image::image::Image;
use relive_image::program::analyze;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs, str};

/// Everything that linkers replace: thread-local data, addresses and calls by way of slots, and tables.
const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
extern __thread int there;
extern int variable, imported(int);
__thread int here = 3;
static __thread int hidden = 4, more;
static int counter;
__attribute__((weak)) extern int missing(int);
void reset(void) { here = hidden = more = there = 1; }
int *address(int which) { return which == 0 ? &here : which == 1 ? &hidden : which == 2 ? &more : &there; }
int sum(int by) { more += by; hidden -= by; return here + hidden + more * there + variable; }
int compare(void) { return &variable == (int *)imported ? 1 : missing ? missing(2) : counter++; }
int test(long x) { return (x & (long)&variable) != 0; }
int tail(int x) { return imported(x + 1); }
__attribute__((noinline, noreturn)) void stop(int code) { fprintf(stderr, "%d\n", code); exit(code); }
int choose(int which, int x) {
    switch (which) {
    case 0: return x + there;
    case 1: x ^= 0x55; /* fall through */
    case 2: return imported(x) * 3;
    case 3: return x << 2;
    case 4: if (x > 100) stop(x); return 7;
    case 5: return x / 3 + sum(x);
    case 6: return -x;
    case 7: abort();
    default: return 0;
    }
}
int interpret(const unsigned char *code) {
    static const void *const labels[] = {&&push, &&add, &&again, &&done};
    int stack[16] = {0}, top = 0;
    goto *labels[*code++ & 3];
push:
    stack[top++ & 15] = *code++;
    goto *labels[*code++ & 3];
add:
    stack[0] += stack[top & 15];
    goto *labels[*code++ & 3];
again:
    if (--top > 0) code -= 3;
    goto *labels[*code++ & 3];
done:
    return stack[0];
}
__attribute__((cold)) void rare(int x) { printf("%d\n", x); }
int hot(int *values, int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i) {
        if (__builtin_expect(values[i] < 0, 0)) { rare(values[i]); sum -= choose(values[i], i); stop(sum); }
        sum += values[i];
    }
    return sum;
}
int main(int argc, char **argv) {
    unsigned char code[] = {0, 5, 1, 2, 3};
    reset();
    return choose(argc, interpret(code)) + test(argc) + compare() + *address(argc) + tail(hot(&argc, 1)) + sum(2);
}
"#;

const OTHER: &str = "__thread int there = 5; int variable = 7; int imported(int x) { return x * variable; }";

/// A way to compile, and ways to link what comes out.
struct Case {
    compiler: &'static str,
    flags: &'static [&'static str],
    links: &'static [&'static [&'static str]],
}

const PIC: &[&[&str]] = &[&["-pie"], &["-no-pie"], &["-static"], &["-shared"]];
const PIE: &[&[&str]] = &[&["-pie"], &["-no-pie"], &["-static"]];

const CASES: [Case; 9] = [
    Case { compiler: "gcc", flags: &["-O2", "-fPIC"], links: PIC },
    Case { compiler: "gcc", flags: &["-O2", "-fPIC", "-fno-plt", "-ffunction-sections"], links: PIC },
    Case { compiler: "gcc", flags: &["-O1", "-fPIC", "-ftls-model=local-dynamic"], links: PIC },
    Case { compiler: "gcc", flags: &["-O2", "-fPIC", "-mtls-dialect=gnu2"], links: PIC },
    Case { compiler: "gcc", flags: &["-O0", "-fPIE", "-ftls-model=initial-exec"], links: PIE },
    Case { compiler: "gcc", flags: &["-O3", "-fPIE", "-fno-plt"], links: PIE },
    Case {
        compiler: "gcc",
        flags: &["-Os", "-fno-pic", "-ftls-model=local-exec"],
        links: &[&["-no-pie"], &["-static"]],
    },
    Case { compiler: "clang-19", flags: &["-O2", "-fPIC"], links: PIC },
    Case { compiler: "clang-19", flags: &["-O2", "-fPIE", "-fno-plt"], links: PIE },
];

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{complaint}");
}

/// What is said of an object file: by section, and as text for the assembler.
struct Annotated {
    assembler: String,
    pieces: usize,
}

/// The name of the symbol that stands for a section.
fn symbol(section: u32) -> String {
    format!("section_{section}")
}

fn annotate(bytes: &[u8]) -> Annotated {
    let object = ObjectFile::parse(bytes).expect("an object file");
    let placed = Placed::new(&object).expect("a sound one");
    let image = placed.image().expect("a sound one");
    let program = analyze(&image);
    let mut pieces: Vec<Piece> = program.functions.iter().flat_map(describe).collect();
    pieces.retain(|piece| placed.place(piece.range.start).is_some());
    pieces.sort_by_key(|piece| piece.range);
    checksum::seal(&mut pieces, &image);
    for piece in &pieces {
        check::check(piece, &pieces, &image).unwrap_or_else(|why| panic!("{}: {why}", piece.range));
    }
    let mut assembler = format!(".section {}, \"\", @progbits\n", format::SECTION);
    for section in 1..object.sections.len() as u32 {
        let range = placed.range(section);
        let inside: Vec<Piece> =
            pieces.iter().filter(|piece| range.contains(piece.range.start)).cloned().collect();
        if inside.is_empty() {
            continue;
        }
        let chunk = writer::write(range, &[], &inside).expect("what can be written");
        let mut at = 0;
        for relocation in &chunk.relocations {
            let to = placed.place(relocation.to).expect("in a section");
            list(&mut assembler, &chunk.bytes[at..relocation.offset as usize]);
            writeln!(assembler, ".quad {} + {}", symbol(to.section), to.offset).expect("memory");
            at = relocation.offset as usize + 8;
        }
        list(&mut assembler, &chunk.bytes[at..]);
    }
    Annotated { assembler, pieces: pieces.len() }
}

fn list(assembler: &mut String, bytes: &[u8]) {
    for byte in bytes {
        writeln!(assembler, ".byte {byte}").expect("memory");
    }
}

/// Only code and tables are spoken of, and symbols for thread-local data would have to be of their own kind.
fn is_named(section: &Section<'_>) -> bool {
    section.is_loaded() && !section.has(SHF_TLS)
}

/// Adds a symbol for the start of each loaded section.
fn name_sections(path: &Path) {
    let bytes = fs::read(path).expect("an object file");
    let object = ObjectFile::parse(&bytes).expect("an object file");
    let mut command = Command::new("objcopy");
    for (index, section) in object.sections.iter().enumerate().filter(|(_, section)| is_named(section)) {
        let name = str::from_utf8(&section.name).expect("a name");
        command.arg(format!("--add-symbol={}={name}:0,global", symbol(index as u32)));
    }
    run(command.arg(path));
}

fn holds_after(linker: &str, folder: &Path, case: &Case) {
    let source = |name: &str| folder.join(name);
    fs::write(source("main.c"), SOURCE).expect("room");
    fs::write(source("other.c"), OTHER).expect("room");
    for name in ["main", "other"] {
        let object = source(&format!("{name}.o"));
        let text = source(&format!("{name}.c"));
        run(Command::new(case.compiler).args(case.flags).arg("-c").arg(text).arg("-o").arg(object));
    }
    let annotated = annotate(&fs::read(source("main.o")).expect("an object file"));
    assert!(annotated.pieces >= 12, "only {} pieces", annotated.pieces);
    name_sections(&source("main.o"));
    fs::write(source("annotate.s"), &annotated.assembler).expect("room");
    run(Command::new("as").arg(source("annotate.s")).arg("-o").arg(source("annotate.o")));
    for link in case.links {
        let what = format!("{} {:?} {linker} {link:?}", case.compiler, case.flags);
        let mut command = Command::new("gcc");
        // gcc knows no lld with a version in its name.
        if linker == "lld" {
            command.arg("-B").arg(folder).arg("-fuse-ld=lld");
        } else {
            command.arg(format!("-fuse-ld={linker}"));
        }
        let objects = ["main.o", "annotate.o", "other.o"].map(source);
        run(command.args(*link).args(objects).arg("-o").arg(source("linked")));
        let bytes = fs::read(source("linked")).expect("a linked file");
        let image = Image::parse(&bytes, None).expect("a program");
        let section = image.elf.section(format::SECTION).expect("a section");
        let found = reader::read(section.data, &image.elf.text);
        assert!(found.faults.is_empty() && found.dropped == 0, "{what}: {:?}", found.faults);
        let (kept, refused) = check::sift(found.annotations, &image);
        let why: Vec<String> =
            refused.iter().map(|refused| format!("{}: {}", refused.piece, refused.why)).collect();
        assert!(refused.is_empty(), "{what}: {why:#?}");
        assert_eq!(kept.pieces.len(), annotated.pieces, "{what}");
        // One chunk is as good as many.
        let again = writer::write_all(&kept, &image.elf.text).expect("what was read can be written");
        assert_eq!(reader::read(&again, &image.elf.text).annotations, kept, "{what}");
    }
}

fn holds(linker: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    if linker == "lld" {
        let paths = env::var_os("PATH").unwrap_or_default();
        let lld = env::split_paths(&paths).map(|path| path.join("ld.lld-19")).find(|path| path.exists());
        std::os::unix::fs::symlink(lld.expect("lld-19"), folder.path().join("ld.lld")).expect("room");
    }
    for case in &CASES {
        holds_after(linker, folder.path(), case);
    }
}

#[test]
fn checksums_hold_after_bfd() {
    holds("bfd");
}

#[test]
fn checksums_hold_after_gold() {
    holds("gold");
}

#[test]
fn checksums_hold_after_lld() {
    holds("lld");
}
