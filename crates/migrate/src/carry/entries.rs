//! Functions no old build has: they are entered as often as they are called.

use super::evidence::{Evidence, Seen};
use super::{Likelihood, is_open, settle};
use relive_profile::model::{Callee, Confidence, Count, EdgeKind, Module, Origin, Target};

/// How far a chain of new functions that call each other is followed.
const MOST_ROUNDS: usize = 16;

/// What a call says about how often its target is entered.
const CALLED: Confidence = Confidence::new(60);

/// Gives functions that are not `known` counts that follow from those that call them.
pub(super) fn follow_calls(module: &mut Module, mut known: Vec<bool>, likely: &Likelihood<'_>) {
    for _ in 0..MOST_ROUNDS {
        let calls = calls(module, &known);
        let mut changed = false;
        for i in 0..module.functions.len() {
            let function = &module.functions[i];
            if known[i] || !is_open(function) || calls[i] == 0 {
                continue;
            }
            let mut evidence = Evidence {
                blocks: vec![None; function.blocks.len()],
                edges: vec![None; function.edges.len()],
            };
            let entry = function.edges.iter().position(|edge| {
                edge.kind == EdgeKind::Enter
                    && edge
                        .to
                        .as_block()
                        .is_some_and(|b| function.blocks[b as usize].address == function.address)
            });
            if let Some(entry) = entry {
                let seen = Seen { count: calls[i], origin: Origin::Inferred, confidence: CALLED };
                evidence.edges[entry] = Some(seen);
            }
            settle::settle(function, &evidence, &likely(i)).put(&mut module.functions[i]);
            known[i] = true;
            changed = true;
        }
        if !changed {
            break;
        }
    }
    // Nobody calls the others, as far as is known.
    let never = Count { raw: 0, origin: Origin::Inferred, confidence: CALLED };
    for (function, known) in module.functions.iter_mut().zip(known) {
        if !known && is_open(function) {
            function.blocks.iter_mut().for_each(|block| block.count = Some(never));
            function.edges.iter_mut().for_each(|edge| edge.count = Some(never));
        }
    }
}

/// How often each function is called by those that are known.
fn calls(module: &Module, known: &[bool]) -> Vec<u64> {
    let mut calls = vec![0u64; module.functions.len()];
    let index = |address: u64| module.functions.binary_search_by_key(&address, |f| f.address).ok();
    for (function, _) in module.functions.iter().zip(known).filter(|(_, known)| **known) {
        for call in &function.calls {
            match call.callee {
                Callee::Direct { address, .. } => {
                    if let Some(i) = index(address) {
                        let count = module.call_count(function, call).map_or(0, Count::value);
                        calls[i] = calls[i].saturating_add(count);
                    }
                }
                Callee::Indirect { .. } => {
                    for target in module.targets(call.callee) {
                        if let Target::Own(address) = target.target
                            && let Some(i) = index(address)
                        {
                            calls[i] = calls[i].saturating_add(target.count);
                        }
                    }
                }
                Callee::Import { .. } => {}
            }
        }
    }
    calls
}
