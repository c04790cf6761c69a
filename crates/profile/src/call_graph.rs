//! Who calls whom, and what the calls cost.
//!
//! What a function costs itself is counted. What a call costs with everything that happens in it is not: counts do not
//! tell in which call of a function something happened. As gprof has it (Graham, Kessler, McKusick 1982), each call of a
//! function is taken to cost the same, whoever calls, and functions that call each other in a circle are taken as one: the
//! circle costs what its functions do and what they call outside of it, shared by the calls that come from outside. Calls
//! within a circle are counted and cost nothing of their own. Calls that nobody measured, and those that began before
//! measuring, have a share too; so a function that is called from one place only has its exact cost there.

use crate::callees::{Callees, FunctionId};
use crate::model::{CalledBy, Count, Function, Mode, Module, Profile, State};
use std::collections::{BTreeMap, HashMap};

/// What costs are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Instructions executed.
    Instructions,
    /// Functions entered: nothing else was counted.
    Entries,
}

impl Measure {
    /// What the counts of a profile are good for.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        let counted = |module: &Module| module.mode != Mode::Functions && !module.functions.is_empty();
        if profile.modules.is_empty() || profile.modules.iter().any(counted) {
            Self::Instructions
        } else {
            Self::Entries
        }
    }

    /// What a function costs by itself.
    #[must_use]
    pub fn own(self, function: &Function) -> u64 {
        match self {
            Self::Instructions if function.state == State::Measured => function.executed_insns(),
            Self::Instructions => 0,
            Self::Entries => function.entries().map_or(0, Count::value),
        }
    }

    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Entries => "entries",
        }
    }
}

/// Whatever calls or is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// As in the symbol table; `?` and `generated` if it is in no file or not known.
    pub name: String,
    /// Which function it is; nothing if the profile does not describe it.
    pub function: Option<FunctionId>,
    /// What it costs by itself.
    pub own: u64,
    /// How often it was entered by nobody of whom that is known.
    pub unknown_callers: u64,
    /// The circle it is in, a number of [`CallGraph::circles`].
    pub circle: u32,
}

/// Calls from one place to one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arc {
    /// A number of [`CallGraph::nodes`].
    pub caller: u32,
    /// The address of the instruction, as linked.
    pub site: u64,
    /// The block of the caller that it is in.
    pub block: u32,
    /// A number of [`CallGraph::nodes`].
    pub callee: u32,
    /// How many.
    pub count: u64,
    /// What they cost with everything in them, estimated as above.
    pub inclusive: u64,
}

/// Functions that call each other, directly or by others; or one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circle {
    /// Numbers of [`CallGraph::nodes`].
    pub members: Vec<u32>,
    /// What they cost, and what they call outside of the circle.
    pub inclusive: u64,
    /// How often it was entered from outside.
    pub entries: u64,
}

/// Who calls whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallGraph {
    /// What costs are counted in.
    pub measure: Measure,
    /// Functions of the profile that ran or are called, then all else that is called.
    pub nodes: Vec<Node>,
    /// By caller, and in the order of its calls. Only calls that were made.
    pub arcs: Vec<Arc>,
    /// Callees before callers.
    pub circles: Vec<Circle>,
}

impl CallGraph {
    /// The calls of a profile.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        let mut graph = Self::of_arcs(profile);
        graph.find_circles();
        graph.settle();
        graph
    }

    /// What everything costs.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.nodes.iter().fold(0, |sum, node| sum.saturating_add(node.own))
    }

    /// The calls that `node` makes.
    #[must_use]
    pub fn calls(&self, node: u32) -> &[Arc] {
        let start = self.arcs.partition_point(|arc| arc.caller < node);
        let len = self.arcs[start..].partition_point(|arc| arc.caller == node);
        &self.arcs[start..start + len]
    }

    fn of_arcs(profile: &Profile) -> Self {
        let measure = Measure::of(profile);
        let node = |name: &str, function, own, entries| Node {
            name: name.to_string(),
            function,
            own,
            unknown_callers: entries,
            circle: 0,
        };
        let mut nodes = Vec::new();
        let mut numbers = HashMap::new();
        for id in profile.ids() {
            let (module, function) = profile.function(id);
            numbers.insert(id, nodes.len() as u32);
            let entries = function.entries().map_or(0, Count::value);
            nodes.push(node(module.name(function), Some(id), measure.own(function), entries));
        }
        let callees = Callees::new(profile);
        let mut outside: BTreeMap<String, u32> = BTreeMap::new();
        let mut arcs = Vec::new();
        for (id, caller) in profile.ids().zip(0..) {
            let (module, function) = profile.function(id);
            for call in &function.calls {
                let Some(block) = block_of(function, call.by) else { continue };
                for called in callees.of(module, function, call) {
                    let Some(count) = called.count.filter(|&count| count > 0) else { continue };
                    let callee = match called.function {
                        Some(id) => numbers[&id],
                        None => *outside.entry(called.name.into_owned()).or_insert_with_key(|name| {
                            nodes.push(node(name, None, 0, 0));
                            nodes.len() as u32 - 1
                        }),
                    };
                    arcs.push(Arc { caller, site: call.address, block, callee, count, inclusive: 0 });
                }
            }
        }
        for arc in &arcs {
            let callers = &mut nodes[arc.callee as usize].unknown_callers;
            *callers = callers.saturating_sub(arc.count);
        }
        let mut graph = Self { measure, nodes, arcs, circles: Vec::new() };
        graph.leave_out_idle();
        graph
    }

    /// Of a large library, few functions run.
    fn leave_out_idle(&mut self) {
        let mut is_used: Vec<bool> =
            self.nodes.iter().map(|node| node.own > 0 || node.unknown_callers > 0).collect();
        for arc in &self.arcs {
            is_used[arc.caller as usize] = true;
            is_used[arc.callee as usize] = true;
        }
        let mut next = 0;
        let numbers: Vec<u32> = is_used
            .iter()
            .map(|&is_used| {
                next += u32::from(is_used);
                next.saturating_sub(1)
            })
            .collect();
        let mut used = is_used.iter();
        self.nodes.retain(|_| used.next().is_some_and(|&is_used| is_used));
        for arc in &mut self.arcs {
            arc.caller = numbers[arc.caller as usize];
            arc.callee = numbers[arc.callee as usize];
        }
    }

    /// Tarjan 1972, without recursion: call chains are long.
    fn find_circles(&mut self) {
        const UNSEEN: u32 = u32::MAX;
        let count = self.nodes.len();
        let (mut index, mut low) = (vec![UNSEEN; count], vec![0u32; count]);
        let mut is_open = vec![false; count];
        let (mut open, mut next) = (Vec::new(), 0u32);
        for root in 0..count as u32 {
            if index[root as usize] != UNSEEN {
                continue;
            }
            // Nodes on the way, each with the arc to look at next.
            let mut way = vec![(root, 0usize)];
            while let Some(&mut (node, ref mut at)) = way.last_mut() {
                let n = node as usize;
                if *at == 0 {
                    (index[n], low[n], is_open[n]) = (next, next, true);
                    next += 1;
                    open.push(node);
                }
                if let Some(arc) = self.calls(node).get(*at) {
                    *at += 1;
                    let callee = arc.callee as usize;
                    if index[callee] == UNSEEN {
                        way.push((arc.callee, 0));
                    } else if is_open[callee] {
                        low[n] = low[n].min(index[callee]);
                    }
                    continue;
                }
                way.pop();
                if let Some(&(before, _)) = way.last() {
                    low[before as usize] = low[before as usize].min(low[n]);
                }
                if low[n] == index[n] {
                    let start = open.iter().rposition(|&other| other == node).unwrap_or(0);
                    let members = open.split_off(start);
                    for &member in &members {
                        is_open[member as usize] = false;
                        self.nodes[member as usize].circle = self.circles.len() as u32;
                    }
                    self.circles.push(Circle { members, ..Circle::default() });
                }
            }
        }
    }

    /// What circles cost, those that are called first.
    fn settle(&mut self) {
        let mut into: Vec<Vec<usize>> = vec![Vec::new(); self.circles.len()];
        for (i, arc) in self.arcs.iter().enumerate() {
            let [caller, callee] = [arc.caller, arc.callee].map(|node| self.nodes[node as usize].circle);
            if caller != callee {
                into[callee as usize].push(i);
            }
        }
        for (circle, into) in (0..).zip(&into) {
            let (mut inclusive, mut entries) = (0u64, 0u64);
            for &member in &self.circles[circle as usize].members {
                let node = &self.nodes[member as usize];
                inclusive = inclusive.saturating_add(node.own);
                entries = entries.saturating_add(node.unknown_callers);
                for arc in self.calls(member) {
                    if self.nodes[arc.callee as usize].circle != circle {
                        inclusive = inclusive.saturating_add(arc.inclusive);
                    }
                }
            }
            for &arc in into {
                entries = entries.saturating_add(self.arcs[arc].count);
            }
            for &arc in into {
                let arc = &mut self.arcs[arc];
                arc.inclusive = share(inclusive, arc.count, entries);
            }
            let circle = &mut self.circles[circle as usize];
            (circle.inclusive, circle.entries) = (inclusive, entries);
        }
    }
}

/// `part` of `whole` parts of `cost`.
fn share(cost: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(cost) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

fn block_of(function: &Function, by: CalledBy) -> Option<u32> {
    match by {
        CalledBy::Block(block) => Some(block),
        CalledBy::Edge(edge) => function.edges.get(edge as usize)?.from.as_block(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::model::{Block, Call, Callee, Edge, EdgeKind, Node as FlowNode};

    /// A function of one block with ten instructions: name, entries, and calls of others.
    pub(crate) type Made<'a> = (&'a str, u64, &'a [(usize, u64)]);

    pub(crate) fn profile(functions: &[Made<'_>]) -> Profile {
        let mut module = Module { path: "p".into(), ..Module::default() };
        let names: Vec<_> = functions.iter().map(|f| module.texts.intern(f.0)).collect();
        let address = |i: usize| 0x1000 * (i as u64 + 1);
        for (i, (_, entries, calls)) in functions.iter().enumerate() {
            let mut function = Function::new(names[i], address(i), 0x100, State::Measured);
            let block = |offset: u64, insns, count| Block {
                address: address(i) + offset,
                size: 8,
                insns,
                line: None,
                is_entry: offset == 0,
                is_landing_pad: false,
                counter: None,
                count: Some(Count::measured(count)),
            };
            function.blocks.push(block(0, 10, *entries));
            function.edges.push(Edge {
                from: FlowNode::OUTSIDE,
                to: FlowNode::block(0),
                counter: None,
                kind: EdgeKind::Enter,
                count: Some(Count::measured(*entries)),
            });
            for (n, &(callee, count)) in (1..).zip(*calls) {
                function.blocks.push(block(u64::from(n) * 8, 0, count));
                let callee = Callee::Direct { address: address(callee), name: names[callee] };
                function.calls.push(Call {
                    by: CalledBy::Block(n),
                    address: address(i) + u64::from(n) * 8,
                    callee,
                });
            }
            module.functions.push(function);
        }
        Profile { modules: vec![module] }
    }

    fn inclusive(graph: &CallGraph) -> Vec<(u32, u32, u64)> {
        graph.arcs.iter().map(|arc| (arc.caller, arc.callee, arc.inclusive)).collect()
    }

    #[test]
    fn callers_share_what_is_called() {
        // main calls a once and b once; a calls c three times, b calls it once.
        let graph = CallGraph::new(&profile(&[
            ("main", 1, &[(1, 1), (2, 1)]),
            ("a", 1, &[(3, 3)]),
            ("b", 1, &[(3, 1)]),
            ("c", 4, &[]),
            ("idle", 0, &[]),
        ]));
        assert_eq!(graph.nodes.len(), 4);
        assert_eq!(inclusive(&graph), [(0, 1, 40), (0, 2, 20), (1, 3, 30), (2, 3, 10)]);
        assert_eq!(graph.circles.last().map(|circle| circle.inclusive), Some(graph.total()));
        assert_eq!(graph.nodes[0].unknown_callers, 1);
    }

    #[test]
    fn circles_are_one() {
        // main calls even; even and odd call each other; odd calls leaf.
        let graph = CallGraph::new(&profile(&[
            ("main", 1, &[(1, 2)]),
            ("even", 7, &[(2, 6)]),
            ("odd", 6, &[(1, 5), (3, 6)]),
            ("leaf", 8, &[]),
        ]));
        // Two calls of leaf come from nowhere.
        assert_eq!(inclusive(&graph), [(0, 1, 70 + 60 + 60), (1, 2, 0), (2, 1, 0), (2, 3, 60)]);
        assert_eq!(graph.nodes[1].circle, graph.nodes[2].circle);
        assert_eq!(graph.nodes[3].unknown_callers, 2);
    }

    #[test]
    fn huge_counts_and_no_counts() {
        let graph = CallGraph::new(&profile(&[("main", u64::MAX / 2, &[(0, u64::MAX / 2)])]));
        assert_eq!(graph.total(), u64::MAX);
        assert_eq!(CallGraph::new(&Profile::default()).total(), 0);
    }
}
