//! What the kinds of syntax nodes of the four grammars are to a comparison.

use crate::Language;
use crate::model::What;

/// What a kind of node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nothing in particular.
    Plain,
    /// Holds definitions, adds nothing to them.
    List,
    /// Holds definitions, names them, and says nothing else (`namespace`, `extern "C"`).
    Namespace,
    /// Holds definitions, and what it says of them matters (`impl`, `mod`).
    Context,
    /// Stands around one definition (`template`).
    Wrapper,
    /// Stands before a definition or statement and belongs to it (`#[…]`).
    Attribute,
    /// A definition.
    Item(What),
    /// A C declaration: of a function, a variable or a type.
    Declaration,
    /// A C typedef.
    Typedef,
    /// A struct, union, class or enum, which defines something only if it has a body.
    Aggregate,
    /// Holds fields, methods or enumerators.
    Members,
    /// Go's `const (…)`, whose members count on from each other.
    Constants,
    /// Holds statements.
    Block,
    /// Part of a statement that counts as one itself (`else`, `case`).
    Part,
    /// A statement whose named children without a field are statements (`case`, labels).
    Labelled,
    /// A statement whose body may be a single statement.
    Control,
}

impl Class {
    pub(crate) fn of(language: Language, kind: &str) -> Self {
        match language {
            Language::C | Language::Cpp => Self::of_c(kind),
            Language::Rust => Self::of_rust(kind),
            Language::Go => Self::of_go(kind),
        }
    }

    fn of_c(kind: &str) -> Self {
        match kind {
            "translation_unit" | "declaration_list" | "export_declaration" => Self::List,
            "namespace_definition" | "linkage_specification" => Self::Namespace,
            "template_declaration" => Self::Wrapper,
            "function_definition"
            | "inline_method_definition"
            | "constructor_or_destructor_definition"
            | "operator_cast_definition" => Self::Item(What::Function),
            "declaration"
            | "field_declaration"
            | "constructor_or_destructor_declaration"
            | "operator_cast_declaration" => Self::Declaration,
            "type_definition" => Self::Typedef,
            "alias_declaration" | "concept_definition" => Self::Item(What::Type),
            "using_declaration" | "namespace_alias_definition" => Self::Item(What::Import),
            "struct_specifier" | "union_specifier" | "class_specifier" | "enum_specifier" => Self::Aggregate,
            "field_declaration_list" | "enumerator_list" => Self::Members,
            "compound_statement" => Self::Block,
            "else_clause" | "catch_clause" | "seh_except_clause" | "seh_finally_clause" => Self::Part,
            "case_statement" | "labeled_statement" => Self::Labelled,
            "if_statement" | "for_statement" | "while_statement" | "do_statement" | "for_range_loop"
            | "switch_statement" => Self::Control,
            _ => Self::Plain,
        }
    }

    fn of_rust(kind: &str) -> Self {
        match kind {
            "source_file" | "declaration_list" => Self::List,
            "mod_item" | "impl_item" | "foreign_mod_item" => Self::Context,
            "attribute_item" => Self::Attribute,
            "function_item" => Self::Item(What::Function),
            "function_signature_item" => Self::Item(What::Declaration),
            "struct_item" | "enum_item" | "union_item" | "trait_item" => Self::Aggregate,
            "type_item" | "associated_type" => Self::Item(What::Type),
            "const_item" | "static_item" => Self::Item(What::Variable),
            "macro_definition" => Self::Item(What::Macro),
            "use_declaration" | "extern_crate_declaration" => Self::Item(What::Import),
            "field_declaration_list" | "enum_variant_list" => Self::Members,
            "block" => Self::Block,
            "else_clause" | "match_arm" => Self::Part,
            _ => Self::Plain,
        }
    }

    fn of_go(kind: &str) -> Self {
        match kind {
            "source_file" | "var_spec_list" | "import_spec_list" => Self::List,
            "type_declaration" | "var_declaration" | "import_declaration" => Self::Namespace,
            "function_declaration" | "method_declaration" => Self::Item(What::Function),
            "type_spec" | "type_alias" => Self::Item(What::Type),
            "var_spec" => Self::Item(What::Variable),
            "const_declaration" => Self::Constants,
            "import_spec" => Self::Item(What::Import),
            "field_declaration_list" => Self::Members,
            "block" | "statement_list" => Self::Block,
            "expression_case" | "type_case" | "communication_case" | "default_case" => Self::Part,
            "labeled_statement" => Self::Labelled,
            "if_statement" => Self::Control,
            _ => Self::Plain,
        }
    }
}

/// The classes of a grammar's kinds.
pub(crate) struct Classes(Vec<Class>);

impl Classes {
    pub(crate) fn new(language: Language, grammar: &tree_sitter::Language) -> Self {
        let kinds = 0..grammar.node_kind_count() as u16;
        Self(kinds.map(|id| Class::of(language, grammar.node_kind_for_id(id).unwrap_or_default())).collect())
    }

    pub(crate) fn of(&self, node: &tree_sitter::Node) -> Class {
        self.0.get(node.kind_id() as usize).copied().unwrap_or(Class::Plain)
    }
}
