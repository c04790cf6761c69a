//! Hubs taken apart: which cases each of the jumps that meet there may take.
//!
//! How often a jump took a case cannot be told behind a hub. Which cases its table has can: [`Function::cases`] says of each case
//! which jump has it first. Two `switch` statements of one function are so not taken for one.

use super::{Edge, Function, Node};

/// So many entries of a table can be told apart; those of the next jump to the same hub come behind.
const ENTRIES: u32 = 1 << 24;
/// Of so many jumps.
const JUMPS: usize = 1 << 7;

/// What [`Function::cases`] says of a case that entry `entry` of a table leads to: that of the jump with this number among those that meet
/// in its hub, counted by block, or 0 for a case without a hub. Nothing if there are too many.
#[must_use]
pub fn case_of(jump: usize, entry: u32) -> Option<u32> {
    (jump < JUMPS && entry < ENTRIES).then(|| jump as u32 * ENTRIES + entry)
}

/// The entry of its own table that leads to a case.
#[must_use]
pub const fn entry_of(case: u32) -> u32 {
    case % ENTRIES
}

/// Jumps that meet, and where they go on.
#[derive(Clone, Debug, Default)]
pub struct Hub {
    /// The blocks that jump, ascending.
    jumps: Vec<u32>,
    /// Edges by index, and the number of the jump that has the case, if that is known.
    cases: Vec<(u32, Option<usize>)>,
}

impl Hub {
    /// All hubs of a function, by number.
    #[must_use]
    pub fn all(function: &Function) -> Vec<Self> {
        let mut hubs = vec![Self::default(); function.hubs as usize];
        if hubs.is_empty() {
            return hubs;
        }
        let hub = |node: Node| node.as_hub().map(|hub| hub as usize);
        let mut cases = function.cases.iter().peekable();
        for (Edge { from, to, .. }, number) in function.edges.iter().zip(0..) {
            let case = cases.next_if(|(edge, _)| *edge == number).map(|&(_, case)| case);
            if let (Some(from), Some(hub)) = (from.as_block(), hub(*to)) {
                hubs[hub].jumps.push(from);
            } else if let Some(hub) = hub(*from) {
                hubs[hub].cases.push((number, case.map(|case| (case / ENTRIES) as usize)));
            }
        }
        hubs.iter_mut().for_each(|hub| hub.jumps.sort_unstable());
        hubs
    }

    /// The blocks that jump, ascending.
    #[must_use]
    pub fn jumps(&self) -> &[u32] {
        &self.jumps
    }

    /// No more ways lead through it than this.
    #[must_use]
    pub const fn most_ways(&self) -> usize {
        self.jumps.len().saturating_mul(self.cases.len())
    }

    /// The cases that the jump at the end of `block` may take, as edges. One of which no case is known shares the tables of the others.
    pub fn cases(&self, block: u32) -> impl Iterator<Item = u32> + '_ {
        let jump = self.jumps.binary_search(&block).ok();
        let has_own = jump.is_some_and(|jump| self.cases.iter().any(|(_, of)| *of == Some(jump)));
        let cases = self.cases.iter().filter(move |(_, of)| !has_own || of.is_none() || *of == jump);
        cases.map(|(edge, _)| *edge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{EdgeKind, State, TextId};

    #[test]
    fn jumps_have_their_own_cases() {
        let mut function = Function::new(TextId::default(), 0, 8, State::Measured);
        function.hubs = 1;
        let (b, hub) = (Node::block, Node::hub(0));
        function.edges = [(b(5), hub), (b(1), hub), (b(7), hub), (hub, b(2)), (hub, b(3)), (hub, b(4))]
            .map(|(from, to)| Edge { from, to, counter: None, kind: EdgeKind::Case, count: None })
            .to_vec();
        let case = |edge, jump, entry| (edge, case_of(jump, entry).expect("few"));
        function.cases = vec![case(3, 0, 9), case(4, 1, 9)];
        assert_eq!(entry_of(function.cases[1].1), 9);
        let hubs = Hub::all(&function);
        let cases = |block| hubs[0].cases(block).collect::<Vec<_>>();
        assert_eq!((hubs[0].jumps(), hubs[0].most_ways()), (&[1, 5, 7][..], 9));
        // Nobody knows whose the last one is, nor which the last jump has.
        assert_eq!((cases(1), cases(5), cases(7)), (vec![3, 5], vec![4, 5], vec![3, 4, 5]));
        assert_eq!(case_of(JUMPS, 0).or(case_of(0, ENTRIES)), None);
    }
}
