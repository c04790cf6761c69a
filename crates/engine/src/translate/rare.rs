//! Instructions that programs hardly ever use ([`Rare`]): what has to do with `gs`, which is the engine's own while the
//! program's is kept in the thread's memory, and what depends on its place in unusual ways.

use super::emit::Buffer;
use super::{IN_RCX, POINTER, Progress, STEP, Spilled, Step, Writer, is_indirect, leave};
use crate::processor;
use crate::thread::offset;
use relive_abi::engine as abi;
use relive_code::isa::{Flow, Gpr, Insn, MemoryOperand, Operand, OperandField, Rare, RegSet};

/// The selector of 64-bit code, as the kernel has it.
const CODE: u8 = 0x33;

/// An instruction that no processor knows.
const INVALID: [u8; 2] = [0x0f, 0x0b];

/// Registers that can hold an address without anything else being needed.
const SIMPLE: [Gpr; 6] = [Gpr::RAX, Gpr::RCX, Gpr::RDX, Gpr::RBX, Gpr::RSI, Gpr::RDI];

/// Whether a unit is over behind an instruction that is special in this way.
pub(super) fn ends(rare: Rare) -> bool {
    matches!(
        rare,
        Rare::Transaction(_)
            | Rare::FarReturn { .. }
            | Rare::InterruptReturn
            | Rare::Far
            | Rare::Call32
            | Rare::OtherGs
    )
}

impl Writer<'_, '_> {
    /// Writes one. Whether the unit ends with it; `None` if it is nothing special in the end.
    pub(super) fn rare(&mut self, step: &Step, rare: Rare) -> Option<bool> {
        match rare {
            Rare::Gs | Rare::LowRelative(_) if is_indirect(&step.insn) => return None,
            Rare::Gs => self.through_gs(step),
            Rare::GsImplied(register) => self.through_gs_implied(step, register),
            Rare::ReadBase { to, wide } => self.unit.hot.load_part(to, offset::GS_BASE, wide),
            Rare::WriteBase { from, wide: true } => self.unit.hot.store(offset::GS_BASE, from),
            Rare::WriteBase { from, .. } => {
                self.unit.hot.store_half(offset::GS_BASE, from);
                self.mark(STEP, Spilled::default());
                self.unit.hot.store_number(offset::GS_BASE + 4, 0);
            }
            // The upper part of what is kept is zero.
            Rare::ReadSelector(to) => self.unit.hot.load_part(to, offset::GS_SELECTOR, false),
            Rare::LoadSelector(from) => {
                let hot = &mut self.unit.hot;
                hot.raw(&[0x66]);
                hot.store_half(offset::GS_SELECTOR, from);
                // Of those a program can load, all have this base.
                self.mark(STEP, Spilled::default());
                self.unit.hot.store_number(offset::GS_BASE, 0);
                self.unit.hot.store_number(offset::GS_BASE + 4, 0);
            }
            Rare::LowRelative(address) => low_relative(&mut self.unit.hot, step, address),
            Rare::Transaction(to) if processor::has_transactions() => {
                // It has failed, for no reason that is told.
                self.unit.hot.raw(&[0xb8, 0, 0, 0, 0]); // mov eax, 0
                self.leave_at_the_end(abi::JUMP, step.piece, step.pc(), to.0);
            }
            Rare::Transaction(_) | Rare::OtherGs => {
                self.unit.hot.raw(&INVALID);
                self.exit(abi::NOWHERE, step.piece, step.pc(), 0, 0, 0);
            }
            Rare::FarReturn { wide, drop } => self.far_return(step, wide, drop),
            Rare::InterruptReturn => self.interrupt_return(step),
            Rare::Far => self.far(step),
            Rare::Call32 => self.call_32(step),
        }
        Some(ends(rare))
    }

    /// A register that an instruction does not use, nor somebody else.
    fn unused(&mut self, step: &Step, except: RegSet) -> Option<Gpr> {
        let does = self.effects.effects(&step.insn);
        let used = does.reads | does.writes | except;
        SIMPLE.into_iter().find(|&register| !used.contains(RegSet::gpr(register)))
    }

    /// Memory relative to `gs`: its address is computed, into a register that is put back behind the instruction.
    fn through_gs(&mut self, step: &Step) {
        let memory = memory_of(&step.insn);
        let (Some(address), Some(memory)) = (self.unused(step, RegSet::EMPTY), memory) else {
            return self.unit.hot.raw(&INVALID);
        };
        self.mark(STEP, Spilled::default());
        self.unit.hot.store(offset::SCRATCH, address);
        load_address(&mut self.unit.hot, address, &memory);
        let other = if address == Gpr::RAX { Gpr::RCX } else { Gpr::RAX };
        self.unit.hot.store(offset::RDX, other);
        self.unit.hot.load(other, offset::GS_BASE);
        add(&mut self.unit.hot, address, other, 0);
        self.unit.hot.load(other, offset::RDX);
        self.mark(step.pc(), Spilled { scratch: Some(address), ..Spilled::default() });
        let bytes = step.bytes();
        match absolute(bytes) {
            Some((prefixes, opcode)) => {
                prefixes.iter().filter(|b| !matches!(b, 0x65 | 0x67)).for_each(|&b| self.unit.hot.raw(&[b]));
                self.unit.hot.raw(&[opcode, address.number() as u8]);
            }
            None => match OperandField::find(bytes) {
                Some(field) => {
                    let (all, len) = field.through(bytes, address);
                    self.unit.hot.raw(&all[..len]);
                }
                None => self.unit.hot.raw(&INVALID),
            },
        }
        self.mark(STEP, Spilled::default());
        self.unit.hot.load(address, offset::SCRATCH);
    }

    /// The same for instructions that find the address in a register by themselves, and may change it.
    fn through_gs_implied(&mut self, step: &Step, register: Gpr) {
        let Some(other) = self.unused(step, RegSet::gpr(register)) else {
            return self.unit.hot.raw(&INVALID);
        };
        let shift = |hot: &mut Buffer, back: bool| {
            hot.store(offset::SCRATCH, other);
            hot.load(other, offset::GS_BASE);
            if back {
                hot.raw(&[0x48, 0xf7, 0xd0 | other.number() as u8]); // not
            }
            add(hot, register, other, u8::from(back));
            hot.load(other, offset::SCRATCH);
        };
        self.mark(STEP, Spilled::default());
        shift(&mut self.unit.hot, false);
        self.mark(step.pc(), Spilled { shifted: Some(register), ..Spilled::default() });
        step.bytes().iter().filter(|&&b| b != 0x65).for_each(|&b| self.unit.hot.raw(&[b]));
        self.mark(STEP, Spilled::default());
        shift(&mut self.unit.hot, true);
    }

    /// Loads the target of a jump or call into `rcx`, which is spilled, by memory relative to `gs`.
    pub(super) fn load_target_through_gs(&mut self, step: &Step) {
        if let Some(memory) = memory_of(&step.insn) {
            load_address(&mut self.unit.hot, Gpr::RCX, &memory);
        }
        self.unit.hot.store(offset::RAX, Gpr::RAX);
        self.unit.hot.load(Gpr::RAX, offset::GS_BASE);
        self.mark(step.pc(), Spilled { rcx: true, rax: true, ..Spilled::default() });
        self.unit.hot.raw(&[0x48, 0x8b, 0x0c, 0x01]); // mov rcx, [rcx + rax]
        self.mark(STEP, Spilled::default());
        self.unit.hot.load(Gpr::RAX, offset::RAX);
    }

    /// Goes on only if there is the selector of 64-bit code in memory at `[register + distance]`, which `rcx` may be;
    /// it is spilled. Otherwise the instruction is executed as it is: mostly it fails.
    fn check_selector(&mut self, step: &Step, load: &[u8]) {
        let bytes = step.bytes();
        let hot = &mut self.unit.hot;
        hot.raw(load);
        hot.raw(&[0x8d, 0x49, CODE.wrapping_neg()]); // lea ecx, [rcx - …]
        hot.raw(&[0xe3, 9 + bytes.len() as u8]); // jrcxz
        hot.load(Gpr::RCX, offset::RCX);
        self.mark(step.pc(), Spilled::default());
        self.unit.hot.raw(bytes);
        self.mark(step.pc(), Spilled { rcx: true, ..Spilled::default() });
    }

    fn far_return(&mut self, step: &Step, wide: bool, drop: u16) {
        self.spill_rcx(step);
        let (second, both) = if wide { (8, 16) } else { (4, 8) };
        self.check_selector(step, &[0x0f, 0xb7, 0x4c, 0x24, second]); // movzx ecx, word [rsp + …]
        // mov rcx, [rsp] or mov ecx, [rsp]
        self.unit.hot.raw(if wide { &[0x48, 0x8b, 0x0c, 0x24] } else { &[0x8b, 0x0c, 0x24] });
        self.mark(STEP, Spilled::default());
        self.unit.hot.raw(&[0x48, 0x8d, 0xa4, 0x24]); // lea rsp, [rsp + …]
        self.unit.hot.raw(&(u32::from(drop) + both).to_le_bytes());
        self.return_to_rcx(step);
    }

    fn interrupt_return(&mut self, step: &Step) {
        self.spill_rcx(step);
        self.check_selector(step, &[0x0f, 0xb7, 0x4c, 0x24, 8]);
        self.unit.hot.raw(&[0x48, 0x8b, 0x0c, 0x24]); // mov rcx, [rsp]
        self.mark(STEP, Spilled::default());
        self.unit.hot.raw(&[0x48, 0x8d, 0x64, 0x24, 16]); // lea rsp, [rsp + 16]
        self.unit.hot.raw(&[0x9d]); // popfq
        self.unit.hot.raw(&[0x48, 0x8b, 0x24, 0x24]); // mov rsp, [rsp]
        self.return_to_rcx(step);
    }

    fn spill_rcx(&mut self, step: &Step) {
        self.unit.hot.store(offset::RCX, Gpr::RCX);
        self.mark(step.pc(), Spilled { rcx: true, ..Spilled::default() });
    }

    /// A jump or call whose target is a selector and an address in memory.
    fn far(&mut self, step: &Step) {
        let bytes = step.bytes();
        let is_known = matches!(step.insn.flow(), Flow::IndirectJump | Flow::IndirectCall)
            && !bytes.iter().any(|b| matches!(b, 0x64..=0x66));
        let Some(memory) = memory_of(&step.insn).filter(|_| is_known) else {
            self.unit.hot.raw(&INVALID);
            self.exit(abi::NOWHERE, step.piece, step.pc(), 0, 0, 0);
            return;
        };
        let wide = bytes.iter().any(|b| (0x48..0x50).contains(b)) && processor::has_wide_far_jumps();
        let spilled = Spilled { rcx: true, ..Spilled::default() };
        self.spill_rcx(step);
        load_address(&mut self.unit.hot, Gpr::RCX, &memory);
        self.check_selector(step, &[0x0f, 0xb7, 0x49, if wide { 8 } else { 4 }]); // movzx ecx, word [rcx + …]
        self.unit.hot.load(Gpr::RCX, offset::RCX);
        load_address(&mut self.unit.hot, Gpr::RCX, &memory);
        self.unit.hot.raw(if wide { &[0x48, 0x8b, 0x09] } else { &[0x8b, 0x09] }); // mov rcx, [rcx]
        let back = step.insn.next_addr().0;
        let is_call = step.insn.flow() == Flow::IndirectCall;
        if is_call && wide {
            self.unit.hot.raw(&[0x6a, CODE]);
            self.mark(STEP, Spilled::default());
            self.push_return(back);
        } else if is_call {
            self.unit.hot.raw(&[0xc7, 0x44, 0x24, 0xfc, CODE, 0, 0, 0]); // mov dword [rsp - 4], …
            self.unit.hot.raw(&[0xc7, 0x44, 0x24, 0xf8]); // mov dword [rsp - 8], …
            self.unit.hot.raw(&(back as u32).to_le_bytes());
            self.unit.hot.raw(&[0x48, 0x8d, 0x64, 0x24, 0xf8]); // lea rsp, [rsp - 8]
        }
        self.progress = Progress::Done;
        self.record_after();
        self.end_record(self.next_exit());
        self.mark(IN_RCX, spilled);
        self.jump_to_rcx(step);
    }

    /// A call of the kernel as of a 32-bit program: the engine decides whether it has something to do with it.
    fn call_32(&mut self, step: &Step) {
        let (number, next) = (self.next_exit(), step.insn.next_addr().0);
        let stub = self.unit.cold.here();
        leave(&mut self.unit.cold, number);
        self.end_record(number);
        self.unit.hot.jump(stub);
        let as_it_is = self.unit.hot.here();
        // Some kernels overwrite `r11` here too, others do not.
        self.put_away();
        if self.recorder.is_some() {
            self.unit.hot.load(POINTER, offset::R11);
        }
        self.mark(step.pc(), Spilled::default());
        self.unit.hot.raw(step.bytes());
        self.exit(abi::KERNEL, step.piece, step.pc(), next, 0, as_it_is);
        self.progress = Progress::Called;
        self.mark(next, Spilled::default());
        self.take_back();
        self.record_result();
        self.leave_at_the_end(abi::JUMP, step.piece, step.pc(), next);
    }
}

pub(super) fn memory_of(insn: &Insn) -> Option<MemoryOperand> {
    insn.operands().find_map(|operand| match operand {
        Operand::Memory(memory) => Some(memory),
        _ => None,
    })
}

/// `mov` between `rax` and an address of eight bytes: its prefixes, and the opcode of the same with an operand.
fn absolute(bytes: &[u8]) -> Option<(&[u8], u8)> {
    let at =
        bytes.iter().position(|b| !matches!(b, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf2 | 0xf3))?;
    let at = at + usize::from((0x40..0x50).contains(&bytes[at]));
    let opcode = *[0x8a, 0x8b, 0x88, 0x89].get(usize::from(bytes.get(at)?.wrapping_sub(0xa0)))?;
    Some((&bytes[..at], opcode))
}

/// `lea` of the address that an operand means, without its segment.
pub(super) fn load_address(code: &mut Buffer, to: Gpr, memory: &MemoryOperand) {
    if memory.fixed {
        return code.address(to, memory.displacement as u64);
    }
    let number =
        |register: Option<relive_code::isa::RegisterName>, none: u8| register.map_or(none, |r| r.number);
    let (base, index) = (number(memory.base, 5), number(memory.index, 4));
    let is_short = [memory.base, memory.index].into_iter().flatten().any(|register| register.width == 4);
    if is_short {
        code.raw(&[0x67]);
    }
    let to = to.number() as u8;
    let rex = 0x48 | (to >> 3) << 2 | (index >> 3) << 1 | if memory.base.is_some() { base >> 3 } else { 0 };
    let kind = if memory.base.is_some() { 0x80 } else { 0 };
    code.raw(&[rex, 0x8d, kind | (to & 7) << 3 | 4]);
    code.raw(&[(memory.scale.max(1).trailing_zeros() as u8) << 6 | (index & 7) << 3 | base & 7]);
    code.raw(&(memory.displacement as i32).to_le_bytes());
}

/// `lea register, [register + other + more]`; neither is the stack pointer nor `rbp`.
pub(super) fn add(code: &mut Buffer, register: Gpr, other: Gpr, more: u8) {
    let (a, b) = (register.number() as u8, other.number() as u8);
    code.raw(&[0x48, 0x8d, 0x44 | a << 3, b << 3 | a, more]);
}

/// A memory operand by its whole address, of four bytes.
fn low_relative(code: &mut Buffer, step: &Step, address: u32) {
    let bytes = step.bytes();
    let Some(field) = OperandField::find(bytes) else { return code.raw(&INVALID) };
    let (all, len) = field.through(bytes, Gpr::RSI);
    let behind = bytes.len() - field.end;
    let at = len - behind - 1;
    code.raw(&[0x67]);
    code.raw(&all[..at]);
    code.raw(&[all[at] & 0b0011_1000 | 4, 0x25]);
    code.raw(&address.to_le_bytes());
    code.raw(&all[at + 1..len]);
}

/// The same for the target of a jump or call, into `rcx`.
pub(super) fn load_target_at(code: &mut Buffer, address: u32) {
    code.raw(&[0x67, 0x48, 0x8b, 0x0c, 0x25]);
    code.raw(&address.to_le_bytes());
}
