//! The control-flow graph of one function as a picture.

use super::Subject;
use super::listing::{instructions, syntax};
use crate::args::Inspect;
use crate::picture::{Arrow, ArrowKind, Node, Picture, Tone};
use anyhow::Result;
use relive_code::cfg::{EdgeKind, End, Target};
use relive_code::dominators::DominatorTree;
use relive_code::loops::LoopForest;
use relive_image::program::FunctionId;
use std::collections::BTreeMap;
use std::io::Write;

/// Prints the graph in Graphviz' language or as SVG.
pub(crate) fn print(
    subject: &Subject<'_, '_>,
    id: FunctionId,
    args: &Inspect,
    out: &mut dyn Write,
) -> Result<()> {
    let picture = draw(subject, id, args);
    let text = if args.dot { picture.to_dot() } else { picture.to_svg() };
    Ok(out.write_all(text.as_bytes())?)
}

fn draw(subject: &Subject<'_, '_>, id: FunctionId, args: &Inspect) -> Picture {
    let function = subject.program.function(id);
    let cfg = &function.cfg;
    let graph = cfg.graph();
    let loops = LoopForest::new(&graph, &DominatorTree::new(&graph, &cfg.roots()));
    let mut nodes: Vec<Node> = Vec::new();
    for (id, block) in cfg.numbered_blocks() {
        let header_of = loops.loops().iter().find(|l| l.header == id.0);
        let tone = if cfg.entries.contains(&id) {
            Tone::Entry
        } else if cfg.landing_pads.contains(&id) {
            Tone::LandingPad
        } else if !block.reached {
            Tone::Unreached
        } else if header_of.is_some() {
            Tone::LoopHeader
        } else if matches!(block.end, End::Return | End::Stop) {
            Tone::Exit
        } else {
            Tone::Plain
        };
        let place =
            subject.lines.at(block.start).map_or(String::new(), |l| format!("  {}:{}", l.file, l.line));
        nodes.push(Node {
            heading: format!("{id} {}{place}", block.start),
            lines: instructions(subject, block).map(|insn| insn.text(syntax(args)).to_string()).collect(),
            tone,
        });
    }
    let mut outside: BTreeMap<String, usize> = BTreeMap::new();
    let mut edges = Vec::new();
    for edge in &cfg.edges {
        let to = match edge.to {
            Target::Block(to) => to.index(),
            Target::Elsewhere if edge.kind == EdgeKind::Return => continue,
            Target::Elsewhere => outside_node(&mut nodes, &mut outside, "?".to_string()),
            Target::Outside(at) => {
                let name = super::listing::place_name(subject, at);
                outside_node(&mut nodes, &mut outside, name)
            }
        };
        edges.push(Arrow { from: edge.from.index(), to, kind: arrow_kind(edge.kind), label: String::new() });
    }
    Picture { title: format!("{} at {}", subject.name(function), function.entry), nodes, edges }
}

fn outside_node(nodes: &mut Vec<Node>, known: &mut BTreeMap<String, usize>, name: String) -> usize {
    *known.entry(name.clone()).or_insert_with(|| {
        nodes.push(Node { heading: name, lines: Vec::new(), tone: Tone::Outside });
        nodes.len() - 1
    })
}

fn arrow_kind(kind: EdgeKind) -> ArrowKind {
    match kind {
        EdgeKind::FallThrough => ArrowKind::FallThrough,
        EdgeKind::Taken => ArrowKind::Taken,
        EdgeKind::Jump => ArrowKind::Jump,
        EdgeKind::Case => ArrowKind::Case,
        EdgeKind::CallReturn => ArrowKind::CallReturn,
        EdgeKind::TailCall => ArrowKind::TailCall,
        EdgeKind::LandingPad => ArrowKind::LandingPad,
        EdgeKind::Return | EdgeKind::Unknown => ArrowKind::Unknown,
    }
}
