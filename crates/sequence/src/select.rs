//! What a recording would have had in which some functions are exempt.

use crate::builder::{Builder, Stack};
use crate::model::{Call, NONE, Sequence, Site, Step};
use std::collections::BTreeSet;

/// Leaves out of a whole sequence what functions of a build call, by address: what `relive analyze calls --except` writes down.
#[must_use]
pub fn select(sequence: &Sequence, build_id: &str, exempt: &BTreeSet<u64>) -> Sequence {
    let mut builder = Builder::default();
    let modules: Vec<u32> = sequence.modules.iter().map(|module| builder.module(module)).collect();
    let module_of = |module: u32| modules.get(module as usize).copied().unwrap_or(NONE);
    let functions: Vec<u32> = sequence
        .functions
        .iter()
        .map(|f| builder.function(module_of(f.module), f.address, f.name.as_deref()))
        .collect();
    let build = sequence.modules.iter().position(|module| module.build_id == build_id);
    if let Some(module) = build.map(|build| modules[build]) {
        for &address in exempt {
            let function = builder.function(module, address, None);
            builder.exempt(function);
        }
    }
    let sites: Vec<u32> = sequence
        .sites
        .iter()
        .map(|site| builder.site(Site { module: module_of(site.module), ..*site }))
        .collect();
    for thread in &sequence.threads {
        let [calls, handlers] = [thread.calls, thread.handlers].map(|list| {
            let mut stack = Stack::default();
            for step in sequence.steps(list) {
                match step {
                    Step::Leave => builder.leave(&mut stack),
                    Step::Enter(Call { site, body }) => {
                        let body = &sequence.bodies[body as usize];
                        let function = functions[body.function as usize];
                        builder.enter(&mut stack, sites[site as usize], function, body.origin);
                    }
                }
            }
            stack
        });
        builder.thread(thread.process, thread.thread, calls, handlers);
    }
    builder.finish()
}
