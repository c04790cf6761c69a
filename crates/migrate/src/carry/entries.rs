//! Functions are entered as often as they are called: those no old build has, and those that are called more or less
//! often in the new one, because calls were inlined or no longer are.

use super::evidence::{Evidence, Seen};
use super::{Likelihood, Old, is_open, settle};
use rayon::prelude::*;
use relive_profile::model::{Callee, Confidence, Count, EdgeKind, Function, Module, Origin, Target};

/// How far a chain of new functions that call each other is followed.
const MOST_ROUNDS: usize = 16;

/// What a call says about how often its target is entered.
const CALLED: Confidence = Confidence::new(60);

/// Calls that are this sure are surer than what the function itself was measured to do in another build.
const SURE: f64 = 85.0;

/// How often it is tried to make functions and their calls agree: each time, those that are one call further away.
const MOST_AGREEING: usize = 6;

/// Makes functions agree with their calls. Which functions are only ever called in ways the profile tells of, the old build
/// knows: there, entries and calls are equal.
pub(super) fn agree(new: &mut Module, olds: &[&Old<'_>], all: &[Evidence], likely: &Likelihood<'_>) {
    let mut told = vec![false; new.functions.len()];
    let now = calls(new, |_| true);
    for old in olds {
        let calls = calls(old.module, |_| true);
        for pair in &old.matching.procedures {
            let i = pair.pair.old as usize;
            let entries = old.module.functions[i].entries().map(Count::value);
            // If it is called from as many places as before, it is called as often as before; that its callers seem
            // to say something else is more likely their mistake.
            let moved = calls[i].places != now[pair.pair.new as usize].places;
            told[pair.pair.new as usize] = moved && entries.is_some_and(|entries| entries == calls[i].count);
        }
    }
    for _ in 0..MOST_AGREEING {
        let calls = calls(new, |_| true);
        let again: Vec<(usize, super::Counts)> = new
            .functions
            .par_iter()
            .enumerate()
            .filter(|&(i, function)| told[i] && all[i].is_any() && is_open(function))
            .filter_map(|(i, function)| {
                let entries = function.entries()?;
                let called = &calls[i];
                let surer = called.confidence() >= SURE
                    || called.confidence() > f64::from(entries.confidence.percent());
                if called.count == entries.value() || !surer {
                    return None;
                }
                let never = entries.value() == 0 && function.executed_insns() == 0;
                let counts = if never {
                    // It did not run before, so nothing is known of what it does when it does.
                    entered(function, called.count, &all[i].odds, &|| likely(i))?
                } else {
                    let evidence = scaled(function, &all[i], called.count, called.confidence() as u8)?;
                    settle::settle(function, &evidence, &|| likely(i))
                };
                Some((i, counts))
            })
            .collect();
        if again.is_empty() {
            break;
        }
        for (i, counts) in again {
            counts.put(&mut new.functions[i]);
        }
    }
}

/// The counts of a function of which only is known that it is called so often.
fn entered(
    function: &Function,
    entries: u64,
    odds: &[Option<f64>],
    likely: &dyn Fn() -> Vec<f64>,
) -> Option<super::Counts> {
    let edge = function.edges.iter().position(|edge| {
        let first = |b: u32| function.blocks[b as usize].address == function.address;
        edge.kind == EdgeKind::Enter && edge.to.as_block().is_some_and(first)
    })?;
    let mut evidence = Evidence { odds: odds.to_vec(), ..Evidence::nothing(function) };
    // However unsure it is, there is nothing better.
    let confidence = settle::BELIEVED;
    evidence.edges[edge] = Some(Seen { count: entries, origin: Origin::Inferred, confidence });
    let mut counts = settle::settle(function, &evidence, likely);
    counts.edges[edge].confidence = CALLED;
    Some(counts)
}

/// The evidence of a function if it is entered `entries` times.
fn scaled(function: &Function, evidence: &Evidence, entries: u64, percent: u8) -> Option<Evidence> {
    let enter = |i: &usize| function.edges[*i].kind == EdgeKind::Enter;
    let edges: Vec<usize> = (0..function.edges.len()).filter(enter).collect();
    let [edge] = *edges else { return None };
    let before = evidence.edges[edge].map(|seen| seen.count).filter(|&count| count > 0)?;
    let ratio = entries as f64 / before as f64;
    let scale = |seen: &Option<Seen>| {
        seen.map(|seen| Seen { count: (seen.count as f64 * ratio).round() as u64, ..seen })
    };
    let mut scaled = Evidence {
        blocks: evidence.blocks.iter().map(scale).collect(),
        edges: evidence.edges.iter().map(scale).collect(),
        odds: evidence.odds.clone(),
    };
    if let Some(seen) = &mut scaled.edges[edge] {
        seen.confidence = seen.confidence.max(Confidence::new(percent));
    }
    Some(scaled)
}

/// Gives functions that are not `known` counts that follow from those that call them.
pub(super) fn follow_calls(
    module: &mut Module,
    mut known: Vec<bool>,
    all: &[Evidence],
    likely: &Likelihood<'_>,
) {
    for _ in 0..MOST_ROUNDS {
        let calls = calls(module, |i| known[i]);
        let mut changed = false;
        for i in 0..module.functions.len() {
            let function = &module.functions[i];
            if known[i] || !is_open(function) || calls[i].count == 0 {
                continue;
            }
            if let Some(counts) = entered(function, calls[i].count, &all[i].odds, &|| likely(i)) {
                counts.put(&mut module.functions[i]);
            }
            known[i] = true;
            changed = true;
        }
        if !changed {
            break;
        }
    }
    // Nobody calls the others, as far as is known: which says as much as the share of the code that is.
    let blocks = |wanted: &dyn Fn(usize) -> bool| -> usize {
        let open = module.functions.iter().enumerate().filter(|&(i, f)| is_open(f) && wanted(i));
        open.map(|(_, function)| function.blocks.len()).sum()
    };
    let share = blocks(&|i| known[i]) as f64 / blocks(&|_| true).max(1) as f64;
    let confidence = Confidence::new((f64::from(CALLED.percent()) * share).round() as u8);
    let never = Count { raw: 0, origin: Origin::Inferred, confidence };
    for (function, known) in module.functions.iter_mut().zip(known) {
        if !known && is_open(function) {
            function.blocks.iter_mut().for_each(|block| block.count = Some(never));
            function.edges.iter_mut().for_each(|edge| edge.count = Some(never));
        }
    }
}

/// Calls of a function.
#[derive(Clone, Copy, Default)]
struct Calls {
    count: u64,
    /// How many instructions call it.
    places: u32,
    /// The sum of confidences, each as often as the call.
    sure: f64,
}

impl Calls {
    fn add(&mut self, count: Count) {
        self.count = self.count.saturating_add(count.value());
        self.sure += count.value() as f64 * f64::from(count.confidence.percent());
    }

    /// In per cent.
    fn confidence(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sure / self.count as f64 }
    }
}

/// How often each function is called by those that are `known`.
fn calls(module: &Module, known: impl Fn(usize) -> bool) -> Vec<Calls> {
    let mut calls = vec![Calls::default(); module.functions.len()];
    let index = |address: u64| module.functions.binary_search_by_key(&address, |f| f.address).ok();
    for (_, function) in module.functions.iter().enumerate().filter(|(i, _)| known(*i)) {
        for call in &function.calls {
            let made = module.call_count(function, call).unwrap_or(Count::measured(0));
            match call.callee {
                Callee::Direct { address, .. } => {
                    if let Some(i) = index(address) {
                        calls[i].places += 1;
                        calls[i].add(made);
                    }
                }
                Callee::Indirect { .. } => {
                    for target in module.targets(call.callee) {
                        if let Target::Own(address) = target.target
                            && let Some(i) = index(address)
                        {
                            calls[i].add(Count { raw: target.count, ..made });
                        }
                    }
                }
                Callee::Import { .. } => {}
            }
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_profile::model::{Block, Edge, Node, State, TextId};

    /// What is only known to be called runs as often as that.
    #[test]
    fn a_new_function_runs_as_often_as_it_is_called() {
        let mut function = Function::new(TextId::default(), 0x1000, 8, State::Measured);
        let block = |address| Block {
            address,
            size: 4,
            insns: 1,
            line: None,
            is_entry: false,
            is_landing_pad: false,
            counter: None,
            count: None,
        };
        function.blocks = vec![block(0x1000), block(0x1004)];
        let (out, b) = (Node::OUTSIDE, Node::block);
        function.edges = [
            (out, b(0), EdgeKind::Enter),
            (b(0), b(1), EdgeKind::FallThrough),
            (b(1), out, EdgeKind::Return),
        ]
        .map(|(from, to, kind)| Edge { from, to, kind, counter: None, count: None })
        .to_vec();
        let counts = entered(&function, 500, &[None; 3], &|| vec![1.0, 1.0, 1.0]).expect("it has an entry");
        assert!(counts.blocks.iter().chain(&counts.edges).all(|count| count.value() == 500));
        // How sure that is does not grow by it.
        assert_eq!(counts.edges[0].confidence, CALLED);
    }
}
