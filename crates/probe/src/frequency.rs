//! How often each arc is taken: as measured in an earlier run or, when nobody has, as is likely.
//!
//! Only the order matters: counters should end up on the less frequent arcs. In an estimate, control enters with frequency
//! one and spreads along forward arcs in reverse postorder; a loop multiplies what reaches its header.

use crate::graph::{Arc, ArcKind, Flow, Node};
use relive_code::addr::LinkAddr;
use relive_code::cfg::{BlockId, Cfg, End};
use relive_code::dominators::DominatorTree;
use relive_code::loops::LoopForest;
use std::collections::HashMap;

/// How often a loop is taken to run round.
const TRIPS: f64 = 8.0;
/// How likely a branch ahead is taken, against not.
const AHEAD: f64 = 0.5;
/// No loop nest is believed to be more frequent than this.
const MOST: f64 = 1e12;

/// What is this small beside one count only decides between what was counted equally often.
const NEXT_TO_NOTHING: f64 = 1e-3;

/// Where an arc begins or ends, in terms that hold from one run to the next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Point {
    /// Everything that is not this function.
    Outside,
    /// A block, by its address.
    Block(LinkAddr),
    /// A hub, by its number.
    Hub(u32),
}

/// What an earlier run counted in one function.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// How often each block ran, by address.
    pub blocks: HashMap<LinkAddr, u64>,
    /// How often each arc was taken.
    pub arcs: HashMap<(Point, Point, ArcKind), u64>,
}

impl Counted {
    /// Whether anything ran at all.
    #[must_use]
    pub fn ran(&self) -> bool {
        self.blocks.values().chain(self.arcs.values()).any(|&count| count > 0)
    }
}

/// Frequencies of one function, relative to one call of it.
#[derive(Clone, Debug)]
pub struct Frequencies {
    /// Of each block.
    pub blocks: Vec<f64>,
    /// Of each arc.
    pub arcs: Vec<f64>,
}

impl Frequencies {
    /// The flow of `cfg` as it was counted. What was counted equally often, above all what never ran, is put
    /// in the order of an estimate. An arc nobody counted is taken to be as frequent as the rarer of
    /// its ends.
    #[must_use]
    pub fn measured(cfg: &Cfg, flow: &Flow, counted: &Counted) -> Self {
        let mut this = Self::estimate(cfg, flow);
        let most = this.blocks.iter().chain(&this.arcs).copied().fold(1.0, f64::max);
        let scale = NEXT_TO_NOTHING / most;
        let at = |block: BlockId| cfg.block(block).start;
        let ran = |node: Node| match node {
            Node::Block(block) => counted.blocks.get(&at(block)).copied(),
            _ => None,
        };
        let point = |node: Node| match node {
            Node::Outside => Point::Outside,
            Node::Block(block) => Point::Block(at(block)),
            Node::Hub(hub) => Point::Hub(hub),
        };
        for (arc, often) in flow.arcs.iter().zip(&mut this.arcs) {
            let count = counted.arcs.get(&(point(arc.from), point(arc.to), arc.kind)).copied();
            let ends = || [ran(arc.from), ran(arc.to)].into_iter().flatten().min();
            *often = count.or_else(ends).unwrap_or(0) as f64 + *often * scale;
        }
        for ((id, _), often) in cfg.numbered_blocks().zip(&mut this.blocks) {
            *often = ran(Node::Block(id)).unwrap_or(0) as f64 + *often * scale;
        }
        this
    }

    /// Estimates the flow of `cfg`.
    #[must_use]
    pub fn estimate(cfg: &Cfg, flow: &Flow) -> Self {
        let graph = cfg.graph();
        let roots = cfg.roots();
        let tree = DominatorTree::new(&graph, &roots);
        let loops = LoopForest::new(&graph, &tree);
        let mut order = graph.postorder();
        order.reverse();
        let mut position = vec![0; order.len()];
        order.iter().enumerate().for_each(|(i, &block)| position[block as usize] = i);
        let leads_nowhere = ends_soon(cfg, flow);

        let mut leaving: Vec<Vec<usize>> = vec![Vec::new(); flow.blocks + flow.hubs.len()];
        let index = |node: Node| match node {
            Node::Outside => None,
            Node::Block(block) => Some(block.index()),
            Node::Hub(hub) => Some(flow.blocks + hub as usize),
        };
        for (i, arc) in flow.arcs.iter().enumerate() {
            if let Some(from) = index(arc.from) {
                leaving[from].push(i);
            }
        }
        let mut this = Self { blocks: vec![0.0; flow.blocks], arcs: vec![0.0; flow.arcs.len()] };
        let mut hubs = vec![0.0; flow.hubs.len()];
        for (i, arc) in flow.arcs.iter().enumerate().filter(|(_, arc)| arc.from == Node::Outside) {
            let often = if arc.kind == ArcKind::Enter { 1.0 } else { 0.01 };
            this.arcs[i] = often;
            if let Node::Block(to) = arc.to {
                this.blocks[to.index()] += often;
            }
        }
        for &block in &order {
            let id = BlockId(block);
            let header = loops.innermost(block).filter(|&l| loops.loops()[l.0 as usize].header == block);
            if header.is_some() {
                this.blocks[id.index()] = (this.blocks[id.index()].max(0.01) * TRIPS).min(MOST);
            }
            let often = this.blocks[id.index()];
            let arcs = &leaving[id.index()];
            let chances: Vec<f64> =
                arcs.iter().map(|&i| chance(cfg, &flow.arcs[i], block, &loops, &leads_nowhere)).collect();
            let total: f64 = chances.iter().sum::<f64>().max(1e-9);
            for (&i, chance) in arcs.iter().zip(&chances) {
                let share = often * chance / total;
                this.arcs[i] = share;
                match flow.arcs[i].to {
                    Node::Block(to) if position[to.index()] > position[id.index()] => {
                        this.blocks[to.index()] += share;
                    }
                    Node::Hub(hub) => hubs[hub as usize] += share,
                    _ => {}
                }
            }
        }
        // Behind a hub every case is as likely as any other.
        for (hub, often) in hubs.iter().enumerate() {
            let arcs = &leaving[flow.blocks + hub];
            for &i in arcs {
                this.arcs[i] = often / arcs.len() as f64;
                if let Node::Block(to) = flow.arcs[i].to {
                    let block = &mut this.blocks[to.index()];
                    *block = block.max(this.arcs[i]);
                }
            }
        }
        this
    }
}

/// The weight of one way out of `block` among the others.
///
/// Loops say most. Beside them, compilers have guessed before us and laid the likely way out as the one that
/// falls through, and what they thought cold apart.
fn chance(cfg: &Cfg, arc: &Arc, block: u32, loops: &LoopForest, leads_nowhere: &[bool]) -> f64 {
    let Node::Block(to) = arc.to else {
        return match arc.kind {
            ArcKind::NoReturn => 1e-3,
            _ if loops.innermost(block).is_some() => 1.0 / TRIPS,
            _ => 1.0,
        };
    };
    let here = cfg.block(BlockId(block)).start;
    let there = cfg.block(to).start;
    if arc.kind == ArcKind::LandingPad {
        return 1e-4;
    }
    let apart = |piece: &relive_code::addr::AddrRange| piece.contains(here) && !piece.contains(there);
    if leads_nowhere[to.index()] || cfg.pieces.iter().any(apart) {
        return 1e-3;
    }
    let leaves_loop = loops.innermost(block).is_some_and(|id| !loops.contains(id, to.0));
    let in_loop = if leaves_loop { 1.0 / TRIPS } else { 1.0 };
    let jumps_ahead = arc.kind == ArcKind::Taken && there > here;
    in_loop * if jumps_ahead { AHEAD } else { 1.0 }
}

/// Blocks that only lead to calls that do not come back: error paths.
fn ends_soon(cfg: &Cfg, flow: &Flow) -> Vec<bool> {
    let mut ends = vec![false; flow.blocks];
    // By falling address, since error paths are short and run forward; no need to be complete.
    for (id, block) in cfg.numbered_blocks().collect::<Vec<_>>().into_iter().rev() {
        let edges = cfg.edges_from(id);
        let goes_on = |e: &relive_code::cfg::Edge| {
            e.kind != relive_code::cfg::EdgeKind::LandingPad
                && e.inner_target().is_none_or(|to| !ends[to.index()])
        };
        ends[id.index()] = block.end == End::Stop || !edges.iter().any(goes_on);
    }
    ends
}
