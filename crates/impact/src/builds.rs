//! Two builds side by side, and who of one is the partner of whom of the other.

use relive_matching::{BlockPair, Matching};
use relive_profile::model::{DataBlock, Function, Module};

/// An old build, a new one, and the map between them.
pub struct Builds<'a> {
    /// The old one.
    pub old: &'a Module,
    /// The new one.
    pub new: &'a Module,
    /// What of the old one is in the new one.
    pub matching: &'a Matching,
    /// For each new function, where its pair is in the matching.
    of_new: Vec<Option<u32>>,
    /// The same for each old one.
    of_old: Vec<Option<u32>>,
    /// For each new data block, its partner.
    data: Vec<Option<u32>>,
    /// Whether numbers in code may be addresses: it was linked for fixed ones.
    pub(crate) are_fixed: bool,
}

/// Code that is linked for a fixed address lies far above; other code begins in the first pages.
const FIXED: u64 = 0x1_0000;

impl<'a> Builds<'a> {
    /// Puts them side by side.
    #[must_use]
    pub fn new(old: &'a Module, new: &'a Module, matching: &'a Matching) -> Self {
        let mut of_new = vec![None; new.functions.len()];
        let mut of_old = vec![None; old.functions.len()];
        for (pair, i) in matching.procedures.iter().zip(0..) {
            of_new[pair.pair.new as usize] = Some(i);
            of_old[pair.pair.old as usize] = Some(i);
        }
        let mut data = vec![None; new.data.len()];
        for pair in &matching.data {
            data[pair.new as usize] = Some(pair.old);
        }
        let lowest = |module: &Module| module.functions.iter().map(|f| f.address).min().unwrap_or(0);
        let are_fixed = lowest(old).min(lowest(new)) >= FIXED;
        Self { old, new, matching, of_new, of_old, data, are_fixed }
    }

    /// The old partner of a new function.
    #[must_use]
    pub fn old_function(&self, new: u32) -> Option<u32> {
        let pair = (*self.of_new.get(new as usize)?)?;
        Some(self.matching.procedures[pair as usize].pair.old)
    }

    /// The new partner of an old function.
    #[must_use]
    pub fn new_function(&self, old: u32) -> Option<u32> {
        let pair = (*self.of_old.get(old as usize)?)?;
        Some(self.matching.procedures[pair as usize].pair.new)
    }

    /// The blocks of a new function that have partners, by the new one.
    #[must_use]
    pub fn blocks(&self, new: u32) -> &[BlockPair] {
        match self.of_new.get(new as usize) {
            Some(&Some(pair)) => &self.matching.procedures[pair as usize].blocks,
            _ => &[],
        }
    }

    /// The old partner of a new data block.
    #[must_use]
    pub fn old_data(&self, new: u32) -> Option<u32> {
        *self.data.get(new as usize)?
    }

    /// Whether two addresses mean the same: the same place in partners.
    #[must_use]
    pub fn same_place(&self, old: u64, new: u64) -> bool {
        match (place(self.old, old), place(self.new, new)) {
            (Some(Place::Function(a, in_a)), Some(Place::Function(b, in_b))) => {
                self.old_function(b) == Some(a) && (in_a == 0) == (in_b == 0)
            }
            (Some(Place::Data(a, in_a)), Some(Place::Data(b, in_b))) => {
                self.old_data(b) == Some(a) && in_a == in_b
            }
            _ => false,
        }
    }

    /// Whether an address is anywhere in code or data of either.
    #[must_use]
    pub fn is_place(&self, old: u64, new: u64) -> bool {
        place(self.old, old).is_some() || place(self.new, new).is_some()
    }
}

/// Where an address leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Into a function, so many bytes from its start.
    Function(u32, u64),
    /// Into a data block, so many bytes from its start.
    Data(u32, u64),
}

/// Where in the module an address leads.
pub(crate) fn place(module: &Module, address: u64) -> Option<Place> {
    let before = |count: usize| u32::try_from(count.checked_sub(1)?).ok();
    let holds = |start: u64, size: u64| address.checked_sub(start).filter(|&offset| offset < size.max(1));
    let data = before(module.data.partition_point(|d: &DataBlock| d.address <= address));
    if let Some((i, offset)) = data.and_then(|i| {
        let block = &module.data[i as usize];
        holds(block.address, block.size).map(|offset| (i, offset))
    }) {
        return Some(Place::Data(i, offset));
    }
    let function = before(module.functions.partition_point(|f: &Function| f.address <= address))?;
    let start = &module.functions[function as usize];
    holds(start.address, start.size).map(|offset| Place::Function(function, offset))
}
