//! A set of basic blocks of a module.

use relive_profile::model::Module;

/// Which basic blocks of a module: for each function, whether each of its blocks is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks(Vec<Vec<bool>>);

impl Blocks {
    /// None of a module's.
    #[must_use]
    pub fn none(module: &Module) -> Self {
        Self(module.functions.iter().map(|function| vec![false; function.blocks.len()]).collect())
    }

    /// All of a module's.
    #[must_use]
    pub fn all(module: &Module) -> Self {
        Self(module.functions.iter().map(|function| vec![true; function.blocks.len()]).collect())
    }

    /// Takes a block out.
    pub fn remove(&mut self, function: u32, block: u32) {
        if let Some(held) =
            self.0.get_mut(function as usize).and_then(|blocks| blocks.get_mut(block as usize))
        {
            *held = false;
        }
    }

    /// Puts a block in; whether it was not there before.
    pub fn insert(&mut self, function: u32, block: u32) -> bool {
        self.0
            .get_mut(function as usize)
            .and_then(|blocks| blocks.get_mut(block as usize))
            .is_some_and(|held| !std::mem::replace(held, true))
    }

    /// Puts in what another set of the same module has.
    pub fn extend(&mut self, other: &Self) {
        for (own, others) in self.0.iter_mut().zip(&other.0) {
            own.iter_mut().zip(others).for_each(|(own, other)| *own |= other);
        }
    }

    /// Leaves only what another set of the same module has too.
    pub fn retain(&mut self, other: &Self) {
        for (own, others) in self.0.iter_mut().zip(&other.0) {
            own.iter_mut().zip(others).for_each(|(own, other)| *own &= other);
        }
    }

    /// Puts all blocks of a function in.
    pub fn insert_function(&mut self, function: u32) {
        if let Some(blocks) = self.0.get_mut(function as usize) {
            blocks.fill(true);
        }
    }

    /// Takes all blocks of a function out.
    pub fn remove_function(&mut self, function: u32) {
        if let Some(blocks) = self.0.get_mut(function as usize) {
            blocks.fill(false);
        }
    }

    /// Whether a block is in.
    #[must_use]
    pub fn contains(&self, function: u32, block: u32) -> bool {
        self.0.get(function as usize).and_then(|blocks| blocks.get(block as usize)).is_some_and(|&held| held)
    }

    /// Whether any block of a function is in.
    #[must_use]
    pub fn touches(&self, function: u32) -> bool {
        self.0.get(function as usize).is_some_and(|blocks| blocks.contains(&true))
    }

    /// Every block that is in: function and block.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.0.iter().zip(0..).flat_map(|(blocks, function)| {
            blocks.iter().zip(0..).filter(|(held, _)| **held).map(move |(_, block)| (function, block))
        })
    }

    /// How many are in.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether none is in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}
