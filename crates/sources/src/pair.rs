//! Which definition of the old tree is which of the new one.

use std::collections::HashMap;

use crate::file::File;
use crate::lex::{hash, mix};
use crate::model::What;
use crate::structure::{Item, Node};

/// An item of a tree: its file and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ref {
    pub(crate) file: u32,
    pub(crate) item: u32,
}

/// A definition of both trees or of one.
pub(crate) type Pair = (Option<Ref>, Option<Ref>);

impl Ref {
    pub(crate) fn item<'a>(self, files: &'a [File]) -> &'a Item {
        &files[self.file as usize].structure.items[self.item as usize]
    }

    pub(crate) fn node<'a>(self, files: &'a [File]) -> &'a Node {
        &files[self.file as usize].structure.nodes[self.item(files).node as usize]
    }
}

/// The items of a tree.
pub(crate) fn all<'a>(files: &'a [File]) -> impl Iterator<Item = Ref> + 'a {
    let items = files.iter().enumerate();
    items.flat_map(|(file, read)| {
        (0..read.structure.items.len()).map(move |item| Ref { file: file as u32, item: item as u32 })
    })
}

/// What is looked at to tell definitions of the same name apart; earlier rules go first.
struct Rule {
    path: bool,
    parameters: bool,
    conditions: bool,
    content: bool,
}

const RULES: [Rule; 9] = [
    Rule { path: true, parameters: true, conditions: true, content: true },
    Rule { path: true, parameters: true, conditions: true, content: false },
    Rule { path: false, parameters: true, conditions: true, content: true },
    Rule { path: true, parameters: true, conditions: false, content: false },
    Rule { path: true, parameters: false, conditions: true, content: false },
    Rule { path: false, parameters: true, conditions: true, content: false },
    Rule { path: false, parameters: true, conditions: false, content: false },
    Rule { path: true, parameters: false, conditions: false, content: false },
    Rule { path: false, parameters: false, conditions: false, content: false },
];

impl Rule {
    fn key(&self, files: &[File], at: Ref) -> u64 {
        let file = &files[at.file as usize];
        let item = at.item(files);
        let node = at.node(files);
        let first = file.structure.own(item.node).first();
        let guard = first
            .map_or(0, |&token| file.structure.guards[file.structure.guard[token as usize] as usize].hash);
        let mut key = 0;
        for (used, part) in [
            (self.path, hash(file.path.as_bytes())),
            (self.parameters, item.parameters),
            (self.conditions, guard),
            (self.content, node.deep),
        ] {
            key = mix(key, if used { part } else { 0 });
        }
        key
    }
}

/// The definitions of one name, old and new.
type Group = (Vec<Ref>, Vec<Ref>);

/// Pairs all items of two trees.
pub(crate) fn pair(old: &[File], new: &[File]) -> Vec<Pair> {
    let mut groups: HashMap<(What, &str), Group> = HashMap::new();
    for at in all(old) {
        groups.entry((at.item(old).what, &at.item(old).name)).or_default().0.push(at);
    }
    for at in all(new) {
        groups.entry((at.item(new).what, &at.item(new).name)).or_default().1.push(at);
    }
    let mut pairs = Vec::new();
    let (mut deleted, mut added) = (Vec::new(), Vec::new());
    for ((what, _), (mut olds, mut news)) in groups {
        for rule in &RULES {
            // An include or use stands for its own file only.
            if olds.is_empty() || news.is_empty() || (what == What::Import && !rule.path) {
                continue;
            }
            let mut waiting: HashMap<u64, std::collections::VecDeque<Ref>> = HashMap::new();
            for &at in &news {
                waiting.entry(rule.key(new, at)).or_default().push_back(at);
            }
            let mut taken = std::collections::HashSet::new();
            olds.retain(|&at| {
                let found =
                    waiting.get_mut(&rule.key(old, at)).and_then(std::collections::VecDeque::pop_front);
                if let Some(found) = found {
                    taken.insert(found);
                    pairs.push((Some(at), Some(found)));
                }
                found.is_none()
            });
            news.retain(|at| !taken.contains(at));
        }
        deleted.append(&mut olds);
        added.append(&mut news);
    }
    pairs.extend(renamed(old, new, &mut deleted, &mut added));
    pairs.extend(deleted.into_iter().map(|at| (Some(at), None)));
    pairs.extend(added.into_iter().map(|at| (None, Some(at))));
    pairs.sort_unstable();
    pairs
}

/// Pairs functions of different names whose bodies are the same and like no other's.
fn renamed(old: &[File], new: &[File], deleted: &mut Vec<Ref>, added: &mut Vec<Ref>) -> Vec<Pair> {
    /// Bodies shorter than this are alike by chance.
    const STATEMENTS: u32 = 3;
    let body = |files: &[File], at: Ref| {
        let node = at.node(files);
        let nodes = &files[at.file as usize].structure.nodes;
        let deep = node.children.iter().fold(0, |hash, &child| mix(hash, nodes[child as usize].deep));
        (at.item(files).what == What::Function && node.size > STATEMENTS).then_some(deep)
    };
    let mut bodies: HashMap<u64, Group> = HashMap::new();
    for &at in deleted.iter() {
        if let Some(body) = body(old, at) {
            bodies.entry(body).or_default().0.push(at);
        }
    }
    for &at in added.iter() {
        if let Some(body) = body(new, at) {
            bodies.entry(body).or_default().1.push(at);
        }
    }
    let mut pairs = Vec::new();
    for (olds, news) in bodies.into_values() {
        if let ([from], [to]) = (&olds[..], &news[..]) {
            pairs.push((Some(*from), Some(*to)));
            deleted.retain(|at| at != from);
            added.retain(|at| at != to);
        }
    }
    pairs
}
