//! Names of functions and data as far as they stay the same from build to build.

use relive_image::names::demangle;
use std::borrow::Cow;

/// What a function is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Names {
    /// As in the symbol table: with types, so that overloaded functions differ.
    pub(crate) extended: u64,
    /// As people say it: with class, without parameters and without what the compiler adds to clones.
    pub(crate) hierarchical: u64,
}

impl Names {
    /// The names of the function at `address`; `None` if its name was only made from the address.
    pub(crate) fn new(name: &str, address: u64) -> Option<Self> {
        if name.is_empty() || name.strip_prefix("fn_").is_some_and(|hex| hex == format!("{address:x}")) {
            return None;
        }
        Some(Self { extended: hash(name), hierarchical: hash(&hierarchical(name)) })
    }
}

/// FNV-1a; never zero, which means that there is no name.
pub(crate) fn hash(name: &str) -> u64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash.max(1)
}

/// A hash of the name of data; zero if compilers make such names up anew in each build.
pub(crate) fn of_data(name: &str) -> u64 {
    let made_up = ["anon.", ".Lanon", ".L", "__unnamed"];
    if made_up.iter().any(|prefix| name.starts_with(prefix)) {
        return 0;
    }
    hash(&hierarchical(name))
}

/// The name without parameters, clone suffixes, and the hash that Rust adds.
pub(crate) fn hierarchical(name: &str) -> Cow<'_, str> {
    let stem = without_suffixes(name);
    match demangle(stem) {
        Cow::Borrowed(same) => Cow::Borrowed(same),
        Cow::Owned(text) => Cow::Owned(without_parameters(&text).to_string()),
    }
}

/// `foo.isra.0`, `foo.constprop.1`, `foo.part.0.cold`, `foo.llvm.123`, `counter.5`: a name begins before its first
/// dot. Names that begin with a dot have no stem.
fn without_suffixes(name: &str) -> &str {
    match name.get(1..).and_then(|rest| rest.find('.')) {
        // Rust's own names hold dots (`..`) inside of mangled parts, which are followed by more letters.
        Some(dot) if !name.starts_with("_ZN") && !name.starts_with("_R") => &name[..=dot],
        Some(_) => match name.find(".llvm.").or_else(|| name.rfind(".cold")) {
            Some(dot) => &name[..dot],
            None => name,
        },
        None => name,
    }
}

/// `ns::f<int>(char, long) const` → `ns::f<int>`.
fn without_parameters(name: &str) -> &str {
    let Some(end) = name.rfind(')') else { return name };
    let mut depth = 0usize;
    for (i, c) in name[..=end].char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => {
                depth -= 1;
                if depth == 0 {
                    // `operator()` is a name, not a list of parameters.
                    return if name[..i].ends_with("operator") { name } else { &name[..i] };
                }
            }
            _ => {}
        }
    }
    name
}

/// How alike two names are, from 0 to 1: by the pairs of letters they share.
pub(crate) fn similarity(a: &str, b: &str) -> f64 {
    let pairs = |name: &str| {
        let mut pairs: Vec<(u8, u8)> = name.bytes().zip(name.bytes().skip(1)).collect();
        pairs.sort_unstable();
        pairs
    };
    let (a, b) = (pairs(a), pairs(b));
    if a.is_empty() || b.is_empty() {
        return 0.0;
    }
    let (mut i, mut j, mut common) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => (i, j, common) = (i + 1, j + 1, common + 1),
        }
    }
    2.0 * f64::from(common) / (a.len() + b.len()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_of_a_name() {
        for (name, stays) in [
            ("foo", "foo"),
            ("foo.isra.0", "foo"),
            ("foo.constprop.1.cold", "foo"),
            ("counter.17", "counter"),
            ("_ZN2ns3barEic", "ns::bar"),
            ("_ZNK2ns5thing3getEv", "ns::thing::get"),
            ("_ZN3fooclEi", "foo::operator()"),
            ("_ZN2ns3barEi.part.0", "ns::bar"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_ZN4core3fmt5write17h0123456789abcdefE.llvm.77", "core::fmt::write"),
        ] {
            assert_eq!(hierarchical(name), stays, "{name}");
        }
    }

    #[test]
    fn made_up_names_are_none() {
        assert_eq!(Names::new("fn_1000", 0x1000), None);
        assert!(Names::new("fn_1000", 0x2000).is_some());
        assert_eq!(of_data("anon.0a1b.3"), 0);
        assert_ne!(of_data("table"), 0);
    }

    #[test]
    fn alike_names() {
        assert!(similarity("read_frame", "read_frame_header") > 0.7);
        assert!(similarity("read_frame", "xyz") < 0.1);
        assert_eq!(similarity("same", "same"), 1.0);
    }
}
