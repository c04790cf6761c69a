//! Three versions of one small program, as releases of it might be.

use super::{stdout, text};
use relive_testkit::compile::{Compiled, compile};
use std::path::Path;
use std::process::Command;

/// What `VERSION` 2 changes: a name, constants, a case in the middle of a switch, an added branch and loop; a function
/// goes and another comes. Version 3 changes a little more.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#define KEPT __attribute__((noinline))
static unsigned total;
static const char *const words[] = {"zero", "one", "two", "three"};
#if VERSION == 1
#define spread scatter
KEPT static unsigned gone(unsigned x) { for (unsigned i = 0; i < 3; i++) x = x / 3 + (x ^ 0x123) * i; return x | 8; }
#else
KEPT static unsigned come(unsigned x) { while (x > 900) x = (x >> 2) - 5; printf("came to %u\n", x); return x ^ 0x4321; }
#endif
KEPT static unsigned spread(unsigned x) {
    unsigned bits = 0;
    for (unsigned i = 0; i < 16; i++) if (x >> i & 1) bits |= 1u << (2 * i); else bits += 3;
    return bits % 1009;
}
KEPT static unsigned fold(const unsigned char *s) {
    unsigned h = VERSION == 1 ? 5381 : 5387;
    while (*s) { h = h * (VERSION == 1 ? 33 : 37) + *s++; if (h > 0x70000000) h ^= 0x1111; }
    return h;
}
KEPT static unsigned grow(unsigned x) {
    unsigned sum = x + 17;
    for (unsigned i = 0; i < x % 7; i++) { sum += i * x; if (sum % 5 == 2) total++; }
#if VERSION >= 2
    if (x % 100 == 42) { for (unsigned i = 0; i < 3; i++) sum -= i << 3; printf("grown %u\n", sum); }
#endif
    return sum;
}
KEPT static unsigned step(unsigned kind, unsigned x) {
    switch (kind) {
    case 0: return x + 1;
    case 1: total += x; return x * 7 ^ 0x55;
    case 2: return spread(x) + 2;
#if VERSION >= 2
    case 3: puts("a new kind"); return x / 11;
#endif
    case 4: return x > 50 ? x - 50 : x * 3;
    case 5: return fold((const unsigned char *)words[x & 3]);
    case 6: return grow(x);
#if VERSION >= 3
    case 7: return x % 13 * 5;
#endif
    default: return 9;
    }
}
KEPT static unsigned up(unsigned x) { return x + (x >> 3) + 21; }
KEPT static unsigned down(unsigned x) { return x < 30 ? 0 : x - 30 - (x >> 4); }
unsigned (*const moves[])(unsigned) = {up, down};
int main(int argc, char **argv) {
    unsigned x = 1, rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
    for (unsigned i = 0; i < rounds; i++) {
        unsigned kind = i % 10;
        x = step(kind == 3 ? 8 : kind, x % 1000);
        x = moves[i % 4 == 0](x);
    }
#if VERSION == 1
    if (argc > 5) x = gone(x);
#else
    if (argc > 4) x = come(x);
#endif
    printf("%s %u %u\n", words[x & 3], x, total);
    return 0;
}
"#;

/// A version, 1 to 3, as gcc builds it at `-O2`.
pub(crate) fn version(number: u32) -> Compiled {
    let define = format!("-DVERSION={number}");
    compile("gcc", &["-O2", "-Wl,--build-id=sha1", &define], ("program.c", PROGRAM))
}

/// Another program, with nothing in common but what every program has.
const OTHER: &str = r#"
#include <stdio.h>
#include <math.h>
__attribute__((noinline)) static double area(const double *x, const double *y, int n) {
    double sum = 0;
    for (int i = 0, j = n - 1; i < n; j = i++) sum += (x[j] + x[i]) * (y[j] - y[i]);
    return fabs(sum) / 2;
}
__attribute__((noinline)) static void turn(double *x, double *y, int n, double c, double s) {
    for (int i = 0; i < n; i++) { double t = x[i] * c - y[i] * s; y[i] = x[i] * s + y[i] * c; x[i] = t; }
}
__attribute__((noinline)) static int inside(const double *x, const double *y, int n, double px, double py) {
    int in = 0;
    for (int i = 0, j = n - 1; i < n; j = i++)
        if ((y[i] > py) != (y[j] > py) && px < (x[j] - x[i]) * (py - y[i]) / (y[j] - y[i]) + x[i]) in = !in;
    return in;
}
int main(void) {
    double x[5] = {0, 4, 5, 2, -1}, y[5] = {0, 0, 3, 5, 3};
    int in = 0;
    for (int i = 0; i < 200; i++) { turn(x, y, 5, 0.8, 0.6); in += inside(x, y, 5, i * 0.01, 1); }
    fprintf(stderr, "%g %d\n", area(x, y, 5), in);
    return 0;
}
"#;

/// Both programs as libraries without symbols, so that they do not even share how they start.
pub(crate) fn strangers() -> [Compiled; 2] {
    let args = ["-O2", "-shared", "-fPIC", "-nostartfiles", "-s", "-Wl,--build-id=sha1", "-DVERSION=1"];
    let one = compile("gcc", &args, ("program.c", PROGRAM));
    [one, compile("gcc", &[&args[..], &["-Dmain=work"]].concat(), ("other.c", OTHER))]
}

/// Both as programs without symbols.
pub(crate) fn strange_programs() -> [Compiled; 2] {
    [("program.c", PROGRAM), ("other.c", OTHER)]
        .map(|source| compile("gcc", &["-O2", "-s", "-DVERSION=1"], source))
}

/// A copy without symbols.
pub(crate) fn stripped(program: &Path, folder: &Path, name: &str) -> String {
    let copy = folder.join(name);
    let status = Command::new("strip").arg("-o").arg(&copy).arg(program).status().expect("strip starts");
    assert!(status.success());
    text(&copy).to_string()
}

/// Has the program counted, runs it once, and returns where the profile is.
pub(crate) fn profile(folder: &Path, name: &str, program: &Path) -> String {
    let (counted, profile) = (folder.join(name), folder.join(format!("{name}.rprof")));
    stdout(&["instrument", text(program), "-o", text(&counted)]);
    let run = Command::new(&counted).env("RELIVE_PROFILE", &profile).output().expect("the program starts");
    assert!(run.status.success());
    text(&profile).to_string()
}
