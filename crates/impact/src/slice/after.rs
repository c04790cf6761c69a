//! What can run after something that is affected by itself did. Whatever ran before, nothing can have changed.
//!
//! From the seeds on, control goes on in their functions, returns to callers and goes on there, and enters whoever is called on the way; who
//! was entered so returns to where it was called from and to nobody else (Horwitz, Reps, Binkley 1990, the same two phases). A block that does
//! not run, as far as known, can be come to, but nothing follows from it. With several threads, nothing comes before anything else.

use super::code::{Code, Place, Site, Target, of_block};
use super::facts::Facts;
use super::imports::Does;
use super::objects::Objects;
use super::reading::Reading;
use crate::blocks::Blocks;
use hashbrown::{HashMap, HashSet};
use relive_code::addr::LinkAddr;
use relive_code::isa::Decode;
use relive_profile::model::{DataBlock, DataKind, Module};

/// Who calls whom from where.
pub(super) struct After<'a> {
    module: &'a Module,
    codes: &'a [Code],
    facts: &'a Facts,
    objects: &'a Objects,
    /// By callee, as in [`Facts::callee`]: functions and blocks with calls of it.
    callers: HashMap<u32, Vec<(u32, u32)>>,
    /// Of functions of which only the code is known: whom they may call.
    bare: HashMap<u32, Vec<u32>>,
    /// Functions that the loader calls before all others, or behind them.
    loaded: HashSet<u32>,
    /// Functions that nobody is known to call.
    roots: Vec<u32>,
    /// Nothing can be said.
    unknown: bool,
}

/// Functions by which other things run at the same time, or in turn.
const CONCURRENT: [&str; 6] =
    ["pthread_create", "thrd_create", "clone", "swapcontext", "makecontext", "setcontext"];

impl<'a> After<'a> {
    pub(super) fn new(
        module: &'a Module,
        codes: &'a [Code],
        facts: &'a Facts,
        objects: &'a Objects,
        reading: &Reading<'_>,
    ) -> Self {
        let names = module.functions.iter().flat_map(|function| &function.calls);
        let names = names.filter_map(|call| module.callee_name(call.callee));
        let slots = module.data.iter().filter(|data| data.kind == DataKind::Import);
        let slots = slots.filter_map(|data| data.name.map(|name| module.text(name)));
        let bare_name = |name: &'a str| name.split('@').next().unwrap_or(name);
        let mut names = names.map(bare_name).chain(slots.map(bare_name));
        let concurrent = names.any(|name| CONCURRENT.contains(&name));
        let mut after = Self {
            module,
            codes,
            facts,
            objects,
            callers: HashMap::new(),
            bare: HashMap::new(),
            loaded: HashSet::new(),
            roots: Vec::new(),
            unknown: concurrent,
        };
        for (code, caller) in codes.iter().zip(0..) {
            if code.opaque {
                after.read_bare(caller);
            }
            for site in &code.sites {
                if let Some(callee) = after.callee(site) {
                    after.callers.entry(callee).or_default().push((caller, site.block));
                }
            }
        }
        let alone: Vec<&DataBlock> =
            module.data.iter().zip(0..).filter(|(_, i)| reading.is_alone(*i)).map(|d| d.0).collect();
        for pointer in &module.pointers {
            let behind = alone.partition_point(|data| data.address <= pointer.at);
            let is_alone =
                behind.checked_sub(1).is_some_and(|i| pointer.at < alone[i].address + alone[i].size);
            let function = module.functions.binary_search_by_key(&pointer.to, |f| f.address);
            after.loaded.extend(function.ok().filter(|_| is_alone).map(|f| f as u32));
        }
        let called: HashSet<u32> = after.bare.values().flatten().copied().collect();
        let is_root =
            |f: &u32| !after.callers.contains_key(f) && !facts.taken.contains(f) && !called.contains(f);
        after.roots = (0..codes.len() as u32).filter(is_root).collect();
        after
    }

    /// Who is entered by a call, and perhaps by a function of another module that is called.
    fn callee(&self, site: &Site) -> Option<u32> {
        match site.target {
            Target::Import(import) if import.does == Does::Anything => Some(self.facts.pointer()),
            target => self.facts.callee(target),
        }
    }

    /// Whom a function may call of which nothing but the code is known.
    fn read_bare(&mut self, function: u32) {
        let own = &self.module.functions[function as usize];
        self.unknown |= own.code.is_empty();
        let mut called = Vec::new();
        let mut at = 0;
        for piece in &own.pieces {
            let code = own.code.get(at..at + piece.len as usize).unwrap_or_default();
            at += piece.len as usize;
            for insn in Decode::new(code, LinkAddr(piece.start)) {
                let targets = insn.operands().filter_map(|operand| match operand {
                    relive_code::isa::Operand::Target(to) => Some(to.0),
                    _ => None,
                });
                let named = insn.address_constants(true).map(|at| at.0);
                for to in targets.chain(named) {
                    called.extend(
                        self.module.functions.binary_search_by_key(&to, |f| f.address).ok().map(|f| f as u32),
                    );
                }
            }
        }
        self.bare.insert(function, called);
    }

    /// Blocks that can run after a seed. Nothing if that may be all.
    pub(super) fn of(&self, seeds: &Blocks, idle: &Blocks, data: &[u32]) -> Option<Blocks> {
        let escaped = |block: u32| self.facts.escaped[self.objects.of_block(block) as usize];
        let reachable = |&block: &u32| escaped(block) && !self.objects.is_told(block);
        let reads_data = |code: &Code| {
            code.read_data().any(|(first, behind)| data.iter().any(|block| (first..behind).contains(block)))
        };
        if self.unknown
            || data.iter().any(reachable)
            || self.codes.iter().any(|code| code.opaque && reads_data(code))
        {
            return None;
        }
        let mut way = Way {
            after: self,
            idle,
            reached: Blocks::none(self.module),
            nodes: [HashSet::new(), HashSet::new()],
            pending: Vec::new(),
            pointed: false,
            left: HashSet::new(),
        };
        for (function, block) in seeds.iter() {
            way.reached.insert(function, block);
            way.go_on(function, block, true);
        }
        for (code, function) in self.codes.iter().zip(0..) {
            for block in 0..code.blocks.len() as u32 {
                if !data.is_empty() && !idle.contains(function, block) && reads(code, block, data) {
                    way.reached.insert(function, block);
                    way.go_on(function, block, true);
                }
            }
            // Where jumps out of nowhere lead.
            code.landings.iter().for_each(|&landing| way.come(function, landing, true));
        }
        way.follow();
        Some(way.reached)
    }
}

/// Whether a block reads data.
fn reads(code: &Code, block: u32, data: &[u32]) -> bool {
    let ops = code.blocks[block as usize].ops.clone();
    let mems = code.ops[ops.start as usize..ops.end as usize]
        .iter()
        .flat_map(|op| &code.mems[op.first as usize..op.first as usize + usize::from(op.accesses)]);
    mems.filter(|mem| mem.reads).any(|mem| match mem.place {
        Place::Data(first, behind) => data.iter().any(|block| (first..behind).contains(block)),
        Place::AllData => true,
        _ => false,
    })
}

/// How far control has come.
struct Way<'w> {
    after: &'w After<'w>,
    idle: &'w Blocks,
    reached: Blocks,
    /// Blocks and hubs that were come to: without a way back to callers, and with one.
    nodes: [HashSet<(u32, u32)>; 2],
    pending: Vec<(u32, u32, bool)>,
    /// Whether functions that pointers lead to were entered.
    pointed: bool,
    /// Functions that have returned to their callers.
    left: HashSet<u32>,
}

impl Way<'_> {
    /// Control comes to a block or hub; `back` if callers go on afterwards.
    fn come(&mut self, function: u32, node: u32, back: bool) {
        // With a way back is more than without.
        if self.nodes[1].contains(&(function, node))
            || !self.nodes[usize::from(back)].insert((function, node))
        {
            return;
        }
        self.reached.insert(function, node);
        if !self.idle.contains(function, node) {
            self.pending.push((function, node, back));
        }
    }

    fn follow(&mut self) {
        while let Some((function, node, back)) = self.pending.pop() {
            self.go_on(function, node, back);
        }
    }

    fn go_on(&mut self, function: u32, node: u32, back: bool) {
        let after = self.after;
        let code = &after.codes[function as usize];
        if code.opaque {
            return self.run_bare(function, back);
        }
        code.graph.successors(node).iter().for_each(|&next| self.come(function, next, back));
        let Some(block) = code.blocks.get(node as usize) else { return };
        for site in &code.sites[of_block(&code.sites, node as usize)] {
            if let Some(callee) = after.callee(site) {
                self.enter(callee);
            }
        }
        if back && (block.returns || block.tail || after.facts.may_end(code, node as usize)) {
            self.leave(function);
        }
    }

    /// A function is called.
    fn enter(&mut self, callee: u32) {
        let after = self.after;
        let Some(code) = after.codes.get(callee as usize) else {
            if !std::mem::replace(&mut self.pointed, true) {
                after.facts.taken.iter().for_each(|&taken| self.enter(taken));
            }
            return;
        };
        if code.opaque {
            return self.run_bare(callee, false);
        }
        code.entries.iter().for_each(|&entry| self.come(callee, entry, false));
    }

    /// A function of which only the code is known runs.
    fn run_bare(&mut self, function: u32, back: bool) {
        let first = self.nodes[usize::from(back)].insert((function, u32::MAX));
        if first {
            self.reached.insert_function(function);
            let called = self.after.bare.get(&function).cloned().unwrap_or_default();
            called.into_iter().for_each(|callee| self.enter(callee));
            self.enter(self.after.facts.pointer());
            if back {
                self.leave(function);
            }
        }
    }

    /// A function returns to whoever called it, or is left for one of them.
    fn leave(&mut self, function: u32) {
        if !self.left.insert(function) {
            return;
        }
        let after = self.after;
        let mut callees = vec![function];
        if after.facts.taken.contains(&function) {
            callees.push(after.facts.pointer());
        }
        for callee in callees {
            for &(caller, block) in after.callers.get(&callee).into_iter().flatten() {
                if self.idle.contains(caller, block) {
                    continue;
                }
                let code = &after.codes[caller as usize];
                code.graph.successors(block).iter().for_each(|&next| self.come(caller, next, true));
                if code.blocks[block as usize].tail || after.facts.may_end(code, block as usize) {
                    self.leave(caller);
                }
            }
        }
        let bare: Vec<u32> = after
            .bare
            .iter()
            .filter(|(_, called)| called.contains(&function))
            .map(|(&bare, _)| bare)
            .collect();
        bare.into_iter().for_each(|bare| self.run_bare(bare, true));
        if after.loaded.contains(&function) {
            after.roots.iter().for_each(|&root| self.enter(root));
        }
        // Who calls it from outside calls others as well: what is left to be done at the end, for one.
        self.enter(after.facts.pointer());
    }
}
