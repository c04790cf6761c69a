//! Symbol names as people write them.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// The name as the source spells it: C++ and Rust names demangled, others as they are.
#[must_use]
pub fn demangle(name: &str) -> Cow<'_, str> {
    if let Some(text) = demangle_whole(name) {
        return Cow::Owned(text);
    }
    // Clones carry a suffix the demanglers do not know: `_ZN1fEv.cold`, `_ZN1fEv.llvm.123`.
    let (stem, suffix) = split_clone_suffix(name);
    match demangle_whole(stem) {
        Some(text) if !suffix.is_empty() => Cow::Owned(format!("{text}{suffix}")),
        _ => Cow::Borrowed(name),
    }
}

/// No name anyone wants to read is longer; names made to be difficult can grow a thousandfold.
const MAX_LEN: usize = 16 << 10;

fn demangle_whole(name: &str) -> Option<String> {
    let mut text = Bounded(String::new());
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        write!(text, "{rust:#}").ok()?;
    } else if name.starts_with("_Z") {
        let symbol = cpp_demangle::Symbol::new(name).ok()?;
        symbol.structured_demangle(&mut text, &cpp_demangle::DemangleOptions::default()).ok()?;
    }
    (!text.0.is_empty()).then_some(text.0)
}

/// Text that refuses to grow beyond [`MAX_LEN`].
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.0.len() + more.len() > MAX_LEN {
            return Err(fmt::Error);
        }
        self.0.push_str(more);
        Ok(())
    }
}

/// Splits `foo.cold`, `foo.constprop.0`, `foo.llvm.123` into the function and what the compiler added.
#[must_use]
pub fn split_clone_suffix(name: &str) -> (&str, &str) {
    // A name that begins with a dot has no stem; versions follow an `@`.
    match name.get(1..).and_then(|rest| rest.find('.')) {
        Some(dot) if name.starts_with('_') || is_clone_suffix(&name[dot + 1..]) => name.split_at(dot + 1),
        _ => (name, ""),
    }
}

fn is_clone_suffix(suffix: &str) -> bool {
    [
        ".cold",
        ".part.",
        ".constprop.",
        ".isra.",
        ".llvm.",
        ".lto_priv.",
        ".localalias",
        ".resolver",
        ".clone.",
    ]
    .iter()
    .any(|known| suffix.starts_with(known))
}

/// For `foo.cold` and `foo.cold.1`, the function it was split from.
#[must_use]
pub fn cold_parent(name: &str) -> Option<&str> {
    let at = name.rfind(".cold")?;
    let rest = &name[at + ".cold".len()..];
    let numbered =
        rest.strip_prefix('.').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    (at > 0 && (rest.is_empty() || numbered)).then(|| &name[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled() {
        assert_eq!(demangle("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(demangle("_ZN3foo3barEi.cold"), "foo::bar(int) [clone .cold]");
        assert_eq!(demangle("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangle("_RNvC7mycrate3foo"), "mycrate::foo");
        assert_eq!(
            demangle("_ZN42_$LT$$RF$T$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE"),
            "<&T as core::fmt::Debug>::fmt"
        );
        assert_eq!(demangle("main"), "main");
        assert_eq!(demangle("_ZNgarbage"), "_ZNgarbage");
        assert_eq!(demangle(""), "");
    }

    #[test]
    fn cold_pieces_know_their_parent() {
        assert_eq!(cold_parent("foo.cold"), Some("foo"));
        assert_eq!(cold_parent("foo.constprop.0.cold"), Some("foo.constprop.0"));
        assert_eq!(cold_parent("foo.cold.12"), Some("foo"));
        assert_eq!(cold_parent("foo.coldness"), None);
        assert_eq!(cold_parent(".cold"), None);
        assert_eq!(split_clone_suffix("foo.isra.0"), ("foo", ".isra.0"));
        assert_eq!(split_clone_suffix("runtime.main"), ("runtime.main", ""));
    }
}
