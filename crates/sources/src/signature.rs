//! What users of a definition see of it: the types of functions, the layout of types, the values of enumerators.

use std::ops::Range;

use crate::Language;
use crate::lex::{hash, mix};
use crate::model::What;
use crate::structure::{Item, Structure};
use crate::walk::Head;

/// Fills in what items look like from outside.
pub(crate) fn sign(structure: &mut Structure, heads: &[(usize, Head)], text: &[u8], language: Language) {
    for (item, head) in heads {
        let head_tokens = structure.tokens_in(&(head.all.start as u32..head.all.end as u32));
        let mut parameters = 0;
        let mut signature = 0;
        let (mut inline, mut local, mut is_const) = (false, false, false);
        for token in &structure.tokens[head_tokens] {
            let place = token.start as usize;
            match token.text(text) {
                b"inline" | b"__inline" | b"__inline__" | b"__forceinline" | b"constexpr" | b"consteval" => {
                    inline |= language.is_c();
                    continue;
                }
                b"static" => {
                    local |= language.is_c();
                    continue;
                }
                b"extern" | b";" => continue,
                b"const" => is_const = true,
                b"fn" => inline |= is_const,
                _ => {}
            }
            if head.names.iter().any(|name| name.contains(&place)) {
                continue;
            }
            signature = mix(signature, token.hash);
            if head.parameters.contains(&place) {
                parameters = mix(parameters, token.hash);
            }
        }
        let item = &mut structure.items[*item];
        (item.parameters, item.signature) = (parameters, signature);
        (item.inline, item.local) = (inline, local);
    }
    let is_static = |item: &Item| {
        let own = structure.own(item.node);
        language.is_c()
            && own.iter().take(6).any(|&token| structure.tokens[token as usize].text(text) == b"static")
    };
    let local =
        structure.items.iter().map(|item| item.what == What::Variable && is_static(item)).collect::<Vec<_>>();
    for (item, local) in structure.items.iter_mut().zip(local) {
        item.local |= local;
    }
}

/// What one member looks like from outside.
pub(crate) struct Face<'a> {
    pub(crate) name: &'a str,
    /// Of its type and of all that is before it, or of its value.
    pub(crate) hash: u64,
}

/// The members of a type or group of constants, and the type's own head.
pub(crate) fn faces<'a>(structure: &'a Structure, item: &'a Item) -> (u64, Vec<Face<'a>>) {
    let head = structure.own(item.node).iter().fold(0, |hash, &token| mix(hash, structure.says(token)));
    let mut faces = Vec::new();
    let mut before = if item.counts { 0 } else { head };
    let mut since = 0;
    for member in &item.members {
        let tokens = said(structure, &member.bytes);
        let names = member.names.iter().map(|name| hash(name.as_bytes())).collect::<Vec<_>>();
        let value = tokens.iter().filter(|(word, _)| !item.counts || !names.contains(word));
        let value = value.fold(1, |hash, &(word, guard)| mix(hash, mix(word, guard)));
        if !item.counts {
            before = mix(before, value);
        } else if member.explicit {
            (before, since) = (value, 0);
        }
        let conditions = tokens.first().map_or(0, |&(_, guard)| guard);
        let face = if item.counts { mix(mix(before, since), conditions) } else { before };
        // Go's constants depend on their place in the group too.
        since += 1;
        faces.extend(member.names.iter().map(|name| Face { name, hash: face }));
    }
    (head, faces)
}

/// The tokens of a member, with those of types in it but without functions.
fn said(structure: &Structure, bytes: &Range<u32>) -> Vec<(u64, u64)> {
    let apart = |token: &usize| {
        let mut node = structure.owner[*token] as usize;
        while !structure.nodes[node].is_function && structure.nodes[node].parent as usize != node {
            node = structure.nodes[node].parent as usize;
        }
        !structure.nodes[node].is_function
    };
    let range = structure.tokens_in(bytes);
    let said = range.filter(apart).map(|token| {
        let guard = structure.guards[structure.guard[token] as usize].hash;
        (structure.tokens[token].hash, guard)
    });
    said.collect()
}
