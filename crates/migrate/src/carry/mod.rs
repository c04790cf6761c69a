//! Takes the counts of old builds over to what matches in a new one.
//!
//! | step | file |
//! |---|---|
//! | what old counts say about the blocks and edges of a new function | `evidence` |
//! | how likely the ways of new branches are, by those that ask the same elsewhere | `alike` |
//! | the same where code is in another function than before | `across` |
//! | which calls are of the same function | `callees` |
//! | counts that obey conservation and follow the evidence as closely as they can | `settle` |
//! | functions no old build has: as often as they are called | `entries` |
//! | where indirect calls led | `targets` |

mod across;
mod alike;
mod callees;
mod entries;
mod evidence;
pub(crate) mod settle;
mod targets;

use evidence::{Evidence, Seen};
use rayon::prelude::*;
use relive_matching::Matching;
use relive_profile::model::{Count, Function, Module, Source, State};

/// An old build that was measured.
pub struct Old<'a> {
    /// What was counted.
    pub module: &'a Module,
    /// How it matches the new build.
    pub matching: &'a Matching,
}

/// How likely each edge of a function is taken, whatever it was measured to do: one number for each edge of the
/// function of that index, for one entry. Empty if nobody can tell.
pub type Likelihood<'a> = dyn Fn(usize) -> Vec<f64> + Sync + 'a;

/// Of two builds of which one was measured before the other, how much less the older one's word counts.
const OLDER: f64 = 0.5;

/// Carries the counts of `olds` over to `new`, which has none.
///
/// Of several old builds, the one that ran last weighs most; the others are scaled so that what both know adds up to
/// the same.
#[must_use]
pub fn carry(mut new: Module, olds: &[Old<'_>], likely: &Likelihood<'_>) -> Module {
    let mut order: Vec<&Old<'_>> = olds.iter().collect();
    order.sort_by_key(|old| std::cmp::Reverse(old.module.last_run));
    leave_unmeasured(&mut new, &order);
    let mut all: Vec<Evidence> = evidence::of(&new, &order, OLDER);
    let answers = alike::Known::learn(&order);
    let partners = partners(&new, &order);
    all.par_iter_mut().zip(new.functions.par_iter().zip(&partners)).for_each(
        |(evidence, (function, partners))| {
            answers.give(function, partners, evidence);
        },
    );
    let settled: Vec<Option<Counts>> = new
        .functions
        .par_iter()
        .zip(&all)
        .enumerate()
        .map(|(i, (function, evidence))| {
            (evidence.is_any() && is_open(function))
                .then(|| settle::settle(function, evidence, &|| likely(i)))
        })
        .collect();
    let known: Vec<bool> = settled.iter().map(Option::is_some).collect();
    for (function, counts) in new.functions.iter_mut().zip(settled) {
        if let Some(counts) = counts {
            counts.put(function);
        }
    }
    targets::carry(&mut new, &order);
    entries::agree(&mut new, &order, &all, likely);
    entries::follow_calls(&mut new, known, &all, likely);
    let runs = order.iter().map(|old| old.module.runs);
    new.runs = runs.fold(0, u64::saturating_add);
    new.first_run = order.iter().map(|old| old.module.first_run).filter(|&t| t > 0).min().unwrap_or(0);
    new.last_run = order.iter().map(|old| old.module.last_run).max().unwrap_or(0);
    new.carried = sources(&order);
    new
}

/// Puts counts of some blocks, measured since, into a function whose others were carried over, and settles its edges anew around them.
/// Counts of other blocks stay.
pub fn settle_around(function: &mut Function, measured: &[(u32, Count)]) {
    for &(block, count) in measured {
        if let Some(block) = function.blocks.get_mut(block as usize) {
            block.count = Some(count);
        }
    }
    let settled = settle::settle(function, &own_evidence(function), &Vec::new);
    for (edge, count) in function.edges.iter_mut().zip(settled.edges) {
        edge.count = Some(count);
    }
}

/// Makes the counts of a function add up, where some of them are not known and the others come from samples. `likely` has one number
/// for each edge, as in [`Likelihood`].
pub fn settle_all(function: &mut Function, likely: &[f64]) {
    settle::settle(function, &own_evidence(function), &|| likely.to_vec()).put(function);
}

/// The counts a function has, as evidence for what they should be.
fn own_evidence(function: &Function) -> Evidence {
    let seen = |count: Option<Count>| {
        let count = count?;
        Some(Seen { count: count.value(), origin: count.origin, confidence: count.confidence })
    };
    Evidence {
        blocks: function.blocks.iter().map(|block| seen(block.count)).collect(),
        edges: function.edges.iter().map(|edge| seen(edge.count)).collect(),
        odds: vec![None; function.edges.len()],
    }
}

/// What each new function was: in which build, and which function there.
fn partners(new: &Module, olds: &[&Old<'_>]) -> Vec<Vec<alike::Partner>> {
    let mut partners = vec![Vec::new(); new.functions.len()];
    for (old, build) in olds.iter().zip(0..) {
        for pair in &old.matching.procedures {
            partners[pair.pair.new as usize].push((build, pair.pair.old));
        }
    }
    partners
}

/// What no old build could measure is not known in the new one either, and for the same reason.
fn leave_unmeasured(new: &mut Module, olds: &[&Old<'_>]) {
    let mut reasons: Vec<Option<&str>> = vec![None; new.functions.len()];
    let mut measured = vec![false; new.functions.len()];
    for old in olds {
        for pair in &old.matching.procedures {
            let i = pair.pair.new as usize;
            match old.module.functions[pair.pair.old as usize].state {
                State::NotMeasured { reason } => reasons[i] = Some(old.module.text(reason)),
                _ => measured[i] = true,
            }
        }
    }
    for ((function, reason), measured) in new.functions.iter_mut().zip(reasons).zip(measured) {
        if let Some(reason) = reason.filter(|_| !measured) {
            function.state = State::NotMeasured { reason: new.texts.intern(reason) };
            function.edges.clear();
            function.cases.clear();
            function.calls.clear();
        }
    }
}

/// Whether the flow of a function is known, so that counts can be put on it.
fn is_open(function: &Function) -> bool {
    matches!(function.state, State::Measured)
}

/// Counts of one function.
struct Counts {
    blocks: Vec<Count>,
    edges: Vec<Count>,
}

impl Counts {
    fn put(self, function: &mut Function) {
        for (block, count) in function.blocks.iter_mut().zip(self.blocks) {
            block.count = Some(count);
        }
        for (edge, count) in function.edges.iter_mut().zip(self.edges) {
            edge.count = Some(count);
        }
    }
}

/// Where it all comes from: the old builds, and what those were carried from.
fn sources(olds: &[&Old<'_>]) -> Vec<Source> {
    let mut sources: Vec<Source> = Vec::new();
    for old in olds {
        let module = old.module;
        if module.carried.is_empty() {
            sources.push(Source {
                steps: 1,
                build_id: module.build_id.clone(),
                path: module.path.clone(),
                runs: module.runs,
            });
        }
        sources
            .extend(module.carried.iter().map(|s| Source { steps: s.steps.saturating_add(1), ..s.clone() }));
    }
    sources.sort_unstable();
    sources.dedup();
    sources
}
