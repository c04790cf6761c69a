//! How much of a program changed, with weights for kinds of statements and of changes. Blocks stand for statements, as long as they
//! have instructions.

use crate::blocks::Blocks;
use crate::builds::Builds;
use hashbrown::HashSet;
use relive_profile::model::{CalledBy, Function, Module, Node};

/// What kinds of statements and of changes count for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Blocks that end with a call.
    pub call: f64,
    /// Blocks that leave by more than one way, and do not call.
    pub branch: f64,
    /// All other blocks.
    pub other: f64,
    /// What is there before and after, and does something else.
    pub changed: f64,
    /// What is new.
    pub added: f64,
    /// What is gone.
    pub deleted: f64,
}

impl Default for Weights {
    /// The paper's: all the same.
    fn default() -> Self {
        Self { call: 1.0, branch: 1.0, other: 1.0, changed: 1.0, added: 1.0, deleted: 1.0 }
    }
}

/// Why weights were not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no weight: KIND=NUMBER, not below 0, KIND being call, branch, other, changed, added or deleted"
)]
pub struct NoWeight(String);

impl Weights {
    /// Sets a weight, as in `call=3`.
    ///
    /// # Errors
    /// If that is no kind, or no number from 0 on.
    pub fn set(&mut self, text: &str) -> Result<(), NoWeight> {
        let wrong = || NoWeight(text.to_owned());
        let (kind, number) = text.split_once('=').ok_or_else(wrong)?;
        let weight = match kind {
            "call" => &mut self.call,
            "branch" => &mut self.branch,
            "other" => &mut self.other,
            "changed" => &mut self.changed,
            "added" => &mut self.added,
            "deleted" => &mut self.deleted,
            _ => return Err(wrong()),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        *weight = Some(number).filter(|number| number.is_finite() && *number >= 0.0).ok_or_else(wrong)?;
        Ok(())
    }

    /// What each block of a function counts for by its kind.
    fn blocks(&self, function: &Function) -> Vec<f64> {
        let calls: HashSet<u32> = function
            .calls
            .iter()
            .filter_map(|call| match call.by {
                CalledBy::Block(block) => Some(block),
                CalledBy::Edge(_) => None,
            })
            .collect();
        let mut ways = vec![0u32; function.blocks.len()];
        for from in function.edges.iter().filter_map(|edge| Node::as_block(edge.from)) {
            ways[from as usize] += 1;
        }
        let of = |(block, insns): (usize, u32)| {
            let kind = match ways[block] {
                _ if calls.contains(&(block as u32)) => self.call,
                0 | 1 => self.other,
                _ => self.branch,
            };
            kind * f64::from(insns)
        };
        function.blocks.iter().map(|block| block.insns).enumerate().map(of).collect()
    }

    /// What changed of all there is in both builds, from 0 on; above 1 only if changes weigh more than statements do.
    #[must_use]
    pub fn significance(&self, builds: &Builds<'_>, old: &Blocks, new: &Blocks) -> f64 {
        let (mut kept_old, mut kept_new) = (Blocks::none(builds.old), Blocks::none(builds.new));
        for pair in &builds.matching.procedures {
            for blocks in &pair.blocks {
                kept_old.insert(pair.pair.old, blocks.old);
                kept_new.insert(pair.pair.new, blocks.new);
            }
        }
        let (mut touched, mut all) = (0.0, 0.0);
        let mut add = |module: &Module, changed: &Blocks, kept: &Blocks, gone: f64| {
            for (i, function) in (0..).zip(&module.functions) {
                for (j, weight) in (0..).zip(self.blocks(function)) {
                    all += weight;
                    if changed.contains(i, j) {
                        touched += weight * if kept.contains(i, j) { self.changed } else { gone };
                    }
                }
            }
        };
        add(builds.old, old, &kept_old, self.deleted);
        add(builds.new, new, &kept_new, self.added);
        if all == 0.0 { 0.0 } else { touched / all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_weight() {
        let mut weights = Weights::default();
        weights.set("call=3").expect("a weight");
        weights.set("deleted=0.5").expect("a weight");
        assert_eq!(weights, Weights { call: 3.0, deleted: 0.5, ..Weights::default() });
        for wrong in ["call", "loop=1", "call=-1", "call=x", "call=inf", ""] {
            assert!(weights.set(wrong).is_err(), "{wrong}");
        }
    }
}
