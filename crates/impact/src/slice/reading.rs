//! Data that code may read at all: what blocks that run speak of, and what can be reached from there by pointers in data.
//!
//! Without a run to go by, that is nearly everything. With one, what only error messages or other modes of the program speak of is not.

use super::objects::Objects;
use crate::blocks::Blocks;
use relive_code::addr::LinkAddr;
use relive_code::isa::Decode;
use relive_profile::model::{Function, Module};
use std::collections::BTreeSet;

/// Who speaks of which data.
pub(super) struct Reading<'a> {
    module: &'a Module,
    objects: &'a Objects,
    /// By function and block: addresses in data.
    mentions: Vec<Vec<Vec<u64>>>,
    /// Data that is always there to be read: somebody reads it of whom nothing is known.
    always: Vec<u64>,
    /// Data blocks that no code speaks of and no other data leads to.
    alone: BTreeSet<u32>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(module: &'a Module, objects: &'a Objects) -> Self {
        let mentions: Vec<Vec<Vec<u64>>> =
            module.functions.iter().map(|function| mentions(function, objects)).collect();
        let mut reading = Self { module, objects, mentions, always: Vec::new(), alone: BTreeSet::new() };
        // What no code and no data leads to is read by the loader, or by others who know its name.
        let spoken = reading.reached(reading.mentions.iter().flatten().flatten().copied());
        let nobody = module.data.iter().zip(0..).filter(|(_, block)| !spoken.contains(block));
        reading.alone = nobody.map(|(_, number)| number).collect();
        let always = reading.alone.iter().copied().chain(objects.untold());
        reading.always = always.map(|block| module.data[block as usize].address).collect();
        reading
    }

    /// Whether no code speaks of a data block, and no other data leads to it: only the loader may know it, or other modules.
    pub(super) fn is_alone(&self, block: u32) -> bool {
        self.alone.contains(&block)
    }

    /// Data blocks that may be read if some blocks of code do not run.
    pub(super) fn by(&self, idle: &Blocks) -> BTreeSet<u32> {
        let said = self.mentions.iter().zip(0..).flat_map(|(blocks, function)| {
            let runs = move |block: &(&Vec<u64>, u32)| !idle.contains(function, block.1);
            blocks.iter().zip(0..).filter(runs).flat_map(|(said, _)| said.iter().copied())
        });
        self.reached(said.chain(self.always.iter().copied()))
    }

    /// Data blocks that can be reached from some addresses.
    fn reached(&self, from: impl Iterator<Item = u64>) -> BTreeSet<u32> {
        let mut objects: BTreeSet<u32> = BTreeSet::new();
        let mut pending: Vec<u32> = Vec::new();
        let mut lead = |at: u64, pending: &mut Vec<u32>| {
            for object in self.objects.reached(at) {
                if objects.insert(object) {
                    pending.push(object);
                }
            }
        };
        from.for_each(|at| lead(at, &mut pending));
        let mut blocks = BTreeSet::new();
        while let Some(object) = pending.pop() {
            let (first, behind) = self.objects.span(object);
            for block in first..behind {
                blocks.insert(block);
                let data = &self.module.data[block as usize];
                let pointers = &self.module.pointers;
                let from = pointers.partition_point(|pointer| pointer.at < data.address);
                let within =
                    pointers[from..].iter().take_while(|p| p.at < data.address.saturating_add(data.size));
                within.for_each(|pointer| lead(pointer.to, &mut pending));
            }
        }
        blocks
    }
}

/// What each block of a function speaks of.
fn mentions(function: &Function, objects: &Objects) -> Vec<Vec<u64>> {
    let of = |block: &relive_profile::model::Block| {
        let code = function.bytes_at(block.address, block.size.into()).unwrap_or_default();
        let insns = Decode::new(code, LinkAddr(block.address));
        let said = insns.flat_map(|insn| insn.address_constants(true).map(|at| at.0).collect::<Vec<_>>());
        said.filter(|&at| objects.holds(at) || !objects.reached(at).is_empty()).collect()
    };
    function.blocks.iter().map(of).collect()
}
