//! One function for people: its blocks with disassembly, source lines, loops and liveness.

use super::Subject;
use crate::args::Inspect;
use crate::output::{field, grouped};
use anyhow::Result;
use relive_code::addr::LinkAddr;
use relive_code::cfg::{Block, BlockId, Cfg, Edge, End, Target};
use relive_code::dominators::DominatorTree;
use relive_code::isa::{Decode, Insn, Syntax};
use relive_code::liveness::{Convention, Liveness};
use relive_code::loops::LoopForest;
use relive_code::stack_height::StackHeights;
use relive_image::names::demangle;
use relive_image::program::FunctionId;
use std::io::Write;

/// Prints everything about one function.
pub(crate) fn print(
    subject: &Subject<'_, '_>,
    id: FunctionId,
    args: &Inspect,
    out: &mut dyn Write,
) -> Result<()> {
    heading(subject, id, out)?;
    let cfg = &subject.program.function(id).cfg;
    let graph = cfg.graph();
    let loops = LoopForest::new(&graph, &DominatorTree::new(&graph, &cfg.roots()));
    let heights = StackHeights::new(cfg, &subject.image.elf);
    let liveness = args.liveness.then(|| Liveness::new(cfg, &subject.image.elf, &Convention::system_v()));
    let mut shown_line = None;
    for (id, block) in cfg.numbered_blocks() {
        block_heading(cfg, id, &loops, heights.at_block(id), out)?;
        let live = liveness.as_ref().map(|l| l.per_insn(id));
        for (index, insn) in instructions(subject, block).enumerate() {
            if let Some(line) =
                subject.lines.at(insn.addr()).filter(|line| shown_line != Some((line.file, line.line)))
            {
                shown_line = Some((line.file, line.line));
                writeln!(out, "      ; {}:{}{}", field(line.file), line.line, inlined(subject, insn.addr()))?;
            }
            if let Some((_, live)) = live.as_ref().and_then(|l| l.get(index)) {
                writeln!(out, "      ; live: {live}")?;
            }
            writeln!(
                out,
                "  {:>10x}  {}{}",
                insn.addr().0,
                insn.text(syntax(args)),
                remark(subject, block, &insn)
            )?;
        }
        for edge in cfg.edges_from(id) {
            writeln!(out, "      -> {}", edge_text(subject, cfg, edge))?;
        }
    }
    for table in &cfg.tables {
        writeln!(out, "{table}")?;
    }
    Ok(())
}

fn heading(subject: &Subject<'_, '_>, id: FunctionId, out: &mut dyn Write) -> Result<()> {
    let function = subject.program.function(id);
    let cfg = &function.cfg;
    writeln!(
        out,
        "{} at {}, {} bytes",
        field(&subject.name(function)),
        function.entry,
        grouped(function.size())
    )?;
    if function.names.len() > 1 {
        writeln!(
            out,
            "also called {}",
            function.names[1..].iter().map(|n| field(n)).collect::<Vec<_>>().join(", ")
        )?;
    }
    writeln!(out, "vouched for by {}", function.vouchers)?;
    if cfg.pieces.len() > 1 {
        writeln!(
            out,
            "in pieces {}",
            cfg.pieces.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        )?;
    }
    if cfg.entries.len() > 1 {
        let entries: Vec<String> = cfg.entries.iter().map(|&b| cfg.block(b).start.to_string()).collect();
        writeln!(out, "entered at {}", entries.join(", "))?;
    }
    if !function.returns {
        writeln!(out, "never returns")?;
    }
    if cfg.is_understood() {
        writeln!(out, "understood")?;
    }
    for problem in &cfg.problems {
        writeln!(
            out,
            "not understood: {} at {} ({})",
            problem.reason.explanation(),
            problem.at,
            problem.reason
        )?;
    }
    Ok(())
}

fn block_heading(
    cfg: &Cfg,
    id: BlockId,
    loops: &LoopForest,
    height: Option<i64>,
    out: &mut dyn Write,
) -> Result<()> {
    let block = cfg.block(id);
    write!(out, "\n{id} {} ({} bytes)", block.start, block.len)?;
    if cfg.entries.contains(&id) {
        write!(out, ", entry")?;
    }
    if cfg.landing_pads.contains(&id) {
        write!(out, ", landing pad")?;
    }
    if !block.reached {
        write!(out, ", unreached")?;
    }
    if let Some(inner) = loops.innermost(id.0) {
        let role = if loops[inner].header == id.0 { "heads" } else { "in" };
        write!(out, ", {role} {inner} (depth {})", loops.depth(id.0))?;
    }
    match height {
        Some(height) => write!(out, ", stack {height:+}")?,
        None => write!(out, ", stack unknown")?,
    }
    Ok(writeln!(out)?)
}

/// The functions that were inlined at `at`, as text behind the line.
fn inlined(subject: &Subject<'_, '_>, at: LinkAddr) -> String {
    let frames = subject.lines.inlined_at(at);
    let names: Vec<&str> = frames.iter().map(|f| f.function.as_str()).collect();
    match names.split_last() {
        Some((_, inner)) if !inner.is_empty() => format!("  (inlined: {})", inner.join(" in ")),
        _ => String::new(),
    }
}

/// What the operand of a call or a memory access means.
fn remark(subject: &Subject<'_, '_>, block: &Block, insn: &Insn) -> String {
    if insn.addr() != block.last_insn() {
        return String::new();
    }
    match block.end {
        End::Call(target) => format!("    ; {}", place_name(subject, target)),
        End::IndirectCall(Some(slot)) => {
            subject.image.import_at(slot).map_or(String::new(), |name| format!("    ; {name}"))
        }
        _ => String::new(),
    }
}

/// The name of the function or stub at `at`, with an offset if it is inside.
pub(crate) fn place_name(subject: &Subject<'_, '_>, at: LinkAddr) -> String {
    if let Some(stub) = subject.image.stub_holding(at) {
        return subject
            .image
            .stub_name(stub)
            .map_or_else(|| at.to_string(), |name| demangle(&name).into_owned());
    }
    match subject.program.function_holding(at).map(|id| subject.program.function(id)) {
        Some(function) if function.entry == at => subject.name(function).into_owned(),
        Some(function) if at > function.entry => {
            format!("{}+{:#x}", subject.name(function), at.since(function.entry))
        }
        _ => at.to_string(),
    }
}

fn edge_text(subject: &Subject<'_, '_>, cfg: &Cfg, edge: &Edge) -> String {
    match edge.to {
        Target::Block(to) => format!("{to} {} {}", cfg.block(to).start, edge.kind),
        Target::Outside(at) => format!("{} {}", place_name(subject, at), edge.kind),
        Target::Elsewhere => edge.kind.to_string(),
    }
}

/// The instructions of a block.
pub(crate) fn instructions<'s>(
    subject: &'s Subject<'_, '_>,
    block: &Block,
) -> impl Iterator<Item = Insn> + use<'s> {
    let bytes = subject.image.elf.bytes_in(block.start, u64::from(block.len)).unwrap_or(&[]);
    Decode::new(bytes, block.start)
}

/// The notation the user wants.
pub(crate) fn syntax(args: &Inspect) -> Syntax {
    if args.att { Syntax::Att } else { Syntax::Intel }
}
