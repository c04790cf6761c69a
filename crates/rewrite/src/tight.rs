//! Tight loops: without calls, sure to come to an end.
//!
//! There the price of counting in every round shows most, and there it can be avoided: a counter can live in a
//! register while the loop runs, and where a register moves on by a constant in every round, what it was at the
//! start tells at the end how many rounds there were.

use relive_code::cfg::{BlockId, Cfg, End};
use relive_code::dominators::DominatorTree;
use relive_code::isa::{EffectsReader, Gpr, RegSet, Stride};
use relive_code::loops::LoopForest;
use relive_code::source::CodeSource;
use relive_probe::graph::{ArcKind, Flow, Node};
use std::collections::{HashMap, HashSet};

/// A tight loop.
pub struct Tight {
    /// Where it is entered, always.
    pub header: BlockId,
    /// Its blocks.
    pub inside: HashSet<BlockId>,
    /// Arcs into it.
    pub ways_in: Vec<usize>,
    /// Arcs out of it.
    pub ways_out: Vec<usize>,
    /// Arcs from block to block of it.
    pub within: Vec<usize>,
    /// What it reads or writes.
    pub touched: RegSet,
    /// A register that tells the rounds.
    pub odometer: Option<Odometer>,
}

/// A register that moves on by a constant, once in every round.
pub struct Odometer {
    /// How.
    pub stride: Stride,
    /// For each arc in [`Tight::ways_out`], whether it has moved on in the last round.
    pub moved: Vec<bool>,
}

impl Tight {
    /// All of them in a function, an outer one before those inside it.
    #[must_use]
    pub fn find<S: CodeSource + ?Sized>(cfg: &Cfg, source: &S, flow: &Flow) -> Vec<Self> {
        let graph = cfg.graph();
        let tree = DominatorTree::new(&graph, &cfg.roots());
        let loops = LoopForest::new(&graph, &tree);
        let quiet = |&block: &u32| {
            let block = cfg.block(BlockId(block));
            matches!(block.end, End::FallThrough | End::Branch | End::Jump | End::Return | End::Stop)
        };
        loops
            .ids()
            .filter(|&id| loops.blocks_of(id).iter().all(quiet))
            .filter_map(|id| {
                let header = BlockId(loops.loops()[id.0 as usize].header);
                let inside = loops.blocks_of(id).iter().copied().map(BlockId).collect();
                Self::new(cfg, source, flow, header, inside)
            })
            .collect()
    }

    fn new<S: CodeSource + ?Sized>(
        cfg: &Cfg,
        source: &S,
        flow: &Flow,
        header: BlockId,
        inside: HashSet<BlockId>,
    ) -> Option<Self> {
        let is_inside = |node: Node| matches!(node, Node::Block(block) if inside.contains(&block));
        let (mut ways_in, mut ways_out, mut within) = (Vec::new(), Vec::new(), Vec::new());
        for (i, arc) in flow.arcs.iter().enumerate() {
            match (is_inside(arc.from), is_inside(arc.to)) {
                (false, true) => ways_in.push(i),
                (true, false) => ways_out.push(i),
                (true, true) => within.push(i),
                (false, false) => {}
            }
        }
        // Only where code can be put on the way.
        let easy = |&i: &usize| {
            let arc = &flow.arcs[i];
            match arc.kind {
                ArcKind::CallReturn => arc.from != Node::Outside,
                ArcKind::Case | ArcKind::LandingPad => false,
                _ => true,
            }
        };
        if !ways_in.iter().chain(&ways_out).all(easy) {
            return None;
        }
        let mut reader = EffectsReader::new();
        let mut steps = Steps::default();
        for &block in &inside {
            for insn in cfg.block(block).insns(source) {
                let effects = reader.effects(&insn);
                steps.touched = steps.touched | effects.reads | effects.writes;
                if !insn.touches_memory() {
                    steps.stepping |= effects.reads & effects.writes & RegSet::GPRS;
                }
                steps.stepping |= insn.follows().into_iter().collect::<RegSet>();
                for register in (effects.writes & RegSet::GPRS).gprs() {
                    match insn.stride().filter(|stride| stride.register == register && stride.by != 0) {
                        Some(stride) => steps.strides.push((block, stride)),
                        None => steps.erratic |= RegSet::gpr(register),
                    }
                }
            }
        }
        let tested = steps.tested(cfg, source, flow, &ways_out);
        if !tested.intersects(steps.stepping) {
            return None;
        }
        let in_kernel = inside.iter().any(|block| flow.kernel[block.index()]);
        let mut this =
            Self { header, inside, ways_in, ways_out, within, touched: steps.touched, odometer: None };
        if !in_kernel {
            this.odometer = this.find_odometer(flow, &steps, tested);
        }
        Some(this)
    }

    fn find_odometer(&self, flow: &Flow, steps: &Steps, tested: RegSet) -> Option<Odometer> {
        let mut candidates: Vec<Stride> = steps.strides.iter().map(|&(_, stride)| stride).collect();
        candidates.sort_by_key(|s| (!s.wide, s.by.unsigned_abs(), s.register));
        candidates.dedup();
        candidates.into_iter().find_map(|stride| {
            let register = RegSet::gpr(stride.register);
            let all_alike = steps
                .strides
                .iter()
                .filter(|(_, s)| s.register == stride.register)
                .all(|(_, s)| *s == stride);
            let usable = stride.by.unsigned_abs().is_power_of_two()
                && stride.by.unsigned_abs() <= 64
                && stride.register != Gpr::RSP
                && !steps.erratic.intersects(register)
                && all_alike
                // Half a register may come round to where it was, unless the loop ends before.
                && (stride.wide || tested.intersects(register));
            usable.then(|| self.moves_once(flow, steps, stride)).flatten()
        })
    }

    /// Whether every round adds `stride` exactly once.
    fn moves_once(&self, flow: &Flow, steps: &Steps, stride: Stride) -> Option<Odometer> {
        let moves = |block: BlockId| {
            steps.strides.iter().filter(|&&(at, s)| at == block && s.register == stride.register).count()
        };
        let mut before: HashMap<BlockId, usize> = HashMap::from([(self.header, 0)]);
        let mut todo = vec![self.header];
        while let Some(block) = todo.pop() {
            let behind = before[&block] + moves(block);
            for &i in &self.within {
                let (Node::Block(from), Node::Block(to)) = (flow.arcs[i].from, flow.arcs[i].to) else {
                    continue;
                };
                if from != block {
                    continue;
                }
                if to == self.header {
                    if behind != 1 {
                        return None;
                    }
                } else if let Some(&known) = before.get(&to) {
                    if known != behind {
                        return None;
                    }
                } else {
                    before.insert(to, behind);
                    todo.push(to);
                }
            }
        }
        let moved = self.ways_out.iter().map(|&i| {
            let Node::Block(from) = flow.arcs[i].from else { return None };
            match before.get(&from)? + moves(from) {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            }
        });
        Some(Odometer { stride, moved: moved.collect::<Option<_>>()? })
    }
}

/// What the instructions of a loop do to registers.
#[derive(Default)]
struct Steps {
    touched: RegSet,
    /// Changed by something computed from what they were, or loaded from where they point to.
    stepping: RegSet,
    strides: Vec<(BlockId, Stride)>,
    /// Changed otherwise.
    erratic: RegSet,
}

impl Steps {
    /// The registers that some way out depends on, of those that change by a step in every round or point to
    /// memory the way out depends on. If there are none the loop waits for somebody else, or for ever, and may
    /// be left by a signal; then what is in registers is gone.
    fn tested<S: CodeSource + ?Sized>(
        &mut self,
        cfg: &Cfg,
        source: &S,
        flow: &Flow,
        ways_out: &[usize],
    ) -> RegSet {
        let mut reader = EffectsReader::new();
        let mut tested = RegSet::EMPTY;
        for &i in ways_out.iter().filter(|&&i| flow.arcs[i].kind != ArcKind::NoReturn) {
            let Node::Block(from) = flow.arcs[i].from else { continue };
            let mut decides = RegSet::EMPTY;
            for insn in cfg.block(from).insns(source) {
                let effects = reader.effects(&insn);
                if effects.writes.intersects(RegSet::ARITHMETIC_FLAGS) {
                    decides = effects.reads;
                }
                if insn.addr() == cfg.block(from).last_insn() {
                    // `loop` counts by itself.
                    self.stepping |= effects.reads & effects.writes & RegSet::GPRS;
                    decides |= effects.reads;
                }
            }
            tested |= decides;
        }
        tested & self.stepping
    }
}
