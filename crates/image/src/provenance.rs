//! Who told us.

use std::fmt;

/// A source of facts, the most trustworthy first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Provenance {
    /// `.annotate`.
    Annotation,
    /// `.llvm_bb_addr_map`.
    BbAddrMap,
    /// `.llvm_jump_table_sizes`.
    JumpTableSizes,
    /// Relocations the linker kept (`--emit-relocs`).
    LinkRelocation,
    /// Relocations the loader applies.
    DynamicRelocation,
    /// `.symtab`.
    Symbol,
    /// `.dynsym`.
    DynamicSymbol,
    /// `.gopclntab`.
    GoTable,
    /// An entry in `.eh_frame`.
    EhFrame,
    /// The ELF header, `DT_INIT`, or the start of `.init` and the like.
    Header,
    /// A procedure-linkage stub.
    Plt,
    /// Follows from code that is understood: something calls or jumps there.
    DataFlow,
    /// It looks like it.
    Heuristic,
}

/// All sources, in order of trust, with a name each.
const NAMES: [(Provenance, &str); 13] = [
    (Provenance::Annotation, "annotation"),
    (Provenance::BbAddrMap, "bb-addr-map"),
    (Provenance::JumpTableSizes, "jump-table-sizes"),
    (Provenance::LinkRelocation, "link-relocation"),
    (Provenance::DynamicRelocation, "dynamic-relocation"),
    (Provenance::Symbol, "symbol"),
    (Provenance::DynamicSymbol, "dynamic-symbol"),
    (Provenance::GoTable, "gopclntab"),
    (Provenance::EhFrame, "eh-frame"),
    (Provenance::Header, "header"),
    (Provenance::Plt, "plt"),
    (Provenance::DataFlow, "data-flow"),
    (Provenance::Heuristic, "heuristic"),
];

impl Provenance {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Several sources that agree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Vouchers(u16);

impl Vouchers {
    /// Nobody.
    pub const NONE: Self = Self(0);

    /// Adds one.
    pub fn add(&mut self, who: Provenance) {
        self.0 |= 1 << who as u16;
    }

    /// Adds all of `other`.
    pub fn add_all(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Just one.
    #[must_use]
    pub fn one(who: Provenance) -> Self {
        Self(1 << who as u16)
    }

    /// Whether `who` is among them.
    #[must_use]
    pub fn has(self, who: Provenance) -> bool {
        self.0 & 1 << who as u16 != 0
    }

    /// All of them, the most trustworthy first.
    pub fn iter(self) -> impl Iterator<Item = Provenance> {
        NAMES.iter().map(|&(who, _)| who).filter(move |&who| self.has(who))
    }

    /// The most trustworthy.
    #[must_use]
    pub fn best(self) -> Option<Provenance> {
        self.iter().next()
    }
}

impl fmt::Display for Vouchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, who) in self.iter().enumerate() {
            if i > 0 {
                f.write_str("+")?;
            }
            f.write_str(who.name())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Vouchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_order_of_trust() {
        for (index, (who, _)) in NAMES.iter().enumerate() {
            assert_eq!(*who as usize, index);
        }
        let mut vouchers = Vouchers::one(Provenance::EhFrame);
        vouchers.add(Provenance::Symbol);
        assert_eq!(vouchers.to_string(), "symbol+eh-frame");
        assert_eq!(vouchers.best(), Some(Provenance::Symbol));
    }
}
