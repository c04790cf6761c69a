//! The languages that can be compared.

use tree_sitter::Parser;

/// A language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// C.
    C,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
    /// Go.
    Go,
}

impl Language {
    /// The language of a file, by its extension. A header may be either C or C++: this says C, and [`crate::Tree`]
    /// takes it for C++ if it does not parse.
    #[must_use]
    pub fn of_path(path: &str) -> Option<Self> {
        let (_, extension) = path.rsplit_once('.')?;
        Some(match extension {
            "c" | "h" | "inc" | "def" => Self::C,
            "cc" | "cpp" | "cxx" | "c++" | "C" | "hh" | "hpp" | "hxx" | "h++" | "H" | "ipp" | "tcc"
            | "inl" => Self::Cpp,
            "rs" => Self::Rust,
            "go" => Self::Go,
            _ => return None,
        })
    }

    /// Whether it has the C preprocessor.
    pub(crate) fn is_c(self) -> bool {
        matches!(self, Self::C | Self::Cpp)
    }

    /// What stands between the parts of a qualified name.
    pub(crate) fn joint(self) -> &'static str {
        if self == Self::Go { "." } else { "::" }
    }

    /// The syntax tree of a text; none if the grammar does not fit this tree-sitter, which the tests rule out, or
    /// the text is too long for it.
    pub(crate) fn parse(self, text: &[u8]) -> Option<tree_sitter::Tree> {
        let grammar = match self {
            Self::C => tree_sitter_c::LANGUAGE,
            Self::Cpp => tree_sitter_cpp::LANGUAGE,
            Self::Rust => tree_sitter_rust::LANGUAGE,
            Self::Go => tree_sitter_go::LANGUAGE,
        };
        let mut parser = Parser::new();
        parser.set_language(&grammar.into()).ok()?;
        parser.parse(text, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_grammar_fits() {
        for (language, text) in [
            (Language::C, "int f(void) { return 1; }"),
            (Language::Cpp, "struct A { int f() { return 1; } };"),
            (Language::Rust, "fn f() -> i32 { 1 }"),
            (Language::Go, "package p\nfunc f() int { return 1 }\n"),
        ] {
            let tree = language.parse(text.as_bytes()).unwrap();
            assert!(!tree.root_node().has_error(), "{language:?}");
        }
    }
}
