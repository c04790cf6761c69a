//! The forward slice: every block that may behave in another way if some blocks or data are other than they were. It is
//! sound: what may be affected is in it. `docs/slicing.md` tells the rules and what they take for granted.
//!
//! ```text
//! module ─ code ─▶ what each instruction does ─ facts ─▶ calls, escapes ─ settle ─▶ outcomes ─ spread ─▶ Slice
//! ```
//!
//! | module | does |
//! |---|---|
//! | `mask` | what something may depend on |
//! | `objects` | data, and how far pointers to it reach |
//! | `provenance` | where addresses in registers come from |
//! | `code` | functions as lists of what is read and written |
//! | `imports` | what functions of other modules do |
//! | `facts` | what is known of functions before anything is affected |
//! | `control` | who runs by whose decision |
//! | `summary` | what depends on what in a function |
//! | `settle` | the same for all functions |
//! | `spread` | what is affected |
//! | `after` | what can run after something is affected |
//! | `reading` | data that code may read at all |

mod after;
mod code;
mod control;
mod facts;
mod imports;
mod mask;
mod objects;
mod provenance;
mod reading;
mod settle;
mod spread;
mod summary;

use crate::blocks::Blocks;
use after::After;
use code::{Code, Places};
use control::Dependents;
use facts::Facts;
use objects::Objects;
use rayon::prelude::*;
use reading::Reading;
use relive_profile::model::Module;
use settle::Program;

/// What is other than it was.
#[derive(Clone, Debug)]
pub struct Seeds {
    /// Blocks that do something else, or leave in another way.
    pub blocks: Blocks,
    /// Data whose content is other when the program starts: indices into [`Module::data`].
    pub data: Vec<u32>,
    /// Blocks that a run did not come to, of which the slice is to be: they run only if something that decides about it is affected. None
    /// of them, for all runs there may be.
    pub idle: Blocks,
}

/// What may be affected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Blocks that may run more or less often.
    pub runs: Blocks,
    /// Blocks that may leave in another way.
    pub ways: Blocks,
    /// Blocks that may compute something else.
    pub values: Blocks,
}

impl Slice {
    /// What may be affected by seeds.
    #[must_use]
    pub fn forward(module: &Module, seeds: &Seeds) -> Self {
        let objects = Objects::new(module);
        let places = Places::new(module);
        let (mut codes, escapes): (Vec<Code>, Vec<_>) = module
            .functions
            .par_iter()
            .map(|function| code::read(module, function, &objects, &places))
            .unzip();
        let facts = Facts::new(module, &objects, &places, &mut codes, &escapes);
        let dependents: Vec<Dependents> = codes.par_iter().map(|code| dependents(code, &facts)).collect();
        let reading = Reading::new(module, &objects);
        let after = After::new(module, &codes, &facts, &objects, &reading);
        let mut idle = seeds.idle.clone();
        loop {
            let mut active = seeds.blocks.clone();
            idle.iter().for_each(|(function, block)| active.remove(function, block));
            let program = Program {
                codes: &codes,
                dependents: &dependents,
                facts: &facts,
                objects: &objects,
                seeds: &active,
                idle: &idle,
            };
            let read = reading.by(&idle);
            let data = seeds.data.iter().copied().filter(|block| read.contains(block)).collect();
            let data: Vec<u32> = objects.with_holders(module, data, &read).into_iter().collect();
            let mut slice = spread::spread(module, &program, &data);
            if let Some(after) = after.of(&active, &idle, &data) {
                [&mut slice.runs, &mut slice.ways, &mut slice.values]
                    .into_iter()
                    .for_each(|set| set.retain(&after));
            }
            let woken: Vec<(u32, u32)> =
                slice.runs.iter().filter(|&(function, block)| idle.contains(function, block)).collect();
            if woken.is_empty() {
                return slice;
            }
            // They may run now, and do something to others.
            woken.into_iter().for_each(|(function, block)| idle.remove(function, block));
        }
    }

    /// All of them.
    #[must_use]
    pub fn all(&self, module: &Module) -> Blocks {
        let mut all = Blocks::none(module);
        for set in [&self.runs, &self.ways, &self.values] {
            set.iter().for_each(|(function, block)| {
                all.insert(function, block);
            });
        }
        all
    }
}

/// Every block whose behaviour may differ if the seeds do something else: how often it runs, the values it computes, the
/// ways it leaves.
#[must_use]
pub fn forward(module: &Module, seeds: &Seeds) -> Blocks {
    Slice::forward(module, seeds).all(module)
}

fn dependents(code: &Code, facts: &Facts) -> Dependents {
    let mut leaves: Vec<bool> = code
        .blocks
        .iter()
        .enumerate()
        .map(|(i, block)| block.returns || block.tail || block.may_end && facts.may_end(code, i))
        .collect();
    leaves.resize(code.graph.len(), false);
    Dependents::new(&code.graph, &leaves)
}
