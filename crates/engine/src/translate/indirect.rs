//! Jumps, calls and returns whose target only the run tells.

use super::emit::Buffer;
use super::{IN_RCX, Progress, Spilled, Step, Writer, rare};
use crate::thread::offset;
use relive_abi::engine as abi;
use relive_code::isa::{Flow, Gpr, Rare, Tie};

impl Writer<'_, '_> {
    pub(super) fn indirect(&mut self, step: &Step) {
        if step.insn.flow() == Flow::Return {
            return self.give_back(step);
        }
        let pc = step.pc();
        self.unit.hot.store(offset::RCX, Gpr::RCX);
        let spilled = Spilled { rcx: true, ..Spilled::default() };
        self.mark(pc, spilled);
        self.load_target(step);
        let is_call = step.insn.flow() == Flow::IndirectCall;
        if is_call {
            self.push_return(step.insn.next_addr().0);
        }
        self.progress = Progress::Done;
        self.end_record(self.next_exit());
        self.mark(IN_RCX, spilled);
        if is_call {
            return self.call(step, abi::INDIRECT_CALL, 0);
        }
        // Libraries call each other through words of memory that hardly change: those are learnt.
        let is_learnt = matches!(step.insn.tie(step.bytes()), Tie::Operand { .. });
        if self.request.tells_targets || is_learnt || step.rare.is_some() {
            return self.jump_to_rcx(step);
        }
        self.choose_landing();
        self.unit.hot.jump_from_table(offset::RETURNS);
        self.exit(abi::INDIRECT_JUMP, step.piece, pc, 0, 0, 0);
    }

    /// Loads what an indirect jump or call would load, into `rcx`, which is spilled.
    pub(super) fn load_target(&mut self, step: &Step) {
        match step.rare {
            Some(Rare::Gs) => self.load_target_through_gs(step),
            Some(Rare::LowRelative(address)) => rare::load_target_at(&mut self.unit.hot, address),
            _ => load_target(&mut self.unit.hot, step),
        }
    }

    /// The end of a unit with a jump to where `rcx` says, which is spilled.
    pub(super) fn jump_to_rcx(&mut self, step: &Step) {
        let number = self.next_exit();
        let stub = self.unit.cold.here();
        self.unit.cold.store_number(offset::EXIT, number);
        self.unit.cold.jump_through(offset::ENTER_INDIRECT);
        let field = self.unit.hot.jump(stub);
        self.exit(abi::INDIRECT_JUMP, step.piece, step.pc(), 0, field, stub);
    }
}

/// The same as it is: `ff /2` and `ff /4` become `8b /1`.
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
    match step.tie {
        Tie::Operand { target, .. } => code.distance(target.0, 0),
        _ => code.raw(&rest[1..]),
    }
}
