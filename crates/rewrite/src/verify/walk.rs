//! Walks the old and the new code of one function in step.

mod checks;
mod held;
mod recorded;

use super::counts::{self, Increments, weight};
use super::tables::{Frames, actions_agree, rows_agree};
use super::{Finding, World, Wrong, shapes};
use crate::emit::convention;
use crate::redirect::distance_between;
use held::{Held, Holding, Kept, Met, Spot};
use relive_code::addr::LinkAddr;
use relive_code::cfg::{Block, BlockId, Cfg, End, Target};
use relive_code::isa::{EffectsReader, Flow, Gpr, Insn, RegSet, Syntax, Tie};
use relive_code::jump_table::JumpTable;
use relive_code::liveness::Liveness;
use relive_code::source::Pointer;
use relive_image::elf::Elf;
use relive_image::program::Function;
use relive_probe::describe::Measured;
use relive_probe::graph::{ArcKind, Node};
use std::collections::HashMap;

/// Findings of one function are cut off here: what follows the first is mostly the same again.
const ENOUGH: usize = 5;
/// Jumps and counters in a row between two copied instructions: far more than can be needed.
const FAR: usize = 10_000;

/// What came of it.
#[derive(Default)]
pub(super) struct Walked {
    pub(super) insns: u64,
    pub(super) probes: u64,
    pub(super) findings: Vec<Finding>,
}

/// Walks function number `index`.
pub(super) fn walk(world: &World<'_, '_>, index: usize, measured: &Measured) -> Walked {
    let function = &world.program.functions[index];
    let cfg = &function.cfg;
    let elf = &world.old.elf;
    let mut arcs_from: Vec<Vec<usize>> = vec![Vec::new(); cfg.blocks.len()];
    for (i, arc) in measured.flow.arcs.iter().enumerate() {
        if let Node::Block(from) = arc.from {
            arcs_from[from.index()].push(i);
        }
    }
    let callees = |at| world.needs.of(at);
    let mut walk = Walk {
        world,
        function,
        cfg,
        measured,
        liveness: Liveness::with_callees(cfg, elf, &convention(&world.needs, cfg), &callees),
        old_frames: Frames::new(world.old),
        new_frames: Frames::new(world.new),
        first: cfg.blocks.iter().map(|block| first_copied(block, elf)).collect(),
        arcs_from,
        places: HashMap::new(),
        todo: Vec::new(),
        jumps: Vec::new(),
        copies: HashMap::new(),
        arcs: vec![None; measured.flow.arcs.len()],
        blocks: vec![None; cfg.blocks.len()],
        tails: vec![0; cfg.blocks.len()],
        held: HashMap::new(),
        kept: Kept::default(),
        walked: Walked::default(),
    };
    walk.run();
    walk.walked
}

/// Whether nothing of it needs to be in the new code.
fn is_dropped(insn: &Insn) -> bool {
    (insn.is_padding() || insn.is_landing_mark()) && !insn.is_breakpoint()
}

/// The first instruction of the block that must be in the new code.
fn first_copied(block: &Block, elf: &Elf<'_>) -> Option<LinkAddr> {
    let is_jump = |insn: &Insn| block.end == End::Jump && insn.addr() == block.last_insn();
    let is_end = |insn: &Insn| block.end != End::FallThrough && insn.addr() == block.last_insn();
    block
        .insns(elf)
        .find(|insn| !is_jump(insn) && (is_end(insn) || !is_dropped(insn)))
        .map(|insn| insn.addr())
}

/// Where control arrives once it has passed blocks of which nothing is left.
enum Arrival {
    Block(BlockId),
    Outside(LinkAddr),
    /// It goes round for ever without doing anything.
    Nowhere,
}

struct Walk<'a, 'd> {
    world: &'a World<'a, 'd>,
    function: &'a Function<'d>,
    cfg: &'a Cfg,
    measured: &'a Measured,
    liveness: Liveness<'a, Elf<'d>>,
    old_frames: Frames<'a, 'd>,
    new_frames: Frames<'a, 'd>,
    /// For each block, its first instruction that must be in the new code.
    first: Vec<Option<LinkAddr>>,
    arcs_from: Vec<Vec<usize>>,
    /// Where the first copied instruction of a block is.
    places: HashMap<BlockId, LinkAddr>,
    todo: Vec<BlockId>,
    /// Blocks that end in a computed jump.
    jumps: Vec<BlockId>,
    /// Where a jump table was copied to, by its old address.
    copies: HashMap<LinkAddr, LinkAddr>,
    /// What is incremented along each arc.
    arcs: Vec<Option<u64>>,
    /// What is incremented inside each block.
    blocks: Vec<Option<u64>>,
    /// What is incremented at the end of a block, where it called the kernel before and may never have come.
    tails: Vec<u64>,
    /// Registers that hold a count at the start of a block.
    held: HashMap<BlockId, Held>,
    kept: Kept,
    walked: Walked,
}

type Step<T = ()> = Result<T, Wrong>;

impl Walk<'_, '_> {
    fn run(&mut self) {
        for (i, arc) in self.measured.flow.arcs.iter().enumerate() {
            let (ArcKind::Enter, Node::Block(to)) = (arc.kind, arc.to) else { continue };
            let old = self.cfg.block(to).start;
            // Without a place to enter there is a finding already.
            if let Some(&at) = self.world.entries.get(&old) {
                let step = self.arrive(Some(i), old, at, Target::Block(to), &Held::new());
                self.settle(old, step);
            }
        }
        loop {
            if self.walked.findings.len() >= ENOUGH {
                return;
            }
            if let Some(block) = self.todo.pop() {
                let mut old = self.cfg.block(block).start;
                let step = self.block(block, &mut old);
                self.settle(old, step);
            } else if let Some(block) = self.jumps.pop() {
                // Last, since whatever names a copy of a table comes before.
                let step = self.cases(block);
                self.settle(self.cfg.block(block).last_insn(), step);
            } else {
                break;
            }
        }
        if self.walked.findings.is_empty() {
            self.check_counts();
        }
        if self.walked.findings.is_empty() {
            self.check_symbols();
        }
    }

    fn settle(&mut self, old: LinkAddr, step: Step) {
        if let Err((new, what)) = step {
            self.report(old, new, what);
        }
    }

    fn report(&mut self, old: LinkAddr, new: LinkAddr, what: String) {
        self.walked.findings.push(Finding { function: self.function.name().into_owned(), old, new, what });
    }

    /// Compares one block; `old` follows what is being looked at.
    fn block(&mut self, id: BlockId, old: &mut LinkAddr) -> Step {
        let block = *self.cfg.block(id);
        let mut at = self.places[&id];
        let mut held = self.held.get(&id).cloned().unwrap_or_default();
        let (mut incremented, mut tail, mut in_kernel) = (0u64, 0u64, false);
        let mut reader = EffectsReader::new();
        self.check_treatment(block.start, at)?;
        for (insn, (_, live)) in block.insns(&self.world.old.elf).zip(self.liveness.per_insn(id)) {
            *old = insn.addr();
            let is_end = insn.addr() == block.last_insn() && block.end != End::FallThrough;
            if is_end && block.end == End::Jump {
                break;
            }
            if !is_end && is_dropped(&insn) {
                continue;
            }
            let (next, met) = self.skip(at, live, &mut held, &[insn.addr()], None, &|_| false)?;
            at = next;
            let sum = if in_kernel { &mut tail } else { &mut incremented };
            *sum = sum.wrapping_add(met.sum);
            self.kept.bump(Spot::Block(id), met.bumped);
            in_kernel |= insn.is_syscall();
            self.check_row(insn.addr(), at, 0)?;
            self.walked.insns += 1;
            if !held.is_empty() {
                let kept: RegSet = held.keys().copied().collect();
                if kept.intersects(live | reader.effects(&insn).writes) {
                    return Err((at, format!("{kept} holds a count here, but is needed")));
                }
                let moved = held::moved_on(&held, &insn, reader.effects(&insn).writes, at)?;
                self.kept.bump(Spot::Block(id), moved);
            }
            if is_end {
                self.blocks[id.index()] = Some(incremented);
                self.tails[id.index()] = tail;
                return self.end(id, &block, &insn, at, &held);
            }
            at = self.same(&insn, at)?;
            // Nothing but a call throws, unless its compiler was told otherwise: then this round is not counted.
            self.check_throw(id, &insn, at, &Held::new())?;
        }
        self.blocks[id.index()] = Some(incremented);
        self.tails[id.index()] = tail;
        match self.follower(id) {
            Some((arc, to)) => self.arrive(arc, *old, at, to, &held),
            None => Ok(()),
        }
    }

    /// What follows a block that ends in no instruction of its own, and the arc there.
    fn follower(&self, id: BlockId) -> Option<(Option<usize>, Target)> {
        let block = self.cfg.block(id);
        if block.end == End::Jump {
            let to = self.cfg.edges_from(id).first()?.to;
            return Some((self.arc(id, &[ArcKind::Jump, ArcKind::TailCall]), to));
        }
        let edge = self.cfg.edges_from(id).iter().find(|e| self.is_next(block, e.to))?;
        Some((self.arc(id, &[ArcKind::FallThrough]), edge.to))
    }

    fn is_next(&self, block: &Block, to: Target) -> bool {
        match to {
            Target::Block(to) => self.cfg.block(to).start == block.end_addr(),
            Target::Outside(to) => to == block.end_addr(),
            Target::Elsewhere => false,
        }
    }

    fn arc(&self, from: BlockId, kinds: &[ArcKind]) -> Option<usize> {
        let kind = |&i: &usize| self.measured.flow.arcs[i].kind;
        self.arcs_from[from.index()].iter().copied().find(|i| kinds.contains(&kind(i)))
    }

    /// Compares the instruction at the end of a block, and goes where it leads.
    fn end(&mut self, id: BlockId, block: &Block, old: &Insn, at: LinkAddr, held: &Held) -> Step {
        let is_branch = block.end == End::Branch;
        if !is_branch && !held.is_empty() {
            return Err((at, "a count is still in a register here".into()));
        }
        let bytes = self.old_bytes(old);
        match old.tie(bytes) {
            Tie::Branch(condition, target) => {
                let new = self.world.insn(at)?;
                let Tie::Branch(new_condition, new_target) = new.tie(self.world.bytes(at)) else {
                    return Err((at, format!("no branch, but `{}`", new.text(Syntax::Intel))));
                };
                let (taken, other) = if new_condition == condition {
                    (new_target, new.next_addr())
                } else if new_condition == condition ^ 1 {
                    (new.next_addr(), new_target)
                } else {
                    return Err((at, "the branch is on another condition".into()));
                };
                self.both_ways(id, block, old, target, (taken, other), held)
            }
            Tie::ShortBranch(target) => {
                let new = self.world.insn(at)?;
                let new_bytes = self.world.bytes(at);
                let (Tie::ShortBranch(taken), Some(start)) =
                    (new.tie(new_bytes), new_bytes.get(..bytes.len() - 1))
                else {
                    return Err((at, format!("no such branch, but `{}`", new.text(Syntax::Intel))));
                };
                if start != &bytes[..bytes.len() - 1] {
                    return Err((at, "the branch is on another condition".into()));
                }
                self.both_ways(id, block, old, target, (taken, new.next_addr()), held)
            }
            Tie::Call(target) => {
                let new = self.world.insn(at)?;
                let Flow::Call(to) = new.flow() else {
                    return Err((at, format!("no call, but `{}`", new.text(Syntax::Intel))));
                };
                self.check_leads(target, to, at)?;
                self.check_throw(id, old, new.next_addr(), held)?;
                self.comes_back(id, block, old, new.next_addr())
            }
            _ => match old.flow() {
                Flow::IndirectCall | Flow::IndirectJump => {
                    let behind = match self.measured.sites.get(&id) {
                        Some(&site) => self.recorded(old, site, at)?,
                        None => self.same(old, at)?,
                    };
                    self.check_throw(id, old, behind, held)?;
                    if block.end == End::IndirectJump {
                        self.jumps.push(id);
                        return Ok(());
                    }
                    self.comes_back(id, block, old, behind)
                }
                _ => self.same(old, at).map(|_| ()),
            },
        }
    }

    fn both_ways(
        &mut self,
        id: BlockId,
        block: &Block,
        old: &Insn,
        target: LinkAddr,
        (taken, other): (LinkAddr, LinkAddr),
        held: &Held,
    ) -> Step {
        let place = |at| self.cfg.block_starting(at).map_or(Target::Outside(at), Target::Block);
        let (to, next) = (place(target), place(block.end_addr()));
        let arc = self.arc(id, &[ArcKind::Taken, ArcKind::TailCall]);
        self.arrive(arc, old.addr(), taken, to, held)?;
        if self.cfg.edges_from(id).iter().any(|e| e.to == next) {
            let arc = self.arc(id, &[ArcKind::FallThrough]);
            self.arrive(arc, old.addr(), other, next, held)?;
        }
        Ok(())
    }

    /// Behind a call.
    fn comes_back(&mut self, id: BlockId, block: &Block, old: &Insn, at: LinkAddr) -> Step {
        let edges = self.cfg.edges_from(id).iter();
        let landing = relive_code::cfg::EdgeKind::LandingPad;
        let Some(to) = edges.filter(|e| e.kind != landing).map(|e| e.to).find(|&to| self.is_next(block, to))
        else {
            return Ok(());
        };
        let arc = self.arc(id, &[ArcKind::CallReturn]).or_else(|| {
            // What comes back again later comes from outside.
            let Target::Block(to) = to else { return None };
            self.measured.flow.arcs.iter().position(|arc| {
                arc.from == Node::Outside && arc.to == Node::Block(to) && arc.kind == ArcKind::CallReturn
            })
        });
        self.arrive(arc, old.addr(), at, to, &Held::new())
    }

    /// The cases of a computed jump. Its tables lead to new code, or to old labels and detours from there.
    fn cases(&mut self, id: BlockId) -> Step {
        let flow = &self.measured.flow;
        let site = self.cfg.block(id).last_insn();
        let hub = flow.hubs.iter().position(|hub| hub.jumps.contains(&id));
        let from = hub.map_or(Node::Block(id), |hub| Node::Hub(hub as u32));
        let leads: Vec<(usize, LinkAddr, BlockId)> = flow
            .arcs
            .iter()
            .enumerate()
            .filter_map(|(i, arc)| match (arc.from == from, arc.kind, arc.to) {
                (true, ArcKind::Case, Node::Block(to)) => Some((i, self.cfg.block(to).start, to)),
                _ => None,
            })
            .collect();
        let mut straight: Vec<LinkAddr> = Vec::new();
        for table in self.cfg.tables.iter().filter(|t| t.site == site) {
            for (i, &target) in table.targets.iter().enumerate() {
                let Some(new) = self.entry(table, i as u64)? else { continue };
                let Some(&(arc, _, to)) = leads.iter().find(|&&(_, old, _)| old == target) else { continue };
                straight.push(target);
                self.arrive(Some(arc), site, new, Target::Block(to), &Held::new())?;
            }
        }
        for (arc, old, to) in leads {
            // Somebody else may jump there through a table that leads straight to it.
            let known = hub.is_some() && self.arcs[arc].is_some();
            let mine = self.cfg.edges_from(id).iter().any(|e| e.to == Target::Block(to));
            if !straight.contains(&old) && !known && mine {
                let at = self.world.detour(old)?;
                self.arrive(Some(arc), site, at, Target::Block(to), &Held::new())?;
            }
        }
        Ok(())
    }

    /// Where entry number `i` of a table leads in the new code; `None` if it still leads to the old.
    fn entry(&self, table: &JumpTable, i: u64) -> Step<Option<LinkAddr>> {
        if let Some(&copy) = self.copies.get(&table.table) {
            let at = copy.offset(4 * i);
            let Some(&distance) = self.world.bytes(at).first_chunk() else {
                return Err((at, "a copied jump table is cut short".into()));
            };
            let to = LinkAddr(copy.0.wrapping_add(i64::from(i32::from_le_bytes(distance)) as u64));
            // Compilers fill entries that cannot be chosen with whatever lies behind the function.
            let no_block = self.cfg.block_holding(to).is_none();
            return match table.targets.get(i as usize) {
                _ if self.world.code.contains(to) => Ok(Some(to)),
                Some(&target) if target == to && no_block => Ok(None),
                _ => Err((at, format!("a copied jump table leads to {to}"))),
            };
        }
        if table.entry_size == 8 && table.table.0 != 0 {
            let stride = distance_between(self.world.old, table, 128).unwrap_or(8);
            let at = table.table.offset(stride * i);
            return match self.world.new.pointer(at) {
                Pointer::Here(to) if self.world.code.contains(to) => Ok(Some(to)),
                Pointer::Here(to) if table.targets.get(i as usize) == Some(&to) => Ok(None),
                other => Err((at, format!("a jump table leads elsewhere: {other:?}"))),
            };
        }
        Ok(None)
    }

    fn old_bytes(&self, insn: &Insn) -> &[u8] {
        &self.world.old.elf.bytes_at(insn.addr())[..insn.len() as usize]
    }

    /// Compares an instruction that is copied; returns the address behind it.
    fn same(&mut self, old: &Insn, at: LinkAddr) -> Step<LinkAddr> {
        let bytes = self.old_bytes(old);
        let new = self.world.insn(at)?;
        let differs = || {
            let text = |insn: &Insn| insn.text(Syntax::Intel).to_string();
            Err((at, format!("`{}` became `{}`", text(old), text(&new))))
        };
        let Some(new_bytes) = self.world.bytes(at).get(..bytes.len()) else { return differs() };
        if new.len() != old.len() {
            return differs();
        }
        match (old.tie(bytes), new.tie(new_bytes)) {
            (Tie::Free, Tie::Free) if bytes == new_bytes => {}
            (Tie::Operand { field, target }, Tie::Operand { field: new_field, target: new_target })
                if field == new_field
                    && bytes[..field] == new_bytes[..field]
                    && bytes[field + 4..] == new_bytes[field + 4..] =>
            {
                let is_table = || {
                    let mut tables = self.cfg.tables.iter();
                    let fits =
                        |t: &JumpTable| t.table == target && t.entry_size == 4 && t.base == Some(target);
                    let in_file = self.world.new.elf.segment_holding(new_target);
                    old.is_lea() && tables.any(fits) && in_file.is_some_and(|s| !s.writable)
                };
                if self.copies.get(&target).is_some_and(|&copy| copy != new_target) {
                    return Err((at, format!("names {new_target}, which is another copy of {target}")));
                }
                if target != new_target && is_table() {
                    self.copies.insert(target, new_target);
                } else if target != new_target {
                    let text = old.text(Syntax::Intel);
                    return Err((at, format!("`{text}` led to {target} and now leads to {new_target}")));
                }
            }
            _ => return differs(),
        }
        Ok(new.next_addr())
    }

    fn check_leads(&self, old: LinkAddr, new: LinkAddr, at: LinkAddr) -> Step {
        if !self.world.leads_to(old, new) {
            return Err((at, format!("led to {old} and now leads to {new}")));
        }
        if new == old
            && let Some(name) = self.world.dead_at(old)
        {
            return Err((at, format!("leads to {old}, in the old code of {name}, which has moved")));
        }
        Ok(())
    }

    /// Goes from the end of what stands for `from` (an old address), at `at`, to where `to` begins.
    fn arrive(&mut self, arc: Option<usize>, from: LinkAddr, at: LinkAddr, to: Target, held: &Held) -> Step {
        let mut held = held.clone();
        let mut passed = vec![from];
        let arrival = self.pass(to, &mut passed);
        let live = match arrival {
            Arrival::Block(id) => self.liveness.live_in(id),
            Arrival::Outside(_) => self.live_at_leaving(*passed.last().unwrap_or(&from)),
            Arrival::Nowhere => RegSet::EMPTY,
        };
        let target = match arrival {
            Arrival::Outside(target) => Some(target),
            _ => None,
        };
        let world = self.world;
        let is_there = |at: LinkAddr| target.is_some_and(|target| world.leads_to(target, at));
        let first = match arrival {
            Arrival::Block(id) => self.first[id.index()],
            _ => Some(LinkAddr(0)),
        };
        let (there, met) = match (arrival, self.skip(at, live, &mut held, &passed, first, &is_there)) {
            (Arrival::Nowhere, Err((_, what))) if what == GOES_ROUND => return Ok(()),
            (Arrival::Nowhere, Ok((there, _))) => {
                return Err((there, "the old code goes round for ever here".into()));
            }
            (Arrival::Outside(target), Ok((there, met))) => {
                self.check_leads(target, there, at)?;
                if !held.is_empty() {
                    return Err((there, "a count is still in a register here".into()));
                }
                (there, met)
            }
            (Arrival::Block(id), Ok((there, met))) => {
                match self.places.get(&id) {
                    None => {
                        self.places.insert(id, there);
                        self.held.insert(id, held);
                        self.todo.push(id);
                    }
                    Some(&known) if known != there => {
                        let block = self.cfg.block(id).start;
                        let what = format!("leads to {there}, but the block at {block} is at {known}");
                        return Err((at, what));
                    }
                    Some(_) => {
                        let known = self.held.get(&id).cloned().unwrap_or_default();
                        if !held::alike(&known, &held) {
                            return Err((
                                at,
                                "registers that hold counts are not set up, or not emptied".into(),
                            ));
                        }
                        known.values().zip(held.values()).for_each(|(a, b)| self.kept.join(a.count, b.count));
                    }
                }
                (there, met)
            }
            (_, Err(wrong)) => return Err(wrong),
        };
        if let Some(arc) = arc {
            match self.arcs[arc] {
                Some(known) if known != met.sum => {
                    return Err((there, "two ways along the same edge count differently".into()));
                }
                Some(_) => {}
                None => {
                    self.arcs[arc] = Some(met.sum);
                    self.kept.bump(Spot::Arc(arc), met.bumped);
                }
            }
        }
        Ok(())
    }

    /// What is live where the block whose last instruction is at `last` leaves the function.
    fn live_at_leaving(&self, last: LinkAddr) -> RegSet {
        match self.cfg.block_holding(last) {
            // There is no other way.
            Some(id) if matches!(self.cfg.block(id).end, End::Jump | End::FallThrough) => {
                self.liveness.live_out(id)
            }
            _ => RegSet::ALL,
        }
    }

    /// Follows `to` through blocks of which nothing need be in the new code.
    fn pass(&mut self, mut to: Target, passed: &mut Vec<LinkAddr>) -> Arrival {
        let (mut blocks, mut arcs) = (Vec::new(), Vec::new());
        for _ in 0..=self.cfg.blocks.len() {
            let arrival = match to {
                Target::Block(id) => self.first[id.index()].map(|first| {
                    passed.extend([self.cfg.block(id).start, first]);
                    Arrival::Block(id)
                }),
                Target::Outside(at) => Some(Arrival::Outside(at)),
                Target::Elsewhere => return Arrival::Nowhere,
            };
            if let Some(arrival) = arrival {
                // Whatever is incremented on the way is put down to the arc that led here.
                blocks.into_iter().for_each(|id: BlockId| self.blocks[id.index()] = Some(0));
                arcs.into_iter().for_each(|arc: usize| self.arcs[arc] = Some(0));
                return arrival;
            }
            let Target::Block(id) = to else { return Arrival::Nowhere };
            let Some((arc, next)) = self.follower(id) else { return Arrival::Nowhere };
            passed.extend([self.cfg.block(id).start, self.cfg.block(id).last_insn()]);
            blocks.push(id);
            arcs.extend(arc);
            to = next;
        }
        Arrival::Nowhere
    }

    /// Skips what stands for nothing in the old code: counters, jumps, fill. Returns where it ends, and what is
    /// incremented on the way. Rows must be those of one of `rows`, old addresses. Between blocks, `first`
    /// is the old instruction that comes next: registers are cleared for counts there only.
    fn skip(
        &mut self,
        mut at: LinkAddr,
        live: RegSet,
        held: &mut Held,
        rows: &[LinkAddr],
        first: Option<LinkAddr>,
        is_there: &dyn Fn(LinkAddr) -> bool,
    ) -> Step<(LinkAddr, Met)> {
        let mut met = Met::default();
        for _ in 0..FAR {
            if is_there(at) {
                return Ok((at, met));
            }
            if !self.world.code.contains(at) {
                return Err((at, "control leaves the new code".into()));
            }
            let bytes = self.world.bytes(at);
            if let Some(probe) = shapes::probe(bytes, at) {
                self.walked.probes += 1;
                let needed = live | held.keys().copied().collect::<RegSet>();
                if needed.intersects(probe.spoils) {
                    let spoilt = needed & probe.spoils;
                    return Err((at, format!("a counter spoils {spoilt}, which is needed")));
                }
                for &(offset, deeper) in probe.steps {
                    self.check_rows(rows, at.offset(offset), deeper)?;
                }
                let counter = self.counter(probe.counter, at)?;
                match probe.adds {
                    None => met.sum = met.sum.wrapping_add(weight(counter)),
                    Some(register) => match held.remove(&register) {
                        Some(Holding { count, from: None }) => self.kept.add(count, counter, 1, true, at),
                        _ => return Err((at, format!("adds {register}, which holds no count"))),
                    },
                }
                at = at.offset(probe.len);
                continue;
            }
            if let Some(look) = shapes::look(bytes, at) {
                // Right behind a system call, which has overwritten the registers it uses.
                let behind_call = self.world.bytes(LinkAddr(at.0 - 2)).starts_with(&[0x0f, 0x05]);
                if !behind_call || held.contains_key(&Gpr::RCX) || held.contains_key(&Gpr::R11) {
                    return Err((at, "a look round spoils registers that are needed".into()));
                }
                if look.owner != self.world.area.start || look.calls != self.world.enter {
                    return Err((at, "a look round at the wrong place".into()));
                }
                for &(offset, deeper) in look.steps {
                    self.check_rows(rows, at.offset(offset), deeper)?;
                }
                at = at.offset(look.len);
                continue;
            }
            if let Some((len, register)) = shapes::bump(bytes)
                && let Some(&Holding { count, from: None }) = held.get(&register)
            {
                self.walked.probes += 1;
                self.check_rows(rows, at, 0)?;
                met.bumped.push((count, 1, None, at));
                at = at.offset(len);
                continue;
            }
            if let Some(first) = first
                && let Some((len, register)) = shapes::clear(bytes)
                && !self.world.old.elf.bytes_at(first).starts_with(&bytes[..len as usize])
            {
                if live.intersects(RegSet::gpr(register)) || held.contains_key(&register) {
                    return Err((at, format!("clears {register}, which is needed")));
                }
                self.check_rows(rows, at, 0)?;
                held.insert(register, Holding { count: self.kept.begin(), from: None });
                at = at.offset(len);
                continue;
            }
            if let Some(len) = self.journey(at, live, held, rows, first, &mut met)? {
                at = at.offset(len);
                continue;
            }
            let insn = self.world.insn(at)?;
            match insn.flow() {
                Flow::Jump(to) => {
                    self.check_rows(rows, at, 0)?;
                    at = to;
                }
                _ if is_dropped(&insn) && !insn.is_landing_mark() => at = insn.next_addr(),
                _ => return Ok((at, met)),
            }
        }
        Err((at, GOES_ROUND.into()))
    }

    /// The number of the function's counter at `counter`.
    fn counter(&self, counter: LinkAddr, at: LinkAddr) -> Step<u32> {
        let first = self.world.counters().offset(u64::from(self.measured.first_counter) * 8);
        let offset = counter.since(first);
        if !offset.is_multiple_of(8) || offset / 8 >= u64::from(self.measured.plan.counters) {
            return Err((at, format!("counts at {counter}, which is no counter of this function")));
        }
        Ok((offset / 8) as u32)
    }
}

const GOES_ROUND: &str = "control goes round for ever without doing anything";
