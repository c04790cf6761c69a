//! How far the stack pointer is from where it was when the function was entered: 0 at the entry, -8
//! after a push.
//!
//! A forward data-flow analysis. Besides the stack pointer it follows copies of it: in other registers,
//! and in stack slots, where code that aligns the stack keeps one to find back. Aligning the stack, or
//! taking room of a size only the run shows, gives the stack pointer a new base of unknown height. Slots
//! are then told apart relative to that base, and through a saved copy the height is known again.
//!
//! Taken for granted: a call gives back the stack pointer and the callee-saved registers as they were,
//! and nobody writes to a saved copy as to an element of an array or through a pointer of unknown origin.
//! Unwind tables rest on the same.

use crate::addr::LinkAddr;
use crate::cfg::{BlockId, Cfg, EdgeKind, Target};
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
        let mut solver = Solver::new(cfg, source);
        solver.solve();
        let Solver { at_start, mut conflicts, .. } = solver;
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

/// The analysis while it runs.
struct Solver<'a, S: ?Sized> {
    cfg: &'a Cfg,
    source: &'a S,
    stepper: Stepper,
    at_start: Vec<Option<State>>,
    /// The first known height at which a way came to each block.
    first_height: Vec<Option<i64>>,
    /// Blocks where another height followed, some more than once.
    conflicts: Vec<BlockId>,
    /// Blocks to be followed again from their start.
    pending: Vec<bool>,
}

impl<'a, S: CodeSource + ?Sized> Solver<'a, S> {
    fn new(cfg: &'a Cfg, source: &'a S) -> Self {
        let count = cfg.blocks.len();
        Self {
            cfg,
            source,
            stepper: Stepper::default(),
            at_start: vec![None; count],
            first_height: vec![None; count],
            conflicts: Vec::new(),
            pending: vec![false; count],
        }
    }

    fn solve(&mut self) {
        for root in self.cfg.roots().into_iter().map(BlockId) {
            if self.cfg.entries.contains(&root) {
                self.arrive(root, &State::at_entry());
            } else if self.cfg.block(root).reached {
                // A landing pad nobody is known to throw to, or code somebody vouched for.
                self.arrive(root, &State::default());
            }
        }
        self.spread(|_| None);
        if !self.cfg.landing_pads.is_empty() {
            let resting = self.resting_height();
            self.pending = self.at_start.iter().map(Option::is_some).collect();
            self.spread(|thrown| Some(thrown.caught(resting)));
        }
    }

    /// Carries what is known along the edges until nothing changes; `catch` tells what is known at a
    /// landing pad from what is known where the exception was thrown. Blocks are visited in reverse
    /// postorder, so that without loops one round is enough.
    fn spread(&mut self, catch: impl Fn(&State) -> Option<State>) {
        let mut order = self.cfg.graph().postorder();
        order.reverse();
        while self.pending.contains(&true) {
            for from in order.iter().copied().map(BlockId) {
                if !core::mem::replace(&mut self.pending[from.index()], false) {
                    continue;
                }
                let state = self.at_end(from);
                for edge in self.cfg.edges_from(from) {
                    let Target::Block(to) = edge.to else { continue };
                    match (edge.kind, self.stepper.equal) {
                        (EdgeKind::LandingPad, _) => {
                            catch(&state).iter().for_each(|caught| self.arrive(to, caught));
                        }
                        (kind, Some((equal, place))) if kind == equal => {
                            state.met(place).iter().for_each(|met| self.arrive(to, met));
                        }
                        _ => self.arrive(to, &state),
                    }
                }
            }
        }
    }

    /// Adds one way to come to `block`.
    fn arrive(&mut self, block: BlockId, state: &State) {
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

    /// What is known behind the last instruction of `block`.
    fn at_end(&mut self, block: BlockId) -> State {
        let mut state = self.at_start[block.index()].clone().unwrap_or_default();
        self.stepper.compared = None;
        for insn in self.cfg.block(block).insns(self.source) {
            self.stepper.step(&mut state, &insn);
        }
        state
    }

    /// The height from which the function calls others, not counting arguments pushed for one call. A
    /// single call is not enough to tell those from the frame.
    fn resting_height(&mut self) -> Option<i64> {
        let calls = self.cfg.numbered_blocks().filter(|(_, block)| block.end.is_call());
        let mut heights: Vec<i64> = calls.filter_map(|(id, _)| self.at_end(id).height()).collect();
        heights.sort_unstable();
        match heights[..] {
            [.., next, highest] if next == highest => Some(highest),
            _ => None,
        }
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

    fn set(&mut self, register: Gpr, value: Option<Place>) {
        match value {
            Some(place) if register == Gpr::RSP => self.restore(place),
            _ => self.regs[register.number()] = value,
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

    /// Moves the stack pointer down by an unknown distance; where it is then becomes a new base.
    ///
    /// Nothing is known relative to the same base from when the instruction ran before, as nothing was
    /// when it ran first, and only what holds each time is known.
    fn sink(&mut self, insn: &Insn) {
        self.forget_below_top();
        let top = &mut self.regs[Gpr::RSP.number()];
        *top = top.map(|_| Place { base: Base::Insn(insn.addr()), offset: 0 });
    }

    /// Moves the stack pointer by a known distance.
    fn grow(&mut self, by: i64) {
        let top = &mut self.regs[Gpr::RSP.number()];
        *top = top.map(|top| top.offset(by));
    }

    fn push(&mut self, bytes: i64, value: Option<Place>) {
        self.grow(-bytes);
        match self.top() {
            Some(top) => self.store(top, bytes, value),
            None => self.saved.clear(),
        }
    }

    /// The stack address that eight bytes of memory hold.
    fn load(&self, at: Option<Place>) -> Option<Place> {
        self.saved.iter().find(|(slot, _)| Some(*slot) == at).map(|(_, value)| *value)
    }

    /// Memory changes. Two bases may be any distance apart, so only slots of the same base are known to
    /// lie beside what changes.
    fn store(&mut self, at: Place, bytes: i64, value: Option<Place>) {
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

    /// What of it holds at a landing pad. The unwinder drops arguments that were pushed for the call, and
    /// only the unwind table says how many; but a call at the `resting` height has none.
    fn caught(&self, resting: Option<i64>) -> Self {
        let mut state = self.clone();
        if self.height().is_none() || self.height() != resting {
            state.regs[Gpr::RSP.number()] = None;
        }
        state
    }

    /// What of it holds once the stack pointer was found to be at `place`; nothing if it cannot be.
    fn met(&self, place: Place) -> Option<Self> {
        let mut state = self.clone();
        if place.base == Base::Entry {
            match self.height() {
                Some(height) if height != place.offset => return None,
                Some(_) => {}
                None => state.restore(place),
            }
        }
        Some(state)
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
    /// What the last instruction compared the stack pointer with.
    compared: Option<Place>,
    /// The edge of the last branch on which the stack pointer is at that place.
    equal: Option<(EdgeKind, Place)>,
}

impl Stepper {
    fn step(&mut self, state: &mut State, insn: &Insn) {
        let raw = &insn.raw;
        let moved = i64::from(raw.stack_pointer_increment());
        let compared = self.compared.take();
        self.equal = None;
        match raw.mnemonic() {
            Mnemonic::Mov => write(state, insn, 0, read(state, insn, 1)),
            Mnemonic::Lea => write(state, insn, 0, address(state, insn)),
            Mnemonic::Add if is_constant(insn) => {
                write(state, insn, 0, read(state, insn, 0).map(|at| at.offset(raw.immediate(1) as i64)));
            }
            Mnemonic::Sub if is_constant(insn) => {
                let by = (raw.immediate(1) as i64).wrapping_neg();
                write(state, insn, 0, read(state, insn, 0).map(|at| at.offset(by)));
            }
            // The stack is aligned, or room is taken whose size only the run shows.
            Mnemonic::And | Mnemonic::Sub if raw.op0_register() == Register::RSP => state.sink(insn),
            Mnemonic::Xchg => {
                let values = (read(state, insn, 0), read(state, insn, 1));
                write(state, insn, 0, values.1);
                write(state, insn, 1, values.0);
            }
            Mnemonic::Push => state.push(-moved, read(state, insn, 0)),
            Mnemonic::Pop => {
                let value = state.load(state.top());
                state.grow(moved);
                write(state, insn, 0, value);
            }
            Mnemonic::Leave if raw.code() == Code::Leaveq => {
                state.set(Gpr::RSP, state.get(Gpr::RBP));
                state.set(Gpr::RBP, state.load(state.top()));
                state.grow(8);
            }
            Mnemonic::Enter if raw.code() == Code::Enterq_imm16_imm8 => {
                let outer = state.get(Gpr::RBP);
                state.push(8, outer);
                state.set(Gpr::RBP, state.top());
                state.push(-moved - 8, None);
            }
            Mnemonic::Cmp => self.compared = compared_with_top(state, insn),
            Mnemonic::Je => self.equal = compared.map(|place| (EdgeKind::Taken, place)),
            Mnemonic::Jne => self.equal = compared.map(|place| (EdgeKind::FallThrough, place)),
            Mnemonic::Test | Mnemonic::Nop => {}
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
                0 => state.set(register, None),
                _ if register != Gpr::RSP => state.set(register, None),
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

/// Writes a result of an instruction to an operand.
fn write(state: &mut State, insn: &Insn, operand: u32, value: Option<Place>) {
    let to = insn.raw.op_register(operand);
    match insn.raw.op_kind(operand) {
        OpKind::Memory => write_memory(state, insn, value),
        OpKind::Register => {
            if let Some(part_of) = Gpr::holding(to) {
                state.set(part_of, value.filter(|_| full_register(to).is_some()));
            }
        }
        _ => {}
    }
}

/// Writes to the memory operand, if that is where the instruction may write to.
fn write_memory(state: &mut State, insn: &Insn, value: Option<Place>) {
    let raw = &insn.raw;
    if raw.op0_kind() != OpKind::Memory {
        return;
    }
    let is_lost = |base| matches!(base, Gpr::RSP | Gpr::RBP) && state.get(base).is_none();
    match (address(state, insn), raw.memory_size().size()) {
        // The state of the floating-point unit, of a size the processor decides.
        (Some(_), 0) => state.saved.clear(),
        (Some(at), bytes) => state.store(at, bytes as i64, value),
        // To the stack, but who knows where.
        (None, _) if full_register(raw.memory_base()).is_some_and(is_lost) => state.saved.clear(),
        (None, _) => {}
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

/// The stack address that the stack pointer is compared with. Code that takes room page by page, to touch
/// each, ends its loop with that.
fn compared_with_top(state: &State, insn: &Insn) -> Option<Place> {
    match (insn.raw.op0_register(), insn.raw.op1_register()) {
        (Register::RSP, _) => read(state, insn, 1),
        (_, Register::RSP) => read(state, insn, 0),
        _ => None,
    }
}

fn full_register(register: Register) -> Option<Gpr> {
    Gpr::holding(register).filter(|_| register.is_gpr64())
}

/// Whether the second operand is a constant.
fn is_constant(insn: &Insn) -> bool {
    matches!(insn.raw.op1_kind(), OpKind::Immediate8to64 | OpKind::Immediate32to64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::AddrRange;
    use crate::cfg::recover;
    use crate::testing::{self, BASE, FlatSource};
    use crate::verify::random::fail;
    use crate::verify::stack_height::check;
    use alloc::string::{String, ToString};
    use proptest::test_runner::TestRunner;

    /// The height before each instruction, `?` if it is unknown; blocks are set apart by `|`.
    fn show(cfg: &Cfg, source: &FlatSource) -> String {
        assert_eq!(cfg.problems, []);
        let heights = StackHeights::new(cfg, source);
        check(cfg, source, &heights).unwrap();
        let blocks = cfg.numbered_blocks().map(|(id, _)| {
            let each = heights.per_insn(id).into_iter();
            let each = each.map(|(_, height)| height.map_or("?".to_string(), |height| height.to_string()));
            each.collect::<Vec<_>>().join(" ")
        });
        blocks.collect::<Vec<_>>().join(" | ")
    }

    fn heights(code: &[u8]) -> String {
        let source = FlatSource(code.to_vec());
        show(&source.cfg(), &source)
    }

    /// What code that aligns the stack ends with.
    const RET: [u8; 1] = [0xc3];

    #[test]
    fn push_and_pop() {
        // push rax; sub rsp, 24; push word 1; pop cx; pushfq; popfq; add rsp, 24; pop rax; ret
        let code = [
            &[0x50, 0x48, 0x83, 0xec, 0x18, 0x66, 0x6a, 1, 0x66, 0x59][..],
            &[0x9c, 0x9d, 0x48, 0x83, 0xc4, 0x18, 0x58],
            &RET,
        ];
        assert_eq!(heights(&code.concat()), "0 -8 -32 -34 -32 -40 -32 -8 0");
    }

    #[test]
    fn calls_are_balanced() {
        // push rax; call outside; call next; pop rax; pop rax; ret 8
        let code = [0x50, 0xe8, 0xfa, 0x6f, 0, 0, 0xe8, 0, 0, 0, 0, 0x58, 0x58, 0xc2, 8, 0];
        assert_eq!(heights(&code), "0 -8 | -8 | -16 -8 0");
    }

    #[test]
    fn a_frame_pointer_finds_back_from_dynamic_room() {
        // push rbp; mov rbp, rsp; push rbx; sub rsp, rax; push 0; lea rsp, [rbp - 8]; pop rbx; pop rbp; ret
        let code = [
            &[0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x29, 0xc4, 0x6a, 0][..],
            &[0x48, 0x8d, 0x65, 0xf8, 0x5b, 0x5d],
            &RET,
        ];
        assert_eq!(heights(&code.concat()), "0 -8 -8 -16 ? ? -16 -8 0");
        // enter 16, 0; sub rsp, rax; leave; ret
        assert_eq!(heights(&[0xc8, 0x10, 0, 0, 0x48, 0x29, 0xc4, 0xc9, 0xc3]), "0 -24 ? 0");
    }

    #[test]
    fn alignment_by_gcc() {
        // lea r10, [rsp + 8]; and rsp, -32; push [r10 - 8]; push rbp; mov rbp, rsp; push r10; call outside;
        // mov r10, [rbp - 8]; leave; lea rsp, [r10 - 8]; ret
        let code = [
            &[0x4c, 0x8d, 0x54, 0x24, 8, 0x48, 0x83, 0xe4, 0xe0][..],
            &[0x41, 0xff, 0x72, 0xf8, 0x55, 0x48, 0x89, 0xe5, 0x41, 0x52],
            &[0xe8, 0xe8, 0x6f, 0, 0],
            &[0x4c, 0x8b, 0x55, 0xf8, 0xc9, 0x49, 0x8d, 0x62, 0xf8],
            &RET,
        ];
        assert_eq!(heights(&code.concat()), "0 0 ? ? ? ? ? | ? ? ? 0");
    }

    #[test]
    fn alignment_by_hand() {
        // mov rax, rsp; sub rsp, 64; and rsp, -64; mov [rsp + 8], rax; call outside; mov rsi, [rsp + 8];
        // lea rsp, [rsi]; ret
        let code = [
            &[0x48, 0x89, 0xe0, 0x48, 0x83, 0xec, 0x40, 0x48, 0x83, 0xe4, 0xc0][..],
            &[0x48, 0x89, 0x44, 0x24, 8, 0xe8, 0xeb, 0x6f, 0, 0, 0x48, 0x8b, 0x74, 0x24, 8, 0x48, 0x8d, 0x26],
            &RET,
        ];
        assert_eq!(heights(&code.concat()), "0 0 -64 ? ? | ? ? 0");
    }

    /// The height behind `mov rbp, rsp; push rsp; ...; mov rsp, [rbp - 8]`.
    fn after_restoring(between: &[u8]) -> Option<i64> {
        let code = [&[0x48, 0x89, 0xe5, 0x54], between, &[0x48, 0x8b, 0x65, 0xf8], &RET].concat();
        let source = FlatSource(code);
        let cfg = source.cfg();
        show(&cfg, &source);
        let last = BlockId(cfg.blocks.len() as u32 - 1);
        StackHeights::new(&cfg, &source).per_insn(last).last().expect("ret").1
    }

    #[test]
    fn a_copy_that_is_overwritten_is_no_copy() {
        assert_eq!(after_restoring(&[]), Some(0));
        assert_eq!(after_restoring(&[0x89, 0x44, 0x24, 8]), Some(0), "mov [rsp + 8], eax");
        assert_eq!(after_restoring(&[0x89, 0x44, 0x24, 4]), None, "mov [rsp + 4], eax");
        assert_eq!(after_restoring(&[0x89, 0x44, 0x24, 0xfc]), Some(0), "mov [rsp - 4], eax");
        assert_eq!(after_restoring(&[0x89, 0x44, 0x24, 0xfd]), None, "mov [rsp - 3], eax");
        assert_eq!(after_restoring(&[0x0f, 0x29, 0x45, 0xf0]), None, "movaps [rbp - 16], xmm0");
        assert_eq!(after_restoring(&[0x74, 4, 0x48, 0x89, 0x04, 0x24]), None, "je 1f; mov [rsp], rax; 1:");
    }

    #[test]
    fn a_copy_below_the_stack_pointer_does_not_survive_a_call() {
        let call = [0xff, 0xd0];
        assert_eq!(after_restoring(&call), Some(0));
        assert_eq!(after_restoring(&[0x59]), Some(0), "pop rcx");
        assert_eq!(after_restoring(&[&[0x59][..], &call].concat()), None, "pop rcx; call rax");
        // pop rcx; and rsp, -16; call rax
        assert_eq!(after_restoring(&[&[0x59, 0x48, 0x83, 0xe4, 0xf0][..], &call].concat()), None);
        // and rsp, -16; push rbp; mov rbx, rsp; lea rsp, [rbp - 8]; call rax; mov rsp, [rbx]
        let code = [
            &[0x48, 0x83, 0xe4, 0xf0, 0x55, 0x48, 0x89, 0xe3, 0x48, 0x8d, 0x65, 0xf8][..],
            &call,
            &[0x48, 0x8b, 0x23],
        ];
        assert_eq!(after_restoring(&code.concat()), None);
    }

    #[test]
    fn a_copy_may_be_hit_from_another_base() {
        // and rsp, -16; mov [rsp], rbx: the stack may have been aligned.
        assert_eq!(after_restoring(&[0x48, 0x83, 0xe4, 0xf0, 0x48, 0x89, 0x1c, 0x24]), None);
        // mov rax, rbp; je 1f; xor eax, eax; 1: mov rsp, rax; push rbx: perhaps at the very place.
        let code = [0x48, 0x89, 0xe8, 0x74, 2, 0x31, 0xc0, 0x48, 0x89, 0xc4, 0x53];
        assert_eq!(after_restoring(&code), None);
    }

    #[test]
    fn a_copy_may_be_hit_through_a_lost_frame_pointer() {
        // je 1f; mov rbp, rsp; 1: push rsp; mov [rbp - 8], rbx; pop rsp; ret
        let code = [0x74, 3, 0x48, 0x89, 0xe5, 0x54, 0x48, 0x89, 0x5d, 0xf8, 0x5c, 0xc3];
        assert_eq!(heights(&code), "0 | 0 | 0 -8 -8 ?");
    }

    #[test]
    fn what_aligns_the_stack_twice_starts_anew() {
        // push rsp; 1: and rsp, -16; push rax; jne 1b; pop rsp; ret: the slot is not where it was.
        let code = [0x54, 0x48, 0x83, 0xe4, 0xf0, 0x50, 0x75, 0xf9, 0x5c, 0xc3];
        assert_eq!(heights(&code), "0 | ? ? ? | ? ?");
    }

    #[test]
    fn ways_that_disagree_are_reported() {
        // je 1f; push rax; 1: nop; ret
        let source = FlatSource(vec![0x74, 1, 0x50, 0x90, 0xc3]);
        let cfg = source.cfg();
        assert_eq!(StackHeights::new(&cfg, &source).to_string(), "bb0 0\nbb1 0\nbb2 conflict\n");
        assert_eq!(show(&cfg, &source), "0 | 0 | ? ?");
        // 1: push rax; jne 1b; ret: a loop disagrees with itself.
        let source = FlatSource(vec![0x50, 0x75, 0xfd, 0xc3]);
        let cfg = source.cfg();
        assert_eq!(StackHeights::new(&cfg, &source).to_string(), "bb0 conflict\nbb1 unknown\n");
    }

    #[test]
    fn room_taken_page_by_page() {
        // lea r11, [rsp - 0x3000]; 1: sub rsp, 0x1000; or dword [rsp], 0; cmp rsp, r11; jne 1b; push rax; ret
        let code = [
            &[0x4c, 0x8d, 0x9c, 0x24, 0, 0xd0, 0xff, 0xff][..],
            &[0x48, 0x81, 0xec, 0, 0x10, 0, 0, 0x83, 0x0c, 0x24, 0, 0x4c, 0x39, 0xdc, 0x75, 0xf0, 0x50],
            &RET,
        ];
        assert_eq!(heights(&code.concat()), "0 | ? ? ? ? | -12288 -12296");
    }

    #[test]
    fn a_branch_on_what_another_way_compared_tells_nothing() {
        // lea r10, [rsp + 8]; je 2f; cmp rsp, r10; 1: je 3f; ret; 2: push rax; jmp 1b; 3: ret
        let code = [
            &[0x4c, 0x8d, 0x54, 0x24, 8, 0x74, 6, 0x4c, 0x39, 0xd4, 0x74, 4, 0xc3, 0x50, 0xeb, 0xfa][..],
            &RET,
        ];
        assert_eq!(heights(&code.concat()), "0 0 | 0 | ? | ? | 0 -8 | ?");
    }

    /// sub rsp, 8; call outside; `pushes`; call outside; add rsp, 24; ret; pad: mov rbx, rax; ud2, where
    /// both calls may throw to the pad.
    fn throwing(pushes: &[u8]) -> String {
        let code = [
            &[0x48, 0x83, 0xec, 8, 0xe8, 0xf7, 0x6f, 0, 0][..],
            pushes,
            &[0xe8, 0xf0, 0x6f, 0, 0, 0x48, 0x83, 0xc4, 8],
            &RET,
            &[0x48, 0x89, 0xc3, 0x0f, 0x0b],
        ];
        let source = FlatSource(code.concat());
        let mut outline = source.outline();
        let pad = BASE.offset(source.0.len() as u64 - 5);
        outline.landing_pads = vec![(AddrRange::new(BASE, pad), pad)];
        show(&recover(&source, &outline), &source)
    }

    #[test]
    fn exceptions_drop_pushed_arguments() {
        assert_eq!(throwing(&[0x90]), "0 -8 | -8 -8 | -8 0 | -8 -8");
        assert_eq!(throwing(&[0x50]), "0 -8 | -8 -16 | -16 -8 | ? ?");
    }

    #[test]
    fn dead_code_has_no_height_and_no_say() {
        // ret; push rax; 1: ret, where only the dead push leads on
        let source = FlatSource(vec![0xc3, 0x50, 0xc3]);
        let cfg = source.cfg();
        assert_eq!(show(&cfg, &source), "0 | ? ?");
    }

    #[test]
    fn agrees_with_a_machine() {
        let agrees = |source: FlatSource| {
            let cfg = source.cfg();
            check(&cfg, &source, &StackHeights::new(&cfg, &source)).map_err(fail)
        };
        TestRunner::default().run(&testing::stack_program(), agrees).unwrap();
        TestRunner::default().run(&testing::program(), agrees).unwrap();
        TestRunner::default().run(&testing::noise(), agrees).unwrap();
    }
}
