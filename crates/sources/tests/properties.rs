//! Layout, comments and order never count; a statement that is put in, taken out or changed is reported at its line.

use proptest::prelude::*;
use relive_sources::{Changes, Kind, Tree, compare};

#[derive(Clone, Debug)]
enum Statement {
    Simple(u32),
    If(u32, Vec<Statement>, Vec<Statement>),
    Loop(u32, Vec<Statement>),
}

#[derive(Clone, Copy, Debug)]
struct Language {
    path: &'static str,
    open: &'static str,
    close: &'static str,
    /// Around a condition.
    brackets: (&'static str, &'static str),
    word: &'static str,
    end: &'static str,
}

const LANGUAGES: [Language; 4] = [
    Language { path: "a.c", open: "int f@(int x)", close: "", brackets: ("(", ")"), word: "while", end: ";" },
    Language {
        path: "a.cpp",
        open: "int A::f@(int x)",
        close: "",
        brackets: ("(", ")"),
        word: "while",
        end: ";",
    },
    Language {
        path: "a.rs",
        open: "impl A { fn f@(x: i32)",
        close: " }",
        brackets: ("", ""),
        word: "while",
        end: ";",
    },
    Language { path: "a.go", open: "func f@(x int)", close: "", brackets: ("", ""), word: "for", end: "" },
];

impl Language {
    fn preamble(&self) -> &'static str {
        if self.path == "a.go" { "package p\n" } else { "" }
    }
}

/// Lines with one statement or brace each; `None` marks where layout is free to differ.
fn lines(language: Language, body: &[Statement], out: &mut Vec<String>) {
    let (left, right) = language.brackets;
    for statement in body {
        match statement {
            Statement::Simple(id) => out.push(format!("s{id}(x){}", language.end)),
            Statement::If(id, then, other) => {
                out.push(format!("if {left}c{id}(x){right} {{"));
                lines(language, then, out);
                if other.is_empty() {
                    out.push("}".to_owned());
                } else {
                    out.push("} else {".to_owned());
                    lines(language, other, out);
                    out.push("}".to_owned());
                }
            }
            Statement::Loop(id, body) => {
                out.push(format!("{} {left}c{id}(x){right} {{", language.word));
                lines(language, body, out);
                out.push("}".to_owned());
            }
        }
    }
}

fn function(language: Language, number: usize, body: &[Statement]) -> Vec<String> {
    let mut out = vec![format!("{} {{", language.open.replace('@', &number.to_string()))];
    lines(language, body, &mut out);
    out.push(format!("}}{}", language.close));
    out
}

fn text(language: Language, functions: &[Vec<String>]) -> String {
    let body = functions.iter().flatten().map(|line| format!("{line}\n")).collect::<String>();
    format!("{}{body}", language.preamble())
}

/// The same with other layout and comments.
fn reformatted(language: Language, functions: &[Vec<String>], noise: &[u8]) -> String {
    let mut out = language.preamble().to_owned();
    for (at, line) in functions.iter().flatten().enumerate() {
        let noise = noise[at % noise.len()];
        out += ["", "  ", "\t", "/* x(); */ ", "// y { \n", "\n\n"][noise as usize % 6];
        // Where a blank may become several.
        out += &line.replace("(x)", if noise.is_multiple_of(2) { "( x )" } else { "(x)" });
        out += ["\n", " \n", " // z(\n", " /* ' */\n", "\n\n"][noise as usize / 6 % 5];
    }
    out
}

fn changes(language: Language, old: &str, new: &str) -> Changes {
    let (mut from, mut to) = (Tree::default(), Tree::default());
    from.insert(language.path, old.as_bytes().to_vec());
    to.insert(language.path, new.as_bytes().to_vec());
    compare(&from, &to)
}

fn statements() -> impl Strategy<Value = Vec<Statement>> {
    let simple = Just(0).prop_map(Statement::Simple);
    let one = simple.prop_recursive(3, 12, 3, |inner| {
        let list = prop::collection::vec(inner, 1..4);
        let other = prop_oneof![Just(Vec::new()), list.clone()];
        prop_oneof![
            Just(Statement::Simple(0)),
            (list.clone(), other).prop_map(|(then, other)| Statement::If(0, then, other)),
            list.prop_map(|body| Statement::Loop(0, body)),
        ]
    });
    prop::collection::vec(one, 1..5)
}

/// Gives every statement a number of its own: among equal ones there is no telling which was put in.
fn number(body: &mut [Statement], next: &mut u32) {
    for statement in body {
        *next += 1;
        match statement {
            Statement::Simple(id) => *id = *next,
            Statement::If(id, then, other) => {
                *id = *next;
                number(then, next);
                number(other, next);
            }
            Statement::Loop(id, body) => {
                *id = *next;
                number(body, next);
            }
        }
    }
}

fn functions(language: Language, mut bodies: Vec<Vec<Statement>>) -> Vec<Vec<String>> {
    let mut next = 100;
    bodies.iter_mut().for_each(|body| number(body, &mut next));
    bodies.iter().enumerate().map(|(at, body)| function(language, at, body)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn layout_comments_and_order_do_not_count(
        which in 0..4_usize,
        bodies in prop::collection::vec(statements(), 1..4),
        noise in prop::collection::vec(any::<u8>(), 1..40),
        order in any::<prop::sample::Index>(),
    ) {
        let language = LANGUAGES[which];
        let old = functions(language, bodies);
        let mut new = old.clone();
        let middle = order.index(new.len());
        new.rotate_left(middle);
        let (before, after) = (text(language, &old), reformatted(language, &new, &noise));
        let found = changes(language, &before, &after);
        prop_assert!(found.changes.is_empty(), "{after}\n{:?}", found.changes);
        // Every line of the old text is somewhere in the new one, and says the same there.
        let bare = |text: &str, line: u32| {
            let line = text.lines().nth(line as usize - 1).unwrap_or_default();
            let line = line.replace("/* x(); */", "").replace("/* ' */", "");
            line.split("//").next().unwrap_or_default().split_whitespace().collect::<String>()
        };
        for (from, to) in &found.unchanged {
            prop_assert_eq!(bare(&before, from.line), bare(&after, to.line));
        }
        let lines = before.lines().count() - language.preamble().lines().count();
        prop_assert!(found.unchanged.len() >= lines, "{} {lines}", found.unchanged.len());
    }

    #[test]
    fn a_change_is_reported_at_its_line(
        which in 0..4_usize,
        bodies in prop::collection::vec(statements(), 1..4),
        place in any::<prop::sample::Index>(),
        kind in 0..3_u8,
    ) {
        let language = LANGUAGES[which];
        let old = functions(language, bodies);
        let simple = old.iter().enumerate().flat_map(|(function, lines)| {
            lines.iter().enumerate().filter(|(_, line)| line.starts_with('s')).map(move |(line, _)| (function, line))
        });
        let simple = simple.collect::<Vec<_>>();
        prop_assume!(!simple.is_empty());
        let (function, line) = simple[place.index(simple.len())];
        let mut new = old.clone();
        match kind {
            0 => new[function].insert(line, format!("added(x, 1){}", language.end)),
            1 => drop(new[function].remove(line)),
            _ => new[function][line] = new[function][line].replace("(x)", "(x + 1)"),
        }
        let found = changes(language, &text(language, &old), &text(language, &new));
        let before = old[..function].iter().map(Vec::len).sum::<usize>() + language.preamble().lines().count();
        let expected = (before + line + 1) as u32;
        prop_assert_eq!(found.changes.len(), 1, "{:?}", found.changes);
        let change = &found.changes[0];
        let lines = |span: Option<relive_sources::Span>| span.map(|span| (span.first, span.last));
        let here = Some((expected, expected));
        let (kind, old, new) = match kind {
            0 => (Kind::Added, None, here),
            1 => (Kind::Deleted, here, None),
            _ => (Kind::Changed, here, here),
        };
        prop_assert_eq!((change.kind, lines(change.old), lines(change.new)), (kind, old, new));
    }

    #[test]
    fn no_text_is_too_broken(which in 0..4_usize, text in "[a-z{}()\\[\\];:#'\"/*<>=&!.,\\\\ \n]{0,120}", cut in any::<prop::sample::Index>()) {
        let language = LANGUAGES[which];
        let same = changes(language, &text, &text);
        prop_assert!(same.changes.is_empty());
        let part = text.get(..cut.index(text.len() + 1)).unwrap_or_default();
        let _ = changes(language, &text, part);
    }
}
