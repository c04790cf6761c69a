//! Drawings: the graph of a function, and the hot part of the graph of calls.

use super::super::facts::Facts;
use super::Context;
use super::function::LINES;
use crate::output::{grouped, percent};
use crate::picture::{Arrow, ArrowKind, LaidOut, Node, Picture, Tone};
use relive_profile::model::{Block, CalledBy, EdgeKind, Function, Module, Node as End};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Larger graphs take seconds to lay out, and nobody finds anything in them.
const LARGEST: usize = 1200;

/// Of functions with more blocks than that, only those are drawn that ran, and where they could have gone to.
const ALL_SHOWN: usize = 40;

/// The graph of a function.
#[derive(Serialize)]
pub(super) struct Graph {
    /// What each box is: a block, or, below zero, one of the others.
    nodes: Vec<i64>,
    /// What boxes are called that are no blocks.
    others: Vec<String>,
    /// Hubs and their boxes.
    hubs: Vec<(u32, usize)>,
    /// Edges that are tail calls, and the boxes they lead to.
    tail_calls: Vec<(u32, usize)>,
    laid_out: LaidOut,
}

/// The graph of a function, unless it is too large.
pub(super) fn of_function(
    context: &Context<'_>,
    module: &Module,
    function: &Function,
    code: &[Vec<(u64, String)>],
) -> Option<Graph> {
    let shown = shown(function);
    let mut boxes = Boxes { nodes: Vec::new(), texts: Vec::new(), others: Vec::new() };
    let mut node_of = HashMap::new();
    for ((block, i), code) in
        function.blocks.iter().zip(0u32..).zip(code).filter(|((_, i), _)| shown[*i as usize])
    {
        node_of.insert(i, boxes.nodes.len());
        let count = block.count.map_or_else(String::new, |count| format!("  {}×", grouped(count.value())));
        let tone = if block.is_entry { Tone::Entry } else { Tone::Plain };
        // What did not run takes little room.
        let code = if ran(block) { code } else { &code[..0] };
        boxes.nodes.push(i.into());
        boxes.texts.push(Node { heading: format!("{:x}{count}", block.address), lines: lines(code), tone });
    }
    if boxes.nodes.is_empty() || boxes.nodes.len() > LARGEST {
        return None;
    }
    let mut tail_calls = HashMap::new();
    for call in &function.calls {
        if let CalledBy::Edge(edge) = call.by {
            let name =
                module.callee_name(call.callee).map_or_else(|| "?".to_string(), |name| context.shown(name));
            tail_calls.insert(edge, name);
        }
    }
    let mut hubs: BTreeMap<u32, usize> = BTreeMap::new();
    let mut callees: HashMap<&str, usize> = HashMap::new();
    let mut made = Vec::new();
    let mut edges = Vec::new();
    for (edge, i) in function.edges.iter().zip(0u32..) {
        let Some(kind) = arrow_kind(edge.kind) else { continue };
        // Ways out of blocks that are not shown lead to nothing that is.
        if edge.from.as_block().is_some_and(|from| !node_of.contains_key(&from)) {
            continue;
        }
        let mut node = |node: End| match (node.as_block(), node.as_hub(), tail_calls.get(&i)) {
            (Some(block), ..) => node_of.get(&block).copied(),
            (None, Some(hub), _) => Some(*hubs.entry(hub).or_insert_with(|| boxes.other("one of several"))),
            (None, None, Some(name)) => {
                let callee = *callees.entry(name).or_insert_with(|| boxes.other(name));
                made.push((i, callee));
                Some(callee)
            }
            (None, None, None) => None,
        };
        if let (Some(from), Some(to)) = (node(edge.from), node(edge.to)) {
            let label = edge.count.map_or_else(String::new, |count| short(count.value()));
            edges.push(Arrow { from, to, kind, label });
        }
    }
    let picture = Picture { title: String::new(), nodes: boxes.texts, edges };
    Some(Graph {
        nodes: boxes.nodes,
        others: boxes.others,
        hubs: hubs.into_iter().collect(),
        tail_calls: made,
        laid_out: picture.to_data(),
    })
}

struct Boxes {
    nodes: Vec<i64>,
    texts: Vec<Node>,
    others: Vec<String>,
}

impl Boxes {
    /// A box that is no block.
    fn other(&mut self, name: &str) -> usize {
        self.others.push(name.to_string());
        self.nodes.push(-(self.others.len() as i64));
        self.texts.push(Node { heading: name.to_string(), lines: Vec::new(), tone: Tone::Outside });
        self.nodes.len() - 1
    }
}

fn ran(block: &Block) -> bool {
    block.count.is_none_or(|count| count.value() > 0)
}

/// Which blocks are drawn.
fn shown(function: &Function) -> Vec<bool> {
    let mut shown: Vec<bool> =
        function.blocks.iter().map(|block| function.blocks.len() <= ALL_SHOWN || ran(block)).collect();
    let next: Vec<u32> = function
        .edges
        .iter()
        .filter(|edge| {
            edge.from.as_block().is_none_or(|from| shown.get(from as usize).is_some_and(|&shown| shown))
        })
        .filter_map(|edge| edge.to.as_block())
        .collect();
    for block in next {
        if let Some(shown) = shown.get_mut(block as usize) {
            *shown = true;
        }
    }
    shown
}

/// The first instructions of a block.
fn lines(code: &[(u64, String)]) -> Vec<String> {
    let first = if code.len() > LINES { LINES - 1 } else { code.len() };
    let mut lines: Vec<String> = code[..first].iter().map(|(_, text)| text.clone()).collect();
    if first < code.len() {
        lines.push(format!("… {} more", code.len() - first));
    }
    lines
}

/// How an edge is drawn; one that only leaves or enters the function is not.
fn arrow_kind(kind: EdgeKind) -> Option<ArrowKind> {
    match kind {
        EdgeKind::FallThrough => Some(ArrowKind::FallThrough),
        EdgeKind::Taken => Some(ArrowKind::Taken),
        EdgeKind::Jump => Some(ArrowKind::Jump),
        EdgeKind::Case => Some(ArrowKind::Case),
        EdgeKind::CallReturn => Some(ArrowKind::CallReturn),
        EdgeKind::TailCall => Some(ArrowKind::TailCall),
        EdgeKind::LandingPad => Some(ArrowKind::LandingPad),
        EdgeKind::Enter | EdgeKind::Return | EdgeKind::NoReturn => None,
    }
}

/// So many functions are in the picture of calls.
const HOTTEST: usize = 32;

/// Names are cut to so many characters in it.
const NAME: usize = 34;

/// The hottest functions that call one another, or are called.
pub(super) fn hot_calls(context: &Context<'_>, facts: &Facts<'_>) -> Value {
    let mut hottest: Vec<usize> =
        (0..facts.functions.len()).filter(|&row| facts.functions[row].is_executed()).take(HOTTEST).collect();
    // One that has nothing to do with the others says nothing here.
    let among: HashSet<usize> = hottest.iter().copied().collect();
    let mut connected = HashSet::new();
    for call in &facts.calls {
        let ends =
            [Some(call.caller), call.function].map(|end| context.row(end?).filter(|row| among.contains(row)));
        if let [Some(from), Some(to)] = ends {
            connected.extend([from, to]);
        }
    }
    hottest.retain(|row| connected.contains(row));
    let node_of: HashMap<usize, usize> = hottest.iter().enumerate().map(|(node, &row)| (row, node)).collect();
    let node = |function: &Function| node_of.get(&context.row(function)?).copied();
    let mut edges: Vec<Arrow> = facts
        .calls
        .iter()
        .filter_map(|call| {
            let (from, to) = (node(call.caller)?, node(call.function?)?);
            Some(Arrow { from, to, kind: ArrowKind::Jump, label: short(call.count) })
        })
        .collect();
    edges.sort_by_key(|arrow| (arrow.from, arrow.to));
    let texts: Vec<(String, Vec<String>)> = hottest
        .iter()
        .map(|&row| {
            let row = &facts.functions[row];
            let name = context.shown(row.module.name(row.function));
            let name = match name.char_indices().nth(NAME) {
                Some((at, _)) => format!("{}…", &name[..at]),
                None => name,
            };
            let share = row.instructions.map(|count| percent(count, facts.instructions));
            let entries = row.entries.map(|entries| format!("{}×", short(entries)));
            (name, vec![share.into_iter().chain(entries).collect::<Vec<_>>().join("  ")])
        })
        .collect();
    let is_called = |node: usize| edges.iter().any(|edge| edge.to == node && edge.from != node);
    let nodes = texts.iter().enumerate().map(|(i, (heading, lines))| Node {
        heading: heading.clone(),
        lines: lines.clone(),
        tone: if is_called(i) { Tone::Plain } else { Tone::Entry },
    });
    let picture = Picture { title: String::new(), nodes: nodes.collect(), edges: edges.clone() };
    json!({ "rows": hottest, "texts": texts, "graph": picture.to_data() })
}

/// A number in a few characters.
fn short(number: u64) -> String {
    match number {
        ..10_000 => number.to_string(),
        10_000..1_000_000 => format!("{:.1}k", number as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1}M", number as f64 / 1e6),
        1_000_000_000..1_000_000_000_000 => format!("{:.1}G", number as f64 / 1e9),
        _ => format!("{:.1}T", number as f64 / 1e12),
    }
}
