//! The search for the smallest set that still fails (Zeller and Hildebrandt, "Simplifying and isolating
//! failure-inducing input"), over any predicate.

use anyhow::Result;

/// A smallest part of `all` on which `fails` is still true: without any one of its members it would not be.
/// `fails` must be true of `all`. With several independent causes this is one of them.
///
/// # Errors
/// Those of `fails`.
pub(crate) fn minimal<T: Clone>(all: &[T], fails: &mut dyn FnMut(&[T]) -> Result<bool>) -> Result<Vec<T>> {
    let mut left = all.to_vec();
    let mut parts = 2;
    while left.len() > 1 {
        parts = parts.min(left.len());
        let size = left.len().div_ceil(parts);
        let mut smaller = None;
        // One part alone: with a single cause, one of two halves has it.
        for part in left.chunks(size) {
            if fails(part)? {
                smaller = Some((part.to_vec(), 2));
                break;
            }
        }
        // Or everything but one part; with two parts, that is the other part again.
        if smaller.is_none() && parts > 2 {
            for start in (0..left.len()).step_by(size) {
                let end = (start + size).min(left.len());
                let rest: Vec<T> = left[..start].iter().chain(&left[end..]).cloned().collect();
                if fails(&rest)? {
                    smaller = Some((rest, parts - 1));
                    break;
                }
            }
        }
        match smaller {
            Some((part, next)) => (left, parts) = (part, next.max(2)),
            None if parts == left.len() => break,
            None => parts = (parts * 2).min(left.len()),
        }
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn found(all: u32, fails: impl Fn(&BTreeSet<u32>) -> bool) -> (Vec<u32>, usize) {
        let mut asked = 0;
        let all: Vec<u32> = (0..all).collect();
        let minimal = minimal(&all, &mut |part| {
            asked += 1;
            Ok(fails(&part.iter().copied().collect()))
        });
        (minimal.expect("the predicate does not fail"), asked)
    }

    #[test]
    fn one_culprit_is_found_by_halving() {
        for culprit in [0, 1, 4999, 9999] {
            let (minimal, asked) = found(10_000, |part| part.contains(&culprit));
            assert_eq!(minimal, [culprit]);
            assert!(asked <= 28, "{asked} questions");
        }
    }

    #[test]
    fn of_independent_culprits_one_is_found() {
        let (minimal, _) = found(1000, |part| part.contains(&17) || part.contains(&800));
        assert_eq!(minimal.len(), 1);
    }

    #[test]
    fn culprits_that_need_each_other_are_found_together() {
        let (minimal, asked) = found(1000, |part| part.contains(&17) && part.contains(&800));
        assert_eq!(minimal, [17, 800]);
        assert!(asked < 200, "{asked} questions");
    }

    #[test]
    fn errors_end_the_search() {
        let stopped = minimal(&[1, 2, 3], &mut |_| anyhow::bail!("no"));
        assert!(stopped.is_err());
    }

    proptest! {
        #[test]
        fn nothing_can_be_left_out(
            all in 1u32..60,
            causes in proptest::collection::vec(proptest::collection::btree_set(0u32..60, 1..5), 1..4),
        ) {
            let fails = |part: &BTreeSet<u32>| {
                causes.iter().any(|cause| cause.iter().all(|&c| part.contains(&(c % all))))
            };
            let (minimal, _) = found(all, fails);
            let minimal: BTreeSet<u32> = minimal.into_iter().collect();
            prop_assert!(fails(&minimal));
            for one in &minimal {
                let mut less = minimal.clone();
                less.remove(one);
                prop_assert!(!fails(&less), "{one} is not needed in {minimal:?}");
            }
        }
    }
}
