//! Merging: what was taken over and what was measured anew, in one profile of the new build.

use relive_profile::model::{Function, Module, State, TargetCount};
use std::collections::HashMap;

/// Why two profiles do not make one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UniteError {
    /// They are of different builds.
    #[error("profiles of different builds")]
    OtherBuild,
    /// A function that the plan wants measured was not.
    #[error("function {0} was to be measured and was not; run the program that was made with this plan")]
    NotMeasured(String),
}

/// Puts into `carried`, which has counts of another build, what was counted anew in `fresh`, for all functions but those that `is_exempt`.
///
/// A function that could not be measured keeps its carried counts, which say so by their origin.
///
/// # Errors
/// If they are of different builds, or nothing was measured that should have been.
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
    let mut sites: HashMap<u64, &[TargetCount]> = HashMap::new();
    for function in &mut merged.functions {
        if is_exempt(function.address) {
            continue;
        }
        let Some(measured) = fresh_at.get(&function.address).filter(|f| f.state == State::Measured) else {
            continue;
        };
        if !same_shape(function, measured) {
            let name = fresh.name(measured).to_owned();
            return Err(UniteError::NotMeasured(name));
        }
        take(function, measured);
        for site in
            fresh.sites.iter().filter(|site| measured.calls.iter().any(|call| call.address == site.address))
        {
            sites.insert(site.address, &site.targets);
        }
    }
    for site in &mut merged.sites {
        if let Some(targets) = sites.get(&site.address) {
            site.targets = targets.to_vec();
        }
    }
    merged.runs = fresh.runs;
    merged.first_run = fresh.first_run;
    merged.last_run = fresh.last_run;
    Ok(merged)
}

/// Whether two descriptions are of the same blocks and edges.
fn same_shape(one: &Function, other: &Function) -> bool {
    one.blocks.len() == other.blocks.len()
        && one.edges.len() == other.edges.len()
        && one.blocks.iter().zip(&other.blocks).all(|(a, b)| a.address == b.address)
        && one.edges.iter().zip(&other.edges).all(|(a, b)| (a.from, a.to, a.kind) == (b.from, b.to, b.kind))
}

fn take(function: &mut Function, measured: &Function) {
    for (block, measured) in function.blocks.iter_mut().zip(&measured.blocks) {
        block.count = measured.count;
    }
    for (edge, measured) in function.edges.iter_mut().zip(&measured.edges) {
        edge.count = measured.count;
    }
    function.approximate = None;
}
