//! The C preprocessor, as far as comparing needs it: which condition each token stands under, and which tokens the
//! grammar may see.
//!
//! Grammars know directives only where whole statements stand around them; real programs put them anywhere. So the
//! grammar gets the text without directives, and where the branches of a conditional are no whole statements, with
//! its first branch only. Every token keeps the conditions it stands under: if they change, the token has changed.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::Language;
use crate::lex::{Directive, Token, TokenKind, hash, lex, mix};

/// Whether the grammar sees a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    Shown,
    /// In a branch that would make the text ungrammatical.
    Hidden,
    /// A macro that stands for nothing but specifiers, or an order in a comment: belongs to what follows.
    Attached,
    /// Part of a directive.
    Directive,
}

/// The condition some tokens stand under.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    /// Of all conditions around; zero if there is none.
    pub(crate) hash: u64,
    /// The names in them.
    pub(crate) words: Vec<u64>,
}

/// A directive that is no conditional.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) kind: OrderKind,
    pub(crate) tokens: Range<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderKind {
    /// `#define` and `#undef`.
    Macro,
    Include,
    /// `#pragma`, `#error` and others.
    Other,
}

/// The tokens of a file.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) tokens: Vec<Token>,
    pub(crate) sight: Vec<Sight>,
    /// For each token, an index into `guards`.
    pub(crate) guard: Vec<u32>,
    /// The first stands for no condition.
    pub(crate) guards: Vec<Guard>,
    pub(crate) orders: Vec<Order>,
}

struct Group {
    guard: u32,
    /// Of the conditions of the branches so far.
    conditions: u64,
    words: Vec<u64>,
    branches: Vec<Range<usize>>,
    hide: Vec<bool>,
    /// Tokens before this one are dropped if the branch is `#if 0`.
    dead: bool,
    is_include_guard: bool,
}

struct Preprocessor<'a> {
    text: &'a [u8],
    language: Language,
    out: Prepared,
    groups: Vec<Group>,
    guard: u32,
}

/// Lexes a text and sorts its tokens.
pub(crate) fn prepare(text: &[u8], language: Language) -> Prepared {
    let tokens = lex(text, language);
    let include_guards = include_guards(text, &tokens);
    let out = Prepared {
        tokens: Vec::with_capacity(tokens.len()),
        sight: Vec::with_capacity(tokens.len()),
        guard: Vec::with_capacity(tokens.len()),
        guards: vec![Guard::default()],
        orders: Vec::new(),
    };
    let mut state = Preprocessor { text, language, out, groups: Vec::new(), guard: 0 };
    let mut at = 0;
    while at < tokens.len() {
        let mut end = at + 1;
        if tokens[at].directive == Directive::First {
            while end < tokens.len() && tokens[end].directive == Directive::Rest {
                end += 1;
            }
            state.directive(&tokens[at..end], include_guards.contains(&at));
        } else {
            let order = tokens[at].kind == TokenKind::Order;
            state.push(tokens[at], if order { Sight::Attached } else { Sight::Shown });
        }
        at = end;
    }
    while !state.groups.is_empty() {
        state.close();
    }
    state.out
}

/// The `#ifndef`s that keep text from being read twice, as places of their first tokens: their macro is defined
/// right inside, and code follows. They say nothing about that code.
fn include_guards(text: &[u8], tokens: &[Token]) -> HashSet<usize> {
    struct Open {
        place: usize,
        name: Option<u64>,
        defined: bool,
        code: bool,
    }
    let mut open: Vec<Open> = Vec::new();
    let mut found = HashSet::new();
    for (place, token) in tokens.iter().enumerate() {
        if token.directive == Directive::No
            && let Some(open) = open.last_mut()
        {
            open.code = true;
        }
        if token.directive != Directive::First {
            continue;
        }
        let rest = tokens[place + 1..].iter().take_while(|token| token.directive == Directive::Rest);
        let rest = rest.take(4).collect::<Vec<_>>();
        let Some((word, rest)) = rest.split_first() else { continue };
        match (word.text(text), rest) {
            (b"if" | b"ifdef", _) => open.push(Open { place, name: None, defined: false, code: false }),
            (b"ifndef", _) => {
                let name = rest.first().map(|name| name.hash);
                open.push(Open { place, name, defined: false, code: false });
            }
            (b"define", [name, body @ ..]) => {
                let says = body.iter().any(|token| token.text(text) != b"1");
                if let Some(open) = open.last_mut() {
                    open.defined |= !says && open.name == Some(name.hash);
                }
            }
            (b"else" | b"elif" | b"elifdef" | b"elifndef", _) => {
                if let Some(open) = open.last_mut() {
                    open.name = None;
                    open.defined = false;
                }
            }
            (b"endif", _) => {
                let Some(closed) = open.pop() else { continue };
                if closed.defined && closed.code {
                    found.insert(closed.place);
                }
                if let Some(open) = open.last_mut() {
                    open.code |= closed.code;
                }
            }
            _ => {}
        }
    }
    found
}

impl Preprocessor<'_> {
    fn push(&mut self, token: Token, sight: Sight) {
        if self.groups.iter().any(|group| group.dead) {
            return;
        }
        self.out.tokens.push(token);
        self.out.sight.push(sight);
        self.out.guard.push(self.guard);
    }

    fn directive(&mut self, tokens: &[Token], is_include_guard: bool) {
        let name = tokens.get(1).map_or(&b""[..], |token| token.text(self.text));
        match name {
            b"if" | b"ifdef" | b"ifndef" => {
                let group = Group {
                    guard: self.guard,
                    conditions: 0,
                    words: Vec::new(),
                    branches: Vec::new(),
                    hide: Vec::new(),
                    dead: false,
                    is_include_guard,
                };
                self.groups.push(group);
                self.branch(tokens);
            }
            b"elif" | b"else" | b"elifdef" | b"elifndef" if !self.groups.is_empty() => {
                self.end_branch();
                self.branch(tokens);
            }
            b"endif" if !self.groups.is_empty() => self.close(),
            _ => {
                let kind = match name {
                    b"define" | b"undef" => OrderKind::Macro,
                    b"include" | b"include_next" | b"import" => OrderKind::Include,
                    _ => OrderKind::Other,
                };
                let start = self.out.tokens.len();
                // The macro of an include guard is part of it if it stands for nothing.
                let guards = self.groups.last().filter(|group| group.is_include_guard);
                if let ([_, _, name], Some(group)) = (tokens, guards)
                    && kind == OrderKind::Macro
                    && group.words == [name.hash]
                {
                    return;
                }
                for &token in tokens {
                    self.push(token, Sight::Directive);
                }
                if self.out.tokens.len() > start {
                    self.out.orders.push(Order { kind, tokens: start as u32..self.out.tokens.len() as u32 });
                }
            }
        }
    }

    /// Begins a branch of the innermost group.
    fn branch(&mut self, tokens: &[Token]) {
        let at = self.out.tokens.len();
        let text = self.text;
        let Some(group) = self.groups.last_mut() else { return };
        let words = tokens.iter().skip(1).map(|token| token.text(text)).collect::<Vec<_>>();
        group.dead = words == [b"if", &b"0"[..]];
        let says = |word: &[u8]| words.contains(&word);
        let cpp = says(b"__cplusplus") && !says(b"ifndef") && !says(b"!") && !says(b"&&");
        group.hide.push(cpp && self.language == Language::C);
        group.branches.push(at..at);
        let condition = tokens.iter().skip(1).fold(1, |hash, token| mix(hash, token.hash));
        group.conditions = mix(group.conditions, condition);
        let named = tokens.iter().skip(2).filter(|token| token.kind == TokenKind::Word);
        group.words.extend(named.map(|token| token.hash));
        if group.is_include_guard {
            return;
        }
        let outer = &self.out.guards[group.guard as usize];
        let guard = Guard {
            hash: mix(outer.hash, group.conditions),
            words: outer.words.iter().chain(&group.words).copied().collect(),
        };
        self.guard = self.out.guards.len() as u32;
        self.out.guards.push(guard);
    }

    fn end_branch(&mut self) {
        let at = self.out.tokens.len();
        if let Some(group) = self.groups.last_mut() {
            if let Some(branch) = group.branches.last_mut() {
                branch.end = at;
            }
            group.dead = false;
        }
    }

    /// Ends the innermost group and decides which of its branches the grammar sees.
    fn close(&mut self) {
        self.end_branch();
        let Some(group) = self.groups.pop() else { return };
        self.guard = group.guard;
        let filled =
            group.branches.iter().zip(&group.hide).filter(|(branch, hide)| !branch.is_empty() && !**hide);
        let filled = filled.map(|(branch, _)| branch.clone()).collect::<Vec<_>>();
        let alternatives = filled.len() > 1 && !filled.iter().all(|branch| self.is_whole(branch));
        for (index, (branch, hide)) in group.branches.iter().zip(&group.hide).enumerate() {
            let first = filled.first().is_some_and(|first| first == branch) || index == 0;
            if *hide || (alternatives && !first) {
                for sight in &mut self.out.sight[branch.clone()] {
                    if *sight != Sight::Directive {
                        *sight = Sight::Hidden;
                    }
                }
            }
        }
    }

    /// Whether a branch holds whole statements or definitions.
    fn is_whole(&self, branch: &Range<usize>) -> bool {
        let mut open = Vec::new();
        let mut last = &b";"[..];
        for at in branch.clone().filter(|&at| self.out.sight[at] == Sight::Shown) {
            last = self.out.tokens[at].text(self.text);
            match last {
                b"(" | b"[" | b"{" => open.push(last[0]),
                b")" | b"]" | b"}" if open.pop().is_none() => return false,
                _ => {}
            }
        }
        open.is_empty() && matches!(last, b";" | b"}" | b":" | b",")
    }
}

/// Adds macros that stand for nothing but specifiers, or for nothing at all, and takes out those that also stand for
/// other things. The grammar need not see them.
pub(crate) fn specifier_macros(files: &[(&[u8], &Prepared)]) -> HashSet<u64> {
    const SPECIFIERS: [&str; 17] = [
        "extern",
        "static",
        "inline",
        "__inline",
        "__inline__",
        "const",
        "volatile",
        "register",
        "__attribute__",
        "__attribute",
        "__declspec",
        "__forceinline",
        "noinline",
        "always_inline",
        "visibility",
        "dllexport",
        "dllimport",
    ];
    let specifiers = SPECIFIERS.iter().map(|word| hash(word.as_bytes())).collect::<HashSet<_>>();
    let mut bodies: HashMap<u64, Vec<Vec<u64>>> = HashMap::new();
    for (text, file) in files {
        for order in file.orders.iter().filter(|order| order.kind == OrderKind::Macro) {
            let tokens = &file.tokens[order.tokens.start as usize..order.tokens.end as usize];
            let [_, define, name, body @ ..] = tokens else { continue };
            if define.text(text) != b"define" {
                continue;
            }
            // What follows the name without a gap are parameters.
            let takes = body.first().is_some_and(|token| token.start == name.end);
            let brackets = |token: &&Token| !matches!(token.text(text), b"(" | b")");
            let words = body.iter().filter(brackets).map(|token| token.hash).collect();
            // No token hashes to zero with any likelihood: it stands for what is no specifier.
            bodies.entry(name.hash).or_default().push(if takes { vec![0] } else { words });
        }
    }
    let mut found = HashSet::new();
    loop {
        let before = found.len();
        for (&name, bodies) in &bodies {
            if bodies.iter().flatten().all(|word| specifiers.contains(word) || found.contains(word)) {
                found.insert(name);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

impl Prepared {
    /// The text the grammar sees: blanks instead of all else, at the same places.
    pub(crate) fn shown(&self, text: &[u8]) -> Vec<u8> {
        let mut shown = text.iter().map(|&byte| if byte == b'\n' { b'\n' } else { b' ' }).collect::<Vec<_>>();
        for (token, sight) in self.tokens.iter().zip(&self.sight) {
            if *sight == Sight::Shown {
                let range = token.start as usize..token.end as usize;
                shown[range.clone()].copy_from_slice(&text[range]);
            }
        }
        shown
    }

    /// Keeps some macros from the grammar.
    pub(crate) fn attach(&mut self, macros: &HashSet<u64>) {
        for (token, sight) in self.tokens.iter().zip(&mut self.sight) {
            if *sight == Sight::Shown && token.kind == TokenKind::Word && macros.contains(&token.hash) {
                *sight = Sight::Attached;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let prepared = prepare(text.as_bytes(), Language::C);
        let shown = String::from_utf8(prepared.shown(text.as_bytes())).unwrap();
        shown.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn branches_of_whole_statements_are_shown() {
        assert_eq!(shown("#ifdef A\na;\n#else\nb;\n#endif\nc;"), "a; b; c;");
        assert_eq!(shown("#ifdef A\nif (a) {\n#else\nif (b) {\n#endif\nc; }"), "if (a) { c; }");
        assert_eq!(shown("#ifdef __cplusplus\nextern \"C\" {\n#endif\na;"), "a;");
        assert_eq!(shown("#if 0\nit's no code\n#else\na;\n#endif"), "a;");
    }

    #[test]
    fn conditions_are_kept() {
        let text = b"#if A\na\n#else\nb\n#endif\nc\n#if A\nd\n#endif";
        let prepared = prepare(text, Language::C);
        let hashes =
            prepared.guard.iter().map(|&guard| prepared.guards[guard as usize].hash).collect::<Vec<_>>();
        assert_eq!(hashes[0], hashes[3]);
        assert_eq!(hashes[2], 0);
        assert!(hashes[1] != hashes[0] && hashes[1] != 0);
    }

    #[test]
    fn the_name_of_an_include_guard_does_not_count() {
        let prepared = prepare(b"/* x */\n#ifndef A_H\n#define A_H\nint a;\n#endif /* A_H */\n", Language::C);
        assert_eq!(prepared.tokens.len(), 3);
        assert!(prepared.guard.iter().all(|&guard| guard == 0) && prepared.orders.is_empty());
    }

    #[test]
    fn macros_for_specifiers() {
        let text = b"#define API extern\n#define PUBLIC API\n#define NOTHING\n#define X 1\n#define F() \n";
        let prepared = prepare(text, Language::C);
        let found = specifier_macros(&[(text, &prepared)]);
        let expected = ["API", "PUBLIC", "NOTHING"].map(|name| hash(name.as_bytes()));
        assert_eq!(found, expected.into());
    }
}
