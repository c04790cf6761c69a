//! Small programs with one change each, and which functions that must and must not affect.
//!
//! `@A|B@` is `A` in the old version and `B` in the new one. All functions named in a test stay functions.

use crate::build::describe;
use crate::oracle::Sides;
use relive_impact::slice::Slice;
use relive_matching::{Fingerprint, match_builds};
use relive_profile::model::Module;
use relive_testkit::compile::compile;

const PRELUDE: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <setjmp.h>\n\
    #define F __attribute__((noipa))\nvolatile int sink;\n";

fn version(source: &str, new: bool) -> String {
    let mut text = PRELUDE.to_string();
    let mut rest = source;
    while let Some((before, (choice, after))) =
        rest.split_once('@').and_then(|(before, more)| Some((before, more.split_once('@')?)))
    {
        let (old, other) = choice.split_once('|').expect("two versions");
        text.push_str(before);
        text.push_str(if new { other } else { old });
        rest = after;
    }
    text + rest
}

/// Checks which functions the slices hold on either side.
fn check(source: &str, affected: &[&str], free: &[&str]) {
    for level in ["-O1", "-O2"] {
        let binaries =
            [false, true].map(|new| compile("gcc", &[level, "-w"], ("program.c", &version(source, new))));
        let [old, new] = [0, 1].map(|side: usize| describe(&binaries[side]));
        let prints = (Fingerprint::new(&old).expect("code"), Fingerprint::new(&new).expect("code"));
        let sides = Sides::new(&old, &new, &match_builds(&prints.0, &prints.1));
        let seeds = sides.seeds(&sides.same());
        let holds = |module: &Module, side: usize, name: &str| {
            let found = module.functions.iter().position(|f| module.name(f) == name);
            let function = found.unwrap_or_else(|| panic!("{name} is no function")) as u32;
            Slice::forward(module, &seeds[side]).all(module).touches(function)
        };
        for name in affected {
            let held = holds(&old, 0, name) || holds(&new, 1, name);
            assert!(held, "{level}: {name} is affected\n{source}");
        }
        for name in free {
            let held = holds(&old, 0, name) || holds(&new, 1, name);
            assert!(!held, "{level}: {name} is not affected\n{source}");
        }
    }
}

#[test]
fn a_result_affects_who_uses_it() {
    let source = "F int leaf(int x) { return x + @1|2@; }
        F int user(int x) { return leaf(x) * 3; }
        F int other(int x) { return x * 5; }
        int main(int argc, char **argv) { int o = other(argc); sink = o; return user(argc) + 1; }";
    check(source, &["leaf", "user", "main"], &["other"]);
}

#[test]
fn a_decision_affects_what_it_guards() {
    let source = "F int ask(int x) { return x > @1|2@; }
        F void rare(void) { sink = 1; }
        F void inner(void) { sink++; }
        F void guarded(void) { inner(); }
        F void always(int x) { sink = x; }
        int main(int argc, char **argv) { always(argc); if (ask(argc)) { rare(); guarded(); } return 0; }";
    check(source, &["rare", "guarded", "inner"], &[]);
}

#[test]
fn what_is_done_anyway_is_free() {
    let source = "F int ask(int x) { return x > @1|2@; }
        F int rare(int x) { return x + 7; }
        F int always(int x) { return x * 3; }
        int main(int argc, char **argv) { int r = 0; if (ask(argc)) r = rare(argc); int a = always(argc); return r + a; }";
    check(source, &["rare", "main"], &["always"]);
}

#[test]
fn a_bound_affects_the_loop() {
    let source = "F int bound(int x) { return x + @3|4@; }
        F int body(int x) { return x ^ 1; }
        F int after(int x) { return x * 3; }
        int main(int argc, char **argv) { int s = 0; for (int i = 0; i < bound(argc); i++) s += body(i); return s + after(argc); }";
    check(source, &["body", "bound"], &["after"]);
}

#[test]
fn a_global_variable_carries_it() {
    let source = "static int g, h;
        F void set(int x) { g = x * @3|5@; }
        F void keep(int x) { h = x; }
        F int reader(void) { return g + 1; }
        F int other(void) { return h + 1; }
        int main(int argc, char **argv) { set(argc); keep(argc); int o = other(); return reader() + o; }";
    check(source, &["reader", "main"], &["other"]);
}

#[test]
fn an_array_carries_it_through_a_pointer() {
    let source = "static int a[64];
        F void fill(int *to, int x) { for (int i = 0; i < 64; i++) to[i] = x * @3|5@ + i; }
        F int reader(int i) { return a[i & 63]; }
        F int other(int x) { return x / 3; }
        int main(int argc, char **argv) { int o = other(argc); fill(a, argc); return reader(argc) + o; }";
    check(source, &["reader", "main"], &["other"]);
}

#[test]
fn the_heap_carries_it() {
    let source = "struct s { int x, y; struct s *next; };
        F void put(struct s *p, int x) { p->x = x * @3|5@; }
        F int get(struct s *p) { return p->next->x; }
        F int other(int x) { return x / 3; }
        int main(int argc, char **argv) { struct s *p = malloc(sizeof *p); p->next = p; put(p, argc); return get(p) + other(2); }";
    check(source, &["get", "main"], &["other"]);
}

#[test]
fn calls_through_pointers_are_followed() {
    let source = "F int one(int x) { return x + @1|2@; }
        F int two(int x) { return x + 3; }
        static int (*table[])(int) = {one, two};
        F int through(int x) { return table[x & 1](x) + 1; }
        F int other(int x) { return x / 3; }
        int main(int argc, char **argv) { int o = other(argc); return through(argc) + o; }";
    check(source, &["one", "through", "main"], &["other"]);
}

#[test]
fn another_index_may_call_anybody() {
    let source = "F int one(int x) { return x + 1; }
        F int two(int x) { return x + 3; }
        static int (*table[])(int) = {one, two};
        int main(int argc, char **argv) { return table[(argc + @1|2@) & 1](argc); }";
    check(source, &["one", "two", "main"], &[]);
}

#[test]
fn what_follows_a_possible_exit_depends_on_it() {
    let source = "F void guard(int x) { if (x > @3|4@) exit(1); }
        F int before(int x) { return x + 3; }
        F int after(int x) { return x * 3; }
        F int outer(int x) { guard(x); return after(x); }
        F int last(int x) { return x / 3; }
        int main(int argc, char **argv) { int b = before(argc); return outer(argc) + last(argc) + b; }";
    check(source, &["after", "last"], &["before"]);
}

#[test]
fn what_follows_a_long_jump_depends_on_it() {
    let source = "static jmp_buf env;
        F void guard(int x) { if (x > @3|4@) longjmp(env, 1); }
        F int before(int x) { return x + 3; }
        F int caught(int x) { return x * 3; }
        int main(int argc, char **argv) { int b = before(argc); if (setjmp(env)) return caught(argc); guard(argc); return b; }";
    check(source, &["caught", "main"], &["before"]);
}

#[test]
fn arguments_on_the_stack_are_followed() {
    let source = "F int eight(int a, int b, int c, int d, int e, int f, int g, int h) { return h > 5 ? g : a; }
        F int seven(int a, int b, int c, int d, int e, int f, int g) { return g + a; }
        int main(int argc, char **argv) { int r = seven(1, 2, 3, 4, 5, 6, argc); return eight(1, 2, 3, 4, 5, 6, 7, argc * @3|5@) + r; }";
    check(source, &["eight"], &["seven"]);
}

#[test]
fn a_helper_passes_on_only_what_it_was_given() {
    let source = "F int twice(int x) { if (x < 0) return 0; return x * 2; }
        F int user(int x) { return twice(x) + 1; }
        F int changed(int x) { return twice(x * @3|5@); }
        F int other(int x) { return twice(x) / 7; }
        int main(int argc, char **argv) { int o = other(argc), u = user(argc); return changed(argc) + o + u; }";
    check(source, &["twice", "changed", "main"], &["other", "user"]);
}

#[test]
fn a_table_carries_it() {
    let source = "static const int table[] = {1, 2, 3, @4|9@, 5, 6, 7, 8};
        F int reader(int x) { return table[x & 7]; }
        F int other(int x) { return x / 3; }
        int main(int argc, char **argv) { int o = other(argc); return reader(argc) + o; }";
    check(source, &["reader", "main"], &["other"]);
}

#[test]
fn how_often_something_is_called_may_be_remembered() {
    let source = "static int count;
        F void tick(void) { count++; }
        F int counted(void) { return count; }
        F int other(int x) { return x / 3; }
        int main(int argc, char **argv) { int o = other(argc); if (argc > @1|2@) tick(); return counted() + o; }";
    check(source, &["tick", "counted"], &["other"]);
}

#[test]
fn files_carry_it() {
    let source = "F void save(FILE *f, int x) { fprintf(f, \"%d\", x * @3|5@); }
        F int load(FILE *f) { char line[64]; return fgets(line, 64, f) ? line[0] : 0; }
        int main(int argc, char **argv) { FILE *f = tmpfile(); save(f, argc); rewind(f); return load(f); }";
    check(source, &["load", "main"], &[]);
}

#[test]
fn recursion_ends_elsewhere() {
    let source = "F int down(int x) { return x < @2|3@ ? visit(x) : down(x - 1) + 1; }
        F int visit(int x) { return x + 4; }
        F int other(int x) { return x / 3; }
        int main(int argc, char **argv) { int o = other(argc); return down(argc) + o; }";
    let source = format!("int visit(int);\n{source}");
    check(&source, &["down", "visit", "main"], &["other"]);
}

#[test]
fn a_text_affects_who_takes_its_address() {
    let source = "F int reader(int x) { return \"@3456|3466@\"[x & 3]; }
        F int length(const char *text) { int n = 0; while (*text++) n++; return n; }
        F int user(void) { return length(\"@0.1|0.2.1@\"); }
        F int other(const char *text, int x) { return text[x & 3] * 7; }
        F int heap(int *p) { return *p + 4; }
        int main(int argc, char **argv) {
            int *p = malloc(4); *p = argc;
            int o = other(argv[0], argc) + heap(p);
            return reader(argc) + user() + o;
        }";
    check(source, &["reader", "length", "user", "main"], &["other", "heap"]);
}

#[test]
fn a_text_affects_who_finds_it_in_a_table() {
    let source = "static const char *const names[] = {\"first\", \"sec@o|a@nd\", \"third\", \"fourth\"};
        F int reader(int x) { return names[x & 3][x & 3]; }
        F int other(const char *text, int x) { return text[x & 3] * 7; }
        int main(int argc, char **argv) {
            int o = other(\"other\", argc);
            return reader(argc) + o;
        }";
    check(source, &["reader", "main"], &["other"]);
}
