//! What did not run when the old build was measured.
//!
//! A profile is about some inputs. With the same inputs, the new build does what the old one did until it comes to something that
//! changed; so a change where the old build never came affects nothing, unless something else leads there now. The slice asks that
//! itself ([`crate::slice::Seeds::idle`]); here it is said what it begins with.

use crate::blocks::Blocks;
use crate::builds::Builds;
use crate::calls::begins_program;
use crate::changes::Changes;
use hashbrown::{HashMap, HashSet};
use relive_profile::model::{Function, Module, Node, State};

/// Of both builds, where no run came.
pub struct Idle {
    /// Blocks of the old build that did not run.
    pub old: Blocks,
    /// Blocks of the new build that do not run, as far as nothing that decides about it is affected.
    pub new: Blocks,
    /// What changed of the new build, and what is run because of that for certain.
    pub seeds: Blocks,
}

impl Idle {
    /// By the counts of the old build. Nothing if they do not tell: if nothing was measured, or others may enter the module anywhere.
    #[must_use]
    pub fn of_builds(builds: &Builds<'_>, changes: &Changes) -> Option<Self> {
        let starts = |module: &Module| {
            module.functions.iter().any(|f| module.name(f) == "main" || begins_program(module, f))
        };
        let has_run = |function: &Function| {
            function.blocks.iter().any(|block| block.count.is_some_and(|c| c.value() > 0))
        };
        if !starts(builds.old) || !starts(builds.new) || !builds.old.functions.iter().any(has_run) {
            return None;
        }
        let mut old = Blocks::none(builds.old);
        for (function, number) in builds.old.functions.iter().zip(0..) {
            if function.state == State::Measured && function.approximate.is_none() {
                let idle =
                    function.blocks.iter().zip(0..).filter(|(b, _)| b.count.is_some_and(|c| c.value() == 0));
                idle.for_each(|(_, block)| {
                    old.insert(number, block);
                });
            }
        }
        let pointed: HashSet<u64> = builds.new.pointers.iter().map(|pointer| pointer.to).collect();
        let mut idle = Self { new: Blocks::none(builds.new), old, seeds: changes.new.clone() };
        for (function, new) in builds.new.functions.iter().zip(0..) {
            idle.take_over(builds, function, new, &pointed);
            idle.wake_behind_seeds(function, new);
        }
        Some(idle)
    }

    /// A block of the new build does not run if its partner did not, or if it has none.
    fn take_over(&mut self, builds: &Builds<'_>, function: &Function, new: u32, pointed: &HashSet<u64>) {
        let Some(old) = builds.old_function(new) else {
            // The loader may call what it finds the address of.
            if !pointed.contains(&function.address) {
                self.new.insert_function(new);
            }
            return;
        };
        let before = &builds.old.functions[old as usize];
        if before.state != State::Measured || before.approximate.is_some() {
            return;
        }
        let partner: HashMap<u32, u32> = builds.blocks(new).iter().map(|pair| (pair.new, pair.old)).collect();
        let entered = before.entries().is_none_or(|count| count.value() > 0);
        for (block, number) in function.blocks.iter().zip(0..) {
            let runs = match partner.get(&number) {
                Some(&partner) => !self.old.contains(old, partner),
                None => block.is_entry && entered,
            };
            if !runs {
                self.new.insert(new, number);
            }
        }
    }

    /// What changed and runs may lead where the old build never came, without anything that decides about it: that counts as changed too.
    fn wake_behind_seeds(&mut self, function: &Function, new: u32) {
        let mut ways: HashMap<Node, Vec<Node>> = HashMap::new();
        for edge in &function.edges {
            ways.entry(edge.from).or_default().push(edge.to);
        }
        let is_seed = |block: &u32| self.seeds.contains(new, *block) && !self.new.contains(new, *block);
        let seeds = (0..function.blocks.len() as u32).filter(is_seed);
        let mut pending: Vec<Node> = seeds.map(Node::block).collect();
        let mut hubs: HashSet<Node> = HashSet::new();
        while let Some(node) = pending.pop() {
            for &to in ways.get(&node).into_iter().flatten() {
                match to.as_block() {
                    Some(block) if self.new.contains(new, block) => {
                        self.new.remove(new, block);
                        self.seeds.insert(new, block);
                        pending.push(to);
                    }
                    None if to != Node::OUTSIDE && hubs.insert(to) => pending.push(to),
                    _ => {}
                }
            }
        }
    }
}
