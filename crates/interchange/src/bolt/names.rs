//! What BOLT calls functions.
//!
//! A global symbol is called by its name. There may be many local ones of one name, so each is numbered, in the order of
//! addresses: `name/1`. Functions that no symbol names are `__BOLT_FDE_FUNCat` and an address, if they have unwind information.
//! See `RewriteInstance::discoverFileObjects` in LLVM's `bolt/lib/Rewrite/RewriteInstance.cpp`.

use crate::surroundings::Symbol;
use std::collections::{BTreeMap, HashMap};

/// The functions of a file as BOLT sees them, by address.
pub(crate) struct Names {
    by_address: BTreeMap<u64, Named>,
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
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut by_address: BTreeMap<u64, Named> = BTreeMap::new();
        for symbol in sorted {
            // BOLT keeps labels that the assembler takes for its own apart.
            let prefix = if symbol.name.starts_with(".L") { "PG" } else { "" };
            let name = if symbol.is_global {
                format!("{prefix}{}", symbol.name)
            } else {
                let number = numbers.entry(&symbol.name).or_default();
                *number += 1;
                format!("{prefix}{}/{number}", symbol.name)
            };
            if !symbol.is_function {
                continue;
            }
            let end = symbol.address.saturating_add(symbol.size);
            let named = by_address.entry(symbol.address).or_insert(Named { name: escaped(&name), end });
            named.end = named.end.max(end);
        }
        // A symbol inside of another function is a second entry of it, not a function.
        let mut outer_end = 0;
        by_address.retain(|&address, named| {
            let keep = address >= outer_end;
            if keep {
                outer_end = named.end;
            }
            keep
        });
        Self { by_address }
    }

    /// The function around an address, and where in it that is.
    pub(crate) fn place(&self, address: u64) -> Option<Place<'_>> {
        let (start, named) = self.by_address.range(..=address).next_back()?;
        (address < named.end || address == *start)
            .then(|| Place { name: &named.name, offset: address - start })
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
    }
}
