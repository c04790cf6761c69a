//! Stacks with costs: what flame graphs and their like are made of.
//!
//! Of a profile they are estimated (see [`relive_profile::call_tree`]); of a sequence of calls they are exact, and each call
//! costs one.

use crate::export::Summary;
use crate::places::{first_line, plain, shown};
use crate::surroundings::Surroundings;
use relive_image::names::demangle;
use relive_profile::call_graph::CallGraph;
use relive_profile::call_tree::{CallTree, Limits};
use relive_profile::model::Profile;
use relive_sequence::Sequence;
use relive_sequence::model::NONE;
use std::collections::{BTreeMap, HashMap};

/// What stands above functions whose callers are not told apart.
pub(crate) const REST: &str = "[rest]";
/// What stands below the last function of a stack that is cut off.
const DEEPER: &str = "[deeper]";
/// Functions above each other; deeper stacks are cut off.
const DEEPEST: usize = 256;
/// Different stacks; small ones are put together beyond that.
const MOST: usize = 1 << 20;

/// A function as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) name: String,
    /// Where its code is: a file.
    pub(crate) module: String,
    /// Where it begins, if that is known.
    pub(crate) line: Option<(String, u32)>,
}

/// A function below others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    /// An earlier one.
    pub(crate) parent: Option<usize>,
    /// A number of [`Stacks::frames`].
    pub(crate) frame: usize,
    /// What it costs by itself.
    pub(crate) own: u64,
}

/// Stacks of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stacks {
    pub(crate) frames: Vec<Frame>,
    /// Parents first.
    pub(crate) stacks: Vec<Stack>,
    /// What costs are: `instructions`, `entries`, `calls`.
    pub(crate) unit: &'static str,
    pub(crate) is_exact: bool,
    /// What was measured.
    pub(crate) title: String,
    /// Seconds since 1970 when that began; zero if it is not known.
    pub(crate) began: u64,
}

impl Stacks {
    /// Those that fit a profile.
    pub(crate) fn estimated(profile: &Profile, around: &dyn Surroundings) -> Self {
        let graph = CallGraph::new(profile);
        let tree = CallTree::new(&graph, Limits { depth: DEEPEST, ..Limits::default() });
        let frame = |node: &relive_profile::call_graph::Node| match node.function {
            Some(id) => {
                let (module, function) = profile.function(id);
                Frame {
                    name: shown(&node.name, function).into_owned(),
                    module: plain(&module.path),
                    line: first_line(module, function, around).map(|(file, line)| (plain(file), line)),
                }
            }
            None => Frame { name: plain(&demangle(&node.name)), ..Frame::default() },
        };
        let mut frames: Vec<Frame> = graph.nodes.iter().map(frame).collect();
        let rest = frames.len();
        frames.push(Frame { name: REST.to_string(), ..Frame::default() });
        let stack = |context: &relive_profile::call_tree::Context| Stack {
            parent: context.parent.map(|parent| parent as usize),
            frame: context.node.map_or(rest, |node| node as usize),
            own: context.own,
        };
        Self {
            frames,
            stacks: tree.contexts.iter().map(stack).collect(),
            unit: graph.measure.name(),
            is_exact: false,
            title: profile.modules.first().map_or_else(String::new, |module| plain(&module.path)),
            began: profile
                .modules
                .iter()
                .map(|module| module.first_run)
                .filter(|&at| at > 0)
                .min()
                .unwrap_or(0),
        }
    }

    /// Those of all threads of a sequence of calls.
    pub(crate) fn exact(sequence: &Sequence) -> Self {
        let mut frames: Vec<Frame> =
            (0..).zip(&sequence.functions).map(|(i, _)| frame(sequence, i)).collect();
        let deeper = frames.len();
        frames.push(Frame { name: DEEPER.to_string(), ..Frame::default() });
        let title = sequence.modules.first().map_or_else(String::new, |module| plain(&module.path));
        let within = sequence.within();
        let mut stacks: Vec<Stack> = Vec::new();
        // Where executions happen, in which scopes and how often each; how deep.
        let roots = sequence.threads.iter().flat_map(|thread| [(thread.calls, 1), (thread.handlers, 1)]);
        let mut open = vec![(None, roots.collect::<Vec<(u32, u64)>>(), 0usize)];
        while let Some((parent, scopes, depth)) = open.pop() {
            let mut called: BTreeMap<u32, BTreeMap<u32, u64>> = BTreeMap::new();
            for (scope, times) in scopes {
                for (body, more) in calls(sequence, scope) {
                    let bodies = called.entry(sequence.bodies[body as usize].function).or_default();
                    let sum = bodies.entry(body).or_default();
                    *sum = sum.saturating_add(more.saturating_mul(times));
                }
            }
            if depth >= DEEPEST || stacks.len() + called.len() > MOST {
                let below = called.values().flatten().fold(0u64, |sum, (&body, &times)| {
                    sum.saturating_add(within[body as usize].saturating_add(1).saturating_mul(times))
                });
                if below > 0 {
                    stacks.push(Stack { parent, frame: deeper, own: below });
                }
                continue;
            }
            for (function, bodies) in called {
                let own = bodies.values().fold(0u64, |sum, &times| sum.saturating_add(times));
                stacks.push(Stack { parent, frame: function as usize, own });
                open.push((Some(stacks.len() - 1), bodies.into_iter().collect(), depth + 1));
            }
        }
        Self { frames, stacks, unit: "calls", is_exact: true, title, began: 0 }
    }

    /// What everything costs.
    pub(crate) fn total(&self) -> u64 {
        self.stacks.iter().fold(0, |sum, stack| sum.saturating_add(stack.own))
    }

    /// What each stack costs with all those below it.
    pub(crate) fn inclusive(&self) -> Vec<u64> {
        let mut inclusive: Vec<u64> = self.stacks.iter().map(|stack| stack.own).collect();
        for (i, stack) in self.stacks.iter().enumerate().rev() {
            if let Some(parent) = stack.parent {
                inclusive[parent] = inclusive[parent].saturating_add(inclusive[i]);
            }
        }
        inclusive
    }

    /// What is told of `written` stacks.
    pub(crate) fn summary(&self, written: u64) -> Summary {
        let note = format!("stacks are {}; costs are {}", self.evidence(), self.unit);
        Summary { written: vec![("stacks", written)], notes: vec![note] }
    }

    /// How sure the stacks are, for people.
    pub(crate) fn evidence(&self) -> &'static str {
        if self.is_exact { "exact, from a sequence of calls" } else { "estimated from call counts" }
    }
}

/// A function of a sequence.
pub(crate) fn frame(sequence: &Sequence, function: u32) -> Frame {
    let module =
        sequence.functions.get(function as usize).and_then(|f| sequence.modules.get(f.module as usize));
    Frame {
        name: plain(&demangle(&sequence.name(function).to_string())),
        module: module.map_or_else(String::new, |module| plain(&module.path)),
        line: None,
    }
}

/// What a scope calls, parts of it unfolded: scopes and how often.
fn calls(sequence: &Sequence, scope: u32) -> HashMap<u32, u64> {
    let mut found: HashMap<u32, u64> = HashMap::new();
    let mut open = vec![(scope, 1u64)];
    while let Some((body, times)) = open.pop() {
        for item in &sequence.bodies[body as usize].items {
            let times = times.saturating_mul(item.times);
            if times == 0 {
                continue;
            }
            if sequence.bodies[item.body as usize].function == NONE {
                open.push((item.body, times));
            } else {
                let sum = found.entry(item.body).or_default();
                *sum = sum.saturating_add(times);
            }
        }
    }
    found
}
