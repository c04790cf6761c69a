//! Labels of the assembler source, found again in the linked file.

use crate::oracle::assembler::Assembler;
use crate::oracle::symbols::Symbols;
use std::collections::BTreeSet;

/// Addresses named by data (jump tables, computed gotos, but also any other data) and by exception tables.
#[derive(Default)]
pub(crate) struct NamedAddresses {
    pub(crate) in_tables: BTreeSet<u64>,
    pub(crate) in_exception_tables: BTreeSet<u64>,
}

/// Looks every named label up. A label that is not in the linked file stood in a copy the linker dropped; one that
/// is there twice (two source files of one name) cannot be told apart and is left out.
pub(crate) fn resolve(sources: &[Assembler], symbols: &Symbols) -> NamedAddresses {
    let mut named = NamedAddresses::default();
    for source in sources {
        let only = |label: &String| match symbols.label(&source.source, label) {
            [address] => Some(*address),
            _ => None,
        };
        named.in_tables.extend(source.in_tables.iter().filter_map(only));
        named.in_exception_tables.extend(source.in_exception_tables.iter().filter_map(only));
    }
    named
}
