//! What each function reads of what its callers left in registers, and what it leaves changed.
//!
//! Calling conventions say it for calls into other modules. Inside a module compilers and people agree on
//! whatever they like, so here every function is asked itself, callees before their callers. A caller that
//! knows its callee may keep a value in any register the callee, and whoever that calls, leaves alone.

use super::{FunctionId, Program};
use crate::image::Image;
use rayon::prelude::*;
use relive_code::addr::LinkAddr;
use relive_code::cfg::{Cfg, EdgeKind, End, Target};
use relive_code::isa::{Gpr, RegSet};
use relive_code::liveness::{Convention, Liveness, Summaries};
use std::collections::HashMap;

/// What functions read at their entries.
pub struct Needs<'a, 'd> {
    image: &'a Image<'d>,
    reads: HashMap<LinkAddr, RegSet>,
    changes: HashMap<LinkAddr, RegSet>,
    /// Scratch registers somebody keeps a value in across a call of the function.
    relied_on: HashMap<LinkAddr, RegSet>,
    /// By function.
    summaries: Vec<Summaries>,
}

/// What any function may change, by convention, but for where it leaves results.
#[must_use]
pub fn scratch() -> RegSet {
    [Gpr::RCX, Gpr::RSI, Gpr::RDI, Gpr::R8, Gpr::R9, Gpr::R10, Gpr::R11].into_iter().collect()
}

impl<'a, 'd> Needs<'a, 'd> {
    /// Asks all functions.
    #[must_use]
    pub fn new(image: &'a Image<'d>, program: &Program<'d>) -> Self {
        let (reads, changes, relied_on) = (HashMap::new(), HashMap::new(), HashMap::new());
        let summaries = program.functions.par_iter().map(|f| Summaries::new(&f.cfg, &image.elf)).collect();
        let mut this = Self { image, reads, changes, relied_on, summaries };
        // Whoever calls a function with a static chain, or one of variable arguments, sets `r10` or `al` right
        // there; nobody hands them on.
        let arguments = Convention::system_v().read_by_call & !RegSet::gpr(Gpr::R10);
        let convention = Convention {
            read_by_call: arguments & !RegSet::gpr(Gpr::RAX),
            // What only passes through is no business of the function.
            live_at_return: RegSet::EMPTY,
            live_at_no_return: RegSet::EMPTY,
            live_at_tail_call: arguments,
            ..Convention::cautious()
        };
        // Starts from nothing and asks again whoever calls a function that said more than before.
        let order = callees_first(program);
        let mut callers: HashMap<FunctionId, Vec<FunctionId>> = HashMap::new();
        for &id in &order {
            for callee in called(program, &program.function(id).cfg) {
                callers.entry(callee).or_default().push(id);
            }
        }
        let mut stale = vec![true; program.functions.len()];
        for function in program.functions.iter().filter(|f| f.cfg.is_understood()) {
            for &entry in &function.cfg.entries {
                let at = function.cfg.block(entry).start;
                this.reads.insert(at, RegSet::EMPTY);
                this.changes.insert(at, RegSet::EMPTY);
            }
        }
        while stale.contains(&true) {
            for &id in &order {
                let function = program.function(id);
                if std::mem::take(&mut stale[id.index()])
                    && function.cfg.is_understood()
                    && this.ask(id, &function.cfg, &convention)
                {
                    callers.get(&id).into_iter().flatten().for_each(|caller| stale[caller.index()] = true);
                }
            }
        }
        let all = program.functions.par_iter().zip(&this.summaries);
        let all = all.flat_map_iter(|(function, summaries)| this.reliance(&function.cfg, summaries));
        let all: Vec<(LinkAddr, RegSet)> = all.collect();
        for (callee, registers) in all {
            *this.relied_on.entry(callee).or_insert(RegSet::EMPTY) |= registers;
        }
        this
    }

    /// Whom the function calls, with the scratch registers it keeps values in meanwhile.
    fn reliance(&self, cfg: &Cfg, summaries: &Summaries) -> Vec<(LinkAddr, RegSet)> {
        let convention = Convention {
            read_by_call: Convention::system_v().read_by_call,
            live_at_return: Convention::cautious().live_at_return & !self.changes_of(cfg, summaries),
            ..Convention::cautious()
        };
        let callees = |at| self.of(at);
        let liveness = Liveness::with_summaries(cfg, &self.image.elf, &convention, &callees, summaries);
        let kept = |live: RegSet| if cfg.is_understood() { live & scratch() } else { scratch() };
        let mut found = Vec::new();
        for (id, block) in cfg.numbered_blocks() {
            if let End::Call(to) = block.end {
                found.push((to, kept(liveness.live_out(id))));
            }
        }
        for edge in &cfg.edges {
            if let Target::Outside(to) = edge.to {
                found.push((to, kept(convention.live_at_return)));
            }
        }
        found
    }

    /// What may be live where the function returns. Who calls it without knowing it goes by the convention;
    /// who knows it may keep values in scratch registers it does not change.
    #[must_use]
    pub fn live_at_return(&self, cfg: &Cfg) -> RegSet {
        let entries = cfg.entries.iter().map(|&entry| cfg.block(entry).start);
        let relied_on = entries
            .filter_map(|at| self.relied_on.get(&at))
            .fold(RegSet::EMPTY, |all, &registers| all | registers);
        ((Convention::cautious().live_at_return & !scratch()) | relied_on) & !self.stated_free(cfg)
    }

    /// What its compiler says that callers do not read behind any return: it goes before what they might do.
    fn stated_free(&self, cfg: &Cfg) -> RegSet {
        let returns = cfg.blocks.iter().filter(|block| block.end == End::Return);
        let stated = returns.map(|block| self.image.stated.free.get(&block.last_insn()).copied());
        let everywhere = stated.reduce(|all, some| Some(all? & some?)).flatten();
        everywhere.map_or(RegSet::EMPTY, |free| free & scratch())
    }

    /// Asks one function; whether it said more than before.
    fn ask(&mut self, id: FunctionId, cfg: &Cfg, convention: &Convention) -> bool {
        let callees = |at| self.of(at);
        let summaries = self.summaries(id);
        let liveness = Liveness::with_summaries(cfg, &self.image.elf, convention, &callees, summaries);
        let reads: Vec<_> = cfg.entries.iter().map(|&e| (cfg.block(e).start, liveness.live_in(e))).collect();
        let changes = self.changes_of(cfg, summaries);
        let mut more = false;
        for (at, reads) in reads {
            more |= self.reads.insert(at, reads) != Some(reads);
            more |= self.changes.insert(at, changes) != Some(changes);
        }
        more
    }

    /// Scratch registers that callers of this code cannot rely on, whoever they are.
    fn changes_of(&self, cfg: &Cfg, summaries: &Summaries) -> RegSet {
        let mut changes = summaries.writes();
        let callee = |at: LinkAddr| match self.changes.get(&at) {
            Some(&changes) => changes,
            None if self.image.stub_holding(at).is_some() => scratch(),
            None => RegSet::EMPTY,
        };
        for block in &cfg.blocks {
            changes |= match block.end {
                End::Call(to) => callee(to),
                End::IndirectCall(_) => scratch(),
                _ => RegSet::EMPTY,
            };
        }
        for edge in &cfg.edges {
            changes |= match (edge.to, edge.kind) {
                (Target::Outside(to), _) => callee(to),
                (Target::Elsewhere, EdgeKind::TailCall) => scratch(),
                _ => RegSet::EMPTY,
            };
        }
        changes & scratch()
    }

    /// What the blocks of a function do.
    #[must_use]
    pub fn summaries(&self, id: FunctionId) -> &Summaries {
        &self.summaries[id.index()]
    }

    /// What the code at `at` reads when it is called; `None` if the calling convention says it.
    #[must_use]
    pub fn of(&self, at: LinkAddr) -> Option<RegSet> {
        match self.reads.get(&at) {
            Some(&reads) => Some(reads),
            // Nothing that is called by name from another module has a static chain.
            None if self.image.stub_holding(at).is_some() => {
                Some(Convention::system_v().read_by_call & !RegSet::gpr(Gpr::R10))
            }
            // Code nobody understands.
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
