//! A function as the slice needs it: what each instruction reads and writes, who is called, and how control goes.

use super::imports::Import;
use super::mask::{self, Mask};
use super::objects::Objects;
use super::provenance::{Escaped, Follower, Frame, Origin, Registers, Step};
use relive_code::addr::LinkAddr;
use relive_code::graph::Graph;
use relive_code::isa::{AccessKind, Decode, Flow, Gpr, How, Insn, Operand, RegisterClass, Segment, Verb};
use relive_profile::model::{self, CalledBy, Callee, EdgeKind, Module, Node};
use std::ops::Range;

/// What one instruction does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Op {
    pub(super) reads: Mask,
    pub(super) writes: Mask,
    /// Nothing of what was there is left.
    pub(super) kills: Mask,
    /// Its first access to memory.
    pub(super) first: u32,
    /// How many there are.
    pub(super) accesses: u8,
    /// It only keeps a register of the caller, or gives it back.
    pub(super) keeps: bool,
    /// It calls the kernel.
    pub(super) kernel: bool,
}

/// Memory that an instruction reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mem {
    pub(super) place: Place,
    pub(super) reads: bool,
    pub(super) writes: bool,
}

/// A place in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Slots of the own frame: the first, and the one behind the last.
    Slots(u32, u32),
    /// Somewhere in the own frame.
    Frame,
    /// Data blocks: the first, and the one behind the last.
    Data(u32, u32),
    /// All data blocks.
    AllData,
    /// Whatever a pointer of unknown origin leads to.
    Unknown,
}

/// Four bytes of the frame, by distance from the stack pointer at the entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot {
    /// The distance, in fours.
    pub(super) at: i32,
    /// It holds a register of the caller, and nobody else writes to it.
    pub(super) private: bool,
}

/// A basic block.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    pub(super) ops: Range<u32>,
    /// Which way it leaves, its last instruction decides.
    pub(super) decides: bool,
    /// Control may leave the function from here for its caller or another function.
    pub(super) returns: bool,
    pub(super) tail: bool,
    /// Control may be lost here: nothing comes back from a call, or it just ends.
    pub(super) may_end: bool,
    /// Its last instruction never goes on.
    pub(super) stops: bool,
    pub(super) kernel: bool,
}

/// Who is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// A function of the module, by number.
    Function(u32),
    /// Whatever a pointer says.
    Pointer,
    /// A function of another module.
    Import(Import),
}

/// A call, or a jump to another function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site {
    pub(super) block: u32,
    pub(super) target: Target,
    pub(super) tail: bool,
    /// Where the stack pointer is.
    pub(super) top: Frame,
}

/// A function.
pub(super) struct Code {
    pub(super) ops: Vec<Op>,
    pub(super) mems: Vec<Mem>,
    pub(super) blocks: Vec<Block>,
    /// By block.
    pub(super) sites: Vec<Site>,
    /// Blocks, and behind them hubs.
    pub(super) graph: Graph,
    pub(super) entries: Vec<u32>,
    /// Where control may come out of nowhere.
    pub(super) landings: Vec<u32>,
    /// Blocks where exceptions are caught.
    pub(super) pads: Vec<bool>,
    pub(super) slots: Vec<Slot>,
    /// Registers of the caller that it keeps and gives back.
    pub(super) saves: Mask,
    /// How many bytes of arguments it reads from the stack.
    pub(super) incoming: u32,
    /// Pointers of unknown origin may lead into its frame.
    pub(super) escapes: bool,
    /// Addresses that are in registers when functions of the module are called: of whom, which, and of what.
    pub(super) handed: Vec<(u32, Gpr, Origin)>,
    /// Nothing is known of it but that it is there.
    pub(super) opaque: bool,
}

impl Code {
    /// Data blocks that it reads at fixed places or through addresses it took itself.
    pub(super) fn read_data(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.mems.iter().filter(|mem| mem.reads).filter_map(|mem| match mem.place {
            Place::Data(first, behind) => Some((first, behind)),
            Place::AllData => Some((0, u32::MAX)),
            _ => None,
        })
    }
}

/// Where functions are.
pub(super) struct Places {
    /// Pieces: first address, the one behind, and whose.
    pieces: Vec<(u64, u64, u32)>,
}

impl Places {
    pub(super) fn new(module: &Module) -> Self {
        let functions = module.functions.iter().zip(0..);
        let own = |f: &model::Function, i: u32| {
            let whole = model::Piece { start: f.address, len: f.size.max(1) };
            let pieces = if f.pieces.is_empty() { vec![whole] } else { f.pieces.clone() };
            pieces.into_iter().map(move |p| (p.start, p.start.saturating_add(p.len), i))
        };
        let mut pieces: Vec<_> = functions.flat_map(|(f, i)| own(f, i)).collect();
        pieces.sort_unstable();
        Self { pieces }
    }

    /// The function that an address is in.
    pub(super) fn holding(&self, at: u64) -> Option<u32> {
        let behind = self.pieces.partition_point(|&(start, ..)| start <= at);
        let &(_, end, function) = self.pieces.get(behind.checked_sub(1)?)?;
        (at < end).then_some(function)
    }
}

/// Arguments on the stack begin behind the return address: so many fours.
const ARGUMENT_SLOT: i32 = 2;

/// Reads a function; what escapes it comes along.
pub(super) fn read(
    module: &Module,
    function: &model::Function,
    objects: &Objects,
    places: &Places,
) -> (Code, Escaped) {
    let mut code = skeleton(module, function, places);
    let mut follower = Follower::new(objects);
    // Code that nobody described may use any data.
    let unknown = |call: &model::Call| matches!(call.callee, Callee::Direct { address, .. } if places.holding(address).is_none());
    follower.escaped.all = function.calls.iter().any(unknown);
    if code.opaque {
        note_mentions(function, objects, &mut follower.escaped);
        let spans = follower.escaped.objects.iter().map(|&object| objects.span(object));
        let read = |(first, behind)| Mem { place: Place::Data(first, behind), reads: true, writes: false };
        code.mems = spans.map(read).collect();
        return (code, follower.escaped);
    }
    let starts = origins(function, &code, &mut follower);
    let mut writer = Writer { objects, follower, raw: Vec::new(), stored: Vec::new(), handed: Vec::new() };
    for (index, start) in starts.into_iter().enumerate().take(function.blocks.len()) {
        writer.block(function, index, start, &mut code);
    }
    writer.name_slots(&mut code);
    let escaped = writer.follower.escaped;
    code.escapes = escaped.frame;
    code.handed = writer.handed;
    (code, escaped)
}

/// All but instructions.
fn skeleton(module: &Module, function: &model::Function, places: &Places) -> Code {
    let count = function.blocks.len();
    let mut blocks = vec![Block::default(); count];
    let mut edges = Vec::with_capacity(function.edges.len());
    let mut again = Vec::new();
    let nodes = count + function.hubs as usize;
    let number = |node: Node| match (node.as_block(), node.as_hub()) {
        (Some(block), _) => Some(block).filter(|&b| (b as usize) < count),
        (_, Some(hub)) => Some(count as u32 + hub).filter(|&h| (h as usize) < nodes),
        _ => None,
    };
    for edge in &function.edges {
        match (number(edge.from), number(edge.to)) {
            (Some(from), Some(to)) => edges.push((from, to)),
            (Some(from), None) => {
                if let Some(block) = blocks.get_mut(from as usize) {
                    match edge.kind {
                        EdgeKind::Return => block.returns = true,
                        EdgeKind::NoReturn => block.may_end = true,
                        _ => block.tail = true,
                    }
                }
            }
            (None, Some(to)) if edge.kind == EdgeKind::CallReturn => again.push(to),
            _ => {}
        }
    }
    // A call that comes back more than once also comes back a first time.
    for &to in &again {
        let start = function.blocks[to as usize].address;
        let from = function.blocks.iter().position(|b| b.address + u64::from(b.size) == start);
        edges.extend(from.map(|from| (from as u32, to)));
    }
    edges.sort_unstable();
    edges.dedup();
    let graph = Graph::from_edges(nodes, &edges);
    let entries: Vec<u32> =
        function.blocks.iter().zip(0..).filter(|(b, _)| b.is_entry).map(|(_, i)| i).collect();
    let mut landings = again;
    landings.extend((0..count as u32).filter(|&b| graph.predecessors(b).is_empty() && !entries.contains(&b)));
    let is_read = !function.edges.is_empty() && !function.code.is_empty();
    let mut code = Code {
        ops: Vec::new(),
        mems: Vec::new(),
        blocks,
        sites: sites(module, function, places, &graph),
        graph,
        entries,
        landings,
        pads: function.blocks.iter().map(|b| b.is_landing_pad).collect(),
        slots: Vec::new(),
        saves: 0,
        incoming: 0,
        escapes: false,
        handed: Vec::new(),
        opaque: !is_read || function.state.is_not_measured(),
    };
    if code.opaque {
        code.sites.clear();
    }
    code
}

fn sites(module: &Module, function: &model::Function, places: &Places, graph: &Graph) -> Vec<Site> {
    let count = function.blocks.len() as u32;
    let mut sites = Vec::with_capacity(function.calls.len());
    for call in &function.calls {
        let target = match call.callee {
            Callee::Direct { address, .. } => {
                places.holding(address).map_or(Target::Import(Import::UNKNOWN), Target::Function)
            }
            Callee::Import { name } => Target::Import(Import::named(module.text(name))),
            Callee::Indirect { .. } => Target::Pointer,
        };
        let mut add = |block: u32, tail: bool| {
            if block < count {
                sites.push(Site { block, target, tail, top: Frame::Somewhere });
            }
        };
        match call.by {
            CalledBy::Block(block) => add(block, false),
            CalledBy::Edge(edge) => {
                let from = function.edges.get(edge as usize).map(|edge| edge.from);
                match from.map(|from| (from.as_block(), from.as_hub())) {
                    Some((Some(block), _)) => add(block, true),
                    Some((_, Some(hub))) if ((count + hub) as usize) < graph.len() => {
                        graph.predecessors(count + hub).iter().for_each(|&block| add(block, true));
                    }
                    _ => {}
                }
            }
        }
    }
    sites.sort_by_key(|site| site.block);
    sites
}

/// Of a function that is not understood, all it mentions may be used in any way.
fn note_mentions(function: &model::Function, objects: &Objects, escaped: &mut Escaped) {
    escaped.all |= function.code.is_empty();
    let mut before = 0usize;
    for piece in &function.pieces {
        let len = usize::try_from(piece.len).unwrap_or(usize::MAX);
        let bytes = function.code.get(before..).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(len)];
        before = before.saturating_add(len);
        // Wherever instructions begin.
        for skip in 0..bytes.len() {
            if let Some(insn) = Insn::decode(&bytes[skip..], LinkAddr(piece.start).offset(skip as u64)) {
                for at in insn.address_constants(objects.absolute) {
                    escaped.objects.extend(objects.reached(at.0));
                    escaped.code.push(at.0);
                }
            }
        }
    }
}

fn insns<'f>(function: &'f model::Function, block: &model::Block) -> Decode<'f> {
    let bytes = function.bytes_at(block.address, block.size.into()).unwrap_or_default();
    Decode::new(bytes, LinkAddr(block.address))
}

/// Whether it goes to another function and comes back.
fn is_call(insn: &Insn) -> bool {
    insn.call_target().is_some() || insn.flow() == Flow::IndirectCall
}

/// Where the addresses in registers come from at the start of each block.
fn origins(function: &model::Function, code: &Code, follower: &mut Follower<'_>) -> Vec<Registers> {
    let nodes = code.graph.len();
    let mut starts = vec![Registers::nowhere(); nodes];
    code.entries.iter().for_each(|&entry| starts[entry as usize] = Registers::at_entry());
    for &landing in &code.landings {
        starts[landing as usize].join(&Registers::unknown());
    }
    let mut order = code.graph.postorder();
    order.reverse();
    let mut pending = vec![true; nodes];
    while pending.contains(&true) {
        for &node in &order {
            if !std::mem::replace(&mut pending[node as usize], false) {
                continue;
            }
            let mut registers = starts[node as usize].clone();
            if let Some(block) = function.blocks.get(node as usize) {
                for insn in insns(function, block) {
                    if is_call(&insn) {
                        registers.call();
                    } else {
                        follower.step(&mut registers, &insn);
                    }
                }
            }
            for &next in code.graph.successors(node) {
                if starts[next as usize].join(&registers) {
                    pending[next as usize] = true;
                }
            }
        }
    }
    starts
}

/// Writes down what instructions do.
struct Writer<'o> {
    objects: &'o Objects,
    follower: Follower<'o>,
    /// Accesses to the frame by distance in fours, first and last: which access, and where.
    raw: Vec<(usize, i32, i32)>,
    /// Fours of the frame that something is stored to that is no register of the caller.
    stored: Vec<i32>,
    handed: Vec<(u32, Gpr, Origin)>,
}

/// The sites of a block.
pub(super) fn of_block(sites: &[Site], block: usize) -> Range<usize> {
    let first = sites.partition_point(|site| (site.block as usize) < block);
    first..first + sites[first..].partition_point(|site| site.block as usize == block)
}

impl Writer<'_> {
    fn block(&mut self, function: &model::Function, index: usize, mut registers: Registers, code: &mut Code) {
        let first = code.ops.len() as u32;
        let mut last = None;
        for insn in insns(function, &function.blocks[index]) {
            if insn.is_padding() || insn.is_landing_mark() {
                continue;
            }
            last = Some(insn);
            if is_call(&insn) {
                self.call(&mut registers, &insn, code, index);
            } else {
                let step = self.follower.step(&mut registers, &insn);
                self.op(&registers, &insn, &step, code);
            }
        }
        let block = &mut code.blocks[index];
        block.ops = first..code.ops.len() as u32;
        block.kernel = code.ops[first as usize..].iter().any(|op| op.kernel);
        let Some(last) = last else { return };
        block.decides = matches!(last.flow(), Flow::Branch(_) | Flow::IndirectJump);
        block.stops = last.flow() == Flow::Stop;
        if block.returns {
            self.follower.hand_over(&registers, mask::RESULTS);
        }
        let (tail, called) = (block.tail, is_call(&last));
        let top = registers.get(Gpr::RSP).frame;
        let mut own = of_block(&code.sites, index);
        if own.is_empty() && (called || tail) {
            let site = Site { block: index as u32, target: Target::Pointer, tail: !called, top };
            code.sites.insert(own.start, site);
            own.end += 1;
        }
        if tail {
            code.sites[own.clone()].iter_mut().filter(|site| site.tail).for_each(|site| site.top = top);
            self.hand_over(&registers, &code.sites[own]);
        }
    }

    /// Addresses go to callees: of functions of the module it is not yet known which registers they look at.
    fn hand_over(&mut self, registers: &Registers, sites: &[Site]) {
        if sites.is_empty() {
            self.follower.hand_over(registers, mask::PASSED);
        }
        for site in sites {
            match site.target {
                Target::Function(callee) => {
                    for register in Gpr::all().filter(|&r| mask::of_gpr(r) & mask::PASSED != 0) {
                        let origin = registers.get(register);
                        if origin.is_specific() {
                            self.handed.push((callee, register, origin.clone()));
                        }
                    }
                }
                Target::Import(import) => self.follower.hand_over(registers, import.passed()),
                Target::Pointer => self.follower.hand_over(registers, mask::PASSED),
            }
        }
    }

    /// The call itself: it finds out whom to call.
    fn call(&mut self, registers: &mut Registers, insn: &Insn, code: &mut Code, index: usize) {
        let top = registers.get(Gpr::RSP).frame;
        let own = of_block(&code.sites, index);
        code.sites[own.clone()].iter_mut().for_each(|site| site.top = top);
        self.hand_over(registers, &code.sites[own]);
        let mut aside = registers.clone();
        let mut step = self.follower.step(&mut aside, insn);
        step.effects.writes = Default::default();
        step.effects.kills = Default::default();
        let reads = step.accesses.iter().map(|access| access.kind == AccessKind::Read);
        let keep: Vec<bool> = reads.collect();
        let mut kept = keep.iter();
        step.accesses.retain(|_| *kept.next().unwrap_or(&false));
        let mut kept = keep.iter();
        step.places.retain(|_| *kept.next().unwrap_or(&false));
        self.op(registers, insn, &step, code);
        registers.call();
    }

    /// Puts an instruction down; `after` is what is known behind it.
    fn op(&mut self, after: &Registers, insn: &Insn, step: &Step, code: &mut Code) {
        let mut op = Op {
            reads: mask::touching(step.effects.reads) & !mask::RSP,
            writes: mask::touching(step.effects.writes),
            kills: mask::within(step.effects.kills),
            first: code.mems.len() as u32,
            accesses: 0,
            keeps: false,
            kernel: insn.is_syscall(),
        };
        let state = step.accesses.iter().any(|access| matches!(access.how, How::State(_)));
        if !state {
            // Older instructions leave the upper parts of vector registers alone. Compilers do not mix them with those that use them.
            op.kills |= op.writes & !op.reads & mask::ALL_VECTORS;
        }
        for register in Gpr::all() {
            let bit = mask::of_gpr(register);
            let origin = after.get(register);
            if op.writes & bit != 0 && (register == Gpr::RSP || origin.is_fixed()) {
                op.writes &= !bit;
                op.kills |= bit;
                if register != Gpr::RSP && matches!(origin.frame, Frame::At(at) if at >= 8) {
                    code.incoming = u32::MAX;
                }
            }
        }
        let kept = kept_register(insn);
        for (access, origin) in step.accesses.iter().zip(&step.places) {
            let reads = access.kind != AccessKind::Write;
            let writes = access.kind != AccessKind::Read;
            if access.segment != Segment::None {
                // The canary, which nobody writes to.
                let alone = access.place.registers().is_empty();
                if !(alone && access.place.displacement == 0x28 && !writes) {
                    code.mems.push(Mem { place: Place::Unknown, reads, writes });
                }
                continue;
            }
            if access.place.registers().is_empty() {
                let size = if access.how == How::Plain { access.size.into() } else { 64 };
                let found = self.objects.direct(access.place.displacement.cast_unsigned(), size);
                let place = found.map_or(Place::Unknown, |(first, behind)| Place::Data(first, behind));
                code.mems.push(Mem { place, reads, writes });
                continue;
            }
            self.indirect(origin, access.size, (reads, writes), kept, &mut op, code);
        }
        self.mentions(insn, code);
        op.accesses = (code.mems.len() as u32 - op.first).min(255) as u8;
        if op.reads | op.writes | op.kills != 0 || op.accesses != 0 {
            code.ops.push(op);
        }
    }

    /// Whoever takes the address of a constant depends on what is there.
    fn mentions(&self, insn: &Insn, code: &mut Code) {
        if !insn.is_lea() && !self.objects.absolute {
            return;
        }
        let spoken_of =
            insn.address_constants(self.objects.absolute).flat_map(|at| self.objects.reached(at.0));
        for (first, behind) in spoken_of.map(|object| self.objects.span(object)) {
            if self.objects.is_constant(first) {
                code.mems.push(Mem { place: Place::Data(first, behind), reads: true, writes: false });
            }
        }
    }

    fn indirect(
        &mut self,
        origin: &Origin,
        size: u32,
        (reads, writes): (bool, bool),
        kept: Option<(Gpr, bool)>,
        op: &mut Op,
        code: &mut Code,
    ) {
        let mut add = |place: Place| code.mems.push(Mem { place, reads, writes });
        for &object in &origin.objects {
            let (first, behind) = self.objects.span(object);
            add(Place::Data(first, behind));
        }
        if origin.all {
            add(Place::AllData);
        }
        if origin.anything || !origin.is_specific() {
            add(Place::Unknown);
        }
        if let Some((register, _)) = kept
            && writes
            && origin.frame != Frame::Not
        {
            code.saves |= mask::of_gpr(register);
        }
        match origin.frame {
            Frame::Not => {}
            Frame::Somewhere => {
                add(Place::Frame);
                if reads {
                    op.reads |= mask::bit(mask::STACK);
                    code.incoming = u32::MAX;
                }
            }
            Frame::At(at) => {
                let end = at.saturating_add(size.clamp(1, 1 << 16) as i32 - 1);
                let (first, last) = (at.div_euclid(4), end.div_euclid(4));
                self.raw.push((code.mems.len(), first, last));
                code.mems.push(Mem { place: Place::Frame, reads, writes });
                if reads && last >= ARGUMENT_SLOT {
                    op.reads |= mask::bit(mask::STACK);
                    code.incoming = code.incoming.max((end.saturating_sub(7)).max(0) as u32);
                }
                match kept {
                    Some((_, true)) if origin.is_fixed() => op.keeps = true,
                    _ if writes => self.stored.extend(first..=last),
                    _ => {}
                }
            }
        }
    }

    /// Numbers the slots that are spoken of.
    fn name_slots(&mut self, code: &mut Code) {
        let mut all: Vec<i32> = self.raw.iter().flat_map(|&(_, first, last)| first..=last).collect();
        all.sort_unstable();
        all.dedup();
        self.stored.sort_unstable();
        for &(mem, first, last) in &self.raw {
            let from = all.partition_point(|&at| at < first);
            let behind = all.partition_point(|&at| at <= last);
            code.mems[mem].place = Place::Slots(from as u32, behind as u32);
        }
        let mut saved: Vec<i32> = Vec::new();
        for &(mem, first, last) in &self.raw {
            if code.mems[mem].writes {
                saved.extend(first..=last);
            }
        }
        saved.sort_unstable();
        code.slots = all
            .into_iter()
            .map(|at| Slot {
                at,
                private: self.stored.binary_search(&at).is_err() && saved.binary_search(&at).is_ok(),
            })
            .collect();
    }
}

/// The register of the caller that an instruction may keep on the stack or take back from there, and whether that is all
/// that instructions of its kind are for.
fn kept_register(insn: &Insn) -> Option<(Gpr, bool)> {
    let only = match insn.verb() {
        Verb::Push | Verb::Pop => true,
        Verb::Mov => false,
        _ => return None,
    };
    let register = insn.operands().find_map(|operand| match operand {
        Operand::Register(name) if name.class == RegisterClass::General && name.width == 8 => {
            Gpr::all().nth(name.number.into())
        }
        _ => None,
    })?;
    (mask::of_gpr(register) & mask::KEPT != 0).then_some((register, only))
}
