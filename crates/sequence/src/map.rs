//! Which functions and places of one build are which of another.

use crate::model::Module;
use std::collections::BTreeMap;

/// Functions and call sites of one module, old and new, by address as linked. All other modules are what they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallMap {
    /// The build-id of the old build, in hexadecimal.
    pub old: String,
    /// That of the new one.
    pub new: String,
    /// Where functions begin.
    pub functions: BTreeMap<u64, u64>,
    /// Instructions that call.
    pub sites: BTreeMap<u64, u64>,
    /// Code that is the same, byte by byte but for addresses: where it begins in the old build, how long it is, where it begins in the new one.
    pub code: BTreeMap<u64, (u64, u64)>,
}

impl CallMap {
    /// Nothing has changed.
    #[must_use]
    pub fn same() -> Self {
        Self::default()
    }

    /// Whether a module of an old run is the one that was built anew.
    #[must_use]
    pub fn is_old(&self, module: Option<&Module>) -> bool {
        self.old != self.new && module.is_some_and(|module| module.build_id == self.old)
    }

    /// Whether a module of a new run is it.
    #[must_use]
    pub fn is_new(&self, module: Option<&Module>) -> bool {
        module.is_some_and(|module| module.build_id == self.new)
    }

    /// Where an instruction of the old build is in the new one.
    #[must_use]
    pub fn instruction(&self, old: u64) -> Option<u64> {
        let (start, &(len, new)) = self.code.range(..=old).next_back()?;
        (old - start < len).then(|| new + (old - start))
    }

    /// Where an instruction that calls is.
    #[must_use]
    pub fn site(&self, old: u64) -> Option<u64> {
        self.sites.get(&old).copied().or_else(|| self.instruction(old))
    }
}
