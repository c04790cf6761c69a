//! Where a call goes whose target is known.
//!
//! Others call a moved function at its old address, where a jump leads to its gate. Who comes from new code may enter behind
//! the gate.

use core::ops::Range;

use relive_abi::gate;

use super::facts::Facts;

/// `endbr64`.
const MARK: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Where new code is to go to get to `target`. Always the same for the same target.
pub(crate) fn way_to(facts: &Facts, target: u64) -> u64 {
    let (text, code) = (facts.text(), facts.code());
    let byte = |at: u64| {
        // SAFETY: code of this module, all of which can be read.
        (text.contains(&at) || code.contains(&at)).then(|| unsafe { *(at as *const u8) })
    };
    behind_gate(target, &text, &code, facts.area(), byte).unwrap_or(target)
}

/// The address behind the gate that calls of `target` come to.
fn behind_gate(
    target: u64,
    text: &Range<u64>,
    code: &Range<u64>,
    owner: u64,
    byte: impl Fn(u64) -> Option<u8>,
) -> Option<u64> {
    if !text.contains(&target) {
        return None;
    }
    let is = |at: u64, bytes: &[u8]| (at..).zip(bytes).all(|(at, &expected)| byte(at) == Some(expected));
    let distance = |at: u64| {
        let mut bytes = [0; 4];
        for (at, byte_of) in (at..).zip(&mut bytes) {
            *byte_of = byte(at)?;
        }
        Some((at + 4).wrapping_add(i64::from(i32::from_le_bytes(bytes)) as u64))
    };
    let mut at = if is(target, &MARK) { target + 4 } else { target };
    if byte(at) == Some(0xeb) {
        at = (at + 2).wrapping_add(i64::from(byte(at + 1)?.cast_signed()) as u64);
    }
    if byte(at) != Some(0xe9) {
        return None;
    }
    let at = distance(at + 1)?;
    // Old labels have such jumps as well, but no gates.
    let restore = at + gate::OWNER + 4;
    let is_gate = code.contains(&at)
        && is(at, &gate::SAVE)
        && is(at + gate::SAVE.len() as u64, &gate::COMPARE)
        && distance(at + gate::OWNER) == Some(owner)
        && is(restore, &gate::RESTORE)
        && is(restore + gate::RESTORE.len() as u64, &[gate::UNLESS_EQUAL]);
    is_gate.then_some(at + gate::LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: Range<u64> = 0x1000..0x1100;
    const CODE: Range<u64> = 0x1100..0x1200;
    const OWNER: u64 = 0x9000;
    const GATE: u64 = 0x1140;

    fn distance(from: u64, to: u64) -> [u8; 4] {
        (to.wrapping_sub(from) as u32).to_le_bytes()
    }

    /// A module with a gate, and `old` at the start of its old code.
    fn module(old: &[u8]) -> Vec<u8> {
        let mut memory = vec![0xcc; 0x200];
        memory[..old.len()].copy_from_slice(old);
        let mut gate = [&gate::SAVE[..], &gate::COMPARE].concat();
        gate.extend(distance(GATE + gate.len() as u64 + 4, OWNER));
        gate.extend(gate::RESTORE);
        gate.extend([gate::UNLESS_EQUAL, 0x10]);
        assert_eq!(gate.len() as u64, gate::LEN);
        memory[0x140..][..gate.len()].copy_from_slice(&gate);
        memory
    }

    fn found(memory: &[u8], target: u64) -> Option<u64> {
        behind_gate(target, &TEXT, &CODE, OWNER, |at| memory.get(at.checked_sub(0x1000)? as usize).copied())
    }

    fn jump(from: u64, to: u64) -> Vec<u8> {
        let mut bytes = vec![0xe9];
        bytes.extend(distance(from + 5, to));
        bytes
    }

    #[test]
    fn behind_the_gate() {
        let straight = jump(0x1000, GATE);
        let marked = [&MARK[..], &jump(0x1004, GATE)].concat();
        let cramped = [&[0xeb, 3, 0, 0, 0][..], &jump(0x1005, GATE)].concat();
        for old in [straight, marked, cramped] {
            assert_eq!(found(&module(&old), 0x1000), Some(GATE + gate::LEN), "{old:x?}");
        }
    }

    #[test]
    fn nothing_else_is_taken_for_a_gate() {
        // A label, a function that was left alone, a jump inside the old code, a jump out of the module.
        for old in [jump(0x1000, GATE + 1), vec![0x55], jump(0x1000, 0x1080), jump(0x1000, 0x8000)] {
            assert_eq!(found(&module(&old), 0x1000), None, "{old:x?}");
        }
        let memory = module(&jump(0x1000, GATE));
        for at in (0x140..0x140 + gate::LEN as usize - 1).chain(0..5) {
            let mut changed = memory.clone();
            changed[at] ^= 1;
            assert_eq!(found(&changed, 0x1000), None, "with byte {at:#x} changed");
        }
        // New code and code of others are entered as they are.
        assert_eq!(found(&memory, GATE), None);
        assert_eq!(found(&memory, 0x8000), None);
        assert_eq!(found(&memory[..0x150], 0x1000), None);
    }
}
