//! Which functions mean something else because of what changed outside of them.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::file::File;
use crate::lex::hash;
use crate::mention::Mentions;
use crate::model::{Cause, Change, FileId, Kind, Span, What};
use crate::pair::{Pair, Ref, all};
use crate::scope::{Imports, Scope, directory};
use crate::signature::faces;
use crate::structure::Item;

/// How a name has to be mentioned to matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Use {
    /// By itself.
    Name,
    /// In any way: macros do not look where they stand.
    Any,
    /// As a field, or by itself in what belongs to a type.
    Member(u64),
    /// As a field that is counted through, so that the size of what it points to matters.
    Step,
}

/// How far a name is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reach {
    Everywhere,
    /// In files read together with its own.
    Shared,
    /// In its file.
    File,
    /// In its file's directory.
    Directory,
}

/// A name that stands for something else now.
#[derive(Clone, Debug)]
struct Taint {
    name: String,
    used: Use,
    reach: Reach,
    /// The definition of the name.
    at: Ref,
    /// The change it comes from.
    what: What,
    cause: String,
}

/// The functions that follow from changes elsewhere.
pub(crate) fn reach(pairs: &[Pair], old: &[File], new: &[File]) -> Vec<Change> {
    let (mut old_seeds, mut new_seeds) = (Vec::new(), Vec::new());
    let (old_imports, new_imports) = (Imports::new(old), Imports::new(new));
    for &pair in pairs {
        match pair {
            (Some(from), Some(to)) => {
                for (name, used) in changed(from, to, old, new) {
                    old_seeds.push(taint(from, old, name.clone(), used));
                    new_seeds.push(taint(to, new, name, used));
                }
            }
            (Some(from), None) => old_seeds.extend(whole(from, old, &new_imports)),
            (None, Some(to)) => new_seeds.extend(whole(to, new, &old_imports)),
            (None, None) => {}
        }
    }
    let forward = pairs.iter().filter_map(|&(from, to)| Some((from?, to?))).collect::<HashMap<_, _>>();
    let backward = forward.iter().map(|(&from, &to)| (to, from)).collect::<HashMap<_, _>>();
    let (from_old, from_new) =
        rayon::join(|| spread(old_seeds, old, new, &forward), || spread(new_seeds, new, old, &backward));
    let mut causes: HashMap<Ref, Cause> = from_old;
    for (at, cause) in from_new {
        if let Some(&from) = backward.get(&at) {
            causes.entry(from).or_insert(cause);
        }
    }
    let mut causes = causes.into_iter().collect::<Vec<_>>();
    causes.sort_unstable();
    let report = |(from, because): (Ref, Cause)| {
        let to = *forward.get(&from)?;
        Some(Change {
            kind: Kind::Changed,
            what: What::Function,
            old: Some(span(from, old)),
            new: Some(span(to, new)),
            name: Some(to.item(new).name.clone()),
            because: Some(because),
        })
    };
    causes.into_iter().filter_map(report).collect()
}

fn span(at: Ref, files: &[File]) -> Span {
    let file = &files[at.file as usize];
    let structure = &file.structure;
    let own = structure.own(at.item(files).node);
    let line = |token: Option<&u32>| token.map_or(0, |&token| structure.tokens[token as usize].line);
    Span { file: FileId(at.file), first: line(own.first()), last: line(own.last()) }
}

fn taint(at: Ref, files: &[File], name: String, used: Use) -> Taint {
    let item = at.item(files);
    let file = &files[at.file as usize];
    let reach = match item.what {
        What::Import => Reach::File,
        _ if file.language == crate::Language::Go => {
            let exported = name.chars().next().is_some_and(char::is_uppercase);
            if exported { Reach::Everywhere } else { Reach::Directory }
        }
        What::Variable | What::Function | What::Declaration if !item.local => Reach::Everywhere,
        _ => Reach::Shared,
    };
    Taint { name, used, reach, at, what: item.what, cause: item.name.clone() }
}

fn way(item: &Item) -> Use {
    if item.what == What::Macro { Use::Any } else { Use::Name }
}

/// The names that mean something else from one version of a definition to the other.
fn changed(from: Ref, to: Ref, old: &[File], new: &[File]) -> Vec<(String, Use)> {
    let (a, b) = (from.item(old), to.item(new));
    let differs = from.node(old).deep != to.node(new).deep;
    let names = || a.names.iter().chain(&b.names).map(|name| (name.clone(), way(a))).collect::<Vec<_>>();
    match a.what {
        What::Type => members(from, to, old, new, differs),
        What::Variable if a.counts => members(from, to, old, new, differs),
        What::Macro | What::Variable if differs => names(),
        What::Function if a.signature != b.signature || (differs && (a.inline || b.inline)) => names(),
        What::Declaration if a.signature != b.signature => names(),
        _ => Vec::new(),
    }
}

/// The same of a type or group of constants.
fn members(from: Ref, to: Ref, old: &[File], new: &[File], differs: bool) -> Vec<(String, Use)> {
    let (a, b) = (from.item(old), to.item(new));
    let (head_a, faces_a) = faces(&old[from.file as usize].structure, a);
    let (head_b, faces_b) = faces(&new[to.file as usize].structure, b);
    let by_name = |faces: &[crate::signature::Face]| {
        faces.iter().map(|face| (face.name.to_owned(), face.hash)).collect::<HashMap<_, _>>()
    };
    let (by_a, by_b) = (by_name(&faces_a), by_name(&faces_b));
    let all = faces_a.iter().chain(&faces_b).map(|face| face.name).collect::<HashSet<_>>();
    let moved = all.into_iter().filter(|&name| by_a.get(name) != by_b.get(name)).collect::<Vec<_>>();
    let owner = hash(a.names.first().map_or("", String::as_str).as_bytes());
    let used = if a.counts { Use::Name } else { Use::Member(owner) };
    let layout = !a.counts && (differs || !moved.is_empty());
    let mut found = moved.into_iter().map(|name| (name.to_owned(), used)).collect::<Vec<_>>();
    if (a.what == What::Type && head_a != head_b) || layout {
        found.extend(a.names.iter().chain(&b.names).map(|name| (name.clone(), Use::Name)));
    }
    found.sort_by(|x, y| x.0.cmp(&y.0));
    found
}

/// The names a definition of one tree alone defines.
fn whole(at: Ref, files: &[File], other_imports: &Imports) -> Vec<Taint> {
    let item = at.item(files);
    let names = match item.what {
        What::Import => other_imports.missing(&files[at.file as usize], item),
        What::Declaration | What::Other => Vec::new(),
        _ => item.names.clone(),
    };
    let counted = item.members.iter().filter(|_| item.counts).flat_map(|member| member.names.iter().cloned());
    names.into_iter().chain(counted).map(|name| taint(at, files, name, way(item))).collect()
}

/// Which items mention a name, and how.
struct Index(HashMap<u64, Vec<(Ref, Option<u32>)>>);

impl Index {
    fn new(files: &[File]) -> Self {
        let mut found: HashMap<u64, Vec<(Ref, Option<u32>)>> = HashMap::new();
        for at in all(files) {
            let mentions = mentions(at, files);
            for &name in mentions.names.iter().chain(&mentions.members) {
                found.entry(name).or_default().push((at, None));
            }
            for &(name, member) in &mentions.behind {
                found.entry(name).or_default().push((at, Some(member)));
            }
        }
        Self(found)
    }
}

fn mentions<'a>(at: Ref, files: &'a [File]) -> &'a Mentions {
    &files[at.file as usize].mentions[at.item as usize]
}

fn uses(mentions: &Mentions, item: &Item, name: u64, used: Use) -> bool {
    match used {
        Use::Name => mentions.has_name(name),
        Use::Any => mentions.has_name(name) || mentions.has_member(name),
        Use::Member(owner) => {
            mentions.has_member(name) || (mentions.has_name(name) && hash(item.scope.as_bytes()) == owner)
        }
        Use::Step => mentions.steps(name),
    }
}

/// Follows mentions from definition to definition, to functions. A version of a function counts only if the other
/// version mentions the name too: otherwise the statement that does is a change already.
fn spread(
    seeds: Vec<Taint>,
    files: &[File],
    others: &[File],
    counterpart: &HashMap<Ref, Ref>,
) -> HashMap<Ref, Cause> {
    if seeds.is_empty() {
        return HashMap::new();
    }
    let index = Index::new(files);
    let scope = Scope::new(files);
    let mut seen = HashSet::new();
    let mut queue = VecDeque::from(seeds);
    let mut causes = HashMap::new();
    while let Some(taint) = queue.pop_front() {
        let name = hash(taint.name.as_bytes());
        if !seen.insert((name, taint.used, taint.reach, taint.at.file)) {
            continue;
        }
        for &(at, behind) in index.0.get(&name).map_or(&[][..], Vec::as_slice) {
            let item = at.item(files);
            let known = match taint.reach {
                Reach::Everywhere => true,
                Reach::File => at.file == taint.at.file,
                Reach::Shared => scope.shared(files, taint.at.file, at.file),
                Reach::Directory => {
                    let path = |file: u32| directory(files[file as usize].path);
                    path(at.file) == path(taint.at.file)
                }
            };
            // A definition mentions itself, and says nothing new by that.
            if !known || at == taint.at || item.names.contains(&taint.name) {
                continue;
            }
            if let Some(member) = behind {
                if matches!(taint.used, Use::Name | Use::Any) {
                    let names = item.members.get(member as usize).map_or(&[][..], |member| &member.names);
                    queue.extend(names.iter().map(|name| follow(&taint, at, files, name, Use::Step)));
                }
                continue;
            }
            if !uses(mentions(at, files), item, name, taint.used) {
                continue;
            }
            match item.what {
                What::Function => {
                    let there = counterpart.get(&at);
                    let still = there.is_some_and(|&there| {
                        uses(mentions(there, others), there.item(others), name, taint.used)
                    });
                    if !still {
                        continue;
                    }
                    causes.entry(at).or_insert_with(|| Cause {
                        what: taint.what,
                        name: taint.cause.clone(),
                        via: taint.name.clone(),
                    });
                    if item.inline {
                        queue
                            .extend(item.names.iter().map(|name| follow(&taint, at, files, name, Use::Name)));
                    }
                }
                What::Type => {
                    let owner = hash(item.names.first().map_or("", String::as_str).as_bytes());
                    let used = if item.counts { Use::Name } else { Use::Member(owner) };
                    let inside = item.members.iter().flat_map(|member| &member.names);
                    queue.extend(inside.map(|name| follow(&taint, at, files, name, used)));
                    queue.extend(item.names.iter().map(|name| follow(&taint, at, files, name, Use::Name)));
                }
                // Of declarations, those of variables: what a function takes, its callers have.
                What::Declaration if item.parameters != 0 => {}
                What::Macro | What::Variable | What::Declaration => {
                    queue.extend(item.names.iter().map(|name| follow(&taint, at, files, name, way(item))));
                }
                What::Import | What::Other | What::Statement => {}
            }
        }
    }
    causes
}

/// The same change, by way of another definition.
fn follow(from: &Taint, at: Ref, files: &[File], name: &str, used: Use) -> Taint {
    Taint { what: from.what, cause: from.cause.clone(), ..taint(at, files, name.to_owned(), used) }
}
