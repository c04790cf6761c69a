//! Which arcs and blocks to count (Ball and Larus, "Optimally profiling and tracing programs").
//!
//! A block counts as an arc from its head to its tail. What is on a spanning tree of the flow need not be
//! counted, because conservation at every node says it; so the tree takes the arcs that would cost most,
//! frequency times the price of a counter there, and the rest get counters. An arc no code can be put on
//! (a call that does not come back) is always on the tree.

use crate::frequency::Frequencies;
use crate::graph::{Arc, ArcKind, Flow, Node};
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::cfg::{BlockId, Cfg, End};
use std::collections::HashMap;

/// What counters of a function measure. Counters are numbered from zero in each function.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// For each block, its counter.
    pub blocks: Vec<Option<u32>>,
    /// For each arc, its counter.
    pub arcs: Vec<Option<u32>>,
    /// How many counters there are.
    pub counters: u32,
    /// Branches whose counter goes right in front of the block they lead to, where others pass by: by block.
    pub fronts: HashMap<BlockId, usize>,
    /// Whether only what is counted itself is known: nothing follows from it.
    pub partial: bool,
    /// Whether the counter of the way in leaves out calls from measured functions, whose counts tell them.
    pub called: bool,
}

/// Where the counter of an arc goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// Into the block it leaves, which has no other way out.
    From(BlockId),
    /// Into the block it enters, which has no other way in.
    To(BlockId),
    /// Between the two, on the straight way from one to the other.
    Between,
    /// Out of line, with a jump there and back.
    Stub,
    /// Nowhere.
    Nowhere,
}

/// Finds the place of each arc's counter.
#[must_use]
pub fn places(cfg: &Cfg, flow: &Flow) -> Vec<Place> {
    let mut out = vec![0u32; flow.blocks];
    let mut into = vec![0u32; flow.blocks];
    for arc in &flow.arcs {
        if let Node::Block(from) = arc.from {
            out[from.index()] += 1;
        }
        if let Node::Block(to) = arc.to {
            into[to.index()] += 1;
        }
    }
    flow.arcs
        .iter()
        .map(|arc| {
            let from = match arc.from {
                Node::Block(from) if out[from.index()] == 1 && !cfg.block(from).end.is_call() => Some(from),
                _ => None,
            };
            let to = match arc.to {
                Node::Block(to) if into[to.index()] == 1 => Some(to),
                _ => None,
            };
            match (arc.kind, from, to) {
                (ArcKind::NoReturn, ..) => Place::Nowhere,
                (_, _, Some(to)) => Place::To(to),
                // A block with a call has a second way out, for when it does not come back.
                (_, Some(from), _) => Place::From(from),
                (ArcKind::Enter | ArcKind::FallThrough | ArcKind::CallReturn | ArcKind::Return, ..) => {
                    Place::Between
                }
                (ArcKind::Taken | ArcKind::LandingPad | ArcKind::Case, ..) => Place::Stub,
                (ArcKind::TailCall | ArcKind::Jump, ..) => match arc.from {
                    Node::Block(from) => match cfg.block(from).end {
                        End::Branch => Place::Stub,
                        End::Jump => Place::Between,
                        _ => Place::Nowhere,
                    },
                    _ => Place::Nowhere,
                },
            }
        })
        .collect()
}

/// The price of a counter at `place`, in counters on a straight way.
fn price(place: Place) -> f64 {
    match place {
        Place::From(_) | Place::To(_) | Place::Between => 1.0,
        Place::Stub => 1.8,
        Place::Nowhere => f64::INFINITY,
    }
}

/// What it costs to jump over a counter, in counters.
const PASSING: f64 = 0.8;

/// A counter in front of a block.
struct Front {
    /// The branch that is counted.
    arc: usize,
    /// How often control comes from the block before and has to pass it by.
    passed: f64,
}

/// For each block, the branch that leads to it most often, if that is more often than control falls into it.
fn fronts(cfg: &Cfg, flow: &Flow, often: &Frequencies, places: &[Place]) -> HashMap<BlockId, Front> {
    let mut fronts: HashMap<BlockId, Front> = HashMap::new();
    for (i, arc) in flow.arcs.iter().enumerate() {
        let (Node::Block(from), Node::Block(to), Place::Stub) = (arc.from, arc.to, places[i]) else {
            continue;
        };
        let together =
            |piece: &AddrRange| piece.contains(cfg.block(from).start) && piece.contains(cfg.block(to).start);
        if arc.kind != ArcKind::Taken || cfg.entries.contains(&to) || !cfg.pieces.iter().any(together) {
            continue;
        }
        let front = fronts.entry(to).or_insert(Front { arc: i, passed: 0.0 });
        if often.arcs[i] > often.arcs[front.arc] {
            front.arc = i;
        }
    }
    for (i, arc) in flow.arcs.iter().enumerate() {
        let straight = matches!(arc.kind, ArcKind::FallThrough | ArcKind::CallReturn | ArcKind::Jump);
        if let (true, Node::Block(from), Node::Block(to)) = (straight, arc.from, arc.to)
            && let Some(front) = fronts.get_mut(&to)
            && cfg.block(from).start < cfg.block(to).start
            && (arc.kind != ArcKind::Jump || cfg.block(from).end_addr() == cfg.block(to).start)
        {
            front.passed += often.arcs[i];
        }
    }
    fronts.retain(|_, front| often.arcs[front.arc] > front.passed);
    fronts
}

impl Plan {
    /// The fewest and cheapest counters that tell everything. `cheap` are blocks whose counter costs only so
    /// much, however often they run. If callers tell about the only way in, `told` is the share of calls that
    /// come from elsewhere.
    #[must_use]
    pub fn edges(
        cfg: &Cfg,
        flow: &Flow,
        often: &Frequencies,
        cheap: &HashMap<BlockId, f64>,
        told: Option<f64>,
    ) -> Self {
        let places = places(cfg, flow);
        let nodes = 2 * flow.blocks + flow.hubs.len() + 1;
        let (outside, tail) = (nodes - 1, |block: BlockId| 2 * block.index() + 1);
        let head = |block: BlockId| 2 * block.index();
        let hub = |hub: u32| 2 * flow.blocks + hub as usize;
        let ends = |arc: &Arc| {
            let from = match arc.from {
                Node::Outside => outside,
                Node::Block(block) => tail(block),
                Node::Hub(h) => hub(h),
            };
            let to = match arc.to {
                Node::Outside => outside,
                Node::Block(block) => head(block),
                Node::Hub(h) => hub(h),
            };
            (from, to)
        };
        let fronts = fronts(cfg, flow, often, &places);
        // Frequency, what it is, and its two ends.
        let mut candidates: Vec<(f64, usize, (usize, usize))> = Vec::new();
        for (i, arc) in flow.arcs.iter().enumerate() {
            let share = told.filter(|_| arc.kind == ArcKind::Enter).unwrap_or(1.0);
            let price = match (arc.to, price(places[i])) {
                (Node::Block(to), _) if fronts.get(&to).is_some_and(|front| front.arc == i) => {
                    often.arcs[i] + fronts[&to].passed * PASSING
                }
                (_, price) => often.arcs[i].max(1e-12) * price * share,
            };
            candidates.push((price, flow.blocks + i, ends(arc)));
        }
        for (id, block) in cfg.numbered_blocks().filter(|(_, b)| b.reached) {
            // The block's own counter always finds a place; a block with a call has less room to choose.
            let dear = if block.insns == 1 { 1.1 } else { 1.0 };
            let price = cheap.get(&id).copied().unwrap_or(often.blocks[id.index()] * dear);
            candidates.push((price.max(1e-12), id.index(), (head(id), tail(id))));
        }
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut forest = Forest::new(nodes);
        let mut plan =
            Self { blocks: vec![None; flow.blocks], arcs: vec![None; flow.arcs.len()], ..Self::default() };
        let mut chords = Vec::new();
        for (_, what, (from, to)) in candidates {
            if !forest.join(from, to) {
                chords.push(what);
            }
        }
        chords.sort_unstable();
        for what in chords {
            let counter = Some(plan.counters);
            plan.counters += 1;
            match what.checked_sub(flow.blocks) {
                None => plan.blocks[what] = counter,
                Some(arc) => {
                    debug_assert!(places[arc] != Place::Nowhere, "{:?}", flow.arcs[arc]);
                    plan.arcs[arc] = counter;
                }
            }
        }
        let counted = fronts.into_iter().filter(|(_, front)| plan.arcs[front.arc].is_some());
        plan.fronts = counted.map(|(block, front)| (block, front.arc)).collect();
        plan.called = told.is_some() && plan.entry(flow).is_some();
        plan
    }

    /// The counter of the first way in.
    #[must_use]
    pub fn entry(&self, flow: &Flow) -> Option<u32> {
        let enter = flow.arcs.iter().position(|arc| arc.kind == ArcKind::Enter)?;
        self.arcs[enter]
    }

    /// A counter in every block.
    #[must_use]
    pub fn blocks(cfg: &Cfg, flow: &Flow) -> Self {
        let mut counters = 0;
        let blocks = cfg.blocks.iter().map(|block| {
            block.reached.then(|| {
                counters += 1;
                counters - 1
            })
        });
        let blocks = blocks.collect();
        Self { blocks, arcs: vec![None; flow.arcs.len()], counters, ..Self::default() }
    }

    /// A counter in some blocks: nothing follows from them.
    #[must_use]
    pub fn part(cfg: &Cfg, flow: &Flow, is_wanted: &dyn Fn(LinkAddr) -> bool) -> Self {
        let mut counters = 0;
        let blocks = cfg.blocks.iter().map(|block| {
            (block.reached && is_wanted(block.start)).then(|| {
                counters += 1;
                counters - 1
            })
        });
        let blocks = blocks.collect();
        Self { blocks, arcs: vec![None; flow.arcs.len()], counters, partial: true, ..Self::default() }
    }

    /// A counter at every entry.
    #[must_use]
    pub fn functions(flow: &Flow) -> Self {
        let mut counters = 0;
        let arcs = flow.arcs.iter().map(|arc| {
            (arc.kind == ArcKind::Enter).then(|| {
                counters += 1;
                counters - 1
            })
        });
        let arcs = arcs.collect();
        Self { blocks: vec![None; flow.blocks], arcs, counters, ..Self::default() }
    }
}

/// Union-find.
struct Forest {
    parent: Vec<u32>,
}

impl Forest {
    fn new(len: usize) -> Self {
        Self { parent: (0..len as u32).collect() }
    }

    fn root(&mut self, mut node: usize) -> usize {
        while self.parent[node] as usize != node {
            self.parent[node] = self.parent[self.parent[node] as usize];
            node = self.parent[node] as usize;
        }
        node
    }

    /// Joins the trees of two nodes; `false` if they are in one already.
    fn join(&mut self, a: usize, b: usize) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a] = b as u32;
        a != b
    }
}
