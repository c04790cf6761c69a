//! From a syntax tree to definitions and statements.

use std::ops::Range;

use tree_sitter::Node as Syntax;

use crate::Language;
use crate::grammar::{Class, Classes};
use crate::model::What;
use crate::names;
use crate::structure::{Item, Member, NO_KIND, Node, Role};

/// Statements nested deeper than this count as part of the one around them: comparing recurses.
const DEEPEST: u32 = 150;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Where definitions stand.
    Items,
    /// Where members of a type stand, or the way there.
    Members,
    /// In a function.
    Body,
}

struct Frame {
    mode: Mode,
    class: Class,
    is_error: bool,
    /// The node that statements and members found here belong to.
    node: u32,
    context: u32,
    /// The type whose members stand here.
    item: Option<usize>,
    scope: usize,
    /// Where attributes and wrappers of the next child begin.
    pending: Option<u32>,
    /// Where the wrapper around the children ends.
    wrapper_end: Option<u32>,
}

pub(crate) struct Walk<'a> {
    text: &'a [u8],
    language: Language,
    classes: Classes,
    pub(crate) nodes: Vec<Node>,
    pub(crate) items: Vec<Item>,
    /// For each item that is a function or declaration: its parameters, its body, and names in its parameters.
    pub(crate) heads: Vec<(usize, Head)>,
    scopes: Vec<String>,
}

/// The parts of a function's head.
pub(crate) struct Head {
    pub(crate) parameters: Range<usize>,
    pub(crate) all: Range<usize>,
    pub(crate) names: Vec<Range<usize>>,
}

/// Finds definitions and statements. The first item holds all that is outside of definitions.
pub(crate) fn walk<'a>(text: &'a [u8], path: &str, language: Language, tree: &tree_sitter::Tree) -> Walk<'a> {
    let mut root = Node::new(Role::Item, NO_KIND, 0, 0..text.len() as u32);
    root.split = true;
    let mut walk = Walk {
        text,
        language,
        classes: Classes::new(language, &tree.language()),
        nodes: vec![root],
        items: vec![Item::new(0, What::Other, path.to_owned())],
        heads: Vec::new(),
        scopes: vec![String::new()],
    };
    let mut frames = vec![Frame {
        mode: Mode::Items,
        class: Class::List,
        is_error: false,
        node: 0,
        context: 0,
        item: None,
        scope: 0,
        pending: None,
        wrapper_end: None,
    }];
    let mut cursor = tree.walk();
    'all: loop {
        let node = cursor.node();
        let inner = frames.last_mut().and_then(|frame| walk.enter(node, cursor.field_name(), frame));
        match inner {
            Some(inner) if cursor.goto_first_child() => frames.push(inner),
            _ => {
                while !cursor.goto_next_sibling() {
                    if !cursor.goto_parent() {
                        break 'all;
                    }
                    frames.pop();
                }
            }
        }
    }
    walk
}

impl Frame {
    fn inside(&self, class: Class) -> Self {
        Self { class, is_error: false, pending: None, wrapper_end: None, ..*self }
    }
}

impl Walk<'_> {
    /// What the children of a syntax node are; none if they need not be looked at.
    fn enter(&mut self, node: Syntax, field: Option<&str>, frame: &mut Frame) -> Option<Frame> {
        // Of what stands in a wrapper, parameters of a template for instance, the last is the definition.
        let wraps = frame.wrapper_end.is_some() && node.next_named_sibling().is_some();
        if !node.is_named() || node.byte_range().is_empty() || wraps {
            return None;
        }
        let class = self.classes.of(&node);
        if class == Class::Attribute && (frame.mode != Mode::Body || frame.class == Class::Block) {
            frame.pending.get_or_insert(node.start_byte() as u32);
            return None;
        }
        let start = frame.pending.take().unwrap_or(node.start_byte() as u32);
        let bytes = start..frame.wrapper_end.unwrap_or(node.end_byte() as u32);
        match frame.mode {
            Mode::Items => self.enter_item(node, class, bytes, frame),
            Mode::Members => self.enter_member(node, field, class, bytes, frame),
            Mode::Body => Some(self.enter_body(node, field, class, bytes, frame)),
        }
    }

    fn push(&mut self, role: Role, node: Syntax, bytes: Range<u32>, frame: &Frame) -> u32 {
        let mut new = Node::new(role, node.kind_id(), frame.node, bytes);
        new.context = frame.context;
        new.depth = if role == Role::Item { 0 } else { self.nodes[frame.node as usize].depth + 1 };
        self.nodes.push(new);
        self.nodes.len() as u32 - 1
    }

    fn enter_item(&mut self, node: Syntax, class: Class, bytes: Range<u32>, frame: &Frame) -> Option<Frame> {
        let mut inner = frame.inside(class);
        match class {
            Class::List => {}
            Class::Wrapper => {
                inner.pending = Some(bytes.start);
                inner.wrapper_end = Some(bytes.end);
            }
            Class::Namespace | Class::Context => {
                let says = class == Class::Context;
                let role = if says { Role::Context } else { Role::Namespace };
                let id = self.push(role, node, bytes, frame);
                inner.context = if says { id } else { frame.context };
                let name = match node.kind() {
                    "impl_item" => names::implemented(node, self.text),
                    _ => names::named(node, self.text).concat(),
                };
                inner.scope = self.scope(frame.scope, &name);
            }
            Class::Item(what) => return Some(self.item(node, what, bytes, frame)),
            Class::Declaration => return Some(self.declaration(node, bytes, frame)),
            Class::Typedef => {
                let found = names::declarators(node).into_iter().filter_map(names::declared);
                let found = found.map(|name| names::text_of(name, self.text)).collect();
                return Some(self.aggregate(node, found, bytes, frame));
            }
            Class::Aggregate
                if node.child_by_field_name("body").is_some() || self.language == Language::Rust =>
            {
                return Some(self.aggregate(node, Vec::new(), bytes, frame));
            }
            Class::Constants => {
                let (_, mut item) = self.new_item(node, What::Variable, "", bytes, frame);
                item.counts = true;
                inner = self.add(item, frame, Mode::Members, Class::Members);
            }
            // Names and the like.
            _ if matches!(frame.class, Class::Namespace | Class::Context) => return None,
            _ if node.is_error() => inner.is_error = true,
            _ if frame.is_error && class != Class::Block => return None,
            _ => {
                inner.node = self.push(Role::Statement, node, bytes, frame);
                inner.mode = Mode::Body;
            }
        }
        Some(inner)
    }

    fn scope(&mut self, outer: usize, name: &str) -> usize {
        let full = self.qualified(outer, name);
        self.scopes.push(full);
        self.scopes.len() - 1
    }

    fn qualified(&self, scope: usize, name: &str) -> String {
        let outer = &self.scopes[scope];
        if outer.is_empty() || name.is_empty() {
            [outer, name].concat()
        } else {
            [outer, self.language.joint(), name].concat()
        }
    }

    fn new_item(
        &mut self,
        node: Syntax,
        what: What,
        name: &str,
        bytes: Range<u32>,
        frame: &Frame,
    ) -> (u32, Item) {
        let id = self.push(Role::Item, node, bytes, frame);
        let mut item = Item::new(id, what, self.qualified(frame.scope, name));
        let scope = item.name.rsplit_once(self.language.joint()).map_or("", |(scope, _)| scope);
        item.scope = names::last_part(scope.split(" as ").next().unwrap_or_default()).to_owned();
        if !name.is_empty() {
            item.names.push(names::last_part(name).to_owned());
        }
        (id, item)
    }

    fn add(&mut self, item: Item, frame: &Frame, mode: Mode, class: Class) -> Frame {
        let node = item.node;
        self.nodes[node as usize].is_function = item.what == What::Function;
        self.items.push(item);
        Frame { mode, node, item: Some(self.items.len() - 1), ..frame.inside(class) }
    }

    fn item(&mut self, node: Syntax, what: What, bytes: Range<u32>, frame: &Frame) -> Frame {
        let declarator = node.child_by_field_name("declarator");
        let name = match (declarator, what) {
            (Some(declarator), _) => names::declared(declarator).map(|name| names::text_of(name, self.text)),
            (None, What::Import) => Some(names::text_of(node, self.text)),
            (None, _) => {
                let own = names::named(node, self.text).into_iter().next();
                let of = names::receiver(node, self.text).filter(|_| self.language == Language::Go);
                own.map(|own| of.map(|of| format!("{of}.{own}")).unwrap_or(own))
            }
        };
        let (_, mut item) = self.new_item(node, what, &name.unwrap_or_default(), bytes, frame);
        match what {
            What::Variable => item.names = names::named(node, self.text),
            What::Import => item.names = imported(node, self.text, self.language),
            _ => {}
        }
        if matches!(what, What::Function | What::Declaration) {
            let head = declarator.and_then(names::function_declarator).unwrap_or(node);
            self.head(node, head);
        }
        let mode =
            if self.language == Language::Go && what == What::Type { Mode::Members } else { Mode::Body };
        self.add(item, frame, mode, Class::Item(what))
    }

    /// Notes the head of the function that becomes the next item.
    fn head(&mut self, node: Syntax, declarator: Syntax) {
        let list = declarator.child_by_field_name("parameters");
        let end = node.child_by_field_name("body").map_or(node.end_byte(), |body| body.start_byte());
        let head = Head {
            parameters: list.map_or(0..0, |list| list.byte_range()),
            all: node.start_byte()..end,
            names: list.map(names::parameter_names).unwrap_or_default(),
        };
        self.heads.push((self.items.len(), head));
    }

    /// A declaration of C: what it is depends on what it declares.
    fn declaration(&mut self, node: Syntax, bytes: Range<u32>, frame: &Frame) -> Frame {
        let declarators = names::declarators(node);
        let function = declarators.first().and_then(|&first| names::function_declarator(first));
        let found = declarators.iter().filter_map(|&declarator| names::declared(declarator));
        let found = found.map(|name| names::text_of(name, self.text)).collect::<Vec<_>>();
        if declarators.is_empty() {
            // `struct a { … };` and declarations of nothing.
            let inner = frame.inside(Class::List);
            return Frame { pending: Some(bytes.start), wrapper_end: Some(bytes.end), ..inner };
        }
        let outer = self.text.get(node.byte_range()).unwrap_or_default().starts_with(b"extern");
        let what = if function.is_some() || outer { What::Declaration } else { What::Variable };
        let (_, mut item) = self.new_item(node, what, found.first().map_or("", String::as_str), bytes, frame);
        item.names = found.iter().map(|name| names::last_part(name).to_owned()).collect();
        if let Some(function) = function {
            self.head(node, function);
        } else if what == What::Declaration {
            self.head(node, node);
        }
        // Types may be defined in it; initial values may hold functions.
        let mode = if node.child_by_field_name("type").is_some_and(|kind| self.has_body(kind)) {
            Mode::Members
        } else {
            Mode::Body
        };
        self.add(item, frame, mode, Class::Declaration)
    }

    fn has_body(&self, node: Syntax) -> bool {
        self.classes.of(&node) == Class::Aggregate && node.child_by_field_name("body").is_some()
    }

    /// A type with members, or a typedef.
    fn aggregate(&mut self, node: Syntax, mut found: Vec<String>, bytes: Range<u32>, frame: &Frame) -> Frame {
        let kind = node.child_by_field_name("type").filter(|&kind| self.has_body(kind)).unwrap_or(node);
        found.extend(names::named(kind, self.text));
        let (_, mut item) =
            self.new_item(node, What::Type, found.first().map_or("", String::as_str), bytes, frame);
        item.names = found.iter().map(|name| names::last_part(name).to_owned()).collect();
        item.names.dedup();
        item.counts = kind.kind() == "enum_specifier";
        if item.names.is_empty() && item.counts {
            // Enums without a name go by their first member.
            let first = kind.child_by_field_name("body").and_then(|body| body.named_child(0));
            let first = first.map(|first| names::named(first, self.text).concat()).unwrap_or_default();
            item.name = self.qualified(frame.scope, &format!("enum {first}"));
        }
        if item.names.is_empty() && !item.counts {
            // Structs without a name go by what has their type.
            let holder = node.parent().map(names::declarators).unwrap_or_default();
            let first = holder.first().and_then(|&first| names::declared(first));
            let first = first.map(|first| names::text_of(first, self.text)).unwrap_or_default();
            item.name = self.qualified(frame.scope, &format!("struct {first}"));
        }
        let name = item.name.clone();
        let mut inner = self.add(item, frame, Mode::Members, Class::Aggregate);
        self.scopes.push(name);
        inner.scope = self.scopes.len() - 1;
        inner
    }

    fn enter_member(
        &mut self,
        node: Syntax,
        field: Option<&str>,
        class: Class,
        bytes: Range<u32>,
        frame: &Frame,
    ) -> Option<Frame> {
        let inner = frame.inside(class);
        let in_list = matches!(frame.class, Class::Members | Class::List);
        match class {
            // A trait's body is a list of definitions.
            Class::Members | Class::List => return Some(inner),
            // A type in the type of something else is a type of its own.
            Class::Aggregate if !in_list && field == Some("type") && self.has_body(node) => {
                // That of a typedef is the type it names.
                let typedef = frame.class == Class::Aggregate;
                return Some(if typedef { inner } else { self.aggregate(node, Vec::new(), bytes, frame) });
            }
            Class::Wrapper if in_list => {
                let inner = frame.inside(Class::Members);
                return Some(Frame { pending: Some(bytes.start), wrapper_end: Some(bytes.end), ..inner });
            }
            Class::Item(What::Variable) => {}
            Class::Item(what) if in_list => return Some(self.item(node, what, bytes, frame)),
            Class::Aggregate if in_list && self.has_body(node) => {
                return Some(self.aggregate(node, Vec::new(), bytes, frame));
            }
            Class::Declaration if in_list && self.language.is_c() => {
                let declarators = names::declarators(node);
                if declarators.first().is_some_and(|&first| names::function_declarator(first).is_some()) {
                    return Some(self.declaration(node, bytes, frame));
                }
            }
            _ => {}
        }
        if in_list {
            return Some(self.member(node, bytes, frame));
        }
        // Only types lead to members: values do not.
        let leads =
            matches!(frame.class, Class::Item(What::Type) | Class::Plain) && self.language == Language::Go;
        leads.then_some(inner)
    }

    fn member(&mut self, node: Syntax, bytes: Range<u32>, frame: &Frame) -> Frame {
        let id = self.push(Role::Statement, node, bytes.clone(), frame);
        self.nodes[id as usize].split = node.is_error();
        let mut found = names::named(node, self.text);
        let declared = names::declarators(node).into_iter().filter_map(names::declared);
        found.extend(declared.map(|name| names::text_of(name, self.text)));
        if let Some(item) = frame.item.map(|item| &mut self.items[item]) {
            if item.counts && item.what == What::Variable {
                if item.name.is_empty() {
                    item.name = format!("const {}", found.first().map_or("", String::as_str));
                }
                item.names.extend(found.iter().cloned());
            }
            let explicit = node.child_by_field_name("value").is_some();
            item.members.push(Member { node: id, names: found, explicit, bytes });
        }
        // A type in a member: its tokens make it a definition of its own.
        Frame { node: id, ..frame.inside(Class::Declaration) }
    }

    fn enter_body(
        &mut self,
        node: Syntax,
        field: Option<&str>,
        class: Class,
        mut bytes: Range<u32>,
        frame: &Frame,
    ) -> Frame {
        let mut inner = frame.inside(class);
        let block = class == Class::Block;
        // Functions in functions come from text the grammar took for the end of one too late.
        let strays = matches!(frame.class, Class::Block) || frame.is_error;
        if class == Class::Item(What::Function) && self.language.is_c() && strays {
            return self.item(node, What::Function, bytes, frame);
        }
        let statement = match frame.class {
            // Go's statement lists are blocks in blocks.
            Class::Block => node.kind() != "statement_list",
            Class::Labelled => !matches!(field, Some("label" | "value")) && !block,
            Class::Control => match field {
                Some("body" | "consequence") => !block,
                Some("alternative") => class != Class::Part,
                _ => false,
            },
            Class::Part => node.kind().ends_with("_statement"),
            _ => frame.is_error && node.kind().ends_with("_statement"),
        };
        if frame.class == Class::Control && field == Some("alternative") && statement {
            // Go: the word `else` belongs to what follows it.
            let before = node.prev_sibling().map_or(bytes.start, |before| before.start_byte() as u32);
            bytes.start = bytes.start.min(before);
        }
        let deep = self.nodes[frame.node as usize].depth >= DEEPEST;
        if (statement || class == Class::Part) && !deep {
            inner.node = self.push(Role::Statement, node, bytes, frame);
            self.nodes[inner.node as usize].split = node.is_error();
        }
        inner.is_error = node.is_error();
        inner
    }
}

/// The names an import brings in.
fn imported(node: Syntax, text: &[u8], language: Language) -> Vec<String> {
    let said = names::text_of(node, text);
    match language {
        // The last part of the path, or what it is called here.
        Language::Go => {
            let named = names::named(node, text);
            let path = said.trim_end_matches('"');
            let last = path.rsplit(['/', '"']).next().unwrap_or_default();
            if named.is_empty() { vec![last.to_owned()] } else { named }
        }
        _ => {
            let bytes = text.get(node.byte_range()).unwrap_or_default();
            let spaced = String::from_utf8_lossy(bytes).replace([',', '{', '}', ';'], " , ");
            let last = |part: &str| {
                let word = part.split_whitespace().last()?;
                Some(names::last_part(word).to_owned()).filter(|word| !word.is_empty() && word != "*")
            };
            spaced.split(',').filter_map(last).collect()
        }
    }
}
