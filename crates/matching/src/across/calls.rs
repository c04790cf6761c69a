//! Who calls whom.

use super::splice::caller;
use rayon::prelude::*;
use relive_profile::model::{Callee, Function, Module};

/// A call of a function of the same module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// Its index among the calls of its function.
    pub(super) call: u32,
    /// The block that makes it.
    pub(super) block: u32,
    /// The procedure it calls.
    pub(super) callee: u32,
}

/// The calls of each function.
pub(super) fn of(module: &Module) -> Vec<Vec<Site>> {
    module.functions.par_iter().map(|function| sites(module, function)).collect()
}

fn sites(module: &Module, function: &Function) -> Vec<Site> {
    let mut sites = Vec::new();
    for (call, number) in function.calls.iter().zip(0..) {
        if let Callee::Direct { address, .. } = call.callee
            && let Ok(callee) = module.functions.binary_search_by_key(&address, |f| f.address)
            && let Some(block) = caller(function, call)
        {
            sites.push(Site { call: number, block, callee: callee as u32 });
        }
    }
    sites
}
