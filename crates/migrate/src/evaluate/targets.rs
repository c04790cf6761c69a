//! Where indirect calls lead.

use relive_profile::model::{CallSite, Module, Target};
use std::collections::HashMap;

/// How well the targets of indirect calls are known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Targets {
    /// Call sites with targets in the fresh profile.
    pub sites: u64,
    /// Calls from these.
    pub calls: u64,
    /// The overlap of the targets of each site, Σ min(share), averaged by fresh calls. Unknown if there were none.
    pub overlap: Option<f64>,
}

/// What is called, told without numbers that hold in one profile only.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place<'m> {
    Own(u64),
    Foreign(&'m [u8], u64),
    Generated,
}

impl Targets {
    pub(super) fn of(modules: &[(&Module, &Module)]) -> Self {
        let mut found = Self::default();
        let mut lost = 0.0;
        for (carried, fresh) in modules {
            let sites: HashMap<u64, &CallSite> =
                carried.sites.iter().map(|site| (site.address, site)).collect();
            for site in &fresh.sites {
                let wanted = places(fresh, site);
                let calls = wanted.values().fold(0, |sum: u64, &calls| sum.saturating_add(calls));
                if calls == 0 {
                    continue;
                }
                found.sites += 1;
                found.calls = found.calls.saturating_add(calls);
                let known = sites.get(&site.address).map(|site| places(carried, site)).unwrap_or_default();
                lost += lost_calls(&known, &wanted, calls);
            }
        }
        found.overlap = (found.calls > 0).then(|| (1.0 - lost / found.calls as f64).max(0.0));
        found
    }
}

/// How many of the fresh calls of a site lead where the carried profile does not say.
fn lost_calls(carried: &HashMap<Place<'_>, u64>, fresh: &HashMap<Place<'_>, u64>, calls: u64) -> f64 {
    let all = carried.values().fold(0, |sum: u64, &calls| sum.saturating_add(calls));
    if all == 0 {
        return calls as f64;
    }
    let lost = |(place, &count): (&Place<'_>, &u64)| {
        let known = carried.get(place).copied().unwrap_or(0);
        (count as f64 / calls as f64 - known as f64 / all as f64).max(0.0)
    };
    // In the order of size: the same sum each time.
    let mut losses: Vec<f64> = fresh.iter().map(lost).collect();
    losses.sort_by(f64::total_cmp);
    losses.iter().sum::<f64>() * calls as f64
}

fn places<'m>(module: &'m Module, site: &CallSite) -> HashMap<Place<'m>, u64> {
    let mut places: HashMap<Place<'m>, u64> = HashMap::new();
    for target in &site.targets {
        let place = match target.target {
            Target::Own(address) => Place::Own(address),
            Target::Generated => Place::Generated,
            Target::Foreign { module: foreign, address } => {
                let Some(foreign) = module.foreign.get(foreign as usize) else { continue };
                let by_id = !foreign.build_id.is_empty();
                Place::Foreign(if by_id { &foreign.build_id } else { foreign.path.as_bytes() }, address)
            }
        };
        let sum = places.entry(place).or_default();
        *sum = sum.saturating_add(target.count);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::super::evaluate;
    use super::super::sample::profile;
    use super::*;
    use relive_profile::model::{Foreign, TargetCount};

    fn with_targets(targets: &[(Target, u64)]) -> relive_profile::model::Profile {
        let mut profile = profile();
        profile.modules[0].sites[0].targets =
            targets.iter().map(|&(target, count)| TargetCount { target, count }).collect();
        profile
    }

    #[test]
    fn shares_of_each_site() {
        // The sample: 30 to 0x2000 and 10 to 0x8 of a library.
        let fresh = profile();
        let judged = |carried| evaluate(&carried, &fresh).expect("comparable").targets;
        let found = judged(with_targets(&[(Target::Own(0x2000), 1), (Target::Generated, 1)]));
        assert_eq!(found, Targets { sites: 1, calls: 40, overlap: Some(0.5) });
        assert_eq!(judged(with_targets(&[])).overlap, Some(0.0));
        // A library has another number there.
        let mut carried = with_targets(&[
            (Target::Own(0x2000), 300),
            (Target::Foreign { module: 1, address: 8 }, 50),
            (Target::Foreign { module: 0, address: 8 }, 50),
        ]);
        carried.modules[0].foreign.insert(0, Foreign { build_id: vec![5], path: "/lib/other".into() });
        assert_eq!(judged(carried).overlap, Some(0.875));
    }

    #[test]
    fn without_calls() {
        let fresh = with_targets(&[]);
        assert_eq!(evaluate(&profile(), &fresh).expect("comparable").targets, Targets::default());
    }
}
