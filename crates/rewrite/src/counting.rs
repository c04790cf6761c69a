//! The code of a counter, by what is free where it goes.

use crate::assembler::{Assembler, Dest, Pos};
use relive_code::isa::{Flag, Gpr, RegSet, Stride};

/// How a counter is incremented.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// `inc` in memory: changes all arithmetic flags but carry.
    Inc,
    /// Through a register nobody needs, without touching flags.
    Through(Gpr),
    /// Through a register that is saved on the stack, below the red zone.
    Spill,
}

/// Flags `inc` changes.
fn changed_by_inc() -> RegSet {
    [Flag::Pf, Flag::Af, Flag::Zf, Flag::Sf, Flag::Of]
        .into_iter()
        .fold(RegSet::EMPTY, |set, flag| set | RegSet::flag(flag))
}

impl Way {
    /// The cheapest way to count where `live` is live.
    #[must_use]
    pub fn best(live: RegSet) -> Self {
        Self::unless(live, changed_by_inc())
    }

    /// The cheapest way to add a register: `add` changes the carry as well.
    #[must_use]
    pub fn best_to_add(live: RegSet) -> Self {
        Self::unless(live, RegSet::ARITHMETIC_FLAGS)
    }

    fn unless(live: RegSet, changed: RegSet) -> Self {
        if !live.intersects(changed) {
            return Self::Inc;
        }
        match Gpr::all().find(|&r| r != Gpr::RSP && !live.intersects(RegSet::gpr(r))) {
            Some(register) => Self::Through(register),
            None => Self::Spill,
        }
    }

    /// How dear it is, for comparison.
    #[must_use]
    pub fn price(self) -> u8 {
        match self {
            Self::Inc => 0,
            Self::Through(_) => 1,
            Self::Spill => 2,
        }
    }
}

/// Emits the increment of the counter at `to`. Returns where the stack pointer is lower than the unwind
/// table says, and by how much.
pub fn count(a: &mut Assembler, way: Way, to: Dest) -> Vec<(Pos, i64)> {
    match way {
        Way::Inc => {
            // inc qword gs:[rip + to]
            a.with_distance(&[0x65, 0x48, 0xff, 0x05, 0, 0, 0, 0], 4, to);
            Vec::new()
        }
        Way::Through(register) => {
            through(a, register, to, |a| bump(a, register));
            Vec::new()
        }
        Way::Spill => {
            let mut depths = Vec::new();
            a.raw(&[0x48, 0x8d, 0x64, 0x24, 0x80]); // lea rsp, [rsp - 128]
            depths.push((a.pos(), 128));
            a.raw(&[0x50]); // push rax
            depths.push((a.pos(), 136));
            through(a, Gpr::RAX, to, |a| bump(a, Gpr::RAX));
            a.raw(&[0x58]); // pop rax
            depths.push((a.pos(), 128));
            a.raw(&[0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]); // lea rsp, [rsp + 128]
            depths.push((a.pos(), 0));
            depths
        }
    }
}

/// `lea r, [r + 1]`: a counter that lives in a register.
pub fn bump(a: &mut Assembler, register: Gpr) {
    let (rex, low) = both(register);
    if low == 4 {
        // r12 as a base needs the longer form.
        a.raw(&[rex, 0x8d, 0x40 | low << 3 | low, 0x24, 1]);
    } else {
        a.raw(&[rex, 0x8d, 0x40 | low << 3 | low, 1]);
    }
}

/// `mov r, 0`, which leaves flags alone.
pub fn clear(a: &mut Assembler, register: Gpr) {
    let number = register.number() as u8;
    if number >= 8 {
        a.raw(&[0x41]);
    }
    a.raw(&[0xb8 | number & 7, 0, 0, 0, 0]);
}

/// Adds a register to the counter at `to`, in the way given.
pub fn add(a: &mut Assembler, way: Way, register: Gpr, to: Dest) {
    let number = register.number() as u8;
    match way {
        Way::Inc => {
            let rex = 0x48 | (number >> 3) << 2;
            a.with_distance(&[0x65, rex, 0x01, (number & 7) << 3 | 0b101, 0, 0, 0, 0], 4, to);
        }
        Way::Through(free) => {
            through(a, free, to, |a| {
                // lea free, [free + register]
                let free = free.number() as u8;
                let rex = 0x48 | (free >> 3) << 2 | (number >> 3) << 1 | free >> 3;
                // A base of rbp or r13 needs a distance, be it zero.
                a.raw(&[rex, 0x8d, 0x44 | (free & 7) << 3, (number & 7) << 3 | free & 7, 0]);
            });
        }
        Way::Spill => unreachable!("no counter is kept in a register where none is free behind"),
    }
}

/// `lea r, [other + ahead]`: where a journey of the other register begins.
pub fn depart(a: &mut Assembler, register: Gpr, other: Gpr, ahead: i64) {
    let (r, o) = (register.number() as u8, other.number() as u8);
    a.raw(&[0x48 | (r >> 3) << 2 | o >> 3, 0x8d]);
    let short = i8::try_from(ahead);
    a.raw(&[if short.is_ok() { 0x40 } else { 0x80 } | (r & 7) << 3 | o & 7]);
    if o & 7 == 4 {
        // r12 as a base needs the longer form.
        a.raw(&[0x24]);
    }
    match short {
        Ok(ahead) => a.raw(&ahead.to_le_bytes()),
        Err(_) => a.raw(&(ahead as i32).to_le_bytes()),
    }
}

/// Adds to the counter at `to` how often the stride was made since [`depart`], and `more` (at most one, or less
/// by one). All flags change, and the register.
pub fn arrive(a: &mut Assembler, register: Gpr, stride: Stride, more: i64, to: Dest) {
    let (r, o) = (register.number() as u8, stride.register.number() as u8);
    let shift = stride.by.unsigned_abs().trailing_zeros() as u8;
    let forward = stride.by > 0;
    let (wide, high) = (u8::from(stride.wide) << 3, r >> 3);
    // sub r, other: what was travelled, turned round if it went forward.
    a.raw(&[0x40 | wide | high << 2 | o >> 3, 0x2b, 0xc0 | (r & 7) << 3 | o & 7]);
    if forward && !stride.wide {
        a.raw(&[0x40 | high, 0xf7, 0xd8 | r & 7]); // neg r
    }
    if shift > 0 {
        let sar_or_shr = if stride.wide { 0xf8 } else { 0xe8 };
        a.raw(&[0x40 | wide | high, 0xc1, sar_or_shr | r & 7, shift]);
    }
    let subtract = forward && stride.wide;
    if more != 0 {
        let inc_or_dec = if (more > 0) != subtract { 0xc0 } else { 0xc8 };
        a.raw(&[0x48 | high, 0xff, inc_or_dec | r & 7]);
    }
    let opcode = if subtract { 0x29 } else { 0x01 };
    a.with_distance(&[0x65, 0x48 | high << 2, opcode, (r & 7) << 3 | 0b101, 0, 0, 0, 0], 4, to);
}

/// The prefix for a register in both fields, and its lower bits.
fn both(register: Gpr) -> (u8, u8) {
    let number = register.number() as u8;
    (0x48 | (number >> 3) << 2 | number >> 3, number & 7)
}

/// `mov r, [to]; …; mov [to], r`, each through `gs`.
fn through(a: &mut Assembler, register: Gpr, to: Dest, change: impl FnOnce(&mut Assembler)) {
    let number = register.number() as u8;
    let rex = 0x48 | (number >> 3) << 2;
    let modrm = (number & 7) << 3 | 0b101;
    a.with_distance(&[0x65, rex, 0x8b, modrm, 0, 0, 0, 0], 4, to);
    change(a);
    a.with_distance(&[0x65, rex, 0x89, modrm, 0, 0, 0, 0], 4, to);
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_code::addr::LinkAddr;
    use relive_code::isa::{Insn, Syntax};

    fn text(way: Way) -> Vec<String> {
        let mut a = Assembler::default();
        count(&mut a, way, Dest::Area(0));
        lines(&a.finish().bytes)
    }

    fn lines(code: &[u8]) -> Vec<String> {
        let mut texts = Vec::new();
        let mut at = 0;
        while at < code.len() {
            let insn = Insn::decode(&code[at..], LinkAddr(at as u64)).expect("valid");
            texts.push(insn.text(Syntax::Intel).to_string());
            at += insn.len() as usize;
        }
        texts
    }

    #[test]
    fn every_way_is_what_it_says() {
        assert_eq!(text(Way::Inc).len(), 1);
        assert!(text(Way::Inc)[0].starts_with("inc qword ptr gs:["), "{:?}", text(Way::Inc));
        for register in Gpr::all().filter(|&r| r != Gpr::RSP) {
            let lines = text(Way::Through(register));
            let name = register.to_string();
            assert_eq!(lines.len(), 3);
            assert!(
                lines[0].starts_with(&format!("mov {name}, gs:["))
                    || lines[0].starts_with(&format!("mov {name}, qword ptr gs:[")),
                "{lines:?}"
            );
            assert_eq!(lines[1].replace(' ', ""), format!("lea{name},[{name}+1]"), "{lines:?}");
            assert!(lines[2].ends_with(&format!(", {name}")), "{lines:?}");
        }
        assert_eq!(text(Way::Spill).len(), 7);
    }

    #[test]
    fn registers_are_cleared_and_added() {
        for register in Gpr::all().filter(|&r| r != Gpr::RSP) {
            let name = register.to_string();
            let mut a = Assembler::default();
            clear(&mut a, register);
            bump(&mut a, register);
            add(&mut a, Way::Inc, register, Dest::Area(0));
            let other = if register == Gpr::R13 { Gpr::RAX } else { Gpr::R13 };
            add(&mut a, Way::Through(other), register, Dest::Area(0));
            let lines = lines(&a.finish().bytes);
            assert!(lines[0].starts_with("mov") && lines[0].ends_with(", 0"), "{lines:?}");
            assert!(
                lines[2].starts_with("add gs:[") && lines[2].ends_with(&format!(", {name}")),
                "{lines:?}"
            );
            assert_eq!(lines[4].replace("+0]", "]"), format!("lea {other}, [{other}+{name}]"), "{lines:?}");
        }
    }

    #[test]
    fn flags_and_registers_decide() {
        assert_eq!(Way::best(RegSet::flag(Flag::Cf)), Way::Inc);
        assert_eq!(Way::best_to_add(RegSet::flag(Flag::Cf)), Way::Through(Gpr::RAX));
        assert_eq!(Way::best(RegSet::flag(Flag::Zf)), Way::Through(Gpr::RAX));
        assert_eq!(Way::best(RegSet::ALL), Way::Spill);
    }
}
