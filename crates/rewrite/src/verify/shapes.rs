//! The forms that code of ours may have between copied instructions, recognised in bytes.

use relive_code::addr::LinkAddr;
use relive_code::isa::{Flag, Gpr, RegSet};

/// A counter being incremented, or a register added to it.
pub(super) struct Probe {
    /// Its length.
    pub(super) len: u64,
    /// What it increments.
    pub(super) counter: LinkAddr,
    /// The register that is added; one is added if there is none.
    pub(super) adds: Option<Gpr>,
    /// Registers and flags that are not as before behind it.
    pub(super) spoils: RegSet,
    /// Where its instructions begin, and how much deeper the stack is there.
    pub(super) steps: &'static [(u64, i64)],
}

const INC: [u8; 4] = [0x65, 0x48, 0xff, 0x05]; // inc qword gs:[rip + …]
const DIG: [u8; 6] = [0x48, 0x8d, 0x64, 0x24, 0x80, 0x50]; // lea rsp, [rsp - 128]; push rax
const FILL_IN: [u8; 9] = [0x58, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]; // pop rax; lea rsp, [rsp + 128]

/// What four bytes of distance lead to, if the instruction ends behind them.
fn led_to(bytes: &[u8], field: usize, at: LinkAddr) -> Option<LinkAddr> {
    let distance = i32::from_le_bytes(*bytes.get(field..)?.first_chunk()?);
    Some(LinkAddr(at.0.wrapping_add(field as u64 + 4).wrapping_add(i64::from(distance) as u64)))
}

/// The counter that is incremented at `at`, if one is.
pub(super) fn probe(bytes: &[u8], at: LinkAddr) -> Option<Probe> {
    if bytes.starts_with(&INC) {
        let flags = [Flag::Pf, Flag::Af, Flag::Zf, Flag::Sf, Flag::Of];
        let spoils = flags.into_iter().fold(RegSet::EMPTY, |set, flag| set | RegSet::flag(flag));
        let counter = led_to(bytes, 4, at)?;
        return Some(Probe { len: 8, counter, adds: None, spoils, steps: &[(0, 0)] });
    }
    if bytes.starts_with(&DIG) {
        let (register, counter, len, adds) = through(&bytes[DIG.len()..], at.offset(DIG.len() as u64))?;
        let behind = DIG.len() + len as usize;
        if register != Gpr::RAX || adds.is_some() || !bytes.get(behind..)?.starts_with(&FILL_IN) {
            return None;
        }
        const STEPS: &[(u64, i64)] =
            &[(0, 0), (5, 128), (6, 136), (14, 136), (18, 136), (26, 136), (27, 128)];
        let len = (behind + FILL_IN.len()) as u64;
        return Some(Probe { len, counter, adds: None, spoils: RegSet::EMPTY, steps: STEPS });
    }
    if let &[0x65, rex @ (0x48 | 0x4c), 0x01, modrm, ..] = bytes
        && modrm & 0xc7 == 0b101
    {
        // add gs:[rip + …], r
        let (adds, counter) = (register(rex >> 2 & 1, modrm >> 3 & 7), led_to(bytes, 4, at)?);
        return Some(Probe { len: 8, counter, adds, spoils: RegSet::ARITHMETIC_FLAGS, steps: &[(0, 0)] });
    }
    let (register, counter, len, adds) = through(bytes, at)?;
    if register == Gpr::RSP {
        return None;
    }
    const STEPS: &[(u64, i64)] = &[(0, 0), (8, 0), (12, 0)];
    Some(Probe { len, counter, adds, spoils: RegSet::gpr(register), steps: STEPS })
}

fn register(high: u8, low: u8) -> Option<Gpr> {
    Gpr::all().nth(usize::from(high << 3 | low))
}

/// `mov r, gs:[counter]; lea r, [r + 1]; mov gs:[counter], r`, or with another register instead of the one: the
/// register, the counter, the length, and the other register.
fn through(bytes: &[u8], at: LinkAddr) -> Option<(Gpr, LinkAddr, u64, Option<Gpr>)> {
    let &[0x65, rex @ (0x48 | 0x4c), 0x8b, modrm, ..] = bytes else { return None };
    if modrm & 0xc7 != 0b101 {
        return None;
    }
    let through = register(rex >> 2 & 1, modrm >> 3 & 7)?;
    let counter = led_to(bytes, 4, at)?;
    let rest = bytes.get(8..)?;
    let (len, adds) = match bump(rest) {
        Some((len, bumped)) if bumped == through => (len, None),
        _ => {
            // lea r, [r + other + 0]
            let &[lea_rex, 0x8d, lea_modrm, sib, 0, ..] = rest else { return None };
            let same = register(lea_rex >> 2 & 1, lea_modrm >> 3 & 7) == Some(through)
                && register(lea_rex & 1, sib & 7) == Some(through);
            let other = register(lea_rex >> 1 & 1, sib >> 3 & 7).filter(|&r| r != Gpr::RSP);
            if !same || lea_rex & 0xf8 != 0x48 || lea_modrm & 0xc7 != 0x44 || sib >> 6 != 0 {
                return None;
            }
            (5, Some(other?))
        }
    };
    let store_at = 8 + len as usize;
    let store = bytes.get(store_at..)?;
    if !store.starts_with(&[0x65, rex, 0x89, modrm])
        || led_to(store, 4, at.offset(store_at as u64)) != Some(counter)
    {
        return None;
    }
    Some((through, counter, store_at as u64 + 8, adds))
}

/// `lea r, [r + 1]`: its length, and the register.
pub(super) fn bump(bytes: &[u8]) -> Option<(u64, Gpr)> {
    let &[rex @ (0x48 | 0x4d), 0x8d, modrm, ..] = bytes else { return None };
    let low = modrm & 7;
    if modrm != 0x40 | low << 3 | low {
        return None;
    }
    let rest: &[u8] = if low == 4 { &[0x24, 1] } else { &[1] };
    let register = register(rex & 1, low)?;
    bytes[3..].starts_with(rest).then_some((3 + rest.len() as u64, register))
}

/// `mov r, 0` in its short form: its length, and the register.
pub(super) fn clear(bytes: &[u8]) -> Option<(u64, Gpr)> {
    let (high, rest) = match bytes {
        [0x41, rest @ ..] => (1, rest),
        rest => (0, rest),
    };
    match rest {
        &[opcode @ 0xb8..=0xbf, 0, 0, 0, 0, ..] => {
            Some((5 + u64::from(high), register(high, opcode & 7)?)).filter(|(_, r)| *r != Gpr::RSP)
        }
        _ => None,
    }
}

/// A gate up to where it goes on: where it compares, and where its two ways begin.
pub(super) struct Gate {
    /// What it compares with the thread pointer.
    pub(super) owner: LinkAddr,
    /// Where the way without an area of its own begins.
    pub(super) slow: LinkAddr,
    /// Where the other one does.
    pub(super) fast: LinkAddr,
}

/// The gate at `at`.
pub(super) fn gate(bytes: &[u8], at: LinkAddr) -> Option<Gate> {
    const SAVE: [u8; 14] = [0x4c, 0x89, 0x5c, 0x24, 0xf8, 0x64, 0x4c, 0x8b, 0x1c, 0x25, 0, 0, 0, 0];
    const RESTORE: [u8; 5] = [0x4c, 0x8b, 0x5c, 0x24, 0xf8];
    if !bytes.starts_with(&SAVE) {
        return None;
    }
    let (compares, owner) = compare(&bytes[14..], at.offset(14))?;
    let back = 14 + compares as usize;
    if !bytes.get(back..)?.starts_with(&RESTORE) {
        return None;
    }
    let (len, slow) = if_not_equal(&bytes[back + 5..], at.offset(back as u64 + 5))?;
    Some(Gate { owner, slow, fast: at.offset(back as u64 + 5 + len) })
}

/// A look behind a system call at whether this is another thread or process.
pub(super) struct Look {
    /// Its length.
    pub(super) len: u64,
    /// What it compares with the thread pointer.
    pub(super) owner: LinkAddr,
    /// Whom it calls if that differs.
    pub(super) calls: LinkAddr,
    /// Where its instructions begin, and how much deeper the stack is there.
    pub(super) steps: &'static [(u64, i64)],
}

/// The look at `at`.
pub(super) fn look(bytes: &[u8], at: LinkAddr) -> Option<Look> {
    let piece = |from: usize, code: &[u8]| bytes.get(from..).is_some_and(|rest| rest.starts_with(code));
    let matches = piece(0, &[0x64, 0x4c, 0x8b, 0x1c, 0x25, 0, 0, 0, 0, 0x65, 0x48, 0x8b, 0x0d])
        && piece(
            17,
            &[0x48, 0xf7, 0xd1, 0x4a, 0x8d, 0x4c, 0x19, 1, 0xe3, 18, 0x48, 0x8d, 0x64, 0x24, 0x80, 0xe8],
        )
        && piece(37, &[0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]);
    const STEPS: &[(u64, i64)] = &[(0, 0), (9, 0), (17, 0), (20, 0), (25, 0), (27, 0), (32, 128), (37, 128)];
    matches.then_some(())?;
    Some(Look { len: 45, owner: led_to(bytes, 13, at)?, calls: led_to(bytes, 33, at)?, steps: STEPS })
}

/// `cmp r11, gs:[…]`: its length, and what it compares with.
pub(super) fn compare(bytes: &[u8], at: LinkAddr) -> Option<(u64, LinkAddr)> {
    let is = bytes.starts_with(&[0x65, 0x4c, 0x3b, 0x1d]);
    is.then(|| led_to(bytes, 4, at)).flatten().map(|to| (8, to))
}

/// `inc gs:[…]`: its length, and what it increments.
pub(super) fn increment(bytes: &[u8], at: LinkAddr) -> Option<(u64, LinkAddr)> {
    bytes.starts_with(&INC).then(|| led_to(bytes, 4, at)).flatten().map(|to| (8, to))
}

/// `add r11, gs:[…]`: its length, and what it adds.
pub(super) fn addition(bytes: &[u8], at: LinkAddr) -> Option<(u64, LinkAddr)> {
    let is = bytes.starts_with(&[0x65, 0x4c, 0x03, 0x1d]);
    is.then(|| led_to(bytes, 4, at)).flatten().map(|to| (8, to))
}

/// `jne`: its length, and where it leads.
pub(super) fn if_not_equal(bytes: &[u8], at: LinkAddr) -> Option<(u64, LinkAddr)> {
    match bytes {
        [0x75, distance, ..] => {
            let distance = i64::from(distance.cast_signed()) as u64;
            Some((2, LinkAddr(at.0.wrapping_add(2).wrapping_add(distance))))
        }
        [0x0f, 0x85, ..] => led_to(bytes, 2, at).map(|to| (6, to)),
        _ => None,
    }
}

/// `push` of a number of four bytes: its length, and the number.
pub(super) fn push(bytes: &[u8]) -> Option<(u64, u32)> {
    match bytes {
        [0x68, rest @ ..] => rest.first_chunk().map(|&number| (5, u32::from_le_bytes(number))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assembler::{Assembler, Dest};
    use crate::counting::{Way, count};

    fn code(way: Way) -> Vec<u8> {
        let mut a = Assembler::default();
        count(&mut a, way, Dest::Area(0));
        let mut code = a.finish();
        for fix in code.fixes.clone() {
            let distance = 0x1000u32.wrapping_sub(fix.from);
            code.bytes[fix.at as usize..][..4].copy_from_slice(&distance.to_le_bytes());
        }
        code.bytes
    }

    #[test]
    fn every_way_of_counting_is_known() {
        let registers = Gpr::all().filter(|&r| r != Gpr::RSP).map(Way::Through);
        for way in registers.chain([Way::Inc, Way::Spill]) {
            let bytes = code(way);
            let probe = probe(&bytes, LinkAddr(0)).unwrap_or_else(|| panic!("{way:?}: {bytes:x?}"));
            assert_eq!(probe.len, bytes.len() as u64, "{way:?}");
            assert_eq!(probe.counter, LinkAddr(0x1000), "{way:?}");
            match way {
                Way::Inc => assert!(!probe.spoils.intersects(RegSet::flag(Flag::Cf))),
                Way::Through(register) => assert_eq!(probe.spoils, RegSet::gpr(register)),
                Way::Spill => assert!(probe.spoils.is_empty()),
            }
        }
    }

    #[test]
    fn nothing_else_is() {
        for way in [Way::Inc, Way::Spill, Way::Through(Gpr::RCX), Way::Through(Gpr::R12)] {
            let bytes = code(way);
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut changed = bytes.clone();
                    changed[at] ^= 1 << bit;
                    let still = probe(&changed, LinkAddr(0)).is_some_and(|p| p.counter == LinkAddr(0x1000));
                    assert!(!still, "{way:?} with byte {at} changed");
                }
            }
        }
    }
}
