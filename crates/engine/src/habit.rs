//! Which way a traced program usually goes from a place that is often entered, by what it has written down last.
//!
//! Units that follow such a way leave one record where there were several, and of registers that are known at the end of
//! one piece nothing has to be written down in the next.

use crate::cache::{Cache, patch};
use crate::log::Log;
use crate::maps::Maps;
use crate::places::NONE;
use crate::traces::{MOST_BYTES, MOST_LEGS, NEAR, is_plain};
use crate::translate::emit::reaches;
use crate::translate::{Leg, Source as _, Then, can_compare};
use alloc::vec::Vec;
use relive_abi::engine as abi;
use relive_abi::trace::{FIRST_TAG, MANY, MOST_TAGS, SPECIAL, count_of, payload, stopped_values, tag_of};

/// How many words are looked at: some thousand records.
pub(crate) const LATEST: usize = 1 << 13;
/// A record is seldom longer than so many words: one of the first so many begins one.
const LONGEST: usize = 128;
/// Values in one record at most: so that its first word says how many there are.
const MOST_VALUES: u32 = MANY as u32 - 1;

/// Of eight times, so often it goes the usual way at least. Who leaves the way knows other registers than who comes along it: there are more
/// versions of what comes next, or more is written down (bzip2, with 4: 3 % more, and a tenth more time).
const USUAL: usize = 7;
/// The same where no values are written down, and where it is computed where the way leads, which takes longer to look up than to compare (lua, with
/// 7: 4 % more, and a fifth more time).
const USUALLY_COMPUTED: usize = 4;

/// Calls one in the other, on one way, at most.
const MOST_CALLS: usize = 4;

/// A call that is followed, and has not come back yet.
struct Call {
    /// Where it does.
    back: u64,
    /// How many legs there are with it, and whether these are more than one unit.
    legs: usize,
    is_longer: bool,
}

impl Cache {
    /// A place of a program that is traced is often entered, by a thread that has written down `words` last.
    pub fn heat_traced(&mut self, old: u32, words: &[u32], maps: &mut Maps, log: &mut Log) {
        let entry = &mut self.units[old as usize];
        let (true, [door, on]) = (entry.is_valid, entry.door) else { return };
        entry.is_watched = false;
        patch(door, on);
        let legs = self.usual_way_by_records(old, words, maps);
        if legs.is_empty() {
            // Those who have the pointer in the same register need not come through the door any more.
            let pc = self.units[old as usize].pc;
            let mut way = self.places.way(pc);
            while let Some(number) = way {
                let exit = self.exits[number as usize];
                if exit.leads == old && exit.aside.is_some() {
                    self.link(number, old, maps, log);
                }
                way = exit.next();
            }
            return;
        }
        if let Some(new) = self.replace(old, legs, maps, log) {
            let body = self.units[new as usize].body;
            if reaches(door, body) {
                patch(door, body);
            }
        }
    }

    /// The way from the beginning of a unit, in a thread that has written down `words` last; none if there is no usual one.
    pub(crate) fn usual_way_by_records(&self, head: u32, words: &[u32], maps: &Maps) -> Vec<Leg> {
        let Some(exits) = (0..LONGEST.min(words.len())).find_map(|from| self.exits_of(&words[from..])) else {
            return Vec::new();
        };
        let start = self.units[head as usize].pc;
        let is_head = |&at: &usize| self.unit_at_exit(exits[at]) == Some(head);
        let mut at: Vec<usize> = (0..exits.len()).filter(is_head).collect();
        let enough = (at.len() / 4).max(2);
        let mut legs: Vec<Leg> = Vec::new();
        let mut calls: Vec<Call> = Vec::new();
        let (mut bytes, mut values, mut is_longer) = (0, 0, false);
        while let Some(exit) = mode(at.iter().map(|&at| exits[at])).filter(|_| at.len() >= enough) {
            let Some(unit) = self.unit_at_exit(exit) else { break };
            values += u32::from(self.exits[exit as usize].values);
            let before = legs.len();
            let is_usual =
                at.iter().filter(|&&at| exits[at] == exit).count() * 8 >= at.len() * self.least_share(exit);
            let all = at.len();
            at.retain(|&at| exits[at] == exit && at + 1 < exits.len());
            let next: Vec<u64> = at.iter().filter_map(|&at| self.start_of(exits[at + 1])).collect();
            let to = mode(next.iter().copied());
            let turn = to
                .filter(|_| is_usual)
                .and_then(|to| self.turn(exit, to, &calls, maps).map(|then| (then, to)));
            is_longer |= before > 0;
            let Some((then, to)) = turn else {
                self.add_legs(unit, usize::MAX, &mut legs);
                break;
            };
            self.add_legs(unit, self.exits[exit as usize].piece.into(), &mut legs);
            let Some(last) = legs.last_mut() else { break };
            last.then = then;
            for (count, leg) in (1..).zip(&legs).skip(before) {
                match leg.then {
                    then if then.is_call() => calls.push(Call { back: leg.end, legs: count, is_longer }),
                    Then::Returned(_) => _ = calls.pop(),
                    _ => {}
                }
            }
            bytes += legs[before..].iter().map(|leg| leg.end - leg.start).sum::<u64>();
            at.iter_mut().for_each(|at| *at += 1);
            at.retain(|&at| self.start_of(exits[at]) == Some(to));
            let is_rare = at.len() * 2 < all;
            let is_full = bytes > MOST_BYTES || legs.len() > MOST_LEGS || values > MOST_VALUES;
            // A function may be called more than once.
            let is_again = calls.is_empty() && legs.iter().any(|leg| leg.start == to);
            // What goes round by itself is a way of its own.
            let is_loop = to != start && at.first().is_some_and(|&at| self.is_loop_at(exits[at]));
            let is_elsewhere = to.abs_diff(start) > NEAR || maps.find(to).is_none();
            if is_rare || is_full || is_elsewhere || to == start || is_again || is_loop {
                break;
            }
        }
        // Who goes into a call comes back.
        if let Some(&Call { legs: count, is_longer: before, .. }) = calls.first() {
            legs.truncate(count);
            is_longer = before;
        }
        // What does not come next is not guessed.
        if let Some(last) = legs.last_mut()
            && last.then != Then::Taken
        {
            last.then = Then::On;
        }
        if is_longer { legs } else { Vec::new() }
    }

    /// The exits by which units were left, one after the other, [`NONE`] where something else happened; `None` if `words`
    /// do not begin with a record.
    fn exits_of(&self, words: &[u32]) -> Option<Vec<u32>> {
        let first = self.tags?.first;
        let mut exits = Vec::new();
        let mut at = 0;
        while at < words.len() {
            let word = words[at];
            let tag = tag_of(word);
            let (exit, len) = if word & SPECIAL != 0 {
                (NONE, usize::from(stopped_values(tag).unwrap_or(0)) * 2 + payload(tag)? / size_of::<u32>())
            } else {
                let exit = tag.checked_sub(first).filter(|&exit| (exit as usize) < self.exits.len());
                let is_tag = (FIRST_TAG..MOST_TAGS).contains(&tag);
                let values = exit.map_or(count_of(word), |exit| self.exits[exit as usize].values.into());
                let is_right = is_tag && values.min(MANY.into()) == count_of(word);
                (
                    exit.filter(|_| is_right).or((is_right && exit.is_none()).then_some(NONE))?,
                    values as usize * 2,
                )
            };
            exits.push(exit);
            at += 1 + len;
        }
        (at == words.len()).then_some(exits)
    }

    /// Of eight times, how often the way has to go by an exit.
    fn least_share(&self, exit: u32) -> usize {
        let has_values = self.tags.is_some_and(|tags| tags.memory);
        match self.exits[exit as usize].kind {
            abi::BRANCH | abi::STRAY | abi::JUMP if has_values => USUAL,
            _ => USUALLY_COMPUTED,
        }
    }

    fn unit_at_exit(&self, exit: u32) -> Option<u32> {
        if exit == NONE { None } else { self.unit_of(exit) }
    }

    /// Whether the unit with an exit leads to itself.
    fn is_loop_at(&self, exit: u32) -> bool {
        self.unit_at_exit(exit).is_some_and(|unit| self.units[unit as usize].is_loop)
    }

    /// Where the unit with an exit begins.
    fn start_of(&self, exit: u32) -> Option<u64> {
        self.unit_at_exit(exit).map(|unit| self.units[unit as usize].pc)
    }

    /// How the way goes on if a unit is left by an exit and the next one begins at `to`.
    fn turn(&self, exit: u32, to: u64, calls: &[Call], maps: &Maps) -> Option<Then> {
        let exit = &self.exits[exit as usize];
        match exit.kind {
            abi::BRANCH => (exit.to == to && is_plain(exit.from, maps)).then_some(Then::Taken),
            abi::JUMP | abi::STRAY => (exit.to == to).then_some(Then::On),
            abi::CALL => (exit.to == to && calls.len() < MOST_CALLS).then_some(Then::Called),
            abi::RETURN => calls
                .last()
                .is_some_and(|call| call.back == to && can_compare(to))
                .then_some(Then::Returned(to)),
            abi::INDIRECT_JUMP | abi::INDIRECT_CALL => {
                let is_plain = maps.insn(exit.from).is_some_and(|insn| insn.rare().is_none());
                let then = match exit.kind {
                    abi::INDIRECT_JUMP => Some(Then::Guess(to)),
                    _ => (calls.len() < MOST_CALLS).then_some(Then::GuessedCall(to)),
                };
                then.filter(|_| is_plain && can_compare(to))
            }
            _ => None,
        }
    }

    /// Adds the legs of a unit, up to that of a piece.
    fn add_legs(&self, unit: u32, last: usize, legs: &mut Vec<Leg>) {
        let entry = &self.units[unit as usize];
        let before = legs.len();
        let (start, len) = entry.pieces;
        let pieces = &self.pieces[start as usize..][..len as usize];
        match entry.legs[..] {
            [] => self.add_all(unit, legs),
            ref way => legs.extend(way.iter().zip(pieces).map(|(leg, piece)| match leg.end == piece.end {
                true => *leg,
                // There was no register left for the rest of it.
                false => Leg { end: piece.end, then: Then::On, ..*leg },
            })),
        }
        legs.truncate(before + last.saturating_add(1).min(legs.len()));
    }
}

/// What there is most of.
fn mode<T: Copy + Ord>(all: impl Iterator<Item = T>) -> Option<T> {
    let mut all: Vec<T> = all.collect();
    all.sort_unstable();
    all.chunk_by(|a, b| a == b).max_by_key(|same| same.len()).map(|same| same[0])
}
