//! How far the stack pointer is from where it was when the function was entered: 0 at the entry, -8
//! after a push.
//!
//! A forward data-flow analysis. Besides the stack pointer it follows copies of it: in other registers,
//! and in stack slots, where code that aligns the stack keeps one to find back. Aligning the stack, or
//! taking room of a size only the run shows, gives the stack pointer a new base of unknown height. Slots
//! are then told apart relative to that base, and through a saved copy the height is known again.
//!
//! Taken for granted: a call gives back the stack pointer and the callee-saved registers as they were,
//! and nobody writes to a saved copy through a pointer that the analysis cannot see through. Unwind
//! tables rest on the same.

use crate::addr::LinkAddr;
use crate::cfg::{BlockId, Cfg, Target};
use crate::isa::{EffectsReader, Flow, Gpr, Insn};
use crate::source::CodeSource;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use iced_x86::{Code, Mnemonic, OpKind, Register};

/// Where the stack pointer is in one function.
pub struct StackHeights<'a, S: ?Sized> {
    cfg: &'a Cfg,
    source: &'a S,
    /// What is known at the start of each block; nothing of a block that never runs.
    at_start: Vec<Option<State>>,
    conflicts: Vec<BlockId>,
}

impl<'a, S: CodeSource + ?Sized> StackHeights<'a, S> {
    /// Follows the stack pointer through the function, from each of its entries.
    #[must_use]
    pub fn new(cfg: &'a Cfg, source: &'a S) -> Self {
        let Arrivals { at_start, mut conflicts, .. } = solve(cfg, source);
        conflicts.sort_unstable();
        conflicts.dedup();
        Self { cfg, source, at_start, conflicts }
    }

    /// The height at the start of `block`; `None` if it is not known or not the same on every way there,
    /// or if no way leads there.
    ///
    /// In a function with several entries, each way counts from the entry it began at.
    #[must_use]
    pub fn at_block(&self, block: BlockId) -> Option<i64> {
        self.at_start[block.index()].as_ref()?.height()
    }

    /// The instructions of `block` in order, each with the height before it.
    #[must_use]
    pub fn per_insn(&self, block: BlockId) -> Vec<(LinkAddr, Option<i64>)> {
        let mut state = self.at_start[block.index()].clone();
        let mut stepper = Stepper::default();
        let before = |insn: Insn| {
            let height = state.as_ref().and_then(State::height);
            state.iter_mut().for_each(|state| stepper.step(state, &insn));
            (insn.addr(), height)
        };
        self.cfg.block(block).insns(self.source).map(before).collect()
    }

    /// Blocks that are entered at different heights, by number: either the graph shows a way that is
    /// never taken, or the code keeps track of its stack in some way of its own.
    #[must_use]
    pub fn conflicts(&self) -> &[BlockId] {
        &self.conflicts
    }
}

/// One line a block: its height, or that ways there disagree, or that it is unknown.
impl<S: CodeSource + ?Sized> fmt::Display for StackHeights<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, _) in self.cfg.numbered_blocks() {
            match self.at_block(id) {
                Some(height) => writeln!(f, "{id} {height}")?,
                None if self.conflicts.contains(&id) => writeln!(f, "{id} conflict")?,
                None => writeln!(f, "{id} unknown")?,
            }
        }
        Ok(())
    }
}

/// Spreads what is known along the edges until nothing changes. Blocks are visited in reverse postorder,
/// so that without loops one round is enough.
fn solve<S: CodeSource + ?Sized>(cfg: &Cfg, source: &S) -> Arrivals {
    let count = cfg.blocks.len();
    let mut arrivals = Arrivals {
        at_start: vec![None; count],
        first_height: vec![None; count],
        conflicts: Vec::new(),
        pending: vec![false; count],
    };
    for root in cfg.roots().into_iter().map(BlockId) {
        // Landing pads nobody is known to throw to run all the same; dead code does not.
        if cfg.entries.contains(&root) {
            arrivals.add(root, &State::at_entry());
        } else if cfg.block(root).reached {
            arrivals.add(root, &State::default());
        }
    }
    let mut order = cfg.graph().postorder();
    order.reverse();
    let mut stepper = Stepper::default();
    while arrivals.pending.contains(&true) {
        for from in order.iter().copied().map(BlockId) {
            if !core::mem::replace(&mut arrivals.pending[from.index()], false) {
                continue;
            }
            let mut state = arrivals.at_start[from.index()].clone().unwrap_or_default();
            for insn in cfg.block(from).insns(source) {
                stepper.step(&mut state, &insn);
            }
            for edge in cfg.edges_from(from) {
                if let Target::Block(to) = edge.to {
                    arrivals.add(to, &state);
                }
            }
        }
    }
    arrivals
}

/// What is known of every block so far.
struct Arrivals {
    at_start: Vec<Option<State>>,
    /// The first known height at which a way came to the block.
    first_height: Vec<Option<i64>>,
    /// Blocks where another height followed, some more than once.
    conflicts: Vec<BlockId>,
    /// Blocks to be followed again from their start.
    pending: Vec<bool>,
}

impl Arrivals {
    /// Adds one way to come to `block`.
    fn add(&mut self, block: BlockId, state: &State) {
        let index = block.index();
        if let Some(height) = state.height()
            && *self.first_height[index].get_or_insert(height) != height
        {
            self.conflicts.push(block);
        }
        self.pending[index] |= match &mut self.at_start[index] {
            Some(known) => known.join(state),
            unvisited => {
                *unvisited = Some(state.clone());
                true
            }
        };
    }
}

/// What distances on the stack are measured from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Base {
    /// Where the stack pointer was at the entry.
    Entry,
    /// Where the instruction at that address, when it last ran, left the stack pointer.
    Insn(LinkAddr),
}

/// An address on the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    base: Base,
    offset: i64,
}

impl Place {
    fn offset(self, by: i64) -> Self {
        Self { offset: self.offset.wrapping_add(by), ..self }
    }
}

/// What is known at one point.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct State {
    /// Stack addresses in registers.
    regs: [Option<Place>; 16],
    /// Slots of eight bytes that hold stack addresses: where, and which.
    saved: Vec<(Place, Place)>,
}

impl State {
    fn at_entry() -> Self {
        let mut state = Self::default();
        state.regs[Gpr::RSP.number()] = Some(Place { base: Base::Entry, offset: 0 });
        state
    }

    /// Keeps what both agree on; whether anything was lost.
    fn join(&mut self, other: &Self) -> bool {
        let mut lost = false;
        for (mine, theirs) in self.regs.iter_mut().zip(&other.regs) {
            if mine.is_some() && mine != theirs {
                *mine = None;
                lost = true;
            }
        }
        let before = self.saved.len();
        self.saved.retain(|slot| other.saved.contains(slot));
        lost || self.saved.len() != before
    }

    fn get(&self, register: Gpr) -> Option<Place> {
        self.regs[register.number()]
    }

    fn top(&self) -> Option<Place> {
        self.get(Gpr::RSP)
    }

    fn height(&self) -> Option<i64> {
        self.top().filter(|top| top.base == Base::Entry).map(|top| top.offset)
    }

    /// Gives `register` a new value. Should that move the stack pointer to an unknown place, then the
    /// instruction makes a new base of it.
    fn set(&mut self, insn: &Insn, register: Gpr, value: Option<Place>) {
        match value {
            _ if register != Gpr::RSP => self.regs[register.number()] = value,
            Some(place) => self.restore(place),
            None => {
                self.saved.clear();
                self.rebase(insn);
            }
        }
    }

    /// Moves the stack pointer to a known place. Coming from another base, that must be one which is
    /// older and higher: what was saved relative to yet others is then below the stack pointer.
    fn restore(&mut self, place: Place) {
        if self.top().is_none_or(|top| top.base != place.base) {
            self.saved.retain(|(slot, _)| slot.base == place.base || slot.base == Base::Entry);
        }
        self.regs[Gpr::RSP.number()] = Some(place);
    }

    /// Moves the stack pointer to an unknown place, which becomes a new base. If the instruction has run
    /// before, what was known relative to where it left the stack pointer then is void.
    fn rebase(&mut self, insn: &Insn) {
        let base = Base::Insn(insn.addr());
        self.saved.retain(|(slot, value)| slot.base != base && value.base != base);
        for place in &mut self.regs {
            *place = place.filter(|place| place.base != base);
        }
        self.regs[Gpr::RSP.number()] = Some(Place { base, offset: 0 });
    }

    /// Moves the stack pointer by a known distance.
    fn grow(&mut self, by: i64) {
        let top = &mut self.regs[Gpr::RSP.number()];
        *top = top.map(|top| top.offset(by));
    }

    fn push(&mut self, bytes: i64, value: Option<Place>) {
        self.grow(-bytes);
        self.store(self.top(), bytes, value);
    }

    /// The stack address that eight bytes of memory hold.
    fn load(&self, at: Option<Place>) -> Option<Place> {
        self.saved.iter().find(|(slot, _)| Some(*slot) == at).map(|(_, value)| *value)
    }

    /// Memory changes. Two bases may be any distance apart, so only slots of the same base are known to
    /// lie beside what changes.
    fn store(&mut self, at: Option<Place>, bytes: i64, value: Option<Place>) {
        let Some(at) = at else { return };
        self.saved.retain(|(slot, _)| {
            let distance = slot.offset.wrapping_sub(at.offset);
            slot.base == at.base && (distance <= -8 || distance >= bytes)
        });
        if bytes == 8
            && let Some(value) = value
        {
            self.saved.push((at, value));
        }
    }

    /// What lies below the stack pointer is lost, as far as it is known to lie there.
    fn forget_below_top(&mut self) {
        match self.top() {
            Some(top) => self.saved.retain(|(slot, _)| slot.base != top.base || slot.offset >= top.offset),
            None => self.saved.clear(),
        }
    }

    /// A callee does what the calling convention lets it do.
    fn call(&mut self) {
        self.forget_below_top();
        for register in
            [Gpr::RAX, Gpr::RCX, Gpr::RDX, Gpr::RSI, Gpr::RDI, Gpr::R8, Gpr::R9, Gpr::R10, Gpr::R11]
        {
            self.regs[register.number()] = None;
        }
    }
}

/// Carries a [`State`] over instructions.
#[derive(Default)]
struct Stepper {
    effects: EffectsReader,
}

impl Stepper {
    fn step(&mut self, state: &mut State, insn: &Insn) {
        let raw = &insn.raw;
        let moved = i64::from(raw.stack_pointer_increment());
        match raw.code() {
            Code::Leaveq => {
                state.set(insn, Gpr::RSP, state.get(Gpr::RBP));
                state.set(insn, Gpr::RBP, state.load(state.top()));
                state.grow(8);
                return;
            }
            Code::Enterq_imm16_imm8 => {
                let frame = state.top().map(|top| top.offset(-8));
                let outer = state.get(Gpr::RBP);
                state.push(-moved, None);
                state.store(frame, 8, outer);
                state.set(insn, Gpr::RBP, frame);
                return;
            }
            _ => {}
        }
        match raw.mnemonic() {
            Mnemonic::Mov => write(state, insn, read(state, insn, 1)),
            Mnemonic::Lea => write(state, insn, address(state, insn)),
            Mnemonic::Add if is_constant(insn) => {
                write(state, insn, read(state, insn, 0).map(|at| at.offset(raw.immediate(1) as i64)));
            }
            Mnemonic::Sub if is_constant(insn) => {
                write(state, insn, read(state, insn, 0).map(|at| at.offset(-(raw.immediate(1) as i64))));
            }
            // Aligning the stack, or taking room, leaves what was saved where it was: above.
            Mnemonic::And | Mnemonic::Sub if raw.op0_register() == Register::RSP => {
                state.forget_below_top();
                state.rebase(insn);
            }
            Mnemonic::Push => state.push(-moved, read(state, insn, 0)),
            Mnemonic::Pop => {
                let value = state.load(state.top());
                state.grow(moved);
                write(state, insn, value);
            }
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Nop => {}
            Mnemonic::Call if insn.flow() == Flow::Call(insn.next_addr()) => state.push(8, None),
            Mnemonic::Call => state.call(),
            _ => self.step_unknown(state, insn, moved),
        }
    }

    /// An instruction whose result is never a stack address: forget what it may have overwritten.
    fn step_unknown(&mut self, state: &mut State, insn: &Insn, moved: i64) {
        write_memory(state, insn, None);
        for register in self.effects.effects(insn).writes.gprs() {
            match moved {
                0 => state.set(insn, register, None),
                _ if register != Gpr::RSP => state.set(insn, register, None),
                ..0 => state.push(-moved, None),
                _ => state.grow(moved),
            }
        }
    }
}

/// The stack address that an operand holds.
fn read(state: &State, insn: &Insn, operand: u32) -> Option<Place> {
    match insn.raw.op_kind(operand) {
        OpKind::Register => full_register(insn.raw.op_register(operand)).and_then(|gpr| state.get(gpr)),
        OpKind::Memory if insn.raw.memory_size().size() == 8 => state.load(address(state, insn)),
        _ => None,
    }
}

/// Writes the result of an instruction to its first operand.
fn write(state: &mut State, insn: &Insn, value: Option<Place>) {
    let to = insn.raw.op0_register();
    match insn.raw.op0_kind() {
        OpKind::Memory => write_memory(state, insn, value),
        OpKind::Register => {
            if let Some(part_of) = Gpr::holding(to) {
                state.set(insn, part_of, value.filter(|_| full_register(to).is_some()));
            }
        }
        _ => {}
    }
}

/// Writes to the memory operand, if that is where the instruction may write to.
fn write_memory(state: &mut State, insn: &Insn, value: Option<Place>) {
    if insn.raw.op0_kind() == OpKind::Memory {
        match insn.raw.memory_size().size() {
            // The state of the floating-point unit, of a size the processor decides.
            0 => state.saved.clear(),
            bytes => state.store(address(state, insn), bytes as i64, value),
        }
    }
}

/// The stack address that the memory operand names.
fn address(state: &State, insn: &Insn) -> Option<Place> {
    let raw = &insn.raw;
    if raw.memory_index() != Register::None || matches!(raw.memory_segment(), Register::FS | Register::GS) {
        return None;
    }
    let base = state.get(full_register(raw.memory_base())?)?;
    Some(base.offset(raw.memory_displacement64() as i64))
}

fn full_register(register: Register) -> Option<Gpr> {
    Gpr::holding(register).filter(|_| register.is_gpr64())
}

/// Whether the second operand is a constant.
fn is_constant(insn: &Insn) -> bool {
    matches!(insn.raw.op1_kind(), OpKind::Immediate8to64 | OpKind::Immediate32to64)
}
