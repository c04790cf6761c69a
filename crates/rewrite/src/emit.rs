//! Emits one function anew, with its counters.
//!
//! Each piece of the function becomes a chunk of new code. Blocks keep their order; fill between them is
//! dropped, and counters that find no place inside a block go between blocks or behind the last one.

mod gates;

use crate::assembler::{Assembler, Code, Dest, Label, Pos, Routine};
use crate::counting::{Way, add, arrive, bump, clear, count, depart};
use crate::frames::{Frames, Throw};
use crate::promote::{Promotions, Step};
use crate::redirect::Redirects;
use relive_abi::counters::{PLACES, key_offset, slot_offset, way_offset};
use relive_abi::rprof::SlotLayout;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::cfg::{Block, BlockId, Cfg, End, Target};
use relive_code::isa::{Flow as InsnFlow, Insn, RegSet, Tie};
use relive_code::liveness::{Convention, Liveness, Summaries};
use relive_image::elf::Elf;
use relive_image::program::needs::Needs;
use relive_probe::graph::{ArcKind, Flow, Node};
use relive_probe::placement::{Place, Plan, places};
use std::collections::HashMap;

/// What is to become of a function.
pub struct Job<'a> {
    /// Its graph.
    pub cfg: &'a Cfg,
    /// The same as flow.
    pub flow: &'a Flow,
    /// What to count.
    pub plan: &'a Plan,
    /// What of it is kept in registers.
    pub promotions: &'a Promotions,
    /// Number of its first counter in the whole module.
    pub first_counter: u32,
    /// Numbers of its indirect call sites, by block.
    pub sites: &'a HashMap<BlockId, u32>,
    /// Tables that lead straight to new code.
    pub redirects: &'a Redirects,
    /// What functions read at their entries.
    pub needs: &'a Needs<'a, 'a>,
    /// How slots are laid out.
    pub layout: SlotLayout,
    /// What its blocks do.
    pub summaries: &'a Summaries,
    /// Unwind tables of its pieces, if the module has any.
    pub frames: &'a Frames,
}

/// New code for one piece of a function.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// The piece it stands for.
    pub piece: AddrRange,
    /// The code.
    pub code: Code,
    /// Where calls from new code enter, by the old address.
    pub entries: Vec<(LinkAddr, u32)>,
    /// Where calls to the old address are led.
    pub gates: Vec<(LinkAddr, u32)>,
    /// Where computed jumps to an old address are led.
    pub labels: Vec<(LinkAddr, u32)>,
    /// Where blocks begin, by the old address.
    pub blocks: Vec<(LinkAddr, u32)>,
    /// Cases of redirected tables: the table, the old target, and where it leads.
    pub cases: Vec<(u32, LinkAddr, u32)>,
    /// From each offset on, which row of the old unwind table holds, and how much deeper the stack is.
    pub unwind: Vec<(u32, Option<usize>, i64)>,
    /// What may throw: new start and end, where it lands, and the old action.
    pub throws: Vec<(u32, u32, Option<u32>, Option<u64>)>,
    /// How many counters were emitted in each way: [`Way::price`].
    pub ways: [u32; 3],
}

/// Emits all pieces of a function.
#[must_use]
pub fn emit(elf: &Elf<'_>, job: &Job<'_>) -> Vec<Chunk> {
    let callees = |at| job.needs.of(at);
    let convention = convention(job.needs, job.cfg);
    let liveness = Liveness::with_summaries(job.cfg, elf, &convention, &callees, job.summaries);
    let tasks = Tasks::new(job);
    let pieces = job.cfg.pieces.iter().filter_map(|&piece| {
        let blocks: Vec<BlockId> = job
            .cfg
            .numbered_blocks()
            .filter(|(_, b)| b.reached && piece.contains(b.start))
            .map(|(id, _)| id)
            .collect();
        let emitter = || Emitter::new(elf, job, &liveness, &tasks, &blocks);
        (!blocks.is_empty()).then(|| emitter().run(piece, &blocks))
    });
    pieces.collect()
}

/// What may be live outside the function.
pub(crate) fn convention(needs: &Needs<'_, '_>, cfg: &Cfg) -> Convention {
    let cautious = Convention::cautious();
    let by_convention = Convention::system_v().read_by_call;
    let live_at_return = needs.live_at_return(cfg);
    Convention {
        read_by_call: by_convention,
        live_at_return,
        // Only jumps to places nobody knows: what is known of others goes before this.
        live_at_tail_call: by_convention | live_at_return,
        ..cautious
    }
}

/// A way into or out of a block that something is done on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Route {
    /// Out of a block.
    Out(BlockId, ArcKind),
    /// Into a block from outside the function.
    In(BlockId, ArcKind),
    /// To a case of computed jumps.
    Case(Node, BlockId),
}

/// Something done on a way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    Count(u32),
    Step(Step),
}

/// What is to be done where.
struct Tasks {
    /// Counters inside blocks.
    in_block: HashMap<BlockId, u32>,
    on_way: HashMap<Route, Vec<Task>>,
}

impl Tasks {
    fn new(job: &Job<'_>) -> Self {
        let promotions = job.promotions;
        let mut tasks = Self { in_block: HashMap::new(), on_way: HashMap::new() };
        for (i, counter) in job.plan.blocks.iter().enumerate() {
            let block = BlockId(i as u32);
            if let Some(counter) = counter.filter(|_| !promotions.travelled.contains_key(&block)) {
                tasks.in_block.insert(block, counter);
            }
        }
        let places = places(job.cfg, job.flow);
        for (i, (arc, place)) in job.flow.arcs.iter().zip(places).enumerate() {
            let way = match (arc.from, arc.to) {
                (Node::Outside, Node::Block(to)) => Some(Route::In(to, arc.kind)),
                (from, Node::Block(to)) if arc.kind == ArcKind::Case => Some(Route::Case(from, to)),
                (Node::Block(from), _) => Some(Route::Out(from, arc.kind)),
                _ => None,
            };
            let mut on_way = Vec::new();
            match (job.plan.arcs[i], place) {
                // At the gate, not in the block.
                (Some(counter), _) if job.plan.called && arc.kind == ArcKind::Enter => {
                    on_way.push(Task::Count(counter));
                }
                (Some(counter), Place::From(block) | Place::To(block)) => {
                    tasks.in_block.insert(block, counter);
                }
                (Some(counter), _) => on_way.push(Task::Count(counter)),
                (None, _) => {}
            }
            on_way.extend(promotions.steps.get(&i).into_iter().flatten().copied().map(Task::Step));
            if let (false, Some(way)) = (on_way.is_empty(), way) {
                tasks.on_way.entry(way).or_default().extend(on_way);
            }
        }
        tasks
    }

    fn on(&self, way: Route) -> &[Task] {
        self.on_way.get(&way).map_or(&[], Vec::as_slice)
    }
}

struct Emitter<'a> {
    elf: &'a Elf<'a>,
    job: &'a Job<'a>,
    liveness: &'a Liveness<'a, Elf<'a>>,
    tasks: &'a Tasks,
    a: Assembler,
    /// Heads of the blocks in this chunk.
    heads: HashMap<BlockId, Label>,
    /// Counters in front of blocks in this chunk.
    fronts: HashMap<BlockId, Label>,
    /// What is still to be emitted out of line.
    stubs: Vec<Stub>,
    /// What ends a loop that should lie on one line.
    line_ends: HashMap<BlockId, Label>,
    rows: Vec<(Pos, Option<usize>, i64)>,
    throws: Vec<(Pos, Pos, Option<Label>, Option<u64>)>,
    ways: [u32; 3],
}

enum Stub {
    /// Count, then go on at a block or outside. The stack is as at `from`.
    Edge { label: Label, tasks: Vec<Task>, reserved: RegSet, from: LinkAddr, to: Target },
    /// Try the other usual targets, or tell the runtime; then go back.
    Miss { label: Label, back: Label, site: u32, at: LinkAddr },
}

impl<'a> Emitter<'a> {
    fn new(
        elf: &'a Elf<'a>,
        job: &'a Job<'a>,
        liveness: &'a Liveness<'a, Elf<'a>>,
        tasks: &'a Tasks,
        blocks: &[BlockId],
    ) -> Self {
        let mut a = Assembler::default();
        let heads: HashMap<BlockId, Label> = blocks.iter().map(|&id| (id, a.label())).collect();
        let fronts = blocks.iter().filter(|id| job.plan.fronts.contains_key(id)).map(|&id| (id, a.label()));
        let fronts = fronts.collect();
        let (stubs, rows, throws) = (Vec::new(), Vec::new(), Vec::new());
        let line_ends = HashMap::new();
        Self { elf, job, liveness, tasks, a, heads, fronts, stubs, line_ends, rows, throws, ways: [0; 3] }
    }

    fn run(mut self, piece: AddrRange, blocks: &[BlockId]) -> Chunk {
        let mut entries: Vec<(LinkAddr, Label)> = Vec::new();
        let mut gates: Vec<(LinkAddr, Label)> = Vec::new();
        if self.job.cfg.landing_pads.contains(&blocks[0]) {
            // To an exception table, a landing pad at the very start is none.
            self.row(self.job.cfg.block(blocks[0]).start);
            self.a.raw(&[0x90]);
        }
        for (i, &id) in blocks.iter().enumerate() {
            let block = self.job.cfg.block(id);
            let before = i.checked_sub(1).map(|i| self.job.cfg.block(blocks[i]));
            if self.deserves_alignment(block, before) {
                self.a.align(16);
            }
            let line = self.job.promotions.lines.get(&id);
            if let Some(&last) =
                line.filter(|last| self.heads.contains_key(last) && !self.line_ends.contains_key(last))
            {
                let end = self.a.label();
                self.a.keep_together(end);
                self.line_ends.insert(last, end);
            }
            let is_entry = self.job.cfg.entries.contains(&id);
            let entry = self.a.label();
            if is_entry && i == 0 {
                gates.push((block.start, self.gate_in_front(id, entry)));
            }
            self.row(block.start);
            if !is_entry {
                self.a.bind(entry);
            } else {
                entries.push((block.start, entry));
                let mut tasks = self.tasks.on(Route::In(id, ArcKind::Enter)).to_vec();
                tasks.retain(|task| Some(*task) != self.counted_at_gate());
                // Only those who enter may come by; what is in front of the first block nobody falls into.
                if i > 0 && !tasks.is_empty() {
                    let (reserved, to) = (RegSet::EMPTY, Target::Block(id));
                    self.stubs.push(Stub::Edge { label: entry, tasks, reserved, from: block.start, to });
                } else {
                    self.a.bind(entry);
                    self.perform(&tasks, self.liveness.live_in(id));
                }
            }
            self.front(id);
            self.a.bind(self.heads[&id]);
            self.block(id, blocks.get(i + 1).copied());
        }
        self.pending_stubs();
        let (labels, cases) = self.cases();
        gates.extend(self.gates(entries.iter().filter(|(at, _)| gates.iter().all(|(known, _)| known != at))));
        self.finish(piece, blocks, &entries, &gates, &labels, &cases)
    }

    fn finish(
        self,
        piece: AddrRange,
        blocks: &[BlockId],
        entries: &[(LinkAddr, Label)],
        gates: &[(LinkAddr, Label)],
        labels: &[(LinkAddr, Label)],
        cases: &[(u32, LinkAddr, Label)],
    ) -> Chunk {
        let Self { a, job, heads, rows, throws, ways, .. } = self;
        let code = a.finish();
        let settled =
            |places: &[(LinkAddr, Label)]| places.iter().map(|&(at, l)| (at, code.label(l))).collect();
        Chunk {
            piece,
            entries: settled(entries),
            gates: settled(gates),
            labels: settled(labels),
            blocks: blocks.iter().map(|id| (job.cfg.block(*id).start, code.label(heads[id]))).collect(),
            cases: cases.iter().map(|&(copy, at, l)| (copy, at, code.label(l))).collect(),
            unwind: rows.iter().map(|&(pos, row, depth)| (code.offset(pos), row, depth)).collect(),
            throws: throws
                .iter()
                .map(|&(from, to, pad, action)| {
                    (code.offset(from), code.offset(to), pad.map(|l| code.label(l)), action)
                })
                .collect(),
            ways,
            code,
        }
    }

    /// A block its compiler had aligned stays aligned: fill was in front of it, between blocks or at the end
    /// of the one before.
    fn deserves_alignment(&self, block: &Block, before: Option<&Block>) -> bool {
        let Some(before) = before else { return true };
        block.start.0.is_multiple_of(16)
            && (before.end_addr() != block.start
                || before.end == End::FallThrough
                    && before.insns(self.elf).last().is_some_and(|insn| insn.is_padding()))
    }

    /// What must not be changed in front of an instruction or block of `id`.
    fn reserved(&self, id: BlockId) -> RegSet {
        self.job.promotions.reserved.get(&id).copied().unwrap_or(RegSet::EMPTY)
    }

    /// What comes next is unwound as what lay at `at` was.
    fn row(&mut self, at: LinkAddr) {
        let row = self.job.frames.row_at(at);
        if self.rows.last().is_none_or(|&(_, last, depth)| last != row || depth != 0) {
            self.rows.push((self.a.pos(), row, 0));
        }
    }

    /// What comes next is unwound as at the entry of a function.
    fn entry_row(&mut self) {
        self.rows.push((self.a.pos(), None, 0));
    }

    /// Where a counter is.
    fn counter(&self, counter: u32) -> Dest {
        let layout = &self.job.layout;
        let number = u64::from(self.job.first_counter + counter);
        Dest::Area(slot_offset(layout.sites) + layout.counters_offset() + number * 8)
    }

    fn count(&mut self, way: Way, counter: u32) {
        if let Some(&register) = self.job.promotions.registers.get(&counter) {
            self.ways[0] += 1;
            bump(&mut self.a, register);
            return;
        }
        self.ways[usize::from(way.price())] += 1;
        let to = self.counter(counter);
        let row = self.rows.last().and_then(|&(_, row, _)| row);
        for (pos, depth) in count(&mut self.a, way, to) {
            self.rows.push((pos, row, depth));
        }
    }

    /// Does what is to be done on a way that leads to where `live` is live.
    fn perform(&mut self, tasks: &[Task], live: RegSet) {
        let mut live = live;
        for task in tasks {
            if let Task::Step(step) = task {
                live |= step.reads();
            }
        }
        // A way may lead out of one loop and into another that keeps a counter in the same register.
        let is_start = |task: &&Task| matches!(task, Task::Step(step) if step.is_start());
        for &task in tasks.iter().filter(|t| !is_start(t)).chain(tasks.iter().filter(is_start)) {
            match task {
                Task::Count(counter) => self.count(Way::best(live), counter),
                Task::Step(Step::Clear(register)) => clear(&mut self.a, register),
                Task::Step(Step::Add(counter, register)) => {
                    let to = self.counter(counter);
                    add(&mut self.a, Way::best_to_add(live), register, to);
                }
                Task::Step(Step::Depart(register, stride, ahead)) => {
                    depart(&mut self.a, register, stride.register, ahead);
                }
                Task::Step(Step::Arrive(counter, register, stride, more)) => {
                    let to = self.counter(counter);
                    arrive(&mut self.a, register, stride, more, to);
                }
            }
        }
    }

    fn block(&mut self, id: BlockId, next: Option<BlockId>) {
        let block = *self.job.cfg.block(id);
        let counter = self.tasks.in_block.get(&id).copied();
        let place = counter.map(|_| self.place_in(id));
        let mut thrown: Option<(Pos, Throw)> = None;
        for insn in block.insns(self.elf) {
            self.row(insn.addr());
            let throw = self.job.frames.throw_at(insn.next_addr());
            if let (Some(counter), Some((at, way))) = (counter, place)
                && at == insn.addr()
            {
                self.count(way, counter);
            }
            if thrown.as_ref().map(|(_, t)| t) != throw.as_ref() {
                self.close_throw(id, thrown.take());
                thrown = throw.map(|throw| (self.a.pos(), throw));
            }
            if insn.addr() == block.last_insn() && block.end != End::FallThrough {
                let kind = if block.end == End::Return { ArcKind::Return } else { ArcKind::NoReturn };
                if matches!(block.end, End::Return | End::Stop) {
                    self.perform(self.tasks.on(Route::Out(id, kind)), !RegSet::ARITHMETIC_FLAGS);
                }
                self.end(id, &block, &insn);
            } else if !insn.is_padding() && !insn.is_landing_mark() || insn.is_breakpoint() {
                self.copy(&insn);
                if insn.is_fast_syscall() {
                    self.look_round(&insn);
                }
            }
        }
        self.close_throw(id, thrown.take());
        if let Some(end) = self.line_ends.remove(&id) {
            self.a.bind(end);
        }
        self.go_on(id, &block, next);
    }

    /// Where in the block its counter costs least.
    fn place_in(&self, id: BlockId) -> (LinkAddr, Way) {
        let block = self.job.cfg.block(id);
        let mut best: Option<(LinkAddr, Way)> = None;
        for ((at, live), insn) in self.liveness.per_insn(id).into_iter().zip(block.insns(self.elf)) {
            let way = Way::best(live | self.reserved(id));
            if best.is_none_or(|(_, known)| way.price() < known.price()) {
                best = Some((at, way));
            }
            // Whatever comes behind a system call may never run.
            if way == Way::Inc || insn.is_syscall() {
                break;
            }
        }
        best.unwrap_or((block.start, Way::Spill))
    }

    fn bytes(&self, insn: &Insn) -> &'a [u8] {
        &self.elf.bytes_at(insn.addr())[..insn.len() as usize]
    }

    fn copy(&mut self, insn: &Insn) {
        let bytes = self.bytes(insn);
        match insn.tie(bytes) {
            Tie::Operand { field, target } => {
                let copy = self.job.redirects.copy_of.get(&target).filter(|_| insn.is_lea());
                let to = copy.map_or(Dest::Fixed(target), |&copy| Dest::Table(copy));
                self.a.with_distance(bytes, field, to);
            }
            _ => self.a.raw(bytes),
        }
    }

    /// The last instruction of a block.
    fn end(&mut self, id: BlockId, block: &Block, insn: &Insn) {
        let bytes = self.bytes(insn);
        match insn.tie(bytes) {
            Tie::Branch(condition, target) => {
                let to = self.way_out(id, target);
                self.a.jump(Some(condition), to);
            }
            Tie::ShortBranch(target) => {
                let to = self.way_out(id, target);
                self.a.short_branch(&bytes[..bytes.len() - 1], to);
            }
            // Only where it does not simply go on: see `go_on`.
            Tie::Jump(_) => {}
            Tie::Call(target) => self.a.with_distance(&[0xe8, 0, 0, 0, 0], 1, Dest::Entry(target)),
            _ => match (insn.flow(), self.job.sites.get(&id)) {
                (InsnFlow::IndirectCall | InsnFlow::IndirectJump, Some(&site)) => {
                    self.watched(insn, block, site);
                }
                _ => self.copy(insn),
            },
        }
    }

    /// Where the taken branch at the end of `from` leads: to its counter, if it has one.
    fn way_out(&mut self, from: BlockId, target: LinkAddr) -> Dest {
        let to = self.job.cfg.block_starting(target).map_or(Target::Outside(target), Target::Block);
        let kind = if matches!(to, Target::Block(_)) { ArcKind::Taken } else { ArcKind::TailCall };
        let tasks = self.tasks.on(Route::Out(from, kind));
        if tasks.is_empty() {
            return self.dest(to);
        }
        if let Target::Block(to) = to
            && self.front_of(to) == Some(from)
        {
            return Dest::Label(self.fronts[&to]);
        }
        let label = self.a.label();
        let (tasks, reserved) = (tasks.to_vec(), self.reserved(from));
        let from = self.job.cfg.block(from).last_insn();
        self.stubs.push(Stub::Edge { label, tasks, reserved, from, to });
        Dest::Label(label)
    }

    /// The block whose branch is counted right in front of `to`.
    fn front_of(&self, to: BlockId) -> Option<BlockId> {
        // Both are in the same piece.
        self.fronts.get(&to)?;
        match self.job.flow.arcs[self.job.plan.fronts[&to]].from {
            Node::Block(from) => Some(from),
            _ => None,
        }
    }

    /// The counter of a branch in front of the block it leads to.
    fn front(&mut self, to: BlockId) {
        let Some(from) = self.front_of(to) else { return };
        self.row(self.job.cfg.block(from).last_insn());
        self.a.bind(self.fronts[&to]);
        let tasks = self.tasks.on(Route::Out(from, ArcKind::Taken));
        self.perform(tasks, self.liveness.live_in(to) | self.reserved(from));
        self.row(self.job.cfg.block(to).start);
    }

    fn dest(&self, to: Target) -> Dest {
        match to {
            Target::Block(id) => match self.heads.get(&id) {
                Some(&label) => Dest::Label(label),
                None => Dest::Block(self.job.cfg.block(id).start),
            },
            Target::Outside(at) => Dest::Entry(at),
            Target::Elsewhere => unreachable!("no fixed place"),
        }
    }

    /// What follows a block that does not end in a jump for good, and the jump if what should follow does not.
    fn go_on(&mut self, id: BlockId, block: &Block, next: Option<BlockId>) {
        let (target, kind) = match block.end {
            End::FallThrough | End::Branch | End::Call(_) | End::IndirectCall(_) => {
                let at = block.end_addr();
                let edges = self.job.cfg.edges_from(id);
                let kind = if block.end.is_call() { ArcKind::CallReturn } else { ArcKind::FallThrough };
                let to = self.job.cfg.block_starting(at).map_or(Target::Outside(at), Target::Block);
                let goes = |e: &&relive_code::cfg::Edge| {
                    e.to == to && e.kind != relive_code::cfg::EdgeKind::LandingPad
                };
                if edges.iter().find(goes).is_none() {
                    return;
                }
                (to, kind)
            }
            End::Jump => match self.job.cfg.edges_from(id).first() {
                Some(edge) => (edge.to, ArcKind::Jump),
                None => return,
            },
            _ => return,
        };
        let out_kind = match (kind, target) {
            (ArcKind::Jump, Target::Outside(_)) => ArcKind::TailCall,
            _ => kind,
        };
        let mut tasks = self.tasks.on(Route::Out(id, out_kind)).to_vec();
        if let (Target::Block(to), ArcKind::CallReturn) = (target, kind) {
            // A call that may come back again: counted as a way in.
            tasks.extend(self.tasks.on(Route::In(to, kind)));
        }
        if !tasks.is_empty() {
            let live = match target {
                Target::Block(to) => {
                    self.row(self.job.cfg.block(to).start);
                    self.liveness.live_in(to)
                }
                _ => RegSet::ALL,
            };
            self.perform(&tasks, live | self.reserved(id));
        }
        match target {
            Target::Block(to) if Some(to) == next && self.front_of(to).is_none() => {}
            Target::Elsewhere => {}
            _ => {
                let to = self.dest(target);
                self.a.jump(None, to);
            }
        }
    }

    /// An indirect call or jump whose targets are recorded. The register `r11` carries nothing into a
    /// callee nobody knows. New code has no marks for indirect branches to land on, hence `notrack`.
    fn watched(&mut self, insn: &Insn, block: &Block, site: u32) {
        let bytes = self.bytes(insn);
        let load = load_target(bytes);
        match insn.tie(bytes) {
            Tie::Operand { field, target } => {
                let field = field + load.len() - bytes.len();
                self.a.with_distance(&load, field, Dest::Fixed(target));
            }
            _ => self.a.raw(&load),
        }
        let (miss, back) = (self.a.label(), self.a.label());
        self.usual_target(site, 0, miss);
        self.a.bind(back);
        self.stubs.push(Stub::Miss { label: miss, back, site, at: block.last_insn() });
        let opcode = if insn.flow() == InsnFlow::IndirectCall { 0xd3 } else { 0xe3 };
        self.a.raw(&[0x3e, 0x41, 0xff, opcode]); // call r11, or jmp r11
    }

    /// If the target is a usual one, counts it and takes the way that is known for it.
    fn usual_target(&mut self, site: u32, place: u32, miss: Label) {
        let layout = &self.job.layout;
        let key = Dest::Area(key_offset(site, place));
        let count = Dest::Area(slot_offset(layout.sites) + layout.count_offset(site, place));
        let way = Dest::Area(way_offset(site, place));
        self.a.with_distance(&[0x65, 0x4c, 0x3b, 0x1d, 0, 0, 0, 0], 4, key); // cmp r11, gs:[key]
        self.a.jump(Some(5), Dest::Label(miss)); // jne
        self.a.with_distance(&[0x65, 0x48, 0xff, 0x05, 0, 0, 0, 0], 4, count); // inc gs:[count]
        self.a.with_distance(&[0x65, 0x4c, 0x03, 0x1d, 0, 0, 0, 0], 4, way); // add r11, gs:[way]
    }

    fn pending_stubs(&mut self) {
        for stub in std::mem::take(&mut self.stubs) {
            match stub {
                Stub::Edge { label, tasks, reserved, from, to } => {
                    let live = match to {
                        Target::Block(to) => self.liveness.live_in(to),
                        _ => RegSet::ALL,
                    };
                    self.row(from);
                    self.a.bind(label);
                    self.perform(&tasks, live | reserved);
                    let to = self.dest(to);
                    self.a.jump(None, to);
                }
                Stub::Miss { label, back, site, at } => {
                    self.row(at);
                    let row = self.rows.last().and_then(|&(_, row, _)| row);
                    let mut label = label;
                    for place in 1..PLACES {
                        self.a.bind(label);
                        label = self.a.label();
                        self.usual_target(site, place, label);
                        self.a.jump(None, Dest::Label(back));
                    }
                    self.a.bind(label);
                    self.a.raw(&[0x68]); // push site
                    self.a.raw(&site.to_le_bytes());
                    self.rows.push((self.a.pos(), row, 8));
                    self.a.with_distance(&[0xe8, 0, 0, 0, 0], 1, Dest::Runtime(Routine::Call));
                    self.rows.push((self.a.pos(), row, 0));
                    self.a.jump(None, Dest::Label(back));
                }
            }
        }
    }

    /// Where computed jumps land: old labels, and cases of copied tables.
    #[allow(clippy::type_complexity)]
    fn cases(&mut self) -> (Vec<(LinkAddr, Label)>, Vec<(u32, LinkAddr, Label)>) {
        let (mut labels, mut cases) = (Vec::new(), Vec::new());
        for arc in self.job.flow.arcs.iter().filter(|arc| arc.kind == ArcKind::Case) {
            let Node::Block(to) = arc.to else { continue };
            let Some(&head) = self.heads.get(&to) else { continue };
            let at = self.job.cfg.block(to).start;
            let tasks = self.tasks.on(Route::Case(arc.from, to));
            let label = if tasks.is_empty() {
                head
            } else {
                let label = self.a.label();
                self.row(at);
                self.a.bind(label);
                self.perform(tasks, self.liveness.live_in(to));
                self.a.jump(None, Dest::Label(head));
                label
            };
            let jump = match arc.from {
                Node::Block(from) => Some(from),
                Node::Hub(hub) => self.job.flow.hubs[hub as usize].jumps.first().copied(),
                Node::Outside => None,
            };
            let copied = jump.filter(|&jump| self.job.redirects.is_copied(jump));
            match (copied, arc.from) {
                (None, _) => {
                    labels.push((at, label));
                    cases.extend(self.job.redirects.in_place().map(|table| (table, at, label)));
                }
                (Some(jump), Node::Block(_)) => cases.extend(self.tables_of(&[jump], at, label)),
                (Some(_), Node::Hub(hub)) => {
                    let jumps = &self.job.flow.hubs[hub as usize].jumps;
                    cases.extend(self.tables_of(jumps, at, label));
                }
                (Some(_), Node::Outside) => {}
            }
        }
        (labels, cases)
    }

    /// The redirected tables of `jumps`, all of which lead from `at` to `label`.
    fn tables_of(&self, jumps: &[BlockId], at: LinkAddr, label: Label) -> Vec<(u32, LinkAddr, Label)> {
        let mut tables: Vec<u32> =
            jumps.iter().filter_map(|jump| self.job.redirects.of_jump.get(jump)).flatten().copied().collect();
        tables.sort_unstable();
        tables.dedup();
        tables.into_iter().map(|table| (table, at, label)).collect()
    }

    /// Ends a stretch of the block that may throw. Each block lands by a way of its own, so that it can be
    /// counted.
    fn close_throw(&mut self, id: BlockId, thrown: Option<(Pos, Throw)>) {
        let Some((from, throw)) = thrown else { return };
        let to = self.a.pos();
        let pad = throw.pad.and_then(|at| self.job.cfg.block_starting(at)).map(|pad| {
            let tasks = self.tasks.on(Route::Out(id, ArcKind::LandingPad));
            match (tasks, self.heads.get(&pad)) {
                ([], Some(&head)) => head,
                _ => {
                    let label = self.a.label();
                    let (tasks, reserved) = (tasks.to_vec(), RegSet::EMPTY);
                    let (from, to) = (self.job.cfg.block(pad).start, Target::Block(pad));
                    self.stubs.push(Stub::Edge { label, tasks, reserved, from, to });
                    label
                }
            }
        });
        self.throws.push((from, to, pad, throw.action));
    }
}

/// `mov r11, target` for `call target` or `jmp target`, whose opcode is `ff` with any operand.
fn load_target(bytes: &[u8]) -> Vec<u8> {
    let opcode = bytes.iter().position(|&b| b == 0xff).unwrap_or(0);
    let (prefixes, operand) = (&bytes[..opcode], &bytes[opcode + 1..]);
    let (rex, prefixes) = match prefixes.split_last() {
        Some((&rex, rest)) if rex & 0xf0 == 0x40 => (rex, rest),
        _ => (0x40, prefixes),
    };
    // `notrack` and `bnd` mean nothing for a load; a segment does.
    let mut load: Vec<u8> = prefixes.iter().copied().filter(|b| matches!(b, 0x64 | 0x65 | 0x67)).collect();
    load.extend([rex & 0x43 | 0x4c, 0x8b, operand[0] & 0xc7 | 3 << 3]);
    load.extend(&operand[1..]);
    load
}

#[cfg(test)]
mod tests {
    use super::load_target;
    use relive_code::addr::LinkAddr;
    use relive_code::isa::{Insn, Syntax};

    #[test]
    fn targets_are_loaded() {
        for (call, load) in [
            (&[0xff, 0xd0][..], "mov r11, rax"),
            (&[0x41, 0xff, 0xd3], "mov r11, r11"),
            (&[0xff, 0x50, 0x18], "mov r11, [rax+0x18]"),
            (&[0x41, 0xff, 0x54, 0xc4, 8], "mov r11, [r12+rax*8+8]"),
            (&[0x3e, 0xff, 0xe0], "mov r11, rax"),
            (&[0x64, 0xff, 0x14, 0x25, 8, 0, 0, 0], "mov r11, fs:[8]"),
        ] {
            let bytes = load_target(call);
            let insn = Insn::decode(&bytes, LinkAddr(0)).expect("valid");
            assert_eq!(insn.len() as usize, bytes.len());
            assert_eq!(insn.text(Syntax::Intel).to_string(), load);
        }
    }
}
