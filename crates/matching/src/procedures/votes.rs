//! Blocks that matched refer to functions and data at the same places: what they refer to belongs together. So do
//! pointers at the same place of data that matched.

use super::{How, Search};
use crate::blocks::{self, Found, Sides};
use crate::data;
use crate::fingerprint::Reference;
use rayon::prelude::*;
use relive_profile::model::Level;

/// What somebody takes for the same: two references, and how sure that is.
pub(crate) type Vote = (Reference, Reference, u32);

/// The votes for pairs that are not made yet: old, new, how many.
#[derive(Default)]
struct Poll(Vec<(u32, u32, u32)>);

impl Poll {
    /// Adds votes, and forgets those for what has found a partner.
    fn add(&mut self, more: impl Iterator<Item = (u32, u32, u32)>, open: impl Fn(u32, u32) -> bool) {
        self.0.extend(more);
        self.0.retain(|&(old, new, _)| open(old, new));
        self.0.sort_unstable();
        self.0.dedup_by(|b, a| {
            let same = (a.0, a.1) == (b.0, b.1);
            if same {
                a.2 = a.2.saturating_add(b.2);
            }
            same
        });
    }

    /// Pairs that get the most votes from both sides, and clearly so, with how many.
    fn winners(&self) -> Vec<(u32, u32, u32)> {
        let by_old = best(&self.0);
        let mut turned: Vec<(u32, u32, u32)> = self.0.iter().map(|&(old, new, n)| (new, old, n)).collect();
        turned.sort_unstable();
        let by_new = best(&turned);
        let chosen = |new: u32| by_new.binary_search_by_key(&new, |&(new, ..)| new).map(|i| by_new[i].1);
        by_old.into_iter().filter(|&(old, new, _)| chosen(new) == Ok(old)).collect()
    }
}

/// For each of one side, the other one with the most votes, if it has twice as many as the next.
fn best(votes: &[(u32, u32, u32)]) -> Vec<(u32, u32, u32)> {
    let each = votes.chunk_by(|a, b| a.0 == b.0).filter_map(|own| {
        let (mut first, mut other, mut second) = (0, 0, 0);
        for &(_, to, count) in own {
            if count > first {
                (first, other, second) = (count, to, first);
            } else {
                second = second.max(count);
            }
        }
        (first >= 2 * second).then_some((own[0].0, other, first))
    });
    each.collect()
}

/// Votes so far. One that does not decide now may do so together with others later.
#[derive(Default)]
pub(super) struct Votes {
    procedures: Poll,
    data: Poll,
    /// Whose references have been looked at, by the new one.
    heard_procedures: Vec<bool>,
    heard_data: Vec<bool>,
}

impl Votes {
    pub(super) fn new(procedures: usize, data: usize) -> Self {
        Self { heard_procedures: vec![false; procedures], heard_data: vec![false; data], ..Self::default() }
    }
}

/// Collects votes from what became partners since last time. Returns how many new pairs follow.
pub(super) fn run(search: &mut Search<'_>) -> usize {
    let mut votes = std::mem::take(&mut search.votes);
    let pairs: Vec<(u32, u32)> = search
        .procedures
        .pairs()
        .filter(|&(_, new, _)| !std::mem::replace(&mut votes.heard_procedures[new as usize], true))
        .map(|(old, new, _)| (old, new))
        .collect();
    let mut cast: Vec<Vote> =
        pairs.par_iter().flat_map_iter(|&(old, new)| of_procedure(search, old, new)).collect();
    for (old, new, _) in search.data.pairs() {
        if !std::mem::replace(&mut votes.heard_data[new as usize], true) {
            data::pointer_votes(search, old, new, &mut cast);
        }
    }
    let procedures = cast.iter().filter_map(|&vote| match vote {
        (Reference::Procedure(a, 0), Reference::Procedure(b, 0), weight) => Some((a, b, weight)),
        _ => None,
    });
    votes.procedures.add(procedures, |old, new| search.procedures.is_open(old, new));
    let data = cast.iter().filter_map(|&vote| match vote {
        (Reference::Data(a, x), Reference::Data(b, y), weight) if x == y => Some((a, b, weight)),
        _ => None,
    });
    votes.data.add(data, |old, new| search.data.is_open(old, new));
    let before = search.procedures.len() + search.data.len();
    let mut winners = votes.procedures.winners();
    let (old, new) = (search.old, search.new);
    let insns = |a: u32, b: u32| (old.procedures[a as usize].insns, new.procedures[b as usize].insns);
    uncross(&mut winners, insns, |old, new| search.alike(old, new));
    for (old, new, weight) in winners {
        let insns = search.old.procedures[old as usize].insns.min(search.new.procedures[new as usize].insns);
        if search.alike(old, new) >= least_alike(insns, weight) {
            search.procedures.pair(old, new, How::Reference);
        }
    }
    for (old, new, _) in votes.data.winners() {
        data::pair(search, old, new, data::How::Reference);
    }
    search.votes = votes;
    search.procedures.len() + search.data.len() - before
}

/// Partners that are less alike may have been taken for each other.
const DOUBTFUL: f64 = 0.5;
/// So much more alike two pairs must be the other way round, both together.
const CLEARLY: f64 = 0.5;
/// With so many of its size a procedure is compared.
const MOST_RIVALS: usize = 32;

/// Where two pairs are hardly alike, and much more so the other way round, turns them round: blocks that look the same (`f(x)` in two
/// cases of a `switch`) were taken for each other, and so was what they call.
fn uncross(
    winners: &mut [(u32, u32, u32)],
    insns: impl Fn(u32, u32) -> (u32, u32),
    mut alike: impl FnMut(u32, u32) -> f64,
) {
    let mut doubtful: Vec<(u32, usize)> = Vec::new();
    for (i, &(old, new, _)) in winners.iter().enumerate() {
        let (a, b) = insns(old, new);
        if a.min(b) > SMALL && alike(old, new) < DOUBTFUL {
            doubtful.push((b, i));
        }
    }
    doubtful.sort_unstable();
    let mut is_turned = vec![false; winners.len()];
    for &(_, i) in &doubtful {
        let (old, new, _) = winners[i];
        if is_turned[i] {
            continue;
        }
        // Nothing half or twice as large is much alike.
        let (size, _) = insns(old, new);
        let from = doubtful.partition_point(|&(other, _)| other < size / 2);
        let rivals = doubtful[from..].iter().take_while(|&&(other, _)| other / 2 <= size).take(MOST_RIVALS);
        let own = alike(old, new);
        let mut best: Option<(f64, usize)> = None;
        for &(_, j) in rivals.filter(|&&(_, j)| j != i && !is_turned[j]) {
            let (rival_old, rival_new, _) = winners[j];
            let gain = alike(old, rival_new) + alike(rival_old, new) - own - alike(rival_old, rival_new);
            if gain >= CLEARLY && best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, j));
            }
        }
        if let Some((_, j)) = best {
            (winners[i].1, winners[j].1) = (winners[j].1, winners[i].1);
            (is_turned[i], is_turned[j]) = (true, true);
        }
    }
}

/// Of so few instructions nothing need be left.
const SMALL: u32 = 8;

/// How alike procedures must be that got so many votes. One that became an entirely different one is more often two, of
/// which one has gone and the other come; the surer it is that they stand at the same place, the less so.
fn least_alike(insns: u32, weight: u32) -> f64 {
    if insns <= SMALL { 0.0 } else { 0.1 / f64::from(weight.max(1)) }
}

/// What two partners refer to at the same places.
fn of_procedure(search: &Search<'_>, old: u32, new: u32) -> Vec<Vote> {
    let sides = Sides {
        old: &search.old.procedures[old as usize],
        new: &search.new.procedures[new as usize],
        ids: &search.ids,
    };
    let mut votes = Vec::new();
    if sides.old.references.is_empty() || sides.new.references.is_empty() {
        return votes;
    }
    for (a, b, found) in blocks::by_content(&sides).pairs() {
        let weight = match found {
            Found::Content(Level::Exact | Level::One | Level::Two) => 4,
            Found::Content(Level::Three) => 2,
            _ => 1,
        };
        let (a, b) = (sides.old.references_of(a), sides.new.references_of(b));
        if a.len() == b.len() {
            let open = a.iter().zip(b).filter(|&(&a, &b)| search.is_open(a, b));
            votes.extend(open.map(|(&a, &b)| (a, b, weight)));
        }
    }
    votes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn votes_add_up_until_they_decide() {
        let mut poll = Poll::default();
        poll.add([(1, 7, 4), (1, 8, 3)].into_iter(), |_, _| true);
        assert_eq!(poll.winners(), []);
        poll.add([(1, 7, 2), (2, 9, 1)].into_iter(), |_, _| true);
        assert_eq!(poll.winners(), [(1, 7, 6), (2, 9, 1)]);
        poll.add([].into_iter(), |old, _| old != 1);
        assert_eq!(poll.winners(), [(2, 9, 1)]);
    }

    #[test]
    fn what_was_taken_for_each_other_is_turned_round() {
        // A large and a small procedure at each other's place, and one that has changed.
        let (old, new) = ([400, 40, 100], [42, 390, 120]);
        let alike = |a: u32, b: u32| match (a, b) {
            (0, 1) | (1, 0) => 0.9,
            (2, 2) => 0.2,
            _ => 0.05,
        };
        let mut winners = vec![(0, 0, 4), (1, 1, 4), (2, 2, 4)];
        uncross(&mut winners, |a, b| (old[a as usize], new[b as usize]), alike);
        assert_eq!(winners, [(0, 1, 4), (1, 0, 4), (2, 2, 4)]);
        // Partners that are alike are not compared with others.
        uncross(
            &mut winners,
            |a, b| (old[a as usize], new[b as usize]),
            |a, b| {
                assert!(a == 2 || b != 2, "{a} {b}");
                alike(a, b)
            },
        );
        assert_eq!(winners, [(0, 1, 4), (1, 0, 4), (2, 2, 4)]);
    }

    #[test]
    fn both_sides_must_choose_each_other() {
        let mut poll = Poll::default();
        poll.add([(1, 7, 4), (2, 7, 9)].into_iter(), |_, _| true);
        assert_eq!(poll.winners(), [(2, 7, 9)]);
    }
}
