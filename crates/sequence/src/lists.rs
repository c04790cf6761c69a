//! Calls in little room.
//!
//! Calls that come again in a row are counted. So are up to `LONGEST` different ones that come again in the same order: they become a part,
//! as loops have them. Bodies that are the same are there once. As what is made of calls depends on nothing but the calls, the same calls
//! make the same body, whoever makes it.

use crate::model::{Body, Calls, Item, NONE, Origin};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher as _;

/// So many items are looked at for one turn of a loop.
const LONGEST: usize = 16;

/// Bodies, each once.
#[derive(Default)]
pub struct Bodies {
    all: Vec<Body>,
    known: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Bodies {
    /// All of them.
    pub(crate) fn into_all(self) -> Vec<Body> {
        self.all
    }

    /// The calls of a body, each in its turn.
    pub(crate) fn calls(&self, body: u32) -> Calls<'_> {
        Calls::new(&self.all, body)
    }

    /// The number of a body.
    pub(crate) fn intern(&mut self, function: u32, origin: Origin, items: &[Item]) -> u32 {
        let Self { all, known, hasher } = self;
        let hash = hasher.hash_one((function, origin, items));
        let is_it = |&number: &u32| {
            let body = &all[number as usize];
            body.function == function && body.origin == origin && body.items == items
        };
        if let Some(&number) = known.find(hash, is_it) {
            return number;
        }
        let number = all.len() as u32;
        all.push(Body { function, origin, items: items.to_vec() });
        let again = |&number: &u32| {
            let body = &all[number as usize];
            hasher.hash_one((body.function, body.origin, &*body.items))
        };
        known.insert_unique(hash, number, again);
        number
    }

    /// Adds a call to a list.
    pub(crate) fn push(&mut self, list: &mut Vec<Item>, site: u32, body: u32) {
        match list.last_mut() {
            Some(last) if last.site == site && last.body == body => last.times += 1,
            _ => list.push(Item { site, body, times: 1 }),
        }
        while self.fold(list) {}
    }

    /// Looks whether the last items have come before, and counts them if so.
    fn fold(&mut self, list: &mut Vec<Item>) -> bool {
        let len = list.len();
        let Some(&last) = list.last() else { return false };
        for turn in 2..=LONGEST {
            let Some(start) = len.checked_sub(turn) else { return false };
            let Some(before) = start.checked_sub(1) else { return false };
            let group = list[before];
            if group.site == NONE && self.all[group.body as usize].items == list[start..] {
                list[before].times += 1;
                list.truncate(start);
                return true;
            }
            if list[before] != last {
                continue;
            }
            let Some(first) = start.checked_sub(turn) else { continue };
            if list[first..start] == list[start..] {
                let body = self.intern(NONE, Origin::Measured, &list[start..]);
                list.truncate(first);
                list.push(Item { site: NONE, body, times: 2 });
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Sequence;
    use proptest::prelude::*;

    fn packed(calls: &[u32]) -> (usize, u32, Sequence) {
        let mut bodies = Bodies::default();
        let leaves: Vec<u32> =
            (0..8).map(|function| bodies.intern(function, Origin::Measured, &[])).collect();
        let mut list = Vec::new();
        calls.iter().for_each(|&call| bodies.push(&mut list, 0, leaves[call as usize]));
        let whole = bodies.intern(NONE, Origin::Measured, &list);
        (list.len(), whole, Sequence { bodies: bodies.into_all(), ..Sequence::default() })
    }

    #[test]
    fn loops_in_loops_are_small() {
        let mut calls = Vec::new();
        for outer in 0..1000 {
            calls.push(1);
            for _ in 0..10 {
                calls.extend([2, 3, 3, 4]);
            }
            calls.extend([5, outer % 2]);
        }
        assert!(packed(&calls).0 < 10);
    }

    proptest! {
        #[test]
        fn calls_come_back(calls in prop::collection::vec(0u32..3, 0..300)) {
            let (_, whole, sequence) = packed(&calls);
            let back: Vec<u32> =
                sequence.calls(whole).map(|call| sequence.bodies[call.body as usize].function).collect();
            prop_assert_eq!(back, calls);
        }
    }
}
