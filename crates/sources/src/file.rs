//! Reading the files of a tree.

use std::collections::HashSet;

use rayon::prelude::*;

use crate::Language;
use crate::mention::{Mentions, mentions};
use crate::preprocess::{Prepared, prepare, specifier_macros};
use crate::signature::sign;
use crate::structure::Structure;
use crate::tree::Tree;
use crate::walk::walk;

/// A file as it is compared.
#[derive(Debug)]
pub(crate) struct File<'a> {
    pub(crate) path: &'a str,
    pub(crate) text: &'a [u8],
    pub(crate) language: Language,
    pub(crate) structure: Structure,
    /// For each item.
    pub(crate) mentions: Vec<Mentions>,
}

/// Reads all files of a tree.
pub(crate) fn read(tree: &Tree) -> Vec<File<'_>> {
    let files = tree.files.par_iter().filter_map(|(path, text)| {
        let language = Language::of_path(path)?;
        Some((path.as_str(), text.as_slice(), language, prepare(text, language)))
    });
    let files = files.collect::<Vec<_>>();
    let macros = specifier_macros(&files.iter().map(|(_, text, _, file)| (*text, file)).collect::<Vec<_>>());
    let read = |(path, text, language, mut prepared): (_, _, Language, Prepared)| {
        prepared.attach(&macros);
        structure(path, text, language, prepared, &macros)
    };
    files.into_par_iter().map(read).collect()
}

fn structure<'a>(
    path: &'a str,
    text: &'a [u8],
    mut language: Language,
    mut prepared: Prepared,
    macros: &HashSet<u64>,
) -> File<'a> {
    let mut shown = prepared.shown(text);
    let mut tree = language.parse(&shown);
    // A header that does not parse as C may be one of C++.
    let errors = |tree: &Option<tree_sitter::Tree>| tree.as_ref().map_or(usize::MAX, errors);
    if path.ends_with(".h") && errors(&tree) > 0 {
        let mut other = prepare(text, Language::Cpp);
        other.attach(macros);
        let other_shown = other.shown(text);
        let other_tree = Language::Cpp.parse(&other_shown);
        if errors(&other_tree) < errors(&tree) {
            (language, prepared, shown, tree) = (Language::Cpp, other, other_shown, other_tree);
        }
    }
    let (nodes, items, heads) = match &tree {
        Some(tree) => {
            let walk = walk(&shown, path, language, tree);
            (walk.nodes, walk.items, walk.heads)
        }
        None => {
            let mut root =
                crate::structure::Node::new(crate::structure::Role::Item, 0, 0, 0..text.len() as u32);
            root.split = true;
            (
                vec![root],
                vec![crate::structure::Item::new(0, crate::What::Other, path.to_owned())],
                Vec::new(),
            )
        }
    };
    let mut structure = Structure::new(prepared, nodes, items, text);
    sign(&mut structure, &heads, text, language);
    let mentions = mentions(&structure, text, language);
    File { path, text, language, structure, mentions }
}

/// How many places of a tree are not grammatical.
fn errors(tree: &tree_sitter::Tree) -> usize {
    if !tree.root_node().has_error() {
        return 0;
    }
    let mut cursor = tree.walk();
    let mut count = 0;
    loop {
        let node = cursor.node();
        count += usize::from(node.is_error() || node.is_missing());
        if node.has_error() && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return count;
            }
        }
    }
}
