//! Operands of instructions: registers and memory, read and written.

use super::Values;
use super::expr::{Expr, Origin, Val};
use super::state::State;
use crate::addr::LinkAddr;
use crate::isa::{Gpr, Insn};
use crate::source::{Pointer, Surroundings};
use iced_x86::{OpKind, Register};

impl<S: Surroundings + ?Sized> Values<'_, S> {
    /// The address a memory operand names.
    pub(crate) fn address(&mut self, state: &State, insn: &Insn) -> Option<Val> {
        let raw = &insn.raw;
        if matches!(raw.memory_segment(), Register::FS | Register::GS) {
            return None;
        }
        let displacement = if raw.is_ip_rel_memory_operand() {
            raw.ip_rel_memory_address()
        } else {
            raw.memory_displacement64()
        };
        let mut sum = self.exprs.constant(displacement);
        if !raw.is_ip_rel_memory_operand()
            && let Some(base) = Gpr::holding(raw.memory_base())
        {
            let base = state.regs[base.number()];
            sum = self.exprs.add_scaled(sum, base, 1);
        }
        if raw.memory_index().is_vector_register() {
            return None;
        }
        if let Some(index) = Gpr::holding(raw.memory_index()) {
            let index = state.regs[index.number()];
            sum = self.exprs.add_scaled(sum, index, u64::from(raw.memory_index_scale()));
        }
        if raw.memory_base().is_gpr32() || raw.memory_index().is_gpr32() {
            sum = self.exprs.low(sum, 32);
        }
        Some(sum)
    }

    /// What a load of `bits` at `addr` gives.
    pub(crate) fn load(&mut self, state: &mut State, addr: Val, bits: u8) -> Val {
        if let Ok(i) = state.slots.binary_search_by_key(&addr, |s| s.0) {
            let (_, value, width) = state.slots[i];
            if width >= bits {
                return self.exprs.low(value, bits);
            }
        }
        if let Some(fixed) = self.exprs.as_constant(addr).map(LinkAddr)
            && bits == 64
            && self.surroundings.is_constant(fixed)
            && let Pointer::Here(to) = self.surroundings.pointer(fixed)
        {
            return self.exprs.constant(to.0);
        }
        let value = self.exprs.intern(Expr::Load { addr, bits, epoch: state.epoch });
        state.set_slot(addr, value, bits);
        value
    }

    pub(super) fn store(
        &mut self,
        state: &mut State,
        insn: &Insn,
        addr: Option<Val>,
        value: Option<Val>,
        bits: u8,
    ) {
        let Some(addr) = addr else {
            self.memory_changed(state, insn);
            return;
        };
        let (offset, base) = self.exprs.as_sum(addr);
        let (offset, len) = (offset as i64, i64::from(bits / 8));
        let on_stack = self.exprs.stack_offset(addr).is_some();
        let escaped = self.escaped;
        let exprs = &self.exprs;
        // What is known to lie beside the new value stays; what may overlap it is gone.
        state.slots.retain(|&(at, _, width)| {
            if let Some(start) = exprs.distance_from(&base, at) {
                return start >= offset.saturating_add(len)
                    || start.saturating_add(i64::from(width / 8)) <= offset;
            }
            match exprs.stack_offset(at) {
                Some(start) => on_stack || start < escaped,
                None => on_stack && offset < escaped,
            }
        });
        if !on_stack {
            state.epoch = self.epoch_of(insn);
        }
        if let Some(value) = value {
            state.set_slot(addr, value, bits);
        }
    }

    pub(super) fn epoch_of(&self, insn: &Insn) -> u32 {
        insn.addr().since(self.flow.blocks[0].start) as u32 | INSN_EPOCH
    }

    pub(super) fn memory_changed(&mut self, state: &mut State, insn: &Insn) {
        state.epoch = self.epoch_of(insn);
        let (escaped, exprs) = (self.escaped, &self.exprs);
        state.slots.retain(|&(at, ..)| exprs.stack_offset(at).is_some_and(|offset| offset < escaped));
    }

    pub(super) fn operand(&mut self, state: &mut State, insn: &Insn, index: u32) -> Option<Val> {
        let raw = &insn.raw;
        match raw.op_kind(index) {
            OpKind::Register => self.read_register(state, raw.op_register(index)),
            OpKind::Memory => {
                let bits = raw.memory_size().size() * 8;
                let addr = self.address(state, insn)?;
                (matches!(bits, 8 | 16 | 32 | 64)).then(|| self.load(state, addr, bits as u8))
            }
            OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64 => Some(self.exprs.constant(raw.immediate(index))),
            _ => None,
        }
    }

    pub(super) fn read_register(&mut self, state: &State, register: Register) -> Option<Val> {
        let gpr = Gpr::holding(register)?;
        if matches!(register, Register::AH | Register::BH | Register::CH | Register::DH) {
            return None;
        }
        Some(self.exprs.low(state.regs[gpr.number()], register.size() as u8 * 8))
    }

    pub(super) fn write_register(
        &mut self,
        state: &mut State,
        insn: &Insn,
        register: Register,
        value: Option<Val>,
    ) {
        let Some(gpr) = Gpr::holding(register) else { return };
        let number = gpr.number();
        let value = match (value, register.size()) {
            (Some(value), 8) => value,
            (Some(value), 4) => self.exprs.low(value, 32),
            _ => self.exprs.opaque(Origin::Insn(insn.addr(), number as u8)),
        };
        if number != Gpr::RSP.number()
            && number != Gpr::RBP.number()
            && let Some(offset) = self.exprs.stack_offset(value)
        {
            self.escaped = self.escaped.min(offset);
        }
        state.regs[number] = value;
    }

    /// Writes the result of `insn` to its first operand.
    pub(super) fn write_result(&mut self, state: &mut State, insn: &Insn, value: Option<Val>) {
        let raw = &insn.raw;
        match raw.op0_kind() {
            OpKind::Register => self.write_register(state, insn, raw.op0_register(), value),
            OpKind::Memory => {
                let addr = self.address(state, insn);
                let bits = (raw.memory_size().size() * 8).min(255) as u8;
                let value = value.filter(|_| matches!(bits, 8 | 16 | 32 | 64));
                let value = value.map(|v| self.exprs.low(v, bits));
                self.store(state, insn, addr, value, bits);
            }
            _ => {}
        }
    }

    pub(super) fn operand_bits(insn: &Insn, index: u32) -> u8 {
        match insn.raw.op_kind(index) {
            OpKind::Register => (insn.raw.op_register(index).size() * 8).min(255) as u8,
            OpKind::Memory => (insn.raw.memory_size().size() * 8).min(255) as u8,
            _ => 64,
        }
    }
}

/// Distinguishes epochs begun by an instruction from those begun by a merge of paths.
const INSN_EPOCH: u32 = 1 << 31;
