//! What BOLT calls functions.
//!
//! A global symbol is called by its name. There may be many local ones of one name, so each is numbered, in the order of
//! addresses: `name/1`, and also `name/file.c/1` if the table says which source file it is from. See
//! `RewriteInstance::discoverFileObjects` in LLVM's `bolt/lib/Rewrite/RewriteInstance.cpp`.

use crate::surroundings::Symbol;
use std::collections::{BTreeMap, HashMap};

/// The functions of a file as BOLT sees them.
pub(crate) struct Names {
    by_address: BTreeMap<u64, Named>,
    by_name: HashMap<String, u64>,
    /// Symbols inside of functions.
    inner: Vec<u64>,
}

struct Named {
    name: String,
    end: u64,
}

/// A place in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place<'n> {
    pub(crate) name: &'n str,
    pub(crate) offset: u64,
}

impl Names {
    /// Names all functions of a file.
    pub(crate) fn new(symbols: &[Symbol]) -> Self {
        let mut sorted: Vec<&Symbol> =
            symbols.iter().filter(|symbol| symbol.address != 0 && !symbol.name.is_empty()).collect();
        // Functions first, else as in the table: the sort is stable, as BOLT's is.
        sorted.sort_by_key(|symbol| (symbol.address, !symbol.is_function));
        let mut numbers = Numbers::default();
        let mut names = Self { by_address: BTreeMap::new(), by_name: HashMap::new(), inner: Vec::new() };
        for symbol in sorted {
            // BOLT keeps labels that the assembler takes for its own apart.
            let prefix = if symbol.name.starts_with(".L") { "PG" } else { "" };
            let mut name = format!("{prefix}{}", symbol.name);
            let mut alternative = None;
            if !symbol.is_global {
                alternative = symbol
                    .file
                    .as_ref()
                    .filter(|_| symbol.is_function)
                    .map(|file| numbers.number(format!("{name}/{file}")));
                name = numbers.number(name);
            }
            if !symbol.is_function {
                continue;
            }
            for name in alternative.iter().chain([&name]) {
                names.by_name.insert(escaped(name), symbol.address);
            }
            let end = symbol.address.saturating_add(symbol.size);
            let named = names.by_address.entry(symbol.address).or_insert(Named { name: escaped(&name), end });
            named.end = named.end.max(end);
        }
        // A symbol inside of another function is a second entry of it, not a function.
        let mut outer_end = 0;
        let inner = &mut names.inner;
        names.by_address.retain(|&address, named| {
            let keep = address >= outer_end;
            if keep {
                outer_end = named.end;
            } else {
                inner.push(address);
            }
            keep
        });
        names
    }

    /// The function around an address, and where in it that is.
    pub(crate) fn place(&self, address: u64) -> Option<Place<'_>> {
        let (start, named) = self.by_address.range(..=address).next_back()?;
        (address < named.end || address == *start)
            .then(|| Place { name: &named.name, offset: address - start })
    }

    /// Where functions begin and end.
    pub(crate) fn functions(&self) -> impl Iterator<Item = (u64, u64)> {
        let all = self.by_address.iter().map(|(&start, named)| (start, named.end));
        all.filter(|(start, end)| start < end)
    }

    /// Symbols inside of functions: further entries of them.
    pub(crate) fn inner_entries(&self) -> impl Iterator<Item = u64> {
        self.inner.iter().copied()
    }

    /// Where the function around an address begins.
    pub(crate) fn start(&self, address: u64) -> Option<u64> {
        self.place(address).map(|place| address - place.offset)
    }

    /// What the function that begins there is called, without what separates fields.
    pub(crate) fn raw(&self, start: u64) -> Option<String> {
        let named = self.by_address.get(&start)?;
        Some(named.name.replace("\\ ", " ").replace("\\\\", "\\"))
    }

    /// The address of a function by any of its names, as they are written in files of BOLT.
    pub(crate) fn address(&self, name: &str) -> Option<u64> {
        // `f(*2)`: f has two names.
        let name = name.split_once("(*").map_or(name, |(name, _)| name);
        self.by_name.get(name).copied()
    }
}

/// How often each local name came up.
#[derive(Default)]
struct Numbers(HashMap<String, u32>);

impl Numbers {
    fn number(&mut self, name: String) -> String {
        let number = self.0.entry(name.clone()).or_default();
        *number += 1;
        format!("{name}/{number}")
    }
}

/// Fields are separated by spaces.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace(' ', "\\ ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_functions_are_numbered_by_address() {
        let symbol = |name: &str, address, size, is_global| Symbol {
            name: name.to_string(),
            address,
            size,
            is_function: true,
            is_global,
            file: (!is_global).then(|| "a.c".to_string()),
        };
        let names = Names::new(&[
            symbol("helper", 0x40, 8, false),
            symbol("helper", 0x20, 8, false),
            symbol("main", 0x10, 16, true),
            symbol("inside", 0x18, 4, true),
            symbol("with space", 0x50, 0, true),
            Symbol { is_function: false, ..symbol("helper", 0x30, 4, false) },
        ]);
        let place = |address| names.place(address).map(|place| (place.name, place.offset));
        assert_eq!(place(0x10), Some(("main", 0)));
        assert_eq!(place(0x19), Some(("main", 9)));
        assert_eq!(place(0x20), Some(("helper/1", 0)));
        assert_eq!(place(0x47), Some(("helper/3", 7)));
        assert_eq!(place(0x48), None);
        assert_eq!(place(0x50), Some(("with\\ space", 0)));
        assert_eq!(names.address("helper/3"), Some(0x40));
        assert_eq!(names.address("helper/a.c/2"), Some(0x40));
        assert_eq!(names.address("main(*2)"), Some(0x10));
        assert_eq!(names.address("helper"), None);
    }
}
