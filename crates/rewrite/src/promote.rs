//! Keeps counters of tight loops in registers while the loop runs.
//!
//! In a loop of a few instructions, adding to memory in every round costs more than the loop itself. Where
//! a register is free all through an innermost loop without calls, the counter lives there: set to zero on
//! the way in, added to memory on every way out. What is counted since the way in is lost if the loop is
//! never left by one of its own ways: the process is killed there, or a signal handler does not come back.

use crate::counting::Way;
use relive_code::cfg::{BlockId, Cfg, End};
use relive_code::dominators::DominatorTree;
use relive_code::isa::{EffectsReader, Gpr, RegSet};
use relive_code::liveness::Liveness;
use relive_code::loops::{LoopForest, LoopId};
use relive_code::source::CodeSource;
use relive_probe::frequency::Frequencies;
use relive_probe::graph::{Arc, ArcKind, Flow, Node};
use relive_probe::placement::Plan;
use std::collections::{HashMap, HashSet};

/// What is done on an arc beside counting it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A register becomes zero.
    Clear(Gpr),
    /// A register is added to a counter.
    Add(u32, Gpr),
}

/// Counters that live in registers.
#[derive(Default, Debug)]
pub struct Promotions {
    /// For each such counter, its register.
    pub registers: HashMap<u32, Gpr>,
    /// What is done on arcs, by their index.
    pub steps: HashMap<usize, Vec<Step>>,
    /// Registers that must be left alone in a block.
    pub reserved: HashMap<BlockId, RegSet>,
}

/// More would hardly ever find a register.
const MOST: usize = 4;

/// Finds counters to promote.
#[must_use]
pub fn promote<S: CodeSource + ?Sized>(
    cfg: &Cfg,
    source: &S,
    flow: &Flow,
    plan: &Plan,
    liveness: &Liveness<'_, S>,
) -> Promotions {
    let mut found = Promotions::default();
    let graph = cfg.graph();
    let tree = DominatorTree::new(&graph, &cfg.roots());
    let loops = LoopForest::new(&graph, &tree);
    let parents: HashSet<LoopId> = loops.loops().iter().filter_map(|l| l.parent).collect();
    let innermost: Vec<LoopId> = loops.ids().filter(|id| !parents.contains(id)).collect();
    if innermost.is_empty() {
        return found;
    }
    let often = Frequencies::estimate(cfg, flow);
    for id in innermost {
        let blocks = loops.blocks_of(id);
        let quiet = |&block: &u32| {
            let block = cfg.block(BlockId(block));
            matches!(block.end, End::FallThrough | End::Branch | End::Jump | End::Return | End::Stop)
        };
        if blocks.iter().all(quiet) {
            let header = BlockId(loops.loops()[id.0 as usize].header);
            let inside: HashSet<BlockId> = blocks.iter().copied().map(BlockId).collect();
            one_loop(cfg, source, flow, plan, liveness, &often, header, &inside, &mut found);
        }
    }
    found
}

#[allow(clippy::too_many_arguments)]
fn one_loop<S: CodeSource + ?Sized>(
    cfg: &Cfg,
    source: &S,
    flow: &Flow,
    plan: &Plan,
    liveness: &Liveness<'_, S>,
    often: &Frequencies,
    header: BlockId,
    inside: &HashSet<BlockId>,
    found: &mut Promotions,
) {
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
            ArcKind::Enter | ArcKind::FallThrough | ArcKind::Taken | ArcKind::Jump => true,
            ArcKind::CallReturn => arc.from != Node::Outside,
            ArcKind::Return | ArcKind::NoReturn => true,
            ArcKind::TailCall => true,
            ArcKind::Case | ArcKind::LandingPad => false,
        }
    };
    if !ways_in.iter().chain(&ways_out).all(easy) || !comes_to_an_end(cfg, source, flow, &ways_out, inside) {
        return;
    }
    let entered: f64 = ways_in.iter().map(|&i| often.arcs[i]).sum();
    let mut counters: Vec<(f64, u32)> = Vec::new();
    counters.extend(within.iter().filter_map(|&i| Some((often.arcs[i], plan.arcs[i]?))));
    counters.extend(inside.iter().filter_map(|b| Some((often.blocks[b.index()], plan.blocks[b.index()]?))));
    counters.retain(|(often, _)| *often >= entered * 1.5);
    counters.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    counters.truncate(MOST);
    if counters.is_empty() {
        return;
    }
    let mut busy = liveness.live_in(header) | RegSet::gpr(Gpr::RSP);
    let mut reader = EffectsReader::new();
    for &block in inside {
        for insn in cfg.block(block).insns(source) {
            let effects = reader.effects(&insn);
            busy = busy | effects.reads | effects.writes;
        }
    }
    let free: Vec<Gpr> = Gpr::all().filter(|&r| !busy.intersects(RegSet::gpr(r))).collect();
    counters.truncate(free.len());
    let kept: RegSet = free.iter().take(counters.len()).copied().collect();
    let adds_anywhere =
        ways_out.iter().all(|&i| match Way::best_to_add(live_behind(liveness, &flow.arcs[i]) | kept) {
            Way::Inc | Way::Through(_) => true,
            Way::Spill => false,
        });
    if counters.is_empty() || !adds_anywhere {
        return;
    }
    for (&(_, counter), &register) in counters.iter().zip(&free) {
        found.registers.insert(counter, register);
        for &i in &ways_in {
            found.steps.entry(i).or_default().push(Step::Clear(register));
        }
        for &i in &ways_out {
            found.steps.entry(i).or_default().push(Step::Add(counter, register));
        }
    }
    for &block in inside {
        found.reserved.insert(block, kept);
    }
}

/// Whether the loop is sure to get on: some way out depends on a register that changes by a step in every
/// round, or on memory such a register points to. A loop that waits for somebody else, or for ever, may be left
/// by a signal, and then what is in registers is gone.
fn comes_to_an_end<S: CodeSource + ?Sized>(
    cfg: &Cfg,
    source: &S,
    flow: &Flow,
    ways_out: &[usize],
    inside: &HashSet<BlockId>,
) -> bool {
    let mut reader = EffectsReader::new();
    let mut stepping = RegSet::EMPTY;
    for &block in inside {
        for insn in cfg.block(block).insns(source).filter(|insn| !insn.touches_memory()) {
            let effects = reader.effects(&insn);
            stepping |= effects.reads & effects.writes & RegSet::GPRS;
        }
    }
    ways_out.iter().filter(|&&i| flow.arcs[i].kind != ArcKind::NoReturn).any(|&i| {
        let Node::Block(from) = flow.arcs[i].from else { return false };
        let (mut decides, mut stepping_here) = (RegSet::EMPTY, RegSet::EMPTY);
        for insn in cfg.block(from).insns(source) {
            let effects = reader.effects(&insn);
            if effects.writes.intersects(RegSet::ARITHMETIC_FLAGS) {
                decides = effects.reads;
            }
            if insn.addr() == cfg.block(from).last_insn() {
                // `loop` counts by itself.
                stepping_here |= effects.reads & effects.writes & RegSet::GPRS;
                decides |= effects.reads;
            }
        }
        decides.intersects(stepping | stepping_here)
    })
}

/// What is live where an arc leads.
#[must_use]
pub fn live_behind<S: CodeSource + ?Sized>(liveness: &Liveness<'_, S>, arc: &Arc) -> RegSet {
    match (arc.to, arc.kind) {
        (Node::Block(to), _) => liveness.live_in(to),
        // Nothing reads flags behind a return, or where the program ends.
        (_, ArcKind::Return | ArcKind::NoReturn) => !RegSet::ARITHMETIC_FLAGS,
        _ => RegSet::ALL,
    }
}
