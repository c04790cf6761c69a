//! How often each arc is taken: as measured in an earlier run or, when nobody has, as is likely.
//!
//! Only the order matters: counters should end up on the less frequent arcs. An estimate first says how likely each way
//! out of a branch is ([`evidence`]), then lets control enter once and spreads it accordingly.

pub mod evidence;
pub mod shape;
mod spread;
#[cfg(test)]
mod tests;

use crate::graph::{Arc, ArcKind, Flow, Node};
use relive_code::addr::LinkAddr;
use relive_code::cfg::{BlockId, Cfg};
use relive_code::source::CodeSource;
use shape::{Shape, number};
use spread::spread;
use std::collections::HashMap;

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
    pub fn measured<S: CodeSource + ?Sized>(cfg: &Cfg, source: &S, flow: &Flow, counted: &Counted) -> Self {
        let mut this = Self::estimate(cfg, source, flow);
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
    pub fn estimate<S: CodeSource + ?Sized>(cfg: &Cfg, source: &S, flow: &Flow) -> Self {
        let shape = Shape::new(flow);
        let mut weights = ways(flow, &shape);
        for branch in evidence::branches(cfg, source, flow, &shape) {
            let taken = branch.chance();
            weights[branch.taken as usize] = taken;
            weights[branch.other as usize] = 1.0 - taken;
        }
        Self::weighted(flow, &shape, weights)
    }

    /// The flow if the ways out of each node are chosen by their `weights`.
    #[must_use]
    pub fn weighted(flow: &Flow, shape: &Shape, mut weights: Vec<f64>) -> Self {
        for node in 0..shape.len() as u32 {
            let arcs = shape.leaving(node);
            let total: f64 = arcs.iter().map(|&arc| weights[arc as usize]).sum();
            arcs.iter().for_each(|&arc| weights[arc as usize] /= total);
        }
        let (mut blocks, arcs) = spread(flow, shape, &weights);
        blocks.truncate(flow.blocks);
        Self { blocks, arcs }
    }
}

/// The weight of each way out of a node among the others, as far as its kind says it.
#[must_use]
pub fn ways(flow: &Flow, shape: &Shape) -> Vec<f64> {
    let doomed = evidence::doomed(flow, shape);
    let leads_nowhere = |to| number(flow, to).is_some_and(|to| doomed[to as usize]);
    let weight = |arc: &Arc| match arc.kind {
        ArcKind::NoReturn => 1e-5,
        ArcKind::LandingPad => 1e-4,
        ArcKind::Case if leads_nowhere(arc.to) => 0.1,
        _ => 1.0,
    };
    flow.arcs.iter().map(weight).collect()
}
