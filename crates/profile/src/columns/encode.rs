//! Model to columns: all but the code.

use super::{Delta, TARGET_FOREIGN, TARGET_GENERATED, TARGET_OWN, origin_number};
use crate::model::{Confidence, Count, Module, Target};
use crate::proto;

/// A module with its counts, without its code.
pub(crate) fn module(module: &Module) -> proto::Module {
    let blocks = || module.functions.iter().flat_map(|f| f.blocks.iter().map(|block| block.count));
    let edges = || module.functions.iter().flat_map(|f| f.edges.iter().map(|edge| edge.count));
    let explicit = module.layout.counters == 0;
    proto::Module {
        code: Vec::new(),
        path: module.path.clone(),
        runs: module.runs,
        first_run: module.first_run,
        last_run: module.last_run,
        lost: module.lost.0,
        counters: module.counters.clone(),
        block_counts: explicit.then(|| counts(blocks())).flatten(),
        edge_counts: explicit.then(|| counts(edges())).flatten(),
        foreign: (!module.foreign.is_empty()).then(|| proto::Foreign {
            build_id: module.foreign.iter().map(|foreign| foreign.build_id.clone()).collect(),
            path: module.foreign.iter().map(|foreign| foreign.path.clone()).collect(),
        }),
        targets: targets(module),
        carried: (!module.carried.is_empty()).then(|| proto::Sources {
            build_id: module.carried.iter().map(|source| source.build_id.clone()).collect(),
            path: module.carried.iter().map(|source| source.path.clone()).collect(),
            runs: module.carried.iter().map(|source| source.runs).collect(),
            steps: module.carried.iter().map(|source| source.steps).collect(),
        }),
    }
}

/// Counts, unless none is known.
fn counts(counts: impl Iterator<Item = Option<Count>>) -> Option<proto::Counts> {
    let mut columns = proto::Counts::default();
    for count in counts {
        columns.origin.push(count.map_or(0, |count| origin_number(count.origin)));
        columns.count.push(count.map_or(0, |count| count.raw.cast_signed()));
        let confidence = count.map_or(Confidence::FULL, |count| count.confidence);
        columns.confidence.push(confidence.percent().into());
    }
    if columns.confidence.iter().all(|&percent| percent == Confidence::FULL.percent().into()) {
        columns.confidence.clear();
    }
    columns.origin.iter().any(|&origin| origin != 0).then_some(columns)
}

fn targets(module: &Module) -> Option<proto::Targets> {
    let mut columns = proto::Targets::default();
    let mut before = Delta::default();
    for (site, i) in module.sites.iter().zip(0..) {
        for target in &site.targets {
            let (module, address) = match target.target {
                Target::Own(address) => (TARGET_OWN, address),
                Target::Generated => (TARGET_GENERATED, 0),
                Target::Foreign { module, address } => (TARGET_FOREIGN + module, address),
            };
            columns.site.push(before.write(i));
            columns.module.push(module);
            columns.address.push(address);
            columns.count.push(target.count);
        }
    }
    (!columns.site.is_empty()).then_some(columns)
}
