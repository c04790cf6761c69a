//! Our own way to tell what holds: by a cheap run of the new build, measured in full.
//!
//! Static analyses ask what a change *could* affect; soundly, that is nearly everything. Here the new build is run on one input,
//! the cheapest, that the old build was measured on too. What counts the same there, although code around it changed, is
//! taken to hold for other inputs as well; what counts something else is measured. Where that run says nothing, because it did not
//! come there, functions with changes are measured and others are not.

use super::behaviour::Behaviour;
use super::discriminate::{Decision, Why};
use super::entries;
use relive_impact::{Affected, Builds};
use relive_profile::model::{Function, Module, State};
use std::collections::HashMap;

/// A run of the new build on some input, and what was expected of it.
pub struct Check<'a> {
    /// What the old build did on the same input, carried over.
    pub carried: &'a Module,
    /// What the new build did.
    pub fresh: &'a Module,
}

/// What becomes of each function of the new build, by checks.
///
/// `changed` has the functions with changes.
#[must_use]
pub fn check(
    builds: &Builds<'_>,
    changed: &Affected,
    behaviours: &[&Behaviour],
    checks: &[Check<'_>],
) -> Vec<Decision> {
    let checks: Vec<[ByAddress<'_>; 2]> =
        checks.iter().map(|check| [check.carried, check.fresh].map(by_address)).collect();
    (0..)
        .zip(&builds.new.functions)
        .map(|(new, function)| {
            let runs: Vec<(&Function, &Function)> = checks
                .iter()
                .filter_map(|[carried, fresh]| {
                    Some((*carried.get(&function.address)?, *fresh.get(&function.address)?))
                })
                .collect();
            decide(builds, changed, behaviours, new, &runs)
        })
        .collect()
}

/// Functions by where they begin.
type ByAddress<'m> = HashMap<u64, &'m Function>;

fn by_address(module: &Module) -> ByAddress<'_> {
    module.functions.iter().map(|function| (function.address, function)).collect()
}

fn decide(
    builds: &Builds<'_>,
    changed: &Affected,
    behaviours: &[&Behaviour],
    new: u32,
    runs: &[(&Function, &Function)],
) -> Decision {
    let function = &builds.new.functions[new as usize];
    let mut decision = Decision::open();
    let all = || behaviours.iter().flat_map(|behaviour| entries::of(function, behaviour.about));
    let old = builds.old_function(new);
    let measured = old.is_some_and(|old| builds.old.functions[old as usize].state == State::Measured);
    let is_changed = old.is_none_or(|old| changed.old.touches(old)) || changed.new.touches(new);
    for entry in all() {
        let told: Vec<(u64, u64)> = runs
            .iter()
            .filter_map(|(carried, fresh)| Some((entry.count(carried)?, entry.count(fresh)?)))
            .filter(|&(carried, fresh)| carried != 0 || fresh != 0)
            .collect();
        let objection = if told.iter().any(|(carried, fresh)| carried != fresh) {
            Some(Why::Differs)
        } else if !told.is_empty() || !is_changed {
            None
        } else if old.is_none() {
            Some(Why::New)
        } else {
            Some(Why::Affected)
        };
        decision.note(entry, objection.or((!measured && old.is_some()).then_some(Why::NotMeasured)));
    }
    decision
}
