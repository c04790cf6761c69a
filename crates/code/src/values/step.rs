//! What one instruction does to what is known.

use super::Values;
use super::expr::{Expr, Origin, Val};
use super::state::{Comparison, State};
use crate::isa::{Flow, Gpr, Insn};
use crate::source::Surroundings;
use iced_x86::{ConditionCode, Mnemonic, OpKind};

impl<S: Surroundings + ?Sized> Values<'_, S> {
    /// Carries `state` over one instruction.
    pub(super) fn step(&mut self, state: &mut State, insn: &Insn) {
        let raw = &insn.raw;
        let bits = Self::operand_bits(insn, 0);
        match raw.mnemonic() {
            Mnemonic::Mov | Mnemonic::Movzx => {
                let value = self.operand(state, insn, 1);
                self.write_result(state, insn, value);
            }
            Mnemonic::Movsx | Mnemonic::Movsxd => {
                let from = Self::operand_bits(insn, 1);
                let value = self.operand(state, insn, 1).map(|v| self.exprs.signed(v, from));
                self.write_result(state, insn, value);
            }
            Mnemonic::Cdqe => {
                let value = state.regs[0];
                state.regs[0] = self.exprs.signed(value, 32);
            }
            Mnemonic::Lea => {
                let value = self.address(state, insn);
                self.write_result(state, insn, value);
            }
            Mnemonic::Add | Mnemonic::Sub => {
                let (a, b) = (self.operand(state, insn, 0), self.operand(state, insn, 1));
                let factor = if raw.mnemonic() == Mnemonic::Add { 1 } else { u64::MAX };
                state.compared = None;
                if factor != 1 {
                    self.compare(state, a, b, bits);
                }
                let value = a.zip(b).map(|(a, b)| self.exprs.add_scaled(a, b, factor));
                self.write_result(state, insn, value);
            }
            Mnemonic::Inc | Mnemonic::Dec => {
                let by = if raw.mnemonic() == Mnemonic::Inc { 1u64 } else { u64::MAX };
                let value = self.operand(state, insn, 0).map(|a| {
                    let one = self.exprs.constant(by);
                    self.exprs.add_scaled(a, one, 1)
                });
                state.compared = None;
                self.write_result(state, insn, value);
            }
            Mnemonic::Shl | Mnemonic::Sal => {
                let value =
                    self.operand(state, insn, 0).zip(self.operand(state, insn, 1)).and_then(|(a, by)| {
                        let by = self.exprs.as_constant(by).filter(|&by| by < 32)?;
                        let zero = self.exprs.constant(0);
                        Some(self.exprs.add_scaled(zero, a, 1 << by))
                    });
                state.compared = None;
                self.write_result(state, insn, value);
            }
            Mnemonic::And => {
                let value =
                    self.operand(state, insn, 0).zip(self.operand(state, insn, 1)).and_then(|(a, mask)| {
                        let mask = self.exprs.as_constant(mask)?;
                        let mask = if bits < 64 { mask & ((1 << bits) - 1) } else { mask };
                        Some(self.exprs.and(a, mask))
                    });
                state.compared = None;
                self.write_result(state, insn, value);
            }
            Mnemonic::Xor
                if raw.op1_kind() == OpKind::Register && raw.op0_register() == raw.op1_register() =>
            {
                let zero = self.exprs.constant(0);
                state.compared = None;
                self.write_result(state, insn, Some(zero));
            }
            Mnemonic::Cmp => {
                let (a, b) = (self.operand(state, insn, 0), self.operand(state, insn, 1));
                self.compare(state, a, b, bits);
            }
            Mnemonic::Push => {
                let value = self.operand(state, insn, 0);
                self.move_stack_pointer(state, -8);
                let top = state.regs[4];
                self.store(state, insn, Some(top), value, 64);
            }
            Mnemonic::Pop => {
                let top = state.regs[4];
                let value = self.load(state, top, 64);
                self.move_stack_pointer(state, 8);
                self.write_result(state, insn, Some(value));
            }
            Mnemonic::Leave => {
                state.regs[4] = state.regs[5];
                let top = state.regs[4];
                state.regs[5] = self.load(state, top, 64);
                self.move_stack_pointer(state, 8);
            }
            Mnemonic::Call => {
                // The callee may well change more than its results. But then no compiler reads the rest
                // again, and where one does, it knows that this callee leaves them alone.
                for number in [0usize, 2] {
                    state.regs[number] = self.exprs.opaque(Origin::Insn(insn.addr(), number as u8));
                }
                state.compared = None;
                self.memory_changed(state, insn);
            }
            _ if is_conditional_move(insn) => {
                let value = self
                    .operand(state, insn, 0)
                    .zip(self.operand(state, insn, 1))
                    .map(|(a, b)| if a == b { a } else { self.exprs.intern(Expr::Select(a, b)) });
                self.write_result(state, insn, value);
            }
            _ => self.step_unknown(state, insn),
        }
    }

    /// An instruction whose result is of no interest: forget what it may have written.
    fn step_unknown(&mut self, state: &mut State, insn: &Insn) {
        let effects = self.effects.effects(insn);
        for gpr in effects.writes.gprs() {
            let number = gpr.number();
            state.regs[number] = self.exprs.opaque(Origin::Insn(insn.addr(), number as u8));
        }
        if effects.writes.intersects(crate::isa::RegSet::ARITHMETIC_FLAGS) {
            state.compared = None;
        }
        if insn.raw.op0_kind() == OpKind::Memory {
            // Possibly only read, but then nothing is lost but knowledge.
            let addr = self.address(state, insn);
            let bits = (insn.raw.memory_size().size() * 8).clamp(8, 248) as u8;
            self.store(state, insn, addr, None, bits);
        } else if insn.raw.is_string_instruction() {
            self.memory_changed(state, insn);
        }
    }

    fn compare(&mut self, state: &mut State, a: Option<Val>, b: Option<Val>, bits: u8) {
        state.compared = a.zip(b).and_then(|(a, b)| {
            let (value, constant, swapped) = match (self.exprs.as_constant(a), self.exprs.as_constant(b)) {
                (_, Some(right)) => (a, right, false),
                (Some(left), None) => (b, left, true),
                (None, None) => return None,
            };
            let constant = if bits < 64 { constant & ((1 << bits) - 1) } else { constant };
            Some(Comparison { value, constant, bits, swapped })
        });
    }

    fn move_stack_pointer(&mut self, state: &mut State, by: i64) {
        let by = self.exprs.constant(by as u64);
        state.regs[4] = self.exprs.add_scaled(state.regs[4], by, 1);
    }
}

fn is_conditional_move(insn: &Insn) -> bool {
    insn.raw.condition_code() != ConditionCode::None
        && insn.flow() == Flow::Next
        && insn.raw.op_count() == 2
        && insn.raw.op0_kind() == OpKind::Register
        && Gpr::holding(insn.raw.op0_register()).is_some()
}
