//! What to splice: of the calls that a procedure makes and its partner does not, those whose callee has blocks like
//! some that the partner has and nobody knows.

use super::Build;
use super::splice::Plan;
use crate::fingerprint::Procedure;
use crate::levels::index;
use relive_profile::model::Level;
use std::collections::{HashMap, HashSet};

/// Smaller blocks look like each other by chance.
pub(super) const LEAST_INSNS: u32 = 4;

/// How deep callees of callees are followed.
const MOST_DEPTH: usize = 4;

/// How many copies one procedure may get.
const MOST_COPIES: usize = 32;

/// Together, callees may be so many times as large as the procedure that is thought to have them inside.
const MOST_GROWTH: u32 = 3;

/// The content of a block with nothing that inlining changes: no registers, no places.
fn content(procedure: &Procedure, block: u32) -> Option<u64> {
    let block = &procedure.blocks[block as usize];
    (block.insns >= LEAST_INSNS).then_some(block.hashes[index(Level::Four)])
}

/// A procedure that may have been inlined into.
pub(super) struct Host<'a> {
    pub(super) procedure: &'a Procedure,
    /// Content of blocks nobody knows.
    free: HashSet<u64>,
    /// Calls that it makes, by the partner of what it calls; those that are accounted for are taken away.
    calls: HashMap<u32, u32>,
}

impl<'a> Host<'a> {
    /// The host `number` of `build`, of which the blocks in `known` have partners.
    pub(super) fn new(build: &'a Build<'_>, number: u32, known: impl Fn(u32) -> bool) -> Self {
        let procedure = &build.print.procedures[number as usize];
        let free = (0..procedure.blocks.len() as u32)
            .filter(|&block| !known(block))
            .filter_map(|block| content(procedure, block))
            .collect();
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

    fn shares(&self, procedure: &Procedure) -> bool {
        (0..procedure.blocks.len() as u32)
            .any(|b| content(procedure, b).is_some_and(|c| self.free.contains(&c)))
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
    refused: &HashSet<u32>,
) -> Plan {
    let sites = &build.sites[root as usize];
    let mut open = Vec::new();
    for site in sites {
        if !(answers(site.block, site.callee) && host.take(site.callee)) {
            open.push(*site);
        }
    }
    let mut room = Room { insns: MOST_GROWTH * host.procedure.insns, copies: MOST_COPIES };
    let mut chain = vec![root];
    let mut inside = Vec::new();
    for site in open {
        if let Some(plan) = callee(build, site.callee, host, &mut chain, &mut room, refused) {
            inside.push((site.call, plan));
        }
    }
    Plan { procedure: root, inside }
}

/// What may still be added.
struct Room {
    insns: u32,
    copies: usize,
}

fn callee(
    build: &Build<'_>,
    number: u32,
    host: &mut Host<'_>,
    chain: &mut Vec<u32>,
    room: &mut Room,
    refused: &HashSet<u32>,
) -> Option<Plan> {
    let procedure = &build.print.procedures[number as usize];
    if chain.contains(&number)
        || chain.len() > MOST_DEPTH
        || refused.contains(&number)
        || room.copies == 0
        || procedure.insns > room.insns
        || procedure.blocks.is_empty()
        || host.take(number)
    {
        return None;
    }
    let before = (room.insns, room.copies);
    (room.insns, room.copies) = (room.insns - procedure.insns, room.copies - 1);
    chain.push(number);
    let mut inside = Vec::new();
    for site in &build.sites[number as usize] {
        if let Some(plan) = callee(build, site.callee, host, chain, room, refused) {
            inside.push((site.call, plan));
        }
    }
    chain.pop();
    if inside.is_empty() && !host.shares(procedure) {
        (room.insns, room.copies) = before;
        return None;
    }
    Some(Plan { procedure: number, inside })
}
