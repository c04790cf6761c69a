//! What is affected, from function to function: through calls, memory and the world outside.

use super::Slice;
use super::mask::{ALWAYS, ENTERED, INPUTS, Mask, SHARED, bit};
use super::settle::{Program, Settled};
use super::summary::{self, Events, Location};
use crate::blocks::Blocks;
use rayon::prelude::*;
use relive_profile::model::Module;
use std::collections::BTreeSet;

/// What is affected so far.
struct Spread<'p> {
    program: &'p Program<'p>,
    events: Vec<Events>,
    /// By function, and for whatever a pointer leads to: what it finds affected when it is entered.
    inputs: Vec<Mask>,
    /// What all functions share.
    shared: Mask,
    data: BTreeSet<u32>,
    /// Data blocks that were affected since functions were last looked at.
    fresh: BTreeSet<u32>,
    pending: Vec<u32>,
    is_pending: Vec<bool>,
}

/// Goes from what is affected by itself to all that follows.
pub(super) fn spread(module: &Module, program: &Program<'_>, data: &[u32]) -> Slice {
    let count = program.codes.len();
    let known = |block: &u32| (*block as usize) < module.data.len();
    let data: BTreeSet<u32> = data.iter().copied().filter(known).collect();
    let reachable = |block: &u32| {
        let escaped = program.facts.escaped[program.objects.of_block(*block) as usize];
        escaped && !program.objects.is_told(*block)
    };
    let unknown = if data.iter().any(reachable) { super::mask::UNKNOWN } else { 0 };
    let mut settled = Settled::new(program, &data);
    let events = (0..count as u32).into_par_iter().map(|f| events(program, &settled, &data, f)).collect();
    let mut spread = Spread {
        program,
        events,
        inputs: vec![0; count + 1],
        shared: ALWAYS | unknown,
        data,
        fresh: BTreeSet::new(),
        pending: (0..=count as u32).collect(),
        is_pending: vec![true; count + 1],
    };
    loop {
        spread.run();
        if spread.fresh.is_empty() {
            return spread.slice(module);
        }
        spread.look_again(&mut settled);
    }
}

fn events(program: &Program<'_>, settled: &Settled, data: &BTreeSet<u32>, function: u32) -> Events {
    let index = function as usize;
    let around = program.around(&settled.outcomes, data);
    summary::events(&around, &program.codes[index], &program.dependents[index], program.marks(function))
}

impl Spread<'_> {
    fn run(&mut self) {
        while let Some(function) = self.pending.pop() {
            self.is_pending[function as usize] = false;
            let active = self.active(function);
            if function == self.program.facts.pointer() {
                for &taken in &self.program.facts.taken {
                    self.reach(taken, active & (INPUTS | ENTERED));
                }
                continue;
            }
            let own = std::mem::take(&mut self.events[function as usize]);
            for (location, _) in own.writes.iter().filter(|(_, mask)| mask & active != 0) {
                self.affect(*location);
            }
            for call in &own.calls {
                let made = if call.made & active != 0 { ENTERED } else { 0 };
                let found = call.passes.iter().filter(|(_, mask)| mask & active != 0);
                let found = found.fold(made, |all, (unit, _)| all | bit((*unit).into()));
                self.reach(call.callee, found);
            }
            self.events[function as usize] = own;
        }
    }

    /// All that a function's affairs may be affected by.
    fn active(&self, function: u32) -> Mask {
        self.inputs[function as usize] | self.shared
    }

    fn reach(&mut self, function: u32, with: Mask) {
        let inputs = &mut self.inputs[function as usize];
        if with & !*inputs != 0 {
            *inputs |= with;
            self.wait_for(function);
        }
    }

    fn wait_for(&mut self, function: u32) {
        if !std::mem::replace(&mut self.is_pending[function as usize], true) {
            self.pending.push(function);
        }
    }

    fn affect(&mut self, location: Location) {
        match location {
            Location::Shared(shared) => {
                debug_assert_eq!(shared & !SHARED, 0);
                if shared & !self.shared != 0 {
                    self.shared |= shared;
                    (0..self.events.len() as u32).for_each(|function| self.wait_for(function));
                }
            }
            Location::Data(first, behind) => {
                let objects = self.program.objects;
                for block in first..behind.min(objects.blocks()) {
                    if !objects.is_constant(block) && self.data.insert(block) {
                        self.fresh.insert(block);
                    }
                }
            }
        }
    }

    /// Data was affected: whoever reads it computes something else, and so may whoever calls them.
    fn look_again(&mut self, settled: &mut Settled) {
        let fresh = std::mem::take(&mut self.fresh);
        let program = self.program;
        let readers: Vec<u32> = program
            .codes
            .par_iter()
            .zip(0..program.codes.len() as u32)
            .filter(|(code, _)| {
                code.read_data().any(|(first, behind)| fresh.range(first..behind).next().is_some())
            })
            .map(|(_, function)| function)
            .collect();
        let changed = settled.again(program, &self.data, &readers);
        let mut again: BTreeSet<u32> = readers.into_iter().collect();
        for function in changed {
            again.extend(&program.facts.callers[function as usize]);
        }
        let count = program.codes.len() as u32;
        let again: Vec<u32> = again.into_iter().filter(|&function| function < count).collect();
        let new: Vec<Events> =
            again.par_iter().map(|&function| events(program, settled, &self.data, function)).collect();
        for (function, events) in again.into_iter().zip(new) {
            self.events[function as usize] = events;
            self.wait_for(function);
        }
    }

    fn slice(&self, module: &Module) -> Slice {
        let (mut runs, mut ways, mut values) =
            (Blocks::none(module), Blocks::none(module), Blocks::none(module));
        for (events, function) in self.events.iter().zip(0..) {
            let active = self.active(function);
            let mark = |set: &mut Blocks, masks: &[Mask]| {
                for (mask, block) in masks.iter().zip(0..) {
                    if mask & active != 0 {
                        set.insert(function, block);
                    }
                }
            };
            mark(&mut runs, &events.runs);
            mark(&mut ways, &events.ways);
            mark(&mut values, &events.values);
        }
        Slice { runs, ways, values }
    }
}
