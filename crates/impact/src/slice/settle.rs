//! Outcomes of all functions: each needs those of the functions it calls.

use super::code::Code;
use super::control::Dependents;
use super::facts::Facts;
use super::mask::{self, KEPT, bit};
use super::objects::Objects;
use super::summary::{self, Around, Marks, Outcome};
use crate::blocks::Blocks;
use relive_code::graph::Graph;
use std::collections::BTreeSet;

/// All that does not change while effects spread.
pub(super) struct Program<'a> {
    pub(super) codes: &'a [Code],
    pub(super) dependents: &'a [Dependents],
    pub(super) facts: &'a Facts,
    pub(super) objects: &'a Objects,
    pub(super) seeds: &'a Blocks,
    /// Blocks that do not run as far as known.
    pub(super) idle: &'a Blocks,
}

/// Outcomes, and in which order functions are looked at: callees first.
pub(super) struct Settled {
    pub(super) outcomes: Vec<Outcome>,
    rank: Vec<u32>,
    order: Vec<u32>,
    is_taken: Vec<bool>,
}

impl Program<'_> {
    /// What is known beyond functions.
    pub(super) fn around<'s>(&'s self, outcomes: &'s [Outcome], data: &'s BTreeSet<u32>) -> Around<'s> {
        Around { facts: self.facts, objects: self.objects, outcomes, data }
    }

    /// What is known of the blocks of a function.
    pub(super) fn marks(&self, function: u32) -> Marks<'_> {
        Marks { function, seeds: self.seeds, idle: self.idle }
    }
}

impl Settled {
    pub(super) fn new(program: &Program<'_>, data: &BTreeSet<u32>) -> Self {
        let pointer = program.facts.pointer();
        let count = program.codes.len();
        let mut edges = Vec::new();
        for (callers, callee) in program.facts.callers.iter().zip(0..) {
            edges.extend(callers.iter().map(|&caller| (caller, callee)));
        }
        edges.extend(program.facts.taken.iter().map(|&taken| (pointer, taken)));
        let order = Graph::from_edges(count + 1, &edges).postorder();
        let mut rank = vec![0; count + 1];
        order.iter().zip(0..).for_each(|(&function, at)| rank[function as usize] = at);
        let mut is_taken = vec![false; count];
        program.facts.taken.iter().for_each(|&taken| is_taken[taken as usize] = true);
        let mut outcomes = vec![Outcome::default(); count + 1];
        // Pointers may also lead to other modules.
        let mut any = Outcome::of_anything(mask::PASSED | bit(mask::STACK));
        mask::units(KEPT).for_each(|unit| any.out[unit] = bit(unit));
        outcomes[count] = any;
        let mut settled = Self { outcomes, rank, order, is_taken };
        let all: Vec<u32> = (0..=pointer).collect();
        settled.again(program, data, &all);
        settled
    }

    /// Looks at some functions again, and at all that follows; who changed is told.
    pub(super) fn again(
        &mut self,
        program: &Program<'_>,
        data: &BTreeSet<u32>,
        functions: &[u32],
    ) -> Vec<u32> {
        let mut pending: BTreeSet<u32> = functions.iter().map(|&f| self.rank[f as usize]).collect();
        let mut changed = Vec::new();
        while let Some(rank) = pending.pop_first() {
            let function = self.order[rank as usize];
            if !self.look(program, data, function) {
                continue;
            }
            changed.push(function);
            let callers = &program.facts.callers[function as usize];
            pending.extend(callers.iter().map(|&caller| self.rank[caller as usize]));
            if self.is_taken.get(function as usize) == Some(&true) {
                pending.insert(self.rank[program.facts.pointer() as usize]);
            }
        }
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    fn look(&mut self, program: &Program<'_>, data: &BTreeSet<u32>, function: u32) -> bool {
        let index = function as usize;
        let outcome = match program.codes.get(index) {
            Some(code) => {
                let around = program.around(&self.outcomes, data);
                summary::outcome(&around, code, &program.dependents[index], program.marks(function))
            }
            None => {
                let mut any = Outcome::default();
                for &taken in &program.facts.taken {
                    any.join(&self.outcomes[taken as usize]);
                }
                any
            }
        };
        self.outcomes[index].join(&outcome)
    }
}
