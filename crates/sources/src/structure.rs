//! A file as definitions and the statements in them.

use std::ops::Range;

use crate::lex::{Token, mix};
use crate::model::What;
use crate::preprocess::{Guard, Order, OrderKind, Prepared, Sight};

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A definition: its own tokens are its head.
    Item,
    /// A statement or member; its own tokens are those not in its children.
    Statement,
    /// Text the grammar made nothing of.
    Loose,
    /// Holds definitions. What it says is no part of them.
    Namespace,
    /// Holds definitions. What it says is part of all of them.
    Context,
}

/// A node of the file's tree. Parents come before their children.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) role: Role,
    /// The grammar's kind: statements of different kinds are not taken for changed ones.
    pub(crate) kind: u16,
    pub(crate) parent: u32,
    /// The innermost context around.
    pub(crate) context: u32,
    pub(crate) bytes: Range<u32>,
    /// Whether its own tokens are statements each by themselves.
    pub(crate) split: bool,
    pub(crate) is_function: bool,
    /// How many statements are around it.
    pub(crate) depth: u32,
    pub(crate) own: Range<u32>,
    pub(crate) children: Vec<u32>,
    /// Of its own tokens and the conditions they stand under.
    pub(crate) hash: u64,
    /// Of its children too.
    pub(crate) deep: u64,
    /// How many statements it is with those inside.
    pub(crate) size: u32,
}

/// A definition.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) node: u32,
    pub(crate) what: What,
    /// With what it stands in.
    pub(crate) name: String,
    /// The names it defines, as they are mentioned.
    pub(crate) names: Vec<String>,
    /// The type or namespace it belongs to, the last part only.
    pub(crate) scope: String,
    pub(crate) members: Vec<Member>,
    /// Whether members have values that count on from each other.
    pub(crate) counts: bool,
    /// Whether other files cannot refer to it by linking (`static`).
    pub(crate) local: bool,
    /// Whether its code becomes part of those that mention it.
    pub(crate) inline: bool,
    /// Of the types of its parameters.
    pub(crate) parameters: u64,
    /// Of all its users see of it.
    pub(crate) signature: u64,
}

/// A field, enumerator or the like.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) node: u32,
    pub(crate) names: Vec<String>,
    /// Whether its value is given.
    pub(crate) explicit: bool,
    pub(crate) bytes: Range<u32>,
}

/// The nodes and items of a file, with its tokens.
#[derive(Debug)]
pub(crate) struct Structure {
    pub(crate) tokens: Vec<Token>,
    pub(crate) guard: Vec<u32>,
    pub(crate) guards: Vec<Guard>,
    /// The first holds what is outside of all definitions.
    pub(crate) nodes: Vec<Node>,
    pub(crate) items: Vec<Item>,
    /// For each token, the node it belongs to.
    pub(crate) owner: Vec<u32>,
    /// The tokens of each node, one node after the other.
    pub(crate) owned: Vec<u32>,
}

/// No kind of the grammars.
pub(crate) const NO_KIND: u16 = u16::MAX - 1;

impl Node {
    pub(crate) fn new(role: Role, kind: u16, parent: u32, bytes: Range<u32>) -> Self {
        Self {
            role,
            kind,
            parent,
            context: 0,
            bytes,
            split: false,
            is_function: false,
            depth: 0,
            own: 0..0,
            children: Vec::new(),
            hash: 0,
            deep: 0,
            size: 1,
        }
    }
}

impl Item {
    pub(crate) fn new(node: u32, what: What, name: String) -> Self {
        Self {
            node,
            what,
            names: Vec::new(),
            scope: String::new(),
            name,
            members: Vec::new(),
            counts: false,
            local: false,
            inline: false,
            parameters: 0,
            signature: 0,
        }
    }
}

impl Structure {
    /// Gives every token of a file to the innermost node around it.
    pub(crate) fn new(prepared: Prepared, mut nodes: Vec<Node>, mut items: Vec<Item>, text: &[u8]) -> Self {
        let Prepared { tokens, sight, guard, guards, orders } = prepared;
        let mut owner = owners(&tokens, &sight, &nodes);
        own_orders(&orders, &tokens, &mut owner, &mut nodes, &mut items, text);
        attach(&sight, &mut owner);
        split(&tokens, &sight, &guard, &orders, &mut owner, &mut nodes, text);
        separate(&tokens, &mut owner, &mut nodes, text);
        let owned = list(&owner, &mut nodes);
        let mut structure = Self { tokens, guard, guards, nodes, items, owner, owned };
        structure.link();
        structure
    }

    /// The tokens of a node that are in none of its children.
    pub(crate) fn own(&self, node: u32) -> &[u32] {
        let own = &self.nodes[node as usize].own;
        &self.owned[own.start as usize..own.end as usize]
    }

    /// A node and all statements in it.
    pub(crate) fn subtree(&self, node: u32) -> Vec<u32> {
        let mut found = vec![node];
        let mut at = 0;
        while at < found.len() {
            found.extend_from_slice(&self.nodes[found[at] as usize].children);
            at += 1;
        }
        found
    }

    /// The places of the tokens that begin within some bytes.
    pub(crate) fn tokens_in(&self, bytes: &Range<u32>) -> Range<usize> {
        let at = |byte| self.tokens.partition_point(|token| token.start < byte);
        at(bytes.start)..at(bytes.end)
    }

    /// What a token says, conditions included.
    pub(crate) fn says(&self, token: u32) -> u64 {
        let guard = self.guards[self.guard[token as usize] as usize].hash;
        mix(self.tokens[token as usize].hash, guard)
    }

    fn link(&mut self) {
        for at in 1..self.nodes.len() {
            if matches!(self.nodes[at].role, Role::Statement | Role::Loose) {
                let parent = self.nodes[at].parent as usize;
                self.nodes[parent].children.push(at as u32);
            }
        }
        for at in 0..self.nodes.len() {
            let mut children = std::mem::take(&mut self.nodes[at].children);
            children.sort_by_key(|&child| self.nodes[child as usize].bytes.start);
            self.nodes[at].children = children;
            let own = self.own(at as u32).iter().fold(0, |hash, &token| mix(hash, self.says(token)));
            let context = self.nodes[at].context as usize;
            let around = if context == 0 { 0 } else { self.nodes[context].hash };
            self.nodes[at].hash = mix(own, around);
        }
        for at in (0..self.nodes.len()).rev() {
            let node = &self.nodes[at];
            let inside = node.children.iter().map(|&child| &self.nodes[child as usize]);
            let (deep, size) =
                inside.fold((node.hash, 1), |(deep, size), child| (mix(deep, child.deep), size + child.size));
            (self.nodes[at].deep, self.nodes[at].size) = (deep, size);
        }
    }
}

const NONE: u32 = u32::MAX;

/// For each token, the innermost node around it.
fn owners(tokens: &[Token], sight: &[Sight], nodes: &[Node]) -> Vec<u32> {
    let mut stack = vec![0_u32];
    let mut next = 1;
    let mut owner = Vec::with_capacity(tokens.len());
    for (token, sight) in tokens.iter().zip(sight) {
        while stack.len() > 1
            && stack.last().is_some_and(|&node| nodes[node as usize].bytes.end <= token.start)
        {
            stack.pop();
        }
        while next < nodes.len() && nodes[next].bytes.start <= token.start {
            if nodes[next].bytes.end > token.start {
                stack.push(next as u32);
            }
            next += 1;
        }
        let inside = stack.last().copied().unwrap_or(0);
        owner.push(if *sight == Sight::Attached { NONE } else { inside });
    }
    owner
}

/// Directives that define or include something are definitions wherever they stand.
fn own_orders(
    orders: &[Order],
    tokens: &[Token],
    owner: &mut [u32],
    nodes: &mut Vec<Node>,
    items: &mut Vec<Item>,
    text: &[u8],
) {
    for order in orders {
        let range = order.tokens.start as usize..order.tokens.end as usize;
        let what = match order.kind {
            OrderKind::Macro => What::Macro,
            OrderKind::Include => What::Import,
            OrderKind::Other => continue,
        };
        let said =
            tokens[range.clone()].iter().skip(2).map(|token| String::from_utf8_lossy(token.text(text)));
        let name = if what == What::Macro { said.take(1).collect::<String>() } else { said.collect() };
        let bytes = tokens[range.start].start..tokens[range.end - 1].end;
        let node = nodes.len() as u32;
        nodes.push(Node::new(Role::Item, NO_KIND, 0, bytes));
        let mut item = Item::new(node, what, name.clone());
        item.names = if what == What::Macro { vec![name] } else { Vec::new() };
        items.push(item);
        owner[range].fill(node);
    }
}

/// Gives attached tokens to whatever the next token belongs to.
fn attach(sight: &[Sight], owner: &mut [u32]) {
    let mut following = 0;
    for at in (0..owner.len()).rev() {
        match sight[at] {
            Sight::Shown => following = owner[at],
            Sight::Attached => owner[at] = following,
            Sight::Hidden | Sight::Directive => {}
        }
    }
}

/// Makes statements of text the grammar has not seen or not understood: up to each `;`, `{` or `}`.
fn split(
    tokens: &[Token],
    sight: &[Sight],
    guard: &[u32],
    orders: &[Order],
    owner: &mut [u32],
    nodes: &mut Vec<Node>,
    text: &[u8],
) {
    let others =
        orders.iter().filter(|order| order.kind == OrderKind::Other).map(|order| order.tokens.clone());
    let others = others.flatten().collect::<std::collections::HashSet<_>>();
    let mut last: Option<(usize, u32, u32)> = None;
    for at in 0..tokens.len() {
        let holder = owner[at] as usize;
        let unseen = sight[at] == Sight::Hidden || others.contains(&(at as u32));
        if !unseen && !nodes[holder].split {
            last = None;
            continue;
        }
        // Loose text between definitions belongs to the file.
        let outside = matches!(nodes[holder].role, Role::Namespace | Role::Context);
        let holder = if outside { 0 } else { holder as u32 };
        let goes_on = last.is_some_and(|(before, held, _)| {
            let ends = matches!(tokens[before].text(text), b";" | b"{" | b"}");
            let directive =
                sight[at] == Sight::Directive && text.get(tokens[at].start as usize) == Some(&b'#');
            held == holder && !ends && !directive && guard[before] == guard[at] && sight[before] == sight[at]
        });
        let node = match last {
            Some((_, _, node)) if goes_on => {
                nodes[node as usize].bytes.end = tokens[at].end;
                node
            }
            _ => {
                let bytes = tokens[at].start..tokens[at].end;
                let mut node = Node::new(Role::Loose, NO_KIND, holder, bytes);
                node.context = nodes[holder as usize].context;
                node.depth = nodes[holder as usize].depth + 1;
                nodes.push(node);
                nodes.len() as u32 - 1
            }
        };
        owner[at] = node;
        last = Some((at, holder, node));
    }
}

/// Takes the `,` and `;` between members or statements from what holds these: one more or less of them is not a
/// change of its own.
fn separate(tokens: &[Token], owner: &mut [u32], nodes: &mut Vec<Node>, text: &[u8]) {
    let layout = nodes.len() as u32;
    nodes.push(Node::new(Role::Namespace, NO_KIND, 0, 0..0));
    for at in 1..tokens.len() {
        let holder = owner[at];
        if !matches!(tokens[at].text(text), b"," | b";") || holder == owner[at - 1] {
            continue;
        }
        let mut before = owner[at - 1];
        while before > holder {
            before = nodes[before as usize].parent;
        }
        if before == holder && holder != 0 {
            owner[at] = layout;
        }
    }
}

/// Lists the tokens of each node.
fn list(owner: &[u32], nodes: &mut [Node]) -> Vec<u32> {
    let mut count = vec![0_u32; nodes.len()];
    for &node in owner {
        count[node as usize] += 1;
    }
    let mut start = 0;
    for (node, count) in nodes.iter_mut().zip(&count) {
        node.own = start..start;
        start += count;
    }
    let mut owned = vec![0; owner.len()];
    for (token, &node) in owner.iter().enumerate() {
        let own = &mut nodes[node as usize].own;
        owned[own.end as usize] = token as u32;
        own.end += 1;
    }
    owned
}
