//! The flow of control through a function as something that is conserved: whatever enters a node leaves it.
//!
//! Beside the blocks there is the outside, which is one node: whoever calls the function, is called by a
//! jump, or keeps control for good when a call does not come back. Jumps that share a table meet in a hub,
//! because where each of them leads cannot be told apart behind the table.

use relive_code::addr::LinkAddr;
use relive_code::cfg::{BlockId, Cfg, EdgeKind, End, Target};
use std::collections::BTreeMap;

/// Where an arc begins or ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Node {
    /// Everything that is not this function.
    Outside,
    /// A block.
    Block(BlockId),
    /// Where jumps through the same table meet.
    Hub(u32),
}

/// Why control goes along an arc.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ArcKind {
    /// From outside to an entry.
    Enter,
    /// The next block follows, or a branch was not taken.
    FallThrough,
    /// A branch was taken.
    Taken,
    /// A jump.
    Jump,
    /// A computed jump.
    Case,
    /// The callee came back.
    CallReturn,
    /// An exception was caught.
    LandingPad,
    /// A jump to another function.
    TailCall,
    /// Back to the caller.
    Return,
    /// The callee did not come back, or the program ended here.
    NoReturn,
}

/// One way from node to node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arc {
    /// Where it begins.
    pub from: Node,
    /// Where it ends.
    pub to: Node,
    /// Why.
    pub kind: ArcKind,
}

/// What is known of calls beyond the graph.
pub trait Calls {
    /// What may become of the call that ends `block`.
    fn comeback(&self, block: BlockId) -> Comeback;

    /// Whether `block` calls the kernel, which need not come back either.
    fn enters_kernel(&self, block: BlockId) -> bool;
}

/// What may become of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comeback {
    /// It comes back, once.
    Once,
    /// It may also throw, exit, jump away, or wait for ever.
    Perhaps,
    /// It may come back again later (`setjmp`).
    Again,
}

/// The arcs of a function.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    /// Number of blocks.
    pub blocks: usize,
    /// The arcs.
    pub arcs: Vec<Arc>,
    /// Arcs by index that are a tail call to a fixed place, or a branch or fall-through out of the function:
    /// where to. Few are, and there are many arcs.
    pub outside: Vec<(u32, LinkAddr)>,
    /// For each hub, the tables that meet there and the blocks that jump through them.
    pub hubs: Vec<Hub>,
    /// Blocks that call the kernel.
    pub kernel: Vec<bool>,
    /// Whether counts of this function need not add up, and why.
    pub approximate: Option<&'static str>,
}

/// Jumps through one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hub {
    /// The blocks that jump.
    pub jumps: Vec<BlockId>,
}

impl Flow {
    /// The flow of `cfg`. Blocks nothing leads to take no part. `redirected`
    /// says whether the tables of the jump that ends a block lead straight to new code, so that its cases can
    /// be told from those of other jumps.
    #[must_use]
    pub fn new(cfg: &Cfg, calls: &impl Calls, redirected: &dyn Fn(BlockId) -> bool) -> Self {
        let kernel = cfg.numbered_blocks().map(|(id, _)| calls.enters_kernel(id)).collect();
        let mut flow = Self { blocks: cfg.blocks.len(), kernel, ..Self::default() };
        let hub_of = flow.find_hubs(cfg, redirected);
        for &entry in &cfg.entries {
            flow.arc(Node::Outside, Node::Block(entry), ArcKind::Enter);
        }
        for (id, block) in cfg.numbered_blocks().filter(|(_, b)| b.reached) {
            let from = Node::Block(id);
            let edges = cfg.edges_from(id);
            if flow.kernel[id.index()] && block.end != End::Stop && !block.end.is_call() {
                flow.arc(from, Node::Outside, ArcKind::NoReturn);
            }
            match block.end {
                End::IndirectJump => match hub_of.get(&id) {
                    Some(&hub) => flow.arc(from, Node::Hub(hub), ArcKind::Jump),
                    None => flow.cases(from, edges.iter().map(|e| e.to).collect()),
                },
                End::Stop => flow.arc(from, Node::Outside, ArcKind::NoReturn),
                End::Call(_) | End::IndirectCall(_) => flow.call(cfg, id, calls.comeback(id)),
                _ => {
                    for edge in edges {
                        let kind = match edge.kind {
                            EdgeKind::Taken => ArcKind::Taken,
                            EdgeKind::Jump => ArcKind::Jump,
                            EdgeKind::Return => ArcKind::Return,
                            EdgeKind::TailCall => ArcKind::TailCall,
                            _ => ArcKind::FallThrough,
                        };
                        let to = match edge.to {
                            Target::Block(to) => Node::Block(to),
                            Target::Outside(_) | Target::Elsewhere => Node::Outside,
                        };
                        if let Target::Outside(place) = edge.to {
                            flow.outside.push((flow.arcs.len() as u32, place));
                        }
                        flow.arc(from, to, kind);
                    }
                }
            }
        }
        for hub in 0..flow.hubs.len() {
            let jumps = flow.hubs[hub].jumps.iter();
            let targets = jumps.flat_map(|&id| cfg.edges_from(id)).map(|e| e.to).collect();
            flow.cases(Node::Hub(hub as u32), targets);
        }
        flow.arcs.shrink_to_fit();
        flow
    }

    /// The fixed place outside the function that an arc leads to, by its index.
    #[must_use]
    pub fn outside(&self, arc: usize) -> Option<LinkAddr> {
        let found = self.outside.binary_search_by_key(&arc, |&(arc, _)| arc as usize).ok()?;
        Some(self.outside[found].1)
    }

    /// The ways of computed jumps from `via`.
    fn cases(&mut self, via: Node, mut targets: Vec<Target>) {
        targets.sort_unstable();
        targets.dedup();
        for target in &targets {
            if let Target::Block(to) = target {
                self.arc(via, Node::Block(*to), ArcKind::Case);
            }
        }
        // Which of several ways out was taken cannot be counted, only that one was.
        if targets.iter().any(|target| !matches!(target, Target::Block(_))) {
            self.arc(via, Node::Outside, ArcKind::TailCall);
        }
    }

    fn arc(&mut self, from: Node, to: Node, kind: ArcKind) {
        self.arcs.push(Arc { from, to, kind });
    }

    fn call(&mut self, cfg: &Cfg, block: BlockId, comeback: Comeback) {
        let from = Node::Block(block);
        let mut comes_back = false;
        for edge in cfg.edges_from(block) {
            let Some(to) = edge.inner_target() else { continue };
            match (edge.kind, comeback) {
                (EdgeKind::LandingPad, _) => self.arc(from, Node::Block(to), ArcKind::LandingPad),
                // Control appears here more often than it left for the callee.
                (_, Comeback::Again) => {
                    self.approximate = Some("calls a function that returns more than once");
                    self.arc(Node::Outside, Node::Block(to), ArcKind::CallReturn);
                }
                _ => {
                    comes_back = true;
                    self.arc(from, Node::Block(to), ArcKind::CallReturn);
                }
            }
        }
        if !comes_back || comeback != Comeback::Once || self.kernel[block.index()] {
            self.arc(from, Node::Outside, ArcKind::NoReturn);
        }
    }

    /// Jumps that share a redirected table form a hub, and so do all jumps through tables that are not
    /// redirected; a jump that is alone needs none.
    fn find_hubs(&mut self, cfg: &Cfg, redirected: &dyn Fn(BlockId) -> bool) -> BTreeMap<BlockId, u32> {
        let mut groups: Vec<(Vec<LinkAddr>, Vec<BlockId>)> = Vec::new();
        let mut rest = Vec::new();
        for (id, block) in cfg.numbered_blocks().filter(|(_, b)| b.reached && b.end == End::IndirectJump) {
            if cfg.edges_from(id).iter().all(|e| e.inner_target().is_none()) {
                continue;
            }
            if !redirected(id) {
                rest.push(id);
                continue;
            }
            let site = block.last_insn();
            let mut tables: Vec<_> = cfg.tables.iter().filter(|t| t.site == site).map(|t| t.table).collect();
            let mut jumps = vec![id];
            // Whoever shares a table with it joins it, and all they share tables with.
            while let Some(i) =
                groups.iter().position(|(theirs, _)| theirs.iter().any(|t| tables.contains(t)))
            {
                let (theirs, others) = groups.swap_remove(i);
                tables.extend(theirs);
                jumps.extend(others);
            }
            groups.push((tables, jumps));
        }
        groups.push((Vec::new(), rest));
        let mut hub_of = BTreeMap::new();
        for (_, mut jumps) in groups.into_iter().filter(|(_, jumps)| jumps.len() > 1) {
            jumps.sort_unstable();
            let hub = self.hubs.len() as u32;
            hub_of.extend(jumps.iter().map(|&id| (id, hub)));
            self.hubs.push(Hub { jumps });
        }
        hub_of
    }
}
