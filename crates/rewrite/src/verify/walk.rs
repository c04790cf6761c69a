//! Walks the old and the new code of one function in step.

use super::counts::{self, Increments, weight};
use super::tables::{Frames, actions_agree, rows_agree};
use super::{Finding, World, Wrong, shapes};
use relive_code::addr::LinkAddr;
use relive_code::cfg::{Block, BlockId, Cfg, End, Target};
use relive_code::isa::{Flow, Insn, RegSet, Syntax, Tie};
use relive_code::liveness::{Convention, Liveness};
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
    let mut walk = Walk {
        world,
        function,
        cfg,
        measured,
        liveness: Liveness::new(cfg, elf, &Convention::cautious()),
        old_frames: Frames::new(world.old),
        new_frames: Frames::new(world.new),
        first: cfg.blocks.iter().map(|block| first_copied(block, elf)).collect(),
        arcs_from,
        places: HashMap::new(),
        todo: Vec::new(),
        arcs: vec![None; measured.flow.arcs.len()],
        blocks: vec![None; cfg.blocks.len()],
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
    /// What is incremented along each arc.
    arcs: Vec<Option<u64>>,
    /// What is incremented inside each block.
    blocks: Vec<Option<u64>>,
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
                let step = self.arrive(Some(i), old, at, Target::Block(to));
                self.settle(old, step);
            }
        }
        while let Some(block) = self.todo.pop() {
            if self.walked.findings.len() >= ENOUGH {
                return;
            }
            let mut old = self.cfg.block(block).start;
            let step = self.block(block, &mut old);
            self.settle(old, step);
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
        let mut incremented = 0u64;
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
            let (next, sum) = self.skip(at, live, &[insn.addr()], &|_| false)?;
            at = next;
            incremented = incremented.wrapping_add(sum);
            self.check_row(insn.addr(), at, 0)?;
            self.walked.insns += 1;
            if is_end {
                self.blocks[id.index()] = Some(incremented);
                return self.end(id, &block, &insn, at);
            }
            at = self.same(&insn, at)?;
            self.check_throw(id, &insn, at)?;
        }
        self.blocks[id.index()] = Some(incremented);
        match self.follower(id) {
            Some((arc, to)) => self.arrive(arc, *old, at, to),
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
    fn end(&mut self, id: BlockId, block: &Block, old: &Insn, at: LinkAddr) -> Step {
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
                self.both_ways(id, block, old, target, taken, other)
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
                self.both_ways(id, block, old, target, taken, new.next_addr())
            }
            Tie::Call(target) => {
                let new = self.world.insn(at)?;
                let Flow::Call(to) = new.flow() else {
                    return Err((at, format!("no call, but `{}`", new.text(Syntax::Intel))));
                };
                self.check_leads(target, to, at)?;
                self.check_throw(id, old, new.next_addr())?;
                self.comes_back(id, block, old, new.next_addr())
            }
            _ => match old.flow() {
                Flow::IndirectCall | Flow::IndirectJump => {
                    let behind = match self.measured.sites.get(&id) {
                        Some(&site) => self.recorded(old, site, at)?,
                        None => self.same(old, at)?,
                    };
                    self.check_throw(id, old, behind)?;
                    if block.end == End::IndirectJump {
                        return self.cases(id, old);
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
        taken: LinkAddr,
        other: LinkAddr,
    ) -> Step {
        let place = |at| self.cfg.block_starting(at).map_or(Target::Outside(at), Target::Block);
        let (to, next) = (place(target), place(block.end_addr()));
        let arc = self.arc(id, &[ArcKind::Taken, ArcKind::TailCall]);
        self.arrive(arc, old.addr(), taken, to)?;
        if self.cfg.edges_from(id).iter().any(|e| e.to == next) {
            let arc = self.arc(id, &[ArcKind::FallThrough]);
            self.arrive(arc, old.addr(), other, next)?;
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
        self.arrive(arc, old.addr(), at, to)
    }

    /// The cases of a computed jump: its table still leads to old labels, and detours from there.
    fn cases(&mut self, id: BlockId, old: &Insn) -> Step {
        let flow = &self.measured.flow;
        let hub = flow.hubs.iter().position(|hub| hub.jumps.contains(&id));
        let from = hub.map_or(Node::Block(id), |hub| Node::Hub(hub as u32));
        for (i, arc) in flow.arcs.iter().enumerate() {
            let (true, ArcKind::Case, Node::Block(to)) = (arc.from == from, arc.kind, arc.to) else {
                continue;
            };
            if hub.is_some() && self.arcs[i].is_some() {
                continue;
            }
            let at = self.world.detour(self.cfg.block(to).start)?;
            self.arrive(Some(i), old.addr(), at, Target::Block(to))?;
        }
        Ok(())
    }

    /// A call or jump whose target is recorded; returns the address behind it.
    fn recorded(&mut self, old: &Insn, site: u32, mut at: LinkAddr) -> Step<LinkAddr> {
        let wrong = |at, what: &str| Err((at, format!("the target is not recorded as it should: {what}")));
        let text = old.text(Syntax::Intel).to_string();
        let operand = text.split_once("call ").or_else(|| text.split_once("jmp ")).map_or("", |(_, o)| o);
        let row = old.addr();
        // From r11 to r11 nothing need be moved.
        if operand != "r11" {
            let new = self.world.insn(at)?;
            let new_text = new.text(Syntax::Intel).to_string();
            let plain = |text: &str| text.replace("qword ptr ", "");
            let tie = |insn: &Insn, bytes: &[u8]| match insn.tie(bytes) {
                Tie::Operand { target, .. } => Some(target),
                _ => None,
            };
            let (fixed, new_fixed) = (tie(old, self.old_bytes(old)), tie(&new, self.world.bytes(at)));
            let same = match new_text.strip_prefix("mov r11, ") {
                Some(loaded) => fixed == new_fixed && (fixed.is_some() || plain(loaded) == plain(operand)),
                None => false,
            };
            if !same {
                return wrong(at, &format!("`{new_text}` does not load what `{text}` goes to"));
            }
            at = new.next_addr();
            self.check_row(row, at, 0)?;
        }
        let (key, count) = self.world.site(site);
        match shapes::compare(self.world.bytes(at), at) {
            Some((len, to)) if to == key => at = at.offset(len),
            _ => return wrong(at, "it is not compared with the known target"),
        }
        self.check_row(row, at, 0)?;
        let Some((len, miss)) = shapes::if_not_equal(self.world.bytes(at), at) else {
            return wrong(at, "no way for a new target");
        };
        at = at.offset(len);
        self.check_row(row, at, 0)?;
        match shapes::increment(self.world.bytes(at), at) {
            Some((len, to)) if to == count => at = at.offset(len),
            _ => return wrong(at, "it is not counted"),
        }
        let go = self.world.insn(at)?;
        let form = [0x41, 0xff, if old.flow() == Flow::IndirectCall { 0xd3 } else { 0xe3 }];
        if !self.world.bytes(at).starts_with(&form) {
            return wrong(at, "it does not go there");
        }
        self.check_row(row, at, 0)?;
        if !self.world.code.contains(miss) {
            return wrong(miss, "the way for a new target leaves the new code");
        }
        match shapes::push(self.world.bytes(miss)) {
            Some((len, number)) if number == site => {
                self.check_row(row, miss, 0)?;
                let call = self.world.insn(miss.offset(len))?;
                self.check_row(row, call.addr(), 8)?;
                if call.flow() != Flow::Call(self.world.call) {
                    return wrong(call.addr(), "relive_call is not called");
                }
                self.check_row(row, call.next_addr(), 0)?;
                if self.world.insn(call.next_addr())?.flow() != Flow::Jump(at) {
                    return wrong(call.next_addr(), "it does not go on behind it");
                }
            }
            _ => return wrong(miss, "another site is told"),
        }
        Ok(go.next_addr())
    }

    fn old_bytes(&self, insn: &Insn) -> &[u8] {
        &self.world.old.elf.bytes_at(insn.addr())[..insn.len() as usize]
    }

    /// Compares an instruction that is copied; returns the address behind it.
    fn same(&self, old: &Insn, at: LinkAddr) -> Step<LinkAddr> {
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
                if target != new_target {
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
    fn arrive(&mut self, arc: Option<usize>, from: LinkAddr, at: LinkAddr, to: Target) -> Step {
        let mut passed = vec![from];
        let arrival = self.pass(to, &mut passed);
        let live = match arrival {
            Arrival::Block(id) => self.liveness.live_in(id),
            Arrival::Outside(_) => RegSet::ALL,
            Arrival::Nowhere => RegSet::EMPTY,
        };
        let target = match arrival {
            Arrival::Outside(target) => Some(target),
            _ => None,
        };
        let world = self.world;
        let is_there = |at: LinkAddr| target.is_some_and(|target| world.leads_to(target, at));
        let (there, incremented) = match (arrival, self.skip(at, live, &passed, &is_there)) {
            (Arrival::Nowhere, Err((_, what))) if what == GOES_ROUND => return Ok(()),
            (Arrival::Nowhere, Ok((there, _))) => {
                return Err((there, "the old code goes round for ever here".into()));
            }
            (Arrival::Outside(target), Ok((there, sum))) => {
                self.check_leads(target, there, at)?;
                (there, sum)
            }
            (Arrival::Block(id), Ok((there, sum))) => {
                match self.places.get(&id) {
                    None => {
                        self.places.insert(id, there);
                        self.todo.push(id);
                    }
                    Some(&known) if known != there => {
                        let block = self.cfg.block(id).start;
                        let what = format!("leads to {there}, but the block at {block} is at {known}");
                        return Err((at, what));
                    }
                    Some(_) => {}
                }
                (there, sum)
            }
            (_, Err(wrong)) => return Err(wrong),
        };
        if let Some(arc) = arc {
            match self.arcs[arc] {
                Some(known) if known != incremented => {
                    return Err((there, "two ways along the same edge count differently".into()));
                }
                _ => self.arcs[arc] = Some(incremented),
            }
        }
        Ok(())
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

    /// Skips what stands for nothing in the old code: counters, jumps, fill. Returns where it ends, and the sum
    /// of what is incremented on the way. Rows must be those of one of `rows`, old addresses.
    fn skip(
        &mut self,
        mut at: LinkAddr,
        live: RegSet,
        rows: &[LinkAddr],
        is_there: &dyn Fn(LinkAddr) -> bool,
    ) -> Step<(LinkAddr, u64)> {
        let mut sum = 0u64;
        for _ in 0..FAR {
            if is_there(at) {
                return Ok((at, sum));
            }
            if !self.world.code.contains(at) {
                return Err((at, "control leaves the new code".into()));
            }
            if let Some(probe) = shapes::probe(self.world.bytes(at), at) {
                self.walked.probes += 1;
                if live.intersects(probe.spoils) {
                    let spoilt = live & probe.spoils;
                    return Err((at, format!("a counter spoils {spoilt}, which is needed")));
                }
                for &(offset, deeper) in probe.steps {
                    self.check_rows(rows, at.offset(offset), deeper)?;
                }
                sum = sum.wrapping_add(weight(self.counter(probe.counter, at)?));
                at = at.offset(probe.len);
                continue;
            }
            let insn = self.world.insn(at)?;
            match insn.flow() {
                Flow::Jump(to) => {
                    self.check_rows(rows, at, 0)?;
                    at = to;
                }
                _ if is_dropped(&insn) && !insn.is_landing_mark() => at = insn.next_addr(),
                _ => return Ok((at, sum)),
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

    fn check_row(&self, old: LinkAddr, new: LinkAddr, deeper: i64) -> Step {
        self.check_rows(&[old], new, deeper)
    }

    fn check_rows(&self, old: &[LinkAddr], new: LinkAddr, deeper: i64) -> Step {
        let damaged = |what: &'static str| (new, what.to_string());
        let new_frame = self.new_frames.at(new).map_err(damaged)?;
        let new_row = new_frame.as_ref().and_then(|f| f.row(new));
        for &old in old {
            let old_frame = self.old_frames.at(old).map_err(damaged)?;
            if rows_agree(old_frame.as_ref().and_then(|f| f.row(old)), new_row, deeper) {
                return Ok(());
            }
        }
        Err((new, "it is unwound otherwise than the old code".into()))
    }

    fn check_treatment(&self, old: LinkAddr, new: LinkAddr) -> Step {
        let damaged = |what: &'static str| (new, what.to_string());
        let old_frame = self.old_frames.at(old).map_err(damaged)?;
        let new_frame = self.new_frames.at(new).map_err(damaged)?;
        if old_frame.map(|f| f.treatment) != new_frame.map(|f| f.treatment) {
            return Err((new, "another personality, or none, treats its exceptions".into()));
        }
        Ok(())
    }

    /// Compares what becomes of an exception from `old`, whose new code ends at `end`.
    fn check_throw(&mut self, id: BlockId, old: &Insn, end: LinkAddr) -> Step {
        let damaged = |what: &'static str| (end, what.to_string());
        let (old_at, new_at) = (LinkAddr(old.next_addr().0 - 1), LinkAddr(end.0 - 1));
        let old_frame = self.old_frames.at(old_at).map_err(damaged)?;
        let new_frame = self.new_frames.at(new_at).map_err(damaged)?;
        let old_site = old_frame.as_ref().and_then(|f| f.site(old_at));
        let new_site = new_frame.as_ref().and_then(|f| f.site(new_at));
        let differs = |what: &str| Err((new_at, format!("an exception from here {what}")));
        let (site, new_site) = match (old_site, new_site) {
            (None, None) | (Some(None), Some(None)) => return Ok(()),
            (Some(Some(old)), Some(Some(new))) => (old, new),
            (None, _) | (_, None) => return differs("had a table, or has one now"),
            (Some(None), _) => return differs("ended the program and does not any more"),
            (_, Some(None)) => return differs("did not end the program and now does"),
        };
        let old_lsda = old_frame.as_ref().and_then(|f| f.lsda.as_ref());
        let new_lsda = new_frame.as_ref().and_then(|f| f.lsda.as_ref());
        if let (Some(old), Some(new)) = (old_lsda, new_lsda)
            && !actions_agree((old, site), (new, new_site))
        {
            return differs("is caught by other types");
        }
        match (site.landing_pad, new_site.landing_pad) {
            (None, None) => Ok(()),
            (Some(pad), Some(new)) => {
                let Some(block) = self.cfg.block_starting(pad) else {
                    return differs("lands outside the function");
                };
                let arc = self.arcs_from[id.index()].iter().copied().find(|&i| {
                    let arc = &self.measured.flow.arcs[i];
                    arc.kind == ArcKind::LandingPad && arc.to == Node::Block(block)
                });
                self.arrive(arc, old.addr(), new, Target::Block(block))
            }
            _ => differs("landed and does not any more, or the other way round"),
        }
    }

    fn check_counts(&mut self) {
        let flow = &self.measured.flow;
        let mut increments = Increments { arcs: self.arcs.clone(), blocks: self.blocks.clone() };
        // Nothing can be incremented on the way to outside but what was incremented before.
        for (i, arc) in flow.arcs.iter().enumerate() {
            let from_walked = match arc.from {
                Node::Block(from) => self.blocks[from.index()].is_some(),
                Node::Hub(hub) => {
                    flow.hubs[hub as usize].jumps.iter().any(|jump| self.blocks[jump.index()].is_some())
                }
                Node::Outside => false,
            };
            if increments.arcs[i].is_none() && from_walked && !matches!(arc.to, Node::Block(_)) {
                increments.arcs[i] = Some(0);
            }
        }
        if let Some(wrong) = counts::check(self.measured, &increments) {
            let (old, what) = match wrong {
                counts::Wrong::Arc(i) => {
                    let arc = &flow.arcs[i];
                    let node = |node: Node| match node {
                        Node::Block(id) => self.cfg.block(id).start.to_string(),
                        Node::Hub(_) => "a computed jump".to_string(),
                        Node::Outside => "outside".to_string(),
                    };
                    let old = match (arc.from, arc.to) {
                        (Node::Block(id), _) | (_, Node::Block(id)) => self.cfg.block(id).start,
                        _ => self.function.entry,
                    };
                    let (from, to) = (node(arc.from), node(arc.to));
                    (old, format!("the edge from {from} to {to} ({:?}) is counted wrongly", arc.kind))
                }
                counts::Wrong::Block(i) => {
                    (self.cfg.blocks[i].start, "the block is counted wrongly".to_string())
                }
            };
            let new = self.cfg.block_starting(old).and_then(|id| self.places.get(&id)).copied();
            self.report(old, new.unwrap_or_default(), what);
        }
    }

    fn check_symbols(&mut self) {
        let name = self.function.name();
        let mut missing = None;
        for (&id, &at) in &self.places {
            let behind = self.world.symbols.partition_point(|&(start, ..)| start <= at);
            let known = self.world.symbols[..behind].last();
            let named = known.is_some_and(|&(start, len, symbol)| {
                at.since(start) < len && (symbol == name || symbol.strip_suffix(".cold") == Some(&name))
            });
            if !named {
                let here = (self.cfg.block(id).start, at);
                missing = Some(missing.map_or(here, |known: (LinkAddr, LinkAddr)| known.min(here)));
            }
        }
        if let Some((old, new)) = missing {
            self.report(old, new, format!("no symbol names the new code after {name}"));
        }
    }
}

const GOES_ROUND: &str = "control goes round for ever without doing anything";
