//! What each function reads of what its callers left in registers.
//!
//! Calling conventions say it for calls into other modules. Inside a module compilers and people agree on
//! whatever they like, so here every function is asked itself, callees before their callers.

use relive_code::addr::LinkAddr;
use relive_code::cfg::{Cfg, End, Target};
use relive_code::isa::RegSet;
use relive_code::liveness::{Convention, Liveness};
use relive_image::image::Image;
use relive_image::program::{FunctionId, Program};
use std::collections::HashMap;

/// What functions read at their entries.
pub struct Needs<'a, 'd> {
    image: &'a Image<'d>,
    reads: HashMap<LinkAddr, RegSet>,
}

impl<'a, 'd> Needs<'a, 'd> {
    /// Asks all functions.
    #[must_use]
    pub fn new(image: &'a Image<'d>, program: &Program<'d>) -> Self {
        let mut this = Self { image, reads: HashMap::new() };
        let convention = Convention {
            read_by_call: Convention::system_v().read_by_call,
            // What only passes through is no business of the function.
            live_at_return: RegSet::EMPTY,
            live_at_no_return: RegSet::EMPTY,
            ..Convention::cautious()
        };
        for id in callees_first(program) {
            let function = program.function(id);
            if !function.cfg.is_understood() {
                continue;
            }
            let callees = |at| this.of(at);
            let liveness = Liveness::with_callees(&function.cfg, &image.elf, &convention, &callees);
            let reads: Vec<_> = function
                .cfg
                .entries
                .iter()
                .map(|&e| (function.cfg.block(e).start, liveness.live_in(e)))
                .collect();
            drop(liveness);
            this.reads.extend(reads);
        }
        this
    }

    /// What the code at `at` reads when it is called; `None` if the calling convention says it.
    #[must_use]
    pub fn of(&self, at: LinkAddr) -> Option<RegSet> {
        match self.reads.get(&at) {
            Some(&reads) => Some(reads),
            None if self.image.stub_holding(at).is_some() => None,
            // Part of a cycle of calls, or code nobody understands.
            None => Some(RegSet::ALL),
        }
    }
}

/// All functions, each behind those it calls as far as that is possible.
fn callees_first(program: &Program<'_>) -> Vec<FunctionId> {
    let mut order = Vec::with_capacity(program.functions.len());
    let mut seen = vec![false; program.functions.len()];
    let mut stack: Vec<(FunctionId, Vec<FunctionId>)> = Vec::new();
    for (root, _) in program.numbered() {
        if std::mem::replace(&mut seen[root.index()], true) {
            continue;
        }
        stack.push((root, called(program, &program.function(root).cfg)));
        while let Some((id, pending)) = stack.last_mut() {
            match pending.pop() {
                Some(next) if !std::mem::replace(&mut seen[next.index()], true) => {
                    stack.push((next, called(program, &program.function(next).cfg)));
                }
                Some(_) => {}
                None => {
                    order.push(*id);
                    stack.pop();
                }
            }
        }
    }
    order
}

fn called(program: &Program<'_>, cfg: &Cfg) -> Vec<FunctionId> {
    let calls = cfg.blocks.iter().filter_map(|block| match block.end {
        End::Call(to) => Some(to),
        _ => None,
    });
    let jumps = cfg.edges.iter().filter_map(|edge| match edge.to {
        Target::Outside(to) => Some(to),
        _ => None,
    });
    calls.chain(jumps).filter_map(|at| program.function_at(at)).collect()
}
