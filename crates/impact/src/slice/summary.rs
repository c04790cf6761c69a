//! What depends on what in one function: a forward data-flow analysis in which each register, slot of the frame and block
//! carries the set of things that it depends on. So a function is looked at once for all its callers.

use super::code::{Code, Mem, Op, Place, Site, Target, of_block};
use super::control::Dependents;
use super::facts::Facts;
use super::imports::{Does, Import};
use super::mask::{
    ALWAYS, ENTERED, ERRNO, INPUTS, JUMPS, KEPT, Mask, RESULTS, RSP, SHARED, STACK, UNITS, UNKNOWN, WORLD,
    bit, units,
};
use super::objects::Objects;
use super::provenance::Frame;
use crate::blocks::Blocks;
use hashbrown::HashMap;
use std::collections::BTreeSet;

/// What callers have to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Outcome {
    /// What each register depends on when the function comes back.
    pub(super) out: Box<[Mask; UNITS]>,
    /// What it depends on whether it comes back.
    pub(super) leaves: Mask,
}

impl Default for Outcome {
    /// Of what nothing is known yet.
    fn default() -> Self {
        Self { out: Box::new([0; UNITS]), leaves: 0 }
    }
}

impl Outcome {
    /// Of what nothing will ever be known: everything depends on everything.
    pub(super) fn of_anything(reads: Mask) -> Self {
        let all = reads | UNKNOWN | WORLD;
        Self { out: Box::new([all; UNITS]), leaves: all }
    }

    /// Adds another; whether anything is new.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        let mut new = self.leaves | other.leaves != self.leaves;
        self.leaves |= other.leaves;
        for (mine, theirs) in self.out.iter_mut().zip(other.out.iter()) {
            new |= *mine | theirs != *mine;
            *mine |= theirs;
        }
        new
    }
}

/// A place in memory or outside that functions leave something in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Location {
    /// One of [`SHARED`].
    Shared(Mask),
    /// Data blocks: the first, and the one behind the last.
    Data(u32, u32),
}

/// A call and what it depends on.
#[derive(Clone, Debug)]
pub(super) struct Called {
    pub(super) callee: u32,
    /// How often it is made.
    pub(super) made: Mask,
    /// What the callee finds.
    pub(super) passes: Vec<(u8, Mask)>,
}

/// What happens in a function, and what it depends on.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    pub(super) writes: Vec<(Location, Mask)>,
    pub(super) calls: Vec<Called>,
    /// By block: how often it runs.
    pub(super) runs: Vec<Mask>,
    /// By block: which way it leaves.
    pub(super) ways: Vec<Mask>,
    /// By block: what it computes.
    pub(super) values: Vec<Mask>,
}

/// What is known beyond a function.
pub(super) struct Around<'a> {
    pub(super) facts: &'a Facts,
    pub(super) objects: &'a Objects,
    /// By function, and for whatever a pointer leads to.
    pub(super) outcomes: &'a [Outcome],
    /// Data blocks that are affected.
    pub(super) data: &'a BTreeSet<u32>,
}

/// What is known of the blocks of a function from the start.
#[derive(Clone, Copy)]
pub(super) struct Marks<'a> {
    pub(super) function: u32,
    pub(super) seeds: &'a Blocks,
    pub(super) idle: &'a Blocks,
}

impl Marks<'_> {
    /// Whether a block is affected by itself.
    fn is_seed(self, block: u32) -> bool {
        self.seeds.contains(self.function, block)
    }

    /// Whether a block does not run, as far as known.
    fn is_idle(self, block: u32) -> bool {
        self.idle.contains(self.function, block)
    }
}

type State = [Mask; UNITS];

/// The analysis of a function.
pub(super) struct Analysis<'a> {
    around: &'a Around<'a>,
    code: &'a Code,
    dependents: &'a Dependents,
    /// Blocks that do not run as far as known.
    idle: Vec<bool>,
    /// Of blocks and hubs: what is known at their start.
    starts: Vec<State>,
    /// Whether some way leads there.
    reached: Vec<bool>,
    /// What it depends on how often they run.
    runs: Vec<Mask>,
    /// What it depends on which way they leave.
    decisions: Vec<Mask>,
    /// What it depends on where hubs lead.
    jumps: Vec<Mask>,
    slots: Vec<Mask>,
    /// What may have been written anywhere in the frame.
    frame: Mask,
    outcome: Outcome,
    events: Option<Recorder>,
    pending: Vec<bool>,
}

/// Events while they are collected.
#[derive(Default)]
struct Recorder {
    writes: HashMap<Location, Mask>,
    calls: Vec<Called>,
    values: Vec<Mask>,
}

/// Looks at a function.
pub(super) fn outcome(
    around: &Around<'_>,
    code: &Code,
    dependents: &Dependents,
    marks: Marks<'_>,
) -> Outcome {
    if code.opaque {
        return opaque(around, code, marks);
    }
    let mut analysis = Analysis::new(around, code, dependents, marks);
    analysis.solve();
    analysis.outcome
}

/// What happens in a function.
pub(super) fn events(around: &Around<'_>, code: &Code, dependents: &Dependents, marks: Marks<'_>) -> Events {
    if code.opaque {
        return opaque_events(around, code, marks);
    }
    let mut analysis = Analysis::new(around, code, dependents, marks);
    analysis.solve();
    let count = code.blocks.len();
    analysis.events = Some(Recorder { values: vec![0; count], ..Recorder::default() });
    (0..code.graph.len() as u32).for_each(|node| analysis.visit(node));
    let recorded = analysis.events.unwrap_or_default();
    let ways = |block: usize| {
        let own = &code.blocks[block];
        let inner = code.graph.successors(block as u32).len();
        let out = own.returns || own.tail || around.facts.may_end(code, block);
        if inner + usize::from(out) > 1 { analysis.decisions[block] } else { 0 }
    };
    Events {
        writes: recorded.writes.into_iter().collect(),
        calls: recorded.calls,
        runs: analysis.runs[..count].iter().map(|runs| runs | ENTERED).collect(),
        ways: (0..count).map(ways).collect(),
        values: recorded.values,
    }
}

fn opaque(around: &Around<'_>, code: &Code, marks: Marks<'_>) -> Outcome {
    let reads = |(first, behind)| around.data.range(first..behind).next().is_some();
    let seeded =
        (0..code.blocks.len() as u32).any(|block| marks.is_seed(block)) || code.read_data().any(reads);
    Outcome::of_anything(INPUTS & !RSP | if seeded { ALWAYS } else { 0 })
}

fn opaque_events(around: &Around<'_>, code: &Code, marks: Marks<'_>) -> Events {
    let all = opaque(around, code, marks).leaves | ENTERED;
    let pointer = around.facts.pointer();
    let blocks = vec![all; code.blocks.len()];
    Events {
        writes: [UNKNOWN, WORLD, ERRNO, JUMPS].map(|shared| (Location::Shared(shared), all)).to_vec(),
        calls: vec![Called {
            callee: pointer,
            made: all,
            passes: (0..UNITS as u8).map(|unit| (unit, all & !ENTERED)).collect(),
        }],
        runs: blocks.clone(),
        ways: blocks.clone(),
        values: blocks,
    }
}

/// What a callee's register depends on, in terms of its caller.
fn through(mask: Mask, passed: &State) -> Mask {
    units(mask).fold(mask & SHARED, |all, unit| all | passed[unit])
}

impl<'a> Analysis<'a> {
    fn new(around: &'a Around<'a>, code: &'a Code, dependents: &'a Dependents, marks: Marks<'_>) -> Self {
        let nodes = code.graph.len();
        let mut starts = vec![[0; UNITS]; nodes];
        let mut reached = vec![false; nodes];
        let mut runs = vec![0; nodes];
        for (block, runs) in runs.iter_mut().enumerate().take(code.blocks.len()) {
            if marks.is_seed(block as u32) {
                *runs = ALWAYS;
            }
        }
        for &entry in &code.entries {
            starts[entry as usize] = std::array::from_fn(bit);
            starts[entry as usize][4] = 0;
            reached[entry as usize] = true;
        }
        for &landing in &code.landings {
            starts[landing as usize].iter_mut().for_each(|unit| *unit |= JUMPS);
            reached[landing as usize] = true;
        }
        spread_jumps(code, &mut runs);
        let idle = (0..code.blocks.len() as u32).map(|block| marks.is_idle(block)).collect();
        Self {
            idle,
            around,
            code,
            dependents,
            starts,
            reached,
            runs,
            decisions: vec![0; nodes],
            jumps: vec![0; nodes],
            slots: vec![0; code.slots.len()],
            frame: 0,
            outcome: Outcome::default(),
            events: None,
            pending: vec![true; nodes],
        }
    }

    /// Goes on until nothing changes. In reverse postorder, one round is enough without loops and decisions.
    fn solve(&mut self) {
        let mut order = self.code.graph.postorder();
        order.reverse();
        while self.pending.contains(&true) {
            for &node in &order {
                if std::mem::replace(&mut self.pending[node as usize], false) {
                    self.visit(node);
                }
            }
        }
    }

    fn visit(&mut self, node: u32) {
        let index = node as usize;
        if self.idle.get(index) == Some(&true) {
            return self.pass_over(node);
        }
        let mut state = self.starts[index];
        let mut decision = self.runs[index] | self.jumps[index];
        if index < self.code.blocks.len() {
            let block = &self.code.blocks[index];
            let (mut last, mut kernel) = (0, 0);
            for op in block.ops.clone() {
                let op = self.code.ops[op as usize];
                last = self.step(&mut state, op, index);
                kernel |= if op.kernel { last } else { 0 };
            }
            // The kernel need not come back either.
            decision |= kernel | if block.decides { last } else { 0 };
            if block.kernel || block.stops {
                self.outcome.leaves |= kernel | self.runs[index];
            }
            let code = self.code;
            let before = state;
            for site in &code.sites[of_block(&code.sites, index)] {
                let mut after = before;
                let target = if site.target == Target::Pointer { last } else { 0 };
                let way = if site.tail { decision } else { 0 };
                let made = self.runs[index] | target | way;
                decision |= self.call(&mut after, site, made) | target;
                if site.tail {
                    self.come_back(&after);
                } else {
                    state = after;
                }
            }
            if block.returns {
                self.come_back(&state);
            }
        }
        self.decide(node, decision);
        self.go_on(node, &state, decision);
    }

    /// A block that does not run. If it does all the same, so may all it decides about and all it calls; what it leaves behind is asked
    /// then.
    fn pass_over(&mut self, node: u32) {
        let (code, runs) = (self.code, self.runs[node as usize]);
        for site in &code.sites[of_block(&code.sites, node as usize)] {
            let callee = match site.target {
                Target::Import(import) if import.does == Does::Anything => Some(self.around.facts.pointer()),
                target => self.around.facts.callee(target),
            };
            if let Some(callee) = callee {
                self.hand_on(callee, runs, &[0; UNITS], 0);
            }
        }
        self.decide(node, runs);
    }

    /// The function comes back.
    fn come_back(&mut self, state: &State) {
        for (unit, (out, now)) in self.outcome.out.iter_mut().zip(state).enumerate() {
            // By convention, what was saved is given back.
            *out |= if bit(unit) & KEPT & self.code.saves != 0 { bit(unit) } else { *now };
        }
    }

    /// Which way a node leaves depends on something: so do all who run or not by that.
    fn decide(&mut self, node: u32, decision: Mask) {
        let known = &mut self.decisions[node as usize];
        if decision & !*known == 0 {
            return;
        }
        *known |= decision;
        let (runs, pending) = (&mut self.runs, &mut self.pending);
        self.dependents.each(node, self.code.graph.len(), |other| {
            let runs = &mut runs[other as usize];
            if decision & !*runs != 0 {
                *runs |= decision;
                pending[other as usize] = true;
            }
        });
    }

    fn go_on(&mut self, node: u32, state: &State, decision: Mask) {
        let code = self.code;
        for &next in code.graph.successors(node) {
            let index = next as usize;
            let mut new = !std::mem::replace(&mut self.reached[index], true);
            if index >= code.blocks.len() {
                new |= decision & !self.jumps[index] != 0;
                self.jumps[index] |= decision;
            }
            let pad = code.pads.get(index) == Some(&true);
            for (unit, (known, now)) in self.starts[index].iter_mut().zip(state).enumerate() {
                // What was thrown is in two registers.
                let now = if pad && bit(unit) & RESULTS != 0 { now | decision } else { *now };
                new |= now & !*known != 0;
                *known |= now;
            }
            self.pending[index] |= new;
        }
    }

    /// One instruction; what it depends on comes back.
    fn step(&mut self, state: &mut State, op: Op, block: usize) -> Mask {
        let code = self.code;
        let mems = &code.mems[op.first as usize..op.first as usize + usize::from(op.accesses)];
        let mut read = units(op.reads).fold(0, |all, unit| all | state[unit]);
        for mem in mems.iter().filter(|mem| mem.reads) {
            read |= self.load(mem);
        }
        if op.kernel {
            read |= UNKNOWN | WORLD;
        }
        if let Some(recorder) = &mut self.events
            && !op.keeps
        {
            recorder.values[block] |= read | self.runs[block] & ALWAYS;
        }
        let all = read | self.runs[block];
        for mem in mems.iter().filter(|mem| mem.writes) {
            self.store(mem, all);
        }
        if op.kernel {
            self.leave_in_world(all);
        }
        units(op.kills).for_each(|unit| state[unit] = 0);
        units(op.writes).for_each(|unit| state[unit] |= all);
        read
    }

    fn load(&self, mem: &Mem) -> Mask {
        let outside = if self.code.escapes { UNKNOWN } else { 0 };
        match mem.place {
            Place::Unknown => UNKNOWN,
            Place::AllData => UNKNOWN | if self.around.data.is_empty() { 0 } else { ALWAYS },
            Place::Data(first, behind) => {
                let affected = self.around.data.range(first..behind).next().is_some();
                let reachable = !self.around.objects.is_constant(first) && self.is_escaped(first, behind);
                (if affected { ALWAYS } else { 0 }) | if reachable { UNKNOWN } else { 0 }
            }
            Place::Frame => self.any_slot() | outside,
            Place::Slots(first, behind) => (first..behind).fold(0, |all, slot| {
                let slot = slot as usize;
                let shared = if self.code.slots[slot].private { 0 } else { self.frame | outside };
                all | self.slots[slot] | shared
            }),
        }
    }

    fn any_slot(&self) -> Mask {
        let shared = self.slots.iter().zip(&self.code.slots).filter(|(_, slot)| !slot.private);
        shared.fold(self.frame, |all, (mask, _)| all | mask)
    }

    fn is_escaped(&self, first: u32, behind: u32) -> bool {
        let objects = self.around.objects;
        let (from, to) = (objects.of_block(first), objects.of_block(behind - 1));
        (from..=to).any(|object| self.around.facts.escaped[object as usize])
    }

    fn store(&mut self, mem: &Mem, value: Mask) {
        match mem.place {
            Place::Unknown => self.record(Location::Shared(UNKNOWN), value | ENTERED),
            Place::AllData => {
                self.record(Location::Shared(UNKNOWN), value | ENTERED);
                self.record(Location::Data(0, u32::MAX), value | ENTERED);
            }
            Place::Data(first, behind) => {
                if self.is_escaped(first, behind) {
                    self.record(Location::Shared(UNKNOWN), value | ENTERED);
                }
                self.record(Location::Data(first, behind), value | ENTERED);
            }
            // What another call of the function leaves in its frame nobody sees.
            Place::Frame => {
                if value & !self.frame != 0 {
                    self.frame |= value;
                    self.pending.fill(true);
                }
                if self.code.escapes {
                    self.record(Location::Shared(UNKNOWN), value);
                }
            }
            Place::Slots(first, behind) => {
                for slot in first as usize..behind as usize {
                    if value & !self.slots[slot] != 0 {
                        self.slots[slot] |= value;
                        self.pending.fill(true);
                    }
                    if self.code.escapes && !self.code.slots[slot].private {
                        self.record(Location::Shared(UNKNOWN), value);
                    }
                }
            }
        }
    }

    fn record(&mut self, location: Location, mask: Mask) {
        if let Some(recorder) = &mut self.events {
            *recorder.writes.entry(location).or_default() |= mask;
        }
    }

    /// Something happens that others may find in memory, files, or the last error.
    fn leave_in_world(&mut self, mask: Mask) {
        for shared in [UNKNOWN, WORLD, ERRNO] {
            self.record(Location::Shared(shared), mask | ENTERED);
        }
    }

    /// A call; what it depends on whether it comes back is told.
    fn call(&mut self, state: &mut State, site: &Site, made: Mask) -> Mask {
        let Some(callee) = self.around.facts.callee(site.target) else {
            let Target::Import(import) = site.target else { return 0 };
            return self.call_import(state, site, import, made);
        };
        let fact = self.around.facts.functions[callee as usize];
        let outcome = &self.around.outcomes[callee as usize];
        let mut passed = *state;
        passed[STACK] = self.on_stack(state, site, fact.incoming);
        for unit in units(fact.touches) {
            state[unit] = through(outcome.out[unit], &passed) | made;
        }
        let leaves = through(outcome.leaves, &passed);
        self.outcome.leaves |= leaves | if fact.may_leave { made } else { 0 };
        self.hand_on(callee, made, &passed, fact.reads);
        if fact.incoming == u32::MAX {
            // Its arguments on the stack may be read through pointers.
            self.record(Location::Shared(UNKNOWN), passed[STACK]);
        }
        leaves
    }

    fn hand_on(&mut self, callee: u32, made: Mask, passed: &State, reads: Mask) {
        if let Some(recorder) = &mut self.events {
            let passes = units(reads)
                .filter(|&unit| passed[unit] != 0)
                .map(|unit| (unit as u8, passed[unit]))
                .collect();
            recorder.calls.push(Called { callee, made: made | ENTERED, passes });
        }
    }

    /// What arguments on the stack depend on.
    fn on_stack(&self, state: &State, site: &Site, bytes: u32) -> Mask {
        if bytes == 0 {
            return 0;
        }
        let own = if site.tail { state[STACK] } else { 0 };
        let Frame::At(top) = site.top else { return own | self.any_slot() };
        let first = top + if site.tail { 8 } else { 0 };
        let behind = i64::from(first) + i64::from(bytes);
        let slots = self.slots.iter().zip(&self.code.slots);
        let among =
            slots.filter(|(_, slot)| slot.at >= first.div_euclid(4) && i64::from(slot.at) * 4 < behind);
        among.fold(own | self.frame, |all, (mask, _)| all | mask)
    }

    fn call_import(&mut self, state: &mut State, site: &Site, import: Import, made: Mask) -> Mask {
        let stack = if import.more { self.on_stack(state, site, u32::MAX) } else { 0 };
        let given = units(import.passed()).fold(made | stack, |all, unit| all | state[unit]);
        let seen = given | UNKNOWN;
        let touches = self.around.facts.of(site.target).touches;
        let (result, leaves) = match import.does {
            Does::Computes | Does::Allocates => (given, 0),
            Does::Reads => (seen, 0),
            Does::Writes => {
                self.record(Location::Shared(UNKNOWN), given | ENTERED);
                (seen, 0)
            }
            Does::Prints => {
                self.record(Location::Shared(ERRNO), seen | ENTERED);
                (seen, 0)
            }
            Does::Emits => {
                self.record(Location::Shared(WORLD), seen | ENTERED);
                self.record(Location::Shared(ERRNO), seen | ENTERED);
                (seen | WORLD, 0)
            }
            Does::Fetches => {
                self.leave_in_world(given | WORLD);
                (seen | WORLD, 0)
            }
            Does::ErrorPlace => (given | ERRNO, 0),
            Does::Leaves => {
                self.outcome.leaves |= made;
                (given, 0)
            }
            Does::Jumps => {
                self.record(Location::Shared(JUMPS), seen | ENTERED);
                self.outcome.leaves |= made;
                (given, 0)
            }
            Does::Anything => {
                let all = seen | WORLD | ERRNO;
                self.leave_in_world(all);
                self.record(Location::Shared(JUMPS), all | ENTERED);
                self.outcome.leaves |= all;
                self.hand_on(self.around.facts.pointer(), all, &[all; UNITS], INPUTS);
                (all, all)
            }
        };
        for unit in units(touches) {
            state[unit] = if bit(unit) & RESULTS != 0 { result } else { made };
        }
        leaves
    }
}

/// Wherever control comes out of nowhere, how often blocks run depends on that.
fn spread_jumps(code: &Code, runs: &mut [Mask]) {
    let mut pending = code.landings.clone();
    while let Some(node) = pending.pop() {
        if runs[node as usize] & JUMPS == 0 {
            runs[node as usize] |= JUMPS;
            pending.extend(code.graph.successors(node));
        }
    }
}
