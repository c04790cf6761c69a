//! The comparison of two trees.

use std::collections::HashSet;

use rayon::prelude::*;

use crate::align::{Step, align};
use crate::file::{File, read};
use crate::model::{Change, Changes, FileId, Kind, Place, Span, Statements, What};
use crate::pair::{Pair, Ref, pair};
use crate::reach::reach;
use crate::scope::Imports;
use crate::structure::{Item, Structure};
use crate::tree::Tree;

/// Compares two trees.
#[must_use]
pub fn compare(old: &Tree, new: &Tree) -> Changes {
    let (old, new) = rayon::join(|| read(old), || read(new));
    let pairs = pair(&old, &new);
    let (said_old, said_new) = (Said::new(&old), Said::new(&new));
    let differences = |&pair: &Pair| match pair {
        (Some(from), Some(to)) => both(from, to, &old, &new),
        (Some(from), None) => only(from, Kind::Deleted, &old, &said_new),
        (None, Some(to)) => only(to, Kind::Added, &new, &said_old),
        (None, None) => Found::default(),
    };
    let found = pairs.par_iter().map(differences).collect::<Vec<_>>();
    let mut changes = Changes {
        old_files: old.iter().map(|file| file.path.to_owned()).collect(),
        new_files: new.iter().map(|file| file.path.to_owned()).collect(),
        ..Changes::default()
    };
    let mut dirty = (Lines::new(&old), Lines::new(&new));
    for found in &found {
        dirty.0.mark(&found.old_lines);
        dirty.1.mark(&found.new_lines);
        add(&mut changes.statements, found.statements);
    }
    for found in found {
        let clean = |(from, to): &(Place, Place)| !dirty.0.contains(*from) && !dirty.1.contains(*to);
        changes.changes.extend(found.changes);
        changes.unchanged.extend(found.same.into_iter().filter(clean));
    }
    changes.unchanged.sort_unstable();
    changes.unchanged.dedup();
    changes.changes.extend(reach(&pairs, &old, &new));
    changes
}

fn add(sum: &mut Statements, more: Statements) {
    sum.old += more.old;
    sum.new += more.new;
    sum.changed += more.changed;
    sum.added += more.added;
    sum.deleted += more.deleted;
}

/// Lines with something changed on them.
struct Lines(Vec<Vec<bool>>);

impl Lines {
    fn new(files: &[File]) -> Self {
        let lines = |file: &File| file.text.iter().filter(|&&byte| byte == b'\n').count() + 2;
        Self(files.iter().map(|file| vec![false; lines(file)]).collect())
    }

    fn mark(&mut self, places: &[Place]) {
        for place in places {
            if let Some(line) = self.0[place.file.0 as usize].get_mut(place.line as usize) {
                *line = true;
            }
        }
    }

    fn contains(&self, place: Place) -> bool {
        self.0[place.file.0 as usize].get(place.line as usize).is_some_and(|&line| line)
    }
}

/// What came of one pair of definitions.
#[derive(Default)]
struct Found {
    changes: Vec<Change>,
    same: Vec<(Place, Place)>,
    old_lines: Vec<Place>,
    new_lines: Vec<Place>,
    statements: Statements,
}

/// One version of a definition.
struct Side<'a> {
    structure: &'a Structure,
    text: &'a [u8],
    file: FileId,
}

impl<'a> Side<'a> {
    fn new(at: Ref, files: &'a [File]) -> Self {
        let file = &files[at.file as usize];
        Self { structure: &file.structure, text: file.text, file: FileId(at.file) }
    }

    /// The last line of a token.
    fn last_line(&self, token: u32) -> u32 {
        let token = &self.structure.tokens[token as usize];
        token.line + token.text(self.text).iter().filter(|&&byte| byte == b'\n').count() as u32
    }

    fn span(&self, tokens: &[u32]) -> Option<Span> {
        let (&first, &last) = (tokens.iter().min()?, tokens.iter().max()?);
        let first = self.structure.tokens[first as usize].line;
        Some(Span { file: self.file, first, last: self.last_line(last) })
    }

    /// All tokens of a statement and those in it.
    fn tokens(&self, node: u32) -> Vec<u32> {
        let nodes = self.structure.subtree(node);
        nodes.into_iter().flat_map(|node| self.structure.own(node)).copied().collect()
    }

    /// The lines some tokens are on.
    fn lines(&self, tokens: &[u32]) -> Vec<Place> {
        let lines = tokens.iter().flat_map(|&token| {
            (self.structure.tokens[token as usize].line..=self.last_line(token))
                .map(|line| Place { file: self.file, line })
        });
        let mut lines = lines.collect::<Vec<_>>();
        lines.dedup();
        lines
    }

    /// A statement's own tokens in runs between the statements it holds.
    fn runs(&self, node: u32) -> Vec<&[u32]> {
        self.structure.own(node).chunk_by(|a, b| a + 1 == *b).collect()
    }

    fn says(&self, tokens: &[u32]) -> Vec<u64> {
        tokens.iter().map(|&token| self.structure.says(token)).collect()
    }
}

/// What a tree says somewhere.
struct Said<'a> {
    /// Names and what they look like from outside.
    declared: HashSet<(&'a str, u64)>,
    imports: Imports<'a>,
}

impl<'a> Said<'a> {
    fn new(files: &'a [File]) -> Self {
        let items = files.iter().flat_map(|file| &file.structure.items);
        let declared =
            items.filter(|item| item.signature != 0).map(|item| (item.name.as_str(), item.signature));
        Self { declared: declared.collect(), imports: Imports::new(files) }
    }

    /// Whether a definition that only the other tree has says nothing new.
    fn knows(&self, file: &File, item: &Item) -> bool {
        match item.what {
            What::Declaration => self.declared.contains(&(item.name.as_str(), item.signature)),
            What::Import => self.imports.missing(file, item).is_empty(),
            _ => false,
        }
    }
}

/// How many statements a definition is.
fn count(at: Ref, files: &[File]) -> usize {
    let node = at.node(files);
    node.size as usize - usize::from(node.own.is_empty())
}

/// A definition of one tree.
fn only(at: Ref, kind: Kind, files: &[File], other: &Said) -> Found {
    let side = Side::new(at, files);
    let item = at.item(files);
    let mut found = Found::default();
    let tokens = side.tokens(item.node);
    let Some(span) = side.span(&tokens) else { return found };
    let count = count(at, files);
    let deleted = kind == Kind::Deleted;
    let statements = &mut found.statements;
    *(if deleted { &mut statements.old } else { &mut statements.new }) = count;
    // Declarations that only repeat what another says, and imports that only say it in another way, change nothing.
    if other.knows(&files[at.file as usize], item) {
        return found;
    }
    *(if deleted { &mut statements.deleted } else { &mut statements.added }) = count;
    let lines = side.lines(&tokens);
    *(if deleted { &mut found.old_lines } else { &mut found.new_lines }) = lines;
    found.changes.push(Change {
        kind,
        what: item.what,
        old: deleted.then_some(span),
        new: (!deleted).then_some(span),
        name: Some(item.name.clone()),
        because: None,
    });
    found
}

/// A definition of both trees.
fn both(from: Ref, to: Ref, old: &[File], new: &[File]) -> Found {
    let (a, b) = (Side::new(from, old), Side::new(to, new));
    let (item, new_item) = (from.item(old), to.item(new));
    let mut found = Found::default();
    found.statements.old = count(from, old);
    found.statements.new = count(to, new);
    let name = Some(new_item.name.clone());
    // What parameters are called in a declaration means nothing.
    let same_face =
        item.what == What::Declaration && item.signature == new_item.signature && item.signature != 0;
    for step in align(a.structure, b.structure, item.node, new_item.node) {
        match step {
            Step::Same(x, y) => {
                let tokens = a.structure.own(x).iter().zip(b.structure.own(y));
                found.same.extend(tokens.map(|(&x, &y)| {
                    let line = |side: &Side, token| side.structure.tokens[token as usize].line;
                    (Place { file: a.file, line: line(&a, x) }, Place { file: b.file, line: line(&b, y) })
                }));
                found.same.dedup();
            }
            Step::Changed(x, y) if !same_face => {
                let head = x == item.node && y == new_item.node;
                changed(&a, &b, x, y, if head { item.what } else { What::Statement }, &name, &mut found);
            }
            Step::Changed(..) => {}
            Step::Deleted(x) => {
                found.statements.deleted += a.structure.nodes[x as usize].size as usize;
                let tokens = a.tokens(x);
                found.old_lines.extend(a.lines(&tokens));
                found
                    .changes
                    .extend(a.span(&tokens).map(|span| statement(Kind::Deleted, Some(span), None, &name)));
            }
            Step::Added(y) => {
                found.statements.added += b.structure.nodes[y as usize].size as usize;
                let tokens = b.tokens(y);
                found.new_lines.extend(b.lines(&tokens));
                found
                    .changes
                    .extend(b.span(&tokens).map(|span| statement(Kind::Added, None, Some(span), &name)));
            }
        }
    }
    found
}

fn statement(kind: Kind, old: Option<Span>, new: Option<Span>, name: &Option<String>) -> Change {
    Change { kind, what: What::Statement, old, new, name: name.clone(), because: None }
}

/// A statement whose own text differs: a change for each part of it that does, so that the end of a long loop is not
/// reported for its beginning.
fn changed(a: &Side, b: &Side, x: u32, y: u32, what: What, name: &Option<String>, found: &mut Found) {
    found.statements.changed += 1;
    found.old_lines.extend(a.lines(a.structure.own(x)));
    found.new_lines.extend(b.lines(b.structure.own(y)));
    let (runs_a, runs_b) = (a.runs(x), b.runs(y));
    let before = found.changes.len();
    let mut report = |old: Option<Span>, new: Option<Span>| {
        if old.is_some() || new.is_some() {
            let change = statement(Kind::Changed, old, new, name);
            found.changes.push(Change { what, ..change });
        }
    };
    if runs_a.len() == runs_b.len() {
        for (run_a, run_b) in runs_a.iter().zip(&runs_b) {
            if a.says(run_a) != b.says(run_b) {
                report(a.span(run_a), b.span(run_b));
            }
        }
    } else {
        let pairs = runs_a.len().max(runs_b.len());
        for at in 0..pairs {
            let span = |side: &Side, runs: &[&[u32]]| runs.get(at).and_then(|run| side.span(run));
            report(span(a, &runs_a), span(b, &runs_b));
        }
    }
    if found.changes.len() == before {
        // The same tokens in another context (`impl` for instance).
        let span = |side: &Side, runs: &[&[u32]]| runs.first().and_then(|run| side.span(run));
        let change = statement(Kind::Changed, span(a, &runs_a), span(b, &runs_b), name);
        found.changes.push(Change { what, ..change });
    }
}
