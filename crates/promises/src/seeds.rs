//! Small programs to start from, made by real compilers: between them they have every table that relive
//! reads. All are below 64 KiB.

use crate::annotations;
use crate::decode_cfg::{About, Case, Claim};
use relive_code::addr::LinkAddr;
use relive_image::annotations::{Annotations, Piece, Unit, checksum, describe, writer};
use relive_image::image::Image;
use relive_image::program::analyze;
use relive_testkit::compile::compile;

/// A program, and how to make it.
struct Recipe {
    name: &'static str,
    compiler: &'static str,
    flags: &'static [&'static str],
    source: (&'static str, &'static str),
}

/// Flags for programs without a library, with nothing between their segments.
macro_rules! bare {
    ($($flag:literal),*) => {
        &["-nostdlib", "-static", "-no-pie", "-fno-pie", "-Wl,-z,noseparate-code", "-Wl,--build-id", $($flag),*]
    };
}

const RECIPES: [Recipe; 10] = [
    Recipe { name: "static", compiler: "gcc", flags: bare!("-O2"), source: C },
    Recipe {
        name: "unwind",
        compiler: "gcc",
        flags: bare!("-O1", "-fasynchronous-unwind-tables", "-s"),
        source: C,
    },
    Recipe { name: "relocs", compiler: "gcc", flags: bare!("-O2", "-Wl,--emit-relocs"), source: C },
    Recipe { name: "dwarf", compiler: "gcc", flags: bare!("-O2", "-g"), source: C },
    Recipe { name: "dwarf-packed", compiler: "gcc", flags: bare!("-O2", "-gdwarf-4", "-gz"), source: C },
    Recipe {
        name: "shared",
        compiler: "gcc",
        flags: &["-nostdlib", "-shared", "-fPIC", "-O2", "-Wl,-z,noseparate-code,-z,pack-relative-relocs"],
        source: C,
    },
    Recipe {
        name: "dynamic",
        compiler: "g++",
        flags: &["-O2", "-pie", "-Wl,-z,noseparate-code"],
        source: CPP,
    },
    Recipe {
        name: "stripped",
        compiler: "g++",
        flags: &["-O2", "-no-pie", "-s", "-Wl,-z,noseparate-code"],
        source: CPP,
    },
    Recipe {
        name: "block-map",
        compiler: "clang-19",
        flags: &["-nostdlib", "-static", "-O2", "-fuse-ld=lld-19", "-fbasic-block-address-map"],
        source: C,
    },
    Recipe { name: "go-table", compiler: "gcc", flags: bare!(), source: GO },
];

/// A name and a file for each program.
///
/// # Panics
/// If a compiler is missing.
#[must_use]
pub fn programs() -> Vec<(&'static str, Vec<u8>)> {
    RECIPES.iter().map(|recipe| (recipe.name, make(recipe))).collect()
}

/// The program of that name.
///
/// # Panics
/// If there is none, or its compiler is missing.
#[must_use]
pub fn program(name: &str) -> Vec<u8> {
    make(RECIPES.iter().find(|recipe| recipe.name == name).expect("a program of that name"))
}

fn make(recipe: &Recipe) -> Vec<u8> {
    compile(recipe.compiler, recipe.flags, recipe.source).bytes()
}

/// A small program, and its memory from [`annotations::BASE`] on.
fn loaded() -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let flags = ["-nostdlib", "-static", "-no-pie", "-fno-pie", "-Wl,-N", "-Wl,--build-id=none"];
    let ways = [
        &["-O2", "-Wl,-Ttext=0x1000"][..],
        &["-O0", "-Wl,-Ttext=0x1000"],
        &["-Os", "-fpie", "-Wl,-Ttext=0x1000"],
    ];
    ways.into_iter().map(move |more| {
        let file = compile("gcc", &[&flags, more].concat(), C).bytes();
        let image = Image::parse(&file, None).expect("a program");
        let mut memory: Vec<u8> = (0..0x2000)
            .map(|i| image.elf.bytes_at(annotations::BASE.offset(i)).first().copied().unwrap_or(0))
            .collect();
        memory.truncate(memory.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
        (file, memory)
    })
}

/// The functions of the programs as cases of [`crate::decode_cfg`], with the memory around them.
///
/// # Panics
/// If a compiler is missing.
#[must_use]
pub fn functions() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for (file, memory) in loaded() {
        let image = Image::parse(&file, None).expect("a program");
        for function in &analyze(&image).functions {
            let claims = function.cfg.pieces.iter().filter_map(|piece| {
                let offset = |at: LinkAddr| u16::try_from(at.0.checked_sub(0x1000)?).ok();
                Some(Claim { about: About::Piece, numbers: [offset(piece.start)?, offset(piece.end)?, 0] })
            });
            found.push(Case { flags: 0, claims: claims.collect(), memory: memory.clone() }.encode());
        }
    }
    found
}

/// The programs with a description of them, as cases of [`crate::annotations`].
///
/// # Panics
/// If a compiler is missing.
#[must_use]
pub fn annotated() -> Vec<annotations::Case> {
    let describe = |(file, memory): (Vec<u8>, Vec<u8>)| {
        let image = Image::parse(&file, None).expect("a program");
        let mut pieces: Vec<Piece> = analyze(&image).functions.iter().flat_map(describe).collect();
        pieces.sort_by_key(|piece| piece.range);
        checksum::seal(&mut pieces, &image);
        let unit = Unit { producer: "gcc".into(), language: "C".into(), ..Unit::default() };
        let said = Annotations { units: vec![unit], pieces };
        let section = writer::write_all(&said, &image.elf.text).expect("what can be written");
        annotations::Case { is_sealed: false, section, memory }
    };
    loaded().map(describe).collect()
}

/// Switches, loops, calls of all kinds, a computed goto; no library.
const C: (&str, &str) = (
    "seed.c",
    r#"
typedef int (*operation)(int, int);
static int add(int a, int b) { return a + b; }
static int mul(int a, int b) { return a * b; }
__attribute__((noinline)) int sub(int a, int b) { return a - b; }
operation operations[] = {add, mul, sub};
__attribute__((noinline, noreturn)) void stop(int code) {
    __asm__ volatile("syscall" ::"a"(60), "D"(code) : "rcx", "r11", "memory");
    __builtin_unreachable();
}
__attribute__((noinline)) int choose(int which, int x) {
    switch (which) {
    case 0: return x + 1;
    case 1: x ^= 0x55; /* fall through */
    case 2: return sub(x, which) * 3;
    case 3: return x << 2;
    case 4: if (x > 100) stop(x); return 7;
    case 5: return x / 3;
    case 6: return -x;
    default: return 0;
    }
}
__attribute__((noinline)) int interpret(const unsigned char *code) {
    static const void *const labels[] = {&&push, &&sum, &&again, &&done};
    int stack[16], top = 0;
    goto *labels[*code++ & 3];
push:
    stack[top++ & 15] = *code++;
    goto *labels[*code++ & 3];
sum:
    stack[0] += stack[top & 15];
    goto *labels[*code++ & 3];
again:
    if (--top > 0) code -= 3;
    goto *labels[*code++ & 3];
done:
    return stack[0];
}
__attribute__((noinline)) int nested(int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i)
        for (int j = i; j < n; ++j)
            if ((i ^ j) & 1) sum += operations[(i + j) % 3](i, j);
            else if (sum > 1000) break;
    return sum;
}
void _start(void) {
    unsigned char code[] = {0, 5, 1, 2, 3};
    int sum = interpret(code);
    for (int i = 0; i < 9; ++i) sum += choose(i, nested(i));
    stop(sum);
}
"#,
);

/// Exceptions.
const CPP: (&str, &str) = (
    "seed.cpp",
    r#"
struct Guard { int *at; ~Guard() { ++*at; } };
__attribute__((noinline)) int risky(int x) {
    if (x > 3) throw x;
    if (x < 0) throw "negative";
    return x * 2;
}
__attribute__((noinline)) int careful(int x) {
    int count = 0;
    try {
        Guard guard{&count};
        count += risky(x);
        count += risky(x + 1);
    } catch (int found) {
        return found;
    } catch (const char *) {
        return -1;
    }
    return count;
}
int main(int argc, char **) { return careful(argc) + careful(-argc); }
"#,
);

/// A function table as Go 1.20 writes it, which no Go program of this size has.
const GO: (&str, &str) = (
    "seed.s",
    r#"
    .text
    .globl _start
_start:
    xorl %eax, %eax
    call second
    ret
second:
    cmpl $3, %edi
    ja 1f
    movl $1, %eax
1:  ret
end:
    .section .gopclntab, "a", @progbits
table:
    .long 0xfffffff1
    .byte 0, 0, 1, 8
    .quad 2, 1, _start, names - table, 0, 0, 0, functions - table
names:
    .byte 0
first_name: .asciz "main.main"
second_name: .asciz "main.second"
functions:
    .long 0, first - functions, second - _start, other - functions, end - _start
first:
    .long 0, first_name - names
other:
    .long second - _start, second_name - names
"#,
);
