//! What is known at one point of a function, and what a branch adds to it.

use super::expr::Val;
use crate::cfg::EdgeKind;
use alloc::vec::Vec;
use iced_x86::ConditionCode;

/// How strong the knowledge of an upper bound is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Strength {
    /// An unsigned compare and branch: the programmer's or compiler's own range check.
    Compared,
    /// A mask, the width of a load, or another kind of check: no larger, but a table may well be smaller.
    Masked,
    /// It is just that number here. Where a compiler repeats a check on a value it already knows, the table
    /// goes on behind the only entry that is ever used.
    Equal,
}

impl Strength {
    /// What holds where two ways meet whose bounds are the same, or not.
    pub(super) fn meet(self, other: Self, same: bool) -> Self {
        match (self, other) {
            (Self::Equal, Self::Equal) if same => Self::Equal,
            (Self::Compared, Self::Compared) => Self::Compared,
            _ => Self::Masked,
        }
    }
}

/// An upper bound that a branch proved.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) value: Val,
    pub(super) high: u64,
    pub(super) how: Strength,
}

/// A comparison of a value with a constant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) value: Val,
    pub(super) constant: u64,
    /// Width of both sides.
    pub(super) bits: u8,
    /// Whether the constant is on the left.
    pub(super) swapped: bool,
}

/// What is known at one point of the function.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) regs: [Val; 16],
    /// What memory holds: address, value, width in bits; sorted by address.
    pub(super) slots: Vec<(Val, Val, u8)>,
    /// What the flags compare.
    pub(super) compared: Option<Comparison>,
    /// Upper bounds proved by branches, the oldest first.
    pub(super) limits: Vec<Limit>,
    /// The last event that may have changed memory.
    pub(super) epoch: u32,
}

/// Slots beyond this many are forgotten: unoptimised code has thousands, and only the recent ones matter.
const MAX_SLOTS: usize = 96;

/// Bounds beyond this many are forgotten, the oldest first: the check of an index is close to its use.
const MAX_LIMITS: usize = 48;

impl State {
    pub(super) fn limit(&self, v: Val) -> Option<(u64, Strength)> {
        self.limits.iter().rev().find(|l| l.value == v).map(|l| (l.high, l.how))
    }

    fn set_limit(&mut self, mut limit: Limit) {
        if let Some(known) = self.limits.iter().position(|l| l.value == limit.value) {
            let known = self.limits.remove(known);
            // Which number it is says less of a table than the range it is in.
            if known.high <= limit.high || limit.how == Strength::Equal && known.how != Strength::Equal {
                limit = known;
            }
        }
        if self.limits.len() >= MAX_LIMITS {
            self.limits.remove(0);
        }
        self.limits.push(limit);
    }

    pub(super) fn set_slot(&mut self, addr: Val, value: Val, bits: u8) {
        match self.slots.binary_search_by_key(&addr, |s| s.0) {
            Ok(i) => self.slots[i] = (addr, value, bits),
            Err(i) => {
                if self.slots.len() >= MAX_SLOTS {
                    self.slots.remove(0);
                    self.set_slot(addr, value, bits);
                    return;
                }
                self.slots.insert(i, (addr, value, bits));
            }
        }
    }
}

/// Learns from which way a branch went.
pub(super) fn refine(state: &mut State, kind: EdgeKind, condition: Option<ConditionCode>) {
    let (Some(condition), Some(comparison)) = (condition, state.compared) else { return };
    let Comparison { value: left, constant: right, bits, swapped } = comparison;
    let condition = if swapped { mirrored(condition) } else { condition };
    let taken = match kind {
        EdgeKind::Taken => true,
        EdgeKind::FallThrough => false,
        _ => return,
    };
    let limit = match (condition, taken) {
        (ConditionCode::a, false) | (ConditionCode::be, true) => Some((right, Strength::Compared)),
        (ConditionCode::ae, false) | (ConditionCode::b, true) => {
            right.checked_sub(1).map(|high| (high, Strength::Compared))
        }
        // These bound the index too, if it is not negative, but are no range check for a table: clang
        // tells ranges apart this way, and the table that follows may be much smaller.
        (ConditionCode::e, true) | (ConditionCode::ne, false) => Some((right, Strength::Equal)),
        (ConditionCode::g, false) | (ConditionCode::le, true) => {
            positive(right, bits).map(|high| (high, Strength::Masked))
        }
        (ConditionCode::ge, false) | (ConditionCode::l, true) => {
            positive(right, bits).and_then(|r| r.checked_sub(1)).map(|high| (high, Strength::Masked))
        }
        _ => None,
    };
    if let Some((high, how)) = limit {
        state.set_limit(Limit { value: left, high, how });
    }
}

/// What a condition on `a` and `b` says of `b` and `a`.
fn mirrored(condition: ConditionCode) -> ConditionCode {
    match condition {
        ConditionCode::a => ConditionCode::b,
        ConditionCode::ae => ConditionCode::be,
        ConditionCode::b => ConditionCode::a,
        ConditionCode::be => ConditionCode::ae,
        ConditionCode::g => ConditionCode::l,
        ConditionCode::ge => ConditionCode::le,
        ConditionCode::l => ConditionCode::g,
        ConditionCode::le => ConditionCode::ge,
        ConditionCode::e | ConditionCode::ne => condition,
        // Signs, overflow and parity of the difference say nothing of the other one.
        _ => ConditionCode::None,
    }
}

fn positive(value: u64, bits: u8) -> Option<u64> {
    ((8..=64).contains(&bits) && value < 1 << (bits - 1)).then_some(value)
}
