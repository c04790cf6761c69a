//! Where indirect calls led: to the partners of what they led to.

use super::Old;
use hashbrown::HashMap;
use relive_profile::model::{Foreign, Module, Target, TargetCount};
use std::collections::BTreeMap;

/// Carries the targets of call sites whose blocks have partners.
pub(super) fn carry(new: &mut Module, olds: &[&Old<'_>]) {
    let mut found: Vec<BTreeMap<(u8, u32, u64), u64>> = vec![BTreeMap::new(); new.sites.len()];
    let mut foreign: Vec<Foreign> = Vec::new();
    let sites: HashMap<(u32, u32), usize> =
        new.sites.iter().enumerate().map(|(i, site)| ((site.function, site.block), i)).collect();
    for old in olds {
        let procedures: HashMap<u64, u64> = old
            .matching
            .procedures
            .iter()
            .map(|p| {
                let (a, b) =
                    (&old.module.functions[p.pair.old as usize], &new.functions[p.pair.new as usize]);
                (a.address, b.address)
            })
            .collect();
        let numbers: Vec<u32> = old
            .module
            .foreign
            .iter()
            .map(|module| {
                let known = foreign.iter().position(|f| f == module);
                known.unwrap_or_else(|| {
                    foreign.push(module.clone());
                    foreign.len() - 1
                }) as u32
            })
            .collect();
        let old_sites: HashMap<(u32, u32), usize> =
            old.module.sites.iter().enumerate().map(|(i, s)| ((s.function, s.block), i)).collect();
        for pair in &old.matching.procedures {
            for block in &pair.blocks {
                let (Some(&a), Some(&b)) =
                    (old_sites.get(&(pair.pair.old, block.old)), sites.get(&(pair.pair.new, block.new)))
                else {
                    continue;
                };
                for target in &old.module.sites[a].targets {
                    let key = match target.target {
                        Target::Own(address) => match procedures.get(&address) {
                            Some(&address) => (0, 0, address),
                            None => continue,
                        },
                        Target::Foreign { module, address } => match numbers.get(module as usize) {
                            Some(&module) => (1, module, address),
                            None => continue,
                        },
                        Target::Generated => (2, 0, 0),
                    };
                    let count = found[b].entry(key).or_default();
                    *count = count.saturating_add(target.count);
                }
            }
        }
    }
    new.foreign = foreign;
    for (site, found) in new.sites.iter_mut().zip(found) {
        site.targets = found
            .into_iter()
            .map(|((kind, module, address), count)| TargetCount {
                target: match kind {
                    0 => Target::Own(address),
                    1 => Target::Foreign { module, address },
                    _ => Target::Generated,
                },
                count,
            })
            .collect();
    }
}
