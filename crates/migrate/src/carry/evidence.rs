//! What old counts say about the blocks and edges of a new function.

use super::{Old, across, callees};
use hashbrown::HashMap;
use relive_matching::blocks::Found;
use relive_matching::matching::{BlockPair, Branch, Procedures};
use relive_profile::model::{
    Callee, Confidence, Count, Edge, EdgeKind, Function, Level, Module, Node, Origin, State,
};

/// How likely a match is right, in per cent. Debug information calls those right of which nothing around them are partners
/// in the first share of cases, and those that fit in whole in the second (`relive-benchmarks precision`, over the pairs
/// of versions of the development corpus). In between, a little that fits tells the most.
fn confidence(pair: &BlockPair) -> u8 {
    let (alone, fitting) = match pair.found {
        Found::Content(level) => match level {
            Level::Exact | Level::One | Level::Two | Level::Similar => (50.0, 99.0),
            Level::Three | Level::Four => (40.0, 99.0),
            Level::LastOne => (75.0, 95.0),
            Level::LastThree => (20.0, 90.0),
            Level::Five => (15.0, 85.0),
        },
        Found::ControlFlow => (50.0, 50.0),
    };
    let apart = 1.0 - f64::from(pair.fit) / 100.0;
    (fitting + (alone - fitting) * apart * apart) as u8
}

/// A block that partners lead to only by the other way of their branch is at most this likely right, in per cent: it may well be what
/// its neighbour was.
const WRONG_WAY: u8 = 80;

/// A block that only shares an old one runs at most as often.
const PARTIAL: u8 = 20;

/// What is known of a count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) count: u64,
    pub(super) origin: Origin,
    pub(super) confidence: Confidence,
}

/// What is known of a function.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    /// By block.
    pub(super) blocks: Vec<Option<Seen>>,
    /// By edge.
    pub(super) edges: Vec<Option<Seen>>,
    /// By edge, how likely it is in the branch it is of.
    pub(super) odds: Vec<Option<f64>>,
}

impl Evidence {
    pub(super) fn nothing(function: &Function) -> Self {
        Self {
            blocks: vec![None; function.blocks.len()],
            edges: vec![None; function.edges.len()],
            odds: vec![None; function.edges.len()],
        }
    }

    pub(super) fn is_any(&self) -> bool {
        self.blocks.iter().chain(&self.edges).any(Option::is_some)
    }
}

/// What `olds`, of which the first weighs most and each further one `older` times as much as the one before, say about
/// each function of `new`.
pub(super) fn of(new: &Module, olds: &[&Old<'_>], older: f64) -> Vec<Evidence> {
    let mut all: Vec<Evidence> = new.functions.iter().map(Evidence::nothing).collect();
    let Some((first, others)) = olds.split_first() else { return all };
    add_build(new, first, |i, evidence| all[i] = evidence);
    let mut weight = 1.0;
    for old in others {
        weight *= older;
        let mut more: Vec<Option<Evidence>> = new.functions.iter().map(|_| None).collect();
        add_build(new, old, |i, evidence| more[i] = Some(evidence));
        let scale = scale(&all, &more);
        for (sum, more) in all.iter_mut().zip(more) {
            if let Some(more) = more {
                mix(&mut sum.blocks, &more.blocks, weight, scale);
                mix(&mut sum.edges, &more.edges, weight, scale);
                fill(&mut sum.odds, &more.odds);
            }
        }
    }
    all
}

/// What to multiply further counts with so that on what both know they add up to the same.
fn scale(all: &[Evidence], more: &[Option<Evidence>]) -> f64 {
    let (mut ours, mut theirs) = (0u128, 0u128);
    for (sum, more) in all.iter().zip(more) {
        let Some(more) = more else { continue };
        for (a, b) in sum.blocks.iter().zip(&more.blocks) {
            if let (Some(a), Some(b)) = (a, b) {
                ours += u128::from(a.count);
                theirs += u128::from(b.count);
            }
        }
    }
    if ours == 0 || theirs == 0 { 1.0 } else { ours as f64 / theirs as f64 }
}

/// Adds what is not there yet.
pub(super) fn fill(odds: &mut [Option<f64>], more: &[Option<f64>]) {
    odds.iter_mut().zip(more).for_each(|(odds, more)| *odds = odds.or(*more));
}

/// Mixes further evidence in: a weighted mean where both know something.
fn mix(sum: &mut [Option<Seen>], more: &[Option<Seen>], weight: f64, scale: f64) {
    for (sum, more) in sum.iter_mut().zip(more) {
        let Some(more) = more else { continue };
        let scaled = Seen { count: (more.count as f64 * scale).round() as u64, ..*more };
        *sum = Some(match *sum {
            None => scaled,
            Some(own) => {
                let (a, b) =
                    (f64::from(own.confidence.percent()), f64::from(scaled.confidence.percent()) * weight);
                let mean = (own.count as f64 * a + scaled.count as f64 * b) / (a + b).max(1.0);
                // What the newest build never did is most likely not done.
                let count = if own.count == scaled.count { own.count } else { mean.round() as u64 };
                Seen { count, origin: own.origin.max(scaled.origin), confidence: own.confidence }
            }
        });
    }
}

/// The evidence of one old build, function by function.
fn add_build(new: &Module, old: &Old<'_>, mut put: impl FnMut(usize, Evidence)) {
    let mut all: Vec<Option<Evidence>> = vec![None; new.functions.len()];
    let clones = across::clones(old);
    let left = across::left(old, &clones);
    let builds = callees::Both::new(old, new);
    let same = |old, new| builds.same(old, new);
    let counted = |old: &Function| matches!(old.state, State::Measured | State::EntryOnly { .. });
    let mut joined = vec![false; new.functions.len()];
    for pair in &old.matching.across {
        joined[pair.new.copies[0].procedure as usize] = true;
        if counted(&pair.old.function) {
            across::add(new, pair, left[pair.old.copies[0].procedure as usize], &same, &mut all);
        }
    }
    let own = old.matching.procedures.iter().map(|found| (found, left[found.pair.old as usize]));
    let cloned = old.matching.clones.iter().map(|clone| &clone.procedures).zip(clones);
    for (Procedures { pair, blocks, partial }, share) in own.chain(cloned) {
        let before = &old.module.functions[pair.old as usize];
        if counted(before) && !joined[pair.new as usize] {
            let mut found = of_function(before, &new.functions[pair.new as usize], blocks, partial, &same);
            across::scale(&mut found, share);
            across::plus(&mut all[pair.new as usize], found);
        }
    }
    for (i, evidence) in all.into_iter().enumerate() {
        if let Some(evidence) = evidence {
            put(i, evidence);
        }
    }
}

/// Whether an old call and a new one are of the same function.
pub(super) type SameCallee<'a> = dyn Fn(Callee, Callee) -> bool + 'a;

/// What `old` says about `new`, by blocks that belong together and new ones that share an old one.
pub(super) fn of_function(
    old: &Function,
    new: &Function,
    blocks: &[BlockPair],
    partial: &[(u32, u32)],
    same: &SameCallee<'_>,
) -> Evidence {
    let mut evidence = Evidence::nothing(new);
    let mut partner: Vec<Option<Partner>> = vec![None; new.blocks.len()];
    let mut branches = vec![Branch::Other; new.blocks.len()];
    for block in blocks {
        branches[block.new as usize] = block.branch;
        let origin = match block.found {
            Found::Content(level) => Origin::Matched(level),
            Found::ControlFlow => Origin::ControlFlow,
        };
        partner[block.new as usize] = Some((block.old, confidence(block), origin));
    }
    let (ways, contradicted) = same_ways(old, new, &mut partner, &branches, same);
    for (i, found) in partner.iter().enumerate() {
        if let Some((block, percent, origin)) = *found {
            evidence.blocks[i] = seen(old.blocks[block as usize].count, percent, origin);
        }
    }
    for &(block, shared) in partial {
        let count = old.blocks[shared as usize].count;
        evidence.blocks[block as usize] = seen(count, PARTIAL, Origin::ControlFlow);
    }
    for ((seen_edge, edge), way) in evidence.edges.iter_mut().zip(&new.edges).zip(ways) {
        if let (Some((count, sure)), Some((_, a, x)), Some((_, b, y))) =
            (way, partner_of(edge.from, &partner), partner_of(edge.to, &partner))
        {
            *seen_edge = seen(Some(count), (u32::from(a.min(b)) * sure / 100) as u8, x.max(y));
        }
    }
    of_branches(old, new, blocks, &contradicted, &mut evidence);
    evidence
}

/// What a node was in the old build, how likely that is in per cent, and how it was found.
type Partner = (u32, u8, Origin);

fn partner_of(node: Node, partner: &[Option<Partner>]) -> Option<(Node, u8, Origin)> {
    match node.as_block() {
        Some(block) => partner[block as usize].map(|(b, percent, origin)| (Node::block(b), percent, origin)),
        None if node.is_outside() => Some((Node::OUTSIDE, 100, Origin::Measured)),
        // Hubs have no partners.
        None => None,
    }
}

/// For each edge of `new`, the count of the old edge between the partners of its ends, and how sure that is in per cent. Partners that
/// are only reached by the wrong way of a branch become less sure, unless they call what tells them from what lies the other way: then the
/// branch asks the opposite now, whatever it looks like, and the second list says so of its block. (A number whose sign changed its
/// meaning: `GCdebt` of lua 5.5.0.)
fn same_ways(
    old: &Function,
    new: &Function,
    partner: &mut [Option<Partner>],
    branches: &[Branch],
    same: &SameCallee<'_>,
) -> (Vec<Option<(Count, u32)>>, Vec<bool>) {
    let edges = Edges::new(old);
    let callees = (callees::of(old), callees::of(new));
    let mut contradicted = vec![false; new.blocks.len()];
    // For each block, whether a partner leads to it the way it did, and whether one does the other way.
    let mut reached = vec![(false, false); new.blocks.len()];
    let mut ways = vec![None; new.edges.len()];
    for (edge, way) in new.edges.iter().zip(&mut ways) {
        let (Some((from, ..)), Some((to, ..))) =
            (partner_of(edge.from, partner), partner_of(edge.to, partner))
        else {
            continue;
        };
        let asks = edge.from.as_block().map_or(Branch::Other, |block| branches[block as usize]);
        let turned = || is_turned(new, edge, partner, &edges, from, to);
        // Where the branch was turned round, what was taken falls through.
        let kind = if asks == Branch::Turned { opposite(edge.kind) } else { edge.kind };
        let callee = edge.to.as_block().and_then(|block| callees.1[block as usize]);
        let told_by_call = callee.is_some_and(|callee| {
            edges.only_opposite(from, to, kind, |block| {
                callees.0[block as usize].is_some_and(|before| same(before, callee))
            })
        });
        *way = edges.find(from, to, kind, || told_by_call || turned());
        if let Some(block) = edge.from.as_block().filter(|_| told_by_call) {
            contradicted[block as usize] = true;
        }
        if let Some(block) = edge.to.as_block() {
            let (same, other) = &mut reached[block as usize];
            *same |= way.is_some();
            *other |= way.is_none() && edges.by_ends.contains_key(&(from, to));
        }
    }
    for (partner, reached) in partner.iter_mut().zip(reached) {
        if let Some((_, percent, _)) = partner.as_mut().filter(|_| reached == (false, true)) {
            *percent = WRONG_WAY.min(*percent);
        }
    }
    (ways, contradicted)
}

/// A branch of a block that is less likely the same tells nothing, in per cent.
const LEAST_SURE: u8 = 50;

/// Wherever its ways lead now, a branch that asks the same is as likely to go each of them.
fn of_branches(
    old: &Function,
    new: &Function,
    blocks: &[BlockPair],
    contradicted: &[bool],
    evidence: &mut Evidence,
) {
    let (before, now) = (Ways::all(old), Ways::all(new));
    // What only control flow found asks something else as a rule.
    let asked = |pair: &&BlockPair| pair.branch != Branch::Other && pair.found != Found::ControlFlow;
    for pair in blocks.iter().filter(asked) {
        let (Some((taken, other)), Some(mut ways)) =
            (before[pair.old as usize].both(), now[pair.new as usize].both())
        else {
            continue;
        };
        if (pair.branch == Branch::Turned) != contradicted[pair.new as usize] {
            ways = (ways.1, ways.0);
        }
        let count = |edge: usize| old.edges[edge].count.map_or(0.0, |count| count.value() as f64);
        let (a, b) = (count(taken), count(other));
        if a + b == 0.0 || confidence(pair) < LEAST_SURE {
            continue;
        }
        // By the rule of succession: what never happened may.
        evidence.odds[ways.0] = Some((a + 1.0) / (a + b + 2.0));
        evidence.odds[ways.1] = Some((b + 1.0) / (a + b + 2.0));
    }
}

/// The other way out of a branch.
const fn opposite(kind: EdgeKind) -> EdgeKind {
    match kind {
        EdgeKind::Taken => EdgeKind::FallThrough,
        EdgeKind::FallThrough => EdgeKind::Taken,
        other => other,
    }
}

/// The two ways out of a block that ends with a branch, as edges.
#[derive(Clone, Copy, Default)]
pub(super) struct Ways {
    taken: Option<usize>,
    fall_through: Option<usize>,
}

impl Ways {
    /// Of all blocks.
    pub(super) fn all(function: &Function) -> Vec<Self> {
        let mut all = vec![Self::default(); function.blocks.len()];
        for (i, edge) in function.edges.iter().enumerate() {
            let Some(ways) = edge.from.as_block().map(|block| &mut all[block as usize]) else { continue };
            match edge.kind {
                EdgeKind::Taken | EdgeKind::TailCall => ways.taken = Some(i),
                EdgeKind::FallThrough => ways.fall_through = Some(i),
                _ => {}
            }
        }
        all
    }

    pub(super) fn both(self) -> Option<(usize, usize)> {
        Some((self.taken?, self.fall_through?))
    }
}

/// Whether an edge of `new` that was of another kind in the old build is the same edge all the same. An unconditional one
/// is; a branch the other way round is the same branch if its other way also leads to where it did. If not, the
/// way may lead through something new, and this one be new itself.
fn is_turned(
    new: &Function,
    edge: &Edge,
    partner: &[Option<Partner>],
    old: &Edges<'_>,
    from: Node,
    to: Node,
) -> bool {
    let mut others = new.edges.iter().filter(|other| other.from == edge.from && other.to != edge.to);
    let old_others: Vec<Node> =
        old.by_ends.keys().filter(|(f, t)| *f == from && *t != to).map(|(_, t)| *t).collect();
    match others.next() {
        None => old_others.is_empty(),
        Some(other) => {
            let leads = match other.to.as_block() {
                Some(block) => partner[block as usize].map(|(block, ..)| Node::block(block)),
                None => Some(other.to),
            };
            leads.is_some_and(|to| old_others.contains(&to))
        }
    }
}

/// A count of an old build as evidence; as unsure as the count and the match together.
fn seen(count: Option<Count>, percent: u8, origin: Origin) -> Option<Seen> {
    let count = count?;
    let confidence = u32::from(percent) * u32::from(count.confidence.percent()) / 100;
    Some(Seen {
        count: count.value(),
        // What was carried over before stays as unsure as it was.
        origin: match count.origin {
            Origin::Measured | Origin::Derived => origin,
            before => before.max(origin),
        },
        confidence: Confidence::new(confidence as u8),
    })
}

/// The edges of an old function by their ends.
struct Edges<'f> {
    by_ends: HashMap<(Node, Node), Vec<&'f Edge>>,
    /// Edges into and out of hubs.
    into_hubs: HashMap<Node, Vec<&'f Edge>>,
    out_of_hubs: HashMap<Node, u128>,
}

impl<'f> Edges<'f> {
    fn new(function: &'f Function) -> Self {
        let mut this =
            Self { by_ends: HashMap::new(), into_hubs: HashMap::new(), out_of_hubs: HashMap::new() };
        for edge in &function.edges {
            this.by_ends.entry((edge.from, edge.to)).or_default().push(edge);
            if edge.to.as_hub().is_some() {
                this.into_hubs.entry(edge.from).or_default().push(edge);
            }
            if edge.from.as_hub().is_some() {
                *this.out_of_hubs.entry(edge.from).or_default() +=
                    u128::from(edge.count.map_or(0, Count::value));
            }
        }
        this
    }

    /// Whether the way between two blocks is only the opposite of that `kind`, and the second of them makes a call that nothing else makes
    /// that the first leads to.
    fn only_opposite(&self, from: Node, to: Node, kind: EdgeKind, calls: impl Fn(u32) -> bool) -> bool {
        let calls = |node: Node| node.as_block().is_some_and(&calls);
        let opposite = opposite(kind);
        let Some(edges) = self.by_ends.get(&(from, to)).filter(|_| opposite != kind && calls(to)) else {
            return false;
        };
        let others = || self.by_ends.keys().filter(|(source, target)| *source == from && *target != to);
        edges.iter().all(|edge| edge.kind == opposite) && !others().any(|&(_, other)| calls(other))
    }

    /// The count of the edge between two nodes, and how sure that is in per cent.
    fn find(
        &self,
        from: Node,
        to: Node,
        kind: EdgeKind,
        turned: impl FnOnce() -> bool,
    ) -> Option<(Count, u32)> {
        if let Some(edges) = self.by_ends.get(&(from, to)) {
            let same = edges.iter().find(|edge| edge.kind == kind);
            let any = || edges.first().filter(|_| !to.is_outside() && turned());
            return same.or_else(any)?.count.map(|count| (count, 100));
        }
        // Jumps that share a table: each is taken to use it as all do together.
        let (hub, into) = self.into_hubs.get(&from)?.iter().find_map(|into| {
            let out = self.by_ends.get(&(into.to, to))?.first()?;
            Some((*out, *into))
        })?;
        let (out, into_count) = (hub.count?, into.count?);
        let all = self.out_of_hubs.get(&into.to).copied().unwrap_or(0).max(1);
        let share = u128::from(into_count.value()) * u128::from(out.value()) / all;
        Some((Count { raw: u64::try_from(share).unwrap_or(u64::MAX), ..into_count.plus(out) }, 50))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_profile::model::{Block, Call, CalledBy, TextId};

    /// A branch of which `taken` and `other` lead to the second and the third block.
    fn branching(taken: Option<u64>, other: Option<u64>) -> Function {
        let mut function = Function::new(TextId::default(), 0x1000, 12, State::Measured);
        let block = |address, count: Option<u64>| Block {
            address,
            size: 4,
            insns: 1,
            line: None,
            is_entry: false,
            is_landing_pad: false,
            counter: None,
            count: count.map(Count::measured),
        };
        let all = taken.zip(other).map(|(taken, other)| taken + other);
        function.blocks = vec![block(0x1000, all), block(0x1004, taken), block(0x1008, other)];
        let edge = |to, kind, count: Option<u64>| Edge {
            from: Node::block(0),
            to: Node::block(to),
            kind,
            counter: None,
            count: count.map(Count::measured),
        };
        function.edges = vec![edge(1, EdgeKind::Taken, taken), edge(2, EdgeKind::FallThrough, other)];
        function
    }

    fn never(_: Callee, _: Callee) -> bool {
        false
    }

    fn pair(block: u32, branch: Branch) -> BlockPair {
        BlockPair { old: block, new: block, found: Found::Content(Level::One), branch, fit: 100 }
    }

    #[test]
    fn a_branch_keeps_its_odds_wherever_it_leads() {
        let (old, new) = (branching(Some(98), Some(0)), branching(None, None));
        let odds = |branch| of_function(&old, &new, &[pair(0, branch)], &[], &never).odds;
        assert_eq!(odds(Branch::Same), [Some(0.99), Some(0.01)]);
        assert_eq!(odds(Branch::Turned), [Some(0.01), Some(0.99)]);
        assert_eq!(odds(Branch::Other), [None, None]);
    }

    /// Two partners behind a branch that was turned round, but not its ways: they cannot both be partners.
    #[test]
    fn ways_that_should_have_changed_places_tell_nothing() {
        let (old, new) = (branching(Some(90), Some(10)), branching(None, None));
        let edges =
            |branch| of_function(&old, &new, &[pair(0, branch), pair(1, Branch::Other)], &[], &never).edges;
        assert_eq!(edges(Branch::Same)[0].map(|seen| seen.count), Some(90));
        assert_eq!(edges(Branch::Turned)[0], None);
    }

    /// The same, but the block behind it calls what its neighbour never called.
    #[test]
    fn what_is_called_tells_more_than_what_is_asked() {
        let (mut old, mut new) = (branching(Some(90), Some(10)), branching(None, None));
        let call = |block, address| Call {
            by: CalledBy::Block(block),
            address: 0x1000,
            callee: Callee::Direct { address, name: TextId::default() },
        };
        let found = |old: &Function, new: &Function| {
            of_function(old, new, &[pair(0, Branch::Turned), pair(1, Branch::Other)], &[], &|old, new| {
                old == new
            })
        };
        old.calls = vec![call(1, 0x5000), call(2, 0x6000)];
        new.calls = vec![call(1, 0x5000)];
        let told = found(&old, &new);
        assert_eq!(told.blocks[1].map(|seen| seen.confidence.percent()), Some(99));
        assert_eq!(told.edges[0].map(|seen| seen.count), Some(90));
        assert!(told.odds[0] > told.odds[1], "{:?}", told.odds);
        old.calls[1] = call(2, 0x5000);
        assert_eq!(found(&old, &new).edges[0], None);
    }

    /// A branch that was turned round, and what lies behind one way was not: the block behind it may be what its neighbour was.
    #[test]
    fn what_is_reached_the_wrong_way_is_doubted() {
        let (old, new) = (branching(Some(90), Some(10)), branching(None, None));
        let sure = |branch| {
            let found = of_function(&old, &new, &[pair(0, branch), pair(1, Branch::Other)], &[], &never);
            found.blocks[1].map(|seen| seen.confidence.percent())
        };
        assert_eq!((sure(Branch::Same), sure(Branch::Turned)), (Some(99), Some(WRONG_WAY)));
    }

    #[test]
    fn what_fits_is_surer() {
        let sure = |fit, level| {
            confidence(&BlockPair { found: Found::Content(level), fit, ..pair(0, Branch::Other) })
        };
        assert_eq!((sure(100, Level::One), sure(0, Level::One)), (99, 50));
        assert!(sure(50, Level::Similar) > sure(50, Level::LastThree));
        assert!((0..100).all(|fit| sure(fit, Level::Similar) <= sure(fit + 1, Level::Similar)));
    }
}
