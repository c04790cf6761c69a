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

/// `lea r, [other + …]`: its length, the register, the other one, and how far from it.
pub(super) fn departure(bytes: &[u8]) -> Option<(u64, Gpr, Gpr, i64)> {
    let &[rex, 0x8d, modrm, ..] = bytes else { return None };
    let (high, low) = (rex & 0xfa == 0x48, modrm & 7);
    if !high || !matches!(modrm >> 6, 1 | 2) {
        return None;
    }
    let at = match (low, bytes.get(3)?) {
        (4, 0x24) => 4,
        (4, _) => return None,
        _ => 3,
    };
    let (len, ahead) = match modrm >> 6 {
        1 => (at + 1, i64::from(bytes.get(at)?.cast_signed())),
        _ => (at + 4, i64::from(i32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))),
    };
    let (to, from) = (register(rex >> 2 & 1, modrm >> 3 & 7)?, register(rex & 1, low)?);
    (to != from && to != Gpr::RSP && from != Gpr::RSP).then_some((len as u64, to, from, ahead))
}

/// How far a register has moved on, being added to a counter.
pub(super) struct Travelled {
    /// The length of the code.
    pub(super) len: u64,
    /// Where its instructions begin.
    pub(super) starts: Vec<u64>,
    /// What keeps where it began.
    pub(super) register: Gpr,
    /// What moved on.
    pub(super) from: Gpr,
    /// Whether all of it counts, or the lower half.
    pub(super) wide: bool,
    /// What the distance is divided by.
    pub(super) divisor: i64,
    /// What is added to the quotient.
    pub(super) more: i64,
    /// The counter.
    pub(super) counter: LinkAddr,
}

/// `sub r, other; neg r; sar r, n; inc r; add gs:[counter], r`, or so: see `counting::arrive`.
pub(super) fn arrival(bytes: &[u8], at: LinkAddr) -> Option<Travelled> {
    let &[rex, 0x2b, modrm, ..] = bytes else { return None };
    if rex & 0xf2 != 0x40 || modrm >> 6 != 3 {
        return None;
    }
    let (wide, high, low) = (rex >> 3 & 1 == 1, rex >> 2 & 1, modrm >> 3 & 7);
    let (kept, from) = (register(high, low)?, register(rex & 1, modrm & 7)?);
    let mut starts = vec![0];
    let mut len = 3;
    let rex = 0x40 | u8::from(wide) << 3 | high;
    // What is in the register, times the rounds: its sign, and the power of two.
    let (mut sign, mut shift, mut more) = (-1, 0, 0);
    if bytes.get(len..)?.starts_with(&[rex, 0xf7, 0xd8 | low]) {
        (sign, starts, len) = (1, [starts, vec![len as u64]].concat(), len + 3);
    }
    let shifts = [rex, 0xc1, if wide { 0xf8 } else { 0xe8 } | low];
    if bytes.get(len..)?.starts_with(&shifts) {
        shift = *bytes.get(len + 3)?;
        (starts, len) = ([starts, vec![len as u64]].concat(), len + 4);
    }
    for (opcode, by) in [(0xc0, 1), (0xc8, -1)] {
        if bytes.get(len..)?.starts_with(&[0x48 | high, 0xff, opcode | low]) {
            (more, starts, len) = (by, [starts, vec![len as u64]].concat(), len + 3);
            break;
        }
    }
    let &[0x65, last_rex, opcode, last_modrm, ..] = bytes.get(len..)? else { return None };
    if last_rex != 0x48 | high << 2 || last_modrm != low << 3 | 0b101 || shift > 62 {
        return None;
    }
    match opcode {
        0x01 => {}
        // Half a register does not go below zero.
        0x29 if wide => (sign, more) = (-sign, -more),
        _ => return None,
    }
    starts.push(len as u64);
    Some(Travelled {
        counter: led_to(bytes, len + 4, at)?,
        len: len as u64 + 8,
        starts,
        register: kept,
        from,
        wide,
        divisor: sign << shift,
        more,
    })
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
    use crate::counting::{Way, arrive, count, depart};
    use relive_code::isa::Stride;

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
    fn every_journey_is_known() {
        let registers: Vec<Gpr> = Gpr::all().filter(|&r| r != Gpr::RSP).collect();
        for &kept in &registers {
            for &register in registers.iter().filter(|&&r| r != kept) {
                for ahead in [0, 8, -64, 128, -1000] {
                    let mut a = Assembler::default();
                    depart(&mut a, kept, register, ahead);
                    let bytes = a.finish().bytes;
                    let known = departure(&bytes);
                    assert_eq!(known, Some((bytes.len() as u64, kept, register, ahead)), "{bytes:x?}");
                }
                for (by, wide, more) in [(1, true, 0), (-8, true, 1), (64, false, -1), (-1, false, 0)] {
                    let mut a = Assembler::default();
                    arrive(&mut a, kept, Stride { register, by, wide }, more, Dest::Area(0));
                    let bytes = a.finish().bytes;
                    let known = arrival(&bytes, LinkAddr(0)).unwrap_or_else(|| panic!("{bytes:x?}"));
                    assert_eq!((known.len, known.divisor, known.more), (bytes.len() as u64, by, more));
                    assert_eq!((known.register, known.from, known.wide), (kept, register, wide));
                }
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
