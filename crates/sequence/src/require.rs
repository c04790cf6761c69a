//! Which functions have to be measured anew, so that what others call can be taken over.

use crate::lists::Bodies;
use crate::map::CallMap;
use crate::model::{NONE, Origin, Sequence};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Whether all executions of a function make the same calls: the same functions from the same places in the same order. What those do does not
/// matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alike {
    /// All do as this one does.
    All(u32),
    /// Not all.
    Not,
}

/// The same for each function that was executed.
pub(crate) fn alike(sequence: &Sequence) -> HashMap<u32, Alike> {
    let mut bodies = Bodies::default();
    let mut list = Vec::new();
    // By function: one execution, and what stands for its calls.
    let mut firsts: HashMap<u32, (u32, u32)> = HashMap::new();
    let mut differ: BTreeSet<u32> = BTreeSet::new();
    for (number, body) in (0..).zip(&sequence.bodies).filter(|(_, body)| body.function != NONE) {
        list.clear();
        for call in sequence.calls(number) {
            let called = bodies.intern(sequence.bodies[call.body as usize].function, Origin::Measured, &[]);
            bodies.push(&mut list, call.site, called);
        }
        let calls = bodies.intern(NONE, Origin::Measured, &list);
        if firsts.entry(body.function).or_insert((number, calls)).1 != calls {
            differ.insert(body.function);
        }
    }
    let all = firsts.into_iter().map(|(function, (body, _))| {
        let alike = if differ.contains(&function) { Alike::Not } else { Alike::All(body) };
        (function, alike)
    });
    all.collect()
}

/// The functions among those that are to be exempt, by address in the new build, that must not be: of which the old run may not tell what
/// they call in the new one.
///
/// A function that is measured anew may call others from new places, or more often, and so may all that is executed on behalf of it. A
/// function that may be called so can only be exempt if its executions all make the same calls. `calls` are all calls of the new build
/// that may happen, caller and callee; those that did happen in the old run need not be among them.
///
/// Without these, [`merge`](crate::merge()) finds what it needs, provided that what is exempt behaves as before.
#[must_use]
pub fn require(old: &Sequence, map: &CallMap, exempt: &BTreeSet<u64>, calls: &[(u64, u64)]) -> BTreeSet<u64> {
    /// A function of the new build, or one of another module: by its number in the old run.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Node {
        New(u64),
        Other(u32),
    }
    let node = |function: u32| {
        let of = &old.functions[function as usize];
        let module = old.modules.get(of.module as usize);
        let new = match map.is_old(module) {
            true => map.functions.get(&of.address).copied(),
            false => Some(of.address).filter(|_| map.is_new(module)),
        };
        new.map_or(Node::Other(function), Node::New)
    };
    let mut callees: BTreeMap<Node, BTreeSet<Node>> = BTreeMap::new();
    for &(caller, callee) in calls {
        callees.entry(Node::New(caller)).or_default().insert(Node::New(callee));
    }
    for body in old.bodies.iter().filter(|body| body.function != NONE) {
        let called = callees.entry(node(body.function)).or_default();
        let mut lists = vec![&body.items];
        while let Some(items) = lists.pop() {
            for item in items {
                let body = &old.bodies[item.body as usize];
                match body.function {
                    NONE => lists.push(&body.items),
                    function => called.extend([node(function)]),
                }
            }
        }
    }
    let is_of_module = |function: u32| {
        let module = old.modules.get(old.functions[function as usize].module as usize);
        map.is_old(module) || map.is_new(module)
    };
    let is_measured = |node: &Node| match *node {
        Node::New(address) => !exempt.contains(&address),
        Node::Other(function) => is_of_module(function),
    };
    let mut waiting: Vec<Node> = callees
        .iter()
        .filter(|(caller, _)| is_measured(caller))
        .flat_map(|(_, called)| called)
        .copied()
        .collect();
    let mut reached: BTreeSet<Node> = BTreeSet::new();
    while let Some(next) = waiting.pop() {
        if reached.insert(next) {
            waiting.extend(callees.get(&next).into_iter().flatten());
        }
    }
    let all_alike: BTreeSet<Node> = alike(old)
        .into_iter()
        .filter(|(_, alike)| matches!(alike, Alike::All(_)))
        .map(|(function, _)| node(function))
        .collect();
    let is_required = |address: &u64| {
        let node = Node::New(*address);
        reached.contains(&node) && !all_alike.contains(&node)
    };
    exempt.iter().copied().filter(is_required).collect()
}
