//! Jumps, calls and returns whose target only the run tells.

use super::emit::Buffer;
use super::{IN_RCX, Progress, STEP, Spilled, Step, Writer};
use crate::thread::offset;
use relive_abi::engine as abi;
use relive_code::isa::{Flow, Gpr, Tie};

impl Writer<'_, '_> {
    pub(super) fn indirect(&mut self, step: &Step) {
        let pc = step.pc();
        let flow = step.insn.flow();
        self.unit.hot.store(offset::RCX, Gpr::RCX);
        let spilled = Spilled { rcx: true, ..Spilled::default() };
        match flow {
            Flow::Return => {
                self.mark(pc, spilled);
                if let [.., 0xc2, low, high] = *step.bytes() {
                    // Rare: the address will not be where a landing expects it.
                    self.unit.hot.store(offset::RAX, Gpr::RAX);
                    self.mark(pc, Spilled { rax: true, ..spilled });
                    self.unit.hot.raw(&[0x59]); // pop rcx
                    self.mark(STEP, Spilled::default());
                    // lea rsp, [rsp + n]
                    self.unit.hot.raw(&[0x48, 0x8d, 0xa4, 0x24, low, high, 0, 0]);
                    self.unit.hot.jump_through(offset::FAR_RETURN);
                } else {
                    self.unit.hot.raw(&[0x0f, 0xb7, 0x0c, 0x24]); // movzx ecx, word [rsp]
                    self.mark(STEP, Spilled::default());
                    self.unit.hot.raw(&[0x48, 0x8d, 0x64, 0x24, 8]); // lea rsp, [rsp + 8]
                    self.unit.hot.jump_through_table(offset::RETURNS);
                }
                self.exit(abi::RETURN, step.piece, pc, 0, 0, 0, abi::NO_COUNTER);
            }
            _ => {
                self.mark(pc, spilled);
                load_target(&mut self.unit.hot, step);
                let kind = if flow == Flow::IndirectCall {
                    self.push_return(step.insn.next_addr().0);
                    abi::INDIRECT_CALL
                } else {
                    abi::INDIRECT_JUMP
                };
                self.progress = Progress::Done;
                self.mark(IN_RCX, spilled);
                let number = self.next_exit();
                let stub = self.unit.cold.here();
                self.unit.cold.store_number(offset::EXIT, number);
                self.unit.cold.jump_through(offset::ENTER_INDIRECT);
                let field = self.unit.hot.jump(stub);
                self.exit(kind, step.piece, pc, 0, field, stub, abi::NO_COUNTER);
            }
        }
    }
}

/// Loads what an indirect jump or call would load, into `rcx`: `ff /2` and `ff /4` become `8b /1`.
fn load_target(code: &mut Buffer, step: &Step) {
    let bytes = step.bytes();
    let opcode = bytes.iter().position(|&b| b == 0xff).expect("the only indirect jump there is");
    let mut rex = 0x48;
    for &prefix in &bytes[..opcode] {
        match prefix {
            // `bnd` and a hint, and the operand size, which is always 64 bits.
            0xf2 | 0xf3 | 0x3e | 0x2e | 0x66 => {}
            0x40..=0x4f => rex |= prefix & 0b1011,
            other => code.raw(&[other]),
        }
    }
    let rest = &bytes[opcode + 1..];
    code.raw(&[rex, 0x8b, rest[0] & 0b1100_0111 | 1 << 3]);
    match step.insn.tie(bytes) {
        Tie::Operand { target, .. } => code.distance(target.0, 0),
        _ => code.raw(&rest[1..]),
    }
}
