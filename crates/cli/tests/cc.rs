//! `relive cc`: what compilers make is the same, and describes itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const RELIVE: &str = env!("CARGO_BIN_EXE_relive");

/// Switches, computed gotos, calls that do not come back, data among code, code that nobody calls.
const C: &str = r#"
#include <stdio.h>
#include <stdlib.h>
__attribute__((noreturn, noinline)) static void die(int x) { printf("%d\n", x); exit(x & 7); }
__attribute__((noinline)) int choose(int x, int y) {
    switch (x) {
    case 0: return y + 1;
    case 1: return y * 3;
    case 2: y = puts("two"); break;
    case 3: y ^= 5; break;
    case 4: if (y > 1000) die(y); return y - 1;
    case 5: return y / 3;
    case 6: y = y % 7;
    }
    return y;
}
__attribute__((noinline)) int interpret(const unsigned char *p) {
    static void *labels[] = { &&add, &&mul, &&end };
    int s = 0;
    goto *labels[*p++];
add: s += p[0]; goto *labels[*p++];
mul: s *= 3; if (s > 100000) abort(); goto *labels[*p++];
end: return s;
}
__attribute__((noinline)) int inlined(int x) {
    __asm__ volatile("jmp 1f\n\t.ascii \"hello\"\n1:\n\t.byte 0x0f,0x1f,0x00\n" : "+r"(x));
    return x + 1;
}
int unused(int x) { return x == 3 ? abort(), 1 : 2; }
int main(int argc, char **argv) {
    int sum = 0;
    for (int i = 0; i < 50; i++) sum += choose(i % 8, i) + inlined(i);
    printf("%d %d\n", sum, interpret((const unsigned char *)"\0\1\0\1\0\2"));
    if (argc > 5) die(argc);
    return 0;
}
"#;

/// Exceptions, virtual calls, functions in groups.
const CXX: &str = r#"
#include <cstdio>
#include <map>
#include <string>
#include <vector>
#include <stdexcept>
struct Shape { virtual int area(int) = 0; virtual ~Shape() {} };
struct Square : Shape { int area(int x) override { if (x > 30) throw std::runtime_error("large"); return x * x; } };
template <class T> T twice(T x) { return x + x; }
int main() {
    std::map<std::string, std::vector<int>> all;
    Square square;
    Shape *shape = &square;
    long sum = 0;
    for (int i = 0; i < 40; i++) {
        all[std::to_string(i % 7)].push_back(twice(i));
        try { sum += shape->area(i); } catch (const std::exception &e) { sum -= 1; }
    }
    std::printf("%ld %zu\n", sum, all.size());
}
"#;

/// What analysis alone does not understand: tables whose bound nobody checks, labels in memory that is written to and their
/// differences, data among code, with a call over it.
const HARD: &str = include_str!("programs/hard.c");

struct Built {
    dir: tempfile::TempDir,
    plain: PathBuf,
    annotated: PathBuf,
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|why| panic!("{command:?}: {why}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Builds the same with the compiler alone and through `relive cc`; in two steps if `apart`.
fn build(compiler: &str, flags: &[&str], (name, text): (&str, &str), apart: bool) -> Built {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join(name);
    fs::write(&source, text).unwrap();
    let [plain, annotated] = ["plain", "annotated"].map(|kind| {
        let out = dir.path().join(kind);
        let command = || {
            let mut command = Command::new(if kind == "plain" { compiler } else { RELIVE });
            if kind == "annotated" {
                command.arg("cc");
                // It puts the runtime between code and data, which changes distances.
                if flags.contains(&"-fuse-ld=gold") {
                    command.arg("--no-runtime");
                }
                command.args(["--", compiler]);
            }
            command.current_dir(&dir).args(flags);
            command
        };
        if apart {
            let object = dir.path().join("object.o");
            succeed(command().arg("-c").arg(&source).arg("-o").arg(&object));
            succeed(command().arg(&object).arg("-o").arg(&out));
        } else {
            succeed(command().arg(&source).arg("-o").arg(&out));
        }
        out
    });
    Built { dir, plain, annotated }
}

/// The bytes of all sections of code.
fn code(file: &Path) -> Vec<u8> {
    let out = file.with_extension("code");
    succeed(Command::new("objcopy").args(["-O", "binary", "--only-section=.text*"]).args([file, &out]));
    fs::read(out).unwrap()
}

fn inspect(file: &Path) -> serde_json::Value {
    let output = succeed(Command::new(RELIVE).args(["inspect", "--json"]).arg(file));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The code is the same, the program does the same, and everything it is made of is described and believed.
fn check(built: &Built, what: &str) {
    let Built { plain, annotated, .. } = built;
    assert_eq!(code(plain), code(annotated), "{what}");
    let outputs = [plain, annotated].map(|file| succeed(&mut Command::new(file)).stdout);
    assert_eq!(outputs[0], outputs[1], "{what}");
    let found = inspect(annotated);
    assert_eq!(found["complaints"].as_array().map(Vec::len), Some(0), "{what}: {}", found["complaints"]);
    assert_eq!(
        found["contradictions"].as_array().map(Vec::len),
        Some(0),
        "{what}: {}",
        found["contradictions"]
    );
    assert_eq!(found["functions"]["total"], found["functions"]["understood"], "{what}");
    let by_source = &found["functions"]["by_source"];
    // Seven or so come with the C library, in every program.
    let others: u64 = by_source
        .as_object()
        .unwrap()
        .iter()
        .filter(|(who, _)| *who != "annotation")
        .map(|(_, n)| n.as_u64().unwrap())
        .sum();
    assert!(others <= 8 && by_source["annotation"].as_u64().unwrap() >= 3, "{what}: {by_source}");
    // Those of computed gotos are found by analysis: annotations say where they lead.
    let tables = found["jump_tables"]["by_bound"].as_object().unwrap();
    assert!(tables.keys().all(|bound| bound == "stated" || bound == "confirmed"), "{what}: {tables:?}");
    assert!(!annotated.with_file_name("object.s").exists());
}

#[test]
fn gcc_makes_the_same_code_and_describes_it() {
    for flags in
        [&["-O0"][..], &["-O2"], &["-O3", "-fPIC"], &["-Os", "-fno-pie", "-no-pie"], &["-O2", "-g", "-pipe"]]
    {
        check(&build("gcc", flags, ("a.c", C), false), &format!("gcc {flags:?}"));
    }
}

#[test]
fn gxx_makes_the_same_code_and_describes_it() {
    for flags in [&["-O0"][..], &["-O2"], &["-O2", "-ffunction-sections", "-Wl,--gc-sections"]] {
        check(&build("g++", flags, ("a.cc", CXX), true), &format!("g++ {flags:?}"));
    }
}

#[test]
fn annotations_come_through_every_link() {
    let collected = ["-O2", "-ffunction-sections", "-Wl,--gc-sections"];
    check(&build("gcc", &collected, ("a.c", C), true), "bfd");
    check(&build("gcc", &[&collected[..], &["-fuse-ld=gold"]].concat(), ("a.c", C), true), "gold");
}

#[test]
fn clang_makes_the_same_code_and_describes_it() {
    let clang = "clang-19";
    for flags in [&["-O0"][..], &["-O2"], &["-Os", "-fno-pie", "-no-pie"]] {
        check(&build(clang, flags, ("a.c", C), true), &format!("clang {flags:?}"));
        check(&build(clang, flags, ("a.c", C), false), &format!("clang {flags:?}, in one step"));
    }
}

#[test]
fn clangxx_jumps_to_the_end_of_a_function_from_where_it_never_gets() {
    // Behind `__cxa_rethrow`, without optimisation: in every function of a vector that grows.
    let flags = ["-O0", "-fbasic-block-address-map"];
    let built = build("clang++-19", &flags, ("a.cc", CXX), true);
    check(&built, "clang++ -O0");
    assert!(inspect(&built.annotated)["functions"]["by_source"]["bb-addr-map"].is_null());
}

#[test]
fn an_older_clang_is_asked_in_its_own_way() {
    let dir = tempfile::tempdir().unwrap();
    let (clang, tries) = (dir.path().join("clang-old"), dir.path().join("tries"));
    let script = format!(
        "#!/bin/sh\nfor arg in \"$@\"; do case $arg in -fbasic-block-address-map)\n\
         echo >>{}; echo \"error: unknown argument: '$arg'\" >&2; exit 1;; esac; done\nexec clang-19 \"$@\"\n",
        tries.display()
    );
    fs::write(&clang, script).unwrap();
    succeed(Command::new("chmod").arg("+x").arg(&clang));
    fs::write(dir.path().join("a.c"), C).unwrap();
    fs::write(dir.path().join("b.s"), "f: ret\n").unwrap();
    for (source, object) in [("a.c", "a.o"), ("a.c", "a.o"), ("b.s", "b.o")] {
        let mut command = Command::new(RELIVE);
        command.args(["cc", "--"]).arg(&clang).args(["-O2", "-w", "-c", source]);
        let output = succeed(command.current_dir(&dir).env("XDG_CACHE_HOME", dir.path().join("cache")));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("unknown argument") && !said.contains("unused"), "{said}");
        assert!(sections(&dir.path().join(object)).contains(".annotate"), "{object}");
    }
    // It is asked once, not for every file.
    assert_eq!(fs::read_to_string(tries).unwrap().lines().count(), 1);
}

#[test]
fn data_among_code_is_told_where_clang_compiles_and_links_at_once() {
    for level in ["-O0", "-O2"] {
        let built = build("clang-19", &[level, "-w"], ("hard.c", HARD), false);
        check(&built, level);
        assert!(not_understood(&built.plain) >= 2, "{level}");
    }
}

#[test]
fn what_the_linker_compiles_is_described_too() {
    let lld = ["-fuse-ld=lld", "-O2", "-ffunction-sections", "-Wl,--gc-sections"];
    check(&build("clang-19", &lld, ("a.c", C), true), "lld");
    check(&build("clang-19", &["-fuse-ld=lld", "-O2", "-flto"], ("a.c", C), true), "clang -flto");
    check(&build("gcc", &["-O2", "-flto"], ("a.c", C), true), "gcc -flto");
}

/// The addresses and lengths in the file of segments that are loaded.
fn loaded(file: &Path) -> Vec<(u64, u64)> {
    let output = succeed(Command::new("readelf").args(["-lW"]).arg(file));
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let fields = lines.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields.filter(|f| f.first() == Some(&"LOAD")).map(|f| (number(f[2]), number(f[4]))).collect()
}

#[test]
fn nothing_moves_for_the_runtime() {
    let ways: [(&str, &[&str]); 9] = [
        ("gcc", &["-O2"]),
        ("gcc", &["-O2", "-no-pie", "-fno-pie"]),
        ("gcc", &["-O2", "-no-pie", "-fno-pie", "-Wl,-z,noseparate-code"]),
        ("gcc", &["-O2", "-Wl,-z,noseparate-code"]),
        ("gcc", &["-O2", "-Wl,-z,max-page-size=0x4000"]),
        ("clang-19", &["-O2", "-fuse-ld=lld"]),
        ("clang-19", &["-O2", "-fuse-ld=lld", "-no-pie", "-fno-pie"]),
        ("clang-19", &["-O2", "-fuse-ld=lld", "-Wl,--build-id=none", "-Wl,-z,max-page-size=0x4000"]),
        ("clang-19", &["-O2", "-fuse-ld=lld", "-no-pie", "-fno-pie", "-flto", "-Wl,--gc-sections"]),
    ];
    for (compiler, flags) in ways {
        let what = format!("{compiler} {flags:?}");
        let built = build(compiler, flags, ("a.c", C), false);
        check(&built, &what);
        assert_eq!(inspect(&built.annotated)["file"]["prepared"], "ready", "{what}");
        // Where the first segment has next to no room left, it needs one more page.
        let (_, len) = loaded(&built.plain)[0];
        let fill = format!("-Wl,-rpath,{}", "x".repeat((0x1000 - 64 - len % 0x1000) as usize));
        check(
            &build(compiler, &[flags, &[&fill]].concat(), ("a.c", C), false),
            &format!("{what}, filled up"),
        );
    }
}

#[test]
fn what_is_aligned_to_more_than_a_page_keeps_its_distance() {
    let text = "#include <stdio.h>\n\
        __attribute__((aligned(0x8000))) char buffer[0x8000] = {1};\n\
        int main(void) { puts(buffer[1] ? \"full\" : \"empty\"); return buffer[0] - 1; }\n";
    let ways: [(&str, &[&str]); 4] = [
        ("gcc", &["-O2"]),
        ("gcc", &["-O2", "-no-pie", "-fno-pie"]),
        ("clang-19", &["-O2", "-fuse-ld=lld"]),
        ("clang-19", &["-O2", "-fuse-ld=lld", "-no-pie", "-fno-pie"]),
    ];
    for (compiler, flags) in ways {
        let built = build(compiler, flags, ("a.c", text), false);
        assert_eq!(code(&built.plain), code(&built.annotated), "{compiler} {flags:?}");
        assert_eq!(inspect(&built.annotated)["file"]["prepared"], "ready", "{compiler} {flags:?}");
        succeed(&mut Command::new(&built.annotated));
    }
}

#[test]
fn libraries_without_other_notes_stay_the_same() {
    // There the note has a program header of its own.
    for (compiler, linker) in [("gcc", "bfd"), ("clang-19", "lld")] {
        let linker = format!("-fuse-ld={linker}");
        let flags = ["-O2", "-shared", "-fPIC", &linker, "-Wl,--build-id=none"];
        let built = build(compiler, &flags, ("a.c", C), false);
        assert_eq!(code(&built.plain), code(&built.annotated), "{linker}");
        assert_eq!(inspect(&built.annotated)["file"]["prepared"], "ready", "{linker}");
    }
}

#[test]
fn who_says_where_things_lie_has_them_there() {
    let linker = |option: &str| format!("-Wl,{option}");
    for (compiler, option) in [("gcc", "-Ttext-segment=0x10000000"), ("clang-19", "--image-base=0x10000000")]
    {
        let mut flags = vec!["-O2", "-no-pie", "-fno-pie"];
        let option = linker(option);
        flags.push(&option);
        if compiler != "gcc" {
            flags.push("-fuse-ld=lld");
        }
        let built = build(compiler, &flags, ("a.c", C), false);
        assert_eq!(loaded(&built.annotated)[0].0, 0x1000_0000, "{compiler}");
        let outputs = [&built.plain, &built.annotated].map(|file| succeed(&mut Command::new(file)).stdout);
        assert_eq!(outputs[0], outputs[1], "{compiler}");
    }
}

/// Numbers among code, which nobody says to be data, and which are instructions as well: a load, an addition, a return.
const NUMBERS: &str = "
.text
.balign 16
numbers: .quad 0xc3f00148f8894800, 0x9090909090909090
.balign 16
    .byte 0x48, 0x89, 0xf8, 0x48, 0x01, 0xf0, 0x90, 0x90, 0x90, 0xc3
.balign 16
other: .byte 0x48, 0x8b, 0x07, 0x48, 0x83, 0xc0, 0x11, 0xc3
.balign 16
.globl first
.type first, @function
first:
    movdqu other(%rip), %xmm0
    movq %xmm0, %rax
    add numbers(%rip), %rax
    ret
.size first, .-first
.section .note.GNU-stack
";

#[test]
fn numbers_among_code_do_not_become_functions() {
    for compiler in ["gcc", "clang-19"] {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("numbers.S"), NUMBERS).unwrap();
        let main = "#include <stdio.h>\nunsigned long first(void);\n\
            int main(void) { printf(\"%lx\\n\", first()); return 0; }\n";
        fs::write(at("main.c"), main).unwrap();
        let mut command = Command::new(RELIVE);
        command.args(["cc", "--", compiler, "-O2", "main.c", "numbers.S", "-o", "program"]);
        succeed(command.current_dir(&dir));
        let made = at("made");
        succeed(Command::new(RELIVE).arg("instrument").arg(at("program")).arg("-o").arg(&made));
        let said = [at("program"), made]
            .map(|file| succeed(Command::new(file).env("RELIVE_PROFILE", at("profile"))).stdout);
        assert_eq!(said[0], said[1], "{compiler}");
        // Nor when what follows from the code is added.
        let [plain, added] = ["plain", "added"].map(at);
        let mut command = Command::new(compiler);
        succeed(command.args(["-O2", "main.c", "numbers.S", "-o", "plain"]).current_dir(&dir));
        succeed(Command::new(RELIVE).args(["annotate", "add"]).arg(&plain).arg("-o").arg(&added));
        let made = at("made-of-added");
        succeed(Command::new(RELIVE).arg("instrument").arg(&added).arg("-o").arg(&made));
        assert_eq!(
            succeed(Command::new(made).env("RELIVE_PROFILE", at("profile-of-added"))).stdout,
            said[0],
            "{compiler}"
        );
    }
}

/// What was counted of each block of the program's own functions.
fn counted(program: &Path) -> Vec<Vec<String>> {
    let dir = program.parent().unwrap();
    let (made, profile) = (program.with_extension("made"), program.with_extension("rprof"));
    let mut instrument = Command::new(RELIVE);
    instrument.arg("instrument").args([program, Path::new("-o"), &made, Path::new("--profile"), &profile]);
    succeed(instrument.current_dir(dir));
    succeed(Command::new(&made).current_dir(dir));
    let dump = succeed(Command::new(RELIVE).args(["dump", "--blocks"]).arg(&profile));
    let text = String::from_utf8(dump.stdout).unwrap();
    let own = ["choose", "interpret", "inlined", "unused", "main", "die"];
    // Function, length, count: with the runtime, everything lies a page further on.
    let told = |line: &str| [1, 3, 4].map(|field| line.split('\t').nth(field).unwrap_or_default().into());
    let told = text.lines().map(|line| Vec::from(told(line)));
    told.filter(|line: &Vec<String>| own.contains(&&*line[0])).collect()
}

#[test]
fn counts_are_the_same_with_annotations() {
    for flags in [&["-O0"][..], &["-O2"]] {
        let built = build("gcc", flags, ("a.c", C), true);
        let (plain, annotated) = (counted(&built.plain), counted(&built.annotated));
        assert!(plain.len() > 30, "{plain:?}");
        assert_eq!(plain, annotated, "{flags:?}");
    }
}

/// Where the loader finds addresses that lie in function `name` of `program`, in what `file` was made of it.
fn words_with_labels(program: &Path, file: &Path, name: &str) -> usize {
    let functions = succeed(Command::new(RELIVE).args(["inspect", "--functions"]).arg(program));
    let functions = String::from_utf8(functions.stdout).unwrap();
    let fields =
        functions.lines().map(|line| line.split('\t').collect::<Vec<_>>()).find(|f| f[0] == name).unwrap();
    let start = u64::from_str_radix(fields[1].trim_start_matches("0x"), 16).unwrap();
    let inside = start + 1..start + fields[2].parse::<u64>().unwrap();
    let relocations = succeed(Command::new("readelf").arg("-rW").arg(file));
    let relocations = String::from_utf8(relocations.stdout).unwrap();
    let addends = relocations.lines().filter(|line| line.contains("R_X86_64_RELATIVE"));
    let addends =
        addends.map(|line| u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap());
    addends.filter(|to| inside.contains(to)).count()
}

/// The compiler says where a computed goto leads, not by what table; that is found, so that it leads to new code.
#[test]
fn computed_gotos_lead_to_new_code() {
    for compiler in ["gcc", "clang-19"] {
        let built = build(compiler, &["-O2"], ("a.c", C), false);
        let made = built.annotated.with_extension("made");
        succeed(Command::new(RELIVE).arg("instrument").args([&built.annotated, Path::new("-o"), &made]));
        assert!(words_with_labels(&built.annotated, &built.annotated, "interpret") >= 3, "{compiler}");
        assert_eq!(words_with_labels(&built.annotated, &made, "interpret"), 0, "{compiler}");
    }
}

/// Functions that are not understood.
/// Callers keep values where they know that `step` leaves them alone; nobody knows what callers of `sum` do.
const CALLED: &str = "
__attribute__((noinline)) static long step(long x) { while (x > 100) x -= x >> 3; return x; }
long several(long a, long b, long c, long d) { return step(a) + b + step(c) + d + step(b); }
long sum(const long *at, long count) { long all = 0; for (long i = 0; i < count; i++) all += at[i] ^ i; return all; }
";

/// Calls `sum` from code that nobody understands, and finds its way by arithmetic.
const CALLER: &str = "
.globl main
main:
    push %rbx
    lea numbers(%rip), %rdi
    mov $4, %esi
    call sum
    mov %rax, %rbx
    lea around(%rip), %rax
    and $7, %ebx
    lea (%rax,%rbx,4), %rax
    jmp *%rax
around:
    .rept 8
    nopl (%rax)
    nop
    .endr
    mov %ebx, %eax
    pop %rbx
    ret
.data
numbers: .quad 3, 1, 4, 1
.section .note.GNU-stack
";

fn free(file: &Path) -> Vec<String> {
    let all = inspect(file)["annotations"]["free"].clone();
    let all = all.as_array().expect("a list").iter();
    all.map(|free| free["registers"].as_str().expect("names").to_string()).collect()
}

#[test]
fn registers_are_free_behind_returns() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("called.c"), CALLED).unwrap();
    fs::write(path("caller.s"), CALLER).unwrap();
    let cc = |args: &[&str]| succeed(Command::new(RELIVE).args(["cc", "--"]).args(args).current_dir(&dir));
    for compiler in ["gcc", "clang-19"] {
        cc(&[compiler, "-O2", "-fno-tree-vectorize", "-c", "called.c"]);
        cc(&[compiler, "called.o", "caller.s", "-o", "program"]);
        assert!(free(&path("program")).iter().any(|set| set.contains("r11")), "{compiler}");
        // Analysis has to fear that `main` keeps something in any register.
        succeed(Command::new("objcopy").args(["-R", ".annotate", "program", "bare"]).current_dir(&dir));
        let told_by_loops = |name: &str| -> u64 {
            let args = ["instrument", name, "-o", "counted", "--verify"];
            let made = succeed(Command::new(RELIVE).args(args).current_dir(&dir));
            let status =
                |program: &str| Command::new(path(program)).current_dir(&dir).status().unwrap().code();
            assert_eq!(status("counted"), status("program"), "{compiler} {name}");
            let said = String::from_utf8_lossy(&[made.stdout, made.stderr].concat()).into_owned();
            let before = said.split(" told by loops").next().and_then(|text| text.split(' ').next_back());
            before.and_then(|number| number.parse().ok()).expect(&said)
        };
        assert!(told_by_loops("program") > told_by_loops("bare"), "{compiler}");
    }
    // What a caller relies on is not free.
    fs::write(path("kept.c"), "__attribute__((preserve_most)) long kept(long *at, long n) {
        long all = 0; for (long i = 0; i < n; i++) { at[i] += i * n; all += at[i] >> 3 ^ at[n]; } *at = all; return n; }").unwrap();
    cc(&[
        "clang-19",
        "-O2",
        "-fno-vectorize",
        "-fno-unroll-loops",
        "-shared",
        "-fPIC",
        "kept.c",
        "-o",
        "kept.so",
    ]);
    let kept = free(&path("kept.so"));
    assert!(kept.is_empty(), "{kept:?}");
}

fn not_understood(file: &Path) -> u64 {
    let found = inspect(file);
    found["functions"]["total"].as_u64().unwrap() - found["functions"]["understood"].as_u64().unwrap()
}

#[test]
fn functions_are_understood_that_analysis_alone_does_not() {
    for compiler in ["gcc", "clang-19"] {
        for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
            let what = format!("{compiler} {level}");
            let built = build(compiler, &[level, "-w"], ("hard.c", HARD), true);
            check(&built, &what);
            assert!(not_understood(&built.plain) >= 2, "{what}");
            assert_eq!(not_understood(&built.annotated), 0, "{what}");
            let made = built.dir.path().join("made");
            let profile = built.dir.path().join("made.rprof");
            let mut instrument = Command::new(RELIVE);
            instrument.args(["instrument", "--verify", "-o"]).args([&made, &built.annotated]);
            succeed(instrument.arg("--profile").arg(&profile));
            let outputs = [&built.plain, &made]
                .map(|file| succeed(Command::new(file).current_dir(built.dir.path())).stdout);
            assert_eq!(outputs[0], outputs[1], "{what}");
            // It has no unwind entry, either.
            let dump = succeed(Command::new(RELIVE).args(["dump", "--functions"]).arg(&profile));
            let dump = String::from_utf8(dump.stdout).unwrap();
            let by_hand = dump.lines().map(|line| line.split('\t').collect::<Vec<_>>());
            let by_hand = by_hand.into_iter().find(|fields| fields[1] == "by_hand").expect(&dump);
            assert_eq!(by_hand[4..6], ["measured", "60"], "{what}");
        }
    }
}

#[test]
fn strip_leaves_annotations() {
    let built = build("gcc", &["-O2", "-g"], ("a.c", C), true);
    let stripped = built.dir.path().join("stripped");
    succeed(Command::new("strip").args(["--strip-debug", "-o"]).args([&stripped, &built.annotated]));
    assert_eq!(
        inspect(&stripped)["functions"]["by_source"]["annotation"],
        inspect(&built.annotated)["functions"]["by_source"]["annotation"]
    );
}

/// Names of sections.
fn sections(file: &Path) -> String {
    let output = succeed(Command::new("readelf").args(["-S", "-W"]).arg(file));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn clangs_own_map_stays_where_it_is_asked_for() {
    let flags = ["-O1", "-fbasic-block-address-map"];
    for apart in [false, true] {
        let asked = sections(&build("clang-19", &flags, ("a.c", C), apart).annotated);
        assert!(asked.contains(".llvm_bb_addr_map") && asked.contains(".annotate"), "{asked}");
        let other = sections(&build("clang-19", &flags[..1], ("a.c", C), apart).annotated);
        assert!(!other.contains(".llvm_bb_addr_map") && other.contains(".annotate"), "{other}");
    }
}

#[test]
fn a_file_called_like_a_tool_is_none() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.c"), "int main(void) { return 0; }").unwrap();
    for name in ["as", "ld"] {
        fs::write(dir.path().join(name), "#!/bin/sh\nexit 77\n").unwrap();
        succeed(Command::new("chmod").arg("+x").arg(dir.path().join(name)));
    }
    for compiler in ["gcc", "clang-19"] {
        succeed(Command::new(RELIVE).args(["cc", "--", compiler, "a.c", "-o", "a"]).current_dir(&dir));
    }
}

#[test]
fn rustc_can_link_by_it() {
    let dir = tempfile::tempdir().unwrap();
    let (script, source) = (dir.path().join("linker"), dir.path().join("a.rs"));
    fs::write(&script, format!("#!/bin/sh\nexec {RELIVE} cc -- cc \"$@\"\n")).unwrap();
    succeed(Command::new("chmod").arg("+x").arg(&script));
    fs::write(&source, "fn main() { for word in std::env::args().skip(1) { println!(\"{word}\"); } }")
        .unwrap();
    let [plain, annotated] = [PathBuf::from("cc"), script].map(|linker| {
        let out = dir.path().join(if linker == Path::new("cc") { "plain" } else { "annotated" });
        let mut option = std::ffi::OsString::from("linker=");
        option.push(&linker);
        succeed(Command::new("rustc").args(["-O", "-C"]).arg(option).arg("-o").args([&out, &source]));
        out
    });
    assert_eq!(code(&plain), code(&annotated));
    assert_eq!(succeed(Command::new(&annotated).args(["a", "b"])).stdout, b"a\nb\n");
    assert!(inspect(&annotated)["functions"]["by_source"]["annotation"].as_u64() > Some(0));
}

#[test]
fn compilers_answer_and_fail_as_without() {
    let dir = tempfile::tempdir().unwrap();
    let plain = |args: &[&str]| Command::new("gcc").args(args).current_dir(&dir).output().unwrap();
    let through = |args: &[&str]| {
        Command::new(RELIVE).args(["cc", "--", "gcc"]).args(args).current_dir(&dir).output().unwrap()
    };
    fs::write(dir.path().join("bad.c"), "int main( {").unwrap();
    fs::write(dir.path().join("bad.s"), "\tmov %rax\n").unwrap();
    fs::write(dir.path().join("lost.c"), "int lost(void); int main(void) { return lost(); }").unwrap();
    for args in [
        &["--version"][..],
        &["-dumpmachine"],
        &["-c", "bad.c"],
        &["-c", "bad.s"],
        &["-c", "none.c"],
        &["-E", "lost.c"],
    ] {
        let (plain, through) = (plain(args), through(args));
        assert_eq!(plain.status.code(), through.status.code(), "{args:?}");
        assert_eq!(plain.stdout, through.stdout, "{args:?}");
        let text = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(text(&plain), text(&through), "{args:?}");
    }
    assert_eq!(through(&["lost.c"]).status.code(), Some(1));
    let unknown = Command::new(RELIVE).args(["cc", "--", "/nowhere/gcc", "-c", "a.c"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("/nowhere/gcc"));
}

#[test]
fn what_is_no_compiler_is_told_from_one() {
    // Its version names the same makers as gcc's.
    let ls = Command::new(RELIVE).args(["cc", "--", "ls", "-c", "x.c"]).output().unwrap();
    assert_eq!(ls.status.code(), Some(2));
    let said = String::from_utf8_lossy(&ls.stderr);
    assert!(said.contains("ls is neither gcc nor clang"), "{said}");
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.c"), "int a(int x) { return x + 1; }").unwrap();
    std::os::unix::fs::symlink("/usr/bin/gcc", dir.path().join("my-cc")).unwrap();
    for compiler in ["cc", "./my-cc"] {
        succeed(Command::new(RELIVE).args(["cc", "--", compiler, "-c", "a.c"]).current_dir(&dir));
        assert!(sections(&dir.path().join("a.o")).contains(".annotate"), "{compiler}");
    }
}
