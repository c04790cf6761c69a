//! How large a value can be, and whether it depends on the way control came.

use super::Values;
use super::expr::{Expr, Origin, Val};
use super::state::{State, Strength};
use crate::addr::LinkAddr;
use crate::source::Surroundings;

impl<S: Surroundings + ?Sized> Values<'_, S> {
    /// The largest number `v` can be in `state`, if anything bounds it.
    pub(crate) fn upper_bound(&self, state: &State, v: Val) -> Option<(u64, Strength)> {
        if let Some(limit) = state.limit(v) {
            return Some(limit);
        }
        match *self.exprs.get(v) {
            Expr::Sum(constant, ref terms) => {
                let mut high = i64::try_from(constant).ok()? as u64;
                let mut strength = Strength::Compared;
                for &(term, times) in terms {
                    let (bound, how) = self.upper_bound(state, term)?;
                    high = high.checked_add(bound.checked_mul(times)?)?;
                    strength = strength.max(how);
                }
                Some((high, strength))
            }
            Expr::Low(inner, bits) => {
                let cap = (1u64 << bits) - 1;
                match self.upper_bound(state, inner) {
                    Some((high, how)) if high <= cap => Some((high, how)),
                    _ if bits <= 16 => Some((cap, Strength::Masked)),
                    _ => None,
                }
            }
            Expr::Signed(inner, bits) => {
                // Known non-negative in that width, so the sign changes nothing.
                let low = self.exprs.number(&Expr::Low(inner, bits)).unwrap_or(inner);
                let (high, how) = self.upper_bound(state, low)?;
                (high < 1 << (bits - 1)).then_some((high, how))
            }
            Expr::And(inner, mask) => match self.upper_bound(state, inner) {
                Some((high, how)) if high <= mask => Some((high, how)),
                _ => Some((mask, Strength::Masked)),
            },
            Expr::Load { bits, .. } if bits <= 16 => Some(((1 << bits) - 1, Strength::Masked)),
            _ => None,
        }
    }

    /// The latest check of `index`, as the lowest value and how far above it the highest may be. Checks
    /// of a low part of it count (whoever checks `eax` and then uses `rax` knows that the upper half is
    /// clear), and so do checks of `index - low`.
    pub(crate) fn latest_check(&self, state: &State, index: Val) -> Option<(u64, u64, Strength)> {
        let plain = self.without_width(index);
        state.limits.iter().rev().find_map(|limit| {
            let limited = self.without_width(limit.value);
            if limited == plain {
                return Some((0, limit.high, limit.how));
            }
            let (constant, terms) = self.exprs.as_sum(limited);
            let [(term, 1)] = terms.as_slice() else { return None };
            let low = constant.wrapping_neg();
            (self.without_width(*term) == plain && low < 1 << 31).then_some((low, limit.high, limit.how))
        })
    }

    fn without_width(&self, v: Val) -> Val {
        match *self.exprs.get(v) {
            Expr::Low(inner, _) | Expr::Signed(inner, _) => inner,
            _ => v,
        }
    }

    /// Whether what `v` is depends on which way control came, other than through memory.
    pub(crate) fn depends_on_path(&self, v: Val) -> bool {
        match self.exprs.get(v) {
            Expr::Opaque(Origin::Merge(..)) => true,
            Expr::Opaque(_) => false,
            Expr::Sum(_, terms) => terms.iter().any(|t| self.depends_on_path(t.0)),
            Expr::Low(inner, _) | Expr::Signed(inner, _) | Expr::And(inner, _) => {
                self.depends_on_path(*inner)
            }
            Expr::Select(a, b) => self.depends_on_path(*a) || self.depends_on_path(*b),
            // The entry of a table depends on its index; what else memory holds is anybody's guess.
            Expr::Load { addr, .. } => {
                let (base, terms) = self.exprs.as_sum(*addr);
                self.surroundings.is_constant(LinkAddr(base))
                    && terms.iter().any(|t| self.depends_on_path(t.0))
            }
        }
    }
}
