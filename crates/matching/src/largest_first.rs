//! Work on many things of very different size.

use rayon::prelude::*;
use std::cmp::Reverse;

/// Does `each` with all `items` in parallel, the largest first: one that takes a second must not be the last to start.
/// Results are in the order of the items.
pub(crate) fn largest_first<T: Sync, R: Send>(
    items: &[T],
    size: impl Fn(&T) -> usize,
    each: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&i| Reverse(size(&items[i])));
    let mut done: Vec<(usize, R)> =
        order.into_par_iter().with_max_len(1).map(|i| (i, each(&items[i]))).collect();
    done.sort_unstable_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order() {
        let items: Vec<usize> = (0..1000).map(|i| i * 7919 % 1000).collect();
        assert_eq!(
            largest_first(&items, |&i| i, |&i| i + 1),
            items.iter().map(|i| i + 1).collect::<Vec<_>>()
        );
    }
}
