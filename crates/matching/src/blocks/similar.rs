//! Beyond BMAT: blocks that no hash finds, because instructions were added, removed or put in another order. A pair is
//! as good as its contents are alike and as its neighbours are partners; the best pair is taken first, and makes those
//! around it better.

use super::{Found, Sides};
use crate::fingerprint::{Adjacency, Procedure, Way};
use crate::identity::Identities;
use crate::levels::mix;
use crate::matching::Branch;
use crate::pairing::Pairing;
use hashbrown::HashMap;
use relive_code::addr::LinkAddr;
use relive_code::dominators::DominatorTree;
use relive_code::graph::Graph;
use relive_code::isa::{Decode, Operand};
use relive_profile::model::{EdgeKind, Function, Level};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// What contents count for in a large block; the rest is for neighbours. In a block that weighs no more than the second,
/// half as much: a lone jump is like any other. Measured by `relive-benchmarks precision`: right and found both grow by
/// 0.05 points over contents that always count 0.6.
const CONTENT: f64 = 0.7;
const SMALL: f64 = 2.0;

/// What a neighbour counts for that is reached another way: in general, and if the branches ask the same.
const OTHER_WAY: f64 = 0.8;
const WRONG_WAY: f64 = 0.2;

/// What places in the structure of the function count for, beside neighbours that count one each.
const SAME_LOOP: f64 = 0.5;
const SAME_DOMINATOR: f64 = 1.0;
const SAME_ORDER: f64 = 0.5;

/// What all ways through jump tables together count for, and how much of that if the entry of the table is another.
const SAME_CASE: f64 = 2.0;
const OTHER_CASE: f64 = 0.3;

/// Small numbers are everywhere.
const SMALL_NUMBER: f32 = 0.6;

/// Neighbours that are looked at: a jump table has hundreds.
const MOST_NEIGHBOURS: usize = 64;

/// What similarity asks of two procedures, whatever is matched already.
pub(crate) struct Contents<'a> {
    sides: &'a Sides<'a>,
    old: Tokens<'a>,
    new: Tokens<'a>,
    places: (Place, Place),
    /// How alike the contents of pairs are, and what they weigh.
    known: HashMap<(u32, u32), (f64, f64)>,
}

impl<'a> Contents<'a> {
    pub(crate) fn new(sides: &'a Sides<'a>, old: &'a Function, new: &'a Function) -> Self {
        Self {
            sides,
            old: Tokens::new(sides.old, old, &sides.ids.old),
            new: Tokens::new(sides.new, new, &sides.ids.new),
            places: (Place::new(sides.old, old), Place::new(sides.new, new)),
            known: HashMap::new(),
        }
    }

    /// How alike two blocks are by themselves, from 0 to 1, and what the larger one weighs.
    fn alike(&mut self, old: u32, new: u32) -> (f64, f64) {
        *self.known.entry((old, new)).or_insert_with(|| alike(self.old.of(old), self.new.of(new)))
    }
}

/// Matches what is at least that similar, from 0 to 1.
pub(crate) fn run(contents: &mut Contents<'_>, pairs: &mut Pairing<Found>, least: f64) {
    let sides = contents.sides;
    let mut search = Search::new(contents, least);
    let first: Vec<(u32, u32)> = pairs.pairs().map(|(old, new, _)| (old, new)).collect();
    for (old, new) in first {
        search.look_around(old, new, pairs);
    }
    if let (Some(old), Some(new)) = (sides.old.entry, sides.new.entry) {
        search.look_at(old, new, pairs);
    }
    while let Some(Candidate { score, old, new }) = search.heap.pop() {
        if pairs.of_old(old).is_some() || pairs.of_new(new).is_some() {
            continue;
        }
        // It may have become better since, and worse it cannot become.
        let now = search.score(old, new, pairs);
        if now > score + 1e-9 {
            search.heap.push(Candidate { score: now, old, new });
        } else if pairs.pair(old, new, Found::Content(Level::Similar)) {
            search.look_around(old, new, pairs);
        }
    }
}

/// How well the pair of each new block fits in the end: how much of what is around the two are partners, from 0 to 1.
pub(crate) fn fits(contents: &mut Contents<'_>, pairs: &Pairing<Found>) -> Vec<f64> {
    let mut fits = vec![0.0; contents.sides.new.blocks.len()];
    let mut search = Search::new(contents, 1.0);
    for (old, new, _) in pairs.pairs() {
        fits[new as usize] = search.around(old, new, pairs);
    }
    fits
}

/// New blocks whose partners are in another place of the function: all ways to the one lead through some block, all ways to the other
/// through another, and those two are no partners. Cases of an interpreter have code in common that way: what looks the same
/// belongs to another case. Believed is who fits better, the pair or those above it.
pub(crate) fn strays(contents: &Contents<'_>, pairs: &Pairing<Found>, fits: &[f64]) -> Vec<u32> {
    let (olds, news) = (&contents.places.0, &contents.places.1);
    let is_stray = |&(old, new, _): &(u32, u32, Found)| {
        // The closest above each of them that have partners, and those.
        let Some((_, new_of_old)) = olds.closest_above(old, |block| pairs.of_old(block)) else {
            return false;
        };
        let Some((above_new, old_of_new)) = news.closest_above(new, |block| pairs.of_new(block)) else {
            return false;
        };
        !olds.dominators.dominates(old_of_new, old)
            && !news.dominators.dominates(new_of_old, new)
            && fits[new as usize] < fits[above_new as usize].min(fits[new_of_old as usize])
    };
    pairs.pairs().filter(is_stray).map(|(_, new, _)| new).collect()
}

struct Candidate {
    score: f64,
    old: u32,
    new: u32,
}

impl Candidate {
    fn key(&self) -> (f64, u32, u32) {
        (self.score, u32::MAX - self.old, u32::MAX - self.new)
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.key(), other.key());
        a.0.total_cmp(&b.0).then_with(|| (a.1, a.2).cmp(&(b.1, b.2)))
    }
}

struct Search<'a, 'c> {
    sides: &'a Sides<'a>,
    contents: &'c mut Contents<'a>,
    /// Of partners that jump through tables.
    tables: HashMap<(u32, u32), Entries>,
    heap: BinaryHeap<Candidate>,
    least: f64,
}

impl<'a, 'c> Search<'a, 'c> {
    fn new(contents: &'c mut Contents<'a>, least: f64) -> Self {
        Self { sides: contents.sides, contents, tables: HashMap::new(), heap: BinaryHeap::new(), least }
    }

    /// Looks at pairs of blocks beside two partners: before and behind them in the flow, and in the file.
    fn look_around(&mut self, old: u32, new: u32, pairs: &Pairing<Found>) {
        for (olds, news) in
            [(&self.sides.old.out, &self.sides.new.out), (&self.sides.old.into, &self.sides.new.into)]
        {
            let free_old: Vec<u32> = free(olds, old, |b| pairs.of_old(b).is_none());
            let free_new: Vec<u32> = free(news, new, |b| pairs.of_new(b).is_none());
            for &a in &free_old {
                for &b in &free_new {
                    self.look_at(a, b, pairs);
                }
            }
        }
        if (old as usize) + 1 < self.sides.old.blocks.len()
            && (new as usize) + 1 < self.sides.new.blocks.len()
        {
            self.look_at(old + 1, new + 1, pairs);
        }
        if old > 0 && new > 0 {
            self.look_at(old - 1, new - 1, pairs);
        }
    }

    fn look_at(&mut self, old: u32, new: u32, pairs: &Pairing<Found>) {
        if pairs.of_old(old).is_some() || pairs.of_new(new).is_some() {
            return;
        }
        let score = self.score(old, new, pairs);
        if score >= self.least {
            self.heap.push(Candidate { score, old, new });
        }
    }

    fn score(&mut self, old: u32, new: u32, pairs: &Pairing<Found>) -> f64 {
        let around = self.around(old, new, pairs);
        let (content, size) = self.contents.alike(old, new);
        let weight = CONTENT * size / (size + SMALL);
        weight * content + (1.0 - weight) * around
    }

    /// How much of what is around them are partners, from 0 to 1.
    fn around(&mut self, old: u32, new: u32, pairs: &Pairing<Found>) -> f64 {
        let (mut fitting, mut all) = (0.0, 0.0);
        for (olds, news, forward) in [
            (&self.sides.old.out, &self.sides.new.out, true),
            (&self.sides.old.into, &self.sides.new.into, false),
        ] {
            let (olds, news) = (olds.of(old), news.of(new));
            let is_case = |(_, way): &&(u32, Way)| way.kind == EdgeKind::Case;
            let plain = |ways: &[(u32, Way)]| ways.iter().filter(|way| !is_case(way)).count();
            all += plain(olds).max(plain(news)).min(MOST_NEIGHBOURS) as f64;
            // All ways through tables together are one neighbour: a block that a hundred jumps lead to is no better
            // known for it.
            let (mut cases, mut fitting_cases) = (0.0, 0.0);
            let sides = self.sides;
            for &(x, way) in olds.iter().take(MOST_NEIGHBOURS) {
                let Some(y) = pairs.of_old(x) else { continue };
                let first = news.partition_point(|(n, _)| *n < y);
                let mut between = news[first..].iter().take_while(|(n, _)| *n == y).map(|(_, way)| *way);
                if way.kind == EdgeKind::Case {
                    cases += 1.0;
                }
                let Some(other) = between.next() else { continue };
                if way.kind == EdgeKind::Case && other.kind == EdgeKind::Case {
                    let jump = if forward { (old, new) } else { (x, y) };
                    let table =
                        self.tables.entry(jump).or_insert_with(|| Entries::new(sides, jump.0, jump.1, pairs));
                    fitting_cases += match table.translate(way.entry) {
                        Some(entry) if entry == other.entry => 1.0,
                        Some(_) => OTHER_CASE,
                        None => 0.6,
                    };
                } else {
                    let (a, b) = if forward { (old, new) } else { (x, y) };
                    let way = self.sides.same_way(a, b, way);
                    fitting += if way == other || between.any(|other| other == way) {
                        1.0
                    } else if self.sides.branch(a, b) == Branch::Other {
                        OTHER_WAY
                    } else {
                        WRONG_WAY
                    };
                }
            }
            if olds.iter().any(|way| is_case(&way)) || news.iter().any(|way| is_case(&way)) {
                all += SAME_CASE;
                if cases > 0.0 {
                    fitting += SAME_CASE * fitting_cases / cases;
                }
            }
        }
        let (old_place, new_place) = (&self.contents.places.0, &self.contents.places.1);
        let mut relation = |a: Option<u32>, b: Option<u32>, weight: f64| {
            all += weight;
            fitting += match (a, b) {
                (None, None) => weight,
                (Some(a), Some(b)) if pairs.of_old(a) == Some(b) => weight,
                // Nothing is known yet.
                (Some(a), Some(b)) if pairs.of_old(a).is_none() && pairs.of_new(b).is_none() => 0.5 * weight,
                _ => 0.0,
            };
        };
        relation(old_place.header(old), new_place.header(new), SAME_LOOP);
        relation(old_place.above(old), new_place.above(new), SAME_DOMINATOR);
        let next = |block: u32, len: usize| (block as usize + 1 < len).then(|| block + 1);
        relation(old.checked_sub(1), new.checked_sub(1), SAME_ORDER);
        relation(next(old, self.sides.old.blocks.len()), next(new, self.sides.new.blocks.len()), SAME_ORDER);
        // The entry has no other.
        if Some(old) == self.sides.old.entry && Some(new) == self.sides.new.entry {
            (fitting, all) = (fitting + 2.0, all + 2.0);
        }
        if all > 0.0 { fitting / all } else { 0.0 }
    }
}

/// Which entry of an old jump table is which of a new one: cases are added and removed, so that those behind them
/// move, but seldom change their order.
struct Entries {
    /// Entries that lead to partners, ascending in both.
    anchors: Vec<(u32, u32)>,
}

impl Entries {
    fn new(sides: &Sides<'_>, old: u32, new: u32, pairs: &Pairing<Found>) -> Self {
        let of_new: HashMap<u32, u32> = cases(&sides.new.out, new).collect();
        let mut both: Vec<(u32, u32)> = cases(&sides.old.out, old)
            .filter_map(|(to, entry)| Some((entry, *of_new.get(&pairs.of_old(to)?)?)))
            .collect();
        both.sort_unstable();
        Self { anchors: longest_ascending(&both) }
    }

    /// The new number of an old entry, if it is clear.
    fn translate(&self, entry: u32) -> Option<u32> {
        let behind = self.anchors.partition_point(|(old, _)| *old <= entry);
        let before = behind.checked_sub(1).map(|i| self.anchors[i]);
        match (before, self.anchors.get(behind)) {
            (Some((old, new)), _) if old == entry => Some(new),
            (Some((a, b)), Some((c, d))) => (c - a == d - b).then(|| b + (entry - a)),
            (Some((a, b)), None) => Some(b + (entry - a)),
            (None, Some((c, d))) => d.checked_sub(c - entry),
            (None, None) => Some(entry),
        }
    }
}

/// The cases of a jump: where each leads, and its entry.
fn cases(out: &Adjacency, jump: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
    out.of(jump).iter().filter(|(_, way)| way.kind == EdgeKind::Case).map(|&(to, way)| (to, way.entry))
}

/// The longest part of pairs, which are in the order of their first number, that is in the order of the second too.
fn longest_ascending(pairs: &[(u32, u32)]) -> Vec<(u32, u32)> {
    // The last pair of the best part of each length, and for each pair the one before it.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (i, &(_, second)) in pairs.iter().enumerate() {
        let len = ends.partition_point(|&end| pairs[end].1 < second);
        before.push(len.checked_sub(1).map(|l| ends[l]));
        if len == ends.len() {
            ends.push(i);
        } else {
            ends[len] = i;
        }
    }
    let mut part = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(i) = next {
        part.push(pairs[i]);
        next = before[i];
    }
    part.reverse();
    part
}

/// Where blocks are in the structure of their function.
struct Place {
    /// The header of the innermost loop.
    headers: Vec<Option<u32>>,
    /// The block that every way from the entry leads through last.
    dominators: DominatorTree,
}

impl Place {
    fn new(procedure: &Procedure, function: &Function) -> Self {
        let mut headers = vec![None; function.blocks.len()];
        // Outer loops come before those inside.
        for looped in &function.loops {
            for &block in &looped.blocks {
                headers[block as usize] = Some(looped.header);
            }
        }
        let blocks = procedure.blocks.len();
        let edges: Vec<(u32, u32)> = (0..blocks as u32)
            .flat_map(|from| procedure.out.of(from).iter().map(move |&(to, _)| (from, to)))
            .collect();
        let roots: Vec<u32> = (0..blocks as u32)
            .filter(|&b| Some(b) == procedure.entry || procedure.into.of(b).is_empty())
            .collect();
        Self { headers, dominators: DominatorTree::new(&Graph::from_edges(blocks, &edges), &roots) }
    }

    fn header(&self, block: u32) -> Option<u32> {
        self.headers[block as usize].filter(|&header| header != block)
    }

    fn above(&self, block: u32) -> Option<u32> {
        self.dominators.immediate(block)
    }

    /// The closest block that every way to this one leads through and that has a partner, and which.
    fn closest_above(&self, block: u32, partner: impl Fn(u32) -> Option<u32>) -> Option<(u32, u32)> {
        std::iter::successors(self.above(block), |&above| self.above(above))
            .find_map(|above| Some((above, partner(above)?)))
    }
}

fn free(adjacency: &Adjacency, block: u32, is_free: impl Fn(u32) -> bool) -> Vec<u32> {
    let mut free: Vec<u32> =
        adjacency.of(block).iter().map(|&(b, _)| b).filter(|&b| is_free(b)).take(MOST_NEIGHBOURS).collect();
    free.dedup();
    free
}

/// What a block consists of, in no order, each with its weight.
type Bag = Vec<(u64, f32)>;

/// What blocks consist of; found out when it is asked for, as most blocks have a partner by then.
struct Tokens<'a> {
    procedure: &'a Procedure,
    function: &'a Function,
    ids: &'a Identities,
    bags: Vec<Option<Bag>>,
}

impl<'a> Tokens<'a> {
    fn new(procedure: &'a Procedure, function: &'a Function, ids: &'a Identities) -> Self {
        Self { procedure, function, ids, bags: vec![None; procedure.blocks.len()] }
    }

    fn of(&mut self, block: u32) -> &Bag {
        self.bags[block as usize]
            .get_or_insert_with(|| tokens(self.procedure, self.function, self.ids, block))
    }
}

/// How alike two blocks are, from 0 to 1, and what the larger one weighs.
fn alike(a: &Bag, b: &Bag) -> (f64, f64) {
    let (mut i, mut j, mut common) = (0, 0, 0.0);
    while i < a.len() && j < b.len() {
        match a[i].0.cmp(&b[j].0) {
            Ordering::Less => i += 1,
            Ordering::Greater => j += 1,
            Ordering::Equal => {
                common += f64::from(a[i].1);
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    let sum = |bag: &Bag| bag.iter().map(|&(_, weight)| f64::from(weight)).sum::<f64>();
    let all = sum(a).max(sum(b));
    if all > 0.0 { (common / all, all) } else { (1.0, 0.0) }
}

/// What says the same about a block whatever the order of its instructions and whichever its registers: operations
/// with the kinds of their operands, fields and constants, and above all what it refers to.
fn tokens(procedure: &Procedure, function: &Function, ids: &Identities, number: u32) -> Bag {
    let block = &function.blocks[number as usize];
    let bytes = function.bytes_at(block.address, block.size.into()).unwrap_or_default();
    let mut tokens = Vec::new();
    for insn in Decode::new(bytes, LinkAddr(block.address)) {
        if insn.is_padding() || insn.is_landing_mark() {
            continue;
        }
        let mut whole = u64::from(insn.group());
        for operand in insn.operands() {
            let kind = match operand {
                Operand::Register(_) => 1,
                Operand::Immediate(value) => {
                    let weight = if (-1..=8).contains(&value) { SMALL_NUMBER } else { 1.0 };
                    tokens.push((mix(2, value.cast_unsigned()), weight));
                    2
                }
                Operand::Memory(memory) => {
                    let in_frame = memory.base.is_some_and(|base| base.number == 4);
                    if !memory.fixed && !in_frame && memory.displacement != 0 {
                        tokens.push((mix(3, memory.displacement.cast_unsigned()), 0.7));
                    }
                    3
                }
                Operand::Target(_) => 4,
            };
            whole = mix(whole, kind);
        }
        tokens.push((whole, 1.0));
    }
    for &reference in procedure.references_of(number) {
        let id = ids.of(reference);
        if id != 0 {
            tokens.push((mix(4, id), 2.0));
        }
    }
    tokens.sort_unstable_by_key(|token| token.0);
    tokens
}
