//! Merging: what was taken over and what was measured anew, in one profile of the new build.
//!
//! Counts say by their origin which of the two they are. A function that could not be measured keeps what was carried over.

use crate::carry::settle_around;
use relive_profile::model::{
    Call, Callee, Count, Foreign, Function, Module, SiteId, State, Target, TargetCount, Texts,
};
use std::collections::HashMap;

/// Why two profiles do not make one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UniteError {
    /// They are of different builds.
    #[error("profiles of different builds")]
    OtherBuild,
    /// They do not agree on what a function consists of.
    #[error(
        "they describe function {0} in different ways; carry the old profile over and measure with the same relive"
    )]
    OtherShape(String),
}

/// Puts into `carried`, which has counts of another build, what was counted anew in `fresh`, for all functions but those that `is_exempt`.
///
/// # Errors
/// If they are of different builds, or one describes a function in another way than the other.
pub fn unite(
    carried: &Module,
    fresh: &Module,
    is_exempt: &dyn Fn(u64) -> bool,
) -> Result<Module, UniteError> {
    if carried.build_id != fresh.build_id {
        return Err(UniteError::OtherBuild);
    }
    let mut merged = carried.clone();
    let fresh_at: HashMap<u64, &Function> = fresh.functions.iter().map(|f| (f.address, f)).collect();
    let sites: HashMap<u64, SiteId> =
        merged.sites.iter().zip(0..).map(|(site, i)| (site.address, SiteId::new(i))).collect();
    let mut calls_measured: Vec<u64> = Vec::new();
    for function in &mut merged.functions {
        if is_exempt(function.address) {
            continue;
        }
        let Some(&measured) = fresh_at.get(&function.address).filter(|f| !f.state.is_not_measured()) else {
            continue;
        };
        let is_whole = measured.state == State::Measured;
        if is_whole && (function.state.is_not_measured() || !same_edges(function, measured)) {
            // Who measured it knows best where its jumps lead.
            *function = adopted(function, measured, fresh, &mut merged.texts, &sites);
        } else if same_blocks(function, measured) {
            take(function, measured);
        } else {
            return Err(UniteError::OtherShape(fresh.name(measured).to_owned()));
        }
        calls_measured.extend(measured.calls.iter().map(|call| call.address));
    }
    calls_measured.sort_unstable();
    take_targets(&mut merged, fresh, &calls_measured);
    merged.runs = fresh.runs;
    merged.first_run = fresh.first_run;
    merged.last_run = fresh.last_run;
    Ok(merged)
}

/// Whether two descriptions are of the same blocks.
fn same_blocks(one: &Function, other: &Function) -> bool {
    one.blocks.len() == other.blocks.len()
        && one.blocks.iter().zip(&other.blocks).all(|(a, b)| a.address == b.address)
}

/// Whether they are of the same edges too.
fn same_edges(one: &Function, other: &Function) -> bool {
    same_blocks(one, other)
        && one.edges.len() == other.edges.len()
        && one.edges.iter().zip(&other.edges).all(|(a, b)| (a.from, a.to, a.kind) == (b.from, b.to, b.kind))
}

/// Takes over what was counted. Where that is only some blocks, edges are settled anew around them.
fn take(function: &mut Function, measured: &Function) {
    if measured.state == State::Measured {
        for (block, measured) in function.blocks.iter_mut().zip(&measured.blocks) {
            block.count = measured.count;
        }
        for (edge, measured) in function.edges.iter_mut().zip(&measured.edges) {
            edge.count = measured.count;
        }
        return;
    }
    let some: Vec<(u32, Count)> =
        (0..).zip(&measured.blocks).filter_map(|(i, block)| Some((i, block.count?))).collect();
    settle_around(function, &some);
}

/// A function that the old build could not measure, as it was measured now.
fn adopted(
    function: &Function,
    measured: &Function,
    fresh: &Module,
    texts: &mut Texts,
    sites: &HashMap<u64, SiteId>,
) -> Function {
    let mut called = |call: &Call| {
        let callee = match call.callee {
            Callee::Direct { address, name } => {
                Callee::Direct { address, name: texts.intern(fresh.text(name)) }
            }
            Callee::Import { name } => Callee::Import { name: texts.intern(fresh.text(name)) },
            Callee::Indirect { .. } => Callee::Indirect { site: sites.get(&call.address).copied() },
        };
        Call { callee, ..*call }
    };
    let calls = measured.calls.iter().map(&mut called).collect();
    let approximate = measured.approximate.map(|why| texts.intern(fresh.text(why)));
    let mut all = Function { name: function.name, calls, approximate, called: false, ..measured.clone() };
    // Which source files there are, either profile numbers for itself.
    let lines: HashMap<u64, _> = function.blocks.iter().map(|block| (block.address, block.line)).collect();
    for block in &mut all.blocks {
        block.counter = None;
        block.line = lines.get(&block.address).copied().flatten();
    }
    all.edges.iter_mut().for_each(|edge| edge.counter = None);
    for looped in &mut all.loops {
        looped.line = all.blocks.get(looped.header as usize).and_then(|block| block.line);
    }
    all
}

/// Takes over where indirect calls of measured functions led. `measured` has the addresses of their calls, ascending.
fn take_targets(merged: &mut Module, fresh: &Module, measured: &[u64]) {
    let known: HashMap<u64, &[TargetCount]> = fresh
        .sites
        .iter()
        .filter(|site| measured.binary_search(&site.address).is_ok())
        .map(|site| (site.address, site.targets.as_slice()))
        .collect();
    let foreign = &mut merged.foreign;
    for site in &mut merged.sites {
        if let Some(targets) = known.get(&site.address) {
            site.targets = targets.iter().map(|target| translated(*target, fresh, foreign)).collect();
        }
    }
}

/// A target with the number that the other profile has for its module.
fn translated(target: TargetCount, fresh: &Module, foreign: &mut Vec<Foreign>) -> TargetCount {
    let Target::Foreign { module, address } = target.target else { return target };
    let Some(named) = fresh.foreign.get(module as usize) else { return target };
    let number = foreign.iter().position(|known| known == named).unwrap_or_else(|| {
        foreign.push(named.clone());
        foreign.len() - 1
    });
    TargetCount { target: Target::Foreign { module: number as u32, address }, ..target }
}
