//! Right units pass, and whatever is changed in them is found.

use super::*;
use crate::thread::offset;
use crate::translate::{Leg, Then, translate};
use relive_code::isa::{Flag, MemoryOperand, Operand};

/// Where the program lies, unless it is high up.
const LOW: u64 = 0x40_0000;
const HIGH: u64 = 0x7f12_3456_7000;

struct Program(u64, &'static [u8]);

impl Source for Program {
    fn bytes(&self, pc: u64) -> &[u8] {
        self.1.get(pc.wrapping_sub(self.0) as usize..).unwrap_or_default()
    }
}

/// How a unit is made.
#[derive(Clone, Copy)]
struct Made<'a> {
    at: u64,
    code: &'static [u8],
    entrance: Entrance,
    counter: Option<u32>,
    threshold: u32,
    legs: &'a [Leg],
}

/// Counts, and nothing special.
fn made(code: &'static [u8]) -> Made<'static> {
    Made { at: LOW, code, entrance: Entrance::Jump, counter: Some(7), threshold: 0, legs: &[] }
}

impl Made<'_> {
    /// What is found in a unit after a change to its parts.
    fn found(self, change: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>)) -> Result<(), Wrong> {
        let source = Program(self.at, self.code);
        let request = Request {
            source: &source,
            pc: self.at,
            legs: self.legs,
            threshold: self.threshold,
            hot: self.at + 0x100_0000,
            cold: self.at + 0x101_0000,
            first_exit: 3,
            counter: self.counter,
            entrance: self.entrance,
            tells_targets: self.counter.is_some(),
            calls: &|_, _| None,
            made_up: &[],
            marks: false,
            tags: None,
        };
        let mut effects = EffectsReader::new();
        let unit = translate(&request, &mut effects);
        let (mut hot, mut cold) = (unit.hot.bytes.clone(), unit.cold.bytes.clone());
        change(&mut hot, &mut cold);
        verify(&Subject::new(&request, &unit, &hot, &cold), &mut effects)
    }

    /// Right as it is, however it is entered and counted; and wrong with other bytes in its usual part.
    fn refuses(self, old: &[u8], new: &[u8]) -> Why {
        for counter in [None, Some(7)] {
            for entrance in [Entrance::Jump, Entrance::Call] {
                for threshold in [0, 5000] {
                    let threshold = if self.legs.is_empty() { threshold } else { 0 };
                    Made { counter, entrance, threshold, ..self }.found(|_, _| {}).expect("nothing is wrong");
                }
            }
        }
        let found = self.found(|hot, cold| {
            replace(if find(hot, old).is_some() { hot } else { cold }, old, new);
        });
        found.expect_err("something is wrong").what
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Replaces some bytes by others; what is missing is filled up.
fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    let at = find(bytes, old).expect("it is there");
    bytes[at..at + old.len()].fill(0x90);
    bytes[at..at + new.len()].copy_from_slice(new);
}

/// `mov rax, [rdi+8]; lea rsi, [rip+0x10]; cmp rax, 3; je +4; inc rbx; nop; ret`
const PLAIN: &[u8] = &[
    0x48, 0x8b, 0x47, 8, 0x48, 0x8d, 0x35, 0x10, 0, 0, 0, 0x48, 0x83, 0xf8, 3, 0x74, 4, 0x48, 0xff, 0xc3,
    0x90, 0xc3,
];

#[test]
fn another_register_or_place() {
    let load = &PLAIN[..4];
    assert!(matches!(made(PLAIN).refuses(load, &[0x48, 0x8b, 0x4f, 8]), Why::Is(_)));
    assert!(matches!(made(PLAIN).refuses(load, &[0x48, 0x8b, 0x47, 16]), Why::Is(_)));
    assert!(matches!(made(PLAIN).refuses(&[0x48, 0x83, 0xf8, 3], &[0x48, 0x83, 0xf8, 4]), Why::Is(_)));
    assert!(matches!(made(PLAIN).refuses(&[0x48, 0x8d, 0x35], &[0x48, 0x8d, 0x3d]), Why::Is(_)));
    // As if it had not been moved.
    let moved = made(PLAIN).found(|hot, _| {
        let at = find(hot, &[0x48, 0x8d, 0x35]).expect("it is there");
        hot[at + 3..at + 7].copy_from_slice(&[0x10, 0, 0, 0]);
    });
    assert!(moved.is_err());
}

#[test]
fn something_is_left_out() {
    assert!(matches!(made(PLAIN).refuses(&[0x48, 0xff, 0xc3], &[]), Why::Is(_)));
}

#[test]
fn an_opposite_condition() {
    made(PLAIN).refuses(&[0x0f, 0x84], &[0x0f, 0x85]);
    let uncounted = Made { counter: None, ..made(PLAIN) };
    assert!(matches!(
        uncounted.refuses(&[0x0f, 0x84], &[0x0f, 0x85]),
        Why::Is("another way is followed than the log says")
    ));
    assert!(matches!(uncounted.refuses(&[0x0f, 0x84], &[0x0f, 0x82]), Why::Is(_)));
}

#[test]
fn another_exit() {
    let number = |n: u8| {
        let mut bytes = alloc::vec![0x65, 0xc7, 0x04, 0x25];
        bytes.extend(offset::EXIT.to_le_bytes());
        bytes.extend([n, 0, 0, 0]);
        bytes
    };
    made(BRANCH).refuses(&number(3), &number(4));
    made(BRANCH).refuses(&number(4), &number(9));
}

/// `je +1; nop; jmp -3`: the flags are needed, and no register is known to be free.
const BRANCH: &[u8] = &[0x74, 1, 0x90, 0xeb, 0xfb];

fn gs(opcode: &[u8], at: u32) -> Vec<u8> {
    [&[0x65], opcode, &at.to_le_bytes()].concat()
}

#[test]
fn a_register_that_is_not_put_back() {
    let spill = gs(&[0x48, 0x89, 0x04, 0x25], offset::SCRATCH);
    let reload = gs(&[0x48, 0x8b, 0x04, 0x25], offset::SCRATCH);
    assert!(matches!(made(BRANCH).refuses(&spill, &[]), Why::Changed(_)));
    assert!(matches!(made(BRANCH).refuses(&reload, &[]), Why::Changed(_)));
    let into_rcx = gs(&[0x48, 0x8b, 0x0c, 0x25], offset::SCRATCH);
    assert!(matches!(made(BRANCH).refuses(&reload, &into_rcx), Why::Changed(_)));
    let often = Made { threshold: 5000, ..made(BRANCH) };
    assert!(matches!(often.refuses(&into_rcx, &[]), Why::Changed(_)));
}

#[test]
fn flags_that_are_needed() {
    let count = |opcode: &[u8]| gs(opcode, offset::counter(7));
    let (load, store) = (count(&[0x48, 0x8b, 0x04, 0x25]), count(&[0x48, 0x89, 0x04, 0x25]));
    let old = [&load[..], &[0x48, 0x8d, 0x40, 1], &store].concat();
    let increment = count(&[0x48, 0xff, 0x04, 0x25]);
    let Why::Changed(flags) = made(BRANCH).refuses(&old, &increment) else { panic!("another reason") };
    assert!(flags.contains(RegSet::flag(Flag::Zf)));
    // The same where they are not needed.
    made(PLAIN).found(|_, _| {}).expect("right");
    let compare = [&increment[..], &gs(&[0x81, 0x3c, 0x25], offset::counter(7)), &[0; 4]].concat();
    assert!(matches!(made(BRANCH).refuses(&old, &compare), Why::Changed(_)));
}

#[test]
fn another_counter() {
    let increment = |counter: u32| gs(&[0x48, 0xff, 0x04, 0x25], offset::counter(counter));
    assert!(matches!(made(PLAIN).refuses(&increment(7), &increment(9)), Why::Counted(..)));
    assert!(matches!(made(PLAIN).refuses(&increment(7), &[]), Why::Counted(..)));
    let (load, other) = (gs(&[0x48, 0x8b, 0x04, 0x25], offset::counter(7)), offset::counter(8));
    let wrong = made(BRANCH).refuses(&load, &gs(&[0x48, 0x8b, 0x04, 0x25], other));
    assert!(matches!(wrong, Why::Is("a counter becomes something else")));
}

/// `call +1; nop; nop`
const CALL: &[u8] = &[0xe8, 1, 0, 0, 0, 0x90, 0x90];

#[test]
fn another_return_address() {
    let push = |back: u32| [&[0x68], &back.to_le_bytes()[..]].concat();
    let back = LOW as u32 + 5;
    assert!(matches!(made(CALL).refuses(&push(back), &push(back + 1)), Why::Is("another return address")));
    let high = Made { at: HIGH, ..made(CALL) };
    let (back, other) = (HIGH + 5, HIGH + 6);
    assert!(matches!(
        high.refuses(&back.to_le_bytes(), &other.to_le_bytes()),
        Why::Is("another return address")
    ));
    // What comes back is compared with the upper bits.
    let compare = |pc: u64| [&[0x8d, 0x89], &((pc >> 16) as u32).wrapping_neg().to_le_bytes()[..]].concat();
    high.refuses(&compare(HIGH), &compare(HIGH + (1 << 16)));
    // Not all of the stack is as it was.
    high.refuses(&[0x48, 0x8d, 0x64, 0x24, 8], &[0x48, 0x8d, 0x64, 0x24, 16]);
    high.refuses(&[0x48, 0x8d, 0x64, 0x24, 8], &[]);
}

#[test]
fn a_call_of_the_next_instruction() {
    made(&[0xe8, 0, 0, 0, 0, 0x58, 0x90]).refuses(&[0x68, 5], &[0x68, 6]);
}

#[test]
fn another_target() {
    // call [rax+rbx*8+0x10]
    let call = made(&[0xff, 0x54, 0xd8, 0x10, 0x90]);
    call.refuses(&[0x48, 0x8b, 0x4c, 0xd8, 0x10], &[0x48, 0x8b, 0x4c, 0xd8, 0x18]);
    call.refuses(&[0x48, 0x8b, 0x4c, 0xd8, 0x10], &[0x48, 0x8b, 0x54, 0xd8, 0x10]);
    let spill = gs(&[0x48, 0x89, 0x0c, 0x25], offset::RCX);
    assert!(matches!(call.refuses(&spill, &[]), Why::Is("rcx is lost")));
    // jmp [rip+8]
    made(&[0xff, 0x25, 8, 0, 0, 0, 0x90]).refuses(&[0x48, 0x8b, 0x0d], &[0x48, 0x8b, 0x05]);
}

#[test]
fn another_return() {
    // ret 8
    let code = made(&[0xc2, 8, 0]);
    code.refuses(&[0x48, 0x8d, 0xa4, 0x24, 8], &[0x48, 0x8d, 0xa4, 0x24, 16]);
    code.refuses(&gs(&[0x48, 0x89, 0x0c, 0x25], offset::TARGET), &[]);
    if crate::processor::can_extract() {
        let extract = |which: u32| gs(&[0xc4, 0xe2, 0xf2, 0xf5, 0x0c, 0x25], which);
        code.refuses(&extract(offset::RETURNS_MASK), &extract(offset::RETURNS_MASK + 8));
        code.refuses(&extract(offset::RETURNS_MASK), &[]);
    } else {
        code.refuses(&[0x0f, 0xb7, 0xc9], &[]);
    }
}

#[test]
fn a_call_of_the_kernel() {
    // syscall; nop
    let code = made(&[0x0f, 0x05, 0x90]);
    code.refuses(&[0x0f, 0xb7, 0xc8], &[0x0f, 0xb7, 0xca]);
    code.refuses(&gs(&[0x48, 0x89, 0x04, 0x25], offset::SCRATCH), &[]);
    let unasked = code.found(|hot, _| {
        let at = find(hot, &[0xe3, 5, 0xe9]).expect("it asks");
        hot[at..at + 7].fill(0x90);
    });
    assert!(matches!(unasked, Err(Wrong { what: Why::Is(what), .. }) if what.starts_with("nobody asked")));
    let back = |hot: &mut Vec<u8>| hot.iter().rposition(|&b| b == 0x0d).expect("lea rcx, [rip + …]");
    assert!(
        code.found(|hot, _| {
            let at = back(hot);
            hot[at + 1] ^= 1;
        })
        .is_err()
    );
}

/// `jmp [rbx]; nop; jne -1; ret`, along the jump to the `nop` and over the branch.
const WAY: &[u8] = &[0xff, 0x23, 0x90, 0x75, 0xfd, 0x90, 0xc3];

#[test]
fn a_way_that_is_usually_taken() {
    for at in [LOW, HIGH] {
        let legs = [
            Leg { start: at, end: at + 2, then: Then::Guess(at + 2) },
            Leg { start: at + 2, end: at + 5, then: Then::Taken },
            Leg { start: at + 2, end: at + 5, then: Then::On },
        ];
        let way = Made { at, legs: &legs, ..made(WAY) };
        let low =
            |number: u64| [&[0x48, 0x8d, 0x89], &(number as u32).wrapping_neg().to_le_bytes()[..]].concat();
        way.refuses(&low(at + 2), &low(at + 3));
        // Back to the target, where it leads elsewhere.
        let back = |number: u64| [&[0x48, 0x8d, 0x89], &(number as u32).to_le_bytes()[..]].concat();
        way.refuses(&back(at + 2), &back(at + 3));
        // Taken is what goes on.
        way.refuses(&[0x0f, 0x84], &[0x0f, 0x85]);
    }
}

/// Whatever bit is changed, it is found, or the instruction is the same written in another way.
#[test]
fn every_bit() {
    const COMPUTED: &[u8] = &[0xff, 0x54, 0xd8, 0x10, 0x90];
    // When the engine is told that a unit is often entered, if it is one with flags to spare.
    for (code, threshold) in [
        (PLAIN, 0),
        (PLAIN, 5000),
        (BRANCH, 0),
        (CALL, 0),
        (COMPUTED, 0),
        (&[0xc2, 8, 0], 0),
        (&[0x0f, 0x05, 0x90], 0),
    ] {
        for (at, entrance) in [(LOW, Entrance::Call), (HIGH, Entrance::Jump)] {
            let unit = Made { at, threshold, entrance, ..made(code) };
            let (mut bit, mut len) = (0, usize::MAX);
            while bit < len {
                let (mut before, mut after) = (Vec::new(), Vec::new());
                let found = unit.found(|hot, _| {
                    before.clone_from(hot);
                    hot[bit / 8] ^= 1 << (bit % 8);
                    after.clone_from(hot);
                });
                len = before.len() * 8;
                let is_right = found.is_err() || is_same(at, &before, &after, bit / 8);
                assert!(is_right, "bit {} of {:02x?} in the unit of {code:02x?}", bit % 8, &after[bit / 8..]);
                bit += 1;
            }
            assert!(len > 300, "{len}");
        }
    }
}

/// Whether the instruction at a place is the same in another piece of code.
fn is_same(at: u64, before: &[u8], after: &[u8], place: usize) -> bool {
    let mut start = 0;
    while let Some(insn) = Insn::decode(&before[start..], LinkAddr(at + start as u64)) {
        let end = start + insn.len() as usize;
        if place < end {
            let other = Insn::decode(&after[start..], insn.addr());
            return other.is_some_and(|other| means(&other) == means(&insn));
        }
        start = end;
    }
    false
}

/// All that tells one instruction from another. The scale of no register is nothing, and one nop is like the other.
fn means(insn: &Insn) -> impl PartialEq {
    let operands: Vec<_> = insn
        .operands()
        .map(|operand| match operand {
            Operand::Memory(memory @ MemoryOperand { index: None, .. }) => {
                Operand::Memory(MemoryOperand { scale: 1, ..memory })
            }
            other => other,
        })
        .collect();
    let what = (insn.opcode(), operands, insn.uses_gs(), insn.stack_change());
    (insn.len(), (!insn.is_padding()).then_some(what))
}
