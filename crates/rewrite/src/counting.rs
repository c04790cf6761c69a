//! The code of a counter, by what is free where it goes.

use crate::assembler::{Assembler, Dest, Pos};
use relive_code::isa::{Flag, Gpr, RegSet};

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
    /// The cheapest way where `live` is live.
    #[must_use]
    pub fn best(live: RegSet) -> Self {
        if !live.intersects(changed_by_inc()) {
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
            through(a, register, to);
            Vec::new()
        }
        Way::Spill => {
            let mut depths = Vec::new();
            a.raw(&[0x48, 0x8d, 0x64, 0x24, 0x80]); // lea rsp, [rsp - 128]
            depths.push((a.pos(), 128));
            a.raw(&[0x50]); // push rax
            depths.push((a.pos(), 136));
            through(a, Gpr::RAX, to);
            a.raw(&[0x58]); // pop rax
            depths.push((a.pos(), 128));
            a.raw(&[0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]); // lea rsp, [rsp + 128]
            depths.push((a.pos(), 0));
            depths
        }
    }
}

/// `mov r, [to]; lea r, [r + 1]; mov [to], r`, each through `gs`.
fn through(a: &mut Assembler, register: Gpr, to: Dest) {
    let number = register.number() as u8;
    let (high, low) = (number >> 3, number & 7);
    let rex = 0x48 | high << 2;
    let modrm = low << 3 | 0b101;
    a.with_distance(&[0x65, rex, 0x8b, modrm, 0, 0, 0, 0], 4, to);
    if low == 4 {
        // r12 as a base needs the longer form.
        a.raw(&[rex | high, 0x8d, 0x40 | low << 3 | low, 0x24, 1]);
    } else {
        a.raw(&[rex | high, 0x8d, 0x40 | low << 3 | low, 1]);
    }
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
        let code = a.finish().bytes;
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
    fn flags_and_registers_decide() {
        assert_eq!(Way::best(RegSet::flag(Flag::Cf)), Way::Inc);
        assert_eq!(Way::best(RegSet::flag(Flag::Zf)), Way::Through(Gpr::RAX));
        assert_eq!(Way::best(RegSet::ALL), Way::Spill);
    }
}
