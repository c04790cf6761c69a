//! The names of definitions.

use tree_sitter::Node;

/// The text of a node without layout.
pub(crate) fn text_of(node: Node, text: &[u8]) -> String {
    let bytes = text.get(node.byte_range()).unwrap_or_default();
    String::from_utf8_lossy(bytes).split_whitespace().collect()
}

/// The node that names what a C declarator declares.
pub(crate) fn declared(mut node: Node) -> Option<Node> {
    loop {
        match node.kind() {
            "identifier"
            | "field_identifier"
            | "type_identifier"
            | "qualified_identifier"
            | "destructor_name"
            | "operator_name"
            | "template_function"
            | "primitive_type"
            | "operator_cast"
            | "namespace_identifier" => {
                return Some(node);
            }
            _ => {}
        }
        node = match node.child_by_field_name("declarator") {
            Some(inner) => inner,
            None if node.kind().ends_with("_declarator") => node.named_child(0)?,
            None => return None,
        };
    }
}

/// The part of a C declarator that makes it one of a function.
pub(crate) fn function_declarator(mut node: Node) -> Option<Node> {
    loop {
        if node.kind() == "operator_cast" {
            return Some(node);
        }
        let inner = node.child_by_field_name("declarator").or_else(|| node.named_child(0));
        if node.kind() == "function_declarator" {
            // A pointer in brackets makes it a variable that points to a function.
            let mut part = inner;
            while let Some(found) = part {
                if found.kind().starts_with("pointer") || found.kind().starts_with("reference") {
                    return None;
                }
                part = match found.kind() {
                    "parenthesized_declarator" | "array_declarator" => found.named_child(0),
                    _ => None,
                };
            }
            return Some(node);
        }
        if !node.kind().ends_with("_declarator") {
            return None;
        }
        node = inner?;
    }
}

/// All declarators of a C declaration.
pub(crate) fn declarators<'tree>(node: Node<'tree>) -> Vec<Node<'tree>> {
    let mut cursor = node.walk();
    node.children_by_field_name("declarator", &mut cursor).collect()
}

/// All that a node names by a field `name`.
pub(crate) fn named(node: Node, text: &[u8]) -> Vec<String> {
    let mut cursor = node.walk();
    let names = node.children_by_field_name("name", &mut cursor).filter(Node::is_named);
    names.map(|name| text_of(name, text)).collect()
}

/// The last part of a qualified name.
pub(crate) fn last_part(name: &str) -> &str {
    let name = name.rsplit("::").next().unwrap_or(name);
    name.rsplit('.').next().unwrap_or(name)
}

/// What an `impl` block is for: `Type` or `Type as Trait`, without what brackets hold.
pub(crate) fn implemented(node: Node, text: &[u8]) -> String {
    let part = |field| {
        let found = node.child_by_field_name(field)?;
        let found = text_of(found, text);
        Some(found.split('<').next().unwrap_or_default().to_owned())
    };
    match (part("type"), part("trait")) {
        (Some(this), Some(that)) => format!("{this} as {that}"),
        (Some(this), None) => this,
        _ => String::new(),
    }
}

/// The type a Go method belongs to.
pub(crate) fn receiver(node: Node, text: &[u8]) -> Option<String> {
    let receiver = text.get(node.child_by_field_name("receiver")?.byte_range())?;
    let receiver = String::from_utf8_lossy(receiver);
    let receiver = receiver.trim_matches(|c: char| matches!(c, '(' | ')') || c.is_whitespace());
    let kind = receiver.split(|c: char| c.is_whitespace() || c == '*').rfind(|part| !part.is_empty())?;
    Some(kind.split('[').next().unwrap_or_default().to_owned())
}

/// The names of the parameters in a parameter list, as places in the text: what they are called means nothing to
/// callers.
pub(crate) fn parameter_names(list: Node) -> Vec<std::ops::Range<usize>> {
    let mut cursor = list.walk();
    let mut found = Vec::new();
    for parameter in list.named_children(&mut cursor) {
        let declarator = parameter.child_by_field_name("declarator").and_then(declared);
        let pattern = declarator.or_else(|| parameter.child_by_field_name("pattern"));
        found.extend(pattern.map(|node| node.byte_range()));
        let mut inner = parameter.walk();
        found.extend(parameter.children_by_field_name("name", &mut inner).map(|node| node.byte_range()));
    }
    found
}
