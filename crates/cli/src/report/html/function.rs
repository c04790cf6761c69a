//! What belongs to one function: blocks, edges, code, loops, calls, lines, and a drawing.

use super::super::facts::FunctionFacts;
use super::super::source::LinesOf;
use super::Context;
use super::graph::{self, Graph};
use super::programs::Program;
use relive_code::addr::LinkAddr;
use relive_code::isa::{Decode, Insn, Syntax};
use relive_profile::model::{Block, Count, Edge, Function, Module, Origin};
use serde::Serialize;

/// So many instructions of a block are drawn; the disassembly has all.
pub(super) const LINES: usize = 10;

/// A function as the page reads it.
#[derive(Serialize)]
pub(super) struct Detail<'p> {
    blocks: Vec<BlockRow>,
    edges: Vec<EdgeRow>,
    /// For each block, its instructions: how far behind its start, and their text. Empty if the code is not there.
    code: Vec<Vec<(u64, String)>>,
    calls: Vec<CallRow>,
    /// The lines of source: the file, whether the function itself is in there, and of each line how often it ran and how many of its instructions.
    pub(super) source: Vec<SourceRow<'p>>,
    graph: Option<Graph>,
}

/// Address, size, instructions, count, place in the source, flags, and of what was not measured itself origin and confidence.
type BlockRow = (u64, u32, u32, Option<u64>, Option<String>, u8, Option<(String, u8)>);

/// From, to, kind, count: `null` is outside, a negative number a hub.
type EdgeRow = (Option<i64>, Option<i64>, u8, Option<u64>);

/// The address of the instruction, the row of the callee or its name, and how often.
type CallRow = (u64, Option<usize>, Option<String>, Option<u64>);

/// The lines of one file.
#[derive(Serialize)]
pub(super) struct SourceRow<'p> {
    #[serde(skip)]
    pub(super) path: &'p str,
    /// The row of the file, once it has one.
    pub(super) file: usize,
    pub(super) own: bool,
    pub(super) lines: Vec<(u32, Option<u64>, Option<u64>)>,
}

impl<'p> Detail<'p> {
    pub(super) fn new(context: &'p Context<'_>, facts: &FunctionFacts<'_>) -> Self {
        let (module, function) = (facts.module, facts.function);
        let program = context.programs.of(module, function);
        let syntax = if context.args.att { Syntax::Att } else { Syntax::Intel };
        let insns = |block: &Block| -> Vec<(u64, String)> {
            let insns = instructions(program, function, block);
            let text = |insn: &Insn| (insn.addr().0 - block.address, insn.text(syntax).to_string());
            insns.iter().map(text).collect()
        };
        let code: Vec<Vec<(u64, String)>> = function.blocks.iter().map(insns).collect();
        let graph = graph::of_function(context, module, function, &code);
        Self {
            blocks: function.blocks.iter().map(|block| block_row(module, block)).collect(),
            edges: function.edges.iter().map(edge_row).collect(),
            calls: calls(context, module, function),
            source: program.map_or_else(Vec::new, |program| source(program, function)),
            code: if code.iter().all(Vec::is_empty) { Vec::new() } else { code },
            graph,
        }
    }
}

/// The instructions of a block: the profile may have kept the code, else the program has it.
fn instructions(program: Option<&Program<'_>>, function: &Function, block: &Block) -> Vec<Insn> {
    match (function.bytes_at(block.address, block.size.into()), program) {
        (Some(bytes), _) => Decode::new(bytes, LinkAddr(block.address)).collect(),
        (None, Some(program)) => super::super::binary::instructions(&program.image, block),
        (None, None) => Vec::new(),
    }
}

fn block_row(module: &Module, block: &Block) -> BlockRow {
    let place = block.line.map(|line| format!("{}:{}", module.file(line), line.line));
    let flags = u8::from(block.is_entry) | u8::from(block.is_landing_pad) << 1;
    let origin = block
        .count
        .filter(|count| !matches!(count.origin, Origin::Measured | Origin::Derived))
        .map(|count| (count.origin.to_string(), count.confidence.percent()));
    let count = block.count.map(Count::value);
    (block.address, block.size, block.insns, count, place, flags, origin)
}

fn edge_row(edge: &Edge) -> EdgeRow {
    let node = |node: relive_profile::model::Node| match (node.as_block(), node.as_hub()) {
        (Some(block), _) => Some(i64::from(block)),
        (None, Some(hub)) => Some(-1 - i64::from(hub)),
        (None, None) => None,
    };
    (node(edge.from), node(edge.to), edge.kind as u8, edge.count.map(Count::value))
}

fn calls(context: &Context<'_>, module: &Module, function: &Function) -> Vec<CallRow> {
    let mut rows = Vec::new();
    for call in &function.calls {
        for called in context.callees.of(module, function, call) {
            let row = called.function.and_then(|id| context.row(context.profile.function(id).1));
            let name = if called.name == "?" { "unknown".to_string() } else { context.shown(&called.name) };
            rows.push((call.address, row, row.is_none().then_some(name), called.count));
        }
    }
    rows
}

fn source<'p>(program: &'p Program<'_>, function: &Function) -> Vec<SourceRow<'p>> {
    let Some(LinesOf { own, executed }) = LinesOf::new(&program.image, &program.lines, function) else {
        return Vec::new();
    };
    let mut rows: Vec<SourceRow<'p>> = executed
        .into_iter()
        .map(|(path, lines)| {
            let line = |(line, executed): (u32, super::super::source::Executed)| {
                let known = |count| executed.is_known.then_some(count);
                (line, known(executed.times), known(executed.instructions))
            };
            SourceRow { path, file: 0, own: path == own, lines: lines.into_iter().map(line).collect() }
        })
        .collect();
    rows.sort_by_key(|row| !row.own);
    rows
}
