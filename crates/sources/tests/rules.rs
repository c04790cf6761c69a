//! Each rule of the comparison, for each language it is for.

use relive_sources::{Change, Changes, Kind, Tree, What, compare};

fn tree(files: &[(&str, &str)]) -> Tree {
    let mut tree = Tree::default();
    for (path, text) in files {
        assert!(tree.insert(*path, text.as_bytes().to_vec()), "{path}");
    }
    tree
}

fn between(path: &str, old: &str, new: &str) -> Changes {
    compare(&tree(&[(path, old)]), &tree(&[(path, new)]))
}

/// A change as `kind what name old-lines new-lines because`.
fn shown(change: &Change) -> String {
    let lines = |span: Option<relive_sources::Span>| match span {
        Some(span) if span.first == span.last => span.first.to_string(),
        Some(span) => format!("{}-{}", span.first, span.last),
        None => "_".to_owned(),
    };
    let because = change.because.as_ref().map_or(String::new(), |cause| {
        let via = if cause.via == cause.name { String::new() } else { format!(" via {}", cause.via) };
        format!(" because {} {}{via}", cause.what, cause.name)
    });
    let name = change.name.as_deref().unwrap_or("_");
    format!("{} {} {name} {} {}{because}", change.kind, change.what, lines(change.old), lines(change.new))
}

fn all(changes: &Changes) -> Vec<String> {
    changes.changes.iter().map(shown).collect()
}

#[track_caller]
fn expect(path: &str, old: &str, new: &str, expected: &[&str]) -> Changes {
    let changes = between(path, old, new);
    assert_eq!(all(&changes), expected);
    changes
}

fn pairs(changes: &Changes) -> Vec<(u32, u32)> {
    changes.unchanged.iter().map(|(from, to)| (from.line, to.line)).collect()
}

#[test]
fn comments_layout_and_order_do_not_count() {
    expect(
        "a.c",
        "int g;\nint f(int x) {\n  if (x) { x = 1; }\n  return x;\n}\nvoid h(void) { g = 2; }\n",
        "void h(void)\n{\n  g = 2; // two\n}\nint f(int x) {\n  /* c */ if (x) {\n    x = 1; }\n  return\n x;\n}\nint g;\n",
        &[],
    );
    expect(
        "a.cpp",
        "namespace n { class A { int x; int f() { return x; } int g() { return 1; } }; }\nint A::h() { return 0; }\n",
        "int A::h() { return 0; }\nnamespace n {\nclass A { int x;\n int g() { return 1; }\n int f() { return x; // r\n } }; }\n",
        &[],
    );
    expect(
        "a.rs",
        "impl A { fn f(&self) -> u8 { 1 } fn g() {} }\nconst X: u8 = 1;\nuse a::{b, c};\n",
        "use a::c;\nuse a::b;\nconst X: u8 = 1; /* /* x */ */\nimpl A {\n fn g() {}\n /// Doc\n fn f(&self) -> u8 {\n 1\n }\n}\n",
        &[],
    );
    expect(
        "a.go",
        "package p\nimport \"fmt\"\nvar x = 1\nfunc f() int { return x }\nfunc (t *T) g() { fmt.Print() }\n",
        "package p\nimport (\n\t\"fmt\"\n)\nfunc (t *T) g() {\n\t// c\n\tfmt.Print()\n}\nfunc f() int {\n\treturn x\n}\nvar x = 1\n",
        &[],
    );
}

#[test]
fn a_statement_of_each_language() {
    for (path, head, tail) in [
        ("a.c", "int f(int x) {", "}"),
        ("a.cpp", "int A::f(int x) {", "}"),
        ("a.rs", "impl A { fn f(x: i32) -> i32 {", "} }"),
        ("a.go", "package p; func (a A) f(x int) int {", "}"),
    ] {
        let name = match path {
            "a.c" => "f",
            "a.go" => "A.f",
            _ => "A::f",
        };
        let old = format!("{head}\n x = g(x);\n x = h(x, 2);\n return x;\n{tail}\n");
        let new = format!("{head}\n x = g(x);\n x = h(x, 3);\n return x;\n{tail}\n");
        let changes = expect(path, &old, &new, &[&format!("changed statement {name} 3 3")]);
        assert_eq!(pairs(&changes), [(1, 1), (2, 2), (4, 4), (5, 5)], "{path}");
        let new = format!("{head}\n x = g(x);\n k(x);\n x = h(x, 2);\n return x;\n{tail}\n");
        let changes = expect(path, &old, &new, &[&format!("added statement {name} _ 3")]);
        assert_eq!(pairs(&changes), [(1, 1), (2, 2), (3, 4), (4, 5), (5, 6)], "{path}");
        expect(path, &new, &old, &[&format!("deleted statement {name} 3 _")]);
        let statements = between(path, &old, &new).statements;
        assert_eq!((statements.added, statements.deleted, statements.changed), (1, 0, 0));
        assert_eq!(statements.new, statements.old + 1);
    }
}

#[test]
fn only_the_head_or_only_the_body() {
    for (path, old_head, new_head) in [
        ("a.c", "void f(int x) {\n if (x > 1) {", "void f(int x) {\n if (x > 2) {"),
        ("a.c", "void f(int x) {\n for (; x; x--) {", "void f(int x) {\n for (; x; x -= 2) {"),
        ("a.cpp", "void f(V x) {\n for (auto y : x) {", "void f(V x) {\n for (auto &y : x) {"),
        ("a.rs", "fn f(x: u8) {\n if x > 1 {", "fn f(x: u8) {\n if x > 2 {"),
        ("a.rs", "fn f(x: u8) {\n while x > 1 {", "fn f(x: u8) {\n while x > 2 {"),
        ("a.go", "package p; func f(x int) {\n for x > 1 {", "package p; func f(x int) {\n for x > 2 {"),
    ] {
        let (old_body, new_body) = ("\n  a(1);\n  b(2);\n }\n}\n", "\n  a(1);\n  b(3);\n }\n}\n");
        let text = |head: &str, body: &str| format!("{head}{body}");
        let changes =
            expect(path, &text(old_head, old_body), &text(new_head, old_body), &["changed statement f 2 2"]);
        assert!(pairs(&changes).contains(&(3, 3)) && pairs(&changes).contains(&(4, 4)), "{path}");
        expect(path, &text(old_head, old_body), &text(old_head, new_body), &["changed statement f 4 4"]);
    }
}

#[test]
fn the_parts_of_branches() {
    expect(
        "a.c",
        "void f(int x) {\n if (x) {\n  a();\n } else if (x > 3)\n  b();\n else {\n  c();\n }\n}\n",
        "void f(int x) {\n if (x) {\n  a();\n } else if (x > 4)\n  b();\n else {\n  c();\n  d();\n }\n}\n",
        &["changed statement f 4 4", "added statement f _ 8"],
    );
    expect(
        "a.c",
        "void f(int x) {\n switch (x) {\n case 1:\n  a();\n  break;\n case 2:\n  b();\n }\n}\n",
        "void f(int x) {\n switch (x) {\n case 1:\n  a();\n  break;\n case 3:\n  b();\n }\n}\n",
        &["changed statement f 6 6"],
    );
    expect(
        "a.c",
        "void f(int x) {\n do {\n  a();\n } while (x < 3);\n}\n",
        "void f(int x) {\n do {\n  a();\n } while (x < 4);\n}\n",
        &["changed statement f 4 4"],
    );
    expect(
        "a.rs",
        "fn f(x: u8) {\n match x {\n  1 => a(),\n  2 => {\n   b();\n  }\n  _ => {}\n }\n}\n",
        "fn f(x: u8) {\n match x {\n  1 => z(),\n  2 => {\n   b();\n   c();\n  }\n  _ => {}\n }\n}\n",
        &["changed statement f 3 3", "added statement f _ 6"],
    );
    expect(
        "a.go",
        "package p\nfunc f(x int) {\n switch x {\n case 1:\n  a()\n case 2:\n  b()\n }\n if x > 1 {\n  c()\n } else {\n  d()\n }\n}\n",
        "package p\nfunc f(x int) {\n switch x {\n case 1:\n  a()\n  e()\n case 2:\n  b()\n }\n if x > 1 {\n  c()\n } else {\n  d(1)\n }\n}\n",
        &["added statement f _ 6", "changed statement f 12 13"],
    );
    expect(
        "a.cpp",
        "void f() {\n try {\n  a();\n } catch (E &e) {\n  b();\n }\n g([] {\n  c();\n });\n}\n",
        "void f() {\n try {\n  a();\n } catch (F &e) {\n  b();\n }\n g([] {\n  c();\n  d();\n });\n}\n",
        &["changed statement f 4 4", "added statement f _ 9"],
    );
}

#[test]
fn a_moved_statement_has_changed() {
    let changes = between(
        "a.c",
        "void f(void) {\n a();\n b();\n c();\n}\n",
        "void f(void) {\n b();\n c();\n a();\n}\n",
    );
    assert_eq!(all(&changes), ["deleted statement f 2 _", "added statement f _ 4"]);
}

#[test]
fn functions_move_between_files() {
    let moved = "static int f(int x) { int y = x; y++; return y; }\n";
    let old = tree(&[("a.c", moved), ("b.c", "int g;\n")]);
    let new = tree(&[("a.c", "\n"), ("b.c", &format!("int g;\n{moved}"))]);
    let changes = compare(&old, &new);
    assert_eq!(all(&changes), Vec::<String>::new());
    assert_eq!(changes.old_path(changes.unchanged[0].0.file), Some("a.c"));
    assert_eq!(changes.new_path(changes.unchanged[0].1.file), Some("b.c"));
    // Of the same name: first those in the same file.
    let other = "static int f(int x) { return 7; }\n";
    let old = tree(&[("a.c", moved), ("b.c", other)]);
    let new = tree(&[("a.c", "static int f(int x) { return 8; }\n"), ("b.c", other)]);
    assert!(compare(&old, &new).changes.iter().all(|change| change.old.is_none_or(|old| old.file.0 == 0)));
}

#[test]
fn overloads_and_renames() {
    expect(
        "a.cpp",
        "int f(int x) { return 1; }\nint f(double y) { return 2; }\n",
        "int f(double y) { return 2; }\nint f(int x) { return 1; }\n",
        &[],
    );
    let body = "{\n a();\n b();\n c();\n}\n";
    expect(
        "a.c",
        &format!("void f(void) {body}"),
        &format!("void g(void) {body}"),
        &["changed function g 1 1"],
    );
}

#[test]
fn macros_reach_functions_also_by_way_of_others() {
    expect(
        "a.c",
        "#define N 1\n#define M (N + 1)\nint f(void) { return M; }\nint g(void) { return 1; }\n",
        "#define N 2\n#define M (N + 1)\nint f(void) { return M; }\nint g(void) { return 1; }\n",
        &["changed macro N 1 1", "changed function f 3 3 because macro N via M"],
    );
    expect(
        "a.rs",
        "macro_rules! m { () => { 1 } }\nfn f() -> u8 { m!() }\n",
        "macro_rules! m { () => { 2 } }\nfn f() -> u8 { m!() }\n",
        &["changed macro m 1 1", "changed function f 2 2 because macro m"],
    );
    // What a new macro takes the place of.
    expect(
        "a.c",
        "int h(int);\nint f(void) { return h(1); }\n",
        "int h(int);\n#define h(x) 2\nint f(void) { return h(1); }\n",
        &["added macro h _ 2", "changed function f 2 3 because macro h"],
    );
    // Where it is used for the first time, the statement has changed anyway.
    expect(
        "a.c",
        "int f(void) {\n a();\n return 1;\n}\n",
        "#define N 2\nint f(void) {\n a();\n return N;\n}\n",
        &["added macro N _ 1", "changed statement f 3 4"],
    );
}

#[test]
fn macros_reach_only_files_that_read_them() {
    let old = tree(&[
        ("a.h", "#define N 1\n"),
        ("a.c", "#include \"a.h\"\nint f(void) { return N; }\n"),
        ("b.c", "int g(int N) { return N; }\n"),
    ]);
    let mut new = old.clone();
    new.insert("a.h", b"#define N 2\n".to_vec());
    let changes = compare(&old, &new);
    assert_eq!(all(&changes), ["changed macro N 1 1", "changed function f 2 2 because macro N"]);
}

#[test]
fn variables_and_constants_reach_functions() {
    for (path, old, new, what) in [
        (
            "a.c",
            "static const int t[] = {1, 2};\nint f(int i) { return t[i]; }\n",
            "static const int t[] = {1, 3};\nint f(int i) { return t[i]; }\n",
            "variable t",
        ),
        (
            "a.cpp",
            "constexpr int t = 1;\nint f() { return t; }\n",
            "constexpr int t = 2;\nint f() { return t; }\n",
            "variable t",
        ),
        (
            "a.rs",
            "const T: u8 = 1;\nfn f() -> u8 { T }\n",
            "const T: u8 = 2;\nfn f() -> u8 { T }\n",
            "variable T",
        ),
        (
            "a.go",
            "package p; var t = 1\nfunc f() int { return t }\n",
            "package p; var t = 2\nfunc f() int { return t }\n",
            "variable t",
        ),
    ] {
        expect(
            path,
            old,
            new,
            &[&format!("changed {what} 1 1"), &format!("changed function f 2 2 because {what}")],
        );
    }
}

#[test]
fn enumerators_count_on() {
    let changes = between(
        "a.c",
        "enum e { A, B, C = 9, D };\nint f(void) { return A; }\nint g(void) { return B; }\nint h(void) { return D; }\n",
        "enum e { A, X, B, C = 9, D };\nint f(void) { return A; }\nint g(void) { return B; }\nint h(void) { return D; }\n",
    );
    assert_eq!(all(&changes), ["added statement e _ 1", "changed function g 3 3 because type e via B"]);
    let changes = between(
        "a.go",
        "package p\nconst (\n A = iota\n B\n)\nfunc f() int { return A }\nfunc g() int { return B }\n",
        "package p\nconst (\n A = iota\n X\n B\n)\nfunc f() int { return A }\nfunc g() int { return B }\n",
    );
    assert_eq!(
        all(&changes),
        ["added statement const A _ 4", "changed function g 7 8 because variable const A via B"]
    );
}

#[test]
fn layouts_reach_functions_by_name_and_by_field() {
    let users =
        "int f(S *s) { return 1; }\nint g(void) { return get()->b; }\nint h(void) { return get()->a; }\n";
    let changes = between(
        "a.c",
        &format!("typedef struct S {{\n int a;\n int b;\n}} S;\n{users}"),
        &format!("typedef struct S {{\n int a;\n long c;\n int b;\n}} S;\n{users}"),
    );
    assert_eq!(
        all(&changes),
        [
            "added statement S _ 3",
            "changed function f 5 6 because type S",
            "changed function g 6 7 because type S via b",
        ]
    );
    // By way of a type that holds it, but not of one that only points to it.
    let users = "struct H { struct S s; };\nstruct P { struct S *p; };\nint f(struct H *h) { return 1; }\nint g(struct P *p) { return 1; }\n";
    let changes = between(
        "a.c",
        &format!("struct S {{ int a; }};\n{users}"),
        &format!("struct S {{ long a; }};\n{users}"),
    );
    assert_eq!(changes.changes.iter().filter(|change| change.because.is_some()).count(), 1);
    for (path, old, new) in [
        ("a.rs", "struct S {\n a: u8,\n}\nfn f(s: &S) {}\n", "struct S {\n a: u16,\n}\nfn f(s: &S) {}\n"),
        (
            "a.go",
            "package p; type S struct {\n a int8\n}\nfunc f(s *S) {}\n",
            "package p; type S struct {\n a int16\n}\nfunc f(s *S) {}\n",
        ),
        ("a.cpp", "class S {\n int a;\n};\nvoid f(S &s) {}\n", "class S {\n long a;\n};\nvoid f(S &s) {}\n"),
    ] {
        let changes = between(path, old, new);
        assert_eq!(all(&changes).last().unwrap(), "changed function f 4 4 because type S", "{path}");
        assert_eq!(changes.changes[0].old.unwrap().first, 2, "{path}");
    }
}

#[test]
fn conditions_change_what_stands_under_them() {
    expect(
        "a.c",
        "void f(void) {\n a();\n#ifdef A\n b();\n#endif\n c();\n}\n",
        "void f(void) {\n a();\n#ifdef B\n b();\n#endif\n c();\n}\n",
        &["changed statement f 4 4"],
    );
    expect(
        "a.c",
        "void f(void) {\n#if A\n if (x) {\n#else\n if (y) {\n#endif\n  b();\n }\n}\n",
        "void f(void) {\n#if A\n if (x) {\n#else\n if (z) {\n#endif\n  b();\n }\n}\n",
        &["changed statement f 5 5"],
    );
    // A macro in a condition.
    let changes = between(
        "a.c",
        "#define A 1\nvoid f(void) {\n#if A > 1\n b();\n#endif\n}\n",
        "#define A 2\nvoid f(void) {\n#if A > 1\n b();\n#endif\n}\n",
    );
    assert_eq!(changes.changes.len(), 2);
    expect(
        "a.h",
        "#ifndef A_H\n#define A_H\nint f(void);\n#endif\n",
        "#ifndef B_H\n#define B_H\nint f(void);\n#endif\n",
        &[],
    );
    expect("a.c", "#if 0\nold\n#endif\nint g;\n", "int g;\n#if 0\nit's\n#endif\n", &[]);
    expect(
        "a.rs",
        "impl<T> A<T> {\n fn f() {}\n}\n",
        "impl<T: B> A<T> {\n fn f() {}\n}\n",
        &["changed function A::f 2 2"],
    );
}

#[test]
fn what_does_not_parse_is_compared_all_the_same() {
    for (path, old, new) in [
        ("a.c", "int f( {\n a b c;\n d e;\n}\nint g;\n", "int f( {\n a b c;\n d x;\n}\nint g;\n"),
        ("a.cpp", "class {\n a b c;\n d e;\n", "class {\n a b c;\n d x;\n"),
        ("a.rs", "fn f( {\n a b c;\n d e;\n}\n", "fn f( {\n a b c;\n d x;\n}\n"),
        ("a.go", "package p\nfunc f( {\n d e\n}\n", "package p\nfunc f( {\n d x\n}\n"),
    ] {
        let changes = between(path, old, new);
        assert!(!changes.changes.is_empty(), "{path}");
        let covered = changes.changes.iter().any(|change| {
            change.old.is_none_or(|old| (old.first..=old.last).contains(&3))
                && change.new.is_none_or(|new| (new.first..=new.last).contains(&3))
        });
        assert!(covered, "{path} {:?}", all(&changes));
        assert!(between(path, old, old).changes.is_empty(), "{path}");
    }
}

#[test]
fn headers_of_cpp() {
    expect(
        "a.h",
        "class A {\n public:\n  int f() {\n   return 1;\n  }\n};\n",
        "class A {\n public:\n  int f() {\n   return 2;\n  }\n};\n",
        &["changed statement A::f 4 4"],
    );
}

#[test]
fn whole_functions_and_files() {
    let changes = between(
        "a.c",
        "int f(void) { return 1; }\n",
        "int f(void) { return 1; }\nint g(void) {\n return 1;\n}\n",
    );
    assert_eq!(all(&changes), ["added function g _ 2-4"]);
    assert_eq!(changes.statements.added, 2);
    let changes = compare(&tree(&[("a.c", "int f(void) { return 1; }\n")]), &tree(&[]));
    assert_eq!((changes.changes.len(), changes.changes[0].kind), (1, Kind::Deleted));
    assert_eq!(changes.changes[0].what, What::Function);
    assert!(!Tree::default().insert("README.md", Vec::new()));
}

#[test]
fn imports_reach_their_file() {
    expect(
        "a.rs",
        "use a::{b, c};\nfn f() { b() }\nfn g() { c() }\n",
        "use a::c;\nuse d::b;\nfn f() { b() }\nfn g() { c() }\n",
        &[
            "added import used::b; _ 2",
            "deleted import usea::{b,c}; 1 _",
            "changed function f 2 3 because import usea::{b,c}; via b",
        ],
    );
}

#[test]
fn very_deep_nesting_and_long_lists() {
    let deep =
        |n: usize| format!("int f(int x) {{ {} x++; {} return x; }}\n", "if (x) {".repeat(n), "}".repeat(n));
    assert!(between("a.c", &deep(3000), &deep(3000)).changes.is_empty());
    assert!(!between("a.c", &deep(3000), &deep(2999)).changes.is_empty());
    let long = |step: usize| {
        let lines = (0..6000).map(|line| format!(" x = {};\n", line * step)).collect::<String>();
        format!("int f(int x) {{\n{lines} return x;\n}}\n")
    };
    assert!(between("a.c", &long(1), &long(2)).changes.len() > 3000);
}
