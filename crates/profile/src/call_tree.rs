//! Stacks that fit a call graph.
//!
//! A profile of edges knows no stacks. But calls tell how often each function was called by each other, and if a function
//! does the same whoever calls it, stacks follow: a function that is called three times by `a` and once by `b` spends a
//! quarter of its cost below `b`. Functions that call each other in a circle are there once each time the circle is entered,
//! each below the one of them that called it most.

use crate::call_graph::CallGraph;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};

/// Contexts there can be: a profile made to be difficult has more.
const MOST: usize = 1 << 20;

/// How much of a tree is told apart.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Functions above each other.
    pub depth: usize,
    /// What is left out if it costs less, in parts of the whole.
    pub share: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 256, share: 1e-5 }
    }
}

/// A function below others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// A number of [`CallTree::contexts`], below this one's.
    pub parent: Option<u32>,
    /// A number of [`CallGraph::nodes`]; nothing for where everything is that is left out of the tree.
    pub node: Option<u32>,
    /// The call that leads here most often, an address of the parent's function; nothing if it is not known.
    pub site: Option<u64>,
    /// What the function costs here by itself.
    pub own: u64,
}

/// What functions cost below which others, as far as it can be estimated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallTree {
    /// Parents first. What functions cost adds up to what was counted, each.
    pub contexts: Vec<Context>,
}

/// A way into a circle.
struct Entry {
    /// The member.
    node: u32,
    parent: Option<u32>,
    site: Option<u64>,
    depth: usize,
    /// Which part of what the circle costs happens here.
    share: f64,
}

/// A member of a circle as it is reached from another.
#[derive(Clone, Copy)]
struct Member {
    node: u32,
    /// An earlier one of the same list, and the call there.
    parent: Option<(usize, u64)>,
    /// What it and those below it cost, with all they call.
    cost: f64,
}

impl CallTree {
    /// Distributes what functions cost along the calls of `graph`.
    #[must_use]
    pub fn new(graph: &CallGraph, limits: Limits) -> Self {
        let mut tree = Building { graph, limits, contexts: Vec::new(), shapes: HashMap::new() };
        let mut open: Vec<Entry> = tree.roots();
        while let Some(entry) = open.pop() {
            tree.enter(&entry, &mut open);
        }
        Self { contexts: tree.whole() }
    }
}

/// A [`Context`] before it is rounded.
struct Estimate {
    parent: Option<u32>,
    node: u32,
    site: Option<u64>,
    own: f64,
}

struct Building<'g> {
    graph: &'g CallGraph,
    limits: Limits,
    contexts: Vec<Estimate>,
    /// Of circles with several members, by the one that is entered.
    shapes: HashMap<u32, Vec<Member>>,
}

impl Building<'_> {
    /// Functions that are called by nobody of whom it is known.
    fn roots(&self) -> Vec<Entry> {
        let mut roots = Vec::new();
        for circle in &self.graph.circles {
            let root = |node, share| Entry { node, parent: None, site: None, depth: 0, share };
            if circle.entries == 0 {
                // It ran, and nobody entered it: counts do not add up, or it was left out of measuring.
                roots.extend(circle.members.first().map(|&node| root(node, 1.0)));
                continue;
            }
            for &node in &circle.members {
                let callers = self.graph.nodes[node as usize].unknown_callers;
                if callers > 0 {
                    roots.push(root(node, callers as f64 / circle.entries as f64));
                }
            }
        }
        roots
    }

    fn enter(&mut self, entry: &Entry, open: &mut Vec<Entry>) {
        let graph = self.graph;
        let circle = graph.nodes[entry.node as usize].circle;
        let least = self.limits.share * graph.total() as f64;
        if graph.circles[circle as usize].inclusive as f64 * entry.share < least
            || graph.total() == 0
            || self.contexts.len() >= MOST
        {
            return;
        }
        let members = self.shape(entry.node);
        // Where members are in the tree, and how deep.
        let mut placed: Vec<Option<(u32, usize)>> = Vec::with_capacity(members.len());
        for member in &members {
            let (parent, site, depth) = match member.parent.map(|(parent, site)| (placed[parent], site)) {
                None => (entry.parent, entry.site, entry.depth),
                Some((Some((parent, depth)), site)) => (Some(parent), Some(site), depth + 1),
                Some((None, _)) => {
                    placed.push(None);
                    continue;
                }
            };
            if depth >= self.limits.depth || member.cost * entry.share < least {
                placed.push(None);
                continue;
            }
            let at = self.contexts.len() as u32;
            placed.push(Some((at, depth)));
            let own = graph.nodes[member.node as usize].own as f64 * entry.share;
            self.contexts.push(Estimate { parent, node: member.node, site, own });
            // How often each is called, and by which call most.
            let mut called: BTreeMap<u32, (u64, u64, u64)> = BTreeMap::new();
            for arc in graph.calls(member.node) {
                if graph.nodes[arc.callee as usize].circle != circle {
                    let (count, most, site) = called.entry(arc.callee).or_default();
                    *count = count.saturating_add(arc.count);
                    if arc.count > *most {
                        (*most, *site) = (arc.count, arc.site);
                    }
                }
            }
            open.extend(called.into_iter().map(|(node, (count, _, site))| {
                let entries = graph.circles[graph.nodes[node as usize].circle as usize].entries;
                let share = entry.share * count as f64 / entries.max(1) as f64;
                Entry { node, parent: Some(at), site: Some(site), depth: depth + 1, share }
            }));
        }
    }

    /// The members of a circle as they are reached from `entry`: each by the one that calls it most, of those before it.
    fn shape(&mut self, entry: u32) -> Vec<Member> {
        let graph = self.graph;
        let circle = graph.nodes[entry as usize].circle;
        let cost = |node: u32| {
            let called = graph.calls(node).iter();
            let outside = called.filter(|arc| graph.nodes[arc.callee as usize].circle != circle);
            graph.nodes[node as usize].own as f64 + outside.map(|arc| arc.inclusive as f64).sum::<f64>()
        };
        if graph.circles[circle as usize].members.len() == 1 {
            return vec![Member { node: entry, parent: None, cost: cost(entry) }];
        }
        if let Some(shape) = self.shapes.get(&entry) {
            return shape.clone();
        }
        // Prim's tree: the most frequent call from what is reached to what is not.
        let mut members: Vec<Member> = Vec::new();
        let mut reached = HashSet::new();
        let mut next = BinaryHeap::from([(u64::MAX, Reverse(entry), None)]);
        while let Some((_, Reverse(node), parent)) = next.pop() {
            if !reached.insert(node) {
                continue;
            }
            let at = members.len();
            members.push(Member { node, parent, cost: cost(node) });
            let within =
                graph.calls(node).iter().filter(|arc| graph.nodes[arc.callee as usize].circle == circle);
            next.extend(within.map(|arc| (arc.count, Reverse(arc.callee), Some((at, arc.site)))));
        }
        for at in (1..members.len()).rev() {
            if let Some((parent, _)) = members[at].parent {
                members[parent].cost += members[at].cost;
            }
        }
        self.shapes.insert(entry, members.clone());
        members
    }

    /// The tree in whole numbers, with what is missing in a place of its own.
    fn whole(self) -> Vec<Context> {
        let mut left: Vec<u64> = self.graph.nodes.iter().map(|node| node.own).collect();
        // Of each function: in how many places it is, and where it costs most.
        let mut places: Vec<(u64, Option<usize>)> = vec![(0, None); left.len()];
        let mut contexts = Vec::with_capacity(self.contexts.len());
        for (at, &Estimate { parent, node, site, own }) in self.contexts.iter().enumerate() {
            let left = &mut left[node as usize];
            let own = (own as u64).min(*left);
            *left -= own;
            let (count, most) = &mut places[node as usize];
            *count += 1;
            if most.is_none_or(|most: usize| own > self.contexts[most].own as u64) {
                *most = Some(at);
            }
            contexts.push(Context { parent, node: Some(node), site, own });
        }
        let mut rest = Vec::new();
        for ((left, (count, most)), node) in left.into_iter().zip(places).zip(0..) {
            match most {
                // No more than what rounding takes, here and in the sixteenth digit.
                Some(most) if left <= count + (contexts[most].own >> 40) => contexts[most].own += left,
                _ if left > 0 => rest.push((node, left)),
                _ => {}
            }
        }
        if !rest.is_empty() {
            let parent = contexts.len() as u32;
            contexts.push(Context { parent: None, node: None, site: None, own: 0 });
            contexts.extend(rest.into_iter().map(|(node, own)| Context {
                parent: Some(parent),
                node: Some(node),
                site: None,
                own,
            }));
        }
        contexts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_graph::tests::{Made, profile};

    /// Stacks as text, those that cost nothing left out.
    fn folded(functions: &[Made<'_>], limits: Limits) -> Vec<String> {
        let graph = CallGraph::new(&profile(functions));
        let tree = CallTree::new(&graph, limits);
        let sum: u64 = tree.contexts.iter().map(|context| context.own).sum();
        assert_eq!(sum, graph.total());
        let mut paths: Vec<String> = Vec::new();
        for context in &tree.contexts {
            let name = context.node.map_or("rest", |node| &graph.nodes[node as usize].name);
            paths.push(match context.parent {
                Some(parent) => format!("{};{name}", paths[parent as usize]),
                None => name.to_string(),
            });
        }
        let all = paths.iter().zip(&tree.contexts).filter(|(_, context)| context.own > 0);
        let mut lines: Vec<_> = all.map(|(path, context)| format!("{path} {}", context.own)).collect();
        lines.sort();
        lines
    }

    #[test]
    fn shares_follow_calls() {
        let functions: &[Made<'_>] =
            &[("main", 1, &[(1, 1), (2, 1)]), ("a", 1, &[(3, 3)]), ("b", 1, &[(3, 1)]), ("c", 4, &[])];
        let whole = ["main 10", "main;a 10", "main;a;c 30", "main;b 10", "main;b;c 10"];
        assert_eq!(folded(functions, Limits::default()), whole);
        let shallow = folded(functions, Limits { depth: 2, share: 0.0 });
        assert_eq!(shallow, ["main 10", "main;a 10", "main;b 10", "rest;c 40"]);
        let coarse = folded(functions, Limits { depth: 9, share: 0.4 });
        assert_eq!(coarse, ["main 10", "main;a 10", "main;a;c 30", "rest;b 10", "rest;c 10"]);
    }

    #[test]
    fn circles_are_there_once() {
        let functions: &[Made<'_>] = &[
            ("main", 1, &[(1, 2)]),
            ("even", 7, &[(2, 6)]),
            ("odd", 6, &[(1, 5), (3, 6), (2, 100)]),
            ("leaf", 6, &[]),
        ];
        let lines = folded(functions, Limits::default());
        assert_eq!(lines, ["main 10", "main;even 70", "main;even;odd 60", "main;even;odd;leaf 60"]);
    }

    #[test]
    fn numbers_add_up_whatever_they_are() {
        let third: &[Made<'_>] =
            &[("a", 1, &[(3, 1)]), ("b", 1, &[(3, 1)]), ("c", 1, &[(3, 1)]), ("d", 1, &[])];
        assert_eq!(folded(third, Limits::default()).len(), 6);
        folded(&[("main", u64::MAX / 20, &[(1, 3)]), ("x", 3, &[(0, 1)])], Limits::default());
        assert_eq!(folded(&[], Limits::default()), Vec::<String>::new());
    }
}
