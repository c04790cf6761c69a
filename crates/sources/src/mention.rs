//! Which names a definition mentions.

use crate::Language;
use crate::lex::{TokenKind, hash};
use crate::model::What;
use crate::structure::{Item, Member, Structure};

/// The names in a definition, as sorted hashes.
#[derive(Debug, Default)]
pub(crate) struct Mentions {
    /// That stand by themselves. Of a type: not those in members that are pointers.
    pub(crate) names: Vec<u64>,
    /// That are fields of something: after `.` or `->`.
    pub(crate) members: Vec<u64>,
    /// Fields that are counted through: `.name[`, `.name +`.
    pub(crate) stepped: Vec<u64>,
    /// Of a type: names in members that are pointers, with the member.
    pub(crate) behind: Vec<(u64, u32)>,
    /// Whether the definition asks for sizes.
    pub(crate) sizes: bool,
}

impl Mentions {
    pub(crate) fn has_name(&self, name: u64) -> bool {
        self.names.binary_search(&name).is_ok()
    }

    pub(crate) fn has_member(&self, name: u64) -> bool {
        self.members.binary_search(&name).is_ok()
    }

    pub(crate) fn steps(&self, name: u64) -> bool {
        self.stepped.binary_search(&name).is_ok() || (self.sizes && self.has_member(name))
    }
}

/// For each item of a file, what it mentions.
pub(crate) fn mentions(structure: &Structure, text: &[u8], language: Language) -> Vec<Mentions> {
    structure.items.iter().map(|item| of_item(structure, item, text, language)).collect()
}

fn of_item(structure: &Structure, item: &Item, text: &[u8], language: Language) -> Mentions {
    let mut found = Mentions::default();
    let mut guards = Vec::new();
    let is_type = item.what == What::Type;
    for node in structure.subtree(item.node) {
        let member = item.members.iter().position(|member| is_type && member.node == node);
        let behind = member.filter(|&member| points(structure, &item.members[member], text, language));
        for &at in structure.own(node) {
            let at = at as usize;
            let token = &structure.tokens[at];
            guards.push(structure.guard[at]);
            if token.kind != TokenKind::Word {
                continue;
            }
            let near =
                |at: Option<usize>| at.and_then(|at| structure.tokens.get(at)).map(|token| token.text(text));
            let before = near(at.checked_sub(1));
            if let Some(behind) = behind {
                found.behind.push((token.hash, behind as u32));
            } else if matches!(before, Some(b"." | b"->")) {
                found.members.push(token.hash);
                if matches!(near(Some(at + 1)), Some(b"[" | b"+" | b"-" | b"++" | b"--" | b"+=" | b"-=")) {
                    found.stepped.push(token.hash);
                }
            } else {
                found.sizes |= token.text(text) == b"sizeof";
                found.names.push(token.hash);
            }
        }
    }
    guards.sort_unstable();
    guards.dedup();
    for guard in guards {
        found.names.extend_from_slice(&structure.guards[guard as usize].words);
    }
    // What stands around a definition says something of it.
    if !item.scope.is_empty() {
        found.names.push(hash(item.scope.as_bytes()));
    }
    let mut context = structure.nodes[item.node as usize].context;
    while context != 0 {
        let own = structure.own(context).iter().map(|&token| &structure.tokens[token as usize]);
        found.names.extend(own.filter(|token| token.kind == TokenKind::Word).map(|token| token.hash));
        context = structure.nodes[context as usize].context;
    }
    for list in [&mut found.names, &mut found.members, &mut found.stepped] {
        list.sort_unstable();
        list.dedup();
    }
    found.behind.sort_unstable();
    found.behind.dedup();
    found
}

/// Whether a member only points to what its type says, so that its own size does not depend on it.
fn points(structure: &Structure, member: &Member, text: &[u8], language: Language) -> bool {
    let tokens = structure.tokens_in(&member.bytes);
    let says = |marks: &[&[u8]]| {
        structure.tokens[tokens.clone()].iter().any(|token| marks.contains(&token.text(text)))
    };
    match language {
        Language::C | Language::Cpp => says(&[b"*", b"&", b"&&"]) && !says(&[b"["]),
        Language::Rust => says(&[b"*", b"&", b"Box", b"Rc", b"Arc", b"Vec"]) && !says(&[b";"]),
        Language::Go => says(&[b"*", b"map", b"chan", b"func"]) && !says(&[b"["]),
    }
}
