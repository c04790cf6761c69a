//! What an earlier run counted, so that counters can be placed where they are incremented least.

use crate::frequency::{Counted, Frequencies, Point};
use crate::graph::{ArcKind, Flow};
use relive_code::addr::LinkAddr;
use relive_code::cfg::Cfg;
use relive_code::source::CodeSource;
use relive_profile::model::{EdgeKind, Function, Module, Node};
use std::collections::HashMap;

/// Counts of a module, by the entry of each function.
#[derive(Default)]
pub struct Weights {
    functions: HashMap<LinkAddr, Counted>,
}

impl Weights {
    /// What `module` says. Functions that were not measured, or never ran, are not in it.
    #[must_use]
    pub fn new(module: &Module) -> Self {
        let functions = module.functions.iter().filter(|f| !f.state.is_not_measured() && ran(f));
        Self { functions: functions.map(|f| (LinkAddr(f.address), counted(f))).collect() }
    }

    /// How many functions have counts.
    #[must_use]
    pub fn functions(&self) -> usize {
        self.functions.len()
    }

    /// Frequencies of the function that is entered at `entry`, if it ran.
    #[must_use]
    pub fn frequencies<S: CodeSource + ?Sized>(
        &self,
        entry: LinkAddr,
        cfg: &Cfg,
        source: &S,
        flow: &Flow,
    ) -> Option<Frequencies> {
        self.functions.get(&entry).map(|counted| Frequencies::measured(cfg, source, flow, counted))
    }
}

/// Whether anything of a function ran.
fn ran(function: &Function) -> bool {
    let mut counts =
        function.blocks.iter().map(|block| block.count).chain(function.edges.iter().map(|edge| edge.count));
    counts.any(|count| count.is_some_and(|count| count.value() > 0))
}

fn counted(function: &Function) -> Counted {
    let mut counted = Counted::default();
    let point = |node: Node| match (node.as_block(), node.as_hub()) {
        (Some(block), _) => {
            function.blocks.get(block as usize).map_or(Point::Outside, |b| Point::Block(LinkAddr(b.address)))
        }
        (_, Some(hub)) => Point::Hub(hub),
        _ => Point::Outside,
    };
    for block in &function.blocks {
        if let Some(count) = block.count {
            counted.blocks.insert(LinkAddr(block.address), count.value());
        }
    }
    for edge in &function.edges {
        if let Some(count) = edge.count {
            let sum = counted.arcs.entry((point(edge.from), point(edge.to), kind(edge.kind))).or_default();
            *sum = sum.saturating_add(count.value());
        }
    }
    counted
}

fn kind(kind: EdgeKind) -> ArcKind {
    match kind {
        EdgeKind::Enter => ArcKind::Enter,
        EdgeKind::FallThrough => ArcKind::FallThrough,
        EdgeKind::Taken => ArcKind::Taken,
        EdgeKind::Jump => ArcKind::Jump,
        EdgeKind::Case => ArcKind::Case,
        EdgeKind::CallReturn => ArcKind::CallReturn,
        EdgeKind::LandingPad => ArcKind::LandingPad,
        EdgeKind::TailCall => ArcKind::TailCall,
        EdgeKind::Return => ArcKind::Return,
        EdgeKind::NoReturn => ArcKind::NoReturn,
    }
}
