//! Expressions over machine words, each with a number, so that equal ones are found to be equal.

use crate::addr::LinkAddr;
use alloc::vec::Vec;
use core::hash::BuildHasher as _;
use hashbrown::{DefaultHashBuilder, HashTable};
use smallvec::SmallVec;

/// A value, by the number of its expression.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Val(u32);

/// Where a value comes from that is not known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Origin {
    /// In that register when the function was entered.
    Entry(u8),
    /// Left in that register by the instruction at that address.
    Insn(LinkAddr, u8),
    /// In that register at the start of that block, or in that hub, different on different paths.
    Merge(u32, u8),
}

/// Terms of a sum: value times factor.
pub(crate) type Terms = SmallVec<[(Val, u64); 2]>;

/// An expression over 64-bit words.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Expr {
    /// A constant plus multiples of other values, none of which is itself a sum.
    Sum(u64, Terms),
    /// The low bits, the rest cleared.
    Low(Val, u8),
    /// The low bits, their sign copied upwards.
    Signed(Val, u8),
    /// Bitwise and with a constant.
    And(Val, u64),
    /// So many bits of memory, as it was after the given event.
    Load { addr: Val, bits: u8, epoch: u32 },
    /// One of two.
    Select(Val, Val),
    /// Not known.
    Opaque(Origin),
}

/// All expressions of one analysis.
#[derive(Default)]
pub(crate) struct Exprs {
    nodes: Vec<Expr>,
    /// The numbers of all of them, with their hashes.
    numbers: HashTable<(u64, Val)>,
    hasher: DefaultHashBuilder,
}

impl Exprs {
    pub(crate) fn get(&self, v: Val) -> &Expr {
        &self.nodes[v.0 as usize]
    }

    /// The number of an expression, if it has one.
    pub(super) fn number(&self, expr: &Expr) -> Option<Val> {
        self.find(self.hasher.hash_one(expr), expr)
    }

    fn find(&self, hash: u64, expr: &Expr) -> Option<Val> {
        self.numbers.find(hash, |&(own, v)| own == hash && self.get(v) == expr).map(|&(_, v)| v)
    }

    pub(super) fn intern(&mut self, expr: Expr) -> Val {
        let hash = self.hasher.hash_one(&expr);
        if let Some(v) = self.find(hash, &expr) {
            return v;
        }
        let v = Val(self.nodes.len() as u32);
        self.nodes.push(expr);
        self.numbers.insert_unique(hash, (hash, v), |&(hash, _)| hash);
        v
    }

    pub(crate) fn constant(&mut self, value: u64) -> Val {
        self.intern(Expr::Sum(value, Terms::new()))
    }

    pub(crate) fn as_constant(&self, v: Val) -> Option<u64> {
        match self.get(v) {
            Expr::Sum(value, terms) if terms.is_empty() => Some(*value),
            _ => None,
        }
    }

    pub(super) fn opaque(&mut self, origin: Origin) -> Val {
        self.intern(Expr::Opaque(origin))
    }

    /// The value as constant and terms.
    pub(crate) fn as_sum(&self, v: Val) -> (u64, Terms) {
        match self.get(v) {
            Expr::Sum(constant, terms) => (*constant, terms.clone()),
            _ => (0, smallvec::smallvec![(v, 1)]),
        }
    }

    fn sum(&mut self, constant: u64, terms: Terms) -> Val {
        if constant == 0 && terms.len() == 1 && terms[0].1 == 1 {
            return terms[0].0;
        }
        self.intern(Expr::Sum(constant, terms))
    }

    /// `a + factor * b`.
    pub(super) fn add_scaled(&mut self, a: Val, b: Val, factor: u64) -> Val {
        let (mut constant, mut terms) = self.as_sum(a);
        let mut add = |v: Val, times: u64| match terms.iter_mut().find(|(have, _)| *have == v) {
            Some((_, have)) => *have = have.wrapping_add(times),
            None => terms.push((v, times)),
        };
        match self.get(b) {
            Expr::Sum(other, more) => {
                constant = constant.wrapping_add(other.wrapping_mul(factor));
                more.iter().for_each(|&(v, times)| add(v, times.wrapping_mul(factor)));
            }
            _ => add(b, factor),
        }
        terms.retain(|&mut (_, times)| times != 0);
        terms.sort_unstable();
        // Sums of many parts are of no use to anybody, and unrolled hashes would build them without end.
        if terms.len() > 6 {
            return self.intern(Expr::And(a, u64::MAX));
        }
        self.sum(constant, terms)
    }

    pub(super) fn low(&mut self, v: Val, bits: u8) -> Val {
        if bits >= 64 || self.width(v) <= bits {
            return v;
        }
        let mask = (1u64 << bits) - 1;
        match *self.get(v) {
            Expr::Sum(value, ref terms) if terms.is_empty() => self.constant(value & mask),
            Expr::Low(inner, _) => self.intern(Expr::Low(inner, bits)),
            Expr::Signed(inner, from) if from >= bits => self.intern(Expr::Low(inner, bits)),
            _ => self.intern(Expr::Low(v, bits)),
        }
    }

    pub(super) fn signed(&mut self, v: Val, bits: u8) -> Val {
        if bits >= 64 {
            return v;
        }
        match *self.get(v) {
            Expr::Sum(value, ref terms) if terms.is_empty() => {
                let shift = 64 - u32::from(bits);
                self.constant((((value << shift) as i64) >> shift) as u64)
            }
            Expr::Low(inner, from) if from >= bits => self.signed(inner, bits),
            _ => self.intern(Expr::Signed(v, bits)),
        }
    }

    pub(super) fn and(&mut self, v: Val, mask: u64) -> Val {
        match mask {
            0xff => self.low(v, 8),
            0xffff => self.low(v, 16),
            0xffff_ffff => self.low(v, 32),
            _ => match self.as_constant(v) {
                Some(value) => self.constant(value & mask),
                None => self.intern(Expr::And(v, mask)),
            },
        }
    }

    /// How many low bits can be other than zero.
    fn width(&self, v: Val) -> u8 {
        match self.get(v) {
            Expr::Sum(value, terms) if terms.is_empty() => 64 - value.leading_zeros() as u8,
            Expr::Low(_, bits) | Expr::Load { bits, .. } => *bits,
            Expr::And(_, mask) => 64 - mask.leading_zeros() as u8,
            _ => 64,
        }
    }

    /// Whether it is an address in the function's own stack frame, and at which offset from the stack
    /// pointer at entry (or from where it was aligned).
    pub(crate) fn stack_offset(&self, v: Val) -> Option<i64> {
        let (constant, base) = match self.get(v) {
            Expr::Sum(constant, terms) => match terms.as_slice() {
                [(base, 1)] => (*constant, *base),
                _ => return None,
            },
            _ => (0, v),
        };
        match self.get(base) {
            Expr::Opaque(Origin::Entry(4)) => Some(constant as i64),
            Expr::And(inner, _) if self.stack_offset(*inner).is_some() => Some(constant as i64),
            _ => None,
        }
    }

    /// How far `v` is from the sum of `terms`, if that is known.
    pub(super) fn distance_from(&self, terms: &Terms, v: Val) -> Option<i64> {
        match self.get(v) {
            Expr::Sum(constant, own) => (own == terms).then_some(*constant as i64),
            _ => (terms.as_slice() == [(v, 1)]).then_some(0),
        }
    }
}
