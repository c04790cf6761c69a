//! Adds profiles up, in any order and grouping with the same result.
//!
//! | two modules | their counts |
//! |---|---|
//! | same code, same counters (equal checksums) | counters add up |
//! | same code (build-id, mode, blocks and edges), other counters | counts of blocks and edges add up; the result has no counters any more, so no program can go on counting in it |
//! | same build-id and mode, both described as far as they ran | the same, function by function (`unite`) |
//! | else | stay apart |

use crate::file;
use crate::flow;
use crate::model::{
    CallSite, CalledBy, Callee, Count, Foreign, Function, Mode, Module, Profile, SiteId, Source, State,
    Target, TargetCount, TextId,
};
use crate::unite::unite;
use relive_abi::rprof::SlotLayout;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Why counts may be too low in a function that some of the merged profiles measured less well.
pub const PARTLY_MEASURED: &str = "measured in some of the runs only";

/// What must be equal for counts to add up.
type Key = (Vec<u8>, Mode, Option<u64>);

/// The sum of profiles.
#[must_use]
pub fn merge(profiles: impl IntoIterator<Item = Profile>) -> Profile {
    let mut sums: BTreeMap<Key, Module> = BTreeMap::new();
    for mut module in profiles.into_iter().flat_map(|profile| profile.modules) {
        if module.checksum == 0 {
            module.checksum = file::checksum(&module);
        }
        // What is described as far as it ran is brought into the same shape.
        let graph = (!module.only_executed).then(|| shape(&module.functions));
        let key = (module.build_id.clone(), module.mode, graph);
        let sum = match sums.remove(&key) {
            Some(sum) => add(sum, module),
            None => module,
        };
        sums.insert(key, sum);
    }
    let mut modules: Vec<(Key, Module)> = sums.into_iter().collect();
    modules.sort_by(|(a_key, a), (b_key, b)| (&a.path, a_key).cmp(&(&b.path, b_key)));
    for (_, module) in &mut modules {
        sort_targets(module);
        unite_sources(&mut module.carried);
        // Each of them could be solved, so the sum can.
        let _ = flow::recover(module);
    }
    Profile { modules: modules.into_iter().map(|(_, module)| module).collect() }
}

/// Stands for blocks and edges of functions.
pub(crate) fn shape<'f>(functions: impl IntoIterator<Item = &'f Function>) -> u64 {
    let mut bytes = Vec::new();
    for function in functions {
        bytes.extend(function.address.to_le_bytes());
        bytes.extend((function.blocks.len() as u64).to_le_bytes());
        for block in &function.blocks {
            bytes.extend(block.address.to_le_bytes());
            bytes.extend(block.size.to_le_bytes());
        }
        bytes.extend((function.edges.len() as u64).to_le_bytes());
        for edge in &function.edges {
            for node in [edge.from, edge.to] {
                let number = node.as_block().or_else(|| Some(!node.as_hub()?)).unwrap_or(1 << 31);
                bytes.extend(number.to_le_bytes());
            }
            bytes.push(edge.kind as u8);
        }
    }
    relive_abi::hash::of(&bytes)
}

fn add(mut a: Module, mut b: Module) -> Module {
    let are_same = a.checksum == b.checksum;
    if !are_same && a.only_executed {
        unite(&mut a, &mut b);
    }
    let mut sum = if are_same { add_counters(a, &b) } else { add_counts(a, b) };
    sort_targets(&mut sum);
    sum
}

/// What is summed up in any case.
fn add_runs(sum: &mut Module, other: &Module) {
    // The path of the later run; of the two, should they be of the same second, the first by name.
    if (other.last_run, &sum.path) > (sum.last_run, &other.path) {
        sum.path.clone_from(&other.path);
    }
    sum.runs = sum.runs.saturating_add(other.runs);
    sum.first_run = match (sum.first_run, other.first_run) {
        (0, first) | (first, 0) => first,
        (a, b) => a.min(b),
    };
    sum.last_run = sum.last_run.max(other.last_run);
    sum.lost.0 |= other.lost.0;
    sum.carried.extend_from_slice(&other.carried);
}

/// Sorts them and adds up the runs of the same build.
fn unite_sources(sources: &mut Vec<Source>) {
    sources.sort();
    sources.dedup_by(|more, sum| {
        let same = (more.steps, &more.build_id, &more.path) == (sum.steps, &sum.build_id, &sum.path);
        if same {
            sum.runs = sum.runs.saturating_add(more.runs);
        }
        same
    });
}

fn add_counters(mut sum: Module, other: &Module) -> Module {
    add_runs(&mut sum, other);
    if sum.counters.len() < other.counters.len() {
        sum.counters.resize(other.counters.len(), 0);
    }
    for (sum, more) in sum.counters.iter_mut().zip(&other.counters) {
        *sum = sum.wrapping_add(*more);
    }
    if sum.layout.counters == 0 {
        for (sum, other) in sum.functions.iter_mut().zip(&other.functions) {
            add_function(sum, other);
        }
    }
    let numbers = number_foreign(&mut sum.foreign, &other.foreign);
    for (sum, more) in sum.sites.iter_mut().zip(&other.sites) {
        add_targets(&mut sum.targets, more, &numbers);
    }
    sum
}

fn add_function(sum: &mut Function, other: &Function) {
    let plus = |sum: Option<Count>, more: Option<Count>| Some(sum?.plus(more?));
    for (sum, more) in sum.blocks.iter_mut().zip(&other.blocks) {
        sum.count = plus(sum.count, more.count);
    }
    for (sum, more) in sum.edges.iter_mut().zip(&other.edges) {
        sum.count = plus(sum.count, more.count);
    }
}

/// The numbers of `more` in `all`, where they may be new.
fn number_foreign(all: &mut Vec<Foreign>, more: &[Foreign]) -> Vec<u32> {
    let mut known: HashMap<Foreign, u32> = all.iter().cloned().zip(0..).collect();
    let number = |foreign: &Foreign| {
        *known.entry(foreign.clone()).or_insert_with(|| {
            all.push(foreign.clone());
            u32::try_from(all.len() - 1).unwrap_or(u32::MAX)
        })
    };
    more.iter().map(number).collect()
}

fn add_targets(targets: &mut Vec<TargetCount>, more: &CallSite, numbers: &[u32]) {
    targets.extend(
        more.targets
            .iter()
            .map(|&TargetCount { target, count }| TargetCount { target: renumber(target, numbers), count }),
    );
}

fn renumber(target: Target, numbers: &[u32]) -> Target {
    match target {
        Target::Foreign { module, address } => {
            let module = numbers.get(module as usize).copied().unwrap_or(module);
            Target::Foreign { module, address }
        }
        _ => target,
    }
}

/// Sorts other modules and targets, adds equal ones up and drops what never happened, so that their order
/// does not tell how they were found.
pub(crate) fn sort_targets(module: &mut Module) {
    let used: BTreeSet<u32> = module
        .sites
        .iter()
        .flat_map(|site| &site.targets)
        .filter_map(|target| match target.target {
            Target::Foreign { module, .. } if target.count > 0 => Some(module),
            _ => None,
        })
        .collect();
    let mut sorted: Vec<(Foreign, u32)> = std::mem::take(&mut module.foreign)
        .into_iter()
        .zip(0..)
        .filter(|(_, number)| used.contains(number))
        .collect();
    sorted.sort();
    let mut numbers = vec![u32::MAX; used.last().map_or(0, |&last| last as usize + 1)];
    for (foreign, old) in sorted {
        if module.foreign.last() != Some(&foreign) {
            module.foreign.push(foreign);
        }
        numbers[old as usize] = u32::try_from(module.foreign.len() - 1).unwrap_or(u32::MAX);
    }
    for site in &mut module.sites {
        site.targets.retain(|target| target.count > 0);
        for target in &mut site.targets {
            target.target = renumber(target.target, &numbers);
        }
        site.targets.sort_by_key(|target| target.target);
        site.targets.dedup_by(|more, sum| {
            let same = more.target == sum.target;
            if same {
                sum.count = sum.count.wrapping_add(more.count);
            }
            same
        });
    }
}

/// Adds counts of blocks and edges where the graphs are equal and the counters are not.
fn add_counts(a: Module, b: Module) -> Module {
    let (a, b) = (without_counters(a), without_counters(b));
    // Which of the two tells names and lines must not depend on which came first.
    let (mut sum, other) = if bare_checksum(&a) <= bare_checksum(&b) { (a, b) } else { (b, a) };
    add_runs(&mut sum, &other);
    for i in 0..sum.functions.len() {
        add_function_of(&mut sum, i, &other);
    }
    add_sites(&mut sum, other);
    sum.checksum = file::checksum(&sum);
    sum
}

fn without_counters(mut module: Module) -> Module {
    // Counters may have been added up since; each of their profiles could be solved, so the sum can.
    let _ = flow::recover(&mut module);
    module.counters = Vec::new();
    module.layout = SlotLayout { sites: module.layout.sites, ..SlotLayout::default() };
    for function in &mut module.functions {
        function.blocks.iter_mut().for_each(|block| block.counter = None);
        function.edges.iter_mut().for_each(|edge| edge.counter = None);
    }
    module
}

/// The checksum of names, lines and graphs alone.
fn bare_checksum(module: &Module) -> u64 {
    let mut bare = Module { sites: Vec::new(), layout: SlotLayout::default(), ..module.clone() };
    for function in &mut bare.functions {
        function.state = State::Measured;
        function.approximate = None;
        for call in &mut function.calls {
            if let Callee::Indirect { site } = &mut call.callee {
                *site = None;
            }
        }
    }
    file::checksum(&bare)
}

fn add_function_of(sum: &mut Module, index: usize, other: &Module) {
    let (own, more) = (&sum.functions[index], &other.functions[index]);
    let (own_rank, more_rank) = (own.state.rank(), more.state.rank());
    let reason = |module: &Module, id: Option<TextId>| id.map(|id| module.text(id).to_string());
    let approximate = [
        reason(sum, own.approximate),
        reason(other, more.approximate),
        (own_rank != more_rank).then(|| PARTLY_MEASURED.to_string()),
    ];
    let why = match own_rank.cmp(&more_rank) {
        std::cmp::Ordering::Less => reason(other, more.state.reason()),
        std::cmp::Ordering::Equal => reason(sum, own.state.reason()).min(reason(other, more.state.reason())),
        std::cmp::Ordering::Greater => reason(sum, own.state.reason()),
    };
    let approximate = approximate.into_iter().flatten().max().map(|text| sum.texts.intern(&text));
    let reason = sum.texts.intern(&why.unwrap_or_default());
    let function = &mut sum.functions[index];
    function.approximate = approximate;
    function.state = match own_rank.max(more_rank) {
        0 => State::NotMeasured { reason },
        1 => State::EntryOnly { reason },
        _ => State::Measured,
    };
    if own_rank == more_rank {
        add_function(function, more);
    } else if own_rank < more_rank {
        for (own, better) in function.blocks.iter_mut().zip(&more.blocks) {
            own.count = better.count;
        }
        for (own, better) in function.edges.iter_mut().zip(&more.edges) {
            own.count = better.count;
        }
    }
}

fn add_sites(sum: &mut Module, other: Module) {
    let mut sites: BTreeMap<(u32, u32, u64), CallSite> = BTreeMap::new();
    let numbers = number_foreign(&mut sum.foreign, &other.foreign);
    let own_numbers: Vec<u32> = (0..).take(sum.foreign.len()).collect();
    let both = std::mem::take(&mut sum.sites).into_iter().map(|site| (site, &own_numbers));
    for (site, numbers) in both.chain(other.sites.into_iter().map(|site| (site, &numbers))) {
        let key = (site.function, site.block, site.address);
        let joined = sites.entry(key).or_insert_with(|| CallSite { targets: Vec::new(), ..site.clone() });
        add_targets(&mut joined.targets, &site, numbers);
    }
    sum.sites = sites.into_values().collect();
    sum.layout.sites = u32::try_from(sum.sites.len()).unwrap_or(u32::MAX);
    let numbers: HashMap<(u32, u32), SiteId> =
        sum.sites.iter().zip(0..).map(|(site, i)| ((site.function, site.block), SiteId::new(i))).collect();
    for (function, i) in sum.functions.iter_mut().zip(0..) {
        for call in &mut function.calls {
            let block = match call.by {
                CalledBy::Block(block) => Some(block),
                CalledBy::Edge(edge) => {
                    function.edges.get(edge as usize).and_then(|edge| edge.from.as_block())
                }
            };
            if let (Callee::Indirect { site }, Some(block)) = (&mut call.callee, block) {
                *site = numbers.get(&(i, block)).copied();
            }
        }
    }
}
