//! Which lines of a file can be where code comes from: a compiler never says so of one that has nothing but comments and directives on it.

use std::collections::HashSet;

use crate::Language;
use crate::lex::{Directive, lex};
use crate::tree::Tree;

/// The lines of a file on which something stands that code can come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    lines: HashSet<u32>,
}

impl Standing {
    fn of(text: &[u8], language: Language) -> Self {
        let mut lines = HashSet::new();
        for token in lex(text, language).iter().filter(|token| token.directive == Directive::No) {
            let more = token.text(text).iter().filter(|&&byte| byte == b'\n').count() as u32;
            // Code may come from any line of a text that goes on for several.
            lines.extend(token.line..=token.line + more);
        }
        Self { lines }
    }

    /// Whether code can come from a line, counted from one.
    #[must_use]
    pub fn has(&self, line: u32) -> bool {
        self.lines.contains(&line)
    }
}

impl Tree {
    /// The lines of one of its files that code can come from.
    #[must_use]
    pub fn standing(&self, path: &str) -> Option<Standing> {
        Some(Standing::of(self.files.get(path)?, Language::of_path(path)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<u32> {
        let mut tree = Tree::default();
        tree.insert(path, text.into());
        let standing = tree.standing(path).expect("a file");
        (0..20).filter(|&line| standing.has(line)).collect()
    }

    #[test]
    fn comments_directives_and_nothing() {
        let text = "/* a\n b */ int f(void)\n{\n\n  // c\n#if X \\\n  && Y\n  return 1; // d\n#endif\n}\n";
        assert_eq!(lines("a.c", text), [2, 3, 8, 10]);
        assert_eq!(lines("a.rs", "/// a\n#[b]\nfn f() {}\n\n"), [2, 3]);
    }

    #[test]
    fn what_goes_on_for_several_lines() {
        assert_eq!(lines("a.rs", "const A: &str = \"\n\n  b\n\";\n\nfn f() {}"), [1, 2, 3, 4, 6]);
        assert_eq!(lines("a.c", "#define A \\\n  1\nint a = A +\n\n  A;\n"), [3, 5]);
    }

    #[test]
    fn no_such_file() {
        assert_eq!(Tree::default().standing("a.c"), None);
    }
}
