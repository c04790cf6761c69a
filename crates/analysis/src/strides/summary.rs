//! The most frequent of many numbers, in little room.
//!
//! Misra and Gries: of more than [`MOST`] different numbers, each new one takes one off all that are kept. A number that is
//! more than the [`MOST`] + 1st part of all is among those kept, and what its count lacks is known. Two such summaries can be added
//! (Agarwal et al., "Mergeable summaries").

use super::{Pattern, Stride};

/// How many numbers are kept.
pub const MOST: usize = 15;

/// The most frequent of many numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The last number that was added, and how often in a row: that is not in `kept` yet.
    last: i64,
    run: u64,
    kept: Vec<(i64, u64)>,
    total: u64,
}

impl Summary {
    /// Adds a number.
    #[inline]
    pub fn add(&mut self, number: i64) {
        if number != self.last {
            self.settle();
            self.last = number;
        }
        self.run += 1;
    }

    fn settle(&mut self) {
        let (number, times) = (self.last, std::mem::take(&mut self.run));
        self.total += times;
        self.keep(number, times);
    }

    fn keep(&mut self, number: i64, mut times: u64) {
        if times == 0 {
            return;
        }
        if let Some(at) = self.kept.iter().position(|kept| kept.0 == number) {
            self.kept[at].1 += times;
            // Frequent ones are found sooner.
            if at > 0 && self.kept[at].1 > self.kept[at - 1].1 {
                self.kept.swap(at, at - 1);
            }
            return;
        }
        if self.kept.len() == MOST {
            let least = self.kept.iter().map(|kept| kept.1).min().unwrap_or_default().min(times);
            self.kept.iter_mut().for_each(|kept| kept.1 -= least);
            self.kept.retain(|kept| kept.1 > 0);
            times -= least;
        }
        if times > 0 {
            self.kept.push((number, times));
        }
    }

    /// Adds all numbers of another.
    pub fn merge(&mut self, other: &Self) {
        self.settle();
        self.total += other.total + other.run;
        let mut sum = std::mem::take(&mut self.kept);
        for &(number, times) in other.kept.iter().chain([&(other.last, other.run)]) {
            match sum.iter_mut().find(|kept| kept.0 == number) {
                Some(kept) => kept.1 += times,
                None => sum.push((number, times)),
            }
        }
        sum.sort_by_key(|kept| std::cmp::Reverse(kept.1));
        let less = sum.get(MOST).map_or(0, |kept| kept.1);
        sum.truncate(MOST);
        sum.iter_mut().for_each(|kept| kept.1 -= less);
        sum.retain(|kept| kept.1 > 0);
        self.kept = sum;
    }

    /// How many were added.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total + self.run
    }

    /// The most frequent ones, the most frequent first.
    #[must_use]
    pub fn strides(&self) -> Vec<Stride> {
        let mut settled = self.clone();
        settled.settle();
        settled.kept.sort_by_key(|&(number, times)| (std::cmp::Reverse(times), number));
        settled.kept.into_iter().map(|(bytes, times)| Stride { bytes, times }).collect()
    }

    /// How many are not among these.
    #[must_use]
    pub fn others(&self) -> u64 {
        self.total() - self.strides().iter().map(|stride| stride.times).sum::<u64>()
    }

    /// How it looks.
    #[must_use]
    pub fn pattern(&self) -> Pattern {
        let (strides, total) = (self.strides(), self.total());
        let are_most = |count: usize| {
            strides.iter().take(count).map(|stride| stride.times).sum::<u64>() * 10 >= total * 9
        };
        match strides.first() {
            None if total == 0 => Pattern::Once,
            Some(first) if first.bytes == 0 && first.times == total => Pattern::Same,
            Some(_) if are_most(1) => Pattern::Constant,
            Some(_) if are_most(4) => Pattern::Few,
            _ => Pattern::Irregular,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn bounds_hold(parts in prop::collection::vec(prop::collection::vec(0i64..40, 0..200), 1..6)) {
            let mut sum = Summary::default();
            let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
            for part in &parts {
                let mut summary = Summary::default();
                // Small numbers are frequent.
                for number in part.iter().map(|number| number * number / 40) {
                    summary.add(number);
                    *counts.entry(number).or_default() += 1;
                }
                sum.merge(&summary);
            }
            let total: u64 = counts.values().sum();
            prop_assert_eq!(sum.total(), total);
            let strides = sum.strides();
            prop_assert!(strides.len() <= MOST);
            for (number, &count) in &counts {
                let found = strides.iter().find(|s| s.bytes == *number).map_or(0, |s| s.times);
                prop_assert!(found <= count);
                prop_assert!(count - found <= total / (MOST as u64 + 1));
                prop_assert!(counts.len() > MOST || found == count);
            }
        }
    }
}
