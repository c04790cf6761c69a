//! Registers and flags as small sets.

use core::fmt;
use core::ops::{BitAnd, BitOr, BitOrAssign, Not, Sub};
use iced_x86::{Register, RflagsBits};

/// A general-purpose register, by its hardware number (`rax` 0, `rcx` 1, … `r15` 15).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gpr(u8);

const GPR_NAMES: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15",
];

impl Gpr {
    /// The accumulator.
    pub const RAX: Self = Self(0);
    /// The counter.
    pub const RCX: Self = Self(1);
    /// The data register.
    pub const RDX: Self = Self(2);
    /// The base register.
    pub const RBX: Self = Self(3);
    /// The stack pointer.
    pub const RSP: Self = Self(4);
    /// The frame pointer, where a function has one.
    pub const RBP: Self = Self(5);
    /// The source of string instructions.
    pub const RSI: Self = Self(6);
    /// The destination of string instructions.
    pub const RDI: Self = Self(7);
    /// `r8`.
    pub const R8: Self = Self(8);
    /// `r9`.
    pub const R9: Self = Self(9);
    /// `r10`.
    pub const R10: Self = Self(10);
    /// `r11`.
    pub const R11: Self = Self(11);
    /// `r12`.
    pub const R12: Self = Self(12);
    /// `r13`.
    pub const R13: Self = Self(13);
    /// `r14`.
    pub const R14: Self = Self(14);
    /// `r15`.
    pub const R15: Self = Self(15);

    /// All sixteen, in hardware order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..16).map(Self)
    }

    /// The hardware number.
    #[must_use]
    pub fn number(self) -> usize {
        usize::from(self.0)
    }

    /// The register that holds `part` (`al`, `eax`, …), if it is a general-purpose one.
    pub(crate) fn holding(part: Register) -> Option<Self> {
        let full = part.full_register();
        full.is_gpr64().then(|| Self((full as u32 - Register::RAX as u32) as u8))
    }
}

impl fmt::Display for Gpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(GPR_NAMES[self.number()])
    }
}

impl fmt::Debug for Gpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One status flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flag {
    /// Carry.
    Cf,
    /// Parity.
    Pf,
    /// Auxiliary carry.
    Af,
    /// Zero.
    Zf,
    /// Sign.
    Sf,
    /// Overflow.
    Of,
    /// Direction of string instructions.
    Df,
}

const FLAGS: [(Flag, u32, &str); 7] = [
    (Flag::Cf, RflagsBits::CF, "cf"),
    (Flag::Pf, RflagsBits::PF, "pf"),
    (Flag::Af, RflagsBits::AF, "af"),
    (Flag::Zf, RflagsBits::ZF, "zf"),
    (Flag::Sf, RflagsBits::SF, "sf"),
    (Flag::Of, RflagsBits::OF, "of"),
    (Flag::Df, RflagsBits::DF, "df"),
];

/// A set of registers and flags: 16 general-purpose registers, 7 flags, the x87/MMX stack as one,
/// 8 mask registers and 32 vector registers: 64 bits in all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RegSet(u64);

const FLAG_SHIFT: u32 = 16;
const X87: u64 = 1 << 23;
const MASK_SHIFT: u32 = 24;
const VECTOR_SHIFT: u32 = 32;

impl RegSet {
    /// Nothing.
    pub const EMPTY: Self = Self(0);
    /// Everything.
    pub const ALL: Self = Self(!0);
    /// The sixteen general-purpose registers.
    pub const GPRS: Self = Self(0xffff);
    /// The six arithmetic flags.
    pub const ARITHMETIC_FLAGS: Self = Self(0x3f << FLAG_SHIFT);
    /// All flags, the direction flag included.
    pub const FLAGS: Self = Self(0x7f << FLAG_SHIFT);
    /// The x87/MMX stack.
    pub const X87: Self = Self(X87);

    /// The set of one register.
    #[must_use]
    pub const fn gpr(register: Gpr) -> Self {
        Self(1 << register.0)
    }

    /// The set of one flag.
    #[must_use]
    pub const fn flag(flag: Flag) -> Self {
        Self(1 << (FLAG_SHIFT + flag as u32))
    }

    /// The set of one vector register, by its number: `vector(0)` is `xmm0` with all its upper lanes.
    #[must_use]
    pub const fn vector(number: u32) -> Self {
        assert!(number < 32);
        Self(1 << (VECTOR_SHIFT + number))
    }

    /// The part of the machine state that `register` belongs to; empty for segment and control registers.
    pub(crate) fn holding(register: Register) -> Self {
        if let Some(gpr) = Gpr::holding(register) {
            Self::gpr(gpr)
        } else if register.is_vector_register() {
            Self(1 << (VECTOR_SHIFT + register.number() as u32))
        } else if register.is_k() {
            Self(1 << (MASK_SHIFT + register.number() as u32))
        } else if register.is_st() || register.is_mm() {
            Self(X87)
        } else {
            Self::EMPTY
        }
    }

    /// The flags among the bits of the decoder's flag mask.
    pub(crate) fn from_flag_bits(bits: u32) -> Self {
        FLAGS
            .iter()
            .filter(|(_, bit, _)| bits & bit != 0)
            .fold(Self::EMPTY, |set, (flag, ..)| set | Self::flag(*flag))
    }

    /// The set as a number, a bit for each member: 0 general-purpose registers, 16 flags, 23 x87, 24 mask registers, 32
    /// vector registers. Files hold it.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The opposite of [`RegSet::bits`].
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Whether nothing is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `other` is in it.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether something is in both.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The members of both; `|` where that must be known when compiling.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Its members that are not in `other`; `-` where that must be known when compiling.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The vector registers in it, by their numbers, in order.
    pub fn vectors(self) -> impl Iterator<Item = u8> {
        (0..32).filter(move |number| self.0 >> (VECTOR_SHIFT + u32::from(*number)) & 1 != 0)
    }

    /// The general-purpose registers in it.
    pub fn gprs(self) -> impl Iterator<Item = Gpr> {
        Gpr::all().filter(move |&r| self.contains(Self::gpr(r)))
    }

    /// Its members, each as a set of its own.
    pub fn singles(self) -> impl Iterator<Item = Self> {
        (0..64).map(|bit| Self(1 << bit)).filter(move |&single| self.contains(single))
    }

    /// Names of everything in it, in a fixed order.
    pub fn names(self) -> impl Iterator<Item = RegName> {
        (0..64).filter(move |bit| self.0 >> bit & 1 == 1).map(RegName)
    }
}

/// The printable name of one member of a [`RegSet`].
#[derive(Clone, Copy)]
pub struct RegName(u32);

impl fmt::Display for RegName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bit @ 0..16 => f.write_str(GPR_NAMES[bit as usize]),
            bit @ 16..23 => f.write_str(FLAGS[(bit - FLAG_SHIFT) as usize].2),
            23 => f.write_str("x87"),
            bit @ 24..32 => write!(f, "k{}", bit - MASK_SHIFT),
            bit => write!(f, "zmm{}", bit - VECTOR_SHIFT),
        }
    }
}

impl FromIterator<Gpr> for RegSet {
    fn from_iter<I: IntoIterator<Item = Gpr>>(registers: I) -> Self {
        registers.into_iter().fold(Self::EMPTY, |set, register| set | Self::gpr(register))
    }
}

impl BitOr for RegSet {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for RegSet {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for RegSet {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Sub for RegSet {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.without(other)
    }
}

impl Not for RegSet {
    type Output = Self;
    fn not(self) -> Self {
        Self(!self.0)
    }
}

impl fmt::Display for RegSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.names().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            write!(f, "{name}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for RegSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}
