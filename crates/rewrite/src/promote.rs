//! Keeps counters of tight loops out of memory while the loop runs.
//!
//! In a loop of a few instructions, adding to memory in every round costs more than the loop itself. Where
//! a register is free all through such a loop and those inside it, it can hold a counter: set to zero on the way in, added to
//! memory on every way out. If another register moves on by a constant in every round, not even that is needed
//! to know how often the loop was at its head: the free one keeps where the other began. What is counted since
//! the way in is lost if the loop is never left by one of its own ways: the process is killed there, or a signal
//! handler does not come back.

use crate::assembler::LINE;
use crate::counting::Way;
use crate::tight::Tight;
use relive_code::cfg::{BlockId, Cfg};
use relive_code::isa::{Gpr, RegSet, Stride};
use relive_code::liveness::Liveness;
use relive_code::source::CodeSource;
use relive_probe::frequency::Frequencies;
use relive_probe::graph::{Arc, ArcKind, Flow, Node};
use relive_probe::placement::Plan;
use std::collections::HashMap;

/// What is done on an arc beside counting it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A register becomes zero.
    Clear(Gpr),
    /// A register is added to a counter.
    Add(u32, Gpr),
    /// A register keeps where a journey begins.
    Depart(Gpr, Stride, i64),
    /// What was travelled since is added to a counter, and so many rounds more.
    Arrive(u32, Gpr, Stride, i64),
}

impl Step {
    /// Whether it is the last thing done on a way: what comes before may still need the register.
    #[must_use]
    pub fn is_start(self) -> bool {
        matches!(self, Self::Clear(_) | Self::Depart(..))
    }

    /// What it reads: nothing before it on the way may change that.
    #[must_use]
    pub fn reads(self) -> RegSet {
        match self {
            Self::Clear(_) => RegSet::EMPTY,
            Self::Add(_, register) => RegSet::gpr(register),
            Self::Depart(_, stride, _) => RegSet::gpr(stride.register),
            Self::Arrive(_, register, stride, _) => RegSet::gpr(register) | RegSet::gpr(stride.register),
        }
    }
}

/// Counters that live in registers.
#[derive(Default, Debug)]
pub struct Promotions {
    /// For each such counter, its register.
    pub registers: HashMap<u32, Gpr>,
    /// Blocks whose counter needs no code in them.
    pub travelled: HashMap<BlockId, u32>,
    /// What is done on arcs, by their index.
    pub steps: HashMap<usize, Vec<Step>>,
    /// Registers that must be left alone in a block.
    pub reserved: HashMap<BlockId, RegSet>,
    /// The first and the last block of loops that should not lie across two lines.
    pub lines: HashMap<BlockId, BlockId>,
}

/// More would hardly ever find a register.
const MOST: usize = 4;

/// What departing and arriving costs, in counters. It is more if the loop ends at once, but to count in memory
/// costs far more if the loop does not.
const JOURNEY: f64 = 1.5;

/// By how much less often than the loop is entered a counter may be passed to be kept in a register.
const SELDOM: f64 = 0.5;

/// So many rounds make up for the fill in front of a loop, up to six instructions that do nothing, and that whoever enters it from
/// above goes through. Of what lz4 1.10.0 executed more with some of its loops counted, three quarters were fill in front of loops that ended at
/// once; flac 1.5.0 has hot ones of four rounds.
const ROUNDS: f64 = 16.0;

/// Loops that may fit on a line: the first block of each, and the last. If it is known how `often` they run, only those that go round often enough
/// to gain by it.
#[must_use]
pub fn lines(cfg: &Cfg, tight: &[Tight], often: Option<&Frequencies>) -> HashMap<BlockId, BlockId> {
    let line = |a_loop: &Tight| {
        let rounds =
            |often: &Frequencies| often.blocks[a_loop.header.index()] >= entered(a_loop, often) * ROUNDS;
        if !often.is_none_or(rounds) {
            return None;
        }
        let first = a_loop.inside.iter().copied().min_by_key(|&id| cfg.block(id).start)?;
        let last = a_loop.inside.iter().copied().max_by_key(|&id| cfg.block(id).start)?;
        let len = cfg.block(last).end_addr().since(cfg.block(first).start);
        (len <= u64::from(LINE)).then_some((first, last))
    };
    tight.iter().filter_map(line).collect()
}

/// Loops whose rounds can be told by a register that moves on, by their heads.
pub type Journeys = HashMap<BlockId, Journey>;

/// How the rounds of a loop are told.
#[derive(Clone, Copy, Debug)]
pub struct Journey {
    /// What keeps where it began.
    pub register: Gpr,
    /// What that costs.
    pub price: f64,
}

/// Finds loops that can be counted by a journey, and worth it.
#[must_use]
pub fn journeys<S: CodeSource + ?Sized>(
    tight: &[Tight],
    flow: &Flow,
    often: &Frequencies,
    liveness: &Liveness<'_, S>,
) -> Journeys {
    let (mut journeys, mut reserved) = (Journeys::new(), HashMap::new());
    // The inner ones first: they go round more often.
    for a_loop in tight.iter().rev() {
        let price = entered(a_loop, often) * JOURNEY;
        let flags_free =
            |&i: &usize| !live_behind(liveness, &flow.arcs[i]).intersects(RegSet::ARITHMETIC_FLAGS);
        let can = a_loop.odometer.is_some() && a_loop.ways_out.iter().all(flags_free);
        if let (true, Some(&register)) = (can, free(a_loop, liveness, &reserved).first())
            && price < often.blocks[a_loop.header.index()]
        {
            journeys.insert(a_loop.header, Journey { register, price });
            reserve(a_loop, RegSet::gpr(register), &mut reserved);
        }
    }
    journeys
}

fn entered(a_loop: &Tight, often: &Frequencies) -> f64 {
    a_loop.ways_in.iter().map(|&i| often.arcs[i]).sum()
}

/// Registers that nobody needs all through a loop.
fn free<S: CodeSource + ?Sized>(
    a_loop: &Tight,
    liveness: &Liveness<'_, S>,
    reserved: &HashMap<BlockId, RegSet>,
) -> Vec<Gpr> {
    let reserved = a_loop.inside.iter().filter_map(|block| reserved.get(block));
    let reserved = reserved.fold(RegSet::gpr(Gpr::RSP), |all, &some| all | some);
    let busy = a_loop.touched | liveness.live_in(a_loop.header) | reserved;
    Gpr::all().filter(|&r| !busy.intersects(RegSet::gpr(r))).collect()
}

fn reserve(a_loop: &Tight, registers: RegSet, reserved: &mut HashMap<BlockId, RegSet>) {
    for &block in &a_loop.inside {
        *reserved.entry(block).or_insert(RegSet::EMPTY) |= registers;
    }
}

/// Finds counters to promote.
#[must_use]
pub fn promote<S: CodeSource + ?Sized>(
    lines: HashMap<BlockId, BlockId>,
    tight: &[Tight],
    journeys: &Journeys,
    flow: &Flow,
    plan: &Plan,
    often: &Frequencies,
    liveness: &Liveness<'_, S>,
) -> Promotions {
    let mut found = Promotions { lines, ..Promotions::default() };
    for a_loop in tight {
        if let (Some(counter), Some(journey)) =
            (plan.blocks[a_loop.header.index()], journeys.get(&a_loop.header))
        {
            travel(a_loop, counter, journey.register, &mut found);
            reserve(a_loop, RegSet::gpr(journey.register), &mut found.reserved);
        }
    }
    // The outer ones first: what they keep is set up and added up less often.
    for a_loop in tight {
        keep(a_loop, flow, plan, often, liveness, &mut found);
    }
    found
}

/// Counts the head of a loop by how far a register moved on.
fn travel(a_loop: &Tight, counter: u32, register: Gpr, found: &mut Promotions) {
    let Some(odometer) = &a_loop.odometer else { return };
    let stride = odometer.stride;
    // The head is passed once more than the register moves on, if it has not moved on in the last round.
    let rounds = |moved: bool| i64::from(!moved);
    let usual = rounds(odometer.moved.first().copied().unwrap_or(true));
    found.travelled.insert(a_loop.header, counter);
    for &i in &a_loop.ways_in {
        let depart = Step::Depart(register, stride, -usual * stride.by);
        found.steps.entry(i).or_default().push(depart);
    }
    for (&i, &moved) in a_loop.ways_out.iter().zip(&odometer.moved) {
        let arrive = Step::Arrive(counter, register, stride, rounds(moved) - usual);
        found.steps.entry(i).or_default().push(arrive);
    }
}

/// Keeps counters of a loop in registers that are free.
fn keep<S: CodeSource + ?Sized>(
    a_loop: &Tight,
    flow: &Flow,
    plan: &Plan,
    often: &Frequencies,
    liveness: &Liveness<'_, S>,
    found: &mut Promotions,
) {
    let (free, entered) = (free(a_loop, liveness, &found.reserved), entered(a_loop, often));
    let mut counters: Vec<(f64, u32)> = Vec::new();
    counters.extend(a_loop.within.iter().filter_map(|&i| Some((often.arcs[i], plan.arcs[i]?))));
    counters.extend(a_loop.inside.iter().filter_map(|b| {
        let counter = plan.blocks[b.index()].filter(|_| !found.travelled.contains_key(b))?;
        Some((often.blocks[b.index()], counter))
    }));
    counters.retain(|(often, counter)| *often >= entered * SELDOM && !found.registers.contains_key(counter));
    counters.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    counters.truncate(MOST.min(free.len()));
    let kept: RegSet = free.iter().take(counters.len()).copied().collect();
    // On a way out of several loops, whatever any of them keeps is in use.
    let adds_anywhere = a_loop.ways_out.iter().all(|&i| {
        let arc = &flow.arcs[i];
        let steps = found.steps.get(&i).into_iter().flatten();
        let in_use = steps.fold(live_behind(liveness, arc) | kept, |all, step| all | step.reads());
        let reserved = match arc.from {
            Node::Block(from) => found.reserved.get(&from).copied().unwrap_or(RegSet::EMPTY),
            _ => RegSet::EMPTY,
        };
        Way::best_to_add(in_use | reserved) != Way::Spill
    });
    if counters.is_empty() || !adds_anywhere {
        return;
    }
    for (&(_, counter), &register) in counters.iter().zip(&free) {
        found.registers.insert(counter, register);
        for &i in &a_loop.ways_in {
            found.steps.entry(i).or_default().push(Step::Clear(register));
        }
        for &i in &a_loop.ways_out {
            found.steps.entry(i).or_default().push(Step::Add(counter, register));
        }
    }
    reserve(a_loop, kept, &mut found.reserved);
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
