//! What a value may depend on, as bits of a word: what a function finds in registers when it is entered, and the few
//! things that are the same for all functions.

use relive_code::isa::{Gpr, RegSet};

/// A set of things that a value, a count or a place in memory may depend on.
pub(super) type Mask = u64;

/// How many things a function finds when it is entered: general registers, the carry flag, the other arithmetic flags, the
/// direction flag, the x87 stack, the mask registers, 32 vector registers, and arguments on the stack.
pub(super) const UNITS: usize = 54;

const CARRY: usize = 16;
const FLAGS: usize = 17;
const X87: usize = 18;
const MASKS: usize = 19;
const DIRECTION: usize = 20;
const VECTORS: usize = 21;

/// Arguments on the stack.
pub(super) const STACK: usize = 53;

/// The last error of the library (`errno`).
pub(super) const ERRNO: Mask = 1 << 58;
/// Whether control comes out of nowhere: `longjmp`, exceptions that nobody is known to throw.
pub(super) const JUMPS: Mask = 1 << 59;
/// Files and what else is outside the process.
pub(super) const WORLD: Mask = 1 << 60;
/// Memory that pointers of unknown origin may lead to.
pub(super) const UNKNOWN: Mask = 1 << 61;
/// How often the function is entered. Values do not depend on it, but what is left in memory does.
pub(super) const ENTERED: Mask = 1 << 62;
/// It is affected whatever else is.
pub(super) const ALWAYS: Mask = 1 << 63;

/// Everything that a function finds in registers and on the stack.
pub(super) const INPUTS: Mask = (1 << UNITS) - 1;
/// What is the same for all functions.
pub(super) const SHARED: Mask = ERRNO | JUMPS | WORLD | UNKNOWN | ALWAYS;

/// The bit of a unit.
pub(super) const fn bit(unit: usize) -> Mask {
    1 << unit
}

/// The units in a mask.
pub(super) fn units(mask: Mask) -> impl Iterator<Item = usize> {
    let mut rest = mask & INPUTS;
    std::iter::from_fn(move || {
        let unit = rest.trailing_zeros() as usize;
        (rest != 0).then(|| {
            rest &= rest - 1;
            unit
        })
    })
}

/// The bit of a general register.
pub(super) fn of_gpr(register: Gpr) -> Mask {
    bit(register.number())
}

/// The units of which some part is in a set of registers.
pub(super) fn touching(set: RegSet) -> Mask {
    let bits = set.bits();
    let mut mask = bits & 0xffff;
    let mut add = |held: bool, unit: usize| mask |= Mask::from(held) << unit;
    add(bits >> 16 & 1 != 0, CARRY);
    add(bits >> 17 & 0x1f != 0, FLAGS);
    add(bits >> 22 & 1 != 0, DIRECTION);
    add(bits >> 23 & 1 != 0, X87);
    add(bits >> 24 & 0xff != 0, MASKS);
    mask | (bits >> 32) << VECTORS
}

/// The units that are in a set of registers as a whole.
pub(super) fn within(set: RegSet) -> Mask {
    let bits = set.bits();
    let parts = (bits >> 17 & 0x1f, bits >> 24 & 0xff);
    let mut whole = touching(set);
    if parts.0 != 0x1f {
        whole &= !bit(FLAGS);
    }
    if parts.1 != 0xff {
        whole &= !bit(MASKS);
    }
    whole
}

/// The bits of all vector registers.
pub(super) const ALL_VECTORS: Mask = 0xffff_ffff << VECTORS;

const fn gprs<const N: usize>(numbers: [usize; N]) -> Mask {
    let mut mask = 0;
    let mut i = 0;
    while i < N {
        mask |= bit(numbers[i]);
        i += 1;
    }
    mask
}

/// Registers that a callee gives back as they were: `rbx`, `rbp`, `r12` to `r15`.
pub(super) const KEPT: Mask = gprs([3, 5, 12, 13, 14, 15]);
/// Registers that arguments are passed in, in the order of arguments.
pub(super) const ARGUMENTS: [usize; 6] = [7, 6, 2, 1, 8, 9];
/// Registers that may hold an argument of any kind: also how many vector registers do, the static chain, and vectors.
pub(super) const PASSED: Mask = gprs(ARGUMENTS) | gprs([0, 10]) | 0xff << VECTORS;
/// Registers that results are in.
pub(super) const RESULTS: Mask = gprs([0, 2]) | bit(X87) | 0b11 << VECTORS;
/// All general registers.
pub(super) const GENERAL: Mask = 0xffff;
/// The stack pointer.
pub(super) const RSP: Mask = bit(4);

#[cfg(test)]
mod tests {
    use super::*;
    use relive_code::isa::Flag;

    #[test]
    fn units_are_whole_or_touched() {
        let zero = RegSet::flag(Flag::Zf);
        assert_eq!((touching(zero), within(zero)), (bit(FLAGS), 0));
        let all = RegSet::ARITHMETIC_FLAGS;
        assert_eq!(within(all), bit(CARRY) | bit(FLAGS));
        assert_eq!(touching(RegSet::vector(3)), bit(VECTORS + 3));
        assert_eq!(within(RegSet::gpr(Gpr::RDI)), bit(ARGUMENTS[0]));
        assert_eq!(touching(RegSet::ALL), INPUTS & !bit(STACK));
        assert_eq!(units(bit(5) | bit(53) | ALWAYS).collect::<Vec<_>>(), [5, 53]);
    }
}
