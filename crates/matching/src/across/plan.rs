//! What to splice: of the calls that a procedure makes and its partner does not, those whose callee has blocks like
//! some that the partner has and nobody knows.

use super::Build;
use super::calls::Site;
use super::splice::{Inside, Plan};
use crate::fingerprint::Procedure;
use crate::levels::index;
use hashbrown::{HashMap, HashSet};
use relive_profile::model::Level;
use std::collections::BTreeMap;

/// Smaller blocks look like each other by chance.
pub(super) const LEAST_INSNS: u32 = 4;

/// With fewer instructions than this in blocks that both have, or less of the callee, it would be taken out again,
const LEAST_SHARED_INSNS: u32 = 12;
const LEAST_SHARED: f64 = 0.04;
/// but for a small one of which so much is there.
const MOSTLY_SHARED: f64 = 0.2;

/// How deep callees of callees are followed.
const MOST_DEPTH: usize = 4;

/// How many copies one procedure may get.
const MOST_COPIES: usize = 12;

/// Together, callees may be so many times as large as the procedure that is thought to have them inside.
const MOST_GROWTH: u32 = 2;

/// The content of a block with nothing that inlining changes: no registers, no places.
fn content(procedure: &Procedure, block: u32) -> Option<u64> {
    let block = &procedure.blocks[block as usize];
    (block.insns >= LEAST_INSNS).then_some(block.hashes[index(Level::Four)])
}

/// A procedure that may have been inlined into.
pub(super) struct Host<'a> {
    pub(super) procedure: &'a Procedure,
    /// Content of blocks nobody knows, and how many have it.
    free: HashMap<u64, u32>,
    /// Calls that it makes, by the partner of what it calls; those that are accounted for are taken away.
    calls: HashMap<u32, u32>,
}

impl<'a> Host<'a> {
    /// The host `number` of `build`, of which the blocks in `known` have partners.
    pub(super) fn new(build: &'a Build<'_>, number: u32, known: impl Fn(u32) -> bool) -> Self {
        let procedure = &build.print.procedures[number as usize];
        let mut free = HashMap::new();
        for block in (0..procedure.blocks.len() as u32).filter(|&block| !known(block)) {
            if let Some(content) = content(procedure, block) {
                *free.entry(content).or_default() += 1;
            }
        }
        let mut calls = HashMap::new();
        for partner in build.sites[number as usize].iter().filter_map(|s| build.partner[s.callee as usize]) {
            *calls.entry(partner).or_default() += 1;
        }
        Self { procedure, free, calls }
    }

    /// Whether it has anything that may come from elsewhere.
    pub(super) fn is_open(&self) -> bool {
        !self.free.is_empty()
    }

    /// How many times `procedure` may be inside, by the blocks they share, and how many instructions these have.
    fn instances(&self, procedure: &Procedure) -> (usize, u32) {
        let mut own: HashMap<u64, (u32, u32)> = HashMap::new();
        for block in 0..procedure.blocks.len() as u32 {
            if let Some(content) = content(procedure, block) {
                let (blocks, insns) = own.entry(content).or_default();
                (*blocks, *insns) = (*blocks + 1, *insns + procedure.blocks[block as usize].insns);
            }
        }
        let (mut there, mut all, mut shared) = (0, 0, 0);
        for (content, (blocks, insns)) in own {
            if let Some(free) = self.free.get(&content) {
                (there, all, shared) = (there + free, all + blocks, shared + insns);
            }
        }
        let share = f64::from(shared) / f64::from(procedure.insns.max(1));
        let enough = shared >= LEAST_SHARED_INSNS && share >= LEAST_SHARED || share >= MOSTLY_SHARED;
        match there.checked_div(all) {
            Some(copies) if enough => (copies.max(1) as usize, shared),
            _ => (0, 0),
        }
    }

    /// Takes a call of `procedure` away, if there is one.
    fn take(&mut self, procedure: u32) -> bool {
        match self.calls.get_mut(&procedure) {
            Some(calls) if *calls > 0 => {
                *calls -= 1;
                true
            }
            _ => false,
        }
    }
}

/// What of the callees of `root` may be inside of `host`. `answers` tells whether the partner of a block makes the same call.
pub(super) fn plan(
    build: &Build<'_>,
    root: u32,
    host: &mut Host<'_>,
    answers: impl Fn(u32, u32) -> bool,
    choice: &Choice,
) -> Plan {
    let sites = &build.sites[root as usize];
    let mut open = Vec::new();
    for site in sites {
        if !(answers(site.block, site.callee) && host.take(site.callee)) {
            open.push(*site);
        }
    }
    let room = Room { insns: MOST_GROWTH * host.procedure.insns, copies: MOST_COPIES };
    let mut planner = Planner { build, host, choice, room, chain: vec![root] };
    Plan { procedure: root, inside: planner.inside(&open) }
}

/// What may be inside.
pub(super) enum Choice {
    AllBut(HashSet<u32>),
    Only(HashSet<u32>),
}

impl Choice {
    fn has(&self, procedure: u32) -> bool {
        match self {
            Self::AllBut(refused) => !refused.contains(&procedure),
            Self::Only(good) => good.contains(&procedure),
        }
    }
}

/// What may still be added.
#[derive(Clone, Copy)]
struct Room {
    insns: u32,
    copies: usize,
}

struct Planner<'a, 'h> {
    build: &'a Build<'a>,
    host: &'a mut Host<'h>,
    choice: &'a Choice,
    room: Room,
    /// The procedures it is at, each inside of the one before.
    chain: Vec<u32>,
}

impl Planner<'_, '_> {
    /// What to put in place of some of `sites`.
    fn inside(&mut self, sites: &[Site]) -> Vec<Inside> {
        let mut by_callee: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for site in sites {
            if !self.host.take(site.callee) {
                by_callee.entry(site.callee).or_default().push(site.call);
            }
        }
        let instances = |callee: u32| self.host.instances(&self.build.print.procedures[callee as usize]);
        let mut callees: Vec<_> =
            by_callee.into_iter().map(|(callee, calls)| (instances(callee), callee, calls)).collect();
        // There may not be room for all: those that share most come first.
        callees.sort_by_key(|((_, shared), callee, _)| (std::cmp::Reverse(*shared), *callee));
        let mut all = Vec::new();
        for ((instances, _), callee, calls) in callees {
            // Where there are fewer copies than calls, calls have been merged.
            let copies = instances.clamp(1, calls.len());
            let mut inside: Vec<Inside> = Vec::new();
            for &call in &calls[..copies] {
                if let Some(plan) = self.callee(callee, instances > 0) {
                    inside.push(Inside { call, merged: Vec::new(), plan });
                }
            }
            if !inside.is_empty() {
                let copies = inside.len();
                let rest = calls.iter().filter(|call| !inside.iter().any(|i| i.call == **call));
                let rest: Vec<u32> = rest.copied().collect();
                for (i, call) in rest.into_iter().enumerate() {
                    inside[i % copies].merged.push(call);
                }
            }
            all.extend(inside);
        }
        all.sort_unstable_by_key(|inside| inside.call);
        all
    }

    fn callee(&mut self, number: u32, shares: bool) -> Option<Plan> {
        let procedure = &self.build.print.procedures[number as usize];
        if self.chain.contains(&number)
            || self.chain.len() > MOST_DEPTH
            || !self.choice.has(number)
            || self.room.copies == 0
            || procedure.insns > self.room.insns
            || procedure.blocks.is_empty()
        {
            return None;
        }
        let before = self.room;
        self.room = Room { insns: before.insns - procedure.insns, copies: before.copies - 1 };
        self.chain.push(number);
        let inside = self.inside(&self.build.sites[number as usize]);
        self.chain.pop();
        if inside.is_empty() && !shares {
            self.room = before;
            return None;
        }
        Some(Plan { procedure: number, inside })
    }
}
