//! Our own way to tell what holds: by price, and by a cheap run of the new build.
//!
//! Static analyses ask what a change *could* affect; soundly, that is nearly everything. But what is worth asking about is
//! little: most entries of a profile cost next to nothing to count (`price`), so they are counted, whether they hold or
//! not. What is left are a few functions in which the program spends its time. Of these the new build is asked: it is run on one input, the
//! cheapest, that the old build was measured on too, and their entries are counted. What counts the same there, although code around it changed, is taken
//! to hold for other inputs as well; what counts something else is measured. Where that run says nothing, because it did not
//! come there, functions with changes are measured and others are not; of the few, only blocks that changed themselves.
//!
//! What does not hold may be just what costs most. Then measuring it saves nothing over measuring everything; so no more than a share of
//! what that costs is spent on it, and the dearest entries stay as they were ([`Decision::dear`]): few, and the plan names them.

use super::behaviour::Behaviour;
use super::discriminate::{Decision, Why};
use super::entries::{self, Entry};
use super::price::{self, Budget};
use relive_impact::{Affected, Blocks, Builds};
use relive_profile::model::{Function, Module, State};
use std::collections::{BinaryHeap, HashMap, HashSet};

/// A run of the new build on some input, and what was expected of it.
pub struct Check<'a> {
    /// What the old build did on the same input, carried over.
    pub carried: &'a Module,
    /// What the new build did. Entries that it does not count say nothing.
    pub fresh: &'a Module,
}

/// What is known of the new build before anything of it is measured.
pub struct Known<'a> {
    /// Both builds.
    pub builds: &'a Builds<'a>,
    /// Functions with changes.
    pub changed: &'a Affected,
    /// Blocks of the new build that changed.
    pub blocks: &'a Blocks,
    /// The old profile, carried over.
    pub carried: &'a Module,
    /// What the profile is about.
    pub behaviours: &'a [&'a Behaviour],
    /// What is cheap enough to be counted in any case.
    pub budget: Budget,
}

/// What a check has to count of the new build, by addresses of functions and blocks: entries that are not counted in any case.
#[must_use]
pub fn candidates(carried: &Module, behaviours: &[&Behaviour], budget: Budget) -> HashMap<u64, HashSet<u64>> {
    let of = |function: &Function| -> HashSet<u64> {
        let entries = behaviours.iter().flat_map(|behaviour| entries::of(function, behaviour.about));
        let dear = entries.filter(|&entry| !budget.allows(function, entry, false));
        dear.filter_map(|entry| Some(function.blocks[entry.block(function)? as usize].address)).collect()
    };
    let all = carried.functions.iter().map(|function| (function.address, of(function)));
    all.filter(|(_, blocks)| !blocks.is_empty()).collect()
}

impl Known<'_> {
    /// What becomes of each function of the new build, by checks.
    #[must_use]
    pub fn check(&self, checks: &[Check<'_>]) -> Vec<Decision> {
        let checks: Vec<[ByAddress<'_>; 2]> =
            checks.iter().map(|check| [check.carried, check.fresh].map(by_address)).collect();
        let mut decisions: Vec<Decision> = (0..)
            .zip(&self.builds.new.functions)
            .map(|(new, function)| {
                let runs: Vec<(&Function, &Function)> = checks
                    .iter()
                    .filter_map(|[carried, fresh]| {
                        Some((*carried.get(&function.address)?, *fresh.get(&function.address)?))
                    })
                    .collect();
                self.decide(new, &runs)
            })
            .collect();
        self.afford(&mut decisions);
        for (decision, expected) in decisions.iter_mut().zip(&self.carried.functions) {
            self.watch(expected, decision);
        }
        decisions
    }

    /// Does without what is dearest, until the rest may be afforded: of the function that costs most, the entry that does. What then still fits is
    /// measured after all, the cheapest first.
    fn afford(&self, decisions: &mut [Decision]) {
        let mut costs: Vec<Cost> = (0..)
            .zip(decisions.iter().zip(&self.carried.functions))
            .filter(|(_, (decision, _))| !decision.again.is_empty())
            .map(|(number, (decision, function))| Cost::of(number, decision, function))
            .collect();
        let mut all: u128 = costs.iter().map(|cost| u128::from(cost.now())).sum();
        let objections: HashMap<usize, Option<Why>> =
            costs.iter().map(|cost| (cost.function, decisions[cost.function].measure)).collect();
        let mut left: Vec<(u64, usize, Entry)> = Vec::new();
        let mut dearest: BinaryHeap<(u64, usize)> = costs.iter().map(Cost::now).zip(0..).collect();
        while all > self.budget.limit
            && let Some((before, i)) = dearest.pop()
        {
            let cost = &mut costs[i];
            let Some((own, entry)) = cost.entries.pop() else { continue };
            cost.sum = cost.sum.saturating_sub(own);
            decisions[cost.function].do_without(entry);
            let now = cost.now();
            all -= u128::from(before - now);
            dearest.push((now, i));
            left.push((own, i, entry));
        }
        left.sort_unstable();
        for (own, i, entry) in left {
            let cost = &mut costs[i];
            let (before, sum) = (cost.now(), cost.sum);
            cost.sum = sum.saturating_add(own);
            cost.entries.push((own, entry));
            let more = u128::from(cost.now() - before);
            if all + more > self.budget.limit {
                cost.sum = sum;
                cost.entries.pop();
                continue;
            }
            all += more;
            decisions[cost.function].take_back(entry, objections[&cost.function]);
        }
    }

    fn decide(&self, new: u32, runs: &[(&Function, &Function)]) -> Decision {
        let Self { builds, changed, behaviours, .. } = self;
        let function = &builds.new.functions[new as usize];
        let expected = &self.carried.functions[new as usize];
        let is_spared = self.budget.spares(expected);
        let mut decision = Decision::open();
        let old = builds.old_function(new);
        let measured = old.is_some_and(|old| builds.old.functions[old as usize].state == State::Measured);
        let is_changed = old.is_none_or(|old| changed.old.touches(old)) || changed.new.touches(new);
        let is_touched = |entry: Entry| {
            let block = entry.block(function).is_some_and(|block| self.blocks.contains(new, block));
            block && entry.count(expected).is_none_or(|count| count > 0)
        };
        for entry in behaviours.iter().flat_map(|behaviour| entries::of(function, behaviour.about)) {
            let told: Vec<(u64, u64)> = runs
                .iter()
                .filter_map(|(carried, fresh)| Some((entry.count(carried)?, entry.count(fresh)?)))
                .filter(|&(carried, fresh)| carried != 0 || fresh != 0)
                .collect();
            let objection = if told.iter().any(|(carried, fresh)| carried != fresh) {
                Some(Why::Differs)
            } else if !told.is_empty() || !is_changed || is_spared && !is_touched(entry) {
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

    /// Has entries counted that hold, if that costs next to nothing. What never ran in a function that need not be measured is not worth rewriting.
    fn watch(&self, expected: &Function, decision: &mut Decision) {
        let is_moved = decision.measure.is_some();
        let has_run = expected.entries().is_some_and(|count| count.value() > 0);
        let cheap = |entry: &&Entry| self.budget.allows(expected, **entry, is_moved);
        let watched: Vec<Entry> = decision.reusable.iter().filter(cheap).copied().collect();
        if is_moved || has_run {
            watched.into_iter().for_each(|entry| decision.watch(entry));
        }
    }
}

/// What it costs to measure what does not hold of a function.
struct Cost {
    function: usize,
    /// By what each costs, the dearest last.
    entries: Vec<(u64, Entry)>,
    /// What all of them cost.
    sum: u64,
    /// What it costs to measure everything.
    whole: u64,
}

impl Cost {
    fn of(number: usize, decision: &Decision, function: &Function) -> Self {
        let mut entries: Vec<(u64, Entry)> =
            decision.again.iter().map(|&entry| (price::of(function, entry), entry)).collect();
        entries.sort_unstable();
        Self {
            function: number,
            sum: entries.iter().map(|entry| entry.0).fold(0, u64::saturating_add),
            entries,
            whole: price::whole(function),
        }
    }

    /// Without what has been left out.
    fn now(&self) -> u64 {
        if self.entries.is_empty() { 0 } else { self.sum.min(self.whole) }
    }
}

/// Functions by where they begin.
type ByAddress<'m> = HashMap<u64, &'m Function>;

fn by_address(module: &Module) -> ByAddress<'_> {
    module.functions.iter().map(|function| (function.address, function)).collect()
}
