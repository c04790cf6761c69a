//! Finds many paths in one go (Aho and Corasick).

use super::{Letter, Path};
use crate::map::Map;
use std::collections::VecDeque;

/// All paths that are looked for.
pub(super) struct Matcher {
    paths: Vec<Path>,
    ways: Map<(u32, Letter), u32>,
    /// By state: where to go on if there is no way.
    fallbacks: Vec<u32>,
    /// By state: the path that ends here, and the next state to ask for one; 0 for none.
    endings: Vec<(Option<u32>, u32)>,
}

impl Matcher {
    pub(super) fn new(paths: Vec<Path>) -> Self {
        let mut matcher = Self { paths, ways: Map::default(), fallbacks: vec![0], endings: vec![(None, 0)] };
        // By state, in the order in which they were made: from where and by which way.
        let mut made: Vec<Vec<(Letter, u32)>> = vec![Vec::new()];
        for (number, path) in matcher.paths.iter().enumerate() {
            let mut state = 0;
            for &letter in path {
                state = *matcher.ways.entry((state, letter)).or_insert_with(|| {
                    let new = made.len() as u32;
                    made[state as usize].push((letter, new));
                    made.push(Vec::new());
                    matcher.fallbacks.push(0);
                    matcher.endings.push((None, 0));
                    new
                });
            }
            matcher.endings[state as usize].0 = Some(number as u32);
        }
        let mut waiting: VecDeque<u32> = made[0].iter().map(|&(_, state)| state).collect();
        while let Some(state) = waiting.pop_front() {
            for &(letter, next) in &made[state as usize] {
                let fallback = matcher.next(matcher.fallbacks[state as usize], letter);
                matcher.fallbacks[next as usize] = fallback;
                let (ending, further) = matcher.endings[fallback as usize];
                matcher.endings[next as usize].1 = if ending.is_some() { fallback } else { further };
                waiting.push_back(next);
            }
        }
        matcher
    }

    pub(super) fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// The state after a unit.
    #[inline]
    pub(super) fn next(&self, mut state: u32, letter: Letter) -> u32 {
        loop {
            match self.ways.get(&(state, letter)) {
                Some(&next) => return next,
                None if state == 0 => return 0,
                None => state = self.fallbacks[state as usize],
            }
        }
    }

    /// The paths that end in a state.
    #[inline]
    pub(super) fn ending(&self, state: u32) -> impl Iterator<Item = usize> {
        let first = self.endings[state as usize];
        let states = std::iter::successors(Some(first), |&(_, further)| {
            (further != 0).then(|| self.endings[further as usize])
        });
        states.filter_map(|(path, _)| path).map(|path| path as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_looking_everywhere_tells(
            mut paths in prop::collection::vec(prop::collection::vec(1u32..4, 1..5), 1..8),
            text in prop::collection::vec(1u32..4, 0..60),
        ) {
            paths.sort();
            paths.dedup();
            let matcher = Matcher::new(paths.iter().map(|path| path.clone().into()).collect());
            let mut state = 0;
            for end in 1..=text.len() {
                state = matcher.next(state, text[end - 1]);
                let mut found: Vec<usize> = matcher.ending(state).collect();
                found.sort_unstable();
                let expected: Vec<usize> =
                    (0..paths.len()).filter(|&path| text[..end].ends_with(&paths[path])).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
