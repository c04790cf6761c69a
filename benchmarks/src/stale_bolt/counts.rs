//! The counts of a profile in BOLT's own coordinates: a function's name and the numbers of its blocks.

use anyhow::{Context, Result};
use std::collections::BTreeMap;

/// How often each block ran and each edge was taken.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) blocks: BTreeMap<(String, u64), u64>,
    pub(crate) edges: BTreeMap<(String, u64, u64), u64>,
}

impl Counts {
    /// Reads a YAML profile as BOLT writes it, of functions that are wanted. It has counts of edges and of entries; what
    /// comes into a block is how often it ran.
    pub(crate) fn parse(yaml: &str, wanted: impl Fn(&str) -> bool) -> Result<Self> {
        let mut counts = Self::default();
        let mut function = None;
        let mut block = 0;
        for line in yaml.lines() {
            if let Some(name) = line.strip_prefix("  - name:") {
                let name = name.trim().trim_matches(['\'', '"']);
                function = wanted(name).then(|| name.to_owned());
                continue;
            }
            let Some(function) = &function else { continue };
            if let Some(id) = line.strip_prefix("      - bid:") {
                block = number(id)?;
            } else if let Some(entries) = line.strip_prefix("    exec:") {
                *counts.blocks.entry((function.clone(), 0)).or_default() += number(entries)?;
            } else if let Some(successors) = line.strip_prefix("        succ:") {
                for successor in successors.split('{').skip(1) {
                    let field = |name: &str| {
                        let (_, rest) =
                            successor.split_once(name).context("llvm-bolt -w: a bad successor")?;
                        number(rest.split([',', '}']).next().unwrap_or_default())
                    };
                    let (to, count) = (field("bid:")?, field("cnt:")?);
                    *counts.edges.entry((function.clone(), block, to)).or_default() += count;
                    *counts.blocks.entry((function.clone(), to)).or_default() += count;
                }
            }
        }
        Ok(counts)
    }

    /// Is anything known of this function?
    pub(crate) fn knows(&self, function: &str) -> bool {
        self.blocks.range((function.to_owned(), 0)..).next().is_some_and(|((name, _), _)| name == function)
    }
}

/// The part two profiles have in common: the sum, over everything counted, of the smaller of its two shares.
pub(crate) fn overlap<K: Ord>(one: &BTreeMap<K, u64>, other: &BTreeMap<K, u64>) -> f64 {
    let sum = |counts: &BTreeMap<K, u64>| counts.values().map(|&count| count as f64).sum::<f64>();
    let (one_sum, other_sum) = (sum(one), sum(other));
    if one_sum == 0.0 || other_sum == 0.0 {
        return f64::from(u8::from(one_sum == other_sum));
    }
    let common = |(key, &count): (&K, &u64)| {
        let own = one.get(key).copied().unwrap_or(0);
        (own as f64 / one_sum).min(count as f64 / other_sum)
    };
    other.iter().map(common).sum()
}

/// The functions that cost the most overlap of their blocks, and how much.
pub(crate) fn costliest(own: &Counts, fresh: &Counts, most: usize) -> Vec<(String, f64)> {
    let sum = |counts: &Counts| counts.blocks.values().sum::<u64>().max(1) as f64;
    let (own_sum, fresh_sum) = (sum(own), sum(fresh));
    let mut costs: BTreeMap<&str, f64> = BTreeMap::new();
    for (key, &count) in &fresh.blocks {
        let share = count as f64 / fresh_sum;
        let found = own.blocks.get(key).copied().unwrap_or(0) as f64 / own_sum;
        *costs.entry(&key.0).or_default() += (share - found).max(0.0);
    }
    let mut costs: Vec<(String, f64)> =
        costs.into_iter().map(|(name, cost)| (name.to_owned(), cost)).collect();
    costs.sort_by(|a, b| b.1.total_cmp(&a.1));
    costs.truncate(most);
    costs
}

fn number(text: &str) -> Result<u64> {
    text.trim().parse().with_context(|| format!("llvm-bolt -w: bad number {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "---\nheader:\n  profile-version: 1\nfunctions:\n  - name:            main\n    fid:             2\n    \
hash:            0xE7\n    exec:            1\n    nblocks:         10\n    blocks:\n      - bid:             0\n        \
insns:           10\n        exec:            1\n        succ:            [ { bid: 9, cnt: 0 }, { bid: 1, cnt: 3, mis: 1 } ]\n      \
- bid:             1\n        insns:           2\n  - name:            'g/1'\n    exec:            7\n";

    #[test]
    fn yaml() {
        let counts = Counts::parse(YAML, |name| name == "main").unwrap();
        assert_eq!(counts.edges[&("main".to_owned(), 0, 1)], 3);
        assert_eq!(counts.blocks[&("main".to_owned(), 1)], 3);
        assert_eq!(counts.blocks[&("main".to_owned(), 0)], 1);
        assert!(counts.knows("main") && !counts.knows("g/1"));
        assert!(Counts::parse(YAML, |_| true).unwrap().knows("g/1"));
    }

    #[test]
    fn shares() {
        let map = |pairs: &[(u32, u64)]| pairs.iter().copied().collect::<BTreeMap<u32, u64>>();
        assert!((overlap(&map(&[(1, 5), (2, 5)]), &map(&[(1, 10), (2, 10)])) - 1.0).abs() < 1e-9);
        assert!((overlap(&map(&[(1, 1), (2, 3)]), &map(&[(1, 3), (3, 1)])) - 0.25).abs() < 1e-9);
        assert!((overlap(&map(&[]), &map(&[(1, 1)])) - 0.0).abs() < 1e-9);
    }

    #[test]
    fn what_costs_the_most() {
        let counts = |f: u64, g: u64| Counts {
            blocks: BTreeMap::from([(("f".to_owned(), 0), f), (("g".to_owned(), 0), g)]),
            ..Counts::default()
        };
        let costs = costliest(&counts(1, 3), &counts(2, 2), 1);
        assert_eq!(costs, [("f".to_owned(), 0.25)]);
    }
}
