//! Which calls of two builds are of the same function.

use super::Old;
use hashbrown::HashMap;
use relive_profile::model::{CalledBy, Callee, Function, Module};

/// What each block of a function calls, if that is one function.
pub(super) fn of(function: &Function) -> Vec<Option<Callee>> {
    let mut callees = vec![None; function.blocks.len()];
    for call in &function.calls {
        if let (CalledBy::Block(block), Callee::Direct { .. } | Callee::Import { .. }) =
            (call.by, call.callee)
        {
            callees[block as usize] = Some(call.callee);
        }
    }
    callees
}

/// The functions of two builds.
pub(super) struct Both<'a> {
    old: &'a Module,
    new: &'a Module,
    /// By the address of the old one, that of the new one.
    partner: HashMap<u64, u64>,
}

impl<'a> Both<'a> {
    pub(super) fn new(old: &Old<'a>, new: &'a Module) -> Self {
        let pairs = old.matching.procedures.iter().map(|found| {
            let (before, now) =
                (&old.module.functions[found.pair.old as usize], &new.functions[found.pair.new as usize]);
            (before.address, now.address)
        });
        Self { old: old.module, new, partner: pairs.collect() }
    }

    /// Whether an old call and a new one are of the same function.
    pub(super) fn same(&self, old: Callee, new: Callee) -> bool {
        match (old, new) {
            (Callee::Direct { address: old, .. }, Callee::Direct { address: new, .. }) => {
                self.partner.get(&old) == Some(&new)
            }
            (Callee::Import { name: old }, Callee::Import { name: new }) => {
                self.old.text(old) == self.new.text(new)
            }
            _ => false,
        }
    }
}
